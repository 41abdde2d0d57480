/* Finished steps: steps/<scope>/<key>.json names the layer a step made, or none. */
#include "base/file.h"
#include "base/json.h"
#include "base/own.h"
#include "image/builder.h"

enum { RECORD_MAX = 4096, FORMAT = 1 };

struct record {
    int64_t format, size;
    struct str step, digest, diff_id;
    bool has_layer;
};

static const struct json_field record_fields[] = {
    {"format", JSON_INTEGER, offsetof(struct record, format), REQUIRED, .min = FORMAT,
     .max = FORMAT},
    {"step", JSON_TEXT, offsetof(struct record, step), OPTIONAL, .max = 1024},
    {"has_layer", JSON_BOOL, offsetof(struct record, has_layer), REQUIRED},
    {"digest", JSON_TEXT, offsetof(struct record, digest), OPTIONAL, .max = 71},
    {"diff_id", JSON_TEXT, offsetof(struct record, diff_id), OPTIONAL, .max = 71},
    {"size", JSON_INTEGER, offsetof(struct record, size), OPTIONAL, .max = INT64_MAX},
    {0},
};

static const char *record_path(struct built *built, const char *key)
{
    return arena_printf(&built->arena, "%s/%s/%s.json", built->builder->store->steps,
                        built->builder->build->scope, key);
}

/* A record that cannot be used, for whatever reason, is a step that is done again. */
bool step_cache_find(struct built *built, const char *key, struct image_step_layer *result)
{
    AUTO_FREE char *text = NULL;
    struct record record;
    struct error ignored;

    struct builder *builder = built->builder;

    if (!store_touch(builder->store, builder->steps, arena_printf(&built->arena, "%s.json", key)) ||
        !file_read(record_path(built, key), RECORD_MAX, &text, &ignored) ||
        !json_read_loose(str_of(text), record_fields, &record, sizeof record, &built->arena,
                         &ignored))
        return false;
    *result = (struct image_step_layer){.has_layer = record.has_layer};
    if (!record.has_layer)
        return true;
    if (!digest_is_valid(record.digest) || !digest_is_valid(record.diff_id))
        return false;
    result->layer.coding = LAYER_ZSTD;
    result->layer.size = record.size;
    memcpy(result->layer.digest, record.digest.ptr, DIGEST_TEXT - 1);
    memcpy(result->layer.diff_id, record.diff_id.ptr, DIGEST_TEXT - 1);
    return store_has_blob(builder->store, result->layer.digest);
}

bool step_cache_put(struct built *built, const char *key, const char *text,
                    const struct image_step_layer *result, struct error *err)
{
    AUTO(buf_finish) struct buf out = {.max = RECORD_MAX};
    struct json_writer writer = json_begin(&out);

    json_open(&writer, NULL);
    json_int(&writer, "format", FORMAT);
    json_string(&writer, "step", text);
    json_bool(&writer, "has_layer", result->has_layer);
    if (result->has_layer) {
        json_string(&writer, "digest", result->layer.digest);
        json_string(&writer, "diff_id", result->layer.diff_id);
        json_int(&writer, "size", result->layer.size);
    }
    json_close(&writer);
    return json_end(&writer, err) &&
           file_publish(record_path(built, key), buf_str(&out), 0600, err);
}
