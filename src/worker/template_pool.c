#include "worker/template_pool.h"

#include <pthread.h>

#include "base/log.h"
#include "base/own.h"

enum {
    TEMPLATES_MAX = 64,
    RETRY_MS = 60 * 1000, /* until what could not be made is tried again */
    FAILURES_MAX = 3,     /* one after the other: then it is the template's */
};

struct entry {
    uint8_t key[BLAKE2B_LEN];
    struct template *template; /* NULL: none (yet) */
    int64_t bytes;
    int64_t retry_ms; /* boot time before which it is not made */
    uint64_t used;    /* larger: later; 0: the entry is free */
    int failures;
    bool is_making;
};

struct template_pool {
    pthread_mutex_t lock;
    int64_t max_bytes;
    uint64_t n_uses;
    struct entry entries[TEMPLATES_MAX];
};

void template_pool_create(int64_t max_bytes, struct template_pool **pool)
{
    struct template_pool *made = alloc(sizeof *made);

    *made = (struct template_pool){.max_bytes = max_bytes};
    pthread_mutex_init(&made->lock, NULL);
    *pool = made;
}

static void clear(struct entry *entry)
{
    template_drop(entry->template);
    *entry = (struct entry){0};
}

void template_pool_destroy(struct template_pool *pool)
{
    if (!pool)
        return;
    for (size_t i = 0; i < TEMPLATES_MAX; i++)
        clear(&pool->entries[i]);
    pthread_mutex_destroy(&pool->lock);
    free(pool);
}

static struct entry *find(struct template_pool *pool, const uint8_t key[BLAKE2B_LEN])
{
    for (size_t i = 0; i < TEMPLATES_MAX; i++)
        if (pool->entries[i].used && memcmp(pool->entries[i].key, key, BLAKE2B_LEN) == 0)
            return &pool->entries[i];
    return NULL;
}

/* With the lock held nobody begins to hold one: what is idle stays so. */
static bool may_go(const struct entry *entry)
{
    return entry->used && !entry->is_making &&
           (!entry->template || template_is_idle(entry->template));
}

/* Of those that may go the one that was not used for longest; with memory to free, if asked. */
static struct entry *oldest(struct template_pool *pool, bool has_memory)
{
    struct entry *found = NULL;

    for (size_t i = 0; i < TEMPLATES_MAX; i++) {
        struct entry *entry = &pool->entries[i];

        if (may_go(entry) && (!has_memory || entry->template) &&
            (!found || entry->used < found->used))
            found = entry;
    }
    return found;
}

static struct entry *free_entry(struct template_pool *pool)
{
    for (size_t i = 0; i < TEMPLATES_MAX; i++)
        if (!pool->entries[i].used)
            return &pool->entries[i];
    struct entry *entry = oldest(pool, false);
    if (entry)
        clear(entry);
    return entry;
}

struct template *template_pool_find(struct template_pool *pool, const uint8_t key[BLAKE2B_LEN])
{
    pthread_mutex_lock(&pool->lock);
    struct entry *entry = find(pool, key);
    if (entry && entry->template)
        entry->used = ++pool->n_uses;
    struct template *template = entry ? template_hold(entry->template) : NULL;
    pthread_mutex_unlock(&pool->lock);
    return template;
}

struct template *template_pool_find_stored(struct template_pool *pool, struct str manifest)
{
    struct template *found = NULL;

    pthread_mutex_lock(&pool->lock);
    for (size_t i = 0; !found && i < TEMPLATES_MAX; i++) {
        struct entry *entry = &pool->entries[i];

        if (!entry->template || !template_is_stored_as(entry->template, manifest))
            continue;
        entry->used = ++pool->n_uses;
        found = template_hold(entry->template);
    }
    pthread_mutex_unlock(&pool->lock);
    return found;
}

bool template_pool_claim(struct template_pool *pool, const uint8_t key[BLAKE2B_LEN], int64_t now_ms)
{
    pthread_mutex_lock(&pool->lock);
    struct entry *entry = find(pool, key);
    bool is_due = !entry || (!entry->template && !entry->is_making && now_ms >= entry->retry_ms);
    if (is_due && !entry)
        entry = free_entry(pool);
    if (is_due && entry) {
        *entry = (struct entry){.used = ++pool->n_uses, .is_making = true};
        memcpy(entry->key, key, BLAKE2B_LEN);
    }
    pthread_mutex_unlock(&pool->lock);
    return is_due && entry;
}

static int64_t bytes_of_all(const struct template_pool *pool)
{
    int64_t bytes = 0;

    for (size_t i = 0; i < TEMPLATES_MAX; i++)
        bytes += pool->entries[i].bytes;
    return bytes;
}

/* Makes room by letting others go, as long as that can be enough. */
static bool make_room(struct template_pool *pool, int64_t bytes)
{
    while (bytes <= pool->max_bytes && bytes_of_all(pool) + bytes > pool->max_bytes) {
        struct entry *entry = oldest(pool, true);

        if (!entry)
            return false;
        clear(entry);
    }
    return bytes <= pool->max_bytes;
}

bool template_pool_settle(struct template_pool *pool, const uint8_t key[BLAKE2B_LEN],
                          struct template *template, int64_t now_ms)
{
    int64_t bytes = template ? template_size(template) : 0;

    pthread_mutex_lock(&pool->lock);
    struct entry *entry = find(pool, key);
    bool is_kept = template && make_room(pool, bytes);
    entry->is_making = false;
    if (is_kept) {
        entry->template = template;
        entry->bytes = bytes;
    } else {
        entry->retry_ms = now_ms + RETRY_MS;
    }
    pthread_mutex_unlock(&pool->lock);
    if (template && !is_kept)
        template_drop(template);
    return is_kept || !template;
}

void template_pool_note(struct template_pool *pool, const uint8_t key[BLAKE2B_LEN],
                        const struct template *template, bool worked)
{
    pthread_mutex_lock(&pool->lock);
    struct entry *entry = find(pool, key);
    if (entry && entry->template == template) {
        entry->failures = worked ? 0 : entry->failures + 1;
        if (entry->failures >= FAILURES_MAX) {
            log_warn("a template whose copies fail is made anew");
            clear(entry);
        }
    }
    pthread_mutex_unlock(&pool->lock);
}
