#include "engine/instance.h"

#include <signal.h>
#include <stdio.h>
#include <sys/stat.h>

#include "base/own.h"
#include "engine/net/network.h"
#include "engine/process.h"

static bool groups_announce(struct instance *instance, struct error *err)
{
    struct journal *journal = &instance->record.journal;
    const char *name = id_short(instance->record.id);

    return !instance->host->is_root ||
           (journal_intent(journal, RESOURCE_CGROUP, name, err) &&
            (strcmp(instance->launch_group, name) == 0 ||
             journal_intent(journal, RESOURCE_CGROUP, instance->launch_group, err)));
}

static bool instance_announce(struct instance *instance, const struct sandbox_spec *spec,
                              struct error *err)
{
    struct record *record = &instance->record;
    struct record_owner owner = {.epoch = spec->epoch};
    char slot[16];

    snprintf(owner.kind, sizeof(owner.kind), "%s", spec->kind ? spec->kind : "run");
    snprintf(owner.lease_id, sizeof(owner.lease_id), "%s", spec->lease_id ? spec->lease_id : "");
    snprintf(slot, sizeof(slot), "%d", instance->slot.number);
    if (!record_create(instance->host, spec->id, &owner, record, err))
        return false;
    return journal_intent(&record->journal, RESOURCE_SLOT, slot, err) &&
           journal_intent(&record->journal, RESOURCE_DIR, record->path, err) &&
           groups_announce(instance, err) &&
           journal_intent(&record->journal, RESOURCE_PROCESS, instance->engine->name, err) &&
           record_sync(instance->host, record, err) &&
           journal_made(&record->journal, RESOURCE_SLOT, slot, slot, err);
}

static void instance_free(struct instance *instance)
{
    if (instance->machine)
        instance->machine_destroy(instance->machine);
    auto_close(&instance->channel);
    ring_destroy(instance->log);
    record_finish(&instance->record);
    slot_free(&instance->slot);
    host_unreserve(instance->host);
    free(instance);
}

bool instance_create(struct engine_host *host, const struct engine *engine,
                     const struct sandbox_spec *spec, bool is_split, struct instance **instance,
                     struct error *err)
{
    struct instance *made = alloc(sizeof(*made));

    *made = (struct instance){
        .host = host,
        .engine = engine,
        .record = {.dir_fd = -1, .journal = {.fd = -1}},
        .slot = {.fd = -1},
        .process = {.pidfd = -1},
        .channel = -1
    };
    snprintf(made->launch_group, sizeof(made->launch_group), "%s%s", id_short(spec->id),
             is_split ? ".run" : "");
    if (!host_reserve(host, err)) {
        free(made);
        return false;
    }
    if (!slot_claim(host->slot_dir, 0, &made->slot, err)) {
        instance_free(made);
        return false;
    }
    if (!instance_announce(made, spec, err)) {
        struct error ignored;
        if (err->code == ERR_CONFLICT) /* another's directory: not ours to release */
            instance_free(made);
        else
            (void)!instance_destroy(made, &ignored);
        return false;
    }
    *instance = made;
    return true;
}

static bool group_make(struct instance *instance, const char *name,
                       const struct cgroup_limits *limits, struct error *err)
{
    char inode[32];

    if (!cgroup_make(&instance->host->cgroups, name, limits, err))
        return false;
    snprintf(inode, sizeof(inode), "%llu",
             (unsigned long long)cgroup_inode(&instance->host->cgroups, name));
    return journal_made(&instance->record.journal, RESOURCE_CGROUP, name, inode, err);
}

bool instance_make_cgroups(struct instance *instance, const struct cgroup_limits *limits,
                           struct error *err)
{
    const char *name = id_short(instance->record.id);

    if (!instance->host->is_root)
        return true;
    return group_make(instance, name, limits, err) &&
           (strcmp(instance->launch_group, name) == 0 ||
            group_make(instance, instance->launch_group, limits, err));
}

bool instance_make_folder(struct instance *instance, const char *name, struct error *err)
{
    return mkdirat(instance->record.dir_fd, name, 0700) == 0 ||
           error_errno(err, "make %s of %s", name, instance->record.id);
}

bool instance_started(struct instance *instance, const char *name, struct error *err)
{
    struct process_identity identity;
    char text[PROCESS_IDENTITY_TEXT];

    /* One that has already ended has no identity to keep; its pidfd says so to the caller. */
    if (!process_identify(instance->process.pid, &identity, err))
        return true;
    process_identity_format(&identity, text);
    return journal_made(&instance->record.journal, RESOURCE_PROCESS, name, text, err);
}

unsigned instance_user(const struct instance *instance)
{
    return (unsigned)(instance->host->jail_id_base + instance->slot.number);
}

int instance_channel(const struct instance *instance)
{
    return instance->channel;
}

const char *instance_id(const struct instance *instance)
{
    return instance->record.id;
}

const struct engine *instance_engine(const struct instance *instance)
{
    return instance->engine;
}

int instance_pidfd(const struct instance *instance)
{
    return instance->process.pidfd;
}

struct str instance_log_tail(struct instance *instance)
{
    return instance->log ? ring_tail(instance->log) : (struct str){0};
}

bool instance_usage(const struct instance *instance, struct instance_usage *usage,
                    struct error *err)
{
    struct cgroup_usage used;

    if (!instance->host->is_root)
        return process_usage(instance->process.pid, &usage->cpu_ms, &usage->memory_peak_bytes, err);
    if (!cgroup_usage(&instance->host->cgroups, id_short(instance->record.id), &used, err))
        return false;
    *usage = (struct instance_usage){.cpu_ms = used.cpu_ms,
                                     .memory_peak_bytes = used.memory_peak_bytes,
                                     .oom_killed = used.oom_killed,
                                     .fork_refused = used.fork_refused};
    return true;
}

bool instance_freeze(struct instance *instance, struct error *err)
{
    if (!instance->host->is_root)
        return process_signal(&instance->process, SIGSTOP, err);
    return cgroup_freeze(&instance->host->cgroups, id_short(instance->record.id), true, err);
}

bool instance_destroy(struct instance *instance, struct error *err)
{
    struct engine_host *host = instance->host;
    struct reclaimed about = {0};

    /* Reaped before the release looks for it: an unreaped process still has its number. */
    cgroup_kill_once(&host->cgroups, id_short(instance->record.id));
    process_finish(&instance->process);

    bool gone = record_release(host, &instance->record, err);
    if (instance->network)
        network_release(instance->network);
    if (!gone) {
        snprintf(about.instance_id, sizeof(about.instance_id), "%s", instance->record.id);
        snprintf(about.detail, sizeof(about.detail), "%.250s", err->text);
        host_quarantine(host, &about);
    }
    instance_free(instance);
    return gone;
}
