#include "server/stream_store.h"

#include <stdlib.h>

#include "base/hash.h"
#include "base/time.h"
#include "model/name.h"
#include "store/queries.h"

enum { TIME_BYTES = 6, DECLARED_MAX = 256 };

struct declared {
    struct str name, direction, schema_fingerprint;
};

static const struct json_field declared_fields[] = {
    {"name", JSON_TEXT, offsetof(struct declared, name), REQUIRED, .max = 256},
    {"direction", JSON_TEXT, offsetof(struct declared, direction), REQUIRED, .max = 8},
    {"schema_fingerprint", JSON_TEXT, offsetof(struct declared, schema_fingerprint), OPTIONAL,
     .max = 128},
    {0},
};

struct declarations {
    struct json_list streams;
};

static const struct json_field declarations_fields[] = {
    {"streams", JSON_LIST, offsetof(struct declarations, streams), REQUIRED, .max = DECLARED_MAX,
     .fields = declared_fields, .size = sizeof(struct declared)},
    {0},
};

static const char *direction_name(enum stream_direction direction)
{
    return direction == STREAM_INPUT ? "input" : "output";
}

/* An id like any other, as old as the session, and always the same for this name. */
static void make_id(const char *session_id, struct str name, char id[ID_TEXT])
{
    const struct str pieces[] = {STR("stream"), str_of(session_id), name};
    uint8_t bytes[ID_BYTES], hash[BLAKE2B_LEN];

    blake2b_list((struct str){0}, pieces, COUNT_OF(pieces), hash);
    id_to_bytes(session_id, bytes);
    memcpy(bytes + TIME_BYTES, hash, ID_BYTES - TIME_BYTES);
    bytes[6] = (uint8_t)(0x70 | (bytes[6] & 0x0f)); /* UUID version 7, variant 10 */
    bytes[8] = (uint8_t)(0x80 | (bytes[8] & 0x3f));
    id_from_bytes(bytes, id);
}

bool stream_ref_make(const char *environment_id, const char *session_id, struct str name,
                     enum stream_direction direction, struct stream_ref *ref, struct error *err)
{
    if (!name_is_valid(NAME_STREAM, name))
        return error_set(err, ERR_STREAM_NOT_FOUND, "no stream can have this name");
    *ref = (struct stream_ref){.name = name, .direction = direction};
    memcpy(ref->environment_id, environment_id, ID_TEXT);
    memcpy(ref->session_id, session_id, ID_TEXT);
    make_id(session_id, name, ref->id);
    return true;
}

static bool load_declared(struct tx *tx, const char *session_id, struct arena *arena,
                          struct json_list *list, struct error *err)
{
    struct declarations declarations;
    struct rows rows;

    *list = (struct json_list){0};
    if (!STORE(tx, &streams_declared, arena, &rows, err, V_TEXT(session_id)))
        return false;
    if (rows.n_rows == 0)
        return true;
    struct str text = row_str(&rows, 0, STREAMS_DECLARED_STREAMS);
    const char *whole = arena_printf(arena, "{\"streams\":%.*s}", (int)text.len, text.ptr);
    if (!json_read(str_of(whole), declarations_fields, &declarations, sizeof declarations, arena,
                   err))
        return error_wrap(err, "the streams of a deployment");
    *list = declarations.streams;
    return true;
}

static const struct declared *find_declared(const struct json_list *list, struct str name)
{
    const struct declared *streams = list->items;

    for (size_t i = 0; i < list->n; i++)
        if (str_equal(streams[i].name, name))
            return &streams[i];
    return NULL;
}

static bool find_direction(struct tx *tx, const struct stream_ref *ref, struct arena *arena,
                           struct str *direction, struct error *err)
{
    const struct declared *declared;
    struct json_list list;
    struct rows rows;

    if (!STORE(tx, &stream_find, arena, &rows, err, V_TEXT(ref->id)))
        return false;
    if (rows.n_rows > 0) {
        *direction = row_str(&rows, 0, STREAM_FIND_DIRECTION);
        return true;
    }
    if (!load_declared(tx, ref->session_id, arena, &list, err))
        return false;
    declared = find_declared(&list, ref->name);
    if (!declared)
        return error_set(err, ERR_STREAM_NOT_FOUND, "the session has no stream %.*s",
                         (int)ref->name.len, ref->name.ptr);
    *direction = declared->direction;
    return true;
}

bool stream_check(struct tx *tx, const struct stream_ref *ref, struct arena *arena,
                  struct error *err)
{
    struct str direction = {0};

    if (!find_direction(tx, ref, arena, &direction, err))
        return false;
    return str_equal(direction, str_of(direction_name(ref->direction))) ||
           error_set(err, ERR_STREAM_DIRECTION, "%.*s is an %.*s stream", (int)ref->name.len,
                     ref->name.ptr, (int)direction.len, direction.ptr);
}

