#include "http/multipart.h"

#include <errno.h>

#include "base/attr.h"
#include "base/own.h"

enum { PART_HEAD_MAX = 4096, BOUNDARY_MAX = 70, BLOCK = 16 * 1024 };

static bool malformed(struct error *err, const char *what)
{
    return error_set(err, ERR_INVALID, "multipart body: %s", what);
}

/* Fewer than `want` bytes only at the end of the file. */
static bool read_at(const struct multipart *parts, uint64_t at, char *bytes, size_t want,
                    size_t *len, struct error *err)
{
    uint64_t left = at < parts->len ? parts->len - at : 0;

    *len = 0;
    if (want > left)
        want = (size_t)left;
    while (*len < want) {
        ssize_t got = pread(parts->fd, bytes + *len, want - *len, (off_t)(at + *len));

        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return error_errno(err, "read the spooled body");
        if (got == 0)
            return malformed(err, "cut short");
        *len += (size_t)got;
    }
    return true;
}

static bool is_boundary_byte(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
           (c && strchr("'()+_,-./:=?", c));
}

static struct str trim(struct str text)
{
    return str_trim(text, STR(" \t"));
}

/* One `name=value` or `name="value"` off the front of *rest, after its semicolon. */
static bool next_param(struct str *rest, struct str *name, char *value, size_t size)
{
    size_t len = 0, at = 0;

    *rest = trim(*rest);
    if (rest->len == 0 || rest->ptr[0] != ';')
        return false;
    *rest = (struct str){rest->ptr + 1, rest->len - 1};
    if (!str_split(rest, '=', name) || !rest->ptr)
        return false;
    *name = trim(*name);

    bool is_quoted = rest->len > 0 && rest->ptr[0] == '"';

    for (at = is_quoted; at < rest->len; at++) {
        char c = rest->ptr[at];

        if (is_quoted ? c == '"' : c == ';' || c == ' ')
            break;
        if (is_quoted && c == '\\' && at + 1 < rest->len)
            c = rest->ptr[++at];
        if ((unsigned char)c < ' ' || len + 1 >= size)
            return false;
        value[len++] = c;
    }
    if (is_quoted && at++ == rest->len)
        return false;
    value[len] = '\0';
    *rest = (struct str){rest->ptr + at, rest->len - at};
    return true;
}

bool multipart_begin(struct multipart *parts, struct str content_type, int fd, uint64_t len,
                     struct error *err)
{
    struct multipart made = {.fd = fd, .len = len};
    const char *semicolon =
        content_type.len ? memchr(content_type.ptr, ';', content_type.len) : NULL;
    size_t type_len = semicolon ? (size_t)(semicolon - content_type.ptr) : content_type.len;
    struct str rest = {content_type.ptr + type_len, content_type.len - type_len}, name;
    char value[BOUNDARY_MAX + 1];

    if (!str_equal_nocase(trim((struct str){content_type.ptr, type_len}),
                          STR("multipart/form-data")))
        return error_set(err, ERR_INVALID, "the body must be multipart/form-data");
    while (next_param(&rest, &name, value, sizeof value))
        if (str_equal_nocase(name, STR("boundary")))
            memcpy(made.boundary, value, sizeof value);
    for (const char *c = made.boundary; *c; c++)
        if (!is_boundary_byte(*c))
            return malformed(err, "its boundary has a byte that is not allowed");
    if (!made.boundary[0] || rest.len > 0)
        return malformed(err, "its boundary is missing");
    *parts = made;
    return true;
}

/* Reads "--boundary" and what follows it; *at moves behind. */
static bool take_delimiter(const struct multipart *parts, uint64_t *at, bool *is_last,
                           struct error *err)
{
    char line[2 + BOUNDARY_MAX + 2];
    size_t name_len = strlen(parts->boundary), len;

    if (!read_at(parts, *at, line, 2 + name_len + 2, &len, err))
        return false;
    if (len < 2 + name_len + 2 || memcmp(line, "--", 2) != 0 ||
        memcmp(line + 2, parts->boundary, name_len) != 0)
        return malformed(err, "a boundary is missing");
    *at += len;
    *is_last = memcmp(line + 2 + name_len, "--", 2) == 0;
    if (!*is_last && memcmp(line + 2 + name_len, "\r\n", 2) != 0)
        return malformed(err, "a boundary does not end its line");
    return true;
}

