#include "http/topic.h"

#include "base/own.h"

struct topic {
    struct waiter *first;
    char name[];
};

void topics_init(struct topics *topics, struct loop *loop)
{
    *topics = (struct topics){.loop = loop};
    pthread_mutex_init(&topics->lock, NULL);
}

void topics_finish(struct topics *topics)
{
    map_finish(&topics->by_name);
    map_finish(&topics->pending);
    pthread_mutex_destroy(&topics->lock);
}

static struct topic *topic_get(struct topics *topics, const char *name)
{
    struct topic *topic = map_find(&topics->by_name, str_of(name));
    size_t size = strlen(name) + 1;

    if (topic)
        return topic;
    topic = alloc(sizeof *topic + size);
    topic->first = NULL;
    memcpy(topic->name, name, size);
    map_put(&topics->by_name, str_of(name), topic);
    return topic;
}

void topics_join(struct topics *topics, struct waiter *waiter, const char *name)
{
    struct topic *topic = topic_get(topics, name);

    waiter->topic = topic;
    waiter->previous = NULL;
    waiter->next = topic->first;
    if (topic->first)
        topic->first->previous = waiter;
    topic->first = waiter;
}

void topics_leave(struct topics *topics, struct waiter *waiter)
{
    struct topic *topic = TAKE(waiter->topic);

    waiter->turn = (struct turn){0};
    if (!topic)
        return;
    if (waiter->next)
        waiter->next->previous = waiter->previous;
    if (waiter->previous) {
        waiter->previous->next = waiter->next;
        return;
    }
    topic->first = waiter->next;
    if (!topic->first) {
        map_remove(&topics->by_name, str_of(topic->name));
        free(topic);
    }
}

static _Atomic uint64_t *slot_of(struct topics *topics, const char *name)
{
    uint64_t hash = 14695981039346656037u; /* FNV-1a */

    for (; *name; name++)
        hash = (hash ^ (unsigned char)*name) * 1099511628211u;
    return &topics->woken[(hash ^ hash >> 32) % TOPIC_SLOTS];
}

uint64_t topics_now(struct topics *topics)
{
    return atomic_load(&topics->clock);
}

bool topics_woken_since(struct topics *topics, const char *name, uint64_t since)
{
    return atomic_load(slot_of(topics, name)) > since;
}

static bool comes_before(const struct turn *turn, const struct turn *other)
{
    if (turn->comes_last != other->comes_last)
        return !turn->comes_last;
    return turn->place < other->place;
}

static bool pass(struct topics *topics, struct str name, int line)
{
    struct topic *topic = map_find(&topics->by_name, name);
    struct waiter *next = NULL;

    for (struct waiter *waiter = topic ? topic->first : NULL; waiter; waiter = waiter->next) {
        const struct turn *turn = &waiter->turn;

        if (turn->place && turn->line == line &&
            (turn->comes_last || topics_woken_since(topics, topic->name, turn->looked_at)) &&
            (!next || comes_before(turn, &next->turn)))
            next = waiter;
    }
    if (next)
        next->wake(next);
    return next;
}

bool topics_pass(struct topics *topics, const char *name, int line)
{
    return pass(topics, str_of(name), line);
}

static void wake_all(struct topics *topics, struct str name)
{
    struct topic *topic = map_find(&topics->by_name, name);
    struct waiter *next;

    for (struct waiter *waiter = topic ? topic->first : NULL; waiter; waiter = next) {
        next = waiter->next;
        if (!waiter->turn.place)
            waiter->wake(waiter);
    }
    for (int line = 0; line < TOPIC_LINES; line++)
        pass(topics, name, line);
}

static void deliver(void *arg)
{
    struct topics *topics = arg;
    struct str name;
    size_t at = 0;
    void *value;

    pthread_mutex_lock(&topics->lock);
    struct map pending = topics->pending;
    topics->pending = (struct map){0};
    topics->is_posted = false;
    pthread_mutex_unlock(&topics->lock);

    while (map_next(&pending, &at, &name, &value))
        wake_all(topics, name);
    map_finish(&pending);
}

/* The slot is written before the wake-up is posted: who begins to wait after the delivery sees
 * the slot, who began before it is in the list. */
void topics_wake(struct topics *topics, const char *name)
{
    uint64_t tick = atomic_fetch_add(&topics->clock, 1) + 1;
    _Atomic uint64_t *slot = slot_of(topics, name);
    uint64_t last = atomic_load(slot);

    while (last < tick && !atomic_compare_exchange_weak(slot, &last, tick))
        continue;

    pthread_mutex_lock(&topics->lock);
    map_put(&topics->pending, str_of(name), topics);
    bool must_post = !topics->is_posted;
    topics->is_posted = true;
    pthread_mutex_unlock(&topics->lock);
    if (must_post)
        loop_post(topics->loop, deliver, topics);
}

void topics_wake_all(struct topics *topics)
{
    struct str name;
    void *topic;
    size_t at = 0;

    while (map_next(&topics->by_name, &at, &name, &topic))
        topics_wake(topics, ((struct topic *)topic)->name);
}
