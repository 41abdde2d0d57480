/* For tests of differences: what a patch makes of a text, by rules of its own. */
#pragma once

#include <stdio.h>
#include <stdlib.h>

#include "base/buf.h"

static inline struct str patch_line(struct str *rest)
{
    const char *end = rest->len ? memchr(rest->ptr, '\n', rest->len) : NULL;
    size_t len = end ? (size_t)(end - rest->ptr) + 1 : rest->len;
    struct str line = {rest->ptr, len};

    *rest = (struct str){rest->ptr + len, rest->len - len};
    return line;
}

/* The line of a hunk without its sign, and without its line end where the next line says so. */
static inline struct str patch_text(struct str line, struct str *patch)
{
    static const char none[] = "\\ No newline at end of file\n";
    struct str text = {line.ptr + 1, line.len - 1};

    if (patch->len >= sizeof none - 1 && memcmp(patch->ptr, none, sizeof none - 1) == 0) {
        patch_line(patch);
        text.len--;
    }
    return text;
}

/* False unless every line of the patch fits. */
static inline bool patch_apply(struct str before, struct str patch, struct buf *after)
{
    struct error err;
    int at = 0;

    while (patch.len > 0) {
        struct str line = patch_line(&patch);
        int from, n;

        if (line.ptr[0] == '@') {
            char head[64];
            snprintf(head, sizeof head, "%.*s", (int)line.len, line.ptr);
            if (sscanf(head, "@@ -%d,%d", &from, &n) != 2)
                return false;
            for (; at < from - (n > 0); at++)
                if (before.len == 0 || !buf_append(after, patch_line(&before), &err))
                    return false;
            continue;
        }
        struct str text = patch_text(line, &patch);
        if (line.ptr[0] != '+') {
            at++;
            if (!str_equal(patch_line(&before), text))
                return false;
        }
        if (line.ptr[0] != '-' && !buf_append(after, text, &err))
            return false;
    }
    return buf_append(after, before, &err);
}
