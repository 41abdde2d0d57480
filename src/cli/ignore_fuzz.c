/* A link's path and, behind a NUL, its target. What a path means does not change with a redundant
 * "./" in front or a slash more, and what stays inside still does one directory further down. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/own.h"
#include "cli/ignore.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len);

static bool judge(struct str path, const char *before, struct str target, const char *after)
{
    char *text = NULL;
    int written = asprintf(&text, "%s%.*s%s", before, (int)target.len, target.ptr, after);

    if (written < 0)
        abort();
    bool stays = ignore_link_stays_inside(path, (struct str){text, (size_t)written});
    free(text);
    return stays;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    struct str rest = {(const char *)bytes, len}, path;

    if (len > 4096 || !str_split(&rest, '\0', &path) || rest.len == 0 ||
        memchr(rest.ptr, '\0', rest.len))
        return 0;

    bool stays = ignore_link_stays_inside(path, rest);
    AUTO_FREE char *below = alloc(path.len + 4);
    int below_len = snprintf(below, path.len + 4, "d/%.*s", (int)path.len, path.ptr);

    if (rest.ptr[0] != '/' && stays != judge(path, "./", rest, ""))
        abort();
    if (stays != judge(path, "", rest, "/"))
        abort();
    if (stays && !ignore_link_stays_inside((struct str){below, (size_t)below_len}, rest))
        abort();
    (void)ignore_name(path);
    return 0;
}
