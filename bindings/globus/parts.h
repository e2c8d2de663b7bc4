/* What the driver's parts have in common. */
#ifndef FOBS_XIO_PARTS_H
#define FOBS_XIO_PARTS_H

#include <stdint.h>

#include "globus_xio_driver.h"

#include "fobs.h"
#include "globus_xio_fobs.h"

enum {
    /* Bytes of a URL or a name, its NUL included. */
    FOBS_XIO_NAME_BYTES = 300,
    FOBS_XIO_OPTIONS_MAX = 64
};

/* Options of a stack or an attribute. */
typedef struct {
    uint64_t options;
    int wait_seconds;
    char daemon[FOBS_XIO_NAME_BYTES];
    /* Each option as "name=value", so that a copy can be made. */
    char *named[FOBS_XIO_OPTIONS_MAX];
    int count;
} fobs_attr_t;

globus_result_t fobs_xio_attr_init(void **out);
globus_result_t fobs_xio_attr_copy(void **out, void *driver_attr);
globus_result_t fobs_xio_attr_cntl(void *driver_attr, int command, va_list arguments);
globus_result_t fobs_xio_attr_destroy(void *driver_attr);
extern globus_xio_string_cntl_table_t fobs_xio_strings[];

/* An error with its sentence; that of the last call of the library. */
globus_result_t fobs_xio_wrong(const char *what, const char *why);
globus_result_t fobs_xio_failed(const char *what);

#endif
