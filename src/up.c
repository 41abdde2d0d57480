#include "up.h"

#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/env.h"
#include "base/file.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/own.h"
#include "base/process.h"
#include "base/time.h"
#include "server/server.h"
#include "up_greet.h"

enum {
    BACK_OFF_MIN_MS = 1000,
    BACK_OFF_MAX_MS = 30 * 1000,
    STEADY_MS = 30 * 1000, /* alive for so long: the next death is a new story */
    WORKER_STOP_MS = 40 * 1000,
    SERVER_STOP_MS = 15 * 1000,
    ENV_MAX = 1024,
};

struct supervisor;

struct child {
    struct supervisor *supervisor;
    const char *name;
    const char *argv[8];
    char path[PATH_MAX]; /* of the program */
    const char *const *env;
    int64_t stop_ms; /* between SIGTERM and SIGKILL */
    struct process process;
    struct loop_source *ended;
    struct loop_timer *timer; /* until the next start, or until the kill */
    int64_t started_ms, back_off_ms;
    bool is_wanted;
};

struct supervisor {
    struct loop *loop;
    struct child server, worker;
    bool has_worker, is_stopping;
    bool was_ready, has_failed; /* the server */
};

static void start_child(void *arg);

static bool is_running(const struct child *child)
{
    return child->process.pid > 0;
}

static void kill_child(void *arg)
{
    struct child *child = arg;
    struct error err;

    child->timer = NULL;
    log_warn("killing", LOG_STR("child", child->name));
    if (!process_signal(&child->process, SIGKILL, &err))
        log_error("cannot kill", LOG_STR("child", child->name), LOG_ERR(&err));
}

static void stop_child(struct child *child)
{
    struct error err;

    child->is_wanted = false;
    loop_cancel(child->timer);
    child->timer = NULL;
    if (!is_running(child))
        return;
    if (!process_signal(&child->process, SIGTERM, &err))
        log_error("cannot stop", LOG_STR("child", child->name), LOG_ERR(&err));
    child->timer = loop_after(child->supervisor->loop, child->stop_ms, kill_child, child);
}

/* The worker first: it gives its runs back to a server that is still there. */
static void stop_next(struct supervisor *supervisor)
{
    if (is_running(&supervisor->worker))
        stop_child(&supervisor->worker);
    else if (is_running(&supervisor->server))
        stop_child(&supervisor->server);
    else
        loop_stop(supervisor->loop);
}

static void start_later(struct child *child)
{
    int64_t delay = child->back_off_ms;

    child->back_off_ms = 2 * delay < BACK_OFF_MAX_MS ? 2 * delay : BACK_OFF_MAX_MS;
    child->timer = loop_after(child->supervisor->loop, delay, start_child, child);
}

static void describe(int status, char text[32])
{
    if (WIFSIGNALED(status))
        snprintf(text, 32, "signal %d", WTERMSIG(status));
    else
        snprintf(text, 32, "exit %d", WEXITSTATUS(status));
}

/* A server that never came up has said why, and would say it again. */
static void give_up(struct supervisor *supervisor)
{
    supervisor->has_failed = supervisor->is_stopping = true;
    stop_next(supervisor);
}

static void child_ended(void *arg, unsigned events UNUSED)
{
    struct child *child = arg;
    struct error err;
    int status = 0;
    char how[32];

    loop_remove(child->ended);
    child->ended = NULL;
    loop_cancel(child->timer);
    child->timer = NULL;
    if (!process_wait(&child->process, -1, &status, &err))
        process_finish(&child->process);
    if (child->supervisor->is_stopping) {
        stop_next(child->supervisor);
        return;
    }
    if (child == &child->supervisor->server && !child->supervisor->was_ready && WIFEXITED(status)) {
        give_up(child->supervisor);
        return;
    }
    describe(status, how);
    if (time_boot_ms() - child->started_ms >= STEADY_MS)
        child->back_off_ms = BACK_OFF_MIN_MS;
    log_warn("ended, will start again", LOG_STR("child", child->name), LOG_STR("how", how),
             LOG_INT("in_ms", child->back_off_ms));
    start_later(child);
}

