/* What the command line of the guest's kernel tells the agent. Words that are not ours are nobody's
 * business here; one of ours that is not understood is an error.
 */
#pragma once

#include <stdint.h>

#include "base/error.h"
#include "base/str.h"

enum transport_kind { TRANSPORT_SERIAL, TRANSPORT_VSOCK };

enum { KERNEL_DRIVES_MAX = 8 };

struct kernel_line {
    enum transport_kind transport; /* helmr.channel=serial|vsock; serial unless told */
    uint32_t abi;                  /* helmr.abi=N, or 0 */
    struct str
        drives[KERNEL_DRIVES_MAX]; /* helmr.drives=root,scratch,… in the order of the disks */
    size_t n_drives;
};

/* Borrows from the text. */
bool kernel_line_parse(struct str text, struct kernel_line *line, struct error *err) MUST_USE;

const char *transport_name(enum transport_kind kind);
