#include "base/timers.h"

#include "base/own.h"

struct loop_timer {
    struct timers *owner;
    size_t at;
    int64_t due_ms;
    uint64_t order;
    loop_fire *fire;
    void *arg;
};

static bool is_before(const struct loop_timer *a, const struct loop_timer *b)
{
    return a->due_ms != b->due_ms ? a->due_ms < b->due_ms : a->order < b->order;
}

static void place(struct timers *timers, size_t at, struct loop_timer *timer)
{
    timers->heap[at] = timer;
    timer->at = at;
}

static void sift_up(struct timers *timers, struct loop_timer *timer)
{
    size_t at = timer->at;

    while (at && is_before(timer, timers->heap[(at - 1) / 2])) {
        place(timers, at, timers->heap[(at - 1) / 2]);
        at = (at - 1) / 2;
    }
    place(timers, at, timer);
}

static void sift_down(struct timers *timers, struct loop_timer *timer)
{
    size_t at = timer->at;

    for (;;) {
        size_t child = 2 * at + 1;

        if (child + 1 < timers->n && is_before(timers->heap[child + 1], timers->heap[child]))
            child++;
        if (child >= timers->n || !is_before(timers->heap[child], timer))
            break;
        place(timers, at, timers->heap[child]);
        at = child;
    }
    place(timers, at, timer);
}

static void take_out(struct timers *timers, size_t at)
{
    struct loop_timer *last = timers->heap[--timers->n];

    if (at == timers->n)
        return;
    place(timers, at, last);
    sift_up(timers, last);
    sift_down(timers, last);
}

void timers_finish(struct timers *timers)
{
    for (size_t i = 0; i < timers->n; i++)
        free(timers->heap[i]);
    free(timers->heap);
    *timers = (struct timers){0};
}

struct loop_timer *timers_add(struct timers *timers, int64_t due_ms, loop_fire *fire, void *arg)
{
    struct loop_timer *timer = alloc(sizeof *timer);

    if (timers->n == timers->cap) {
        size_t cap = timers->cap ? 2 * timers->cap : 16;

        timers->heap = alloc_more(timers->heap, cap * sizeof(struct loop_timer *));
        timers->cap = cap;
    }
    *timer = (struct loop_timer){
        .owner = timers,
        .at = timers->n,
        .due_ms = due_ms,
        .order = timers->made++,
        .fire = fire,
        .arg = arg,
    };
    timers->n++;
    sift_up(timers, timer);
    return timer;
}

int64_t timers_next(const struct timers *timers)
{
    return timers->n ? timers->heap[0]->due_ms : -1;
}

static struct loop_timer *take_due(struct timers *timers, int64_t now_ms, uint64_t made)
{
    struct loop_timer *timer = timers->n ? timers->heap[0] : NULL;

    if (!timer || timer->due_ms > now_ms || timer->order >= made)
        return NULL;
    take_out(timers, 0);
    return timer;
}

void timers_fire(struct timers *timers, int64_t now_ms)
{
    const uint64_t made = timers->made;

    for (struct loop_timer *timer; (timer = take_due(timers, now_ms, made));) {
        loop_fire *fire = timer->fire;
        void *arg = timer->arg;

        free(timer);
        fire(arg);
    }
}

void loop_cancel(struct loop_timer *timer)
{
    if (!timer)
        return;
    take_out(timer->owner, timer->at);
    free(timer);
}
