/* The rows of a branch: copies of those of its source, under ids of their own. */
#include <stdio.h>

#include "base/json.h"
#include "base/time.h"
#include "server/event.h"
#include "server/fork.h"
#include "server/object_refs.h"
#include "server/token_store.h"
#include "store/queries.h"

enum { EVENT_PAYLOAD_MAX = 256 * 1024, EVENT_MAX = 2 * 1024 * 1024, TRACE_TEXT = 33 };

static void make_ids(struct fork *fork)
{
    id_make(fork->workspace_id);
    id_make(fork->session_id);
    id_make(fork->wait_id);
    id_make(fork->checkpoint_id);
    if (fork->wait.kind == WAIT_TOKEN)
        id_make(fork->token_id);
}

static const char *trace_of(const struct fork *fork)
{
    char *trace = arena_alloc(fork->arena, TRACE_TEXT);
    size_t n = 0;

    for (const char *c = fork->run_id; *c; c++)
        if (*c != '-')
            trace[n++] = *c;
    trace[n] = '\0';
    return trace;
}

static const char *origin_of(const struct fork *fork)
{
    return arena_printf(fork->arena, "{\"run_id\":\"%s\",\"wait_id\":\"%s\"}", fork->run.id,
                        fork->wait.id);
}

static bool copy_session(struct fork *fork, struct error *err)
{
    struct rows rows;

    if (!STORE(fork->tx, &fork_workspace, NULL, NULL, err, V_TEXT(fork->workspace_id),
               V_TEXT(fork->run.id), V_INT(fork->now)) ||
        !STORE(fork->tx, &fork_session, fork->arena, &rows, err, V_TEXT(fork->session_id),
               V_TEXT(fork->run.id), V_TEXT(fork->workspace_id), V_TEXT(fork->run_id),
               V_STR_OR_NULL(fork->external_id), V_STR_OR_NULL(fork->metadata),
               V_STR_OR_NULL(fork->tags), V_TEXT(fork->run.session_id), V_INT(fork->now)))
        return false;
    return rows.n_changed == 1 ||
           error_set(err, ERR_CONFLICT, "another session has this external_id");
}

static bool copy_run(struct fork *fork, struct error *err)
{
    const char *version = fork->checkpoint.version_id;

    return STORE(fork->tx, &fork_run, NULL, NULL, err, V_TEXT(fork->run_id), V_TEXT(fork->run.id),
                 V_TEXT(fork->session_id), V_TEXT(fork->workspace_id), V_TEXT(origin_of(fork)),
                 V_STR_OR_NULL(fork->metadata), V_STR_OR_NULL(fork->tags), V_TEXT(trace_of(fork)),
                 V_INT(fork->checkpoint.attempt), *version ? V_TEXT(version) : V_NULL,
                 V_TEXT(API_VERSION), V_STR_OR_NULL(fork->sdk_version),
                 V_STR_OR_NULL(fork->cli_version), V_INT(fork->now)) &&
           STORE(fork->tx, &fork_values, NULL, NULL, err, V_TEXT(fork->run_id),
                 V_TEXT(fork->run.id)) &&
           STORE(fork->tx, &attempt_upsert, NULL, NULL, err, V_TEXT(fork->run_id),
                 V_INT(fork->checkpoint.attempt), V_TEXT("executing"), V_INT(fork->now));
}

/* As long as the source's wait could last, counted from now. */
static int64_t timeout_of(const struct fork *fork)
{
    const struct wait_row *wait = &fork->wait;

    if (!wait->timeout_at_ms)
        return fork->token_id[0] ? fork->now + TOKEN_TIMEOUT_MAX : 0;
    return fork->now + (wait->timeout_at_ms - wait->created_ms);
}

static bool make_token(struct fork *fork, struct error *err)
{
    const struct token_new made = {
        .environment_id = fork->run.environment_id,
        .run_id = fork->run_id,
        .timeout_at_ms = timeout_of(fork),
        .metadata = fork->wait.metadata,
        .tags = fork->wait.tags,
    };

    return token_create(fork->tx, &fork->server->keys, &made, fork->token_id, err);
}

static bool copy_wait(struct fork *fork, struct error *err)
{
    int64_t timeout_at = timeout_of(fork);
    bool has_token = fork->token_id[0];

    return (!has_token || make_token(fork, err)) &&
           STORE(fork->tx, &fork_wait, NULL, NULL, err, V_TEXT(fork->wait_id),
                 V_TEXT(fork->wait.id), V_TEXT(fork->run_id),
                 has_token ? V_TEXT(fork->token_id) : V_NULL,
                 timeout_at ? V_INT(timeout_at) : V_NULL, V_TEXT(fork->checkpoint_id),
                 V_INT(fork->now)) &&
           STORE(fork->tx, &fork_checkpoint, NULL, NULL, err, V_TEXT(fork->checkpoint_id),
                 V_TEXT(fork->checkpoint.id), V_TEXT(fork->run_id), V_TEXT(fork->wait_id),
                 V_INT(fork->now)) &&
           object_refs_copy(fork->server, fork->tx, fork->checkpoint.id, fork->checkpoint_id,
                            fork->arena, err);
}

