/* The sweeper's jobs about mounts and the programs in them. */
#include "server/mount_store.h"
#include "server/outbox.h"
#include "server/queue.h"
#include "server/sweep_pass.h"
#include "store/queries.h"

enum { MOUNTING_MAX_MS = 20 * 60 * 1000 };

/* Its lease before itself: the order of the workers' reports. And once more, for a lease that was
 * granted while the mount's row was waited for. */
static bool fail_mount(struct pass *pass, struct tx *tx, const char *id, const char *detail UNUSED,
                       struct wakes *wakes, struct error *err)
{
    struct str why = STR("it was not mounted within 20 minutes");
    struct mount_row mount;

    return outbox_revoke(tx, "mount", id, why, wakes, err) &&
           mount_hold(tx, id, &pass->arena, &mount, err) && queue_remove(tx, id, err) &&
           mount_move(tx, &mount, MOUNT_DEADLINE, why, wakes, err) &&
           outbox_revoke(tx, "mount", id, why, wakes, err);
}

static bool fail_program(struct pass *pass, struct tx *tx, const char *id,
                         const char *detail UNUSED, struct wakes *wakes, struct error *err)
{
    static const struct wire_message nothing = {0};
    const struct process_change change = {.on = EXEC_DEADLINE,
                                          .error = STR("it did not begin within 20 minutes")};
    struct process_row process;
    bool moved;

    return process_load(tx, id, &pass->arena, &process, err) &&
           process_apply(tx, &process, &change, &moved, wakes, err) &&
           (!moved || process_send(tx, &process, "process_close", &nothing, wakes, err));
}

/* Its time is up: asked to end first, and killed when it does not. */
static bool end_program(struct pass *pass, struct tx *tx, const char *id, const char *detail UNUSED,
                        struct wakes *wakes, struct error *err)
{
    struct process_row process;

    if (!process_load(tx, id, &pass->arena, &process, err))
        return false;
    if (!process.is_live || !process.due_ms || process.due_ms > pass->now)
        return error_set(err, ERR_CONFLICT, "the program moved meanwhile");
    bool is_first = str_equal(process.due_signal, STR("TERM"));
    const char *text = arena_printf(&pass->arena, "it ran longer than its timeout of %lld ms",
                                    (long long)process.timeout_ms);
    return STORE(tx, &process_set_due, NULL, NULL, err, V_TEXT(id),
                 is_first ? V_INT(pass->now + PROCESS_KILL_MS) : V_NULL,
                 is_first ? V_TEXT("KILL") : V_NULL, V_TEXT(text)) &&
           process_send_signal(tx, &process, is_first ? "TERM" : "KILL", wakes, err);
}

void sweep_mounts(struct pass *pass)
{
    SWEEP(pass, "timeouts", &processes_due, end_program, V_INT(pass->now), V_INT(SWEEP_BATCH));
    SWEEP(pass, "programs", &processes_late, fail_program, V_INT(pass->now - PROCESS_START_MS),
          V_INT(SWEEP_BATCH));
    SWEEP(pass, "mounts", &mounts_late, fail_mount, V_INT(pass->now - MOUNTING_MAX_MS),
          V_INT(SWEEP_BATCH));
}
