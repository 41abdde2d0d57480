/* How a guest is frozen, paused, saved and brought back. */
#include <pthread.h>

#include "base/hash.h"
#include "base/own.h"
#include "base/time.h"
#include "worker/guest_state.h"
#include "worker/worker.h"

enum {
    FREEZE_MS = 5 * 1000,
    ANSWER_MS = 10 * 1000, /* beyond what was asked for itself */
    SAVE_MS = 60 * 1000,
    RESTORE_MS = 60 * 1000,
    PROGRAM = 1, /* of a run: there is no other */
};

_Static_assert((int)GUEST_NONCE_LEN == (int)CHANNEL_NONCE_LEN, "one nonce");

bool guest_freeze(struct guest *guest, struct error *err)
{
    struct message_freeze message = {
        .id = ++guest->number,
        .program = guest->program,
        .deadline_ms = FREEZE_MS,
        .without_tcp = guest->worker->engine->cannot_save_tcp,
    };

    guest->is_frozen = guest->is_refused = false;
    if (!guest_send(guest, MESSAGE_FREEZE, &message, err) ||
        !guest_wait_for(guest, &guest->is_frozen, guest_until(guest, FREEZE_MS + ANSWER_MS), err))
        return guest_fail(guest, "freeze", "agent_unhealthy", err);
    guest->is_held = !guest->is_refused;
    return guest->is_held ||
           error_set(err, ERR_CONFLICT, "the program cannot stand still now: %s", guest->refusal);
}

bool guest_thaw(struct guest *guest, struct error *err)
{
    struct message_thaw message = {++guest->number, guest->program};

    guest->is_thawed = guest->is_held = false;
    return (guest_send(guest, MESSAGE_THAW, &message, err) &&
            guest_wait_for(guest, &guest->is_thawed, guest_until(guest, ANSWER_MS), err)) ||
           guest_fail(guest, "thaw", "agent_unhealthy", err);
}

bool guest_hold(struct guest *guest, int64_t ms, struct error *err)
{
    struct message_hold message = {++guest->number, (uint64_t)ms};

    guest->is_hold_answered = guest->is_hold_refused = false;
    if (!guest_send(guest, MESSAGE_HOLD, &message, err))
        return false;
    guest->is_still = true;
    return guest_wait_for(guest, &guest->is_hold_answered, guest_until(guest, ANSWER_MS), err) &&
           (!guest->is_hold_refused ||
            error_set(err, ERR_CONFLICT, "the sandbox cannot stand still now: %s", guest->refusal));
}

bool guest_let_go(struct guest *guest, struct error *err)
{
    struct message_let_go message = {++guest->number};

    guest->has_gone_on = guest->is_still = false;
    return (guest_send(guest, MESSAGE_LET_GO, &message, err) &&
            guest_wait_for(guest, &guest->has_gone_on, guest_until(guest, ANSWER_MS), err)) ||
           guest_fail(guest, "hold", "agent_unhealthy", err);
}

bool guest_is_still(const struct guest *guest)
{
    return guest->is_still;
}

bool guest_pause(struct guest *guest, enum pause_purpose purpose, uint8_t nonce[GUEST_NONCE_LEN],
                 struct error *err)
{
    random_bytes(nonce, GUEST_NONCE_LEN);
    struct message_pause message = {
        ++guest->number, purpose, {(const char *)nonce, GUEST_NONCE_LEN}
    };

    guest->is_paused = false;
    return (guest_send(guest, MESSAGE_PAUSE, &message, err) &&
            guest_wait_for(guest, &guest->is_paused, guest_until(guest, ANSWER_MS), err)) ||
           guest_fail(guest, "pause", "agent_unhealthy", err);
}

static bool meet_again(struct guest *guest, const uint8_t nonce[GUEST_NONCE_LEN], struct error *err)
{
    guest->has_hello = false;
    if (!channel_resync_begin(&guest->channel, nonce, err))
        return false;
    for (unsigned which = 0; which < GUEST_STREAMS; which++) {
        guest->owed[which] = 0;
        if (!channel_open_stream(&guest->channel, guest_stream_number(guest->program, which),
                                 CHANNEL_RECEIVES, err))
            return false;
    }
    guest_flush(guest);
    if (!guest_wait_for(guest, &guest->has_hello, guest_until(guest, RESTORE_MS), err))
        return false;
    guest->ponged_ms = time_boot_ms();
    return true;
}

bool guest_make_image(struct worker *worker, const struct sandbox_spec *spec,
                      struct saved_image *image, struct error *err)
{
    const struct engine *engine = worker->engine;

    return saved_image_make(engine, saved_image_room(spec), image, err) &&
           (!engine->has_drives || saved_image_add_scratch(worker->host, image, err));
}

