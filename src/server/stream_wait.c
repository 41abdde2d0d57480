#include "server/stream_wait.h"

#include "base/time.h"
#include "model/name.h"
#include "store/queries.h"

enum { PARAMS_MAX = 4096 };

static const struct json_field want_fields[] = {
    {"stream", JSON_TEXT, offsetof(struct stream_want, stream), REQUIRED, .max = 256},
    {"correlation_id", JSON_TEXT, offsetof(struct stream_want, correlation_id), OPTIONAL,
     .max = 512},
    {"cursor", JSON_INTEGER, offsetof(struct stream_want, cursor), OPTIONAL, .max = INT64_MAX,
     .present = offsetof(struct stream_want, has_cursor)},
    {"live", JSON_BOOL, offsetof(struct stream_want, is_live), OPTIONAL},
    {0},
};

/* '' stands for waits without one. */
static struct str position_key(const struct stream_want *want)
{
    return want->correlation_id.ptr ? want->correlation_id : STR("");
}

static bool find_position(struct tx *tx, const struct run_row *run, const char *stream_id,
                          struct arena *arena, struct stream_want *want, struct error *err)
{
    struct rows rows;

    if (want->has_cursor)
        return true;
    if (!STORE(tx, &stream_position_get, arena, &rows, err, V_TEXT(stream_id),
               V_STR(position_key(want)), V_TEXT(run->id)))
        return false;
    want->cursor = row_int(&rows, 0, STREAM_POSITION_GET_SEQUENCE);
    return true;
}

static bool write_params(const struct stream_want *want, struct arena *arena, struct str *params,
                         struct error *err)
{
    AUTO(buf_finish) struct buf text = {.max = PARAMS_MAX};
    struct json_writer json = json_begin(&text);

    json_open(&json, NULL);
    json_text(&json, "stream", want->stream);
    if (want->correlation_id.ptr)
        json_text(&json, "correlation_id", want->correlation_id);
    json_int(&json, "cursor", want->cursor);
    if (want->is_live)
        json_bool(&json, "live", true);
    json_close(&json);
    if (!json_end(&json, err))
        return false;
    *params = arena_str(arena, buf_str(&text));
    return true;
}

bool stream_want_of(struct str params, struct arena *arena, struct stream_want *want,
                    struct error *err)
{
    return json_read(params, want_fields, want, sizeof *want, arena, err);
}

bool stream_want_read(struct tx *tx, const struct run_row *run, struct str asked,
                      struct arena *arena, struct stream_want *want, struct str *params,
                      struct stream_record *record, bool *found, struct error *err)
{
    struct stream_ref ref;
    struct rows rows;

    if (!asked.ptr)
        return error_set(err, ERR_INVALID, "a wait for a stream needs params");
    if (!stream_want_of(asked, arena, want, err))
        return error_wrap(err, "params");
    if ((want->correlation_id.ptr &&
         !name_check(NAME_EXTERNAL, "correlation_id", want->correlation_id, err)) ||
        !stream_ref_make(run->environment_id, run->session_id, want->stream, STREAM_INPUT, &ref,
                         err) ||
        !stream_check(tx, &ref, arena, err) || !find_position(tx, run, ref.id, arena, want, err) ||
        !write_params(want, arena, params, err) ||
        !stream_records(tx, ref.id, want->correlation_id, want->cursor, 1, arena, &rows, err))
        return false;
    *found = rows.n_rows > 0;
    if (*found)
        *record = stream_record_at(&rows, 0);
    return true;
}

bool stream_decision(struct tx *tx, const struct stream_want *want, const char *run_id,
                     const struct stream_record *record, struct buf *decision, struct error *err)
{
    AUTO(buf_finish) struct buf text = {.max = STREAM_RECORD_MAX};
    struct json_writer json = json_begin(&text);

    stream_record_write(&json, NULL, record);
    return json_end(&json, err) &&
           wait_decision(CONDITION_COMPLETE, buf_str(&text), (struct str){0}, decision, err) &&
           STORE(tx, &stream_position_set, NULL, NULL, err, V_TEXT(record->stream_id),
                 V_STR(position_key(want)), V_TEXT(run_id), V_INT(record->sequence));
}

static bool wants(const struct stream_want *want, const struct stream_ref *ref,
                  const struct stream_record *record)
{
    return str_equal(want->stream, ref->name) && record->sequence > want->cursor &&
           (!want->correlation_id.ptr || str_equal(want->correlation_id, record->correlation_id));
}

bool stream_offer(struct tx *tx, struct wait_row *wait, const struct stream_ref *ref,
                  const struct stream_record *record, bool *taken, struct wakes *wakes,
                  struct error *err)
{
    AUTO(arena_finish) struct arena arena = {0};
    AUTO(buf_finish) struct buf decision = {.max = WAIT_DECISION_MAX};
    struct stream_want want;
    /* One whose time is over is the sweeper's to expire. */
    bool is_late = wait->timeout_at_ms && wait->timeout_at_ms <= time_now_ms();

    *taken = false;
    if (wait->kind != WAIT_STREAM || wait->condition != WAIT_PENDING || is_late)
        return true;
    if (!stream_want_of(wait->params, &arena, &want, err))
        return false;
    *taken = wants(&want, ref, record);
    return !*taken || (stream_decision(tx, &want, wait->run_id, record, &decision, err) &&
                       wait_settle(tx, wait, CONDITION_COMPLETE, buf_str(&decision), wakes, err));
}

bool wait_is_live(const struct wait_row *wait)
{
    AUTO(arena_finish) struct arena arena = {0};
    struct str live;

    return wait->kind == WAIT_STREAM && json_find_raw(wait->params, "live", &arena, &live) &&
           str_equal(live, STR("true"));
}