void stream_record_write(struct json_writer *json, const char *name,
                         const struct stream_record *record)
{
    json_open(json, name);
    json_string(json, "id", record->id);
    json_string(json, "stream_id", record->stream_id);
    json_int(json, "sequence", record->sequence);
    json_raw(json, "data", record->data);
    if (record->correlation_id.ptr)
        json_text(json, "correlation_id", record->correlation_id);
    json_text(json, "content_type", record->content_type);
    json_time(json, "created_at", record->created_ms);
    json_close(json);
}

/* What may stand in a header, for whoever passes the record on. */
static bool type_is_fine(struct str type)
{
    for (size_t i = 0; i < type.len; i++)
        if (type.ptr[i] < ' ' || type.ptr[i] > '~')
            return false;
    return type.len > 0 && type.len <= STREAM_TYPE_MAX;
}

bool stream_entry_read(struct str data, struct arena *arena, struct stream_entry *entry,
                       struct error *err)
{
    AUTO(buf_finish) struct buf out = {.max = STREAM_DATA_MAX};

    if (!entry->content_type.ptr)
        entry->content_type = STR("application/json");
    if (!type_is_fine(entry->content_type))
        return error_set(err, ERR_INVALID, "/content_type must be 1 to %d printable characters",
                         STREAM_TYPE_MAX);
    if ((entry->correlation_id.ptr &&
         !name_check(NAME_EXTERNAL, "correlation_id", entry->correlation_id, err)) ||
        (entry->idempotency_key.ptr &&
         !name_check(NAME_EXTERNAL, "idempotency_key", entry->idempotency_key, err)))
        return false;
    if (!json_canonical(data, STREAM_DATA_MAX, &out, err))
        return error_wrap(err, "data");
    entry->data = arena_str(arena, buf_str(&out));
    return true;
}

static void fingerprint_of(const struct stream_entry *entry, uint8_t hash[BLAKE2B_LEN])
{
    const struct str pieces[] = {entry->data, entry->content_type, entry->correlation_id};

    blake2b_list((struct str){0}, pieces, entry->correlation_id.ptr ? 3 : 2, hash);
}

bool stream_write(struct tx *tx, const struct stream_ref *ref, const struct stream_entry *entry,
                  struct stream_record *record, struct wakes *wakes, struct error *err)
{
    AUTO(arena_finish) struct arena arena = {0};
    int64_t now = time_now_ms();
    uint8_t hash[BLAKE2B_LEN];
    struct str fingerprint = {(const char *)hash, sizeof hash};
    struct rows rows;

    if (!STORE(tx, &stream_take_sequence, &arena, &rows, err, V_TEXT(ref->id),
               V_TEXT(ref->environment_id), V_TEXT(ref->session_id), V_STR(ref->name),
               V_TEXT(direction_name(ref->direction)), V_INT(now)))
        return false;
    *record = (struct stream_record){
        .sequence = row_int(&rows, 0, STREAM_TAKE_SEQUENCE_SEQUENCE),
        .created_ms = now,
        .data = entry->data,
        .content_type = entry->content_type,
        .correlation_id = entry->correlation_id,
    };
    id_make(record->id);
    memcpy(record->stream_id, ref->id, ID_TEXT);
    fingerprint_of(entry, hash);
    wakes_add(wakes, "session:", ref->session_id);
    return STORE(tx, &stream_record_insert, NULL, NULL, err, V_TEXT(ref->id),
                 V_INT(record->sequence), V_TEXT(record->id), V_STR(entry->data),
                 V_STR(entry->content_type), V_STR_OR_NULL(entry->correlation_id),
                 V_STR_OR_NULL(entry->idempotency_key),
                 entry->idempotency_key.ptr ? V_BYTES(fingerprint) : V_NULL,
                 V_TEXT(entry->written_by), V_INT(now));
}

struct stream_record stream_record_at(const struct rows *rows, size_t row)
{
    struct stream_record record = {
        .sequence = row_int(rows, row, STREAM_RECORDS_AFTER_SEQUENCE),
        .created_ms = row_int(rows, row, STREAM_RECORDS_AFTER_CREATED_MS),
        .data = row_str(rows, row, STREAM_RECORDS_AFTER_DATA),
        .content_type = row_str(rows, row, STREAM_RECORDS_AFTER_CONTENT_TYPE),
        .correlation_id = row_str(rows, row, STREAM_RECORDS_AFTER_CORRELATION_ID),
    };

    row_id(rows, row, STREAM_RECORDS_AFTER_ID, record.id);
    row_id(rows, row, STREAM_RECORDS_AFTER_STREAM_ID, record.stream_id);
    return record;
}

