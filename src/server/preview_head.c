#include "server/preview_head.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/str.h"

enum { HEADERS_MAX = 128 };

/* For one connection only. */
static const char *const of_connection[] = {
    "connection",
    "keep-alive",
    "proxy-connection",
    "proxy-authenticate",
    "proxy-authorization",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
};

/* What a browser says to us alone, and what we say ourselves. */
static const char *const not_for_program[] = {
    "authorization", "cookie", "content-length", "expect", "forwarded", "host", "x-real-ip",
};

/* What would speak for the whole origin, which other previews have, too. */
static const char *const not_for_browser[] = {
    "alt-svc",
    "clear-site-data",
    "content-length",
    "service-worker-allowed",
    "set-cookie",
    "location",
    "strict-transport-security",
};

static bool is_among(struct str name, const char *const *list, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (str_equal_nocase(name, str_of(list[i])))
            return true;
    return false;
}

static bool starts(struct str text, struct str with)
{
    return text.len >= with.len && strncasecmp(text.ptr, with.ptr, with.len) == 0;
}

/* Whether a Connection header names this one as its own. */
static bool is_named(struct str connection, struct str name)
{
    struct str piece;

    while (str_split(&connection, ',', &piece))
        if (str_equal_nocase(str_trim(piece, STR(" \t")), name))
            return true;
    return false;
}

static bool add(struct buf *out, struct str name, struct str value, struct error *err)
{
    return buf_append(out, name, err) && buf_append(out, STR(": "), err) &&
           buf_append(out, value, err) && buf_append(out, STR("\r\n"), err);
}

/* A browser sends the cookies of a host to every port of it. */
static bool is_our_cookie(struct str name)
{
    return starts(name, STR("helmr_")) || starts(name, STR("__Host-helmr_"));
}

static bool add_cookies(struct str value, struct buf *out, struct error *err)
{
    struct str piece, rest, name;
    bool is_first = true;

    while (str_split(&value, ';', &piece)) {
        rest = piece = str_trim(piece, STR(" \t"));
        if (piece.len == 0 || !str_split(&rest, '=', &name) ||
            is_our_cookie(str_trim(name, STR(" \t"))))
            continue;
        if (!buf_append(out, is_first ? STR("Cookie: ") : STR("; "), err) ||
            !buf_append(out, piece, err))
            return false;
        is_first = false;
    }
    return is_first || buf_append(out, STR("\r\n"), err);
}

static bool add_headers(const struct request *request, struct buf *out, struct error *err)
{
    struct str connection = request_header(request, STR("connection"));

    for (size_t i = 0; i < request->n_headers; i++) {
        struct str name = request->headers[i].name, value = request->headers[i].value;

        if (str_equal_nocase(name, STR("cookie")) && !add_cookies(value, out, err))
            return false;
        if (is_among(name, of_connection, COUNT_OF(of_connection)) ||
            is_among(name, not_for_program, COUNT_OF(not_for_program)) ||
            (request->upgrade && str_equal_nocase(name, STR("origin"))) ||
            starts(name, STR("x-forwarded-")) || is_named(connection, name))
            continue;
        if (!add(out, name, value, err))
            return false;
    }
    return true;
}

/* What follows the third segment, with its slash. */
static struct str path_below(struct str path)
{
    struct str rest = path, piece;

    for (int i = 0; i < 4; i++)
        str_split(&rest, '/', &piece);
    return (struct str){rest.ptr - 1, rest.len + 1};
}

static const char *method_of(const struct request *request)
{
    static const char *const names[] = {
        [METHOD_UNKNOWN] = "GET",   [METHOD_GET] = "GET",         [METHOD_HEAD] = "HEAD",
        [METHOD_POST] = "POST",     [METHOD_PUT] = "PUT",         [METHOD_PATCH] = "PATCH",
        [METHOD_DELETE] = "DELETE", [METHOD_OPTIONS] = "OPTIONS",
    };

    return names[request->method];
}

static const char *connection_of(const struct call *call, const struct preview_side *side)
{
    if (!call->request->upgrade)
        return "Connection: close\r\n";
    return arena_printf(
        call->arena, "Connection: Upgrade\r\nUpgrade: websocket\r\nOrigin: http://127.0.0.1:%u\r\n",
        side->port);
}

