#include "cli/exec_session.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/encode.h"
#include "base/file.h"
#include "base/json.h"
#include "base/own.h"
#include "cli/api.h"
#include "cli/follow.h"
#include "cli/scan.h"

enum { PIECE = 240 * 1024, RETRY_MS = 200 };

/* One of the threads: each has a conversation of its own. */
struct lane {
    const struct exec_session *session;
    struct shared *shared;
    struct api api;
    const char *stream; /* of output */
    int fd;
    struct exec_end end;
    struct error err;
    bool failed, is_running;
    pthread_t thread;
};

struct shared {
    int stop_fd;           /* readable when the command is over */
    volatile bool is_over; /* the same, for exchanges under way */
};

static bool print_bytes(struct str base64, int fd, struct error *err)
{
    size_t len = base64_decoded_max(base64.len);
    AUTO_FREE char *bytes = alloc(len + 1);

    if (!base64_decode(base64, bytes, &len))
        return error_set(err, ERR_INTERNAL, "the server sent bytes that are not base64");
    return fd_write_all(fd, (struct str){bytes, len}, err);
}

/* Scanned, not parsed: a command may print as fast as the wire carries it. */
static bool print_chunk(struct str data, int fd, struct error *err)
{
    struct str key, value;

    while (scan_member(&data, &key, &value))
        if (str_equal(key, STR("\"data\"")) && value.len >= 2)
            return print_bytes((struct str){value.ptr + 1, value.len - 2}, fd, err);
    return error_set(err, ERR_INTERNAL, "the server sent a piece of output without its bytes");
}

static void copy_text(char *to, size_t size, struct str object, const char *path,
                      struct arena *arena)
{
    struct str text = {0};

    to[0] = '\0';
    if (json_find_text(object, path, arena, &text))
        snprintf(to, size, "%.*s", (int)text.len, text.ptr);
}

void exec_end_of(struct api *api, struct str object, struct exec_end *end)
{
    int64_t code;

    *end = (struct exec_end){0};
    copy_text(end->state, sizeof end->state, object, "state", &api->arena);
    copy_text(end->signal, sizeof end->signal, object, "signal", &api->arena);
    copy_text(end->error, sizeof end->error, object, "error", &api->arena);
    end->has_exit_code = json_find_int(object, "exit_code", &code);
    end->exit_code = end->has_exit_code ? (int)code : 0;
    end->is_lost = str_equal(str_of(end->state), STR("lost"));
}

static int signal_number(const char *name)
{
    for (int number = 1; number < NSIG; number++) {
        const char *known = sigabbrev_np(number);

        if (known && str_equal(str_of(known), str_of(name)))
            return number;
    }
    return (int)strtol(name, NULL, 10); /* one without a name is told by its number */
}

bool exec_end_code(const struct exec_end *end, int *exit_code, struct error *err)
{
    const char *why = end->error[0] ? end->error : "no reason is known";

    if (end->signal[0])
        *exit_code = 128 + signal_number(end->signal);
    else if (end->has_exit_code)
        *exit_code = end->exit_code;
    else if (end->is_lost)
        return error_set(err, ERR_WORKSPACE_MOUNT_LOST, "the command was lost: %s", why);
    else
        return error_set(err, ERR_UNPROCESSABLE, "the command did not run: %s", why);
    return true;
}

static enum follow_verdict take_event(void *arg, const struct sse_event *event, struct error *err)
{
    struct lane *lane = arg;
    struct str code = {0};

    if (str_equal(event->name, STR("workspace_stream_chunk")))
        return print_chunk(event->data, lane->fd, err) ? FOLLOW_ON : FOLLOW_FAILED;
    if (str_equal(event->name, STR("workspace_stream_error"))) {
        json_find_text(event->data, "code", &lane->api.arena, &code);
        (void)error_set(err, ERR_STREAM_CURSOR_EXPIRED,
                        "%s was printed faster than it could be read (%.*s)", lane->stream,
                        (int)code.len, code.ptr);
        return FOLLOW_FAILED;
    }
    exec_end_of(&lane->api, event->data, &lane->end);
    return FOLLOW_END;
}

