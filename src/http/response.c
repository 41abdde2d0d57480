#include "http/response.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/json.h"

enum { KEPT_MAX = 16 * 1024 };

static const struct {
    int status;
    const char *reason;
} reasons[] = {
    {101, "Switching Protocols"            },
    {200, "OK"                             },
    {201, "Created"                        },
    {202, "Accepted"                       },
    {204, "No Content"                     },
    {206, "Partial Content"                },
    {302, "Found"                          },
    {303, "See Other"                      },
    {304, "Not Modified"                   },
    {400, "Bad Request"                    },
    {401, "Unauthorized"                   },
    {403, "Forbidden"                      },
    {404, "Not Found"                      },
    {405, "Method Not Allowed"             },
    {409, "Conflict"                       },
    {410, "Gone"                           },
    {413, "Content Too Large"              },
    {416, "Range Not Satisfiable"          },
    {422, "Unprocessable Content"          },
    {429, "Too Many Requests"              },
    {431, "Request Header Fields Too Large"},
    {500, "Internal Server Error"          },
    {501, "Not Implemented"                },
    {503, "Service Unavailable"            },
    {504, "Gateway Timeout"                },
    {505, "HTTP Version Not Supported"     },
};

static const char *reason_of(int status)
{
    for (size_t i = 0; i < COUNT_OF(reasons); i++)
        if (reasons[i].status == status)
            return reasons[i].reason;
    return "Unknown";
}

static void drop_source(struct response *res)
{
    if (res->kind == RESPONSE_STREAM && res->source.release)
        res->source.release(res->source.state);
    if (res->kind == RESPONSE_WEBSOCKET && res->websocket.release)
        res->websocket.release(res->websocket.state);
    res->source = (struct response_source){0};
    res->websocket = (struct response_websocket){0};
}

void response_reset(struct response *res)
{
    struct arena *arena = res->arena;
    struct output output = res->output;

    drop_source(res);
    output_reset(&output, KEPT_MAX);
    output.head.max = RESPONSE_HEAD_MAX;
    output.body.max = RESPONSE_BODY_MAX;
    buf_finish(&res->headers);
    *res = (struct response){.arena = arena, .output = output};
}

void response_finish(struct response *res)
{
    response_reset(res);
    output_reset(&res->output, 0);
}

struct buf *response_body(struct response *res)
{
    return &res->output.body;
}

static void set(struct response *res, enum response_kind kind, int status, const char *type)
{
    drop_source(res);
    res->kind = kind;
    res->status = status;
    res->content_type = type;
}

void response_json(struct response *res, int status)
{
    set(res, RESPONSE_WHOLE, status, "application/json");
}

void response_bytes(struct response *res, int status, const char *content_type)
{
    set(res, RESPONSE_WHOLE, status, arena_text(res->arena, str_of(content_type)));
}

void response_empty(struct response *res, int status)
{
    set(res, RESPONSE_WHOLE, status, NULL);
    res->output.body.len = 0;
}

static bool name_fits(const char *name)
{
    return *name && strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-"
                                 "_") == strlen(name);
}

bool response_header(struct response *res, const char *name, struct str value, struct error *err)
{
    for (size_t i = 0; i < value.len; i++)
        if ((unsigned char)value.ptr[i] < ' ' || value.ptr[i] == 0x7f)
            return error_set(err, ERR_INTERNAL, "header %s would hold a control byte", name);
    if (!name_fits(name))
        return error_set(err, ERR_INTERNAL, "no header can have the name %s", name);
    res->headers.max = RESPONSE_HEAD_MAX / 2;
    return buf_append(&res->headers, str_of(name), err) &&
           buf_append(&res->headers, STR(": "), err) && buf_append(&res->headers, value, err) &&
           buf_append(&res->headers, STR("\r\n"), err);
}

void response_stream(struct response *res, const struct response_source *source)
{
    set(res, RESPONSE_STREAM, source->status ? source->status : 200,
        arena_text(res->arena, str_of(source->content_type)));
    res->source = *source;
    res->topic = source->topic ? arena_text(res->arena, str_of(source->topic)) : NULL;
    res->output.body.len = 0;
}

void response_websocket(struct response *res, const struct call *call,
                        const struct response_websocket *websocket)
{
    char *accept = arena_alloc(res->arena, WEBSOCKET_ACCEPT_TEXT);

    websocket_accept_of(call_header(call, STR("sec-websocket-key")), accept);
    set(res, RESPONSE_WEBSOCKET, 101, NULL);
    res->websocket = *websocket;
    res->topic = arena_text(res->arena, str_of(websocket->topic));
    res->output.body.len = 0;
    res->upgrade = arena_printf(res->arena,
                                "Upgrade: websocket\r\nConnection: Upgrade\r\n"
                                "Sec-WebSocket-Accept: %s\r\nSec-WebSocket-Protocol: %s\r\n",
                                accept, websocket->protocol);
}

