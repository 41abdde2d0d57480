#include "server/wait_open.h"

#include <stdio.h>

#include "base/json.h"
#include "base/time.h"
#include "model/duration.h"
#include "server/event.h"
#include "server/input.h"
#include "server/stream_wait.h"
#include "server/token_store.h"
#include "store/queries.h"

enum {
    IDLE_MAX_MS = 60 * 60 * 1000,
    NEARLY_MS = 3 * 1000, /* not worth a checkpoint */
    EVENT_MAX = 512 * 1024,
};

#define TIMER_MAX_MS   (3650 * DAY_MS)
#define TIMEOUT_MAX_MS (365 * DAY_MS)

struct wait_request {
    struct str kind, params, metadata, timeout, idle_timeout, until, duration, token_id;
    struct json_list tags;
};

#define RAW_FIELD(name, most) \
    {#name, JSON_RAW, offsetof(struct wait_request, name), OPTIONAL, .max = (most)}

static const struct json_field wait_request_fields[] = {
    {"kind", JSON_TEXT, offsetof(struct wait_request, kind), REQUIRED, .max = 16},
    RAW_FIELD(params, WAIT_DATA_MAX),
    RAW_FIELD(metadata, WAIT_DATA_MAX),
    RAW_FIELD(timeout, 256),
    RAW_FIELD(idle_timeout, 256),
    RAW_FIELD(duration, 256),
    {"until", JSON_TEXT, offsetof(struct wait_request, until), OPTIONAL, .max = 64},
    {"token_id", JSON_TEXT, offsetof(struct wait_request, token_id), OPTIONAL, .max = 64},
    {"tags", JSON_LIST, offsetof(struct wait_request, tags), OPTIONAL, .max = 64},
    {0},
};

/* A wait on its way: the row as it will be, and what is known of its token. */
struct plan {
    const struct opening *opening;
    struct wait_request request;
    struct wait_row *wait;
    struct token_row token;      /* of a wait for one that exists */
    struct stream_want want;     /* of a wait for a stream */
    struct stream_record record; /* the one that is there already */
    bool has_record;
    int64_t now, idle_ms;
    bool needs_token;
};

static bool is_given(struct str raw)
{
    return raw.ptr && !str_equal(raw, STR("null"));
}

static bool read_span(struct str raw, const char *name, int64_t max_ms, int64_t *ms,
                      struct error *err)
{
    if (!duration_read(raw, ms, err))
        return error_wrap(err, "%s", name);
    return (*ms >= 0 && *ms <= max_ms) ||
           error_set(err, ERR_INVALID, "%s must be at least 0 and at most %lld s", name,
                     (long long)(max_ms / 1000));
}

/* What it waits for, for those who look at it. */
static bool describe_timer(struct plan *plan, const char *duration, struct error *err)
{
    AUTO(buf_finish) struct buf text = {.max = 256};
    struct json_writer json = json_begin(&text);

    if (is_given(plan->request.params))
        return true;
    json_open(&json, NULL);
    if (duration)
        json_string(&json, "duration", duration);
    json_time(&json, "until", plan->wait->due_ms);
    json_close(&json);
    if (!json_end(&json, err))
        return false;
    plan->wait->params = arena_str(plan->opening->arena, buf_str(&text));
    return true;
}

static bool read_timer(struct plan *plan, struct error *err)
{
    char text[DURATION_TEXT];
    const struct wait_request *request = &plan->request;
    bool has_duration = is_given(request->duration), has_until = request->until.ptr;
    int64_t ms = 0;

    if (has_duration == has_until)
        return error_set(err, ERR_INVALID, "a timer needs one of duration and until");
    if (is_given(request->timeout) || request->token_id.ptr)
        return error_set(err, ERR_INVALID, "a timer has neither a timeout nor a token");
    if (has_duration && !read_span(request->duration, "duration", TIMER_MAX_MS, &ms, err))
        return false;
    plan->wait->due_ms = plan->now + ms;
    if (has_until && !time_parse(request->until, &plan->wait->due_ms, err))
        return error_wrap(err, "until");
    if (plan->wait->due_ms > plan->now + TIMER_MAX_MS)
        return error_set(err, ERR_INVALID, "until is over ten years away");
    return describe_timer(plan, has_duration ? duration_format(ms, text) : NULL, err);
}

/* One of a human wait is answered or cancelled with it, so nobody else may wait for it. */
static bool check_token(struct plan *plan, struct error *err)
{
    const struct opening *opening = plan->opening;
    struct rows rows;
    char id[ID_TEXT];

    if (!id_parse(plan->request.token_id, id))
        return error_set(err, ERR_TOKEN_NOT_FOUND, "token_id is not the id of a token");
    if (!STORE(opening->tx, &token_is_owned, opening->arena, &rows, err, V_TEXT(id)) ||
        !token_load(opening->tx, id, opening->arena, &plan->token, err))
        return false;
    if (strcmp(plan->token.environment_id, opening->run->environment_id) != 0)
        return error_set(err, ERR_TOKEN_NOT_FOUND, "there is no token %s", id);
    if (rows.n_rows > 0)
        return error_set(err, ERR_INVALID, "token %s belongs to another wait", id);
    memcpy(plan->wait->token_id, id, sizeof id);
    return true;
}

static bool read_token_wait(struct plan *plan, struct error *err)
{
    struct wait_row *wait = plan->wait;
    int64_t ms = TIMEOUT_MAX_MS;
    char text[DURATION_TEXT];

    if (is_given(plan->request.duration) || plan->request.until.ptr)
        return error_set(err, ERR_INVALID, "duration and until belong to a timer");
    wait->owns_token = plan->needs_token = !plan->request.token_id.ptr;
    bool has_timeout = is_given(plan->request.timeout);
    if (has_timeout && !input_duration(plan->request.timeout, "timeout", TIMEOUT_MAX_MS, &ms, err))
        return false;
    if (has_timeout)
        wait->timeout = arena_str(plan->opening->arena, str_of(duration_format(ms, text)));
    if (has_timeout || plan->needs_token)
        wait->timeout_at_ms = plan->now + ms;
    return plan->needs_token || check_token(plan, err);
}

static bool read_stream_wait(struct plan *plan, struct error *err)
{
    const struct opening *opening = plan->opening;
    const struct wait_request *request = &plan->request;
    struct wait_row *wait = plan->wait;
    char text[DURATION_TEXT];
    int64_t ms;

    if (is_given(request->duration) || request->until.ptr || request->token_id.ptr)
        return error_set(err, ERR_INVALID,
                         "a wait for a stream has neither duration, until nor token_id");
    if (is_given(request->timeout)) {
        if (!input_duration(request->timeout, "timeout", TIMEOUT_MAX_MS, &ms, err))
            return false;
        wait->timeout = arena_str(opening->arena, str_of(duration_format(ms, text)));
        wait->timeout_at_ms = plan->now + ms;
    }
    return stream_want_read(opening->tx, opening->run, request->params, opening->arena, &plan->want,
                            &wait->params, &plan->record, &plan->has_record, err);
}

static bool read_common(struct plan *plan, struct error *err)
{
    const struct wait_request *request = &plan->request;
    struct arena *arena = plan->opening->arena;
    struct wait_row *wait = plan->wait;

    wait->params = wait->metadata = STR("{}");
    plan->idle_ms = plan->opening->server->config->hot_time_ms;
    return (!is_given(request->params) ||
            input_object(request->params, "params", WAIT_DATA_MAX, arena, &wait->params, err)) &&
           (!is_given(request->metadata) ||
            input_object(request->metadata, "metadata", WAIT_METADATA_MAX, arena, &wait->metadata,
                         err)) &&
           input_tags(request->tags.items, request->tags.n, arena, &wait->tags, err) &&
           (!is_given(request->idle_timeout) ||
            read_span(request->idle_timeout, "idle_timeout", IDLE_MAX_MS, &plan->idle_ms, err));
}

static bool read_request(struct plan *plan, struct str body, struct error *err)
{
    if (!json_read(body, wait_request_fields, &plan->request, sizeof plan->request,
                   plan->opening->arena, err))
        return false;
    if (!wait_kind_parse(plan->request.kind, &plan->wait->kind))
        return error_set(err, ERR_INVALID, "kind must be stream, token or timer");
    if (!read_common(plan, err))
        return false;
    switch (plan->wait->kind) {
    case WAIT_TIMER: return read_timer(plan, err);
    case WAIT_TOKEN: return read_token_wait(plan, err);
    case WAIT_STREAM: return read_stream_wait(plan, err);
    case WAIT_KIND_COUNT: break;
    }
    return error_set(err, ERR_INTERNAL, "a wait of no known kind");
}

static bool may_open(const struct opening *opening, struct error *err)
{
    struct wait_row open;
    bool found;

    if (!wait_load_open(opening->tx, opening->run->id, opening->arena, &open, &found, err))
        return false;
    if (found)
        return error_set(err, ERR_CONCURRENT_WAIT, "the run waits already, for wait %s", open.id);
    if (opening->run->state == RUN_PENDING_CANCEL)
        return error_set(err, ERR_CANCELLED, "the run is being cancelled");
    return opening->run->state == RUN_EXECUTING ||
           error_set(err, ERR_INVALID, "a run that is %s cannot wait",
                     run_state_name(opening->run->state));
}

/* The sooner of two times of which 0 is none. */
static int64_t sooner(int64_t a, int64_t b)
{
    return !a || (b && b < a) ? b : a;
}

static void plan_park(struct plan *plan)
{
    struct wait_row *wait = plan->wait;
    int64_t end = sooner(sooner(wait->due_ms, wait->timeout_at_ms), plan->token.timeout_at_ms);

    wait->park_at_ms = plan->now + plan->idle_ms;
    if (plan->want.is_live || (end && end <= wait->park_at_ms + NEARLY_MS))
        wait->park_at_ms = 0;
}

static bool make_token(struct plan *plan, struct error *err)
{
    const struct opening *opening = plan->opening;
    struct wait_row *wait = plan->wait;
    const struct token_new made = {
        .environment_id = wait->environment_id,
        .run_id = wait->run_id,
        .timeout_at_ms = wait->timeout_at_ms,
        .metadata = wait->metadata,
        .tags = wait->tags,
    };

    id_make(wait->token_id);
    return token_create(opening->tx, &opening->server->keys, &made, wait->token_id, err);
}

static struct value int_or_null(int64_t number)
{
    return number ? V_INT(number) : V_NULL;
}

static bool insert(const struct plan *plan, struct error *err)
{
    const struct wait_row *wait = plan->wait;

    return STORE(plan->opening->tx, &wait_insert, NULL, NULL, err, V_TEXT(wait->id),
                 V_TEXT(wait->environment_id), V_TEXT(wait->run_id), V_INT(wait->attempt),
                 V_TEXT(wait->lease_id), V_INT(wait->op), V_TEXT(wait_kind_name(wait->kind)),
                 V_TEXT(wait_condition_name(wait->condition)),
                 V_TEXT(wait_suspension_name(wait->suspension)), V_STR(wait->params),
                 V_STR(wait->metadata), V_STR(wait->tags), V_STR_OR_NULL(wait->timeout),
                 int_or_null(wait->timeout_at_ms), int_or_null(wait->due_ms),
                 wait->token_id[0] ? V_TEXT(wait->token_id) : V_NULL, V_INT(wait->owns_token),
                 V_NULL, int_or_null(wait->park_at_ms), V_INT(plan->now));
}

static bool created_event(const struct plan *plan, struct error *err)
{
    const struct wait_row *wait = plan->wait;
    AUTO(buf_finish) struct buf text = {.max = EVENT_MAX};
    struct json_writer json = json_begin(&text);

    json_open(&json, NULL);
    json_string(&json, "wait_id", wait->id);
    json_string(&json, "kind", wait_kind_name(wait->kind));
    json_raw(&json, "params", wait->params);
    json_raw(&json, "metadata", wait->metadata);
    json_raw(&json, "tags", wait->tags);
    if (wait->timeout.ptr)
        json_text(&json, "timeout", wait->timeout);
    if (wait->token_id[0])
        json_string(&json, "token_id", wait->token_id);
    json_close(&json);
    if (!json_end(&json, err))
        return false;
    const struct event event = {.kind = "run_wait.created",
                                .source = "guest",
                                .attempt = wait->attempt,
                                .attributes = buf_str(&text)};
    return run_event_append(plan->opening->tx, wait->run_id, &event, err);
}

static bool waiting_event(const struct plan *plan, struct error *err)
{
    AUTO(buf_finish) struct buf text = {.max = 256};
    struct json_writer json = json_begin(&text);

    json_open(&json, NULL);
    json_string(&json, "wait_id", plan->wait->id);
    json_close(&json);
    if (!json_end(&json, err))
        return false;
    const struct event event = {.kind = "run.waiting",
                                .attempt = plan->wait->attempt,
                                .attributes = buf_str(&text)};
    return run_event_append(plan->opening->tx, plan->wait->run_id, &event, err);
}

/* Whether it is over before it has begun: a past instant, a record that is there, or a token that
 * has ended. */
static bool is_settled(const struct plan *plan, enum condition_event *on)
{
    const struct wait_row *wait = plan->wait;

    *on = CONDITION_COMPLETE;
    if (wait->kind == WAIT_TIMER)
        return wait->due_ms <= plan->now;
    if (wait->kind == WAIT_STREAM)
        return plan->has_record;
    if (plan->needs_token)
        return false;
    switch (plan->token.state) {
    case TOKEN_COMPLETED: return true;
    case TOKEN_CANCELLED: *on = CONDITION_CANCEL; return true;
    case TOKEN_EXPIRED: *on = CONDITION_EXPIRE; return true;
    case TOKEN_PENDING:
    case TOKEN_STATE_COUNT: break;
    }
    *on = CONDITION_EXPIRE;
    return plan->token.timeout_at_ms <= plan->now;
}

static bool decide(const struct plan *plan, enum condition_event on, struct buf *decision,
                   struct error *err)
{
    struct str reason = on == CONDITION_CANCEL ? plan->token.cancel_reason : (struct str){0};

    if (plan->has_record)
        return stream_decision(plan->opening->tx, &plan->want, plan->wait->run_id, &plan->record,
                               decision, err);
    return wait_decision(on, plan->token.data, reason, decision, err);
}

/* The run does not stop for it: the answer goes back with the call. */
static bool settle_at_once(const struct plan *plan, enum condition_event on, struct error *err)
{
    AUTO(buf_finish) struct buf decision = {.max = WAIT_DECISION_MAX};

    return decide(plan, on, &decision, err) &&
           wait_decide_only(plan->opening->tx, plan->wait, on,
                            arena_str(plan->opening->arena, buf_str(&decision)), err) &&
           wait_suspend(plan->opening->tx, plan->wait, WAIT_DELIVER, plan->now, err);
}

static bool stop_run(const struct plan *plan, struct error *err)
{
    const struct opening *opening = plan->opening;

    return run_move(opening->tx, opening->run, RUN_WAIT, opening->wakes, err) &&
           wait_set_deadline(opening->tx, opening->lease, opening->run, err) &&
           waiting_event(plan, err);
}

bool wait_open(const struct opening *opening, struct str body, struct wait_row *wait,
               struct error *err)
{
    struct plan plan = {.opening = opening, .wait = wait, .now = time_now_ms()};
    const struct run_row *run = opening->run;
    enum condition_event on;

    *wait = (struct wait_row){.attempt = opening->lease->attempt,
                              .op = opening->op,
                              .created_ms = plan.now};
    id_make(wait->id);
    memcpy(wait->run_id, run->id, ID_TEXT);
    memcpy(wait->environment_id, run->environment_id, ID_TEXT);
    memcpy(wait->lease_id, opening->lease->id, ID_TEXT);
    if (!read_request(&plan, body, err) || !may_open(opening, err))
        return false;
    plan_park(&plan);
    wakes_add(opening->wakes, "run:", run->id);
    if ((plan.needs_token && !make_token(&plan, err)) ||
        (plan.token.id[0] && !STORE(opening->tx, &token_adopt, NULL, NULL, err,
                                    V_TEXT(wait->token_id), V_TEXT(run->id))) ||
        !insert(&plan, err) || !created_event(&plan, err))
        return false;
    return is_settled(&plan, &on) ? settle_at_once(&plan, on, err) : stop_run(&plan, err);
}
