#include "http.h"

#include <stdio.h>
#include <sys/socket.h>

#include "base/json.h"
#include "base/own.h"

bool http_fill(struct http *http)
{
    char bytes[4096];
    struct error ignored;
    ssize_t got = recv(http->fd, bytes, sizeof bytes, 0);

    return got > 0 && buf_append(&http->in, (struct str){bytes, (size_t)got}, &ignored);
}

static bool line_cut(struct str *rest, struct str *line)
{
    const char *end = rest->len ? memmem(rest->ptr, rest->len, "\r\n", 2) : NULL;

    if (!end)
        return false;
    *line = (struct str){rest->ptr, (size_t)(end - rest->ptr)};
    *rest = (struct str){end + 2, rest->len - line->len - 2};
    return true;
}

static bool first_line(struct str line, struct http_request *request, struct error *err)
{
    struct str method, path, version;

    if (!str_split(&line, ' ', &method) || !str_split(&line, ' ', &path) ||
        !str_split(&line, ' ', &version) || line.ptr || method.len >= sizeof request->method ||
        path.len >= sizeof request->path || path.len == 0 || path.ptr[0] != '/')
        return error_set(err, ERR_INVALID, "Invalid Request Line.");
    if (!str_equal(version, STR("HTTP/1.1")))
        return error_set(err, ERR_INVALID, "Unsupported HTTP version.");
    memcpy(request->method, method.ptr, method.len);
    memcpy(request->path, path.ptr, path.len);
    return true;
}

static bool length_of(struct str value, size_t *length, struct error *err)
{
    *length = 0;
    for (size_t i = 0; i < value.len; i++) {
        if (value.ptr[i] < '0' || value.ptr[i] > '9' || *length > HTTP_BODY_MAX)
            return error_set(err, ERR_INVALID, "Invalid header: Content-Length.");
        *length = *length * 10 + (size_t)(value.ptr[i] - '0');
    }
    return *length <= HTTP_BODY_MAX ||
           error_set(err, ERR_INVALID, "Request payload with size %zu is larger than the limit.",
                     *length);
}

static bool header(struct str line, size_t *length, struct error *err)
{
    struct str name;

    if (!str_split(&line, ':', &name) || !line.ptr)
        return error_set(err, ERR_INVALID, "Invalid header.");
    struct str value = str_trim(line, STR(" "));
    if (str_equal_nocase(name, STR("content-length")))
        return length_of(value, length, err);
    if (str_equal_nocase(name, STR("transfer-encoding")) || str_equal_nocase(name, STR("expect")))
        return error_set(err, ERR_INVALID, "Unsupported header: %.*s.", (int)name.len, name.ptr);
    if (str_equal_nocase(name, STR("content-type")) && !str_equal(value, STR("application/json")) &&
        !str_equal(value, STR("text/plain")))
        return error_set(err, ERR_INVALID, "Unsupported content type.");
    return true;
}

bool http_take(struct http *http, struct http_request *request, bool *is_whole, struct error *err)
{
    struct str rest = buf_str(&http->in), line;
    size_t length = 0;

    *request = (struct http_request){0};
    *is_whole = false;
    if (!http->in.len || !memmem(http->in.bytes, http->in.len, "\r\n\r\n", 4))
        return true;
    if (!line_cut(&rest, &line) || !first_line(line, request, err))
        return false;
    while (line_cut(&rest, &line) && line.len > 0) {
        if (!header(line, &length, err))
            return false;
    }
    if (rest.len < length)
        return true;
    request->body = (struct str){rest.ptr, length};
    request->len = http->in.len - rest.len + length;
    *is_whole = true;
    return true;
}

void http_drop(struct http *http, const struct http_request *request)
{
    buf_consume(&http->in, request->len);
}

static void say(struct http *http, const char *bytes, size_t len)
{
    (void)!send(http->fd, bytes, len, MSG_NOSIGNAL);
}

void http_say_done(struct http *http)
{
    static const char answer[] =
        "HTTP/1.1 204 \r\nServer: Firecracker API\r\nConnection: keep-alive\r\n\r\n";

    say(http, answer, sizeof answer - 1);
}

void http_say_fault(struct http *http, const char *message)
{
    AUTO(buf_finish) struct buf body = {.max = 8192};
    struct json_writer json = json_begin(&body);
    struct error ignored;
    char head[256];

    json_open(&json, NULL);
    json_string(&json, "fault_message", message);
    json_close(&json);
    if (!json_end(&json, &ignored))
        return;
    int len = snprintf(head, sizeof head,
                       "HTTP/1.1 400 \r\nServer: Firecracker API\r\nConnection: keep-alive\r\n"
                       "Content-Type: application/json\r\nContent-Length: %zu\r\n\r\n",
                       body.len);
    say(http, head, (size_t)len);
    say(http, body.bytes, body.len);
}

void http_close(struct http *http)
{
    auto_close(&http->fd);
    buf_finish(&http->in);
    *http = (struct http){.fd = -1, .in = {.max = HTTP_BODY_MAX + 16384}};
}
