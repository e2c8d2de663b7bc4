/* The attributes of the transport driver "fobs" of Globus XIO. */
#ifndef GLOBUS_XIO_FOBS_H
#define GLOBUS_XIO_FOBS_H

#ifdef __cplusplus
extern "C" {
#endif

typedef enum {
    /* const char *name, const char *value: an option of fobs by its name on the command line, with _ for -, such as
     * "rate", "500M". Refused with a sentence where it is not possible. */
    GLOBUS_XIO_FOBS_SET_OPTION = 1,
    /* const char *host: the daemon where a server listens, "fobs://host:port"; this host's without. */
    GLOBUS_XIO_FOBS_SET_DAEMON,
    /* int seconds: how long an open asks for a name while no one listens, 30 without; 0 or less is refused. */
    GLOBUS_XIO_FOBS_SET_WAIT,
    /* const char *value: options as in the strings of a stack, each by its own name. */
    GLOBUS_XIO_FOBS_SET_RATE,
    GLOBUS_XIO_FOBS_SET_CC,
    GLOBUS_XIO_FOBS_SET_UDP_PORTS,
    GLOBUS_XIO_FOBS_SET_IDENTITY,
    GLOBUS_XIO_FOBS_SET_KNOWN_HOSTS,
    GLOBUS_XIO_FOBS_SET_MEMORY,
    GLOBUS_XIO_FOBS_SET_TRANSPORT
} globus_xio_fobs_attr_cmd_t;

#ifdef __cplusplus
}
#endif

#endif
