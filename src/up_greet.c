#include "up_greet.h"

#include <grp.h>
#include <poll.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/json.h"
#include "base/log.h"
#include "base/own.h"
#include "base/time.h"
#include "cli/config.h"
#include "cli/scan.h"
#include "http/client.h"
#include "up_seed.h"

enum { POLL_MS = 100, REQUEST_MS = 5000, IMPATIENT_MS = 30 * 1000, ANSWER_MAX = 4 * 1024 * 1024 };

#define SESSION_PREFIX "hlmr_us_"

struct meeting {
    struct greeter *greeter;
    struct http_client *client;
    struct secret token;
    int64_t started_ms; /* real time */
};

static bool ask(struct meeting *meeting, const struct http_request *request, struct buf *body)
{
    struct http_answer answer = {.body = {.max = ANSWER_MAX}};
    struct http_request whole = *request;
    struct error err;

    whole.timeout_ms = REQUEST_MS;
    whole.abort = &meeting->greeter->is_over;
    bool ok = http_client_send(meeting->client, &whole, &answer, &err) && answer.status >= 200 &&
              answer.status < 300;
    if (ok && body) {
        *body = answer.body;
        answer.body = (struct buf){0};
    }
    buf_finish(&answer.body);
    return ok;
}

static void pause_a_little(const struct meeting *meeting, int ms)
{
    for (int waited = 0; waited < ms && !meeting->greeter->is_over; waited += POLL_MS)
        poll(NULL, 0, POLL_MS);
}

static bool wait_until_ready(struct meeting *meeting)
{
    const struct http_request request = {.method = "GET", .path = "/readyz"};

    while (!meeting->greeter->is_over) {
        if (ask(meeting, &request, NULL))
            return true;
        pause_a_little(meeting, POLL_MS);
    }
    return false;
}

/* The value of the session's cookie is a bearer token. */
static void take_cookie(void *arg, struct str name, struct str value)
{
    struct meeting *meeting = arg;
    struct str cookie, unused;

    if (!str_equal_nocase(name, STR("set-cookie")) || !str_split(&value, '=', &unused) ||
        !str_split(&value, ';', &cookie) || cookie.len <= strlen(SESSION_PREFIX) ||
        memcmp(cookie.ptr, SESSION_PREFIX, strlen(SESSION_PREFIX)) != 0)
        return;
    secret_finish(&meeting->token);
    meeting->token = secret_create(cookie);
}

/* False where dev login is off or the listener is not loopback. */
static bool log_in(struct meeting *meeting)
{
    const struct http_request request = {
        .method = "POST",
        .path = "/api/auth/dev/login",
        .body = STR("{}"),
        .on_header = take_cookie,
        .on_header_arg = meeting,
    };

    if (!ask(meeting, &request, NULL) || !secret_is_set(&meeting->token))
        return false;
    http_client_set_bearer(meeting->client, &meeting->token);
    return true;
}

static bool save_here(const struct meeting *meeting, struct error *err)
{
    AUTO(arena_finish) struct arena arena = {0};
    const char *url;

    return config_normalise_url(meeting->greeter->url, &arena, &url, err) &&
           config_save_login(url, &meeting->token, err);
}

/* Under sudo the login belongs to the person behind it, and is written with their rights: a
 * directory of theirs may hold any link. */
static bool save_as(const struct meeting *meeting, uid_t uid, struct error *err)
{
    const struct passwd *user = getpwuid(uid);

    if (!user)
        return error_set(err, ERR_NOT_FOUND, "SUDO_UID names no user");

    pid_t pid = fork();

    if (pid < 0)
        return error_errno(err, "fork");
    if (pid == 0) {
        struct error failed;
        bool ok = setgroups(0, NULL) == 0 && setgid(user->pw_gid) == 0 && setuid(uid) == 0 &&
                  setenv("HOME", user->pw_dir, 1) == 0 && unsetenv("XDG_CONFIG_HOME") == 0 &&
                  save_here(meeting, &failed);
        _exit(ok ? 0 : 1);
    }
    int status = 0;
    if (waitpid(pid, &status, 0) < 0)
        return error_errno(err, "wait for process %d", (int)pid);
    return status == 0 || error_set(err, ERR_INTERNAL, "not writable for %s", user->pw_name);
}

