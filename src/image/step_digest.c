#include "image/step_digest.h"

#include "base/encode.h"
#include "base/hash.h"
#include "image/config.h"

enum { FORMAT = 1 };

static void add_count(struct blake2b *state, uint64_t n)
{
    char bytes[8];

    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (char)(n >> (8 * i));
    blake2b_update(state, (struct str){bytes, sizeof bytes});
}

static void add(struct blake2b *state, struct str text)
{
    add_count(state, text.len);
    blake2b_update(state, text);
}

static void add_texts(struct blake2b *state, const struct str *texts, size_t n)
{
    add_count(state, n);
    for (size_t i = 0; i < n; i++)
        add(state, texts[i]);
}

static void add_mounts(struct blake2b *state, const struct json_list *list)
{
    const struct step_mount *mounts = list->items;

    add_count(state, list->n);
    for (size_t i = 0; i < list->n; i++) {
        add(state, mounts[i].path);
        add(state, mounts[i].id);
    }
}

void step_digest(const struct step *step, const char *parent, const struct image_config *config,
                 const char *content, char digest[STEP_DIGEST_TEXT])
{
    uint8_t sum[BLAKE2B_LEN];
    struct blake2b state;

    blake2b_init(&state, (struct str){0});
    add_count(&state, FORMAT);
    add(&state, str_of(parent));
    add(&state, step->kind_name);
    add_texts(&state, step->argv.items, step->argv.n);
    add_mounts(&state, &step->cache);
    add_mounts(&state, &step->secrets);
    add(&state, step->dest);
    add(&state, step->source.file);
    add(&state, step->source.directory);
    add_texts(&state, step->source.ignore.items, step->source.ignore.n);
    add(&state, step->path);
    add(&state, step->key);
    add(&state, step->value);
    add(&state, step->name);
    add(&state, str_of(content));
    add_texts(&state, config->env, config->n_env);
    add(&state, config->workdir);
    add(&state, config->user);
    add(&state, STR("linux/" IMAGE_ARCHITECTURE));
    add(&state, STR("direct"));
    blake2b_final(&state, sum);
    hex_encode((struct str){(const char *)sum, sizeof sum}, digest);
}
