#include "base/process.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>

#include "base/own.h"
#include "base/test.h"

#define ARGV(...) ((const char *const[]){__VA_ARGS__, NULL})

static struct error err;

static bool run(const char *const *argv, struct str input, struct buf *out, struct buf *errors,
                int *status)
{
    struct process_spec spec = {.argv = argv};

    return process_run(&spec, input, 20000, out, errors, status, &err);
}

TEST(output_errors_and_status_come_back)
{
    AUTO(buf_finish) struct buf out = {.max = 1000};
    AUTO(buf_finish) struct buf errors = {.max = 1000};
    int status;

    CHECK(
        run(ARGV("sh", "-c", "cat; echo oops >&2; exit 3"), STR("hello"), &out, &errors, &status));
    CHECK(str_equal(buf_str(&out), STR("hello")));
    CHECK(str_equal(buf_str(&errors), STR("oops\n")));
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 3);
}

TEST(a_megabyte_goes_through)
{
    AUTO(buf_finish) struct buf out = {.max = 1 << 20};
    AUTO_FREE char *bytes = alloc(1 << 20);
    int status;

    memset(bytes, 'z', 1 << 20);
    CHECK(run(ARGV("cat"), (struct str){bytes, 1 << 20}, &out, NULL, &status));
    CHECK(status == 0 && out.len == 1 << 20 && !memcmp(out.bytes, bytes, out.len));
}

TEST(a_program_that_ignores_its_input_is_no_problem)
{
    static char bytes[1 << 20];
    int status;

    CHECK(run(ARGV("true"), (struct str){bytes, sizeof bytes}, NULL, NULL, &status));
    CHECK(status == 0);
}

TEST(a_failed_exec_is_an_error_of_the_start)
{
    struct process process = {.pidfd = -1};
    struct process_spec missing = {.argv = ARGV("no-such-program-anywhere")};
    struct process_spec denied = {.argv = ARGV("/etc/passwd")};
    struct process_spec nowhere = {.argv = ARGV("true"), .cwd = "/no/such/folder"};

    CHECK(!process_start(&missing, &process, &err) && err.sys == ENOENT);
    CHECK_STR(err.text, "run no-such-program-anywhere: No such file or directory");
    CHECK(!process_start(&denied, &process, &err) && err.sys == EACCES);
    CHECK(!process_start(&nowhere, &process, &err) && err.sys == ENOENT);
    CHECK(process.pidfd == -1);
    CHECK(waitpid(-1, NULL, WNOHANG) == -1 && errno == ECHILD);
}

TEST(no_end_in_time_kills_and_reaps)
{
    struct process_spec spec = {.argv = ARGV("sleep", "1000")};
    int status;

    CHECK(!process_run(&spec, STR(""), 50, NULL, NULL, &status, &err));
    CHECK(err.code == ERR_TIMEOUT);
    CHECK(waitpid(-1, NULL, WNOHANG) == -1 && errno == ECHILD);
}

TEST(too_much_output_ends_the_program)
{
    AUTO(buf_finish) struct buf out = {.max = 4096};
    int status;

    CHECK(!run(ARGV("cat", "/dev/zero"), STR(""), &out, NULL, &status));
    CHECK(err.code == ERR_TOO_LARGE);
    CHECK(waitpid(-1, NULL, WNOHANG) == -1);
}

TEST(a_grandchild_holding_the_pipe_does_not_hold_us)
{
    AUTO(buf_finish) struct buf out = {.max = 100};
    int status;

    CHECK(run(ARGV("sh", "-c", "sleep 1000 & echo $!"), STR(""), &out, NULL, &status));
    CHECK(status == 0 && out.len > 1);

    char text[32] = {0};
    memcpy(text, out.bytes, out.len < 31 ? out.len : 31);
    CHECK(kill((pid_t)strtol(text, NULL, 10), SIGKILL) == 0);
}

TEST(the_child_has_only_the_descriptors_named)
{
    AUTO(buf_finish) struct buf out = {.max = 1000};
    AUTO_FD int leak = open("/dev/zero", O_RDONLY);
    AUTO_FD int high = fcntl(leak, F_DUPFD, 500);
    struct process_spec spec = {
        .argv = ARGV("sh", "-c",
                     "for f in 0 1 2 3 4 5 6 7 8 9 500; do "
                     "[ -e /proc/$$/fd/$f ] && readlink /proc/$$/fd/$f; done"),
        .fds = {{leak, 7}},
        .n_fds = 1,
    };
    int status;

    CHECK(high == 500);
    CHECK(process_run(&spec, STR(""), 20000, &out, NULL, &status, &err));
    CHECK(buf_append(&out, (struct str){"", 1}, &err));

    char *pipe_at = strstr(out.bytes, "pipe:");

    CHECK(pipe_at);
    CHECK(!strncmp(out.bytes, "/dev/null\npipe:", 15));
    CHECK_STR(strchr(pipe_at, '\n'), "\n/dev/null\n/dev/zero\n");
}

TEST(descriptors_can_change_places)
{
    AUTO(buf_finish) struct buf out = {.max = 1000};
    AUTO_FD int zero = open("/dev/zero", O_RDONLY | O_CLOEXEC);
    AUTO_FD int full = open("/dev/full", O_RDONLY | O_CLOEXEC);
    char script[200];
    int status;

    snprintf(script, sizeof script, "readlink /proc/$$/fd/%d /proc/$$/fd/%d", zero, full);

    struct process_spec spec = {
        .argv = ARGV("sh", "-c", script),
        .fds = {{zero, full}, {full, zero}},
        .n_fds = 2,
    };

    CHECK(process_run(&spec, STR(""), 20000, &out, NULL, &status, &err));
    CHECK(str_equal(buf_str(&out), STR("/dev/full\n/dev/zero\n")));
}

