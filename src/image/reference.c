#include "image/reference.h"

#include "image/digest.h"

static bool is_lower_or_digit(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
}

static bool is_word(char c)
{
    return is_lower_or_digit(c) || (c >= 'A' && c <= 'Z') || c == '_';
}

static bool refuse(struct error *err, struct str text, const char *why)
{
    int shown = text.len > 128 ? 128 : (int)text.len;

    for (int i = 0; i < shown; i++)
        if (text.ptr[i] < ' ' || text.ptr[i] > '~')
            return error_set(err, ERR_INVALID, "an image reference %s", why);
    return error_set(err, ERR_INVALID, "the image reference \"%.*s\" %s", shown, text.ptr, why);
}

static bool copy_text(char *room, size_t size, struct str text)
{
    if (text.len >= size)
        return false;
    memcpy(room, text.ptr, text.len);
    room[text.len] = '\0';
    return true;
}

static bool tag_is_valid(struct str tag)
{
    if (tag.len == 0 || tag.len > 128 || !is_word(tag.ptr[0]))
        return false;
    for (size_t i = 1; i < tag.len; i++)
        if (!is_word(tag.ptr[i]) && tag.ptr[i] != '.' && tag.ptr[i] != '-')
            return false;
    return true;
}

/* One separator (".", "_", "__" or any run of "-") between runs of lower-case letters and digits.
 */
static bool segment_is_valid(struct str segment)
{
    size_t at = 0;

    if (segment.len == 0)
        return false;
    while (at < segment.len) {
        size_t word = at;
        while (at < segment.len && is_lower_or_digit(segment.ptr[at]))
            at++;
        if (at == word)
            return false;
        if (at == segment.len)
            return true;
        size_t start = at;
        char separator = segment.ptr[at];
        while (at < segment.len && segment.ptr[at] == separator)
            at++;
        size_t run = at - start;
        if ((separator == '.' && run > 1) || (separator == '_' && run > 2) ||
            (separator != '.' && separator != '_' && separator != '-'))
            return false;
    }
    return false;
}

static bool repository_is_valid(struct str repository)
{
    struct str rest = repository, segment;

    if (repository.len == 0)
        return false;
    while (str_split(&rest, '/', &segment))
        if (!segment_is_valid(segment))
            return false;
    return true;
}

static bool port_is_valid(struct str port)
{
    long value = 0;

    if (port.len == 0 || port.len > 5)
        return false;
    for (size_t i = 0; i < port.len; i++) {
        if (port.ptr[i] < '0' || port.ptr[i] > '9')
            return false;
        value = value * 10 + (port.ptr[i] - '0');
    }
    return value > 0 && value <= 65535;
}

static bool host_is_valid(struct str host)
{
    struct str rest = host, name, label;

    if (!str_split(&rest, ':', &name) || (rest.ptr && !port_is_valid(rest)))
        return false;
    while (str_split(&name, '.', &label)) {
        if (label.len == 0 || label.ptr[0] == '-' || label.ptr[label.len - 1] == '-')
            return false;
        for (size_t i = 0; i < label.len; i++)
            if (!is_lower_or_digit(label.ptr[i]) && label.ptr[i] != '-')
                return false;
    }
    return true;
}

/* The first segment is a host when it could not be a Docker Hub user's name. */
static bool is_host(struct str segment)
{
    return memchr(segment.ptr, '.', segment.len) || memchr(segment.ptr, ':', segment.len) ||
           str_equal(segment, STR("localhost"));
}

static bool parse_name(struct str text, struct str name, struct reference *reference,
                       struct error *err)
{
    struct str rest = name, first;

    if (!str_split(&rest, '/', &first) || !rest.ptr || first.len == 0 || !is_host(first)) {
        rest = name;
        first = STR("docker.io");
    }
    /* The old name of the same registry. */
    if (str_equal(first, STR("index.docker.io")))
        first = STR("docker.io");
    if (!host_is_valid(first) || !copy_text(reference->host, sizeof reference->host, first))
        return refuse(err, text, "has no valid host");
    if (!repository_is_valid(rest))
        return refuse(err, text,
                      "has no valid repository (lower-case letters and digits, with "
                      "single separators)");

    bool is_official =
        strcmp(reference->host, "docker.io") == 0 && !memchr(rest.ptr, '/', rest.len);
    int written = snprintf(reference->repository, sizeof reference->repository, "%s%.*s",
                           is_official ? "library/" : "", (int)rest.len, rest.ptr);
    if (written < 0 || (size_t)written >= sizeof reference->repository)
        return refuse(err, text, "has too long a repository");
    return true;
}

bool reference_parse(struct str text, struct reference *reference, struct error *err)
{
    struct reference parsed = {0};
    struct str name = text;

    if (!text.ptr || text.len == 0 || text.len > 480)
        return refuse(err, text, "must have 1 to 480 characters");

    const char *at = memchr(text.ptr, '@', text.len);
    if (at) {
        struct str digest = {at + 1, text.len - (size_t)(at - text.ptr) - 1};
        if (!digest_is_valid(digest))
            return refuse(err, text, "has no valid sha256 digest");
        (void)copy_text(parsed.digest, sizeof parsed.digest, digest);
        name.len = (size_t)(at - text.ptr);
    }

    const char *slash = name.len ? memrchr(name.ptr, '/', name.len) : NULL;
    size_t last = slash ? (size_t)(slash - name.ptr) + 1 : 0;
    const char *colon = memchr(name.ptr + last, ':', name.len - last);
    if (colon) {
        struct str tag = {colon + 1, name.len - (size_t)(colon - name.ptr) - 1};
        if (!tag_is_valid(tag))
            return refuse(err, text, "has no valid tag");
        (void)copy_text(parsed.tag, sizeof parsed.tag, tag);
        name.len = (size_t)(colon - name.ptr);
    } else if (!at) {
        (void)copy_text(parsed.tag, sizeof parsed.tag, STR("latest"));
    }
    if (name.len == 0)
        return refuse(err, text, "has no repository");
    if (!parse_name(text, name, &parsed, err))
        return false;
    *reference = parsed;
    return true;
}

void reference_format(const struct reference *reference, char text[REFERENCE_TEXT])
{
    (void)snprintf(text, REFERENCE_TEXT, "%s/%s%s%s%s%s", reference->host, reference->repository,
                   reference->tag[0] ? ":" : "", reference->tag, reference->digest[0] ? "@" : "",
                   reference->digest);
}
