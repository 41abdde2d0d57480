/* What a run's program asks of the server, and its waits: answered in place while the sandbox is
 * hot, parked when they last. */
#include <string.h>

#include "base/log.h"
#include "base/own.h"
#include "base/time.h"
#include "worker/mail.h"
#include "worker/run.h"
#include "worker/snapshot.h"
#include "worker/worker.h"

enum { FREEZE_RETRY_MS = 10 * 1000 };

int64_t run_active_ms(const struct run *run)
{
    return run->active_ms + (run->active_since_ms ? time_boot_ms() - run->active_since_ms : 0);
}

void run_count(struct run *run, bool is_active)
{
    int64_t left;

    run->active_ms = run_active_ms(run);
    run->active_since_ms = is_active ? time_boot_ms() : 0;
    left = run->grant->max_duration_ms - run->active_ms;
    guest_set_limit(run->guest, is_active ? time_boot_ms() + (left > 0 ? left : 1) : 0);
}

/* The server's time as boot time of this host. */
static int64_t boot_time_of(int64_t at_ms)
{
    return at_ms ? time_boot_ms() + at_ms - time_now_ms() : INT64_MAX;
}

static bool ask(struct run *run, const struct wire_op *ops, size_t n,
                struct wire_op_results *answer, struct arena *arena, struct error *err)
{
    struct wire_ops message = {
        run_fence(run), {(void *)ops, n}
    };
    const struct exchange exchange = {
        .route = arena_printf(arena, "leases/%s/ops", run->lease->id),
        .request_fields = wire_ops_fields,
        .request = &message,
        ANSWER(wire_op_results_fields, *answer),
        .timeout_ms = RUN_CALL_MS,
    };

    return line_insist(&run->line, &exchange, lease_look(run->lease).fence_ms, arena, err);
}

static void open_wait(struct run *run, const struct wire_op_result *result)
{
    run->wait = (struct run_wait){.is_open = true,
                                  .op = (uint64_t)result->op,
                                  .is_live = result->is_live,
                                  .park_ms = boot_time_of(result->park_at_ms)};
    snprintf(run->wait.id, sizeof run->wait.id, "%.*s", (int)result->wait_id.len,
             result->wait_id.ptr);
    run_count(run, false);
    guest_outlive_stop(run->guest, run->worker->saves && !result->is_live);
}

static bool take_result(struct run *run, const struct wire_op_result *result, struct error *err)
{
    if (result->ok && result->wait_id.len > 0) {
        open_wait(run, result);
        return true;
    }
    return guest_answer(run->guest, (uint64_t)result->op, result->ok ? OP_OK : OP_FAILED,
                        result->body.len ? result->body : STR("null"), err);
}

/* Everything that was asked so far, in one message. */
static bool operate(struct run *run, struct error *err)
{
    AUTO(arena_finish) struct arena arena = {0};
    struct wire_op ops[WIRE_OPS_MAX];
    struct wire_op_results answer = {0};
    struct guest_op *op;
    size_t n = 0;

    while (n < WIRE_OPS_MAX && (op = guest_take_op(run->guest))) {
        ops[n++] = (struct wire_op){(int64_t)op->op, arena_str(&arena, str_of(op->kind)),
                                    arena_str(&arena, buf_str(&op->body))};
        guest_op_free(op);
    }
    if (!ask(run, ops, n, &answer, &arena, err))
        return failure_set(&run->failure, "guest_runtime", "worker_lost", "run", true, "%s",
                           err->text);
    const struct wire_op_result *results = answer.results.items;
    for (size_t i = 0; i < answer.results.n; i++)
        if (!take_result(run, &results[i], err))
            return false;
    return true;
}

bool run_tell_resumed(struct run *run, const char *mode, int64_t resume_version, int64_t resume_ms,
                      struct error *err)
{
    AUTO(arena_finish) struct arena arena = {0};
    struct wire_resumed message = {
        .fence = run_fence(run),
        .wait_id = str_of(run->wait.id),
        .mode = str_of(mode),
        .resume_version = resume_version,
        .resume_ms = resume_ms > 0 ? resume_ms : 0,
    };
    const struct exchange exchange = {
        .route = arena_printf(&arena, "leases/%s/resumed", run->lease->id),
        .request_fields = wire_resumed_fields,
        .request = &message,
        .timeout_ms = RUN_CALL_MS,
    };

