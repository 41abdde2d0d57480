/* Streams as the programs of a session use them: outputs are appended, both kinds are read, and a
 * live wait can be given up. */
#include "server/run_ops.h"
#include "server/stream_wait.h"
#include "store/queries.h"

/* LIST_BYTES: about what one answer may carry; a longer list goes on behind next_cursor. */
enum { LIST_DEFAULT = 100, LIST_MAX = 500, LIST_BYTES = 192 * 1024, REASON_MAX = 512 };

struct append_body {
    struct str stream, data, content_type, correlation_id;
};

#define APPEND(name) offsetof(struct append_body, name)

static const struct json_field append_fields[] = {
    {"stream", JSON_TEXT, APPEND(stream), REQUIRED, .max = 256},
    {"data", JSON_RAW, APPEND(data), REQUIRED, .max = STREAM_RAW_MAX},
    {"content_type", JSON_TEXT, APPEND(content_type), OPTIONAL, .max = STREAM_TYPE_MAX},
    {"correlation_id", JSON_TEXT, APPEND(correlation_id), OPTIONAL, .max = 512},
    {0},
};

struct read_body {
    struct str stream, direction, correlation_id;
    int64_t cursor, limit;
};

#define READ(name) offsetof(struct read_body, name)

static const struct json_field read_fields[] = {
    {"stream", JSON_TEXT, READ(stream), REQUIRED, .max = 256},
    {"direction", JSON_TEXT, READ(direction), REQUIRED, .max = 8},
    {"correlation_id", JSON_TEXT, READ(correlation_id), OPTIONAL, .max = 512},
    {"cursor", JSON_INTEGER, READ(cursor), OPTIONAL, .max = INT64_MAX},
    {"limit", JSON_INTEGER, READ(limit), OPTIONAL, .min = 1, .max = LIST_MAX},
    {0},
};

static bool is_open(struct asked *asked, struct error *err)
{
    struct rows rows;

    if (!STORE(asked->tx, &stream_session_status, asked->call->arena, &rows, err,
               V_TEXT(asked->run.session_id)))
        return false;
    return (rows.n_rows == 1 &&
            str_equal(row_str(&rows, 0, STREAM_SESSION_STATUS_STATUS), STR("open"))) ||
           error_set(err, ERR_SESSION_TERMINAL, "the session has ended");
}

static bool show(struct asked *asked, const struct stream_record *record,
                 struct wire_op_result *result, struct error *err)
{
    AUTO(buf_finish) struct buf text = {.max = STREAM_RECORD_MAX};
    struct json_writer json = json_begin(&text);

    stream_record_write(&json, NULL, record);
    if (!json_end(&json, err))
        return false;
    result->ok = true;
    result->body = arena_str(asked->call->arena, buf_str(&text));
    return true;
}

bool do_stream_append(struct asked *asked, const struct wire_op *op, struct wire_op_result *result,
                      char subject[ID_TEXT], struct error *err)
{
    struct arena *arena = asked->call->arena;
    const struct run_row *run = &asked->run;
    struct append_body body;
    struct stream_record record;
    struct stream_ref ref;

    if (!json_read(op->body, append_fields, &body, sizeof body, arena, err))
        return false;
    struct stream_entry entry = {
        .content_type = body.content_type,
        .correlation_id = body.correlation_id,
        .written_by = arena_printf(arena, "run:%s", run->id),
    };
    if (!stream_entry_read(body.data, arena, &entry, err) ||
        !stream_ref_make(run->environment_id, run->session_id, body.stream, STREAM_OUTPUT, &ref,
                         err) ||
        !stream_check(asked->tx, &ref, arena, err) || !is_open(asked, err) ||
        !stream_write(asked->tx, &ref, &entry, &record, &asked->wakes, err))
        return false;
    memcpy(subject, record.id, ID_TEXT);
    return show(asked, &record, result, err);
}

bool stream_append_again(struct asked *asked, const char *subject, struct wire_op_result *result,
                         struct error *err)
{
    struct stream_record record;

    return stream_record_load(asked->tx, subject, asked->call->arena, &record, err) &&
           show(asked, &record, result, err);
}

