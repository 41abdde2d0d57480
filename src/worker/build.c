/* A deployment build, from lease to acknowledged result: the phases of a deploy in order.
 *
 * A fault of the project completes the lease as failed, with the file and the cure; a fault
 * of the platform rejects it, and the build is delivered again. */
#include "worker/build.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/file.h"
#include "base/log.h"
#include "base/own.h"
#include "base/time.h"
#include "image/registry.h"
#include "worker/bundle.h"
#include "worker/report.h"
#include "worker/upkeep.h"

#define NODE_BASE "node:24-bookworm-slim"

enum { CALL_TIMEOUT_MS = 30 * 1000, SEAL_TRIES = 2 };

bool build_fault(struct build *build, const char *kind, const struct error *err)
{
    return failure_set(&build->failure, "deployment_build", kind, build->phase, false, "%s",
                       err->text);
}

static void tell_progress(void *arg, const char *line)
{
    struct build *build = arg;

    build_take_output(&build->part, GUEST_STDOUT, str_of(line));
    build_take_output(&build->part, GUEST_STDOUT, STR("\n"));
}

/* The platform's own Node image: brought or made on first use. */
static bool open_base(struct build *build, struct error *err)
{
    struct image_store *store = build->worker->images;
    const struct image_search search = {
        .registries = build->registries,
        .abort = &build->lease->is_unwanted,
        .progress = tell_progress,
        .arg = build,
    };
    char digest[DIGEST_TEXT];
    bool cached;

    if (!image_obtain(store, &search, NODE_BASE, digest, &cached, err) ||
        !image_find(store, digest, &build->arena, &build->base, err))
        return error_wrap(err, "the platform's own image");
    return image_unpack(store, &build->base, &build->arena, &build->base_layers, err);
}

static const char *unless_empty(const char *text)
{
    return text[0] ? text : NULL;
}

static bool open_registries(struct build *build, struct error *err)
{
    const struct worker_settings *set = build->worker->settings;
    const struct registry_settings settings = {
        .auth_file = set->registry_auth_file,
        .ca_file = unless_empty(set->registry_ca_file),
        .mirrors = unless_empty(set->registry_mirrors),
    };

    return registries_open(&settings, &build->registries, err);
}

/* What is remembered of the same project stands for install, evaluate and, unless an image is
 * another one now, load. */
static bool install(struct build *build, struct error *err)
{
    if (!open_base(build, err))
        return false;
    build->is_recalled = build->is_cached = build_memo_find(build, &build->memo);
    return build->is_recalled || build_install(build, err);
}

static bool evaluate(struct build *build, struct error *err)
{
    build->is_cached = build->is_recalled;
    if (!build->is_recalled)
        return build_evaluate(build, err);
    build->manifest = build->memo.manifest;
    return true;
}

static bool load(struct build *build, struct error *err)
{
    build->is_cached = build->is_recalled && build_memo_has_images(&build->memo, build);
    build->imports = build->is_cached ? build->memo.imports : (struct json_list){0};
    if (build->is_cached)
        return true;
    if (build->is_recalled &&
        !bundle_open(&build->line, build->worker->settings->work_dir,
                     arena_text(&build->arena, build->memo.bundle), build->memo.bundle_bytes,
                     &build->arena, &build->bundle, err))
        return false;
    return build_load(build, err);
}

/* In order; each is announced, timed, and ends the build when it fails. */
static const struct phase {
    const char *name;
    bool (*run)(struct build *build, struct error *err);
} phases[] = {
    {"unpack",   build_unpack},
    {"install",  install     },
    {"evaluate", evaluate    },
    {"image",    build_images},
    {"load",     load        },
};

static void announce(const struct build *build, const char *status, int64_t ms)
{
    const struct build_step step = {.status = status, .cached = build->is_cached, .ms = ms};

    build_step_event(&build->part, &step);
}

