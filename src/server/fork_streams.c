/* The streams of a branch: what was in them when its checkpoint was made, under the same sequences.
 *
 * The stream that is waited for ends before the record that the source was answered with, which
 * may have come while the checkpoint was made: the branch waits for one of its own. */
#include "server/fork.h"
#include "server/stream_wait.h"
#include "store/queries.h"

enum { STEP_ROWS = 64 };

/* The sequence that the branch must not have any more. */
static bool find_end(struct fork *fork, const char *stream_id, struct str name, int64_t *before,
                     struct error *err)
{
    struct stream_want want;
    struct rows rows;

    *before = INT64_MAX;
    if (fork->wait.kind != WAIT_STREAM)
        return true;
    if (!stream_want_of(fork->wait.params, fork->arena, &want, err))
        return false;
    if (!str_equal(want.stream, name))
        return true;
    if (!stream_records(fork->tx, stream_id, want.correlation_id, want.cursor, 1, fork->arena,
                        &rows, err))
        return false;
    if (rows.n_rows > 0)
        *before = stream_record_at(&rows, 0).sequence;
    return true;
}

static bool copy_record(struct fork *fork, const char *stream_id, const struct rows *rows,
                        size_t row, struct error *err)
{
    char id[ID_TEXT];

    id_make(id);
    return STORE(fork->tx, &stream_record_insert, NULL, NULL, err, V_TEXT(stream_id),
                 *row_value(rows, row, FORK_RECORDS_AFTER_SEQUENCE), V_TEXT(id),
                 *row_value(rows, row, FORK_RECORDS_AFTER_DATA),
                 *row_value(rows, row, FORK_RECORDS_AFTER_CONTENT_TYPE),
                 *row_value(rows, row, FORK_RECORDS_AFTER_CORRELATION_ID),
                 *row_value(rows, row, FORK_RECORDS_AFTER_IDEMPOTENCY_KEY),
                 *row_value(rows, row, FORK_RECORDS_AFTER_FINGERPRINT),
                 *row_value(rows, row, FORK_RECORDS_AFTER_WRITTEN_BY),
                 *row_value(rows, row, FORK_RECORDS_AFTER_CREATED_MS));
}

/* In steps, each in memory of its own: a stream may be long. */
static bool copy_records(struct fork *fork, const char *source, const char *stream_id, int64_t last,
                         struct error *err)
{
    for (int64_t cursor = 0; cursor < last;) {
        AUTO(arena_finish) struct arena arena = {0};
        struct rows rows;

        if (!STORE(fork->tx, &fork_records_after, &arena, &rows, err, V_TEXT(source), V_INT(cursor),
                   V_INT(last), V_INT(STEP_ROWS)))
            return false;
        if (rows.n_rows == 0)
            return error_set(err, ERR_INTERNAL, "records of stream %s are missing", source);
        for (size_t i = 0; i < rows.n_rows; i++) {
            if (!copy_record(fork, stream_id, &rows, i, err))
                return false;
            cursor = row_int(&rows, i, FORK_RECORDS_AFTER_SEQUENCE);
        }
    }
    return true;
}

static bool copy_stream(struct fork *fork, const char *source, struct str name, struct error *err)
{
    struct stream_ref ref;
    struct rows rows;
    int64_t before;

    if (!find_end(fork, source, name, &before, err) ||
        !STORE(fork->tx, &fork_stream_end, fork->arena, &rows, err, V_TEXT(source), V_INT(before),
               V_TEXT(fork->checkpoint.id)))
        return false;
    int64_t last = row_int(&rows, 0, FORK_STREAM_END_SEQUENCE);
    if (last == 0)
        return true;
    return stream_ref_make(fork->run.environment_id, fork->session_id, name, STREAM_INPUT, &ref,
                           err) &&
           STORE(fork->tx, &fork_stream, NULL, NULL, err, V_TEXT(ref.id), V_TEXT(source),
                 V_TEXT(fork->session_id), V_INT(last), V_INT(fork->now)) &&
           copy_records(fork, source, ref.id, last, err) &&
           STORE(fork->tx, &fork_positions, NULL, NULL, err, V_TEXT(ref.id), V_TEXT(source),
                 V_INT(last), V_TEXT(fork->run.id), V_TEXT(fork->run_id));
}

bool fork_copy_streams(struct fork *fork, struct error *err)
{
    struct rows rows;

    if (!STORE(fork->tx, &fork_streams, fork->arena, &rows, err, V_TEXT(fork->run.session_id)))
        return false;
    for (size_t i = 0; i < rows.n_rows; i++)
        if (!copy_stream(fork, row_text(&rows, i, FORK_STREAMS_ID),
                         row_str(&rows, i, FORK_STREAMS_NAME), err))
            return false;
    return true;
}
