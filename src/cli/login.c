/* `helmr login` and `helmr logout`: a session for this user, approved in a browser. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "base/json.h"
#include "base/own.h"
#include "base/process.h"
#include "cli/api.h"
#include "cli/commands.h"
#include "cli/config.h"
#include "cli/output.h"

enum { REQUEST_MS = 30 * 1000, BROWSER_MS = 5000, ANSWER_MAX = 64 * 1024, SLOWER_SECONDS = 5 };

static const char *const headers[] = {API_VERSION_HEADER, CLI_VERSION_HEADER, NULL};

static bool choose_url(const struct invocation *invocation, struct arena *arena, const char **url,
                       struct error *err)
{
    return invocation->n_args > 0
               ? config_normalise_url(invocation->args[0], arena, url, err)
               : config_url(invocation_value(invocation, "api-url"), arena, url, err);
}

/* A token must not cross a network in clear text. */
static bool is_safe(const char *url, struct arena *arena, struct error *err)
{
    if (strncmp(url, "https://", 8) == 0)
        return true;
    const char *at = url + strlen("http://");
    size_t len = strcspn(at, "/");
    const char *bracket = memchr(at, ']', len), *colon = memchr(at, ':', len);
    if (at[0] == '[' && bracket)
        len = (size_t)(bracket - at) + 1;
    else if (colon)
        len = (size_t)(colon - at);
    return http_host_is_loopback(arena_text(arena, (struct str){at, len})) ||
           error_set(err, ERR_INVALID, "%s: a login beyond this machine needs https", url);
}

static bool ask(struct api *api, const char *path, struct str body, int *status, struct str *answer,
                struct error *err)
{
    struct http_answer got = {.body = {.max = ANSWER_MAX}};
    const struct http_request request = {
        .method = "POST",
        .path = path,
        .body = body,
        .headers = headers,
        .timeout_ms = REQUEST_MS,
    };
    bool ok = http_client_send(api->client, &request, &got, err);
    if (ok) {
        *status = got.status;
        *answer = arena_str(&api->arena, buf_str(&got.body));
    } else {
        api_explain(api, err);
    }
    if (got.body.bytes)
        bytes_wipe(got.body.bytes, got.body.len);
    buf_finish(&got.body);
    return ok;
}

static bool is_web_page(const char *page)
{
    return strncmp(page, "https://", 8) == 0 || strncmp(page, "http://", 7) == 0;
}

static void open_browser(const char *page)
{
    const char *named = getenv("BROWSER");
    const char *const argv[] = {named && *named ? named : "xdg-open", page, NULL};
    const struct process_spec spec = {.argv = argv, .new_session = true};
    struct error err;
    int status = 0;
    if (!process_run(&spec, (struct str){0}, BROWSER_MS, NULL, NULL, &status, &err) || status != 0)
        fprintf(stderr, "helmr: no browser could be opened: visit the address yourself\n");
}

struct device {
    struct str code, user_code, page, complete;
    int64_t interval_seconds;
};

static const struct json_field device_fields[] = {
    {"device_code", JSON_TEXT, offsetof(struct device, code), REQUIRED},
    {"user_code", JSON_TEXT, offsetof(struct device, user_code), REQUIRED},
    {"verification_uri", JSON_TEXT, offsetof(struct device, page), REQUIRED},
    {"verification_uri_complete", JSON_TEXT, offsetof(struct device, complete), REQUIRED},
    {"interval_seconds", JSON_INTEGER, offsetof(struct device, interval_seconds), REQUIRED,
     .min = 1, .max = 600},
    {0},
};

static bool begin(struct api *api, struct device *device, struct error *err)
{
    int status = 0;
    struct str answer = {0};
    if (!ask(api, "/api/auth/device/start", STR("{}"), &status, &answer, err))
        return false;
    if (status != 201)
        return api_refused(api, status, answer, err);
    return json_read_loose(answer, device_fields, device, sizeof *device, &api->arena, err) ||
           error_wrap(err, "%s does not speak our language", api->url);
}

