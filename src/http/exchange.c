#include "http/exchange.h"

#include <poll.h>

#include "base/encode.h"
#include "base/own.h"
#include "base/time.h"
#include "http/server_state.h"
#include "http/spool.h"

enum { SPARE_MAX = 64, LARGE_BODY = 64 * 1024, TRIES_MAX = 5, TRY_AGAIN_MS = 8 };

static void forget(struct exchange *exchange)
{
    struct http_server *server = exchange->server;

    if (exchange->call.upload_fd >= 0)
        close(exchange->call.upload_fd);
    server->body_bytes -= exchange->body_counted;
    response_reset(&exchange->response);
    buf_finish(&exchange->piece);
    arena_finish(&exchange->arena);
    request_parser_next(exchange->parser);
}

static struct exchange *create(struct http_server *server)
{
    struct exchange *exchange = alloc(sizeof *exchange);

    *exchange = (struct exchange){.server = server, .parser = request_parser_create()};
    return exchange;
}

struct exchange *exchange_acquire(struct http_server *server)
{
    struct exchange *exchange = server->spare;

    if (exchange) {
        server->spare = exchange->next_spare;
        server->n_spare--;
    } else {
        exchange = create(server);
    }
    exchange->call = (struct call){
        .request = request_parser_request(exchange->parser),
        .arena = &exchange->arena,
        .app = server->config.app,
        .upload_fd = -1,
    };
    id_make(exchange->call.id);
    exchange->response.arena = &exchange->arena;
    response_reset(&exchange->response);
    exchange->match = (struct route_match){0};
    exchange->body_counted = 0;
    exchange->give_up_ms = 0;
    exchange->place = 0;
    exchange->turn_of[0] = '\0';
    exchange->started_ms = time_boot_ms();
    exchange->is_authorized = exchange->has_failed = exchange->keep_alive = false;
    return exchange;
}

void exchange_release(struct exchange *exchange)
{
    struct http_server *server = exchange->server;

    forget(exchange);
    exchange->call.upload_fd = -1;
    exchange->body_counted = 0;
    if (server->n_spare == SPARE_MAX) {
        exchange_destroy(exchange);
        return;
    }
    exchange->next_spare = server->spare;
    server->spare = exchange;
    server->n_spare++;
}

void exchange_destroy(struct exchange *exchange)
{
    if (!exchange)
        return;
    forget(exchange);
    response_finish(&exchange->response);
    request_parser_destroy(exchange->parser);
    free(exchange);
}

static bool allow_header(struct exchange *exchange, struct error *err)
{
    static const char *const names[] = {
        [METHOD_GET] = "GET, HEAD",   [METHOD_HEAD] = "HEAD",   [METHOD_POST] = "POST",
        [METHOD_PUT] = "PUT",         [METHOD_PATCH] = "PATCH", [METHOD_DELETE] = "DELETE",
        [METHOD_OPTIONS] = "OPTIONS",
    };
    char list[96] = "";
    size_t len = 0;

    for (size_t i = METHOD_GET; i < COUNT_OF(names); i++)
        if (exchange->match.allowed & 1u << i)
            len +=
                (size_t)snprintf(list + len, sizeof list - len, "%s%s", len ? ", " : "", names[i]);
    return response_header(&exchange->response, "Allow", (struct str){list, len}, err);
}

bool exchange_open(struct exchange *exchange, struct error *err)
{
    const struct http_config *config = &exchange->server->config;
    struct call *call = &exchange->call;
    struct str rest = call->request->target;
    struct error header_err;

    exchange->started_ms = time_boot_ms();
    exchange->keep_alive = call->request->keep_alive && !call->request->is_old;
    str_split(&rest, '?', &call->path);
    call->query = rest;
    if (!route_find(config->routes, config->n_routes, call->request->method, call->path,
                    &exchange->match, err)) {
        if (err->code == ERR_METHOD && !allow_header(exchange, &header_err))
            *err = header_err;
        return false;
    }

    const struct route *route = exchange->match.route;

    call->match = exchange->match;
    return request_parser_allow_body(exchange->parser,
                                     route->body_max ? route->body_max : config->json_max, err);
}

bool exchange_asks_first(const struct exchange *exchange)
{
    const struct request *request = exchange->call.request;

    return request_parser_stage(exchange->parser) == REQUEST_BODY &&
           !exchange->match.route->instant &&
           (exchange->match.route->upload || request->chunked ||
            request->content_length > LARGE_BODY);
}

bool exchange_count_body(struct exchange *exchange, struct error *err)
{
    struct http_server *server = exchange->server;
    size_t held = request_parser_buffered(exchange->parser) + exchange->piece.len;

    server->body_bytes += held;
    server->body_bytes -= exchange->body_counted;
    exchange->body_counted = held;
    if (server->body_bytes > server->config.body_budget)
        return error_set(err, ERR_UNAVAILABLE, "too many large requests at once; try again");
    return true;
}

