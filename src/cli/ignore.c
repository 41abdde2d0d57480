#include "cli/ignore.h"

#include "base/attr.h"

static const char *const names[] = {"node_modules", ".git", ".helmr", ".next", ".env"};

bool ignore_name(struct str name)
{
    for (size_t i = 0; i < COUNT_OF(names); i++) {
        if (str_equal(name, str_of(names[i])))
            return true;
    }
    return name.len > 5 && memcmp(name.ptr, ".env.", 5) == 0;
}

/* How deep a path leads from `depth`, or -1 as soon as it would be above the root. */
static long walk(struct str path, long depth)
{
    struct str piece;

    while (str_split(&path, '/', &piece)) {
        if (piece.len == 0 || str_equal(piece, STR(".")))
            continue;
        depth += str_equal(piece, STR("..")) ? -1 : 1;
        if (depth < 0)
            return -1;
    }
    return depth;
}

bool ignore_link_stays_inside(struct str path, struct str target)
{
    long depth = walk(path, 0);

    return target.len > 0 && target.ptr[0] != '/' && depth > 0 && walk(target, depth - 1) >= 0;
}
