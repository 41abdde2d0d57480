#include "worker/capacity.h"

void capacity_init(struct capacity *capacity, struct room total)
{
    *capacity = (struct capacity){.total = total};
    pthread_mutex_init(&capacity->lock, NULL);
}

void capacity_finish(struct capacity *capacity)
{
    pthread_mutex_destroy(&capacity->lock);
}

static struct room minus(struct room a, struct room b)
{
    return (struct room){
        a.cpu_millis - b.cpu_millis, a.memory_mib - b.memory_mib,   a.disk_mib - b.disk_mib,
        a.slots - b.slots,           a.build_slots - b.build_slots,
    };
}

static bool holds(struct room room, struct room wanted)
{
    return room.cpu_millis >= wanted.cpu_millis && room.memory_mib >= wanted.memory_mib &&
           room.disk_mib >= wanted.disk_mib && room.slots >= wanted.slots &&
           room.build_slots >= wanted.build_slots;
}

bool capacity_claim(struct capacity *capacity, struct room wanted)
{
    pthread_mutex_lock(&capacity->lock);
    bool fits = holds(minus(capacity->total, capacity->taken), wanted);
    if (fits)
        capacity->taken = minus(capacity->taken, minus((struct room){0}, wanted));
    pthread_mutex_unlock(&capacity->lock);
    return fits;
}

void capacity_give_back(struct capacity *capacity, struct room taken)
{
    pthread_mutex_lock(&capacity->lock);
    capacity->taken = minus(capacity->taken, taken);
    pthread_mutex_unlock(&capacity->lock);
}

struct room capacity_free(struct capacity *capacity)
{
    pthread_mutex_lock(&capacity->lock);
    struct room free = minus(capacity->total, capacity->taken);
    pthread_mutex_unlock(&capacity->lock);
    return free;
}