/* What is built with another engine than it will run on is not kept from who deploys it. */
static void tell_engine(struct build *build)
{
    const struct engine *builds = build->worker->build_engine, *runs = build->worker->engine;

    if (builds == runs)
        return;
    build_note(&build->part,
               arena_printf(&build->arena, "built with %s (%s); runs of this worker have %s (%s)",
                            builds->name, engine_grade_name(builds->grade), runs->name,
                            engine_grade_name(runs->grade)));
}

static bool run_phases(struct build *build, struct error *err)
{
    for (size_t i = 0; i < COUNT_OF(phases); i++) {
        int64_t begun = time_boot_ms();

        build->phase = phases[i].name;
        build->is_cached = false;
        announce(build, "started", -1);
        if (i == 0)
            tell_engine(build);
        if (!phases[i].run(build, err)) {
            build_flush_output(&build->part);
            announce(build, "failed", time_boot_ms() - begun);
            if (!build->failure.kind)
                failure_set(&build->failure, "guest_runtime", "agent_unhealthy", build->phase, true,
                            "%s", err->text);
            return false;
        }
        build_flush_output(&build->part);
        announce(build, "done", time_boot_ms() - begun);
    }
    return true;
}

static bool begin(struct build *build, struct error *err)
{
    struct lease *lease = build->lease;
    struct wire_begin message = {
        {build->worker->link.epoch, lease->sequence, str_of(lease->id)}
    };
    const struct exchange exchange = {
        .route = arena_printf(&build->arena, "leases/%s/begin", lease->id),
        .request_fields = wire_begin_fields,
        .request = &message,
        .timeout_ms = CALL_TIMEOUT_MS,
    };

    return line_insist(&build->line, &exchange, lease_look(lease).fence_ms, &build->arena, err);
}

static bool start(struct build *build, struct error *err)
{
    struct lease *lease = build->lease;
    struct wire_start message = {
        .fence = {build->worker->link.epoch, lease->sequence, str_of(lease->id)},
        .engine = str_of(build->worker->build_engine->name),
        .grade = str_of(engine_grade_name(build->worker->build_engine->grade)),
        .start = STR("boot"),
    };
    struct wire_lease_times times = {0};
    const struct exchange exchange = {
        .route = arena_printf(&build->arena, "leases/%s/start", lease->id),
        .request_fields = wire_start_fields,
        .request = &message,
        ANSWER(wire_lease_times_fields, times),
        .timeout_ms = CALL_TIMEOUT_MS,
    };

    lease_set_stage(lease, LEASE_RUNNING);
    if (!line_insist(&build->line, &exchange, lease_look(lease).fence_ms, &build->arena, err))
        return false;
    lease_set_expiry(lease, times.expires_ms);
    return true;
}

static bool complete(struct build *build, struct wire_build_complete *message, struct error *err)
{
    struct lease *lease = build->lease;
    char *fingerprint = arena_alloc(&build->arena, 65);

    message->fingerprint = STR("");
    message->fence = (struct wire_fence){.lease_id = STR("")};
    report_fingerprint(wire_build_complete_fields, message, fingerprint);
    message->fingerprint = str_of(fingerprint);
    message->fence =
        (struct wire_fence){build->worker->link.epoch, lease->sequence, str_of(lease->id)};
    const struct exchange exchange = {
        .route = arena_printf(&build->arena, "leases/%s/build/complete", lease->id),
        .request_fields = wire_build_complete_fields,
        .request = message,
        .timeout_ms = CALL_TIMEOUT_MS,
    };
    return output_flush(build->output, err) &&
           line_insist(&build->line, &exchange, lease_look(lease).fence_ms, &build->arena, err);
}

static bool seal_bundle(struct build *build, struct error *err)
{
    char digest[65];

    if (build->is_recalled)
        return true;
    if (!bundle_seal(&build->line, build->worker->settings->work_dir, build->bundle, digest,
                     &build->memo.bundle_bytes, err))
        return false;
    build->memo.bundle = arena_str(&build->arena, str_of(digest));
    return true;
}

