/* Why nobody takes a run that is queued with a checkpoint, in words: who lacks the key, and by
 * which facts each worker differs from the one that made it. */
#include <stdio.h>

#include "base/json.h"
#include "server/resume.h"
#include "store/queries.h"

enum { WORKERS_MAX = 8, WORDS_MAX = 2048, FACT_SHOWN = 16 };

struct facts {
    struct json_map map;
};

static struct json_map read_facts(struct str text, struct arena *arena)
{
    static const struct json_field fields[] = {
        {"facts", JSON_MAP, offsetof(struct facts, map), REQUIRED, .max = 64},
        {0},
    };
    const char *wrapped = arena_printf(arena, "{\"facts\":%.*s}", (int)text.len, text.ptr);
    struct facts facts = {0};
    struct error err;

    if (!text.ptr || !json_read(str_of(wrapped), fields, &facts, sizeof facts, arena, &err))
        return (struct json_map){0};
    return facts.map;
}

static struct str find_fact(const struct json_map *map, struct str name)
{
    for (size_t i = 0; i < map->n; i++)
        if (str_equal(map->pairs[i].name, name))
            return map->pairs[i].value;
    return STR("none");
}

static int shown(struct str value)
{
    return (int)(value.len < FACT_SHOWN ? value.len : FACT_SHOWN);
}

/* "another engine_build (aa instead of bb), another cpu (…)" */
static const char *differences(const struct json_map *wanted, const struct json_map *has,
                               struct arena *arena)
{
    const char *text = "";

    for (size_t i = 0; i < wanted->n; i++) {
        struct str name = wanted->pairs[i].name, want = wanted->pairs[i].value;
        struct str got = find_fact(has, name);

        if (!str_equal(want, got))
            text = arena_printf(arena, "%s%sanother %.*s (%.*s instead of %.*s)", text,
                                *text ? ", " : "", (int)name.len, name.ptr, shown(got), got.ptr,
                                shown(want), want.ptr);
    }
    return *text ? text : "another build";
}

static const char *words_for(const struct rows *needs, const struct rows *workers, size_t row,
                             struct arena *arena)
{
    const char *name = row_text(workers, row, RESUME_WORKERS_RESOURCE_ID);
    struct str text = {0};

    if (row_is_null(workers, row, RESUME_WORKERS_COMPAT))
        return arena_printf(arena, "worker %s makes no checkpoints", name);
    if (!str_equal(row_str(workers, row, RESUME_WORKERS_COMPAT),
                   row_str(needs, 0, RESUME_NEEDS_COMPAT))) {
        json_find_raw(row_str(workers, row, RESUME_WORKERS_CAPABILITIES), "compat_facts", arena,
                      &text);
        struct json_map has = read_facts(text, arena);
        struct json_map wanted = read_facts(row_str(needs, 0, RESUME_NEEDS_COMPAT_FACTS), arena);
        return arena_printf(arena, "worker %s has %s", name, differences(&wanted, &has, arena));
    }
    if (!str_equal(row_str(workers, row, RESUME_WORKERS_CHECKPOINT_KEY_ID),
                   row_str(needs, 0, RESUME_NEEDS_KEY_ID)))
        return arena_printf(arena, "worker %s has another checkpoint key", name);
    return NULL;
}

static bool somebody_has_key(const struct rows *needs, const struct rows *workers)
{
    for (size_t i = 0; i < workers->n_rows; i++)
        if (str_equal(row_str(workers, i, RESUME_WORKERS_CHECKPOINT_KEY_ID),
                      row_str(needs, 0, RESUME_NEEDS_KEY_ID)))
            return true;
    return false;
}

bool resume_obstacle(struct tx *tx, const char *run_id, struct arena *arena, const char **words,
                     struct error *err)
{
    struct rows needs, workers;
    const char *text = "";

    *words = NULL;
    if (!STORE(tx, &resume_needs, arena, &needs, err, V_TEXT(run_id)))
        return false;
    if (needs.n_rows == 0)
        return true;
    if (!STORE(tx, &resume_workers, arena, &workers, err,
               V_STR(row_str(&needs, 0, RESUME_NEEDS_GROUP_ID)), V_INT(WORKERS_MAX)))
        return false;
    if (!somebody_has_key(&needs, &workers))
        text = arena_printf(arena, "no worker has the checkpoint's key %s",
                            row_text(&needs, 0, RESUME_NEEDS_KEY_ID));
    for (size_t i = 0; i < workers.n_rows && strlen(text) < WORDS_MAX; i++) {
        const char *more = words_for(&needs, &workers, i, arena);

        if (more)
            text = arena_printf(arena, "%s%s%s", text, *text ? "; " : "", more);
    }
    *words = *text ? text : NULL;
    return true;
}
