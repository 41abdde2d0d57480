/* Parking: a run that waits leaves this worker as a checkpoint, in steps that can be undone until
 * its sandbox is saved and brought back from what was saved after that. */
#include "base/log.h"
#include "base/own.h"
#include "base/time.h"
#include "worker/capture.h"
#include "worker/checkpoint.h"
#include "worker/template.h"
#include "worker/worker.h"

enum { RETRY_MS = 10 * 1000, CAPTURE_MS = 20 * 1000 };

struct park {
    struct run *run;
    char id[ID_TEXT];
    struct checkpoint_about about;
    bool is_base_gone; /* what the captured version shares with its base may be collected */
    struct checkpoint_kept kept;
    struct capture capture;
    int64_t begun_ms, step_ms;
    struct {
        int64_t freeze, capture, save, keep, end;
    } took; /* milliseconds */
    struct saved_image *image;
};

static int64_t end_step(struct park *park)
{
    int64_t before = park->step_ms;

    park->step_ms = time_boot_ms();
    return park->step_ms - before;
}

static void tell(const struct park *park)
{
    log_info("parked", LOG_STR("lease", park->run->lease->id),
             LOG_INT("bytes", park->kept.stored_bytes), LOG_INT("freeze_ms", park->took.freeze),
             LOG_INT("capture_ms", park->took.capture), LOG_INT("save_ms", park->took.save),
             LOG_INT("keep_ms", park->took.keep), LOG_INT("end_ms", park->took.end));
}

static bool call(struct run *run, const char *step, const struct json_field *fields,
                 const void *message, const struct json_field *answer_fields, void *answer,
                 size_t answer_size, struct error *err)
{
    AUTO(arena_finish) struct arena arena = {0};
    const struct exchange exchange = {
        .route = arena_printf(&arena, "leases/%s/checkpoint/%s", run->lease->id, step),
        .request_fields = fields,
        .request = message,
        .answer_fields = answer_fields,
        .answer = answer,
        .answer_size = answer_size,
        .timeout_ms = RUN_CALL_MS,
    };

    return line_insist(&run->line, &exchange, lease_look(run->lease).fence_ms, &arena, err);
}

static bool begin(struct park *park, bool *proceeds, struct error *err)
{
    struct run *run = park->run;
    struct wire_checkpoint_begin message = {run_fence(run), str_of(run->wait.id), str_of(park->id)};
    struct wire_checkpoint_begun answer = {0};

    if (!call(run, "begin", wire_checkpoint_begin_fields, &message, wire_checkpoint_begun_fields,
              &answer, sizeof answer, err))
        return false;
    *proceeds = answer.proceed;
    return true;
}

/* It stays; the server says when to try again. */
static bool abort_it(struct park *park, const struct error *why, struct error *err)
{
    struct run *run = park->run;
    struct wire_checkpoint_abort message = {
        .fence = run_fence(run),
        .checkpoint_id = str_of(park->id),
        .code =
            why->code == ERR_CONFLICT ? STR("adapter_busy") : str_of(error_wire_name(why->code)),
        .detail = str_of(why->text),
    };
    struct wire_checkpoint_aborted answer = {.retry_after_ms = RETRY_MS};

    log_info("not parked", LOG_STR("lease", run->lease->id), LOG_ERR(why));
    if (!call(run, "abort", wire_checkpoint_abort_fields, &message, wire_checkpoint_aborted_fields,
              &answer, sizeof answer, err))
        return false;
    run->wait.park_ms = time_boot_ms() + answer.retry_after_ms;
    /* A worker that stops has no time for another try: the run is given back. */
    guest_outlive_stop(run->guest, !lease_look(run->lease).stop_wanted);
    return true;
}

static bool stage(struct park *park, struct error *err)
{
    struct run *run = park->run;
    struct wire_checkpoint_stage message = {
        .fence = run_fence(run),
        .checkpoint_id = str_of(park->id),
        .manifest = str_of(park->kept.manifest),
        .key_id = str_of(run->worker->checkpoint_key_id),
        .compat = str_of(run->worker->compat),
        .objects = park->kept.objects,
        .logical_bytes = park->kept.logical_bytes,
        .stored_bytes = park->kept.stored_bytes,
        .op = (int64_t)run->wait.op,
        .ms = time_boot_ms() - park->begun_ms,
        .can_fork = true,
        .has_version = park->capture.has_version,
        .version = park->capture.version,
    };

    return call(run, "stage", wire_checkpoint_stage_fields, &message, NULL, NULL, 0, err);
}

static bool ready(struct park *park, struct error *err)
{
    struct run *run = park->run;
    struct wire_checkpoint_ready message = {run_fence(run), str_of(park->id)};

    return call(run, "ready", wire_checkpoint_ready_fields, &message, NULL, NULL, 0, err);
}

