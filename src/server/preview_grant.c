#include "server/preview_grant.h"

#include <pthread.h>

#include "base/own.h"

enum { ENTRIES_MAX = 8192 };

struct entry {
    struct entry *next;
    uint8_t hash[BLAKE2B_LEN]; /* of the token or the cookie */
    bool is_link;
    int64_t end_ms;
    struct preview_grant grant;
};

struct previews {
    pthread_mutex_t lock;
    struct entry *first; /* the newest */
    size_t n;
};

struct previews *previews_create(void)
{
    struct previews *previews = alloc(sizeof *previews);

    *previews = (struct previews){0};
    pthread_mutex_init(&previews->lock, NULL);
    return previews;
}

static void drop(struct previews *previews, struct entry **link)
{
    struct entry *entry = *link;

    *link = entry->next;
    previews->n--;
    free(entry);
}

void previews_destroy(struct previews *previews)
{
    if (!previews)
        return;
    while (previews->first)
        drop(previews, &previews->first);
    pthread_mutex_destroy(&previews->lock);
    free(previews);
}

static void hash_of(struct str token, uint8_t hash[BLAKE2B_LEN])
{
    struct blake2b state;

    blake2b_init(&state, (struct str){0});
    blake2b_update(&state, token);
    blake2b_final(&state, hash);
}

/* Drops what is over, and of this caller what is one too many. */
static void make_room(struct previews *previews, const struct caller_hold *hold, int64_t now_ms)
{
    size_t n_of_caller = 0;

    for (struct entry **link = &previews->first; *link;) {
        bool is_theirs = memcmp((*link)->grant.hold.hash, hold->hash, BLAKE2B_LEN) == 0;

        if ((*link)->end_ms <= now_ms || (is_theirs && ++n_of_caller >= PREVIEWS_OF_CALLER_MAX))
            drop(previews, link);
        else
            link = &(*link)->next;
    }
}

static bool add(struct previews *previews, const struct entry *made, const char *token,
                int64_t now_ms)
{
    make_room(previews, &made->grant.hold, now_ms);
    if (previews->n >= ENTRIES_MAX)
        return false;

    struct entry *entry = alloc(sizeof *entry);

    *entry = *made;
    hash_of(str_of(token), entry->hash);
    entry->next = previews->first;
    previews->first = entry;
    previews->n++;
    return true;
}

bool preview_link(struct previews *previews, const struct preview_grant *grant, int64_t now_ms,
                  char token[TOKEN_TEXT], struct error *err)
{
    const struct entry entry = {.is_link = true,
                                .end_ms = now_ms + PREVIEW_LINK_MS,
                                .grant = *grant};

    token_make("hlmr_pl_", token);
    pthread_mutex_lock(&previews->lock);
    bool ok = add(previews, &entry, token, now_ms);
    pthread_mutex_unlock(&previews->lock);
    return ok || error_set(err, ERR_QUOTA, "too many previews are open already");
}

static struct entry **find(struct previews *previews, struct str token, bool is_link)
{
    uint8_t hash[BLAKE2B_LEN];
    struct entry **link = &previews->first;

    hash_of(token, hash);
    while (*link && ((*link)->is_link != is_link || memcmp((*link)->hash, hash, sizeof hash) != 0))
        link = &(*link)->next;
    return link;
}

static bool is_for(const struct entry *entry, struct str workspace, uint16_t port, int64_t now_ms)
{
    const struct port_place *place = &entry->grant.place;

    return now_ms < entry->end_ms && place->port == port &&
           str_equal(str_of(place->workspace_id), workspace);
}

bool preview_open(struct previews *previews, struct str token, struct str workspace, uint16_t port,
                  int64_t now_ms, char cookie[TOKEN_TEXT])
{
    bool ok = false;

    token_make("hlmr_pc_", cookie);
    pthread_mutex_lock(&previews->lock);
    struct entry **link = find(previews, token, true);
    if (*link) {
        const struct entry opened = {.end_ms = now_ms + PREVIEW_COOKIE_MS, .grant = (*link)->grant};

        ok = is_for(*link, workspace, port, now_ms);
        drop(previews, link);
        ok = ok && add(previews, &opened, cookie, now_ms);
    }
    pthread_mutex_unlock(&previews->lock);
    return ok;
}

bool preview_find(struct previews *previews, struct str cookie, struct str workspace, uint16_t port,
                  int64_t now_ms, struct preview_grant *grant)
{
    pthread_mutex_lock(&previews->lock);
    const struct entry *entry = *find(previews, cookie, false);
    bool ok = entry && is_for(entry, workspace, port, now_ms);
    if (ok)
        *grant = entry->grant;
    pthread_mutex_unlock(&previews->lock);
    return ok;
}
