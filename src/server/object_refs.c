#include "server/object_refs.h"

#include <stdlib.h>
#include <string.h>

#include "protocol/worker_api.h"
#include "server/images.h"
#include "store/queries.h"

static int by_text(const void *a, const void *b)
{
    const struct str *x = a, *y = b;

    return memcmp(x->ptr, y->ptr, BLOB_ID_LEN);
}

/* In one order, so that two publications cannot lock each other out. */
static bool add(struct server *server, struct tx *tx, const char *owner_id, struct str *ids,
                size_t n, struct arena *arena, struct error *err)
{
    qsort(ids, n, sizeof *ids, by_text);
    for (size_t i = 0; i < n; i++) {
        if (i > 0 && str_equal(ids[i], ids[i - 1]))
            continue;
        if (!object_keep(server, tx, ids[i], arena, err) ||
            !STORE(tx, &object_ref_insert, NULL, NULL, err, V_TEXT(owner_id), V_STR(ids[i])))
            return false;
    }
    return true;
}

bool object_refs_add(struct server *server, struct tx *tx, const char *owner_id,
                     const struct json_list *objects, struct arena *arena, struct error *err)
{
    const struct wire_object *wanted = objects->items;
    struct str *ids = arena_array(arena, objects->n + 1, sizeof *ids);

    for (size_t i = 0; i < objects->n; i++) {
        if (!blob_id_is_valid(wanted[i].digest))
            return error_set(err, ERR_INVALID, "an object is named by its sha256 in hex");
        ids[i] = wanted[i].digest;
    }
    return add(server, tx, owner_id, ids, objects->n, arena, err);
}

bool object_refs_copy(struct server *server, struct tx *tx, const char *from, const char *to,
                      struct arena *arena, struct error *err)
{
    struct rows rows;

    if (!STORE(tx, &object_refs_of, arena, &rows, err, V_TEXT(from)))
        return false;
    struct str *ids = arena_array(arena, rows.n_rows + 1, sizeof *ids);
    for (size_t i = 0; i < rows.n_rows; i++)
        ids[i] = row_str(&rows, i, OBJECT_REFS_OF_OBJECT_ID);
    return add(server, tx, to, ids, rows.n_rows, arena, err);
}

bool object_refs_drop(struct tx *tx, const char *owner_id, struct error *err)
{
    return STORE(tx, &object_refs_delete, NULL, NULL, err, V_TEXT(owner_id));
}