/* By its own name, so that lists of processes show it; by the descriptor's when the file has been
 * replaced meanwhile, so that supervisor and children stay of one version. */
static const char *program(char path[PATH_MAX])
{
    static const char own[] = "/proc/self/exe";
    ssize_t len = readlink(own, path, PATH_MAX - 1);
    struct stat ours, named;

    if (len < 0)
        return own;
    path[len] = '\0';
    bool is_same = stat(own, &ours) == 0 && stat(path, &named) == 0 &&
                   ours.st_dev == named.st_dev && ours.st_ino == named.st_ino;
    return is_same ? path : own;
}

static bool launch(struct child *child, struct error *err)
{
    child->argv[0] = program(child->path);
    const struct process_spec spec = {
        .argv = child->argv,
        .env = child->env,
        .fds = {{STDOUT_FILENO, STDOUT_FILENO}, {STDERR_FILENO, STDERR_FILENO}},
        .n_fds = 2,
        /* Ctrl-C reaches the supervisor alone, which stops them in order. */
        .new_session = true,
        .die_with_parent = true,
    };

    if (!process_start(&spec, &child->process, err))
        return false;
    if (loop_add(child->supervisor->loop, child->process.pidfd, LOOP_READ, child_ended, child,
                 &child->ended, err))
        return true;
    process_finish(&child->process);
    return false;
}

static void start_child(void *arg)
{
    struct child *child = arg;
    struct error err;

    child->timer = NULL;
    child->started_ms = time_boot_ms();
    if (launch(child, &err))
        return;
    log_error("cannot start", LOG_STR("child", child->name), LOG_ERR(&err));
    start_later(child);
}

static void signalled(void *arg, int number UNUSED)
{
    struct supervisor *supervisor = arg;
    struct child *children[] = {&supervisor->worker, &supervisor->server};
    struct error err;

    /* Asked twice: at once. */
    for (size_t i = 0; supervisor->is_stopping && i < COUNT_OF(children); i++) {
        if (is_running(children[i]) && !process_signal(&children[i]->process, SIGKILL, &err))
            log_error("cannot kill", LOG_STR("child", children[i]->name), LOG_ERR(&err));
    }
    if (supervisor->is_stopping)
        return;
    supervisor->is_stopping = true;
    log_info("stopping");
    for (size_t i = 0; i < COUNT_OF(children); i++) {
        loop_cancel(children[i]->timer);
        children[i]->timer = NULL;
    }
    stop_next(supervisor);
}

/* This process's variables, then ours; a variable that is set already wins. */
static const char *const *worker_env(struct arena *arena, const char *data_dir)
{
    extern char **environ;
    const char **env = arena_array(arena, ENV_MAX, sizeof *env);
    const char *defaults[][3] = {
        {"HELMR_DATA_DIR", NULL, data_dir},
        {"HELMR_CONTROL_URL", NULL, arena_printf(arena, "unix:%s/run/server.sock", data_dir)},
        {"HELMR_WORKER_BOOTSTRAP_TOKEN_FILE", "HELMR_WORKER_BOOTSTRAP_TOKEN",
         arena_printf(arena, "%s/keys/bootstrap", data_dir)},
        {"HELMR_CHECKPOINT_ENCRYPTION_KEY_FILE", "HELMR_CHECKPOINT_ENCRYPTION_KEY",
         arena_printf(arena, "%s/keys/checkpoint", data_dir)},
    };
    size_t n = 0;

    for (char **own = environ; *own && n < ENV_MAX - COUNT_OF(defaults) - 1; own++) {
        if (strncmp(*own, "HELMR_DATA_DIR=", 15) != 0)
            env[n++] = *own;
    }
    for (size_t i = 0; i < COUNT_OF(defaults); i++) {
        bool is_set =
            i > 0 && (getenv(defaults[i][0]) || (defaults[i][1] && getenv(defaults[i][1])));

        if (!is_set)
            env[n++] = arena_printf(arena, "%s=%s", defaults[i][0], defaults[i][2]);
    }
    return env;
}

