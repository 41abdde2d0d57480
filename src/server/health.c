#include "base/json.h"
#include "server/context.h"
#include "server/handlers.h"
#include "server/openapi.h"
#include "store/queries.h"

bool health_get(struct call *call UNUSED, struct response *res, struct error *err)
{
    if (!buf_append(response_body(res), STR("{\"status\":\"ok\"}"), err))
        return false;
    response_json(res, 200);
    return true;
}

struct check {
    const char *name;
    bool (*passes)(struct server *server, struct error *err);
};

static bool database_is_reachable(struct server *server, struct error *err)
{
    AUTO(arena_finish) struct arena arena = {0};
    struct rows rows;
    AUTO_TX tx = NULL;
    return store_begin_read(server->store, &tx, err) &&
           store_run(tx, &organization_find, NULL, 0, &arena, &rows, err);
}

static bool schema_is_current(struct server *server, struct error *err)
{
    int have, want;
    if (!store_schema_version(server->store, &have, &want, err))
        return false;
    return have == want ||
           error_set(err, ERR_CONFLICT, "the schema is version %d, wanted is %d", have, want);
}

static bool store_is_reachable(struct server *server, struct error *err)
{
    return blob_store_check(server->blobs, err);
}

static const struct check checks[] = {
    {"database", database_is_reachable},
    {"schema",   schema_is_current    },
    {"store",    store_is_reachable   },
};

bool ready_get(struct call *call, struct response *res, struct error *err)
{
    struct server *server = server_of(call);
    struct error problems[COUNT_OF(checks)];
    bool passed[COUNT_OF(checks)], all = true;
    for (size_t i = 0; i < COUNT_OF(checks); i++) {
        passed[i] = checks[i].passes(server, &problems[i]);
        all = all && passed[i];
    }

    struct json_writer json = json_begin(response_body(res));
    json_open(&json, NULL);
    json_string(&json, "status", all ? "ready" : "not_ready");
    if (!all) {
        json_open(&json, "checks");
        for (size_t i = 0; i < COUNT_OF(checks); i++)
            json_string(&json, checks[i].name, passed[i] ? "ok" : problems[i].text);
        json_close(&json);
    }
    json_close(&json);
    response_json(res, all ? 200 : 503);
    return json_end(&json, err);
}

bool openapi_get(struct call *call UNUSED, struct response *res, struct error *err)
{
    if (!buf_append(response_body(res), openapi_document(), err))
        return false;
    response_json(res, 200);
    return true;
}