/* Back from what was saved, on this worker and under the same lease, as if nothing had been. */
static bool bring_back(struct park *park, struct error *err)
{
    struct run *run = park->run;

    run_end_guest(run);
    if (!run_restore(run, park->image, err) || !guest_meet(run->guest, park->about.nonce, err))
        return false;
    if (park->about.base.manifest[0] && !park->is_base_gone)
        guest_set_base(run->guest, park->about.base.manifest, park->about.base.mark);
    if (!run_give_secrets(run, err) ||
        !guest_reestablish(run->guest, run->spec.network != NETWORK_OFF, err))
        return false;
    guest_outlive_stop(run->guest, true);
    return guest_thaw(run->guest, err);
}

static bool keep(struct park *park, const atomic_bool *is_growing, struct error *err)
{
    return checkpoint_keep(park->run, park->image, is_growing, &park->about, &park->kept, err);
}

/* Everything after the save: what fails now is undone by coming back. */
static bool leave(struct park *park, bool is_kept, struct error *err)
{
    struct run_parent *parent = &park->run->parent;

    if (!is_kept)
        return false;
    if (stage(park, err))
        return true;
    park->is_base_gone = err->code == ERR_OBJECT_GONE;
    if (err->code != ERR_OBJECT_GONE || !parent->digest[0])
        return false;
    /* Collected meanwhile: then everything is stored anew. */
    parent->digest[0] = '\0';
    if (guest_origin(park->run->guest))
        template_forget_manifest(guest_origin(park->run->guest));
    return keep(park, NULL, err) && stage(park, err);
}

/* What can still be undone by letting the program go on. */
static bool prepare(struct park *park, struct error *err)
{
    struct run *run = park->run;

    /* What it printed is the server's before its end may be only in a checkpoint. */
    return output_flush(run->output, err) &&
           capture_workspace(run->guest, run->lease, &run->line, run_has_base(run),
                             time_boot_ms() + CAPTURE_MS, &run->arena, &park->capture, err);
}

static bool park_frozen(struct park *park, bool *is_gone, struct error *err)
{
    struct run *run = park->run;
    struct error why;

    if (!prepare(park, &why)) {
        *err = why;
        return why.code != ERR_LEASE_STALE && guest_thaw(run->guest, err) &&
               abort_it(park, &why, err);
    }
    park->about.base = *guest_base(run->guest);
    park->took.capture = end_step(park);
    struct guest_save save;
    if (!guest_pause(run->guest, PAUSE_CHECKPOINT, park->about.nonce, err) ||
        !guest_save_begin(run->guest, park->image, &save, err))
        return false;
    /* Sealed and uploaded while it is still being saved. */
    bool is_kept = keep(park, &save.is_running, &why);
    if (!guest_save_end(&save, err))
        return false;
    park->took.save = end_step(park);
    if (!leave(park, is_kept, &why)) {
        *err = why;
        return why.code != ERR_LEASE_STALE && bring_back(park, err) && abort_it(park, &why, err);
    }
    park->took.keep = end_step(park);
    /* Killed and proved gone before anybody else may have it. */
    run_end_guest(run);
    park->took.end = end_step(park);
    *is_gone = true;
    tell(park);
    warm_note(&run->worker->warm, WARM_CHECKPOINTS, str_of(park->id));
    run_refuse_snapshots(run, "the run is parked: its newest version is what it holds");
    return ready(park, err);
}

bool run_park(struct run *run, struct error *err)
{
    AUTO(saved_image_finish) struct saved_image image = SAVED_IMAGE_NONE;
    struct park park = {
        .run = run,
        .image = &image,
        .begun_ms = time_boot_ms(),
        .step_ms = time_boot_ms(),
    };
    bool proceeds = false;
    struct error why;

    id_make(park.id);
    snprintf(park.about.run_id, sizeof park.about.run_id, "%.*s", (int)run->grant->run_id.len,
             run->grant->run_id.ptr);
    /* Until it is decided the answer, should it come, is the message of the server. */
    run->wait.park_ms = INT64_MAX;
    if (!begin(&park, &proceeds, err))
        return false;
    if (!proceeds)
        return true;
    if (!guest_make_image(run->worker, &run->spec, &image, &why))
        return abort_it(&park, &why, err);
    if (!checkpoint_find_parent(run, &why))
        log_debug("parked without a parent", LOG_ERR(&why));
    if (!guest_freeze(run->guest, &why)) {
        *err = why;
        return why.code == ERR_CONFLICT && abort_it(&park, &why, err);
    }
    park.took.freeze = end_step(&park);
    return park_frozen(&park, &run->is_parked, err);
}