static bool print_stream(struct lane *lane, struct error *err)
{
    AUTO(follow_finish) struct follow follow;
    char cursor[24];

    follow_init(&follow, &lane->api,
                api_path(&lane->api, "%s/%s", lane->session->path, lane->stream), take_event, lane);
    snprintf(cursor, sizeof cursor, "%lld", (long long)lane->session->cursor);
    return (lane->fd != STDOUT_FILENO || lane->session->cursor == 0 ||
            buf_append(&follow.cursor, str_of(cursor), err)) &&
           follow_until_end(&follow, err);
}

static void *print_main(void *arg)
{
    struct lane *lane = arg;

    lane->failed = !print_stream(lane, &lane->err);
    return NULL;
}

static void pause_a_while(void)
{
    nanosleep(&(struct timespec){.tv_nsec = RETRY_MS * 1000000L}, NULL);
}

static bool post(struct lane *lane, const char *verb, struct str body, struct error *err)
{
    const struct http_request request = {
        .method = "POST",
        .path = api_path(&lane->api, "%s/%s", lane->session->path, verb),
        .body = body,
        .abort = &lane->shared->is_over,
    };

    return api_exchange(&lane->api, &request, NULL, err);
}

/* Where the input ends by now: an answer may have been lost on its way. */
static bool find_offset(struct lane *lane, int64_t *offset, struct error *err)
{
    struct str answer;

    if (!api_send(&lane->api, "GET", api_path(&lane->api, "%s", lane->session->path),
                  (struct str){0}, &answer, err))
        return false;
    return json_find_int(answer, "stdin_cursor", offset) ||
           error_set(err, ERR_INTERNAL, "the server did not say where the input ends");
}

static bool send_piece(struct lane *lane, int64_t offset, struct str bytes, struct error *err)
{
    AUTO(buf_finish) struct buf body = {.max = 2 * PIECE + 1024};
    struct json_writer json = json_begin(&body);

    json_open(&json, NULL);
    json_int(&json, "offset", offset);
    json_base64(&json, "data", bytes);
    json_close(&json);
    return json_end(&json, err) && post(lane, "stdin", buf_str(&body), err);
}

/* False when nothing more will be taken. */
static bool send_bytes(struct lane *lane, int64_t *offset, struct str bytes)
{
    struct error err;

    while (bytes.len > 0 && !lane->shared->is_over) {
        int64_t end = *offset;

        if (send_piece(lane, *offset, bytes, &err)) {
            *offset += (int64_t)bytes.len;
            return true;
        }
        if (err.code != ERR_UNAVAILABLE && err.code != ERR_TIMEOUT && err.code != ERR_STREAM_OFFSET)
            return false;
        if (err.code != ERR_STREAM_OFFSET)
            pause_a_while();
        else if (!find_offset(lane, &end, &err))
            continue;
        if (end < *offset || end > *offset + (int64_t)bytes.len)
            return false;
        bytes = (struct str){bytes.ptr + (end - *offset), bytes.len - (size_t)(end - *offset)};
        *offset = end;
    }
    return !lane->shared->is_over;
}

static void close_input(struct lane *lane)
{
    struct error err;

    while (!lane->shared->is_over && !post(lane, "stdin/close", (struct str){0}, &err) &&
           (err.code == ERR_UNAVAILABLE || err.code == ERR_TIMEOUT))
        pause_a_while();
}

/* Waits until there is something to read, or nobody wants it any more. */
static bool wait_for_input(struct lane *lane)
{
    struct pollfd ends[] = {
        {STDIN_FILENO,          POLLIN, 0},
        {lane->shared->stop_fd, POLLIN, 0},
    };

    while (poll(ends, 2, -1) < 0)
        if (errno != EINTR)
            return false;
    return ends[1].revents == 0;
}

/* As much as is there by now: a pipe gives little at a time. *is_end: there will be no more. */
static size_t read_piece(char *bytes, bool *is_end)
{
    struct pollfd here = {STDIN_FILENO, POLLIN, 0};
    size_t len = 0;

    do {
        ssize_t got = read(STDIN_FILENO, bytes + len, PIECE - len);

        if (got < 0 && errno == EINTR)
            continue;
        *is_end = got <= 0;
        len += got > 0 ? (size_t)got : 0;
    } while (!*is_end && len < PIECE && poll(&here, 1, 0) > 0);
    return len;
}