/* Where an input has not been read yet, its position is the run's. */
static bool find_start(struct asked *asked, const struct stream_ref *ref, struct read_body *body,
                       struct str text, struct error *err)
{
    struct str given, key = body->correlation_id.ptr ? body->correlation_id : STR("");
    struct rows rows;

    if (ref->direction == STREAM_OUTPUT ||
        json_find_raw(text, "cursor", asked->call->arena, &given))
        return true;
    if (!STORE(asked->tx, &stream_position_get, asked->call->arena, &rows, err, V_TEXT(ref->id),
               V_STR(key), V_TEXT(asked->run.id)))
        return false;
    body->cursor = row_int(&rows, 0, STREAM_POSITION_GET_SEQUENCE);
    return true;
}

static bool read_records(struct asked *asked, const struct wire_op *op, struct read_body *body,
                         int64_t limit, struct rows *rows, struct error *err)
{
    struct arena *arena = asked->call->arena;
    const struct run_row *run = &asked->run;
    struct stream_ref ref;

    if (!json_read(op->body, read_fields, body, sizeof *body, arena, err))
        return false;
    bool is_input = str_equal(body->direction, STR("input"));
    if (!is_input && !str_equal(body->direction, STR("output")))
        return error_set(err, ERR_INVALID, "/direction must be input or output");
    if (limit == 0)
        limit = body->limit ? body->limit : LIST_DEFAULT;
    return stream_ref_make(run->environment_id, run->session_id, body->stream,
                           is_input ? STREAM_INPUT : STREAM_OUTPUT, &ref, err) &&
           stream_check(asked->tx, &ref, arena, err) &&
           find_start(asked, &ref, body, op->body, err) &&
           stream_records(asked->tx, ref.id, body->correlation_id, body->cursor, limit, arena, rows,
                          err);
}

bool do_stream_read(struct asked *asked, const struct wire_op *op, struct wire_op_result *result,
                    char subject[ID_TEXT] UNUSED, struct error *err)
{
    struct read_body body;
    struct rows rows = {0};

    if (!read_records(asked, op, &body, 1, &rows, err))
        return false;
    if (rows.n_rows > 0) {
        const struct stream_record record = stream_record_at(&rows, 0);
        return show(asked, &record, result, err);
    }
    result->ok = true;
    result->body = STR("null");
    return true;
}

bool do_stream_list(struct asked *asked, const struct wire_op *op, struct wire_op_result *result,
                    char subject[ID_TEXT] UNUSED, struct error *err)
{
    AUTO(buf_finish) struct buf text = {.max = LIST_BYTES + 2 * STREAM_RECORD_MAX};
    struct json_writer json = json_begin(&text);
    struct read_body body;
    struct rows rows = {0};
    size_t i;

    if (!read_records(asked, op, &body, 0, &rows, err))
        return false;
    json_open(&json, NULL);
    json_open_list(&json, "records");
    for (i = 0; i < rows.n_rows && text.len < LIST_BYTES; i++) {
        const struct stream_record record = stream_record_at(&rows, i);
        stream_record_write(&json, NULL, &record);
    }
    json_close_list(&json);
    json_bool(&json, "is_cut", i < rows.n_rows);
    json_close(&json);
    if (!json_end(&json, err))
        return false;
    result->ok = true;
    result->body = arena_str(asked->call->arena, buf_str(&text));
    return true;
}

/* The program listens no more. One that was answered meanwhile stays answered. */
bool do_wait_cancel(struct asked *asked, const struct wire_op *op UNUSED,
                    struct wire_op_result *result, char subject[ID_TEXT] UNUSED, struct error *err)
{
    AUTO(buf_finish) struct buf decision = {.max = REASON_MAX};
    struct wait_row wait;
    bool found;

    result->ok = true;
    result->body = STR("null");
    if (!wait_load_open(asked->tx, asked->run.id, asked->call->arena, &wait, &found, err))
        return false;
    if (!found || wait.condition != WAIT_PENDING || !wait_is_live(&wait))
        return true;
    return wait_decision(CONDITION_CANCEL, (struct str){0}, STR("the program listens no more"),
                         &decision, err) &&
           wait_settle(asked->tx, &wait, CONDITION_CANCEL, buf_str(&decision), &asked->wakes, err);
}
