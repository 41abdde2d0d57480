#include "store/sqlite_writer.h"

#include "base/own.h"
#include "base/time.h"

enum { GROUP_MEMBERS_MAX = 64, GROUP_DELAY_MAX_NS = 5 * 1000 * 1000 };

/* Transactions that become durable by one COMMIT. Guarded by the writer's lock. */
struct writer_group {
    pthread_cond_t ended;
    size_t n_members; /* those that have done their work */
    size_t n_waiting; /* of these, the ones asleep until the COMMIT; the last one frees */
    int64_t first_ns; /* when the first of them had */
    bool has_ended, is_committed;
    struct error why;
};

bool writer_init(struct writer *writer, const char *path, int busy_ms, struct error *err)
{
    *writer = (struct writer){.delay_max_ns = GROUP_DELAY_MAX_NS};
    writer->last = &writer->first;
    pthread_mutex_init(&writer->lock, NULL);
    return sqlite_connection_open(&writer->connection, path, TX_WRITE, busy_ms, err);
}

void writer_finish(struct writer *writer)
{
    sqlite_connection_finish(&writer->connection);
    pthread_mutex_destroy(&writer->lock);
}

static struct writer_group *group_create(void)
{
    struct writer_group *group = alloc(sizeof *group);

    *group = (struct writer_group){0};
    pthread_cond_init(&group->ended, NULL);
    return group;
}

static void group_destroy(struct writer_group *group)
{
    pthread_cond_destroy(&group->ended);
    free(group);
}

static void wait_for_turn(struct writer *writer, struct writer_turn *turn)
{
    *writer->last = turn;
    writer->last = &turn->next;
    while (!turn->is_granted)
        pthread_cond_wait(&turn->granted, &writer->lock);
}

static bool take_turn(struct writer *writer, struct error *err)
{
    struct writer_turn turn = {.granted = PTHREAD_COND_INITIALIZER};
    bool ok = true;

    pthread_mutex_lock(&writer->lock);
    if (writer->has_owner && pthread_equal(writer->owner, pthread_self())) {
        ok = error_set(err, ERR_INTERNAL, "this thread is already in a writing transaction");
    } else {
        if (writer->is_taken)
            wait_for_turn(writer, &turn);
        writer->is_taken = writer->has_owner = true;
        writer->owner = pthread_self();
    }
    pthread_mutex_unlock(&writer->lock);
    return ok;
}

static void pass_turn_locked(struct writer *writer)
{
    struct writer_turn *next = writer->first;

    writer->has_owner = false;
    if (!next) {
        writer->is_taken = false;
        return;
    }
    writer->first = next->next;
    if (!writer->first)
        writer->last = &writer->first;
    next->is_granted = true;
    pthread_cond_signal(&next->granted);
}

static void pass_turn(struct writer *writer)
{
    pthread_mutex_lock(&writer->lock);
    pass_turn_locked(writer);
    pthread_mutex_unlock(&writer->lock);
}

static bool run(struct writer *writer, const char *sql, struct error *err)
{
    return sqlite_connection_script(&writer->connection, sql, err);
}

/* Ends the open group for all its members, and the turn. */
static void end_group(struct writer *writer, bool is_committed, const struct error *why)
{
    struct writer_group *group = writer->group;

    pthread_mutex_lock(&writer->lock);
    writer->group = NULL;
    group->has_ended = true;
    group->is_committed = is_committed;
    if (!is_committed)
        group->why = *why;
    pthread_cond_broadcast(&group->ended);

    bool is_unused = group->n_waiting == 0;

    pass_turn_locked(writer);
    pthread_mutex_unlock(&writer->lock);
    if (is_unused)
        group_destroy(group);
}

/* Throws the whole transaction away. */
static void abandon_group(struct writer *writer, const struct error *why)
{
    struct error ignored;

    if (sqlite_connection_is_open(&writer->connection))
        (void)!run(writer, "ROLLBACK", &ignored);
    end_group(writer, false, why);
}

static bool commit_group(struct writer *writer, struct error *err)
{
    if (!run(writer, "COMMIT", err)) {
        abandon_group(writer, err);
        return false;
    }
    end_group(writer, true, NULL);
    return true;
}

/* Whether the next thread in the queue should join the open group. */
static bool may_grow(const struct writer *writer)
{
    const struct writer_group *group = writer->group;

    return writer->first && group->n_members < GROUP_MEMBERS_MAX &&
           time_boot_ns() - group->first_ns < writer->delay_max_ns;
}

static bool wait_for_group(struct writer *writer, struct writer_group *group, struct error *err)
{
    group->n_waiting++;
    while (!group->has_ended)
        pthread_cond_wait(&group->ended, &writer->lock);

    bool is_committed = group->is_committed;

    if (!is_committed)
        *err = group->why;
    if (--group->n_waiting == 0)
        group_destroy(group);
    return is_committed;
}

bool writer_begin(struct writer *writer, struct error *err)
{
    if (!take_turn(writer, err))
        return false;
    if (!writer->group) {
        if (!run(writer, "BEGIN IMMEDIATE", err)) {
            pass_turn(writer);
            return false;
        }
        writer->group = group_create();
        return true;
    }
    if (!run(writer, "SAVEPOINT member", err)) {
        abandon_group(writer, err);
        return false;
    }
    return true;
}

bool writer_commit(struct writer *writer, struct error *err)
{
    struct writer_group *group = writer->group;

    if (group->n_members > 0 && !run(writer, "RELEASE member", err)) {
        abandon_group(writer, err);
        return false;
    }
    if (group->n_members++ == 0)
        group->first_ns = time_boot_ns();

    pthread_mutex_lock(&writer->lock);
    if (!may_grow(writer)) {
        pthread_mutex_unlock(&writer->lock);
        return commit_group(writer, err);
    }
    pass_turn_locked(writer);

    bool ok = wait_for_group(writer, group, err);

    pthread_mutex_unlock(&writer->lock);
    return ok;
}

/* Undoes what the calling thread did, and nothing of the group's other members. */
static bool undo_member(struct writer *writer, const struct error *why, struct error *err)
{
    if (sqlite_connection_is_open(&writer->connection))
        return run(writer, "ROLLBACK TO member; RELEASE member", err);
    *err = *why;
    return error_wrap(err, "a failure next to it ended the transaction");
}

void writer_rollback(struct writer *writer, const struct error *why)
{
    struct error err = *why;

    if (writer->group->n_members == 0 || !undo_member(writer, why, &err)) {
        abandon_group(writer, &err);
        return;
    }

    pthread_mutex_lock(&writer->lock);

    bool grows = may_grow(writer);

    if (grows)
        pass_turn_locked(writer);
    pthread_mutex_unlock(&writer->lock);
    if (!grows)
        (void)!commit_group(writer, &err);
}
