#include "server/seed.h"

#include "base/time.h"
#include "model/name.h"
#include "server/account.h"
#include "server/master.h"
#include "store/queries.h"

static const struct {
    const char *slug, *name;
    bool is_default;
} environments[] = {
    {"production", "Production", true },
    {"staging",    "Staging",    false},
};

static bool read_id(struct rows *rows, char id[ID_TEXT], struct error *err)
{
    if (rows->n_rows != 1)
        return error_set(err, ERR_INTERNAL, "a row that was just made is not there");
    row_id(rows, 0, 0, id);
    return true;
}

static bool seed_organization(struct server *server, struct tx *tx, struct arena *arena,
                              int64_t now, struct error *err)
{
    struct rows rows;
    if (!store_run(tx, &organization_find, NULL, 0, arena, &rows, err))
        return false;
    if (rows.n_rows > 0)
        return read_id(&rows, server->organization_id, err);
    id_make(server->organization_id);
    return STORE(tx, &organization_insert, NULL, NULL, err, V_TEXT(server->organization_id),
                 V_TEXT("default"), V_TEXT("Default"), V_INT(now));
}

/* *first is the id of the first group of the list. */
static bool seed_groups(struct server *server, struct tx *tx, struct arena *arena, int64_t now,
                        char first[ID_TEXT], struct error *err)
{
    struct str list = str_of(server->config->worker_groups), name;
    first[0] = '\0';
    while (str_split(&list, ',', &name)) {
        char id[ID_TEXT];
        struct rows rows;
        if (!name_check(NAME_ID, "HELMR_WORKER_GROUPS: a name", name, err))
            return false;
        id_make(id);
        if (!STORE(tx, &worker_group_upsert, NULL, NULL, err, V_TEXT(id),
                   V_TEXT(server->organization_id), V_STR(name), V_INT(now)) ||
            !STORE(tx, &worker_group_find, arena, &rows, err, V_TEXT(server->organization_id),
                   V_STR(name)) ||
            (!first[0] && !read_id(&rows, first, err)))
            return false;
    }
    return true;
}

bool seed_environments(struct tx *tx, const char *project_id, const char *group_id, int64_t now,
                       struct error *err)
{
    for (size_t i = 0; i < COUNT_OF(environments); i++) {
        char id[ID_TEXT], colour[COLOUR_TEXT];
        id_make(id);
        name_colour(str_of(environments[i].slug), colour);
        if (!STORE(tx, &environment_insert, NULL, NULL, err, V_TEXT(id), V_TEXT(project_id),
                   V_TEXT(environments[i].slug), V_TEXT(environments[i].name), V_TEXT(colour),
                   V_INT(environments[i].is_default), V_TEXT(group_id), V_INT(now)))
            return false;
    }
    return true;
}

bool seed_protects(struct str slug)
{
    for (size_t i = 0; i < COUNT_OF(environments); i++)
        if (str_equal(slug, str_of(environments[i].slug)))
            return true;
    return false;
}

static bool seed_project(struct server *server, struct tx *tx, struct arena *arena, int64_t now,
                         const char *group_id, struct error *err)
{
    struct rows rows;
    char id[ID_TEXT];
    if (!STORE(tx, &environment_default, arena, &rows, err, V_TEXT(server->organization_id)))
        return false;
    if (rows.n_rows > 0)
        return true;
    id_make(id);
    return STORE(tx, &project_insert, NULL, NULL, err, V_TEXT(id), V_TEXT(server->organization_id),
                 V_TEXT("main"), V_TEXT("Main"), V_INT(1), V_INT(now)) &&
           seed_environments(tx, id, group_id, now, err);
}

static bool seed_owner(struct server *server, struct tx *tx, struct arena *arena, int64_t now,
                       struct error *err)
{
    char id[ID_TEXT];
    struct rows made, rows;
    id_make(id);
    if (!STORE(tx, &user_insert, arena, &made, err, V_TEXT(id), V_TEXT(LOCAL_OWNER),
               V_TEXT("Local owner"), V_INT(now)) ||
        !STORE(tx, &user_find_by_email, arena, &rows, err, V_TEXT(LOCAL_OWNER)) ||
        !read_id(&rows, server->owner_id, err))
        return false;
    /* Only once: who removed the local owner meant it. */
    return made.n_changed != 1 ||
           STORE(tx, &member_insert, NULL, NULL, err, V_TEXT(server->organization_id),
                 V_TEXT(server->owner_id), V_TEXT("owner"), V_INT(now));
}

bool server_seed(struct server *server, struct error *err)
{
    AUTO(arena_finish) struct arena arena = {0};
    int64_t now = time_now_ms();
    char group_id[ID_TEXT];
    AUTO_TX tx = NULL;
    if (!store_begin(server->store, &tx, err) || !seed_organization(server, tx, &arena, now, err) ||
        !seed_groups(server, tx, &arena, now, group_id, err) ||
        !seed_project(server, tx, &arena, now, group_id, err) ||
        !seed_owner(server, tx, &arena, now, err) || !master_check(tx, &server->keys, &arena, err))
        return error_wrap(err, "preparing the database");
    return store_commit(&tx, err);
}
