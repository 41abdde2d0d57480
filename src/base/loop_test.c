#include "base/loop.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "base/own.h"
#include "base/test.h"

static struct loop *loop;
static struct error err;
static int calls;

static void stop(void *arg UNUSED)
{
    loop_stop(loop);
}

static char noted[8];

static void note(char c)
{
    noted[strlen(noted)] = c;
}

static void note_a(void *arg UNUSED)
{
    note('a');
}

static void note_b(void *arg UNUSED)
{
    note('b');
}

static void note_c(void *arg UNUSED)
{
    note('c');
}

TEST(timers_fire_in_order_of_time_then_of_making)
{
    CHECK(loop_create(&loop, &err));
    loop_after(loop, 20, note_c, NULL);
    loop_after(loop, 0, note_a, NULL);
    loop_after(loop, 0, note_b, NULL);
    loop_after(loop, 21, stop, NULL);
    CHECK(loop_run(loop, &err));
    loop_destroy(loop);
    CHECK_STR(noted, "abc");
}

static void count(void *arg UNUSED)
{
    calls++;
}

static void cancel_other(void *arg)
{
    loop_cancel(arg);
    calls += 100;
}

TEST(a_cancelled_timer_never_fires)
{
    calls = 0;
    CHECK(loop_create(&loop, &err));

    struct loop_timer *first = loop_after(loop, 10, count, NULL);
    struct loop_timer *second = loop_after(loop, 5, count, NULL);

    loop_cancel(first);
    loop_cancel(NULL);
    loop_after(loop, 0, cancel_other, second);
    loop_after(loop, 30, stop, NULL);
    CHECK(loop_run(loop, &err));
    loop_destroy(loop);
    CHECK(calls == 100);
}

TEST(a_thousand_timers_fire_and_half_are_cancelled)
{
    struct loop_timer *timers[1000];

    calls = 0;
    CHECK(loop_create(&loop, &err));
    for (int i = 0; i < 1000; i++)
        timers[i] = loop_after(loop, i * 7919 % 40, count, NULL);
    for (int i = 0; i < 1000; i += 2)
        loop_cancel(timers[i]);
    loop_after(loop, 41, stop, NULL);
    CHECK(loop_run(loop, &err));
    loop_destroy(loop);
    CHECK(calls == 500);
}

static void again(void *arg UNUSED)
{
    if (++calls < 1000)
        loop_after(loop, 0, again, NULL);
    else
        loop_stop(loop);
}

TEST(a_timer_that_sets_itself_again_at_once_does_not_stall)
{
    calls = 0;
    CHECK(loop_create(&loop, &err));
    loop_after(loop, 0, again, NULL);
    CHECK(loop_run(loop, &err));
    loop_destroy(loop);
    CHECK(calls == 1000);
}

static struct loop_source *sources[2];
static int pairs[2][2];

/* Whoever comes first removes both, closes both and reuses the numbers. */
static void remove_both(void *arg UNUSED, unsigned events)
{
    calls += events & LOOP_READ ? 1 : 100;
    loop_remove(sources[0]);
    loop_remove(sources[1]);
    close(pairs[0][0]);
    close(pairs[1][0]);
}

TEST(a_source_removed_by_another_is_never_called)
{
    calls = 0;
    CHECK(loop_create(&loop, &err));
    for (int i = 0; i < 2; i++) {
        CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pairs[i]) == 0);
        CHECK(write(pairs[i][1], "x", 1) == 1);
        CHECK(loop_add(loop, pairs[i][0], LOOP_READ, remove_both, NULL, &sources[i], &err));
    }
    CHECK(loop_turn(loop, 1000, &err));
    CHECK(loop_turn(loop, 0, &err));
    CHECK(calls == 1);
    loop_remove(NULL);
    loop_destroy(loop);
    close(pairs[0][1]);
    close(pairs[1][1]);
}

static unsigned seen;

static void remember(void *arg UNUSED, unsigned events)
{
    seen |= events;
}

TEST(what_is_watched_can_change)
{
    struct loop_source *source;
    int pair[2];

    CHECK(loop_create(&loop, &err));
    CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0);
    CHECK(loop_add(loop, pair[0], LOOP_READ, remember, NULL, &source, &err));
    seen = 0;
    CHECK(loop_turn(loop, 0, &err) && seen == 0);
    CHECK(loop_change(source, LOOP_WRITE, &err));
    CHECK(loop_turn(loop, 0, &err) && seen == LOOP_WRITE);
    CHECK(loop_change(source, LOOP_READ, &err));
    close(pair[1]);
    seen = 0;
    CHECK(loop_turn(loop, 0, &err) && seen == (LOOP_READ | LOOP_CLOSED));
    loop_remove(source);
    close(pair[0]);
    loop_destroy(loop);
}

