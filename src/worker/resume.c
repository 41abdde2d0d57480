/* Coming back: a run that was parked, here or elsewhere, goes on where it stood. Nothing of its
 * program moves before everything about it is as of now and the server has recorded the start. */
#include <pthread.h>
#include <stdlib.h>

#include "base/own.h"
#include "base/time.h"
#include "worker/checkpoint.h"
#include "worker/worker.h"

/* Who the program is from now on: a fork has other ids than the memory it woke up in. */
static struct str identity_of(struct run *run)
{
    const struct wire_run_grant *grant = run->grant;
    struct buf text = {.max = KIB(4)};
    struct json_writer writer = json_begin(&text);
    struct error err;

    json_open(&writer, NULL);
    json_text(&writer, "run_id", grant->run_id);
    json_int(&writer, "attempt", grant->attempt);
    json_text(&writer, "attempt_id", grant->attempt_id);
    json_string(&writer, "lease_id", run->lease->id);
    json_text(&writer, "session_id", grant->session_id);
    json_text(&writer, "workspace_id", grant->workspace_id);
    json_int(&writer, "snapshot_version", run->lease->grant.resume.resume_version);
    json_close(&writer);
    struct str kept = json_end(&writer, &err) ? arena_str(&run->arena, buf_str(&text)) : STR("{}");
    buf_finish(&text);
    return kept;
}

/* What is damaged stays so; what could not be reached may come. */
static bool checkpoint_fault(struct run *run, const struct error *err)
{
    bool is_invalid =
        err->code == ERR_DAMAGED || err->code == ERR_CONTENT_HASH || err->code == ERR_NOT_FOUND;

    run->failure.code = is_invalid ? "checkpoint_invalid" : NULL;
    return failure_set(&run->failure, is_invalid ? "parked_wait" : "guest_runtime",
                       is_invalid ? "wait_resume_failed" : "boot_failed", "restore", !is_invalid,
                       "%s", err->text);
}

/* What is brought on a thread of its own, while the engine starts. */
struct bringing {
    struct run *run;
    struct saved_writer *writer;
    struct checkpoint_about about;
    bool is_fine, was_late;
    struct error err;
};

static void *bring_main(void *arg)
{
    struct bringing *bringing = arg;

    bringing->is_fine = checkpoint_bring(bringing->run, &bringing->run->lease->grant.resume,
                                         bringing->writer, &bringing->about, &bringing->err);
    bringing->was_late = saved_writer_was_late(bringing->writer);
    /* Closed only now: until then the engine waits for the file to be whole. */
    saved_writer_close(bringing->writer);
    return NULL;
}

/* A sandbox that goes on from the checkpoint, both on their way at once where that can be. */
static bool bring_back(struct run *run, struct bringing *bringing, const struct saved_image *image,
                       struct error *err)
{
    pthread_t thread;

    if (!saved_writer_open(image, &bringing->writer, err))
        return checkpoint_fault(run, err);
    if (pthread_create(&thread, NULL, bring_main, bringing) != 0)
        abort();
    bool is_started = image->form->grows && run_restore(run, image, err);
    pthread_join(thread, NULL);
    if (!bringing->is_fine) {
        *err = bringing->err;
        return checkpoint_fault(run, err);
    }
    run_end_phase(run, "checkpoint");
    if (!image->form->grows)
        return run_restore(run, image, err);
    if (!bringing->was_late)
        return is_started;
    /* The engine could not wait so long and has a part only: another one reads it whole. */
    run_end_guest(run);
    return run_restore(run, image, err);
}

static bool wake_up(struct run *run, struct error *err)
{
    struct bringing bringing = {.run = run};
    AUTO(saved_image_finish) struct saved_image image = SAVED_IMAGE_NONE;

    if (!guest_make_image(run->worker, &run->spec, &image, err))
        return checkpoint_fault(run, err);
    if (!bring_back(run, &bringing, &image, err) ||
        !guest_meet(run->guest, bringing.about.nonce, err))
        return false;
    if (bringing.about.base.manifest[0])
        guest_set_base(run->guest, bringing.about.base.manifest, bringing.about.base.mark);
    run_end_phase(run, "boot");
    return run_give_secrets(run, err) &&
           guest_reestablish_begin(run->guest, run->spec.network != NETWORK_OFF, err);
}

bool run_come_back(struct run *run, struct error *err)
{
    const struct wire_resume_grant *resume = &run->lease->grant.resume;

    run->start = "checkpoint";
    run->active_ms = run->grant->active_ms;
    if (!wake_up(run, err))
        return false;
    /* While the sandbox becomes as of now. */
    if (!run_pass_gate(run, err))
        return failure_set(&run->failure, "guest_runtime", "agent_unhealthy", "start", true, "%s",
                           err->text);
    if (!guest_reestablish_end(run->guest, err))
        return false;
    snprintf(run->wait.id, sizeof run->wait.id, "%.*s", (int)resume->wait_id.len,
             resume->wait_id.ptr);
    const struct guest_resumption resumption = {
        .op = (uint64_t)resume->op,
        .version = resume->resume_version,
        .answer = resume->decision,
        .identity = identity_of(run),
    };
    return guest_resume(run->guest, &resumption, err) &&
           run_tell_resumed(run, "restored", resume->resume_version,
                            time_now_ms() - resume->settled_ms, err);
}
