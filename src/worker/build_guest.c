/* One program of a build in a sandbox of its own. */
#include <string.h>

#include "base/time.h"
#include "worker/build.h"
#include "worker/build_machine.h"

#define RECEIVE_MAX ((int64_t)10 << 30)
#define SEND_MAX    ((int64_t)1 << 30)

enum { CONNECTIONS_MAX = 256, BUILD_CPUS = 2, BUILD_DISK_MIB = 32768 };

static void fill_spec(struct build *build, const struct build_program *job,
                      struct sandbox_spec *spec)
{
    const struct engine *engine = build->worker->build_engine;

    id_make(spec->id);
    spec->kind = "build";
    spec->lease_id = build->lease->id;
    spec->epoch = build->worker->link.epoch;
    spec->layout = engine->has_drives ? LAYOUT_AGENT : job->layout;
    spec->platform = build->worker->platform.root;
    spec->layers = job->layers;
    spec->n_layers = job->n_layers;
    spec->bundle = job->bundle;
    if (spec->layout == LAYOUT_DIRECT) {
        spec->upper = job->upper;
        spec->binds = job->binds;
        spec->n_binds = job->n_binds;
    }
    spec->vcpus = BUILD_CPUS;
    spec->memory_mib = job->memory_mib ? job->memory_mib : BUILD_MEMORY_MIB;
    spec->disk_mib = BUILD_DISK_MIB;
    spec->network = job->has_network ? NETWORK_OPEN : NETWORK_OFF;
    if (job->has_network)
        spec->quota = (struct network_quota){RECEIVE_MAX, SEND_MAX, CONNECTIONS_MAX};
    spec->deadline_ms = time_boot_ms() + engine_start_ms(engine);
}

static struct guest_result keep_result(struct arena *arena, struct guest_result result)
{
    struct str *texts[] = {&result.output,       &result.error_name,    &result.error_message,
                           &result.error_stack,  &result.error_details, &result.load_kind,
                           &result.load_message, &result.load_file,     &result.load_stack};

    /* They live in the guest, which goes now. */
    for (size_t i = 0; i < COUNT_OF(texts); i++)
        if (texts[i]->ptr)
            *texts[i] = arena_str(arena, *texts[i]);
    return result;
}

/* `machine` is NULL where the host has the folders that the program writes to. */
static bool follow(struct build_part *part, struct guest *guest, const struct build_program *job,
                   const struct sandbox_spec *spec, const struct build_machine *machine,
                   struct guest_result *result, struct error *err)
{
    struct guest_setup setup = {
        .spec = spec,
        .config = job->config,
        .mount = machine ? build_machine_mount(machine) : job->mount,
        .shows_platform = job->shows_platform,
        .is_layer = job->is_layer,
    };
    struct guest_program program = job->program;
    struct message_a_start start = {
        .mode = str_of(job->mode ? job->mode : ""),
        .workspace_path = str_of(job->mount ? job->mount : ""),
        .options = str_of(job->options ? job->options : "{}"),
    };

    program.listener = (struct guest_listener){build_take_output, NULL, part};
    if (!guest_set_up(guest, &setup, err) ||
        (machine && !build_machine_bring(machine, guest, err)) ||
        !guest_launch(guest, &program, err) ||
        (job->mode && !guest_release(guest, &start, (struct str){0}, err)) ||
        !guest_follow(guest, time_boot_ms() + job->limit_ms, result, err))
        return false;
    *result = keep_result(part->arena, *result);
    if (!guest_was_timed_out(guest))
        return !machine || build_machine_fetch(machine, guest, result, err);
    const char *phase = part->build->phase;
    failure_set(part->failure, "deployment_build", NULL, phase, false, "%s took longer than %lld s",
                phase, (long long)job->limit_ms / 1000);
    return error_set(err, ERR_UNPROCESSABLE, "took longer than %lld s",
                     (long long)job->limit_ms / 1000);
}

bool build_run(struct build_part *part, const struct build_program *job,
               struct guest_result *result, struct error *err)
{
    struct build *build = part->build;
    struct sandbox_spec spec = {0};
    struct guest *guest = NULL;
    const struct build_machine machine = {job, part->failure};

    fill_spec(build, job, &spec);
    const bool is_apart = job->layout == LAYOUT_DIRECT && spec.layout != LAYOUT_DIRECT;
    bool fine = guest_start(build->worker, build->lease, &spec, part->failure, &guest, err) &&
                follow(part, guest, job, &spec, is_apart ? &machine : NULL, result, err);
    guest_stop(guest);
    build_flush_output(part);
    return fine;
}
