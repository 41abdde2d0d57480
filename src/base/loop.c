#include "base/loop.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <sys/timerfd.h>

#include "base/child.h"
#include "base/own.h"
#include "base/time.h"
#include "base/timers.h"

enum { BATCH = 64 };

struct loop_source {
    struct loop *loop;
    struct loop_source *next, **link;
    int fd;
    bool is_removed;
    loop_ready *ready;
    void *arg;
};

struct post {
    struct post *next;
    loop_fire *fire;
    void *arg;
};

/* A signalfd or a pidfd: a descriptor of the loop's own with a typed callback. */
struct watch {
    struct watch *next, **link;
    struct loop_source *source;
    int fd;
    pid_t pid;
    loop_signal *on_signal;
    loop_exit *on_exit;
    void *arg;
};

struct loop {
    int epoll, wake, clock;
    struct loop_source *sources, *removed;
    struct watch *watches;
    struct timers timers;
    int64_t armed_ms; /* what the timer descriptor is set to; -1: off */
    atomic_bool is_stopping;
    pthread_mutex_t lock;
    struct post *first_post, **last_post;
};

static void wake_up(struct loop *loop)
{
    (void)!write(loop->wake, &(uint64_t){1}, sizeof(uint64_t));
}

static void wake_ready(void *arg, unsigned events UNUSED)
{
    const struct loop *loop = arg;

    (void)!read(loop->wake, &(uint64_t){0}, sizeof(uint64_t));
}

/* Run down, so it must be set again, even to the very same millisecond. */
static void clock_ready(void *arg, unsigned events UNUSED)
{
    struct loop *loop = arg;

    (void)!read(loop->clock, &(uint64_t){0}, sizeof(uint64_t));
    loop->armed_ms = -1;
}

bool loop_create(struct loop **loop, struct error *err)
{
    struct loop *made = alloc(sizeof *made);
    struct loop_source *source;

    *made = (struct loop){.armed_ms = -1, .last_post = &made->first_post};
    pthread_mutex_init(&made->lock, NULL);
    made->epoll = epoll_create1(EPOLL_CLOEXEC);
    made->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);

    /* epoll's own timeout stops while the host sleeps; this clock does not. */
    made->clock = timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK);
    if (made->epoll < 0 || made->wake < 0 || made->clock < 0) {
        error_errno(err, "create an event loop");
        loop_destroy(made);
        return false;
    }
    if (!loop_add(made, made->wake, LOOP_READ, wake_ready, made, &source, err) ||
        !loop_add(made, made->clock, LOOP_READ, clock_ready, made, &source, err)) {
        loop_destroy(made);
        return false;
    }
    *loop = made;
    return true;
}

static void free_sources(struct loop_source **list)
{
    while (*list) {
        struct loop_source *source = *list;

        *list = source->next;
        free(source);
    }
}

static void watch_free(struct watch *watch)
{
    loop_remove(watch->source);
    auto_close(&watch->fd);
    free(watch);
}

static void watch_end(struct watch *watch)
{
    *watch->link = watch->next;
    if (watch->next)
        watch->next->link = watch->link;
    watch_free(watch);
}

void loop_destroy(struct loop *loop)
{
    if (!loop)
        return;
    for (struct watch *watch = loop->watches, *next; watch; watch = next) {
        next = watch->next;
        watch_free(watch);
    }
    free_sources(&loop->sources);
    free_sources(&loop->removed);
    while (loop->first_post) {
        struct post *post = loop->first_post;

        loop->first_post = post->next;
        free(post);
    }
    timers_finish(&loop->timers);
    auto_close(&loop->epoll);
    auto_close(&loop->wake);
    auto_close(&loop->clock);
    pthread_mutex_destroy(&loop->lock);
    free(loop);
}

static uint32_t to_epoll(unsigned events)
{
    return (events & LOOP_READ ? EPOLLIN : 0U) | (events & LOOP_WRITE ? EPOLLOUT : 0U);
}

static unsigned from_epoll(uint32_t events)
{
    return (events & EPOLLIN ? LOOP_READ : 0U) | (events & EPOLLOUT ? LOOP_WRITE : 0U) |
           (events & (EPOLLHUP | EPOLLERR) ? LOOP_CLOSED : 0U);
}

bool loop_add(struct loop *loop, int fd, unsigned events, loop_ready *ready, void *arg,
              struct loop_source **source, struct error *err)
{
    struct loop_source *made = alloc(sizeof *made);
    struct epoll_event event = {.events = to_epoll(events), .data.ptr = made};

    if (epoll_ctl(loop->epoll, EPOLL_CTL_ADD, fd, &event) < 0) {
        free(made);
        return error_errno(err, "watch descriptor %d", fd);
    }
    *made = (struct loop_source){
        .loop = loop,
        .next = loop->sources,
        .link = &loop->sources,
        .fd = fd,
        .ready = ready,
        .arg = arg,
    };
    if (made->next)
        made->next->link = &made->next;
    loop->sources = made;
    *source = made;
    return true;
}

bool loop_change(struct loop_source *source, unsigned events, struct error *err)
{
    struct epoll_event event = {.events = to_epoll(events), .data.ptr = source};

    if (epoll_ctl(source->loop->epoll, EPOLL_CTL_MOD, source->fd, &event) < 0)
        return error_errno(err, "watch descriptor %d", source->fd);
    return true;
}

