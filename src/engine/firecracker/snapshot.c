#include "engine/firecracker/snapshot.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>

#include "base/json.h"
#include "base/own.h"
#include "engine/firecracker/blocks.h"
#include "engine/firecracker/boot.h"
#include "engine/saved.h"
#include "engine/sparse.h"

/* Files that a machine writes, below FILES_SAVES. */
#define WRITTEN_STATE   "devices"
#define WRITTEN_WHOLE   "whole"
#define WRITTEN_CHANGES "changes"

/* The largest device state that is taken; a real one has some tens of KiB. */
enum { STATE_MAX = 16 << 20 };

static bool state_set(struct machine_api *api, const char *state, int64_t deadline_ms,
                      struct error *err)
{
    AUTO(buf_finish) struct buf body = {.max = MACHINE_BODY_MAX};
    struct json_writer json = json_begin(&body);

    json_open(&json, NULL);
    json_string(&json, "state", state);
    json_close(&json);
    return json_end(&json, err) && machine_api_send(api, "PATCH", "/vm", buf_str(&body),
                                                    boot_call_deadline(deadline_ms), err);
}

bool snapshot_resume(struct machine_api *api, int64_t deadline_ms, struct error *err)
{
    return state_set(api, "Resumed", deadline_ms, err);
}

/* `clock_realtime` is left out: it would move the guest's monotonic time. */
static bool load(struct machine_api *api, const char *tracking, int64_t deadline_ms,
                 struct error *err)
{
    AUTO(buf_finish) struct buf body = {.max = MACHINE_BODY_MAX};
    struct json_writer json = json_begin(&body);

    json_open(&json, NULL);
    json_string(&json, "snapshot_path", "/" SNAPSHOT_STATE);
    json_open(&json, "mem_backend");
    json_string(&json, "backend_type", "File");
    json_string(&json, "backend_path", "/" SNAPSHOT_MEMORY);
    json_close(&json);
    json_bool(&json, tracking, true);
    json_bool(&json, "resume_vm", false);
    json_close(&json);
    return json_end(&json, err) &&
           machine_api_send(api, "PUT", "/snapshot/load", buf_str(&body), deadline_ms, err);
}

/* Older releases know the wish to track pages by another name and refuse what they do not know,
 * before they have done anything. */
bool snapshot_load(struct machine_api *api, int64_t deadline_ms, struct error *err)
{
    if (load(api, "track_dirty_pages", deadline_ms, err))
        return true;
    return err->code == ERR_INVALID && strstr(err->text, "track_dirty_pages") &&
           load(api, "enable_diff_snapshots", deadline_ms, err);
}

static bool create(const struct snapshot *snapshot, const char *type, const char *file,
                   struct error *err)
{
    AUTO(buf_finish) struct buf body = {.max = MACHINE_BODY_MAX};
    struct json_writer json = json_begin(&body);
    char path[64];

    snprintf(path, sizeof(path), "/" FILES_SAVES "/%s", file);
    json_open(&json, NULL);
    json_string(&json, "snapshot_type", type);
    json_string(&json, "snapshot_path", "/" FILES_SAVES "/" WRITTEN_STATE);
    json_string(&json, "mem_file_path", path);
    json_close(&json);
    return json_end(&json, err) && machine_api_send(snapshot->api, "PUT", "/snapshot/create",
                                                    buf_str(&body), snapshot->deadline_ms, err);
}

static bool writes_changes(const struct snapshot *snapshot)
{
    return snapshot->base >= 0 && snapshot->changes != SNAPSHOT_INCOMPLETE;
}

static bool writes_whole(const struct snapshot *snapshot)
{
    return snapshot->base < 0 || snapshot->changes != SNAPSHOT_COMPLETE;
}

/* Changes first: writing everything makes every page count as unchanged. */
bool snapshot_create(struct snapshot *snapshot, struct error *err)
{
    return state_set(snapshot->api, "Paused", snapshot->deadline_ms, err) &&
           (!writes_changes(snapshot) || create(snapshot, "Diff", WRITTEN_CHANGES, err)) &&
           (!writes_whole(snapshot) || create(snapshot, "Full", WRITTEN_WHOLE, err));
}

/* A file that the machine wrote; it must be as long as its memory is. */
static bool memory_open(const struct snapshot *snapshot, const char *name, int *fd,
                        struct error *err)
{
    struct stat status;
    AUTO_FD int opened = -1;

    if (!files_read_open(snapshot->saves, name, &opened, err))
        return false;
    if (fstat(opened, &status) < 0 || status.st_size != snapshot->memory_bytes)
        return error_set(err, ERR_DAMAGED, "Firecracker saved %lld bytes of memory, not %lld",
                         (long long)status.st_size, (long long)snapshot->memory_bytes);
    *fd = take_fd(&opened);
    return true;
}

static bool file_make(int folder, const char *name, int *fd, struct error *err)
{
    *fd = openat(folder, name, O_RDWR | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0444);
    return *fd >= 0 || error_errno(err, "make %s", name);
}

static bool state_collect(const struct snapshot *snapshot, int folder, struct error *err)
{
    struct stat status;
    AUTO_FD int from = -1, to = -1;

    if (!files_read_open(snapshot->saves, WRITTEN_STATE, &from, err))
        return false;
    if (fstat(from, &status) < 0 || status.st_size <= 0 || status.st_size > STATE_MAX)
        return error_set(err, ERR_DAMAGED, "Firecracker saved no device state that could be one");
    return file_make(folder, MACHINE_DEVICES, &to, err) && sparse_copy(from, to, err);
}

/* What it came from, with its changes over it. */
static bool changes_collect(const struct snapshot *snapshot, int to, struct error *err)
{
    AUTO_FD int changes = -1;

    return memory_open(snapshot, WRITTEN_CHANGES, &changes, err) &&
           sparse_copy(snapshot->base, to, err) && blocks_overlay(changes, to, err);
}

static bool whole_collect(const struct snapshot *snapshot, int to, struct error *err)
{
    AUTO_FD int whole = -1;

    return memory_open(snapshot, WRITTEN_WHOLE, &whole, err) && sparse_copy(whole, to, err);
}

/* Both were written: the first time that it matters. */
static bool changes_check(struct snapshot *snapshot, int to, struct error *err)
{
    AUTO_FD int whole = -1;
    bool is_equal;

    if (!changes_collect(snapshot, to, err) || !memory_open(snapshot, WRITTEN_WHOLE, &whole, err) ||
        !blocks_equal(whole, to, &is_equal, err))
        return false;
    snapshot->changes = is_equal ? SNAPSHOT_COMPLETE : SNAPSHOT_INCOMPLETE;
    if (is_equal)
        return true;
    if (ftruncate(to, 0) < 0)
        return error_errno(err, "begin the memory anew");
    return sparse_copy(whole, to, err);
}

bool snapshot_collect(struct snapshot *snapshot, int folder, struct error *err)
{
    AUTO_FD int to = -1;

    if (!state_collect(snapshot, folder, err) || !file_make(folder, MACHINE_MEMORY, &to, err))
        return false;
    if (!writes_changes(snapshot))
        return whole_collect(snapshot, to, err);
    if (!writes_whole(snapshot))
        return changes_collect(snapshot, to, err);
    return changes_check(snapshot, to, err);
}