static bool find_data_dir(const struct invocation *invocation, struct arena *arena,
                          const char **data_dir, struct error *err)
{
    const char *given = invocation_value(invocation, "data-dir");
    const char *shared = getenv("XDG_DATA_HOME"), *home = getenv("HOME");
    char real[PATH_MAX];

    if (!given)
        given = getenv("HELMR_DATA_DIR");
    if (!given && geteuid() == 0)
        given = "/var/lib/helmr";
    else if (!given && shared && *shared)
        given = arena_printf(arena, "%s/helmr", shared);
    else if (!given && home && *home)
        given = arena_printf(arena, "%s/.local/share/helmr", home);
    if (!given)
        return error_set(err, ERR_INVALID, "HOME is not set: name the data with --data-dir");
    if (!directory_make(given, 0700, err))
        return false;
    if (!realpath(given, real))
        return error_errno(err, "%s", given);
    *data_dir = arena_text(arena, str_of(real));
    return true;
}

static bool lock_data_dir(struct arena *arena, const char *data_dir, int *fd, struct error *err)
{
    if (file_lock(arena_printf(arena, "%s/lock", data_dir), fd, err))
        return true;
    if (err->code != ERR_CONFLICT)
        return false;
    return error_set(err, ERR_CONFLICT,
                     "another `helmr up` runs on %s: stop it first, or use another --data-dir",
                     data_dir);
}

/* The flag, the variable, the file in the data directory, the default. */
static bool find_address(const struct invocation *invocation, struct arena *arena,
                         const char *data_dir, const char **address, struct greeter *greeter,
                         struct error *err)
{
    AUTO(env_finish) struct env env = {0};
    const char *given = invocation_value(invocation, "addr"), *url;

    if (!env_load(&env, arena_printf(arena, "%s/helmr.env", data_dir), err))
        return false;
    if (!given)
        given = env_text(&env, "HELMR_CONTROL_ADDR", "127.0.0.1:3000");
    const char *colon = strrchr(given, ':');
    if (!colon || strcmp(colon, ":0") == 0 || !colon[1])
        return error_set(err, ERR_INVALID, "--addr %s: write it as HOST:PORT", given);
    url = env_find(&env, "HELMR_PUBLIC_URL");
    *address = arena_text(arena, str_of(given));

    /* A certificate is for the name in the public URL; in the clear the listener is nearer. */
    bool has_tls = env_find(&env, "HELMR_TLS_CERT_FILE");
    greeter->url = has_tls && url
                       ? arena_text(arena, str_of(url))
                       : arena_printf(arena, "%s://%s", has_tls ? "https" : "http", given);
    greeter->public_url = url ? arena_text(arena, str_of(url)) : greeter->url;
    return true;
}

static void set_up_children(struct supervisor *supervisor, const struct invocation *invocation,
                            struct arena *arena, const char *data_dir, const char *address)
{
    const char *engine = invocation_value(invocation, "engine");

    supervisor->has_worker = !invocation_has(invocation, "no-worker");
    supervisor->server = (struct child){
        .supervisor = supervisor,
        .name = "server",
        .argv = {NULL, "server", "--data-dir", data_dir, "--addr", address},
        .stop_ms = SERVER_STOP_MS,
        .process = {.pidfd = -1},
        .back_off_ms = BACK_OFF_MIN_MS,
    };
    supervisor->worker = (struct child){
        .supervisor = supervisor,
        .name = "worker",
        .argv = {NULL, "worker", "--data-dir", data_dir, engine ? "--engine" : NULL, engine},
        .env = worker_env(arena, data_dir),
        .stop_ms = WORKER_STOP_MS,
        .process = {.pidfd = -1},
        .back_off_ms = BACK_OFF_MIN_MS,
    };
}

