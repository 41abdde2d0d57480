/* What the tests of files share: a workspace without a run, exchanges about its files, tars. */
#pragma once

#include "base/json.h"
#include "base/own.h"
#include "server/service_suite.h"
#include "server/tar_header.h"
#include "store/queries.h"

#define FILES_SCOPES                                                                  \
    "\"workspace-files:read\",\"workspace-files:write\",\"workspace-versions:read\"," \
    "\"runs:create\",\"runs:read\",\"runs:manage\""

struct desk {
    struct service *service;
    const char *key;
    char workspace[ID_TEXT];
    char etag[128], content_range[128]; /* of the last answer */
};

static inline bool desk_workspace(struct desk *desk, struct error *err)
{
    struct service *service = desk->service;
    AUTO_TX tx = NULL;

    id_make(desk->workspace);
    return store_begin(service->server->store, &tx, err) &&
           STORE(tx, &workspace_insert, NULL, NULL, err, V_TEXT(desk->workspace),
                 V_TEXT(service->environment_id), V_TEXT(service->deployment_id), V_TEXT("default"),
                 V_TEXT("sha256:test"), V_INT(1)) &&
           store_commit(&tx, err);
}

static inline bool desk_set(struct desk *desk, struct service *service)
{
    struct error err;

    *desk = (struct desk){.service = service};
    if (!service_deploy(service, &err) || !desk_workspace(desk, &err)) {
        printf("# %s\n", err.text);
        return false;
    }
    desk->key = service_make_key(service, FILES_SCOPES);
    return *desk->key;
}

static inline void desk_header(void *arg, struct str name, struct str value)
{
    struct desk *desk = arg;

    if (str_equal_nocase(name, STR("ETag")))
        snprintf(desk->etag, sizeof desk->etag, "%.*s", (int)value.len, value.ptr);
    if (str_equal_nocase(name, STR("Content-Range")))
        snprintf(desk->content_range, sizeof desk->content_range, "%.*s", (int)value.len,
                 value.ptr);
}

/* One exchange below /api/workspaces/<workspace>/files; the status. */
static inline int desk_ask(struct desk *desk, const char *method, const char *rest, struct str body,
                           const char *header)
{
    const char *headers[] = {header, NULL};
    const struct http_request request = {
        .method = method,
        .path = arena_printf(&desk->service->arena, "/api/workspaces/%s/files%s", desk->workspace,
                             rest),
        .body = body,
        .headers = header ? headers : NULL,
        .on_header = desk_header,
        .on_header_arg = desk,
    };

    desk->etag[0] = desk->content_range[0] = '\0';
    return service_send(desk->service, desk->key, &request);
}

static inline int desk_get(struct desk *desk, const char *rest)
{
    return desk_ask(desk, "GET", rest, (struct str){0}, NULL);
}

static inline int desk_put(struct desk *desk, const char *path, struct str bytes)
{
    return desk_ask(desk, "PUT", arena_printf(&desk->service->arena, "/content?path=%s", path),
                    bytes, NULL);
}

static inline struct str desk_body(const struct desk *desk)
{
    return buf_str(&desk->service->answer.body);
}

/* The paths of the last list, with a comma after each. */
static inline const char *desk_paths(struct desk *desk)
{
    struct service *service = desk->service;
    const char *all = "";
    size_t n = json_count(desk_body(desk), "entries");

    for (size_t i = 0; i < n; i++) {
        char name[64];

        snprintf(name, sizeof name, "entries.%zu.path", i);
        all = arena_printf(&service->arena, "%s%s,", all, service_text(service, name));
    }
    return all;
}

/* One entry of a tar, with its contents. */
static inline void tar_add(struct buf *tar, enum tree_kind kind, const char *path, const char *text,
                           char type)
{
    struct str bytes = text ? str_of(text) : (struct str){0};
    struct node_entry entry = {
        .kind = kind,
        .mode = kind == TREE_SYMLINK     ? 0777
                : kind == TREE_DIRECTORY ? 0755
                                         : 0644,
        .uid = 7,
        .gid = 8,
        .mtime_ns = INT64_C(1234567890123456789),
        .size = kind == TREE_FILE && type != '1' ? bytes.len : 0,
        .target = kind == TREE_SYMLINK ? bytes : (struct str){0},
    };
    struct error err;

    if (!tar_header_put(&entry, str_of(path), type == '1' ? bytes : (struct str){0}, tar, &err))
        abort();
    if (type && type != '1') {
        /* Another type than a tree can have, with the sum that goes with it. */
        uint8_t *block = (uint8_t *)tar->bytes + tar->len - TAR_BLOCK;
        unsigned sum = 0;

        block[156] = (uint8_t)type;
        memset(block + 148, ' ', 8);
        for (size_t i = 0; i < TAR_BLOCK; i++)
            sum += block[i];
        snprintf((char *)block + 148, 8, "%06o", sum);
    }
    if (entry.size > 0 && (!buf_append(tar, bytes, &err) || !tar_pad_put(bytes.len, tar, &err)))
        abort();
}

static inline void tar_close(struct buf *tar)
{
    struct error err;

    if (!tar_end_put(tar, &err))
        abort();
}