static bool append(struct fork *fork, const char *run_id, struct event *event, struct buf *text,
                   struct json_writer *json, struct error *err)
{
    json_close(json);
    if (!json_end(json, err))
        return false;
    event->at_ms = fork->now;
    event->attributes = buf_str(text);
    return strcmp(event->kind, "run.created") == 0 ? run_event_first(fork->tx, run_id, event, err)
                                                   : run_event_append(fork->tx, run_id, event, err);
}

static void write_payload(struct json_writer *json, struct str payload)
{
    if (payload.len <= EVENT_PAYLOAD_MAX) {
        json_raw(json, "payload", payload);
        return;
    }
    json_bool(json, "payload_omitted", true);
    json_int(json, "payload_bytes", (int64_t)payload.len);
}

static bool created_event(struct fork *fork, struct error *err)
{
    AUTO(buf_finish) struct buf text = {.max = EVENT_MAX};
    struct json_writer json = json_begin(&text);
    struct event event = {.kind = "run.created", .is_sensitive = true};
    struct rows rows;

    if (!STORE(fork->tx, &fork_source, fork->arena, &rows, err, V_TEXT(fork->run_id)))
        return false;
    json_open(&json, NULL);
    json_text(&json, "task_id", row_str(&rows, 0, FORK_SOURCE_TASK_ID));
    json_string(&json, "session_id", fork->session_id);
    json_string(&json, "workspace_id", fork->workspace_id);
    json_text(&json, "deployment_id", row_str(&rows, 0, FORK_SOURCE_DEPLOYMENT_ID));
    write_payload(&json, row_str(&rows, 0, FORK_SOURCE_PAYLOAD));
    json_int(&json, "max_duration_seconds", row_int(&rows, 0, FORK_SOURCE_MAX_DURATION_SECONDS));
    json_raw(&json, "secret_names", row_str(&rows, 0, FORK_SOURCE_SECRET_NAMES));
    if (!row_is_null(&rows, 0, FORK_SOURCE_RETRY_POLICY))
        json_raw(&json, "retry_policy", row_str(&rows, 0, FORK_SOURCE_RETRY_POLICY));
    json_raw(&json, "metadata", row_str(&rows, 0, FORK_SOURCE_METADATA));
    json_raw(&json, "tags", row_str(&rows, 0, FORK_SOURCE_TAGS));
    json_string(&json, "reason", "fork");
    json_raw(&json, "forked_from", str_of(origin_of(fork)));
    return append(fork, fork->run_id, &event, &text, &json, err);
}

static bool waiting_events(struct fork *fork, struct error *err)
{
    AUTO(buf_finish) struct buf text = {.max = EVENT_MAX};
    AUTO(buf_finish) struct buf short_text = {.max = 1024};
    struct event created = {.kind = "run_wait.created", .attempt = fork->checkpoint.attempt};
    struct event waiting = {.kind = "run.waiting", .attempt = fork->checkpoint.attempt};

    struct json_writer json = json_begin(&text);
    json_open(&json, NULL);
    json_string(&json, "wait_id", fork->wait_id);
    json_string(&json, "kind", wait_kind_name(fork->wait.kind));
    json_raw(&json, "params", fork->wait.params);
    json_raw(&json, "metadata", fork->wait.metadata);
    json_raw(&json, "tags", fork->wait.tags);
    if (fork->wait.timeout.ptr)
        json_text(&json, "timeout", fork->wait.timeout);
    if (fork->token_id[0])
        json_string(&json, "token_id", fork->token_id);
    if (!append(fork, fork->run_id, &created, &text, &json, err))
        return false;
    json = json_begin(&short_text);
    json_open(&json, NULL);
    json_string(&json, "wait_id", fork->wait_id);
    return append(fork, fork->run_id, &waiting, &short_text, &json, err);
}

static bool forked_event(struct fork *fork, struct error *err)
{
    AUTO(buf_finish) struct buf text = {.max = 1024};
    struct json_writer json = json_begin(&text);
    struct event event = {.kind = "run.forked"};

    json_open(&json, NULL);
    json_string(&json, "fork_run_id", fork->run_id);
    json_string(&json, "fork_session_id", fork->session_id);
    json_string(&json, "wait_id", fork->wait.id);
    return append(fork, fork->run.id, &event, &text, &json, err);
}

bool fork_copy(struct fork *fork, struct error *err)
{
    make_ids(fork);
    wakes_add(fork->wakes, "run:", fork->run.id);
    wakes_add(fork->wakes, "env:", fork->run.environment_id);
    return copy_session(fork, err) && copy_run(fork, err) && copy_wait(fork, err) &&
           fork_copy_streams(fork, err) && created_event(fork, err) && waiting_events(fork, err) &&
           forked_event(fork, err);
}