bool preview_request_head(const struct call *call, const struct preview_side *side,
                          uint64_t body_len, struct buf *out, struct error *err)
{
    const struct request *request = call->request;
    struct str path = path_below(call->path);
    bool has_body = body_len > 0 || request->method == METHOD_POST ||
                    request->method == METHOD_PUT || request->method == METHOD_PATCH;
    const char *first =
        arena_printf(call->arena, "%s %.*s%s%.*s HTTP/1.%d\r\nHost: 127.0.0.1:%u\r\n%s",
                     method_of(request), (int)path.len, path.ptr, call->query.ptr ? "?" : "",
                     (int)call->query.len, call->query.ptr ? call->query.ptr : "",
                     request->is_old ? 0 : 1, side->port, connection_of(call, side));
    const char *last =
        arena_printf(call->arena,
                     "X-Forwarded-For: %s\r\nX-Forwarded-Proto: %s\r\nX-Forwarded-Host: %.*s\r\n"
                     "X-Forwarded-Prefix: %s\r\n",
                     call_client_address(call), side->is_secure ? "https" : "http",
                     (int)call->host.len, call->host.ptr ? call->host.ptr : "", side->prefix);
    const char *length =
        has_body ? arena_printf(call->arena, "Content-Length: %" PRIu64 "\r\n", body_len) : "";

    return buf_append(out, str_of(first), err) && add_headers(request, out, err) &&
           buf_append(out, str_of(last), err) && buf_append(out, str_of(length), err) &&
           buf_append(out, STR("\r\n"), err);
}

static bool is_wrong(struct error *err)
{
    return error_set(err, ERR_INVALID, "the program did not answer with HTTP");
}

static bool read_status(struct str line, int *status)
{
    if (line.len < 12 || !starts(line, STR("HTTP/1.")) || line.ptr[8] != ' ' ||
        (line.len > 12 && line.ptr[12] != ' '))
        return false;
    *status = 0;
    for (size_t i = 9; i < 12; i++) {
        if (line.ptr[i] < '0' || line.ptr[i] > '9')
            return false;
        *status = *status * 10 + (line.ptr[i] - '0');
    }
    return *status >= 100 && *status < 600;
}

static bool read_line(struct str *rest, struct str *line)
{
    const char *at = memmem(rest->ptr, rest->len, "\r\n", 2);

    if (!at)
        return false;
    *line = (struct str){rest->ptr, (size_t)(at - rest->ptr)};
    *rest = (struct str){at + 2, rest->len - line->len - 2};
    for (size_t i = 0; i < line->len; i++)
        if (((unsigned char)line->ptr[i] < ' ' && line->ptr[i] != '\t') || line->ptr[i] == 0x7f)
            return false;
    return true;
}

/* A line that begins with a space would go on with the one before it, for some. */
static bool read_header(struct str line, struct header *header)
{
    static const char token[] = "!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyz"
                                "ABCDEFGHIJKLMNOPQRSTUVWXYZ";
    struct str rest = line;

    if (!str_split(&rest, ':', &header->name) || !rest.ptr || header->name.len == 0)
        return false;
    for (size_t i = 0; i < header->name.len; i++)
        if (!memchr(token, header->name.ptr[i], sizeof token - 1))
            return false;
    header->value = str_trim(rest, STR(" \t"));
    return true;
}

static bool read_length(struct str text, struct preview_answer *answer)
{
    uint64_t value = 0;

    if (text.len == 0 || text.len > 18)
        return false;
    for (size_t i = 0; i < text.len; i++) {
        if (text.ptr[i] < '0' || text.ptr[i] > '9')
            return false;
        value = value * 10 + (uint64_t)(text.ptr[i] - '0');
    }
    if (answer->has_length && answer->length != value)
        return false;
    answer->has_length = true;
    answer->length = value;
    return true;
}

/* With the prefix as its path, whatever it said of that and of its domain. */
static bool add_set_cookie(struct str value, const struct preview_side *side, struct buf *out,
                           struct error *err)
{
    struct str rest = value, piece, first = {0}, name = {0};

    str_split(&rest, ';', &first);
    piece = first;
    str_split(&piece, '=', &name);
    if (is_our_cookie(str_trim(name, STR(" \t"))))
        return true;
    if (!buf_append(out, STR("Set-Cookie: "), err) || !buf_append(out, first, err))
        return false;
    while (str_split(&rest, ';', &piece)) {
        struct str value_of = piece = str_trim(piece, STR(" \t"));

        if (piece.len == 0)
            continue;
        str_split(&value_of, '=', &name);
        name = str_trim(name, STR(" \t"));
        if (str_equal_nocase(name, STR("path")) || str_equal_nocase(name, STR("domain")))
            continue;
        if (!buf_append(out, STR("; "), err) || !buf_append(out, piece, err))
            return false;
    }
    return buf_append(out, STR("; Path="), err) && buf_append(out, str_of(side->prefix), err) &&
           buf_append(out, STR("/\r\n"), err);
}