    run->wait.is_open = false;
    guest_outlive_stop(run->guest, false);
    run_count(run, true);
    return line_insist(&run->line, &exchange, lease_look(run->lease).fence_ms, &arena, err);
}

/* An answer that came while the sandbox is here goes straight in. */
static bool deliver(struct run *run, bool *is_answered, struct error *err)
{
    AUTO(arena_finish) struct arena arena = {0};
    struct str answer;

    /* One for a wait that is over, told once more, is nobody's. */
    *is_answered =
        lease_take_answer(run->lease, run->wait.is_open ? run->wait.id : "", &arena, &answer);
    return !*is_answered || ((!run->wait.is_frozen || guest_thaw(run->guest, err)) &&
                             guest_answer(run->guest, run->wait.op, OP_OK, answer, err) &&
                             run_tell_resumed(run, "hot", 0, 0, err));
}

/* An engine that cannot save keeps the program in memory, and still. */
static bool freeze(struct run *run, struct error *err)
{
    AUTO(buf_finish) struct buf text = {.max = KIB(1)};
    struct json_writer writer = json_begin(&text);

    run->wait.park_ms = time_boot_ms() + FREEZE_RETRY_MS;
    if (!guest_freeze(run->guest, err))
        return err->code == ERR_CONFLICT;
    run->wait.is_frozen = true;
    run->wait.park_ms = INT64_MAX;
    json_open(&writer, NULL);
    json_string(&writer, "level", "info");
    json_string(&writer, "message",
                "this engine cannot park: the program stays in memory, frozen, until the answer "
                "comes");
    json_close(&writer);
    if (json_end(&writer, err))
        output_event(run->output, "run.log", buf_str(&text));
    return true;
}

static bool should_park(const struct run *run, bool is_wanted)
{
    struct lease_view view = lease_look(run->lease);

    return run->wait.is_open && !run->wait.is_live && !run->wait.is_frozen && !view.cancel_wanted &&
           (is_wanted || view.stop_wanted || atomic_load(&run->worker->draining) ||
            time_boot_ms() >= run->wait.park_ms);
}

static struct snapshot_source source_of(struct run *run)
{
    return (struct snapshot_source){run->guest, run->lease, &run->line, run_has_base(run)};
}

static void take_mail(struct run *run, struct snapshot_wishes *wishes)
{
    struct mail *mail;

    while ((mail = mail_take(run->lease))) {
        if (strcmp(mail->type, SNAPSHOT_MESSAGE) == 0)
            snapshot_wish(wishes, &mail->message);
        else
            log_warn("unknown message", LOG_STR("type", mail->type));
        mail_free(mail);
    }
}

static bool take_snapshot(struct run *run, struct error *err)
{
    const struct snapshot_source source = source_of(run);
    struct snapshot_wishes wishes = {0};

    take_mail(run, &wishes);
    return wishes.n == 0 || snapshot_take(&wishes, &source, err);
}

void run_refuse_snapshots(struct run *run, const char *why)
{
    const struct snapshot_source source = source_of(run);
    struct snapshot_wishes wishes = {0};

    take_mail(run, &wishes);
    snapshot_refuse(&wishes, &source, why);
}

/* What is due while the program waits or runs: an answer first, then room. */
static bool attend_once(struct run *run, struct error *err)
{
    /* Taken first: a wish that comes from now on is one for the next look. */
    bool is_wanted = lease_take_park(run->lease);
    bool is_answered;

    if (!deliver(run, &is_answered, err) || !take_snapshot(run, err))
        return false;
    if (is_answered || !should_park(run, is_wanted))
        return true;
    return run->worker->saves ? run_park(run, err) : freeze(run, err);
}

bool run_attend(struct run *run, struct guest_result *result, struct error *err)
{
    enum guest_news news = GUEST_NO_NEWS;

    for (;;) {
        int64_t until = run->wait.is_open ? run->wait.park_ms : INT64_MAX;

        if (!guest_watch(run->guest, until, &news, result, err))
            return false;
        if (news == GUEST_ENDED)
            return true;
        if (!(news == GUEST_ASKS ? operate(run, err) : attend_once(run, err)))
            return false;
        if (run->is_parked)
            return true;
    }
}
