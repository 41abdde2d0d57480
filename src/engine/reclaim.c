#include "engine/reclaim.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/log.h"
#include "base/own.h"
#include "base/time.h"
#include "engine/holders.h"
#include "engine/mount.h"
#include "engine/net/link.h"
#include "engine/net/netns.h"
#include "engine/process.h"
#include "engine/record.h"

enum { KILL_MS = 5000, TERM_MS = 2000, RETRY_MS = 60000 };

static bool slot_release(struct engine_host *host, struct record *record,
                         const struct resource *resource, struct error *err)
{
    (void)host, (void)record, (void)resource, (void)err;
    return true; /* the kernel freed the lock with its holder */
}

/* The marker files stay until everything else is proved gone. */
static bool is_marker(const char *name)
{
    static const char *const markers[] = {"owner", "journal", "quarantined", ".", ".."};

    for (size_t i = 0; i < COUNT_OF(markers); i++) {
        if (strcmp(name, markers[i]) == 0)
            return true;
    }
    return false;
}

/* A reader of its own, from the start. */
static DIR *folder_open(int fd)
{
    AUTO_FD int own = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *folder = own >= 0 ? fdopendir(own) : NULL;

    if (folder)
        (void)take_fd(&own);
    return folder;
}

static bool dir_release(struct engine_host *host, struct record *record,
                        const struct resource *resource, struct error *err)
{
    bool has_mount;

    (void)host, (void)resource;
    if (!mount_is_below(record->path, &has_mount, err))
        return false;
    if (has_mount)
        return error_set(err, ERR_CONFLICT, "something is mounted below %s", record->path);

    DIR *folder = folder_open(record->dir_fd);
    bool ok = folder || error_errno(err, "list %s", record->path);
    for (struct dirent *entry; folder && ok && (entry = readdir(folder));) {
        if (!is_marker(entry->d_name))
            ok = tree_remove(record->dir_fd, entry->d_name, err);
    }
    if (folder)
        closedir(folder);
    return ok;
}

static bool cgroup_release(struct engine_host *host, struct record *record,
                           const struct resource *resource, struct error *err)
{
    char inode[32];

    (void)record;
    snprintf(inode, sizeof(inode), "%llu",
             (unsigned long long)cgroup_inode(&host->cgroups, resource->name));
    if (resource->identity[0] && strcmp(inode, "0") != 0 && strcmp(inode, resource->identity) != 0)
        return true; /* a later group of the same name */
    return cgroup_kill(&host->cgroups, resource->name, KILL_MS, err) &&
           cgroup_remove(&host->cgroups, resource->name, err);
}

static bool netns_release(struct engine_host *host, struct record *record,
                          const struct resource *resource, struct error *err)
{
    (void)host, (void)record;
    return netns_remove(resource->name, err);
}

static bool link_release(struct engine_host *host, struct record *record,
                         const struct resource *resource, struct error *err)
{
    (void)record;
    return link_remove(host->tag, resource->name, resource->identity, err);
}

static bool mount_release(struct engine_host *host, struct record *record,
                          const struct resource *resource, struct error *err)
{
    (void)host, (void)record;
    return mount_remove_below(resource->name, err);
}

static bool process_release(struct engine_host *host, struct record *record,
                            const struct resource *resource, struct error *err)
{
    struct process_identity identity;

    /* Announced only: if it came to life at all, it did so inside the cgroup. */
    (void)host;
    if (!resource->identity[0] || record->is_of_other_boot)
        return true;
    if (!process_identity_parse(resource->identity, &identity))
        return error_set(err, ERR_INTERNAL, "no process is %s", resource->identity);
    return process_kill_recorded(&identity, TERM_MS, KILL_MS, err);
}

static bool (*const releasers[RESOURCE_KIND_COUNT])(struct engine_host *, struct record *,
                                                    const struct resource *, struct error *) = {
    [RESOURCE_SLOT] = slot_release,       [RESOURCE_DIR] = dir_release,
    [RESOURCE_CGROUP] = cgroup_release,   [RESOURCE_NETNS] = netns_release,
    [RESOURCE_LINK] = link_release,       [RESOURCE_MOUNT] = mount_release,
    [RESOURCE_PROCESS] = process_release,
};

/* Whatever it was doing, it has no effect outside from here on. */
static bool stop_first(struct engine_host *host, const struct record *record,
                       const struct journal_list *list, struct error *err)
{
    struct error ignored;

    /* Also one that was only announced: it has the folder open from its first moment on. */
    if (!host->is_root && host->is_reclaiming && !holders_kill(record->path, KILL_MS, err))
        return false;
    for (size_t i = 0; i < list->n; i++) {
        const struct resource *resource = &list->items[i];
        if (resource->kind != RESOURCE_CGROUP || resource->gone)
            continue;
        (void)!cgroup_freeze(&host->cgroups, resource->name, true, &ignored);
        if (!cgroup_kill(&host->cgroups, resource->name, KILL_MS, err))
            return false;
    }
    return true;
}