static void save_login(const struct meeting *meeting)
{
    const char *sudo = getenv("SUDO_UID");
    char *end = NULL;
    unsigned long uid = sudo ? strtoul(sudo, &end, 10) : 0;
    struct error err;
    bool is_other = geteuid() == 0 && uid > 0 && end && !*end && !getenv("HELMR_CONFIG_DIR");

    if (!save_here(meeting, &err) || (is_other && !save_as(meeting, (uid_t)uid, &err)))
        log_warn("the login could not be saved", LOG_ERR(&err));
}

/* A worker that was active before this start may be a dead one that nobody has missed yet. */
static bool is_new(struct str worker, int64_t since_ms, struct arena *arena)
{
    struct str state, seen;
    int64_t seen_ms;
    struct error err;

    return json_find_text(worker, "state", arena, &state) && str_equal(state, STR("active")) &&
           json_find_text(worker, "last_seen_at", arena, &seen) &&
           time_parse(seen, &seen_ms, &err) && seen_ms >= since_ms;
}

static bool print_engine(struct meeting *meeting)
{
    AUTO(arena_finish) struct arena arena = {0};
    AUTO(buf_finish) struct buf body = {0};
    const struct http_request request = {.method = "GET", .path = "/api/workers"};
    struct str list, worker, engine, grade;

    if (!ask(meeting, &request, &body) || !json_find_raw(buf_str(&body), "workers", &arena, &list))
        return false;
    while (scan_item(&list, &worker)) {
        if (is_new(worker, meeting->started_ms, &arena) &&
            json_find_text(worker, "engine", &arena, &engine) &&
            json_find_text(worker, "grade", &arena, &grade)) {
            printf("engine: %.*s (%.*s)\n", (int)engine.len, engine.ptr, (int)grade.len, grade.ptr);
            fflush(stdout);
            return true;
        }
    }
    return false;
}

static void wait_for_worker(struct meeting *meeting)
{
    int64_t begun = time_boot_ms();
    bool has_complained = false;

    while (!meeting->greeter->is_over && !print_engine(meeting)) {
        if (!has_complained && time_boot_ms() - begun > IMPATIENT_MS) {
            fprintf(stderr, "helmr: no worker is active yet: its log is above, and `helmr doctor` "
                            "says what this host lacks\n");
            has_complained = true;
        }
        pause_a_little(meeting, 2 * POLL_MS);
    }
}

static void plant(struct meeting *meeting)
{
    const struct greeter *greeter = meeting->greeter;
    struct error err;

    if (seed_examples(meeting->client, greeter->url, greeter->seed_dir, &greeter->is_over, &err)) {
        printf("seed: examples of runs in every status\n");
        fflush(stdout);
    } else if (!greeter->is_over) {
        log_error("the examples are not complete; the next start goes on", LOG_ERR(&err));
    }
}

static void greet(struct meeting *meeting)
{
    struct greeter *greeter = meeting->greeter;

    if (!wait_until_ready(meeting))
        return;
    greeter->on_ready(greeter->on_ready_arg);

    bool is_in = log_in(meeting);

    if (is_in && greeter->saves_login)
        save_login(meeting);
    printf("console: %s%s\n", greeter->public_url, is_in ? "/dev/login" : "/login");
    if (!greeter->has_worker)
        printf("engine: none (no worker was asked for)\n");
    fflush(stdout);
    if (is_in && greeter->has_worker)
        wait_for_worker(meeting);
    if (greeter->seed_dir && is_in && greeter->has_worker && !greeter->is_over)
        plant(meeting);
    else if (greeter->seed_dir && !greeter->is_over)
        fprintf(stderr, "helmr: examples need a worker, and a listener on loopback\n");
}

void *greeter_main(void *arg)
{
    struct meeting meeting = {.greeter = arg, .started_ms = time_now_ms()};
    struct error err;

    if (!http_client_create(meeting.greeter->socket_url, &meeting.client, &err)) {
        log_error("cannot talk to the server", LOG_ERR(&err));
        return NULL;
    }
    greet(&meeting);
    secret_finish(&meeting.token);
    http_client_destroy(meeting.client);
    return NULL;
}
