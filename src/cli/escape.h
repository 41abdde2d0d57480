/* Keys of a terminal that are for us and not for the program at the other end: a tilde at the
 * start of a line and what follows it.
 *
 * Everything else goes through as it came, also a tilde that nothing of ours follows. What a
 * terminal marks as pasted is never ours.
 */
#pragma once

#include "base/buf.h"

enum escape_action {
    ESCAPE_NONE,
    ESCAPE_DETACH, /* ~. */
    ESCAPE_HELP,   /* ~? */
};

struct escape {
    bool is_in_line;  /* something was typed since the last line end */
    bool has_tilde;   /* one at the start of a line waits for what follows */
    bool is_pasted;   /* between the marks of a paste */
    size_t n_matched; /* bytes of a mark that have come */
};

/* Takes bytes up to the first that is ours; *used says how many, `out` gets what goes through and
 * must have room for len + 1 bytes. */
enum escape_action escape_take(struct escape *escape, struct str bytes, size_t *used, char *out,
                               size_t *len);