static bool decode_slice(struct arena *arena, struct str *text, struct error *err)
{
    if (text->len == 0 || !memchr(text->ptr, '%', text->len))
        return true;

    char *bytes = arena_alloc(arena, text->len + 1);
    size_t len = text->len;

    if (!percent_decode(*text, false, bytes, &len))
        return error_set(err, ERR_INVALID, "the path is not well encoded");
    *text = (struct str){bytes, len};
    return true;
}

/* A parked call starts again from here, so that it does not grow and a caller who has lost
 * the permission meanwhile is told so. */
static bool prepare_call(struct exchange *exchange, struct error *err)
{
    struct route_match *match = &exchange->call.match;

    response_reset(&exchange->response);
    arena_finish(&exchange->arena);
    exchange->call.caller = NULL;
    *match = exchange->match;
    for (size_t i = 0; i < match->n_params; i++)
        if (!decode_slice(&exchange->arena, &match->params[i], err))
            return false;
    return decode_slice(&exchange->arena, &match->project, err) &&
           decode_slice(&exchange->arena, &match->environment, err);
}

static bool authorize(struct exchange *exchange, struct error *err)
{
    const struct http_config *config = &exchange->server->config;

    if (!prepare_call(exchange, err))
        return false;
    return exchange->match.route->instant || !config->authorize ||
           config->authorize(&exchange->call, err);
}

static bool spool(struct exchange *exchange, struct error *err)
{
    struct call *call = &exchange->call;

    if (call->upload_fd < 0 &&
        !spool_open(exchange->server->config.spool_dir, &call->upload_fd, err))
        return false;
    if (!spool_write(call->upload_fd, buf_str(&exchange->piece), call->upload_len, err))
        return false;
    call->upload_len += exchange->piece.len;
    buf_finish(&exchange->piece);
    return true;
}

/* Two that want the same rows may end each other; apart by a moment both get through. */
static bool run_handler(struct exchange *exchange, struct error *err)
{
    const struct http_config *config = &exchange->server->config;

    for (int tries = 1; !exchange->match.route->handle(&exchange->call, &exchange->response, err);
         tries++) {
        if (tries == TRIES_MAX || !config->is_passing || !config->is_passing(err))
            return false;
        response_reset(&exchange->response);
        poll(NULL, 0, tries * (int)(1 + time_boot_ns() / 1000 % TRY_AGAIN_MS));
    }
    return true;
}

static bool handle(struct exchange *exchange, struct error *err)
{
    const struct route *route = exchange->match.route;

    if (!exchange->is_authorized && !authorize(exchange, err))
        return false;
    exchange->is_authorized = false;
    if (route->upload && !spool(exchange, err))
        return false;
    exchange->looked_at = topics_now(&exchange->server->topics);
    if (!run_handler(exchange, err))
        return false;
    if (exchange->response.kind == RESPONSE_UNSET)
        return error_set(err, ERR_INTERNAL, "the handler gave no answer");
    if (exchange->response.kind == RESPONSE_PARK && exchange->call.is_last_try)
        return error_set(err, ERR_TIMEOUT, "nothing happened in time");
    return true;
}

void exchange_run(struct exchange *exchange)
{
    bool ok = false;

    switch (exchange->step) {
    case STEP_AUTHORIZE:
        ok = authorize(exchange, &exchange->err);
        exchange->is_authorized = ok;
        break;
    case STEP_SPOOL: ok = spool(exchange, &exchange->err); break;
    case STEP_HANDLE: ok = handle(exchange, &exchange->err); break;
    }
    exchange->has_failed = !ok;
    if (ok)
        return;
    if (exchange->server->config.refused)
        exchange->server->config.refused(&exchange->call, &exchange->err);
    exchange_fail(exchange, &exchange->err);
}

void exchange_fail(struct exchange *exchange, const struct error *err)
{
    const struct route *route = exchange->match.route;
    struct error named = *err;

    if (err->code == ERR_TOO_LARGE && route && route->too_large)
        named.code = (enum error_code)route->too_large;
    response_error(&exchange->response, &named, (struct str){0});
}

void exchange_compose(struct exchange *exchange)
{
    const struct http_config *config = &exchange->server->config;
    const struct request *request = exchange->call.request;
    struct response_frame frame = {
        .request_id = exchange->call.id,
        .extra = {config->response_headers,
                  exchange->call.is_secure ? config->secure_headers : NULL},
        .is_old = request->is_old,
        .is_head = request->method == METHOD_HEAD,
        .keep_alive = exchange->keep_alive,
    };
    struct error err;

    if (!response_compose(&exchange->response, &frame, &err)) {
        buf_finish(&exchange->response.headers);
        response_error(&exchange->response, &err, (struct str){0});
        if (!response_compose(&exchange->response, &frame, &err))
            abort();
    }
    exchange_report(exchange, exchange->response.status);
}

void exchange_report(struct exchange *exchange, int status)
{
    const struct http_config *config = &exchange->server->config;

    exchange->call.failure = exchange->response.failure;
    if (config->answered)
        config->answered(&exchange->call, status, time_boot_ms() - exchange->started_ms);
}