TEST(signals_are_back_to_normal_in_the_child)
{
    AUTO(buf_finish) struct buf out = {.max = 4000};
    sigset_t set, before;
    int status;

    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    pthread_sigmask(SIG_BLOCK, &set, &before);
    signal(SIGPIPE, SIG_IGN);

    bool fine =
        run(ARGV("grep", "-E", "SigBlk|SigIgn", "/proc/self/status"), STR(""), &out, NULL, &status);

    signal(SIGPIPE, SIG_DFL);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    CHECK(fine);
    CHECK(str_equal(buf_str(&out), STR("SigBlk:\t0000000000000000\nSigIgn:\t0000000000000000\n")));
}

TEST(the_environment_and_directory_are_those_given)
{
    AUTO(buf_finish) struct buf out = {.max = 1000};
    struct process_spec spec = {
        .argv = ARGV("sh", "-c", "pwd; echo $HELMR_TEST; echo ${HOME-none}"),
        .env = ARGV("PATH=/usr/bin:/bin", "HELMR_TEST=yes"),
        .cwd = "/usr",
    };
    int status;

    CHECK(process_run(&spec, STR(""), 20000, &out, NULL, &status, &err));
    CHECK(str_equal(buf_str(&out), STR("/usr\nyes\nnone\n")));
}

TEST(the_program_is_found_by_the_path_it_will_have)
{
    struct process process = {.pidfd = -1};
    struct process_spec spec = {.argv = ARGV("true"), .env = ARGV("PATH=/nowhere:/proc")};

    CHECK(!process_start(&spec, &process, &err) && err.sys == ENOENT);
}

static bool refuse(void *arg, struct error *problem)
{
    return error_set(problem, ERR_UNAVAILABLE, "not %s", (const char *)arg);
}

TEST(an_error_of_the_preparation_comes_back_whole)
{
    struct process process = {.pidfd = -1};
    char when[] = "today";
    struct process_spec spec = {.argv = ARGV("true"), .prepare = refuse, .prepare_arg = when};

    CHECK(!process_start(&spec, &process, &err));
    CHECK(err.code == ERR_UNAVAILABLE);
    CHECK_STR(err.text, "not today");
}

TEST(waiting_has_a_limit_and_leaves_it_alive)
{
    AUTO(process_finish) struct process process = {.pidfd = -1};
    struct process_spec spec = {.argv = ARGV("sleep", "1000"), .new_session = true};
    int status;

    CHECK(process_start(&spec, &process, &err));
    CHECK(getsid(process.pid) == process.pid);
    CHECK(!process_wait(&process, 10, &status, &err) && err.code == ERR_TIMEOUT);
    CHECK(process_signal(&process, SIGTERM, &err));
    CHECK(process_wait(&process, -1, &status, &err));
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM);
    CHECK(process.pidfd == -1);
    CHECK(!process_signal(&process, SIGTERM, &err));
    CHECK(!process_wait(&process, 0, &status, &err));
}

TEST(finishing_what_was_never_started_does_nothing)
{
    struct process zeroed = {0}, never = {.pidfd = -1};

    process_finish(&zeroed);
    process_finish(&never);
    CHECK(fcntl(0, F_GETFD) >= 0);
}

static struct process tied;

static void *start_tied(void *arg UNUSED)
{
    struct process_spec spec = {.argv = ARGV("sleep", "1000"), .die_with_parent = true};

    return process_start(&spec, &tied, &err) ? &tied : NULL;
}

TEST(a_tied_child_dies_with_the_thread_that_made_it)
{
    pthread_t thread;
    void *made;
    int status;

    CHECK(pthread_create(&thread, NULL, start_tied, NULL) == 0);
    pthread_join(thread, &made);
    CHECK(made);
    CHECK(process_wait(&tied, 20000, &status, &err));
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

TEST(a_child_of_new_pids_is_the_first_of_them)
{
    AUTO(buf_finish) struct buf out = {.max = 100};
    struct process_spec spec = {.argv = ARGV("sh", "-c", "echo $$ $PPID"), .new_pids = true};
    int status;

    if (geteuid() != 0)
        SKIP("needs root");
    CHECK(process_run(&spec, STR(""), 20000, &out, NULL, &status, &err));
    CHECK(status == 0 && str_equal(buf_str(&out), STR("1 0\n")));
}

TEST(must_names_the_last_line_of_the_errors)
{
    AUTO(buf_finish) struct buf out = {.max = 100};

    CHECK(process_must(ARGV("echo", "fine"), STR(""), 20000, &out, &err));
    CHECK(str_equal(buf_str(&out), STR("fine\n")));
    CHECK(!process_must(ARGV("sh", "-c", "echo first >&2; echo last >&2; exit 9"), STR(""), 20000,
                        NULL, &err));
    CHECK_STR(err.text, "sh exited with 9: last");
    CHECK(!process_must(ARGV("sh", "-c", "kill -9 $$"), STR(""), 20000, NULL, &err));
    CHECK_STR(err.text, "sh was ended by signal 9");
}

TEST(a_start_time_tells_processes_apart)
{
    uint64_t self, parent, nobody;

    CHECK(process_start_time(getpid(), &self, &err));
    CHECK(process_start_time(1, &parent, &err));
    CHECK(self > 0 && self >= parent);
    CHECK(!process_start_time(1 << 22, &nobody, &err) && err.code == ERR_NOT_FOUND);
}

TEST_MAIN()
