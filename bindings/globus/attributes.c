/* The attributes of the driver, the strings of a stack and the errors. */

#include <stdlib.h>
#include <string.h>

#include "parts.h"

/* Seconds for which an open asks for a name: the other end is told of the contact by a control channel. */
#define WAIT_SECONDS 30

globus_result_t fobs_xio_wrong(const char *what, const char *why)
{
    return globus_error_put(globus_error_construct_error(
        GLOBUS_XIO_MODULE, NULL, GLOBUS_XIO_ERROR_SYSTEM_ERROR, __FILE__, "fobs", __LINE__, "%s: %s", what, why));
}

globus_result_t fobs_xio_failed(const char *what)
{
    return fobs_xio_wrong(what, fobs_last_error());
}

static globus_result_t set_option(fobs_attr_t *attr, const char *name, const char *value)
{
    if (name == NULL || value == NULL)
        return fobs_xio_wrong("an option of fobs", "its name or its value is null");
    if (attr->count == FOBS_XIO_OPTIONS_MAX)
        return fobs_xio_wrong(name, "there are too many options");
    if (fobs_options_set(attr->options, name, value))
        return fobs_xio_failed(name);
    attr->named[attr->count++] = globus_common_create_string("%s=%s", name, value);
    return GLOBUS_SUCCESS;
}

globus_result_t fobs_xio_attr_destroy(void *driver_attr)
{
    fobs_attr_t *attr = driver_attr;
    while (attr->count > 0)
        globus_free(attr->named[--attr->count]);
    fobs_options_free(attr->options);
    globus_free(attr);
    return GLOBUS_SUCCESS;
}

static globus_result_t set_wait(fobs_attr_t *attr, int seconds)
{
    if (seconds <= 0)
        return fobs_xio_wrong("the wait", "give 1 second or more");
    attr->wait_seconds = seconds;
    return GLOBUS_SUCCESS;
}

static globus_result_t set_pair(fobs_attr_t *attr, char *pair)
{
    char *value = strchr(pair, '=');
    if (value == NULL)
        return fobs_xio_wrong(pair, "give name=value");
    *value++ = 0;
    if (strcmp(pair, "daemon") == 0 && strlen(value) < sizeof attr->daemon) {
        strcpy(attr->daemon, value);
        return GLOBUS_SUCCESS;
    }
    if (strcmp(pair, "wait") == 0)
        return set_wait(attr, atoi(value));
    return set_option(attr, pair, value);
}

/* With what FOBS_XIO says: options as name=value with ; between them. */
globus_result_t fobs_xio_attr_init(void **out)
{
    globus_result_t result = GLOBUS_SUCCESS;
    const char *from_environment = getenv("FOBS_XIO");
    fobs_attr_t *attr = globus_calloc(1, sizeof *attr);
    attr->wait_seconds = WAIT_SECONDS;
    if (fobs_options_new(&attr->options)) {
        globus_free(attr);
        return fobs_xio_failed("options of fobs");
    }
    if (from_environment != NULL) {
        char *rest = NULL, *text = strdup(from_environment);
        for (char *pair = strtok_r(text, ";", &rest); pair != NULL; pair = strtok_r(NULL, ";", &rest))
            if ((result = set_pair(attr, pair)) != GLOBUS_SUCCESS)
                break;
        free(text);
    }
    if (result != GLOBUS_SUCCESS)
        fobs_xio_attr_destroy(attr);
    else
        *out = attr;
    return result;
}

globus_result_t fobs_xio_attr_copy(void **out, void *driver_attr)
{
    fobs_attr_t *from = driver_attr, *to = globus_calloc(1, sizeof *to);
    to->wait_seconds = from->wait_seconds;
    strcpy(to->daemon, from->daemon);
    if (fobs_options_new(&to->options)) {
        globus_free(to);
        return fobs_xio_failed("options of fobs");
    }
    for (int at = 0; at < from->count; at++) {
        char *pair = strdup(from->named[at]);
        globus_result_t result = set_pair(to, pair);
        free(pair);
        if (result != GLOBUS_SUCCESS) {
            fobs_xio_attr_destroy(to);
            return result;
        }
    }
    *out = to;
    return GLOBUS_SUCCESS;
}

globus_result_t fobs_xio_attr_cntl(void *driver_attr, int command, va_list arguments)
{
    fobs_attr_t *attr = driver_attr;
    const char *name, *text;
    switch (command) {
    case GLOBUS_XIO_FOBS_SET_OPTION:
        name = va_arg(arguments, const char *);
        return set_option(attr, name, va_arg(arguments, const char *));
    case GLOBUS_XIO_FOBS_SET_DAEMON:
        text = va_arg(arguments, const char *);
        if (text == NULL || strlen(text) >= sizeof attr->daemon)
            return fobs_xio_wrong("the daemon", "it is null or too long; give fobs://host:port");
        strcpy(attr->daemon, text);
        return GLOBUS_SUCCESS;
    case GLOBUS_XIO_FOBS_SET_WAIT:
        return set_wait(attr, va_arg(arguments, int));
    case GLOBUS_XIO_FOBS_SET_RATE:
        return set_option(attr, "rate", va_arg(arguments, const char *));
    case GLOBUS_XIO_FOBS_SET_CC:
        return set_option(attr, "cc", va_arg(arguments, const char *));
    case GLOBUS_XIO_FOBS_SET_UDP_PORTS:
        return set_option(attr, "udp_ports", va_arg(arguments, const char *));
    case GLOBUS_XIO_FOBS_SET_IDENTITY:
        return set_option(attr, "identity", va_arg(arguments, const char *));
    case GLOBUS_XIO_FOBS_SET_KNOWN_HOSTS:
        return set_option(attr, "known_hosts", va_arg(arguments, const char *));
    case GLOBUS_XIO_FOBS_SET_MEMORY:
        return set_option(attr, "memory", va_arg(arguments, const char *));
    case GLOBUS_XIO_FOBS_SET_TRANSPORT:
        return set_option(attr, "transport", va_arg(arguments, const char *));
    default:
        /* Of another driver. */
        return GLOBUS_SUCCESS;
    }
}

globus_xio_string_cntl_table_t fobs_xio_strings[] = {
    {"rate", GLOBUS_XIO_FOBS_SET_RATE, globus_xio_string_cntl_string},
    {"cc", GLOBUS_XIO_FOBS_SET_CC, globus_xio_string_cntl_string},
    {"udp_ports", GLOBUS_XIO_FOBS_SET_UDP_PORTS, globus_xio_string_cntl_string},
    {"identity", GLOBUS_XIO_FOBS_SET_IDENTITY, globus_xio_string_cntl_string},
    {"known_hosts", GLOBUS_XIO_FOBS_SET_KNOWN_HOSTS, globus_xio_string_cntl_string},
    {"memory", GLOBUS_XIO_FOBS_SET_MEMORY, globus_xio_string_cntl_string},
    {"transport", GLOBUS_XIO_FOBS_SET_TRANSPORT, globus_xio_string_cntl_string},
    {"daemon", GLOBUS_XIO_FOBS_SET_DAEMON, globus_xio_string_cntl_string},
    {"wait", GLOBUS_XIO_FOBS_SET_WAIT, globus_xio_string_cntl_int},
    {NULL, 0, NULL}};

