/* Following a program: until it is over, or something of it or its lease wants attention. */
#include <signal.h>
#include <stdlib.h>

#include "base/own.h"
#include "base/time.h"
#include "worker/guest_state.h"
#include "worker/worker.h"

enum { DISMISS_MS = 20 * 1000 };

/* A kernel that is shared kills single processes, and the agent cannot know why one was (with one
 * of its own it does, and has said so); a shell passes its child's end on as 128 and the signal. */
static void note_memory(struct guest *guest)
{
    struct guest_result *result = &guest->result;
    struct instance_usage usage;
    struct error ignored;

    if (guest->ending == ENDING_NONE && !result->has_outcome &&
        (result->signal == SIGKILL || result->exit_code == 128 + SIGKILL) &&
        instance_usage(guest->instance, &usage, &ignored))
        result->oom |= usage.oom_killed;
}

/* The kernel ended the whole sandbox, or refused an engine a thread that it cannot do without:
 * everything in it is dead, and the reason is the program's. */
static bool died_of_limit(struct guest *guest, const struct error *err)
{
    struct instance_usage usage;
    struct error ignored;

    if (err->code != ERR_GONE || !instance_usage(guest->instance, &usage, &ignored) ||
        (!usage.oom_killed && !usage.fork_refused))
        return false;
    guest->result = (struct guest_result){
        .oom = usage.oom_killed,
        .had_no_process = !usage.oom_killed,
        .signal = SIGKILL,
    };
    return true;
}

/* Told to end, it took the whole sandbox with it, or has to: then the instance is the proof. */
static bool died_when_told(struct guest *guest, const struct error *err)
{
    if (err->code != ERR_GONE || guest->ending == ENDING_NONE || !guest_end_instance(guest))
        return false;
    guest->result = (struct guest_result){.signal = SIGKILL};
    return true;
}

/* The output is what the program said it would be, or the sandbox cannot be believed. */
static bool output_is_whole(const struct guest *guest, struct error *err)
{
    struct str bytes = buf_str(&guest->outcome_bytes);
    uint8_t digest[BLAKE2B_LEN];
    struct blake2b hash;

    if (guest->outcome_len != bytes.len)
        return error_set(err, ERR_GONE, "the output came cut off");
    if (!guest->has_digest)
        return true;
    blake2b_init(&hash, (struct str){0});
    blake2b_update(&hash, bytes);
    blake2b_final(&hash, digest);
    return memcmp(digest, guest->outcome_digest, sizeof digest) == 0 ||
           error_set(err, ERR_GONE, "the output came damaged");
}

static bool end_follow(struct guest *guest, struct guest_result *result, struct error *err)
{
    if (guest->is_quiesced)
        note_memory(guest);
    /* One that was told to end may have been cut off in the middle of it. */
    if (guest->ending == ENDING_NONE && !output_is_whole(guest, err))
        return guest_fail(guest, "run", "agent_unhealthy", err);
    guest->result.output = guest_keep(guest, buf_str(&guest->outcome_bytes));
    *result = guest->result;
    return true;
}

static enum guest_news news_of(const struct guest *guest)
{
    struct lease_view view = {0};

    if (guest->lease)
        view = lease_look(guest->lease);
    if (guest->is_quiesced)
        return GUEST_ENDED;
    if (guest->first_op)
        return GUEST_ASKS;
    /* One that is cancelled is not parked any more: it ends. */
    bool leaves = view.stop_wanted && guest->outlives_stop && !view.cancel_wanted;
    if (view.has_answer || view.park_wanted || view.has_mail || leaves)
        return GUEST_IS_CALLED;
    return GUEST_NO_NEWS;
}

bool guest_watch(struct guest *guest, int64_t until_ms, enum guest_news *news,
                 struct guest_result *result, struct error *err)
{
    while ((*news = news_of(guest)) == GUEST_NO_NEWS && time_boot_ms() < until_ms) {
        guest->is_stirred = false;
        if (guest_wait_for(guest, &guest->is_stirred, until_ms, err) || err->code == ERR_TIMEOUT)
            continue;
        if (!died_of_limit(guest, err) && !died_when_told(guest, err))
            return guest_fail(guest, "run", "agent_unhealthy", err);
        *news = GUEST_ENDED;
        break;
    }
    return *news != GUEST_ENDED || end_follow(guest, result, err);
}

/* Programs of builds have nobody to ask. */
static void refuse_ops(struct guest *guest)
{
    static const struct str refusal =
        STR("{\"code\":\"unsupported\",\"message\":\"only a run can ask for this\"}");
    struct guest_op *op;

    while ((op = guest_take_op(guest))) {
        struct error ignored;
        (void)!guest_answer(guest, op->op, OP_FAILED, refusal, &ignored);
        guest_op_free(op);
    }
}

bool guest_follow(struct guest *guest, int64_t limit_ms, struct guest_result *result,
                  struct error *err)
{
    enum guest_news news = GUEST_NO_NEWS;

    guest->limit_ms = limit_ms;
    do {
        refuse_ops(guest);
        if (!guest_watch(guest, INT64_MAX, &news, result, err))
            return false;
    } while (news != GUEST_ENDED);
    return true;
}

void guest_serve(struct guest *guest, const struct guest_server *server)
{
    guest->server = server;
    guest->is_started = true; /* from here on it is the server who starts and ends things */
    guest->is_quiesced = true;
}

bool guest_dismiss(struct guest *guest, struct error *err)
{
    const struct message_kill message = {++guest->number, guest->program, 0};

    return (guest_send(guest, MESSAGE_KILL, &message, err) &&
            guest_wait_for(guest, &guest->is_quiesced, guest_until(guest, DISMISS_MS), err)) ||
           guest_fail(guest, "start", "agent_unhealthy", err);
}

bool guest_attend(struct guest *guest, int64_t until_ms, struct error *err)
{
    guest->is_stirred = false;
    if (guest_wait_for(guest, &guest->is_stirred, until_ms, err) || err->code == ERR_TIMEOUT)
        return true;
    return guest_fail(guest, "mount", "agent_unhealthy", err);
}

void guest_set_limit(struct guest *guest, int64_t limit_ms)
{
    guest->limit_ms = limit_ms;
}

void guest_outlive_stop(struct guest *guest, bool outlives)
{
    guest->outlives_stop = outlives;
}

struct guest_op *guest_take_op(struct guest *guest)
{
    struct guest_op *op = guest->first_op;

    if (op) {
        guest->first_op = op->next;
        guest->n_ops--;
    }
    return op;
}

void guest_op_free(struct guest_op *op)
{
    if (!op)
        return;
    buf_finish(&op->body);
    free(op);
}

bool guest_answer(struct guest *guest, uint64_t op, enum op_status status, struct str body,
                  struct error *err)
{
    struct message_op_result result = {guest->program, op, status, body};

    return guest_send(guest, MESSAGE_OP_RESULT, &result, err) ||
           guest_fail(guest, "run", "agent_unhealthy", err);
}