bool stream_find_key(struct tx *tx, const struct stream_ref *ref, const struct stream_entry *entry,
                     struct arena *arena, struct stream_record *record, bool *found,
                     struct error *err)
{
    uint8_t hash[BLAKE2B_LEN];
    struct rows rows;

    *found = false;
    if (!entry->idempotency_key.ptr)
        return true;
    if (!STORE(tx, &stream_record_by_key, arena, &rows, err, V_TEXT(ref->id),
               V_STR(entry->idempotency_key)))
        return false;
    if (rows.n_rows == 0)
        return true;
    fingerprint_of(entry, hash);
    if (!str_equal(row_str(&rows, 0, STREAM_RECORD_BY_KEY_FINGERPRINT),
                   (struct str){(const char *)hash, sizeof hash}))
        return error_set(err, ERR_IDEMPOTENCY_MISMATCH,
                         "another record was appended with this key");
    *found = true;
    *record = stream_record_at(&rows, 0);
    return true;
}

bool stream_record_load(struct tx *tx, const char *id, struct arena *arena,
                        struct stream_record *record, struct error *err)
{
    struct rows rows;

    if (!STORE(tx, &stream_record_by_id, arena, &rows, err, V_TEXT(id)))
        return false;
    if (rows.n_rows == 0)
        return error_set(err, ERR_NOT_FOUND, "there is no record %s", id);
    *record = stream_record_at(&rows, 0);
    return true;
}

bool stream_records(struct tx *tx, const char *stream_id, struct str correlation_id, int64_t cursor,
                    int64_t limit, struct arena *arena, struct rows *rows, struct error *err)
{
    if (!correlation_id.ptr)
        return STORE(tx, &stream_records_after, arena, rows, err, V_TEXT(stream_id), V_INT(cursor),
                     V_INT(limit));
    return STORE(tx, &stream_records_correlated, arena, rows, err, V_TEXT(stream_id), V_INT(cursor),
                 V_INT(limit), V_STR(correlation_id));
}

/* One that is to be listed. */
struct listed {
    char id[ID_TEXT];
    struct str name, direction, schema_fingerprint;
    int64_t sequence;
};

static int by_name(const void *a, const void *b)
{
    struct str one = ((const struct listed *)a)->name, other = ((const struct listed *)b)->name;
    int order = memcmp(one.ptr, other.ptr, one.len < other.len ? one.len : other.len);

    return order != 0 ? order : (one.len > other.len) - (one.len < other.len);
}

static bool has_records(const struct rows *rows, struct str name)
{
    for (size_t i = 0; i < rows->n_rows; i++)
        if (str_equal(row_str(rows, i, STREAM_LIST_NAME), name))
            return true;
    return false;
}

static size_t collect(const char *session_id, const struct rows *rows, const struct json_list *list,
                      struct listed *all)
{
    const struct declared *streams = list->items;
    size_t n = 0;

    for (size_t i = 0; i < rows->n_rows; i++) {
        struct str name = row_str(rows, i, STREAM_LIST_NAME);
        const struct declared *declared = find_declared(list, name);

        all[n] = (struct listed){
            .name = name,
            .direction = row_str(rows, i, STREAM_LIST_DIRECTION),
            .sequence = row_int(rows, i, STREAM_LIST_SEQUENCE),
            .schema_fingerprint = declared ? declared->schema_fingerprint : (struct str){0},
        };
        row_id(rows, i, STREAM_LIST_ID, all[n++].id);
    }
    for (size_t i = 0; i < list->n; i++) {
        if (has_records(rows, streams[i].name))
            continue;
        all[n] = (struct listed){.name = streams[i].name,
                                 .direction = streams[i].direction,
                                 .schema_fingerprint = streams[i].schema_fingerprint};
        make_id(session_id, streams[i].name, all[n++].id);
    }
    return n;
}

bool stream_list_write(struct tx *tx, const char *session_id, struct arena *arena,
                       struct json_writer *json, struct error *err)
{
    struct json_list list;
    struct rows rows;

    if (!load_declared(tx, session_id, arena, &list, err) ||
        !STORE(tx, &stream_list, arena, &rows, err, V_TEXT(session_id)))
        return false;
    struct listed *all = arena_array(arena, rows.n_rows + list.n + 1, sizeof *all);
    size_t n = collect(session_id, &rows, &list, all);
    qsort(all, n, sizeof *all, by_name);
    for (size_t i = 0; i < n; i++) {
        json_open(json, NULL);
        json_string(json, "id", all[i].id);
        json_text(json, "name", all[i].name);
        json_text(json, "direction", all[i].direction);
        json_int(json, "sequence", all[i].sequence);
        if (all[i].schema_fingerprint.ptr)
            json_text(json, "schema_fingerprint", all[i].schema_fingerprint);
        json_close(json);
    }
    return true;
}