TEST(a_plain_file_cannot_be_watched)
{
    struct loop_source *source;
    AUTO_FD int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);

    CHECK(loop_create(&loop, &err));
    CHECK(!loop_add(loop, fd, LOOP_READ, remember, NULL, &source, &err));
    loop_destroy(loop);
}

static int got_signal;

static void on_signal(void *arg UNUSED, int number)
{
    got_signal = number;
    loop_stop(loop);
}

TEST(a_signal_is_delivered_by_the_loop)
{
    static const int numbers[] = {SIGUSR1, SIGTERM};

    CHECK(loop_create(&loop, &err));
    CHECK(loop_signals(loop, numbers, COUNT_OF(numbers), on_signal, NULL, &err));
    CHECK(kill(getpid(), SIGTERM) == 0);
    CHECK(loop_run(loop, &err));
    CHECK(got_signal == SIGTERM);
    loop_destroy(loop);
}

static struct {
    pid_t pid;
    int status;
} ends[3];
static int n_ends;

static void on_exit_of(void *arg UNUSED, pid_t pid, int status)
{
    ends[n_ends].pid = pid;
    ends[n_ends].status = status;
    if (++n_ends == 3)
        loop_stop(loop);
}

static pid_t spawn(int code)
{
    pid_t pid = fork();

    if (pid == 0) {
        if (code < 0)
            pause();
        _exit(code);
    }
    return pid;
}

static int status_of(pid_t pid)
{
    for (int i = 0; i < n_ends; i++) {
        if (ends[i].pid == pid)
            return ends[i].status;
    }
    return -1;
}

TEST(every_child_is_reaped_with_its_own_status)
{
    pid_t pids[3] = {spawn(0), spawn(7), spawn(-1)};

    n_ends = 0;
    CHECK(loop_create(&loop, &err));
    for (int i = 0; i < 3; i++)
        CHECK(loop_child(loop, pids[i], on_exit_of, NULL, &err));
    CHECK(kill(pids[2], SIGKILL) == 0);
    CHECK(loop_run(loop, &err));
    loop_destroy(loop);

    int killed = status_of(pids[2]), seven = status_of(pids[1]);

    CHECK(status_of(pids[0]) == 0);
    CHECK(WIFEXITED(seven) && WEXITSTATUS(seven) == 7);
    CHECK(WIFSIGNALED(killed) && WTERMSIG(killed) == SIGKILL);
    CHECK(waitpid(-1, NULL, WNOHANG) == -1);
}

TEST(a_process_that_is_not_there_cannot_be_watched)
{
    pid_t pid = spawn(0);

    waitpid(pid, NULL, 0);
    CHECK(loop_create(&loop, &err));
    CHECK(!loop_child(loop, pid, on_exit_of, NULL, &err));
    loop_destroy(loop);
}

static atomic_int posted;
static int handled;

static void handle_post(void *arg)
{
    if (++handled == *(int *)arg)
        loop_stop(loop);
}

static void *post_many(void *arg)
{
    for (int i = 0; i < 1000; i++) {
        atomic_fetch_add(&posted, 1);
        loop_post(loop, handle_post, arg);
    }
    return NULL;
}

TEST(posts_of_other_threads_all_arrive)
{
    pthread_t threads[4];
    int expected = 4000;

    handled = 0;
    CHECK(loop_create(&loop, &err));
    for (size_t i = 0; i < COUNT_OF(threads); i++)
        CHECK(pthread_create(&threads[i], NULL, post_many, &expected) == 0);
    CHECK(loop_run(loop, &err));
    for (size_t i = 0; i < COUNT_OF(threads); i++)
        pthread_join(threads[i], NULL);
    CHECK(handled == 4000 && atomic_load(&posted) == 4000);
    loop_destroy(loop);
}

static void *stop_it(void *arg)
{
    loop_stop(arg);
    return NULL;
}

TEST(another_thread_can_stop_the_loop)
{
    pthread_t thread;

    CHECK(loop_create(&loop, &err));
    CHECK(pthread_create(&thread, NULL, stop_it, loop) == 0);
    CHECK(loop_run(loop, &err));
    pthread_join(thread, NULL);
    loop_destroy(loop);
    loop_destroy(NULL);
}

TEST(destroying_forgets_what_is_left)
{
    struct loop_source *source;
    int pair[2];
    pid_t pid = spawn(-1);

    calls = 0;
    CHECK(loop_create(&loop, &err));
    CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0);
    CHECK(loop_add(loop, pair[0], LOOP_READ, remember, NULL, &source, &err));
    CHECK(loop_child(loop, pid, on_exit_of, NULL, &err));
    loop_after(loop, 0, count, NULL);
    loop_post(loop, count, NULL);
    loop_destroy(loop);
    CHECK(calls == 0);
    close(pair[0]);
    close(pair[1]);
    kill(pid, SIGKILL);
    CHECK(waitpid(pid, NULL, 0) == pid);
}

TEST_MAIN()
