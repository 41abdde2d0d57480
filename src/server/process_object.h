/* Commands, terminals and mounts as the API shows them. */
#pragma once

#include "base/json.h"
#include "http/call.h"
#include "server/process_store.h"
#include "store/queries.h"

/* A row of process_get or process_list. */
void exec_object_write(struct json_writer *json, const char *name, const struct rows *rows,
                       size_t row);
void pty_object_write(struct json_writer *json, const char *name, const struct rows *rows,
                      size_t row);

/* A row of process_chunks_between, from byte `from` on. */
void chunk_object_write(struct json_writer *json, const struct rows *rows, size_t row,
                        int64_t from);

/* A row of mount_get. */
void mount_object_write(struct json_writer *json, const char *name, const struct rows *rows,
                        size_t row);

/* The program of the path /workspaces/:workspace/<kind>/:process: its row, or ERR_EXEC_NOT_FOUND or
 * ERR_PTY_NOT_FOUND. */
bool process_of_path(struct call *call, struct tx *tx, enum process_kind kind, struct rows *rows,
                     struct error *err) MUST_USE;

/* The same, locked, for those who change it. */
bool process_hold_path(struct call *call, struct tx *tx, enum process_kind kind,
                       struct process_row *process, struct error *err) MUST_USE;

/* The workspace of the path, as text; ERR_WORKSPACE_NOT_FOUND when it cannot be an id. */
bool workspace_of_path(struct call *call, char id[ID_TEXT], struct error *err) MUST_USE;

/* A page of a workspace's programs. */
bool process_answer_list(struct call *call, enum process_kind kind, struct response *res,
                         struct error *err) MUST_USE;

/* One program, as it is after `tx`. */
bool process_answer_one(struct call *call, struct tx *tx, enum process_kind kind, int status,
                        struct response *res, struct error *err) MUST_USE;

/* What the bodies of those who make a program share. */
struct process_key {
    struct str key, ttl;    /* ttl: a duration as JSON; ptr NULL: a day */
    struct str fingerprint; /* the canonical request */
};

/* *first is empty, or the program that an earlier request with the key made. */
bool process_claim_key(struct call *call, struct tx *tx, const char *route,
                       const struct process_key *key, const char *id, char first[ID_TEXT],
                       struct error *err) MUST_USE;

/* An answer to a request that makes one: 201, or 200 with is_cached. */
bool process_answer_made(struct call *call, struct tx *tx, enum process_kind kind, const char *id,
                         bool is_cached, struct response *res, struct error *err) MUST_USE;

/* {offset, data} of a piece of input, and its answer. Used by the routes of both kinds. */
bool process_input_post(struct call *call, enum process_kind kind, struct response *res,
                        struct error *err) MUST_USE;

/* The next output after the cursor, as much as one answer holds; rows of process_chunks_between.
 * `end` is where the stream ends. Nothing is read when bytes after the cursor are gone already. */
struct process_chunks {
    struct rows rows;
    int64_t earliest; /* the first byte that is kept; the end when nothing is */
    bool more;
};
bool process_read(struct tx *tx, const char *process_id, const char *stream, int64_t cursor,
                  int64_t end, struct arena *arena, struct process_chunks *found,
                  struct error *err) MUST_USE;

/* A cursor that a request names, within the stream that ends at `end`. *is_refused: the answer is
 * there already, and tells what is kept. */
bool process_check_cursor(struct call *call, struct tx *tx, const char *process_id,
                          const char *stream, int64_t cursor, int64_t end, bool *is_refused,
                          struct response *res, struct error *err) MUST_USE;

/* A stream of output: a page, or all of it as it comes. */
bool process_output_get(struct call *call, enum process_kind kind, const char *stream,
                        struct response *res, struct error *err) MUST_USE;
