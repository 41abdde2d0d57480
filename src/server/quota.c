#include "server/quota.h"

#include "protocol/worker_api.h"
#include "store/queries.h"

/* Both queries about the usage have the same columns. */
_Static_assert((int)USAGE_LOCK_STORAGE_BYTES_MAX == (int)USAGE_READ_STORAGE_BYTES_MAX,
               "the columns are the same");

struct usage {
    int64_t workspaces, storage_bytes, workspaces_max, storage_bytes_max;
    bool has_workspaces_max, has_storage_max;
};

static bool load(struct tx *tx, const struct query *query, const char *environment_id,
                 struct usage *usage, struct error *err)
{
    AUTO(arena_finish) struct arena arena = {0};
    struct rows rows;

    if (!STORE(tx, query, &arena, &rows, err, V_TEXT(environment_id)))
        return false;
    if (rows.n_rows == 0)
        return error_set(err, ERR_NOT_FOUND, "there is no such environment");
    *usage = (struct usage){
        .workspaces = row_int(&rows, 0, USAGE_LOCK_WORKSPACES),
        .storage_bytes = row_int(&rows, 0, USAGE_LOCK_STORAGE_BYTES),
        .workspaces_max = row_int(&rows, 0, USAGE_LOCK_WORKSPACES_MAX),
        .storage_bytes_max = row_int(&rows, 0, USAGE_LOCK_STORAGE_BYTES_MAX),
        .has_workspaces_max = !row_is_null(&rows, 0, USAGE_LOCK_WORKSPACES_MAX),
        .has_storage_max = !row_is_null(&rows, 0, USAGE_LOCK_STORAGE_BYTES_MAX),
    };
    return true;
}

static bool change(struct tx *tx, const char *environment_id, int64_t workspaces, int64_t storage,
                   struct error *err)
{
    return STORE(tx, &usage_change, NULL, NULL, err, V_TEXT(environment_id), V_INT(workspaces),
                 V_INT(storage));
}

bool quota_take_workspace(struct tx *tx, const char *environment_id, struct error *err)
{
    struct usage usage;

    if (!load(tx, &usage_lock, environment_id, &usage, err))
        return false;
    if (usage.has_workspaces_max && usage.workspaces >= usage.workspaces_max)
        return error_set(err, ERR_QUOTA,
                         "the environment has %lld of at most %lld workspaces: delete some, or "
                         "raise limits.workspaces of the environment",
                         (long long)usage.workspaces, (long long)usage.workspaces_max);
    return change(tx, environment_id, 1, 0, err);
}

bool quota_give_workspace(struct tx *tx, const char *environment_id, struct error *err)
{
    struct usage usage;

    return load(tx, &usage_lock, environment_id, &usage, err) &&
           change(tx, environment_id, -1, 0, err);
}

static bool refuse_storage(const struct usage *usage, int64_t more, struct error *err)
{
    return error_set(err, ERR_QUOTA,
                     "versions of the environment take %lld of at most %lld bytes and this needs "
                     "%lld more: delete workspaces, or raise limits.storage_bytes of the "
                     "environment",
                     (long long)usage->storage_bytes, (long long)usage->storage_bytes_max,
                     (long long)more);
}

static bool is_over(const struct usage *usage, int64_t more)
{
    return more > 0 && usage->has_storage_max &&
           usage->storage_bytes > usage->storage_bytes_max - more;
}

static bool read_sum(struct tx *tx, const struct query *query, const char *environment_id,
                     const char *version_id, int64_t *sum, struct error *err)
{
    AUTO(arena_finish) struct arena arena = {0};
    struct rows rows;

    if (!STORE(tx, query, &arena, &rows, err, V_TEXT(environment_id), V_TEXT(version_id)))
        return false;
    *sum = row_int(&rows, 0, 0);
    return true;
}

bool quota_add_version(struct tx *tx, const char *environment_id, const char *version_id,
                       bool may_exceed, struct error *err)
{
    struct usage usage;
    int64_t more;

    if (!load(tx, &usage_lock, environment_id, &usage, err) ||
        !read_sum(tx, &storage_new, environment_id, version_id, &more, err))
        return false;
    if (!may_exceed && is_over(&usage, more))
        return refuse_storage(&usage, more, err);
    return STORE(tx, &storage_count, NULL, NULL, err, V_TEXT(environment_id), V_TEXT(version_id)) &&
           change(tx, environment_id, 0, more, err);
}

bool quota_drop_version(struct tx *tx, const char *environment_id, const char *version_id,
                        struct error *err)
{
    const struct value params[] = {V_TEXT(environment_id), V_TEXT(version_id)};
    struct usage usage;
    int64_t less;

    return load(tx, &usage_lock, environment_id, &usage, err) &&
           read_sum(tx, &storage_last, environment_id, version_id, &less, err) &&
           store_run(tx, &storage_uncount, params, COUNT_OF(params), NULL, NULL, err) &&
           store_run(tx, &storage_forget, params, COUNT_OF(params), NULL, NULL, err) &&
           change(tx, environment_id, 0, -less, err);
}

/* What is not there is found out by whoever refers to it. */
static bool add_object(struct tx *tx, const char *environment_id, struct str id, int64_t *more,
                       struct error *err)
{
    AUTO(arena_finish) struct arena arena = {0};
    struct rows rows;

    if (!STORE(tx, &storage_of_object, &arena, &rows, err, V_TEXT(environment_id), V_STR(id)))
        return false;
    if (rows.n_rows > 0 && !row_int(&rows, 0, STORAGE_OF_OBJECT_IS_COUNTED))
        *more += row_int(&rows, 0, STORAGE_OF_OBJECT_BYTES);
    return true;
}

bool quota_has_room(struct tx *tx, const char *environment_id, const struct json_list *objects,
                    bool *fits, struct error *why, struct error *err)
{
    const struct wire_object *wanted = objects->items;
    struct usage usage;
    int64_t more = 0;

    *fits = true;
    if (!load(tx, &usage_read, environment_id, &usage, err))
        return false;
    if (!usage.has_storage_max)
        return true;
    for (size_t i = 0; i < objects->n; i++)
        if (!add_object(tx, environment_id, wanted[i].digest, &more, err))
            return false;
    *fits = !is_over(&usage, more) || refuse_storage(&usage, more, why);
    return true;
}

bool quota_check_storage(struct tx *tx, const char *environment_id, struct error *err)
{
    struct usage usage;

    return load(tx, &usage_read, environment_id, &usage, err) &&
           (!is_over(&usage, 1) || refuse_storage(&usage, 1, err));
}