static void *input_main(void *arg)
{
    struct lane *lane = arg;
    AUTO_FREE char *bytes = alloc(PIECE);
    bool is_end = false, goes_on = true;
    int64_t offset = 0;

    while (goes_on && !is_end && wait_for_input(lane)) {
        size_t len = read_piece(bytes, &is_end);

        goes_on = send_bytes(lane, &offset, (struct str){bytes, len});
    }
    if (is_end && goes_on)
        close_input(lane);
    return NULL;
}

static const int interrupts[] = {SIGINT, SIGTERM, SIGHUP};

static sigset_t interrupt_set(void)
{
    sigset_t set;

    sigemptyset(&set);
    for (size_t i = 0; i < COUNT_OF(interrupts); i++)
        sigaddset(&set, interrupts[i]);
    return set;
}

/* The first is passed on; the second kills, and does not wait for what comes of it. */
static void *signal_main(void *arg)
{
    struct lane *lane = arg;
    sigset_t set = interrupt_set();
    struct error err;

    for (int n = 0; !lane->shared->is_over; n++) {
        int number;

        if (sigwait(&set, &number) != 0 || lane->shared->is_over)
            break;
        const char *name = n > 0 ? "KILL" : number == SIGINT ? "INT" : "TERM";
        const char *body = arena_printf(&lane->api.arena, "{\"signal\":\"%s\"}", name);
        if (!post(lane, "terminate", str_of(body), &err) && err.code != ERR_EXEC_TERMINAL)
            fprintf(stderr, "helmr: %s\n", err.text);
        if (n > 0) {
            fprintf(stderr, "helmr: detached; the command was told to end\n");
            _exit(130);
        }
    }
    return NULL;
}

static bool begin(struct lane *lane, void *(*run)(void *), struct error *err)
{
    if (!api_open(lane->session->invocation, API_ANY, NULL, &lane->api, err))
        return false;
    lane->is_running = pthread_create(&lane->thread, NULL, run, lane) == 0;
    return lane->is_running || error_set(err, ERR_INTERNAL, "a thread could not be made");
}

static void end_lane(struct lane *lane)
{
    if (lane->is_running)
        pthread_join(lane->thread, NULL);
    api_finish(&lane->api);
}

static bool follow_both(struct lane *out, struct lane *errors, struct error *err)
{
    if (!begin(errors, print_main, err) ||
        !api_open(out->session->invocation, API_ANY, NULL, &out->api, err))
        return false;
    print_main(out);
    pthread_join(errors->thread, NULL);
    errors->is_running = false;
    if (out->failed)
        *err = out->err;
    else if (errors->failed)
        *err = errors->err;
    return !out->failed && !errors->failed;
}

/* Ends the threads that wait for something else than the command. */
static void stop(struct shared *shared, struct lane *signals)
{
    static const uint64_t one = 1;
    ssize_t ignored UNUSED;

    shared->is_over = true;
    ignored = write(shared->stop_fd, &one, sizeof one);
    if (signals->is_running)
        pthread_kill(signals->thread, SIGHUP);
}

bool exec_session_run(const struct exec_session *session, struct exec_end *end, struct error *err)
{
    struct shared shared = {.stop_fd = eventfd(0, EFD_CLOEXEC)};
    struct lane out = {session, &shared, .stream = "stdout", .fd = STDOUT_FILENO};
    struct lane errors = {session, &shared, .stream = "stderr", .fd = STDERR_FILENO};
    struct lane input = {session, &shared}, signals = {session, &shared};
    sigset_t set = interrupt_set(), before;
    AUTO_FD int stop_fd = shared.stop_fd;

    if (stop_fd < 0)
        return error_errno(err, "eventfd");
    fflush(stdout);
    /* Whoever only looks on is ended by them as any program is. */
    if (!session->has_input)
        sigemptyset(&set);
    pthread_sigmask(SIG_BLOCK, &set, &before);
    bool fine = (!session->has_input ||
                 (begin(&signals, signal_main, err) && begin(&input, input_main, err))) &&
                follow_both(&out, &errors, err);
    stop(&shared, &signals);
    end_lane(&errors);
    end_lane(&input);
    end_lane(&signals);
    end_lane(&out);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    *end = out.end;
    return fine;
}