static bool take_disposition(struct str value, struct multipart_part *part, struct error *err)
{
    const char *semicolon = value.len ? memchr(value.ptr, ';', value.len) : NULL;
    size_t type_len = semicolon ? (size_t)(semicolon - value.ptr) : value.len;
    struct str rest = {value.ptr + type_len, value.len - type_len}, name;
    char text[sizeof part->filename];

    if (part->name[0])
        return malformed(err, "a part has two dispositions");
    if (!str_equal_nocase(trim((struct str){value.ptr, type_len}), STR("form-data")))
        return malformed(err, "a part is no form-data");
    while (next_param(&rest, &name, text, sizeof text)) {
        if (str_equal_nocase(name, STR("name"))) {
            if (part->name[0] || strlen(text) >= sizeof part->name)
                return malformed(err, "a part's name is too long or there twice");
            memcpy(part->name, text, strlen(text) + 1);
        } else if (str_equal_nocase(name, STR("filename"))) {
            memcpy(part->filename, text, sizeof text);
        }
    }
    if (trim(rest).len > 0 || !part->name[0])
        return malformed(err, "a part has no name");
    return true;
}

static bool take_headers(struct str head, struct multipart_part *part, struct error *err)
{
    struct str line, name;

    while (str_split(&head, '\n', &line)) {
        if (line.len == 0 && !head.ptr)
            break;
        if (line.len == 0 || line.ptr[line.len - 1] != '\r')
            return malformed(err, "a part's header does not end in CRLF");
        line.len--;
        if (memchr(line.ptr, '\0', line.len) || memchr(line.ptr, '\r', line.len) ||
            !str_split(&line, ':', &name) || !line.ptr || name.len == 0)
            return malformed(err, "a part's header is no header");
        if (str_equal_nocase(name, STR("content-disposition")) &&
            !take_disposition(line, part, err))
            return false;
    }
    if (!part->name[0])
        return malformed(err, "a part has no name");
    return true;
}

static bool take_part_head(const struct multipart *parts, uint64_t *at, struct multipart_part *part,
                           struct error *err)
{
    char head[PART_HEAD_MAX];
    size_t len;

    if (!read_at(parts, *at, head, sizeof head, &len, err))
        return false;

    const char *end = memmem(head, len, "\r\n\r\n", 4);

    if (!end)
        return malformed(err, "the headers of a part do not end");
    *at += (uint64_t)(end - head) + 4;
    return take_headers((struct str){head, (size_t)(end - head) + 2}, part, err);
}

/* The offset of the next "\r\n--boundary" from `from` on. */
static bool find_delimiter(const struct multipart *parts, uint64_t from, uint64_t *found,
                           struct error *err)
{
    char needle[4 + BOUNDARY_MAX + 1];
    char block[BLOCK];
    size_t needle_len = (size_t)snprintf(needle, sizeof needle, "\r\n--%s", parts->boundary), len;

    for (uint64_t at = from;; at += len - (needle_len - 1)) {
        if (!read_at(parts, at, block, BLOCK, &len, err))
            return false;
        if (len < needle_len)
            return malformed(err, "a part does not end");

        const char *hit = memmem(block, len, needle, needle_len);

        if (hit) {
            *found = at + (uint64_t)(hit - block);
            return true;
        }
        if (at + len >= parts->len)
            return malformed(err, "a part does not end");
    }
}

static bool check_end(const struct multipart *parts, uint64_t at, struct error *err)
{
    char line[2];
    size_t len;

    if (at == parts->len)
        return true;
    if (!read_at(parts, at, line, sizeof line, &len, err))
        return false;
    if (at + 2 != parts->len || memcmp(line, "\r\n", 2) != 0)
        return malformed(err, "there is something after its end");
    return true;
}

bool multipart_next(struct multipart *parts, struct multipart_part *part, bool *found,
                    struct error *err)
{
    struct multipart_part made = {0};
    uint64_t at = parts->at, end = 0;
    bool is_last = false;

    *found = false;
    if (parts->over)
        return true;
    if (!take_delimiter(parts, &at, &is_last, err))
        return false;
    if (is_last) {
        parts->over = true;
        return check_end(parts, at, err);
    }
    if (!take_part_head(parts, &at, &made, err) || !find_delimiter(parts, at, &end, err))
        return false;
    made.offset = at;
    made.len = end - at;
    parts->at = end + 2;
    *part = made;
    *found = true;
    return true;
}