/* On stdout, which with --json is left to the document at the end. */
static void show(const struct invocation *invocation, const struct device *device,
                 struct arena *arena)
{
    const char *page = arena_text(arena, device->complete);
    FILE *out = invocation_has(invocation, "json") ? stderr : stdout;
    fprintf(out, "Visit ");
    output_clean(out, device->page);
    fprintf(out, "\nCode: ");
    output_clean(out, device->user_code);
    fprintf(out, "\n");
    (void)fflush(out);
    if (!invocation_has(invocation, "no-browser") && is_web_page(page))
        open_browser(page);
    fprintf(out, "Waiting for authorization...\n");
    (void)fflush(out);
}

static bool print_done(const struct invocation *invocation, const char *status, const char *words,
                       const char *url, struct error *err)
{
    AUTO(buf_finish) struct buf text = {.max = API_BODY_MAX};
    struct json_writer json = json_begin(&text);

    if (!invocation_has(invocation, "json")) {
        printf("%s %s\n", words, url);
        return true;
    }
    json_open(&json, NULL);
    json_string(&json, "url", url);
    json_string(&json, "status", status);
    json_close(&json);
    if (!json_end(&json, err))
        return false;
    output_line(buf_str(&text));
    return true;
}

static void pause_seconds(int64_t seconds)
{
    struct timespec left = {.tv_sec = seconds};
    while (nanosleep(&left, &left) != 0)
        ;
}

static bool poll_token(struct api *api, struct device *device, struct secret *token,
                       struct error *err)
{
    const char *body = arena_printf(&api->arena, "{\"device_code\":\"%.*s\"}",
                                    (int)device->code.len, device->code.ptr);
    for (;;) {
        struct str answer = {0}, text = {0};
        int status = 0;
        pause_seconds(device->interval_seconds);
        if (!ask(api, "/api/auth/device/token", str_of(body), &status, &answer, err))
            return false;
        if (status == 200 && json_find_text(answer, "access_token", &api->arena, &text)) {
            *token = secret_create(text);
            return true;
        }
        if (json_find_text(answer, "code", &api->arena, &text) &&
            str_equal(text, STR("slow_down"))) {
            device->interval_seconds += SLOWER_SECONDS;
            continue;
        }
        if (status == 202)
            continue;
        if (str_equal(text, STR("access_denied")))
            return error_set(err, ERR_ACCESS_DENIED, "the login was denied");
        if (str_equal(text, STR("expired_token")))
            return error_set(err, ERR_EXPIRED_TOKEN, "the code has expired: log in again");
        return api_refused(api, status, answer, err);
    }
}

bool login_command(const struct invocation *invocation, int *exit_code, struct error *err)
{
    AUTO(api_finish) struct api api = {0};
    AUTO(secret_finish) struct secret token = {0};
    struct device device = {0};

    *exit_code = 0;
    if (!choose_url(invocation, &api.arena, &api.url, err) || !is_safe(api.url, &api.arena, err) ||
        !http_client_create(api.url, &api.client, err) || !begin(&api, &device, err))
        return false;
    show(invocation, &device, &api.arena);
    if (!poll_token(&api, &device, &token, err) || !config_save_login(api.url, &token, err))
        return false;
    return print_done(invocation, "logged_in", "Logged in to", api.url, err);
}

/* What the server does not know any more need not be ended there. */
static void end_session(struct api *api, const struct secret *token)
{
    struct error err;
    struct str answer;
    int status = 0;
    bool is_told = http_client_create(api->url, &api->client, &err);
    if (is_told) {
        http_client_set_bearer(api->client, token);
        is_told = ask(api, "/api/auth/logout", STR("{}"), &status, &answer, &err);
    }
    if (!is_told || (status != 204 && status != 401))
        fprintf(stderr, "helmr: %s could not be told; the login ends there by itself\n", api->url);
}

bool logout_command(const struct invocation *invocation, int *exit_code, struct error *err)
{
    AUTO(api_finish) struct api api = {0};
    AUTO(secret_finish) struct secret token = {0};

    *exit_code = 0;
    if (!choose_url(invocation, &api.arena, &api.url, err) || !config_login(api.url, &token, err))
        return false;
    if (!secret_is_set(&token))
        return error_set(err, ERR_UNAUTHENTICATED, "there is no login for %s", api.url);
    end_session(&api, &token);
    if (!config_forget_login(api.url, err))
        return false;
    return print_done(invocation, "logged_out", "Logged out from", api.url, err);
}