/* Kept until the turn is over: the batch being handled may still name it. */
void loop_remove(struct loop_source *source)
{
    if (!source || source->is_removed)
        return;
    epoll_ctl(source->loop->epoll, EPOLL_CTL_DEL, source->fd, NULL);
    *source->link = source->next;
    if (source->next)
        source->next->link = source->link;
    source->is_removed = true;
    source->next = source->loop->removed;
    source->loop->removed = source;
}

struct loop_timer *loop_after(struct loop *loop, int64_t delay_ms, loop_fire *fire, void *arg)
{
    int64_t now = time_boot_ms();

    if (delay_ms < 0)
        delay_ms = 0;
    if (delay_ms > INT64_MAX / 2)
        delay_ms = INT64_MAX / 2;
    return timers_add(&loop->timers, now + delay_ms, fire, arg);
}

static bool arm_clock(struct loop *loop, struct error *err)
{
    int64_t next = timers_next(&loop->timers);

    if (next == loop->armed_ms)
        return true;

    struct itimerspec at = {0};

    if (next >= 0) {
        /* A zero time would switch the clock off; the first nanosecond has passed anyway. */
        at.it_value.tv_sec = next / 1000;
        at.it_value.tv_nsec = next % 1000 * 1000000 + 1;
    }
    if (timerfd_settime(loop->clock, TFD_TIMER_ABSTIME, &at, NULL) < 0)
        return error_errno(err, "set the loop's clock");
    loop->armed_ms = next;
    return true;
}

static void run_posts(struct loop *loop)
{
    pthread_mutex_lock(&loop->lock);

    struct post *post = loop->first_post;

    loop->first_post = NULL;
    loop->last_post = &loop->first_post;
    pthread_mutex_unlock(&loop->lock);

    while (post) {
        struct post *next = post->next;

        post->fire(post->arg);
        free(post);
        post = next;
    }
}

bool loop_turn(struct loop *loop, int timeout_ms, struct error *err)
{
    struct epoll_event events[BATCH];

    if (!arm_clock(loop, err))
        return false;

    int n = epoll_wait(loop->epoll, events, BATCH, timeout_ms);

    if (n < 0 && errno != EINTR)
        return error_errno(err, "wait for events");
    for (int i = 0; i < n; i++) {
        struct loop_source *source = events[i].data.ptr;

        if (!source->is_removed)
            source->ready(source->arg, from_epoll(events[i].events));
    }
    run_posts(loop);
    timers_fire(&loop->timers, time_boot_ms());
    free_sources(&loop->removed);
    return true;
}

bool loop_run(struct loop *loop, struct error *err)
{
    bool fine = true;

    while (fine && !atomic_load(&loop->is_stopping))
        fine = loop_turn(loop, -1, err);
    atomic_store(&loop->is_stopping, false);
    return fine;
}

void loop_stop(struct loop *loop)
{
    atomic_store(&loop->is_stopping, true);
    wake_up(loop);
}

void loop_post(struct loop *loop, loop_fire *fire, void *arg)
{
    struct post *post = alloc(sizeof *post);

    *post = (struct post){.fire = fire, .arg = arg};
    pthread_mutex_lock(&loop->lock);
    *loop->last_post = post;
    loop->last_post = &post->next;

    /* Inside the lock: the loop may be destroyed by what it posts to, but not before we let go. */
    wake_up(loop);
    pthread_mutex_unlock(&loop->lock);
}

/* Takes over the descriptor, also on failure. */
static bool watch_add(struct loop *loop, struct watch filled, loop_ready *ready, struct error *err)
{
    struct watch *watch = alloc(sizeof *watch);

    *watch = filled;
    if (!loop_add(loop, watch->fd, LOOP_READ, ready, watch, &watch->source, err)) {
        auto_close(&watch->fd);
        free(watch);
        return false;
    }
    watch->next = loop->watches;
    watch->link = &loop->watches;
    if (watch->next)
        watch->next->link = &watch->next;
    loop->watches = watch;
    return true;
}

static void signal_ready(void *arg, unsigned events UNUSED)
{
    const struct watch *watch = arg;
    struct signalfd_siginfo info;

    if (read(watch->fd, &info, sizeof info) == sizeof info)
        watch->on_signal(watch->arg, (int)info.ssi_signo);
}

bool loop_signals(struct loop *loop, const int *numbers, size_t n, loop_signal *handle, void *arg,
                  struct error *err)
{
    sigset_t set;

    sigemptyset(&set);
    for (size_t i = 0; i < n; i++)
        sigaddset(&set, numbers[i]);
    if (pthread_sigmask(SIG_BLOCK, &set, NULL) != 0)
        return error_set(err, ERR_INTERNAL, "cannot block signals");

    int fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);

    if (fd < 0)
        return error_errno(err, "watch signals");
    return watch_add(loop, (struct watch){.fd = fd, .on_signal = handle, .arg = arg}, signal_ready,
                     err);
}

static void child_ready(void *arg, unsigned events UNUSED)
{
    struct watch *watch = arg;
    int status = -1;

    if (child_reap(watch->pid, watch->fd, false, &status) == 0)
        return;

    loop_exit *handle = watch->on_exit;
    void *handle_arg = watch->arg;
    pid_t pid = watch->pid;

    watch_end(watch);
    handle(handle_arg, pid, status);
}

bool loop_child(struct loop *loop, pid_t pid, loop_exit *handle, void *arg, struct error *err)
{
    int fd = child_open(pid);

    if (fd < 0)
        return error_errno(err, "watch process %d", (int)pid);
    return watch_add(loop, (struct watch){.fd = fd, .pid = pid, .on_exit = handle, .arg = arg},
                     child_ready, err);
}
