/* Coming back: a run that was parked, here or elsewhere, goes on where it stood. Nothing of its
 * program moves before everything about it is as of now and the server has recorded the start. */
#include "base/own.h"
#include "base/time.h"
#include "worker/checkpoint.h"
#include "worker/worker.h"

enum { IMAGE_ROOM = 64 << 20, OVERHEAD_DIVISOR = 8 };

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

static bool bring(struct run *run, struct checkpoint_about *about, int *folder, struct error *err)
{
    const struct wire_resume_grant *resume = &run->lease->grant.resume;
    /* Stored pieces are a little longer than their bytes. */
    int64_t memory = (run->spec.memory_mib + run->spec.disk_mib) << 20;
    int64_t room = memory + memory / OVERHEAD_DIVISOR + IMAGE_ROOM;

    if ((!memory_folder_make(room, folder, err) ||
         !checkpoint_bring(run, resume, *folder, about, err)))
        return checkpoint_fault(run, err);
    run_end_phase(run, "checkpoint");
    return true;
}

static bool wake_up(struct run *run, const struct checkpoint_about *about, int folder,
                    struct error *err)
{
    if (!run_restore(run, folder, about->nonce, err))
        return false;
    run_end_phase(run, "boot");
    return run_give_secrets(run, err) &&
           guest_reestablish(run->guest, run->spec.network != NETWORK_OFF, err);
}

bool run_come_back(struct run *run, struct error *err)
{
    const struct wire_resume_grant *resume = &run->lease->grant.resume;
    struct checkpoint_about about;
    AUTO_FD int folder = -1;

    run->start = "checkpoint";
    run->active_ms = run->grant->active_ms;
    if (!bring(run, &about, &folder, err) || !wake_up(run, &about, folder, err))
        return false;
    if (!run_pass_gate(run, err))
        return failure_set(&run->failure, "guest_runtime", "agent_unhealthy", "start", true, "%s",
                           err->text);
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