static void *save_main(void *arg)
{
    struct guest_save *save = arg;
    struct guest *guest = save->guest;

    save->is_fine = guest->worker->engine->save(guest->instance, save->image, SAVE_MS, &save->err);
    atomic_store(&save->is_running, false);
    return NULL;
}

bool guest_save_begin(struct guest *guest, struct saved_image *image, struct guest_save *save,
                      struct error *err)
{
    *save = (struct guest_save){.guest = guest, .image = image, .is_running = true};
    /* It ends when it is saved: that is no news. */
    loop_remove(TAKE(guest->process));
    loop_remove(TAKE(guest->socket));
    if (pthread_create(&save->thread, NULL, save_main, save) == 0)
        return true;
    save->is_running = false;
    error_set(err, ERR_INTERNAL, "no thread could be made");
    return guest_fail(guest, "save", "agent_unhealthy", err);
}

bool guest_save_end(struct guest_save *save, struct error *err)
{
    pthread_join(save->thread, NULL);
    if (save->is_fine)
        return true;
    *err = save->err;
    return guest_fail(save->guest, "save", "agent_unhealthy", err);
}

bool guest_restore(struct worker *worker, struct lease *lease, const struct sandbox_spec *spec,
                   const struct saved_image *image, const struct guest_listener *listener,
                   struct failure *failure, struct guest **guest, struct error *err)
{
    struct guest *made = *guest = guest_make(worker, lease, failure);
    struct sandbox_spec own = *spec;

    made->listener = *listener;
    made->program = PROGRAM;
    made->is_set_up = made->is_started = true;
    if (!guest_hold_files(made, worker->engine, &own, err))
        return guest_fail(made, "restore", "mount_failed", err);
    if (!worker->engine->restore(worker->host, &own, image, &made->instance, err))
        return guest_fail(made, "restore", "boot_failed", err);
    channel_init(&made->channel, instance_channel(made->instance), instance_channel(made->instance),
                 SIDE_HOST);
    return guest_watch_channel(made, err) || guest_fail(made, "restore", "boot_failed", err);
}

/* Output goes on in the same streams with a new window; what was said before is forgotten. */
bool guest_meet(struct guest *guest, const uint8_t nonce[GUEST_NONCE_LEN], struct error *err)
{
    return meet_again(guest, nonce, err) || guest_fail(guest, "restore", "boot_failed", err);
}

bool guest_reestablish_begin(struct guest *guest, bool has_network, struct error *err)
{
    static const struct str dns = STR("198.18.0.1");
    char entropy[64], machine_id[33], boot_id[ID_TEXT];

    random_bytes(entropy, sizeof entropy);
    guest_make_identity(boot_id, machine_id);
    guest->reestablished_ms = time_now_ms();
    struct message_reestablish message = {
        .id = ++guest->number,
        .realtime_ns = (uint64_t)guest->reestablished_ms * 1000000,
        .entropy = {entropy, sizeof entropy},
        .machine_id = str_of(machine_id),
        .boot_id = str_of(boot_id),
        .generation = guest->generation,
        .dns = {&dns,    has_network   },
    };
    guest->is_reestablished = false;
    return guest_send(guest, MESSAGE_REESTABLISH, &message, err) ||
           guest_fail(guest, "reestablish", "agent_unhealthy", err);
}

bool guest_reestablish_end(struct guest *guest, struct error *err)
{
    return guest_wait_for(guest, &guest->is_reestablished, guest_until(guest, ANSWER_MS), err) ||
           guest_fail(guest, "reestablish", "agent_unhealthy", err);
}

bool guest_reestablish(struct guest *guest, bool has_network, struct error *err)
{
    return guest_reestablish_begin(guest, has_network, err) && guest_reestablish_end(guest, err);
}

bool guest_reestablish_again(struct guest *guest, struct error *err)
{
    guest->generation++;
    return guest_reestablish(guest, true, err);
}

bool guest_resume(struct guest *guest, const struct guest_resumption *resumption, struct error *err)
{
    char entropy[64];
    random_bytes(entropy, sizeof entropy);
    struct message_resume message = {
        .id = ++guest->number,
        .program = guest->program,
        .resume_version = (uint64_t)resumption->version,
        .op = resumption->op,
        .status = OP_OK,
        .body = resumption->answer,
        .identity = resumption->identity,
        .entropy = {entropy, sizeof entropy},
    };

    guest->has_consumed = false;
    return (guest_send(guest, MESSAGE_RESUME, &message, err) &&
            guest_wait_for(guest, &guest->has_consumed, guest_until(guest, ANSWER_MS), err)) ||
           guest_fail(guest, "resume", "agent_unhealthy", err);
}
