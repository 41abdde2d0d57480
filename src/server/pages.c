#include <inttypes.h>
#include <stdio.h>

#include "base/own.h"
#include "base/time.h"
#include "server/caller.h"
#include "server/context.h"
#include "server/handlers.h"
#include "server/html_page.h"
#include "server/listen.h"
#include "server/page.h"
#include "server/page_style.h"
#include "server/run_object.h"
#include "server/session.h"
#include "store/queries.h"

enum { RECENT = 50, LOG_CHUNKS = 200, LOG_BYTES = 128 * 1024 };

bool page_style(struct call *call UNUSED, struct response *res, struct error *err)
{
    if (!buf_append(response_body(res), STR(PAGE_STYLE), err) ||
        !response_header(res, "Cache-Control", STR("max-age=300"), err))
        return false;
    response_bytes(res, 200, "text/css; charset=utf-8");
    return true;
}

/* Cookies belong to one name, so a person is sent to the one this server goes by. */
static bool host_is_public(const struct call *call)
{
    const char *url = server_of(call)->public_url;
    const char *at = strstr(url, "://");
    return str_equal_nocase(call->host, str_of(at ? at + 3 : url));
}

bool page_dev_login(struct call *call, struct response *res, struct error *err)
{
    struct str next = {0};
    bool found = false;
    if (!caller_is_local(call))
        return error_set(err, ERR_NOT_FOUND, "there is no such page");
    if (!host_is_public(call))
        return page_redirect(res,
                             arena_printf(call->arena, "%s/dev/login", server_of(call)->public_url),
                             err);
    if (!call_query(call, "next", &next, &found, err))
        return false;
    const struct form form = {
        .title = "Sign in",
        .text = "This server listens on this machine only, so whoever can open this page may be "
                "its owner.",
        .action = "/dev/login",
        .inputs = {{"next", NULL, NULL, NULL, next}},
        .buttons = {{"Sign in as the local owner", NULL}},
        .other_link = "/login",
        .other_label = "Sign in with a password",
    };
    return form_show(&form, res, 200, NULL, err);
}

bool page_dev_login_post(struct call *call, struct response *res, struct error *err)
{
    struct server *server = server_of(call);
    struct str next;
    char token[TOKEN_TEXT];
    if (!caller_is_local(call))
        return error_set(err, ERR_NOT_FOUND, "there is no such page");
    AUTO_TX tx = NULL;
    bool ok = session_check_origin(call, true, err) && form_field(call, "next", &next, err) &&
              store_begin(server->store, &tx, err) &&
              session_begin(call, &tx, server->owner_id, token, err) &&
              page_redirect(res, session_next(call, next), err) &&
              session_set_cookie(call, res, token, err);
    bytes_wipe(token, sizeof token);
    return ok;
}

static void write_status(struct html *html, const char *status)
{
    html_markup(html, "<span class=\"status ");
    html_string(html, status);
    html_markup(html, "\">");
    html_string(html, status);
    html_markup(html, "</span>");
}

static void write_time(struct html *html, int64_t ms)
{
    char text[TIME_TEXT_MAX];
    html_markup(html, "<time>");
    html_string(html, time_format(ms, text));
    html_markup(html, "</time>");
}

static void write_duration(struct html *html, int64_t from_ms, int64_t to_ms)
{
    char text[32];
    snprintf(text, sizeof text, "%" PRId64 ".%" PRId64 " s", (to_ms - from_ms) / 1000,
             (to_ms - from_ms) % 1000 / 100);
    html_string(html, text);
}

static void write_recent(struct html *html, const struct rows *rows)
{
    if (rows->n_rows == 0) {
        html_markup(html, "<p class=\"empty\">Nothing has run here yet. Deploy a project and run "
                          "a task:</p><pre>helmr deploy\nhelmr run hello</pre>");
        return;
    }
    html_markup(html, "<table><thead><tr><th>Run</th><th>Task</th><th>Status</th><th>Created</th>"
                      "<th>Took</th></tr></thead><tbody>");
    for (size_t i = 0; i < rows->n_rows; i++) {
        html_markup(html, "<tr><td><a href=\"/runs/");
        html_text(html, row_str(rows, i, RUN_RECENT_ID));
        html_markup(html, "\"><code>");
        html_string(html, id_short(row_text(rows, i, RUN_RECENT_ID)));
        html_markup(html, "</code></a></td><td>");
        html_text(html, row_str(rows, i, RUN_RECENT_TASK_ID));
        html_markup(html, "</td><td>");
        write_status(html, row_text(rows, i, RUN_RECENT_STATUS));
        html_markup(html, "</td><td>");
        write_time(html, row_int(rows, i, RUN_RECENT_CREATED_MS));
        html_markup(html, "</td><td>");
        if (!row_is_null(rows, i, RUN_RECENT_FINISHED_MS))
            write_duration(html, row_int(rows, i, RUN_RECENT_CREATED_MS),
                           row_int(rows, i, RUN_RECENT_FINISHED_MS));
        html_markup(html, "</td></tr>");
    }
    html_markup(html, "</tbody></table>");
}

bool page_home(struct call *call, struct response *res, struct error *err)
{
    struct caller caller;
    if (!caller_find(call, &caller))
        return page_sign_in_first(call, res, err);
    struct rows rows;
    struct html html;
    AUTO_TX tx = NULL;
    if (!store_begin_read(server_of(call)->store, &tx, err) ||
        !STORE(tx, &run_recent, call->arena, &rows, err, V_TEXT(caller.scope.environment_id),
               V_INT(RECENT)) ||
        !page_open(&html, res, "Runs", true, err))
        return false;
    html_markup(&html, "<h1>Recent runs</h1><p class=\"scope\">");
    html_string(&html, caller.scope.project_slug);
    html_markup(&html, " / ");
    html_string(&html, caller.scope.environment_slug);
    html_markup(&html, "</p>");
    write_recent(&html, &rows);
    return page_close(&html, res, 200, err);
}