void response_park(struct response *res, const char *topic, int64_t wait_ms)
{
    set(res, RESPONSE_PARK, 0, NULL);
    res->topic = arena_text(res->arena, str_of(topic));
    res->wait_ms = wait_ms;
    res->output.body.len = 0;
}

void response_park_in_turn(struct response *res, const struct response_turn *turn)
{
    response_park(res, turn->topic, turn->wait_ms);
    res->in_turn = true;
    res->line = turn->line;
    res->comes_last = turn->comes_last;
}

void response_end_turn(struct response *res)
{
    res->ends_turn = true;
}

/* What went wrong inside is for the log: it may name paths and hosts. */
static const char *text_for_client(struct response *res, const struct error *err)
{
    if (err->code != ERR_INTERNAL)
        return err->text;
    res->failure = arena_text(res->arena, str_of(err->text));
    return "internal error; the server's log has the reason under this X-Request-ID";
}

void response_error(struct response *res, const struct error *err, struct str details)
{
    struct error ignored;

    response_json(res, error_http_status(err->code));
    res->output.body.len = 0;

    struct json_writer json = json_begin(&res->output.body);
    json_open(&json, NULL);
    json_string(&json, "error", text_for_client(res, err));
    json_string(&json, "code", error_wire_name(err->code));
    if (details.len > 0)
        json_raw(&json, "details", details);
    json_close(&json);
    if (!json_end(&json, &ignored))
        response_empty(res, 500);
}

bool response_is_chunked(const struct response *res, bool is_old)
{
    return res->kind == RESPONSE_STREAM && res->source.length == 0 && !res->source.writes_head &&
           !is_old;
}

static void format_framing(const struct response *res, bool is_old, char *line, size_t size)
{
    bool has_length = res->kind == RESPONSE_WHOLE || res->source.length > 0;

    line[0] = '\0';
    if (response_is_chunked(res, is_old))
        snprintf(line, size, "Transfer-Encoding: chunked\r\n");
    else if (has_length && res->status != 204 && res->status != 304)
        snprintf(line, size, "Content-Length: %" PRIu64 "\r\n",
                 res->kind == RESPONSE_STREAM ? res->source.length : res->output.body.len);
}

static bool sets_caching(const struct response *res)
{
    static const struct str name = {"Cache-Control:", 14};

    return res->headers.len > 0 && memmem(res->headers.bytes, res->headers.len, name.ptr, name.len);
}

/* What is behind a login is nobody else's, so a handler must say where it may be kept. */
static const char *caching_of(const struct response *res)
{
    if (res->kind == RESPONSE_STREAM && res->source.is_sse)
        return "Cache-Control: no-cache\r\nX-Accel-Buffering: no\r\n";
    if (!sets_caching(res))
        return "Cache-Control: no-store\r\n";
    return "";
}

static const char *connection_of(const struct response *res, bool keep_alive)
{
    if (res->kind == RESPONSE_WEBSOCKET)
        return res->upgrade;
    return keep_alive ? "" : "Connection: close\r\n";
}

static bool append_lines(struct buf *head, const char *lines, struct error *err)
{
    return !lines || buf_append(head, str_of(lines), err);
}

bool response_compose(struct response *res, const struct response_frame *frame, struct error *err)
{
    struct buf *head = &res->output.head;
    char line[512], framing[64];

    head->len = 0;
    if (res->kind == RESPONSE_STREAM && res->source.writes_head)
        return true;
    format_framing(res, frame->is_old, framing, sizeof framing);
    int len = snprintf(line, sizeof line, "HTTP/1.1 %d %s\r\nX-Request-ID: %s\r\n%s%s%s%s%s%s",
                       res->status, reason_of(res->status), frame->request_id,
                       res->content_type ? "Content-Type: " : "",
                       res->content_type ? res->content_type : "", res->content_type ? "\r\n" : "",
                       framing, caching_of(res), connection_of(res, frame->keep_alive));
    if (len >= (int)sizeof line)
        return error_set(err, ERR_INTERNAL, "content type is too long");
    if (frame->is_head)
        res->output.body.len = 0;
    return buf_append(head, (struct str){line, (size_t)len}, err) &&
           append_lines(head, frame->extra[0], err) && append_lines(head, frame->extra[1], err) &&
           buf_append(head, buf_str(&res->headers), err) && buf_append(head, STR("\r\n"), err);
}