/* Everything the deployment consists of, where every worker finds it. */
static bool seal(struct build *build, struct error *err)
{
    build->phase = "seal";
    build->is_cached = false;
    announce(build, "started", -1);
    if (!seal_bundle(build, err) || !build_share_images(build, err))
        return failure_set(&build->failure, "guest_runtime", "disk_full", "seal", true, "%s",
                           err->text);
    build_push_images(build);
    build->is_cached = build->is_recalled;
    announce(build, "done", -1);
    return true;
}

static bool finish(struct build *build, struct error *err)
{
    struct wire_build_complete message = {.outcome = STR("succeeded"), .manifest = build->manifest};

    if (!seal(build, err))
        return false;
    message.images = (struct json_list){build->images, build->n_images};
    message.imports = build->imports;
    message.bundle = (struct wire_object){build->memo.bundle, build->memo.bundle_bytes};
    for (int try = 0; !complete(build, &message, err); try++) {
        /* An image's object was collected before the deployment had it: once more. */
        if (err->code != ERR_OBJECT_GONE || try == SEAL_TRIES || !build_share_images(build, err)) {
            build_memo_forget(build);
            return false;
        }
    }
    build_memo_keep(build);
    build_name_images(build);
    build_stand_by(build, build->memo.bundle.ptr);
    return true;
}

/* The project is at fault: the lease ends as done, the deployment as failed. */
static bool finish_failed(struct build *build, struct error *err)
{
    struct wire_build_complete message = {
        .outcome = STR("failed"),
        .has_failure = true,
        .failure = {str_of(build->failure.layer), str_of(build->failure.kind),
                    str_of(build->failure.text), build->failure_details},
    };

    return complete(build, &message, err);
}

static bool execute(struct build *build, bool *is_started, struct error *err)
{
    if (!begin(build, err) || !start(build, err))
        return false;
    *is_started = true;
    if (run_phases(build, err))
        return finish(build, err);
    if (build->failure.retryable || err->code == ERR_LEASE_STALE || err->code == ERR_CANCELLED)
        return false;
    return finish_failed(build, err);
}

static bool lay_out(struct build *build, struct error *err)
{
    struct arena *arena = &build->arena;
    const char *work = build->worker->settings->work_dir;

    build->folder = arena_printf(arena, "%s/tmp/build-%s", work, build->lease->id);
    build->source = arena_printf(arena, "%s/source", build->folder);
    build->bundle = arena_printf(arena, "%s/bundle", build->folder);
    return image_work(build->worker->images, &build->work, err) &&
           directory_make(build->bundle, 0755, err) &&
           line_open(&build->worker->link, &build->line, err) && open_registries(build, err) &&
           output_create(build->lease, build->room, &build->output, err);
}

void *build_main(void *arg)
{
    struct lease *lease = arg;
    struct build build = {
        .lease = lease,
        .worker = lease->worker,
        .grant = &lease->grant.build,
        .room = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK),
        .work = -1,
    };

    struct error err, ignored;
    bool is_started = false;

    build_part_init(&build.part, &build, &build.arena, &build.failure, NULL);
    if (!lay_out(&build, &err) || !execute(&build, &is_started, &err)) {
        log_info("build not completed here", LOG_STR("lease", lease->id), LOG_ERR(&err));
        if (build.line.client)
            report_failure(lease, &build.line, &build.failure, is_started, &err);
    }
    output_destroy(build.output);
    if (!folder_remove(build.folder, &ignored))
        log_warn("build folder left behind", LOG_ERR(&ignored));
    line_close(&build.line);
    build_part_finish(&build.part);
    registries_close(build.registries);
    arena_finish(&build.arena);
    close(build.room);
    if (build.work >= 0)
        close(build.work);
    upkeep_wake(lease->worker->upkeep);
    lease_done(lease);
    return NULL;
}