static void write_fact(struct html *html, const char *name, struct str value)
{
    if (!value.ptr)
        return;
    html_markup(html, "<dt>");
    html_string(html, name);
    html_markup(html, "</dt><dd>");
    html_text(html, value);
    html_markup(html, "</dd>");
}

static void write_json(struct html *html, const char *name, struct str value)
{
    if (!value.ptr)
        return;
    html_markup(html, "<h2>");
    html_string(html, name);
    html_markup(html, "</h2><pre>");
    html_text(html, value.len > LOG_BYTES ? (struct str){value.ptr, LOG_BYTES} : value);
    html_markup(html, "</pre>");
}

static void write_run(struct html *html, const struct rows *run)
{
    html_markup(html, "<h1>");
    html_text(html, row_str(run, 0, RUN_GET_TASK_ID));
    html_markup(html, " ");
    write_status(html, row_text(run, 0, RUN_GET_STATUS));
    html_markup(html, "</h1><dl>");
    write_fact(html, "Run", row_str(run, 0, RUN_GET_ID));
    write_fact(html, "Deployment", row_str(run, 0, RUN_GET_DEPLOYMENT_VERSION));
    write_fact(html, "Engine", row_str(run, 0, RUN_GET_ENGINE));
    write_fact(html, "Isolation", row_str(run, 0, RUN_GET_GRADE));
    if (str_equal(row_str(run, 0, RUN_GET_GRADE), STR("microvm")))
        write_fact(html, "KVM",
                   row_int(run, 0, RUN_GET_ACCELERATED) != 0 ? STR("yes") : STR("no, slow"));
    html_markup(html, "<dt>Created</dt><dd>");
    write_time(html, row_int(run, 0, RUN_GET_CREATED_MS));
    html_markup(html, "</dd></dl>");
    write_json(html, "Payload", row_str(run, 0, RUN_GET_PAYLOAD));
    write_json(html, "Output", row_str(run, 0, RUN_GET_OUTPUT));
    write_json(html, "Error", row_str(run, 0, RUN_GET_ERROR));
}

/* The cursor behind which the last LOG_BYTES begin. */
static bool find_tail(struct tx *tx, const char *run_id, int64_t cursor, struct arena *arena,
                      int64_t *after, struct error *err)
{
    struct rows sizes;
    if (!STORE(tx, &log_sizes_before, arena, &sizes, err, V_TEXT(run_id), V_INT(cursor + 1),
               V_INT(LOG_CHUNKS)))
        return false;
    int64_t total = 0;
    *after = cursor;
    for (size_t i = 0; i < sizes.n_rows && total < LOG_BYTES; i++) {
        total += row_int(&sizes, i, LOG_SIZES_BEFORE_N_BYTES);
        *after = row_int(&sizes, i, LOG_SIZES_BEFORE_CURSOR) - 1;
    }
    return true;
}

static bool write_log(struct html *html, struct tx *tx, const char *run_id, int64_t cursor,
                      struct arena *arena, struct error *err)
{
    struct rows rows;
    int64_t after;
    if (!find_tail(tx, run_id, cursor, arena, &after, err) ||
        !STORE(tx, &log_chunks_between, arena, &rows, err, V_TEXT(run_id), V_INT(after),
               V_INT(cursor)))
        return false;
    if (rows.n_rows == 0)
        return true;
    html_markup(html, "<h2>Log</h2><pre class=\"log\">");
    if (after > 0)
        html_markup(html, "<span class=\"note\">… the beginning is in helmr logs</span>\n");
    for (size_t i = 0; i < rows.n_rows; i++) {
        bool is_error = str_equal(row_str(&rows, i, LOG_CHUNKS_BETWEEN_STREAM), STR("stderr"));
        struct str bytes = row_str(&rows, i, LOG_CHUNKS_BETWEEN_BYTES);
        if (bytes.len > LOG_BYTES)
            bytes = (struct str){bytes.ptr + bytes.len - LOG_BYTES, LOG_BYTES};
        html_markup(html, is_error ? "<span class=\"stderr\">" : "<span>");
        html_bytes(html, bytes);
        html_markup(html, "</span>");
    }
    html_markup(html, "</pre>");
    return true;
}

bool page_run(struct call *call, struct response *res, struct error *err)
{
    struct caller caller;
    char id[ID_TEXT];
    if (!caller_find(call, &caller))
        return page_sign_in_first(call, res, err);
    struct rows run, peek;
    struct html html;
    AUTO_TX tx = NULL;
    if (!call_id(call, 0, id, err) || !store_begin_read(server_of(call)->store, &tx, err) ||
        !STORE(tx, &run_get, call->arena, &run, err, V_TEXT(caller.scope.environment_id),
               V_TEXT(id)) ||
        !STORE(tx, &run_peek, call->arena, &peek, err, V_TEXT(caller.scope.environment_id),
               V_TEXT(id)))
        return false;
    if (run.n_rows == 0)
        return error_set(err, ERR_NOT_FOUND, "there is no run %s", id);

    bool is_live = row_is_null(&run, 0, RUN_GET_FINISHED_MS);
    if (!page_open(&html, res, row_text(&run, 0, RUN_GET_TASK_ID), is_live, err))
        return false;
    write_run(&html, &run);
    return write_log(&html, tx, id, row_int(&peek, 0, RUN_PEEK_LOG_CURSOR), call->arena, err) &&
           page_close(&html, res, 200, err);
}
