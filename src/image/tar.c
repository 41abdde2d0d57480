#include "image/tar.h"

static bool refuse(struct error *err, struct str raw, const char *why)
{
    char shown[129];
    size_t len = raw.len < sizeof shown - 1 ? raw.len : sizeof shown - 1;

    for (size_t i = 0; i < len; i++)
        shown[i] = (char)(raw.ptr[i] < ' ' || raw.ptr[i] > '~' ? '?' : raw.ptr[i]);
    shown[len] = '\0';
    return error_set(err, ERR_ARCHIVE_INVALID, "the archive's entry \"%s\" %s", shown, why);
}

bool tar_path(struct str raw, char path[TAR_PATH], struct error *err)
{
    struct str rest = raw, segment;
    size_t len = 0, depth = 0;

    if (raw.len == 0)
        return refuse(err, raw, "has no name");
    if (memchr(raw.ptr, '\0', raw.len))
        return refuse(err, raw, "has a NUL in its name");
    if (raw.ptr[0] == '/')
        return refuse(err, raw, "is an absolute path");
    while (str_split(&rest, '/', &segment)) {
        if (segment.len == 0 || str_equal(segment, STR(".")))
            continue;
        if (str_equal(segment, STR("..")))
            return refuse(err, raw, "has a \"..\" in its path");
        if (segment.len > TAR_NAME_MAX)
            return refuse(err, raw, "has a name over 255 bytes");
        if (len + segment.len + 1 > TAR_PATH_MAX)
            return refuse(err, raw, "has a path over 4095 bytes");
        if (++depth > TAR_DEPTH_MAX)
            return refuse(err, raw, "lies over 256 folders deep");
        if (len)
            path[len++] = '/';
        memcpy(path + len, segment.ptr, segment.len);
        len += segment.len;
    }
    path[len] = '\0';
    return true;
}

enum tar_marker tar_marker(const char *path, const char **hidden)
{
    const char *slash = strrchr(path, '/');
    const char *name = slash ? slash + 1 : path;

    *hidden = NULL;
    if (strncmp(name, ".wh.", 4) != 0)
        return TAR_PLAIN;
    if (strcmp(name, ".wh..wh..opq") == 0)
        return TAR_OPAQUE;
    if (strncmp(name, ".wh..wh.", 8) == 0)
        return TAR_BOOKKEEPING;
    name += 4;
    if (*name == '\0' || strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
        return TAR_BAD_MARKER;
    *hidden = name;
    return TAR_WHITEOUT;
}

bool tar_link_stays_inside(const char *path, struct str target)
{
    long depth = 0;
    struct str rest = target, segment;

    if (target.len == 0 || target.ptr[0] == '/' || memchr(target.ptr, '\0', target.len))
        return false;
    for (const char *at = path; *at; at++)
        depth += *at == '/';
    while (str_split(&rest, '/', &segment)) {
        if (segment.len == 0 || str_equal(segment, STR(".")))
            continue;
        depth += str_equal(segment, STR("..")) ? -1 : 1;
        if (depth < 0)
            return false;
    }
    return true;
}

bool tar_spend(struct tar_budget *budget, int64_t bytes, struct error *err)
{
    if (bytes < 0)
        return error_set(err, ERR_ARCHIVE_INVALID, "an entry of the archive has a negative size");
    if (budget->entries < 1)
        return error_set(err, ERR_ARCHIVE_TOO_LARGE, "the archive has too many entries");
    if (bytes > budget->bytes)
        return error_set(err, ERR_ARCHIVE_TOO_LARGE, "the archive's files are too large");
    budget->entries--;
    budget->bytes -= bytes;
    return true;
}

bool tar_ratio_is_sane(int64_t in, int64_t out)
{
    return out <= (int64_t)64 << 20 || out / 200 <= in;
}
