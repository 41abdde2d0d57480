#include "worker/warm.h"

#include <string.h>

void warm_init(struct warm *warm)
{
    *warm = (struct warm){0};
    pthread_mutex_init(&warm->lock, NULL);
}

void warm_finish(struct warm *warm)
{
    pthread_mutex_destroy(&warm->lock);
}

/* Where the name stands, or the last place. */
static size_t place_of(char names[WARM_NAMES][WARM_NAME], struct str name)
{
    size_t at = 0;

    while (at < WARM_NAMES - 1 && !str_equal(str_of(names[at]), name))
        at++;
    return at;
}

void warm_note(struct warm *warm, enum warm_kind kind, struct str name)
{
    char(*names)[WARM_NAME] = warm->names[kind];

    if (name.len == 0 || name.len >= WARM_NAME)
        return;
    pthread_mutex_lock(&warm->lock);
    memmove(names[1], names[0], place_of(names, name) * WARM_NAME);
    memcpy(names[0], name.ptr, name.len);
    names[0][name.len] = '\0';
    pthread_mutex_unlock(&warm->lock);
}

static struct json_list list(char names[WARM_NAMES][WARM_NAME], struct arena *arena)
{
    struct str *items = arena_array(arena, WARM_NAMES, sizeof *items);
    size_t n = 0;

    while (n < WARM_NAMES && names[n][0]) {
        items[n] = arena_str(arena, str_of(names[n]));
        n++;
    }
    return (struct json_list){items, n};
}

struct wire_warm warm_list(struct warm *warm, struct arena *arena)
{
    pthread_mutex_lock(&warm->lock);
    struct wire_warm lists = {
        .templates = list(warm->names[WARM_TEMPLATES], arena),
        .checkpoints = list(warm->names[WARM_CHECKPOINTS], arena),
        .drives = list(warm->names[WARM_DRIVES], arena),
    };
    pthread_mutex_unlock(&warm->lock);
    return lists;
}
