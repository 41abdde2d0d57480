/* What a worker says of the mount that it holds: that it is in place, what it became, its end. */
#include "base/time.h"
#include "protocol/worker_api_mount.h"
#include "server/lease.h"
#include "server/mount_store.h"
#include "server/versions.h"
#include "server/worker_plane.h"
#include "store/queries.h"

/* An open call about a mount: its transaction, its lease and itself, locked in that order. */
struct mount_call {
    struct server *server;
    struct tx *tx;
    struct lease_row lease;
    struct mount_row mount;
    struct wakes wakes;
};

static void finish_call(struct mount_call *open)
{
    store_rollback(&open->tx);
}

static bool open_call(struct call *call, const struct wire_fence *fence, bool may_be_over,
                      struct mount_call *open, struct error *err)
{
    open->server = server_of(call);
    return store_begin(open->server->store, &open->tx, err) &&
           lease_open(open->tx, call, fence, may_be_over, &open->lease, err) &&
           lease_is_for(&open->lease, SUBJECT_MOUNT, err) &&
           mount_hold(open->tx, open->lease.subject_id, call->arena, &open->mount, err);
}

static bool commit(struct mount_call *open, struct error *err)
{
    return hub_commit(&open->server->hub, &open->tx, &open->wakes, err);
}

/* The workspace is what its version says: whatever was lost is behind it now. */
static bool recover_workspace(struct mount_call *open, struct error *err)
{
    return STORE(open->tx, &workspace_move, NULL, NULL, err, V_TEXT(open->mount.workspace_id),
                 V_TEXT("recovery_required"), V_TEXT("active"), V_INT(time_now_ms()));
}

static bool make_ready(struct mount_call *open, struct error *err)
{
    struct mount_row *mount = &open->mount;
    static const struct str nothing = {0};

    return mount_move(open->tx, mount, MOUNT_READY, nothing, &open->wakes, err) &&
           recover_workspace(open, err) &&
           (!mount->is_asked_to_stop ||
            mount_move(open->tx, mount, MOUNT_STOP, nothing, &open->wakes, err));
}

bool mount_ready_post(struct call *call, struct response *res, struct error *err)
{
    AUTO(finish_call) struct mount_call open = {0};
    struct wire_mount_ready wanted;

    if (!worker_read(call, wire_mount_ready_fields, &wanted, sizeof wanted, err) ||
        !open_call(call, &wanted.fence, false, &open, err))
        return false;
    if (wanted.generation != open.mount.generation)
        return error_set(err, ERR_LEASE_STALE, "the workspace has a newer writer");
    if (open.lease.state != LEASE_RUNNING)
        return error_set(err, ERR_LEASE_STALE, "a lease that is %s has no mount",
                         lease_state_name(open.lease.state));
    /* Told again because the answer was lost: it is mounted. */
    if (open.mount.state == MOUNT_MOUNTING && (!make_ready(&open, err) || !commit(&open, err)))
        return false;
    return worker_answer_nothing(res, err);
}

static bool publish(struct mount_call *open, const struct wire_mount_version *wanted,
                    struct error *err)
{
    /* What people made is kept, even where the environment has no room for more. */
    const struct version_place place = {
        .environment_id = open->mount.environment_id,
        .workspace_id = open->mount.workspace_id,
        .base = open->mount.base_version_id,
        .generation = open->mount.generation,
        .may_exceed = true,
    };

    return (!wanted->has_version || version_publish_in(open->server, open->tx, &wanted->version,
                                                       &place, &open->wakes, err)) &&
           STORE(open->tx, &mount_set_version, NULL, NULL, err, V_TEXT(open->mount.id),
                 V_STR(wanted->operation_id), V_STR(wanted->fingerprint),
                 wanted->has_version ? V_STR(wanted->version.id) : V_NULL, V_INT(time_now_ms()));
}

bool mount_version_post(struct call *call, struct response *res, struct error *err)
{
    AUTO(finish_call) struct mount_call open = {0};
    struct wire_mount_version wanted;

    if (!worker_read(call, wire_mount_version_fields, &wanted, sizeof wanted, err) ||
        !open_call(call, &wanted.fence, true, &open, err))
        return false;
    struct str operation = open.mount.version_operation;
    if (operation.ptr && str_equal(operation, wanted.operation_id)) {
        if (!str_equal(open.mount.version_fp, wanted.fingerprint))
            return error_set(err, ERR_LEASE_STALE, "the operation had another version");
        return worker_answer_nothing(res, err);
    }
    if (lease_state_is_final(open.lease.state) ||
        (open.mount.state != MOUNT_MOUNTED && open.mount.state != MOUNT_UNMOUNTING))
        return error_set(err, ERR_LEASE_STALE, "the mount is %s",
                         mount_state_name(open.mount.state));
    return publish(&open, &wanted, err) && commit(&open, err) && worker_answer_nothing(res, err);
}

/* A mount that its worker ends by itself goes through the same states in one step. */
static bool close_mount(struct mount_call *open, struct error *err)
{
    static const struct str nothing = {0};
    struct mount_row *mount = &open->mount;

    if (mount->state == MOUNT_MOUNTED &&
        !mount_move(open->tx, mount, MOUNT_STOP, nothing, &open->wakes, err))
        return false;
    return lease_apply(open->tx, &open->lease, LEASE_SUCCEED, 0, err) &&
           mount_move(open->tx, mount, MOUNT_CLOSE, nothing, &open->wakes, err);
}

bool mount_closed_post(struct call *call, struct response *res, struct error *err)
{
    AUTO(finish_call) struct mount_call open = {0};
    struct wire_mount_closed wanted;

    if (!worker_read(call, wire_mount_closed_fields, &wanted, sizeof wanted, err) ||
        !open_call(call, &wanted.fence, true, &open, err))
        return false;
    if (lease_state_is_final(open.lease.state))
        return worker_answer_nothing(res, err); /* told twice */
    if (open.mount.may_be_dirty)
        return error_set(err, ERR_CONFLICT,
                         "programs have run since the last version: publish one first");
    return close_mount(&open, err) && commit(&open, err) && worker_answer_nothing(res, err);
}