static bool release_backwards(struct engine_host *host, struct record *record,
                              const struct journal_list *list, struct error *err)
{
    for (size_t i = list->n; i > 0; i--) {
        const struct resource *resource = &list->items[i - 1];
        if (resource->gone)
            continue;
        if (!releasers[resource->kind](host, record, resource, err))
            return error_wrap(err, "release %s", resource_kind_name(resource->kind));
        if (!journal_gone(&record->journal, resource->kind, resource->name, err))
            return false;
    }
    return true;
}

static bool markers_remove(struct engine_host *host, struct record *record, struct error *err)
{
    static const char *const markers[] = {"quarantined", "journal", "owner"};

    for (size_t i = 0; i < COUNT_OF(markers); i++) {
        if (unlinkat(record->dir_fd, markers[i], 0) < 0 && errno != ENOENT)
            return error_errno(err, "remove %s of %s", markers[i], record->id);
    }
    return unlinkat(host->instances_fd, record->id, AT_REMOVEDIR) == 0 || errno == ENOENT ||
           error_errno(err, "remove %s", record->path);
}

static void reason_write(struct record *record, const char *reason)
{
    AUTO_FD int fd =
        openat(record->dir_fd, "quarantined", O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

    if (fd >= 0)
        (void)!write(fd, reason, strlen(reason));
}

bool record_release(struct engine_host *host, struct record *record, struct error *err)
{
    struct journal_list list;

    journal_finish(&record->journal);
    if (journal_open(record->dir_fd, &record->journal, &list, err) &&
        stop_first(host, record, &list, err) && release_backwards(host, record, &list, err) &&
        markers_remove(host, record, err))
        return true;
    reason_write(record, err->text);
    return error_wrap(err, "instance %s", record->id);
}

static void reclaimed_add(struct engine_host *host, const struct reclaimed *about)
{
    if (host->n_reclaimed == RECLAIMED_MAX)
        return;
    host->reclaimed =
        alloc_more(host->reclaimed, (host->n_reclaimed + 1) * sizeof(*host->reclaimed));
    host->reclaimed[host->n_reclaimed++] = *about;
}

static bool reclaim_one(struct engine_host *host, const char *id, struct reclaimed *about)
{
    struct record record;
    struct record_owner owner = {0};
    struct error err = {0};

    *about = (struct reclaimed){0};
    snprintf(about->instance_id, sizeof(about->instance_id), "%s", id);
    about->gone = record_open(host, id, &record, &owner, &err);
    if (about->gone) {
        record.is_of_other_boot = strcmp(owner.boot_id, host_boot_id()) != 0;
        about->gone = record_release(host, &record, &err);
        record_finish(&record);
    }
    memcpy(about->lease_id, owner.lease_id, sizeof(about->lease_id));
    snprintf(about->detail, sizeof(about->detail), "%s%s%.200s", owner.kind,
             about->gone ? "" : ": ", about->gone ? "" : err.text);
    return about->gone;
}

static bool instances_each(struct engine_host *host, struct error *err)
{
    DIR *folder = folder_open(host->instances_fd);

    if (!folder)
        return error_errno(err, "list the instances");
    for (struct dirent *entry; (entry = readdir(folder));) {
        char id[ID_TEXT];
        struct reclaimed about;
        if (!id_parse(str_of(entry->d_name), id) || strcmp(id, entry->d_name) != 0)
            continue;
        if (reclaim_one(host, id, &about))
            log_info("instance reclaimed", LOG_STR("instance", id), LOG_STR("was", about.detail));
        else
            host_quarantine(host, &about);
        reclaimed_add(host, &about);
    }
    closedir(folder);
    return true;
}

static void stray_cgroup(void *arg, const char *name)
{
    struct engine_host *host = arg;
    struct error err = {0};

    if (!cgroup_kill(&host->cgroups, name, KILL_MS, &err) ||
        !cgroup_remove(&host->cgroups, name, &err))
        log_error("a stray cgroup stays", LOG_STR("cgroup", name), LOG_ERR(&err));
}

/* What no journal names but carries this work directory's tag or path. Quarantined instances keep
 * theirs, so this runs only when there are none. */
static void strays_release(struct engine_host *host)
{
    struct error err = {0};
    char instances[PATH_MAX];

    if (host->quarantined || !host->is_root)
        return;
    cgroup_each(&host->cgroups, stray_cgroup, host);
    netns_remove_strays(host->run_dir);
    link_remove_strays(host->tag);
    snprintf(instances, sizeof(instances), "%s/instances", host->work_dir);
    if (!mount_remove_below(instances, &err))
        log_error("a stray mount stays", LOG_ERR(&err));
}

bool reclaim_all(struct engine_host *host, struct error *err)
{
    if (!instances_each(host, err))
        return false;
    strays_release(host);
    host->retried_ms = time_boot_ms();
    return true;
}

void reclaim_retry(struct engine_host *host)
{
    if (time_boot_ms() - host->retried_ms < RETRY_MS)
        return;
    host->retried_ms = time_boot_ms();

    pthread_mutex_lock(&host->mutex);
    struct quarantined *list = TAKE(host->quarantined);
    pthread_mutex_unlock(&host->mutex);
    while (list) {
        struct quarantined *next = list->next;
        struct reclaimed about;
        if (reclaim_one(host, list->about.instance_id, &about))
            log_info("quarantined instance released", LOG_STR("instance", about.instance_id));
        else
            host_quarantine(host, &about);
        free(list);
        list = next;
    }
}
