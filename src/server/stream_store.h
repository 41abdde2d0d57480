/* Streams of a session: append-only lists of records with sequence 1, 2, …
 *
 * A stream exists when the session's deployment declares it or it has records; the row is made by
 * the first record. Every function works in the caller's transaction. Locks are taken in one order
 * everywhere: session, run, wait, stream. A program that appends holds its run, which whoever ends
 * the session locks, too; so nothing is appended to a session that has ended.
 */
#pragma once

#include "base/id.h"
#include "base/json.h"
#include "server/hub.h"
#include "store/store.h"

enum {
    STREAM_DATA_MAX = 256 * 1024,               /* canonical */
    STREAM_RAW_MAX = 2 * STREAM_DATA_MAX,       /* the same, as others may write it */
    STREAM_RECORD_MAX = STREAM_DATA_MAX + 8192, /* with its other members */
    STREAM_TYPE_MAX = 128,
    STREAM_BY_TEXT = 64,
};

enum stream_direction { STREAM_INPUT, STREAM_OUTPUT };

/* Which one. The name is in the caller's memory. */
struct stream_ref {
    char environment_id[ID_TEXT], session_id[ID_TEXT], id[ID_TEXT];
    struct str name;
    enum stream_direction direction;
};

/* Fills in what follows from the rest; ERR_STREAM_NOT_FOUND when no stream can have this name. */
bool stream_ref_make(const char *environment_id, const char *session_id, struct str name,
                     enum stream_direction direction, struct stream_ref *ref,
                     struct error *err) MUST_USE;

/* ERR_STREAM_NOT_FOUND when there is none, ERR_STREAM_DIRECTION when it is of the other kind. */
bool stream_check(struct tx *tx, const struct stream_ref *ref, struct arena *arena,
                  struct error *err) MUST_USE;

struct stream_record {
    char id[ID_TEXT], stream_id[ID_TEXT];
    int64_t sequence, created_ms;
    struct str data, content_type, correlation_id; /* in the arena; correlation_id.ptr NULL: none */
};

void stream_record_write(struct json_writer *json, const char *name,
                         const struct stream_record *record);

/* What is to be appended. */
struct stream_entry {
    struct str data;                                          /* canonical JSON */
    struct str content_type, correlation_id, idempotency_key; /* ptr NULL: none */
    const char *written_by;
};

/* As a request or a program says it: sizes and names checked, data made canonical. */
bool stream_entry_read(struct str data, struct arena *arena, struct stream_entry *entry,
                       struct error *err) MUST_USE;

/* The next record; the stream was checked, and what the order of locks puts before it is held. */
bool stream_write(struct tx *tx, const struct stream_ref *ref, const struct stream_entry *entry,
                  struct stream_record *record, struct wakes *wakes, struct error *err) MUST_USE;

/* The record that was appended with this key; ERR_IDEMPOTENCY_MISMATCH when it was another. */
bool stream_find_key(struct tx *tx, const struct stream_ref *ref, const struct stream_entry *entry,
                     struct arena *arena, struct stream_record *record, bool *found,
                     struct error *err) MUST_USE;

bool stream_record_load(struct tx *tx, const char *id, struct arena *arena,
                        struct stream_record *record, struct error *err) MUST_USE;

/* At most `limit` records after the cursor, oldest first; with a correlation id (ptr not NULL)
 * only those that carry it. */
bool stream_records(struct tx *tx, const char *stream_id, struct str correlation_id, int64_t cursor,
                    int64_t limit, struct arena *arena, struct rows *rows,
                    struct error *err) MUST_USE;
struct stream_record stream_record_at(const struct rows *rows, size_t row);

/* {"streams":[…]}'s items: those with records and those that are only declared, by name. */
bool stream_list_write(struct tx *tx, const char *session_id, struct arena *arena,
                       struct json_writer *json, struct error *err) MUST_USE;