static void start_worker(void *arg)
{
    struct supervisor *supervisor = arg;

    supervisor->was_ready = true;
    if (supervisor->has_worker && !supervisor->is_stopping && !is_running(&supervisor->worker))
        start_child(&supervisor->worker);
}

/* On the greeter's thread: the server answers, so the worker finds it. */
static void server_is_ready(void *arg)
{
    struct supervisor *supervisor = arg;

    loop_post(supervisor->loop, start_worker, supervisor);
}

static bool supervise(struct supervisor *supervisor, struct greeter *greeter, struct error *err)
{
    static const int numbers[] = {SIGTERM, SIGINT, SIGHUP};
    pthread_t thread;

    greeter->on_ready = server_is_ready;
    greeter->on_ready_arg = supervisor;
    if (!loop_create(&supervisor->loop, err))
        return false;
    bool ok =
        loop_signals(supervisor->loop, numbers, COUNT_OF(numbers), signalled, supervisor, err);
    if (ok) {
        start_child(&supervisor->server);
        ok = pthread_create(&thread, NULL, greeter_main, greeter) == 0 ||
             error_set(err, ERR_INTERNAL, "no thread could be made");
    }
    if (ok) {
        ok = loop_run(supervisor->loop, err);
        greeter->is_over = true;
        pthread_join(thread, NULL);
    }
    process_finish(&supervisor->worker.process);
    process_finish(&supervisor->server.process);
    loop_destroy(supervisor->loop);
    if (ok && supervisor->has_failed)
        return error_set(err, ERR_UNAVAILABLE, "the server did not start; its message is above");
    return ok;
}

static bool up_command(const struct invocation *invocation, int *exit_code, struct error *err)
{
    AUTO(arena_finish) struct arena arena = {0};
    AUTO_FD int lock = -1;
    struct supervisor supervisor = {0};
    struct greeter greeter = {0};
    const char *data_dir = NULL, *address = NULL;

    if (!find_data_dir(invocation, &arena, &data_dir, err) ||
        !lock_data_dir(&arena, data_dir, &lock, err) ||
        !find_address(invocation, &arena, data_dir, &address, &greeter, err) ||
        !server_seed_keys(data_dir, err))
        return false;
    set_up_children(&supervisor, invocation, &arena, data_dir, address);
    greeter.socket_url = arena_printf(&arena, "unix:%s/run/server.sock", data_dir);
    greeter.saves_login = !invocation_has(invocation, "no-login");
    greeter.has_worker = supervisor.has_worker;
    if (invocation_has(invocation, "seed"))
        greeter.seed_dir = arena_printf(&arena, "%s/seed", data_dir);
    *exit_code = 0;
    return supervise(&supervisor, &greeter, err);
}

static const struct option up_options[] = {
    {"data-dir", 0, OPTION_VALUE, "DIR", "Everything local (HELMR_DATA_DIR)."},
    {"addr", 0, OPTION_VALUE, "HOST:PORT", "Where to listen (127.0.0.1:3000)."},
    {"engine", 0, OPTION_VALUE, "NAME",
     "auto, firecracker, qemu, gvisor or container (HELMR_ENGINE).", "auto firecracker qemu gvisor container"},
    {"no-worker", 0, OPTION_FLAG, NULL, "Only the server: runs wait for another worker."},
    {"no-login", 0, OPTION_FLAG, NULL, "Do not save a login for the command line."},
    {"seed", 0, OPTION_FLAG, NULL, "Deploy a project of examples and run its tasks, once."},
    {0},
};

const struct command up_commands[] = {
    {
     .name = "up",
     .summary = "run everything on this machine",
     .help =
            "Runs server and worker over one data directory until Ctrl-C; keys, database and\n"
            "project are made at the first start. On loopback it saves an owner login, so that\n"
            "the other commands work at once. Runs survive a restart.\n\n"
            "  helmr up\n"
            "  helmr up --data-dir ./data --addr 127.0.0.1:4000 --engine gvisor", .options = up_options,
     .run = up_command,
     },
};

const size_t n_up_commands = COUNT_OF(up_commands);
