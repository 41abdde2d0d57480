/* What a program says of its run while it runs: metadata, which others see on the run, and events
 * of its own. Each is in the history with the change it reports, in the order of the program. */
#include "base/json_edit.h"
#include "base/time.h"
#include "server/event.h"
#include "server/run_ops.h"
#include "store/queries.h"

enum {
    METADATA_MAX = 256 * 1024,
    KEY_MAX = 512,
    CONTENT_MAX = 256 * 1024,
    TYPE_MAX = 256,
    EVENT_MAX = CONTENT_MAX + 4096,
};

static bool append(struct asked *asked, struct event *event, struct buf *text,
                   struct json_writer *json, struct wire_op_result *result, char subject[ID_TEXT],
                   struct error *err)
{
    json_close(json);
    if (!json_end(json, err))
        return false;
    event->category = "guest";
    event->source = "guest";
    event->attempt = asked->lease.attempt;
    event->attributes = buf_str(text);
    wakes_add(&asked->wakes, "run:", asked->run.id);
    memcpy(subject, asked->run.id, ID_TEXT);
    result->ok = true;
    result->body = STR("null");
    return run_event_append(asked->tx, asked->run.id, event, err);
}

static bool current(struct asked *asked, struct str *metadata, struct error *err)
{
    struct rows rows;

    if (!STORE(asked->tx, &run_metadata_get, asked->call->arena, &rows, err, V_TEXT(asked->run.id)))
        return false;
    *metadata = row_str(&rows, 0, RUN_METADATA_GET_METADATA);
    return true;
}

/* `key` is named in the event; ptr NULL: several. */
static bool store(struct asked *asked, const char *verb, struct str key, const struct buf *metadata,
                  struct wire_op_result *result, char subject[ID_TEXT], struct error *err)
{
    AUTO(buf_finish) struct buf text = {.max = EVENT_MAX};
    struct json_writer json = json_begin(&text);
    struct event event = {.kind = "run.metadata.updated"};

    json_open(&json, NULL);
    json_string(&json, "operation", verb);
    if (key.ptr)
        json_text(&json, "key", key);
    return STORE(asked->tx, &run_metadata_set, NULL, NULL, err, V_TEXT(asked->run.id),
                 V_STR(buf_str(metadata)), V_INT(time_now_ms())) &&
           append(asked, &event, &text, &json, result, subject, err);
}

struct change {
    struct str key, value, amount, patch;
};

static const struct json_field set_fields[] = {
    {"key", JSON_TEXT, offsetof(struct change, key), REQUIRED, .max = KEY_MAX},
    {"value", JSON_RAW, offsetof(struct change, value), REQUIRED, .max = METADATA_MAX},
    {0},
};

static const struct json_field patch_fields[] = {
    {"patch", JSON_RAW, offsetof(struct change, patch), REQUIRED, .max = METADATA_MAX},
    {0},
};

static const struct json_field increment_fields[] = {
    {"key", JSON_TEXT, offsetof(struct change, key), REQUIRED, .max = KEY_MAX},
    {"amount", JSON_RAW, offsetof(struct change, amount), REQUIRED, .max = 64},
    {0},
};

bool do_metadata_set(struct asked *asked, const struct wire_op *op, struct wire_op_result *result,
                     char subject[ID_TEXT], struct error *err)
{
    AUTO(buf_finish) struct buf patch = {.max = METADATA_MAX + 8 * KEY_MAX};
    AUTO(buf_finish) struct buf metadata = {.max = METADATA_MAX};
    struct json_writer json = json_begin(&patch);
    struct str before;
    struct change change;

    if (!json_read(op->body, set_fields, &change, sizeof change, asked->call->arena, err))
        return false;
    json_open(&json, NULL);
    json_raw(&json, arena_text(asked->call->arena, change.key), change.value);
    json_close(&json);
    return json_end(&json, err) && current(asked, &before, err) &&
           json_merge(before, buf_str(&patch), KEY_MAX, METADATA_MAX, &metadata, err) &&
           store(asked, "set", change.key, &metadata, result, subject, err);
}

bool do_metadata_patch(struct asked *asked, const struct wire_op *op, struct wire_op_result *result,
                       char subject[ID_TEXT], struct error *err)
{
    AUTO(buf_finish) struct buf metadata = {.max = METADATA_MAX};
    struct str before;
    struct change change;

    return json_read(op->body, patch_fields, &change, sizeof change, asked->call->arena, err) &&
           current(asked, &before, err) &&
           json_merge(before, change.patch, KEY_MAX, METADATA_MAX, &metadata, err) &&
           store(asked, "patch", (struct str){0}, &metadata, result, subject, err);
}

bool do_metadata_increment(struct asked *asked, const struct wire_op *op,
                           struct wire_op_result *result, char subject[ID_TEXT], struct error *err)
{
    AUTO(buf_finish) struct buf metadata = {.max = METADATA_MAX};
    struct str before;
    struct change change;

    return json_read(op->body, increment_fields, &change, sizeof change, asked->call->arena, err) &&
           current(asked, &before, err) &&
           json_add(before, change.key, change.amount, KEY_MAX, METADATA_MAX, &metadata, err) &&
           store(asked, "increment", change.key, &metadata, result, subject, err);
}

struct emitted {
    struct str type, content;
};

static const struct json_field emit_fields[] = {
    {"type", JSON_TEXT, offsetof(struct emitted, type), REQUIRED, .max = TYPE_MAX},
    {"content", JSON_RAW, offsetof(struct emitted, content), REQUIRED, .max = CONTENT_MAX},
    {0},
};

bool do_event_emit(struct asked *asked, const struct wire_op *op, struct wire_op_result *result,
                   char subject[ID_TEXT], struct error *err)
{
    AUTO(buf_finish) struct buf text = {.max = EVENT_MAX};
    struct json_writer json = json_begin(&text);
    struct arena *arena = asked->call->arena;
    struct emitted emitted;

    if (!json_read(op->body, emit_fields, &emitted, sizeof emitted, arena, err))
        return false;
    if (emitted.type.len == 0)
        return error_set(err, ERR_INVALID, "/type must have 1 to %d bytes", TYPE_MAX);
    if (emitted.content.len == 0 || emitted.content.ptr[0] != '[')
        return error_set(err, ERR_INVALID, "/content must be a list");
    struct event event = {
        .kind = arena_printf(arena, "emit.%.*s", (int)emitted.type.len, emitted.type.ptr),
        .is_sensitive = true,
    };
    json_open(&json, NULL);
    json_text(&json, "type", emitted.type);
    json_raw(&json, "content", emitted.content);
    return append(asked, &event, &text, &json, result, subject, err);
}

bool said_again(struct asked *asked UNUSED, const char *subject UNUSED,
                struct wire_op_result *result, struct error *err UNUSED)
{
    result->ok = true;
    result->body = STR("null");
    return true;
}