/* A path of the program is one below the prefix. */
static bool add_location(struct str value, const struct preview_side *side, struct buf *out,
                         struct error *err)
{
    bool is_path = value.len > 0 && value.ptr[0] == '/' &&
                   !(value.len > 1 && (value.ptr[1] == '/' || value.ptr[1] == '\\'));

    return buf_append(out, STR("Location: "), err) &&
           (!is_path || buf_append(out, str_of(side->prefix), err)) &&
           buf_append(out, value, err) && buf_append(out, STR("\r\n"), err);
}

static bool add_answer_header(const struct header *header, struct str connection,
                              const struct preview_side *side, struct buf *out, struct error *err)
{
    if (str_equal_nocase(header->name, STR("set-cookie")))
        return add_set_cookie(header->value, side, out, err);
    if (str_equal_nocase(header->name, STR("location")))
        return add_location(header->value, side, out, err);
    return is_among(header->name, of_connection, COUNT_OF(of_connection)) ||
           is_among(header->name, not_for_browser, COUNT_OF(not_for_browser)) ||
           is_named(connection, header->name) || add(out, header->name, header->value, err);
}

struct answer_headers {
    struct header list[HEADERS_MAX];
    size_t n;
    struct str connection, upgrade, accept;
    size_t n_accepts;
    bool is_chunked;
};

static bool read_headers(struct str rest, struct answer_headers *headers,
                         struct preview_answer *answer, struct error *err)
{
    struct str line;

    for (;;) {
        struct header *header = &headers->list[headers->n];

        if (!read_line(&rest, &line))
            return is_wrong(err);
        if (line.len == 0)
            return true;
        if (headers->n + 1 == HEADERS_MAX || !read_header(line, header))
            return is_wrong(err);
        if (str_equal_nocase(header->name, STR("connection")))
            headers->connection = header->value;
        else if (str_equal_nocase(header->name, STR("upgrade")))
            headers->upgrade = header->value;
        else if (str_equal_nocase(header->name, STR("sec-websocket-accept")) &&
                 headers->n_accepts++ == 0)
            headers->accept = header->value;
        else if (str_equal_nocase(header->name, STR("content-length")) &&
                 !read_length(header->value, answer))
            return is_wrong(err);
        else if (str_equal_nocase(header->name, STR("transfer-encoding"))) {
            if (headers->is_chunked || !str_equal_nocase(header->value, STR("chunked")))
                return is_wrong(err);
            headers->is_chunked = true;
        }
        headers->n++;
    }
}

/* Chunks go through as they are: this connection, too, ends with the answer. */
static bool add_framing(const struct answer_headers *headers, struct preview_answer *answer,
                        struct buf *out, struct error *err)
{
    char line[64];

    if (headers->is_chunked) {
        answer->has_length = false;
        return buf_append(out, STR("Transfer-Encoding: chunked\r\n"), err);
    }
    snprintf(line, sizeof line, "Content-Length: %" PRIu64 "\r\n", answer->length);
    return !answer->has_length || buf_append(out, str_of(line), err);
}

/* The program has understood what was asked, and nothing else follows than what it agreed to. */
static bool is_agreed(const struct answer_headers *headers, const struct preview_answer *answer,
                      const struct preview_side *side)
{
    return side->accept[0] && str_equal_nocase(headers->upgrade, STR("websocket")) &&
           is_named(headers->connection, STR("upgrade")) && headers->n_accepts == 1 &&
           str_equal(headers->accept, str_of(side->accept)) && !answer->has_length &&
           !headers->is_chunked;
}

static bool add_first(int status, struct buf *out, struct error *err)
{
    char line[64];

    if (status == 101)
        return buf_append(out,
                          STR("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\n"
                              "Upgrade: websocket\r\n"),
                          err);
    snprintf(line, sizeof line, "HTTP/1.1 %d \r\nConnection: close\r\n", status);
    return buf_append(out, str_of(line), err);
}

bool preview_answer_head(struct str head, const struct preview_side *side, struct buf *out,
                         struct preview_answer *answer, struct error *err)
{
    struct answer_headers headers = {.n = 0};
    struct str rest = head, line;

    *answer = (struct preview_answer){0};
    if (!read_line(&rest, &line) || !read_status(line, &answer->status) ||
        !read_headers(rest, &headers, answer, err) ||
        (answer->status == 101 && !is_agreed(&headers, answer, side)))
        return is_wrong(err);
    if (answer->status < 200 && answer->status != 101)
        return true;
    if (!add_first(answer->status, out, err))
        return false;
    for (size_t i = 0; i < headers.n; i++)
        if (!add_answer_header(&headers.list[i], headers.connection, side, out, err))
            return false;
    return add_framing(&headers, answer, out, err) && buf_append(out, STR("\r\n"), err);
}
