#include "image/glob.h"

#include "base/own.h"

/* One row of states: at[i] says that the pattern so far matches the first i bytes. */
struct row {
    bool *at;
    size_t n; /* bytes of the path */
};

/* "*", or "**" when it may cross a slash. */
static void match_run(struct row row, struct str path, bool crosses)
{
    for (size_t i = 1; i <= row.n; i++)
        row.at[i] = row.at[i] || (row.at[i - 1] && (crosses || path.ptr[i - 1] != '/'));
}

/* A folder and its slash, any number of times. */
static void match_folders(struct row row, struct str path)
{
    bool inside = false; /* of a name that began where the pattern matched */

    for (size_t i = 1; i <= row.n; i++) {
        bool is_slash = path.ptr[i - 1] == '/';
        bool ends = is_slash && inside;
        inside = !is_slash && (inside || row.at[i - 1]);
        row.at[i] = row.at[i] || ends;
    }
}

static void match_one(struct row row, struct str path, char wanted)
{
    for (size_t i = row.n; i > 0; i--) {
        char c = path.ptr[i - 1];
        row.at[i] = row.at[i - 1] && (wanted == '?' ? c != '/' : c == wanted);
    }
    row.at[0] = false;
}

bool glob_match(struct str pattern, struct str path)
{
    AUTO_FREE bool *states = alloc((path.len + 1) * sizeof *states);
    struct row row = {states, path.len};

    if (pattern.len > 2 && memcmp(pattern.ptr, "./", 2) == 0)
        pattern = (struct str){pattern.ptr + 2, pattern.len - 2};
    /* "docs/" means the folder, as people write it. */
    while (pattern.len > 1 && pattern.ptr[pattern.len - 1] == '/')
        pattern.len--;
    for (size_t i = 0; i <= path.len; i++)
        states[i] = i == 0;
    for (size_t i = 0; i < pattern.len; i++) {
        struct str rest = {pattern.ptr + i, pattern.len - i};
        if (rest.len >= 3 && memcmp(rest.ptr, "**/", 3) == 0) {
            match_folders(row, path);
            i += 2;
        } else if (rest.len >= 2 && memcmp(rest.ptr, "**", 2) == 0) {
            match_run(row, path, true);
            i += 1;
        } else if (rest.ptr[0] == '*') {
            match_run(row, path, false);
        } else {
            match_one(row, path, rest.ptr[0]);
        }
    }
    return states[path.len];
}
