/* Differences of versions through the API: what two runs left, as their workers stored it. */
#include <fcntl.h>
#include <unistd.h>

#include "base/json.h"
#include "base/own.h"
#include "server/tree_testing.h"

static const struct sample first[] = {
    {TREE_FILE,      "changed.txt", "one\ntwo\nthree\n", 0644},
    {TREE_DIRECTORY, "empty",       NULL,                0755},
    {TREE_FILE,      "gone.txt",    "bye\n",             0644},
    {TREE_FILE,      "old-name",    "the same bytes\n",  0644},
    {TREE_DIRECTORY, "same",        NULL,                0755},
    {TREE_FILE,      "same/file",   "untouched\n",       0644},
    {TREE_FILE,      "tool.sh",     "#!/bin/sh\n",       0644},
    {TREE_FILE,      "turns",       "a file\n",          0644},
};

static const struct sample second[] = {
    {TREE_FILE, "binary", "a\001b", 0644},
    {TREE_FILE, "changed.txt", "one\n2\nthree\n", 0644},
    {TREE_FILE, "covered", "mine\n", 0644, true},
    {TREE_WHITEOUT, "from-image", NULL, 0},
    {TREE_DIRECTORY, "new", NULL, 0755},
    {TREE_FILE, "new/deep.txt", "hello", 0600},
    {TREE_SYMLINK, "new/link", "deep.txt", 0777},
    {TREE_FILE, "new-name", "the same bytes\n", 0644},
    {TREE_DIRECTORY, "same", NULL, 0755},
    {TREE_FILE, "same/file", "untouched\n", 0644},
    {TREE_FILE, "tool.sh", "#!/bin/sh\n", 0755},
    {TREE_SYMLINK, "turns", "changed.txt", 0777},
};

struct stage {
    struct test_worker worker;
    const char *key;
};

struct left {
    const char *run, *workspace, *version;
};

static bool set_stage(struct service *service, struct stage *stage)
{
    *stage =
        (struct stage){.key = service_make_key(service, OPERATOR ",\"workspace-versions:read\"")};
    return worker_join(&stage->worker, service, "one") &&
           service_build(service, &stage->worker, stage->key);
}

/* A run that succeeds and leaves these files. */
static bool leave(struct stage *stage, const struct sample *samples, size_t n, struct left *left)
{
    struct service *service = stage->worker.service;
    const char *version;
    char id[ID_TEXT];

    id_make(id);
    left->version = arena_text(&service->arena, str_of(id));
    left->run = service_start_run(service, stage->key, "hello", NULL);
    if (!worker_take(&stage->worker, "run") || lease_begin(&stage->worker) != 200 ||
        lease_start(&stage->worker) != 200 ||
        !(version = tree_version(&stage->worker, id, samples, n)) ||
        lease_report(&stage->worker, "succeeded", version) != 200)
        return false;
    left->workspace = run_text(service, stage->key, left->run, "workspace_id");
    return *left->workspace;
}

static int ask(struct stage *stage, const char *fmt, const char *id, const char *query)
{
    struct service *service = stage->worker.service;
    const char *path = arena_printf(&service->arena, "/api/%s/%s/diff%s", fmt, id, query);

    return service_ask(service, stage->key, "GET", path, NULL);
}

/* "added path" of every entry, one after the other. */
static const char *changes(struct service *service)
{
    const char *all = "";
    size_t n = json_count(buf_str(&service->answer.body), "entries");

    for (size_t i = 0; i < n; i++) {
        char name[64];
        snprintf(name, sizeof name, "entries.%zu.change", i);
        const char *change = service_text(service, name);
        snprintf(name, sizeof name, "entries.%zu.path", i);
        all = arena_printf(&service->arena, "%s%s%s %s", all, i ? ", " : "", change,
                           service_text(service, name));
    }
    return all;
}

SERVICE_TEST(a_run_shows_what_it_changed_since_it_began)
{
    struct stage stage;
    struct left left;
    CHECK(set_stage(service, &stage) && leave(&stage, second, COUNT_OF(second), &left));
    CHECK_STATUS(service, ask(&stage, "runs", left.run, ""), 200);
    CHECK_STR(service_text(service, "to_version_id"), left.version);
    CHECK_STR(service_text(service, "from_version_id"), "");
    CHECK_STR(changes(service),
              "added binary, added changed.txt, modified covered, deleted from-image, "
              "added new/deep.txt, added new/link, added new-name, "
              "added same/file, added tool.sh, added turns");
    CHECK_STR(service_text(service, "entries.3.type"), "other");
    CHECK_STR(service_text(service, "entries.5.type"), "symlink");
    CHECK(service_int(service, "entries.4.size_after") == 5);
    CHECK(service_int(service, "entries.4.mode_after") == 0600);
}

SERVICE_TEST(two_versions_differ_in_every_way_a_path_can)
{
    struct stage stage;
    struct left before, after;
    CHECK(set_stage(service, &stage) && leave(&stage, first, COUNT_OF(first), &before) &&
          leave(&stage, second, COUNT_OF(second), &after));
    const char *query =
        arena_printf(&service->arena, "?from=%s&to=%s&patch=1", before.version, after.version);
    CHECK_STATUS(service, ask(&stage, "workspaces", after.workspace, query), 200);
    CHECK_STR(
        changes(service),
        "added binary, modified changed.txt, modified covered, deleted empty, deleted from-image, "
        "deleted gone.txt, added new/deep.txt, added new/link, renamed new-name, "
        "mode_changed tool.sh, type_changed turns");
    CHECK_STR(service_text(service, "entries.1.patch"),
              "--- a/changed.txt\n+++ b/changed.txt\n@@ -1,3 +1,3 @@\n one\n-two\n+2\n three\n");
    CHECK_STR(service_text(service, "entries.5.patch"),
              "--- a/gone.txt\n+++ /dev/null\n@@ -1,1 +0,0 @@\n-bye\n");
    CHECK_STR(service_text(service, "entries.6.patch"),
              "--- /dev/null\n+++ b/new/deep.txt\n@@ -0,0 +1,1 @@\n+hello\n"
              "\\ No newline at end of file\n");
    CHECK(service_says(service, "\"binary\":true"));
    CHECK_STR(service_text(service, "entries.8.path_before"), "old-name");
    CHECK(service_int(service, "entries.9.mode_before") == 0644);
    CHECK(service_int(service, "entries.9.mode_after") == 0755);
    CHECK_STR(service_text(service, "entries.9.patch"), "");
}

SERVICE_TEST(pages_and_paths_narrow_a_difference)
{
    struct stage stage;
    struct left left;
    CHECK(set_stage(service, &stage) && leave(&stage, second, COUNT_OF(second), &left));
    CHECK_STATUS(service, ask(&stage, "runs", left.run, "?path=/new/"), 200);
    CHECK_STR(changes(service), "added new/deep.txt, added new/link");
    CHECK_STATUS(service, ask(&stage, "runs", left.run, "?limit=4"), 200);
    CHECK_STR(changes(service),
              "added binary, added changed.txt, modified covered, deleted from-image");
    const char *next =
        arena_printf(&service->arena, "?limit=4&cursor=%s", service_text(service, "next_cursor"));
    CHECK_STATUS(service, ask(&stage, "runs", left.run, next), 200);
    CHECK_STR(changes(service),
              "added new/deep.txt, added new/link, added new-name, added same/file");
    next =
        arena_printf(&service->arena, "?limit=4&cursor=%s", service_text(service, "next_cursor"));
    CHECK_STATUS(service, ask(&stage, "runs", left.run, next), 200);
    CHECK_STR(changes(service), "added tool.sh, added turns");
    CHECK_STR(service_text(service, "next_cursor"), "");
    CHECK_STATUS(service, ask(&stage, "runs", left.run, "?cursor=!"), 400);
    CHECK_STR(service_text(service, "code"), "invalid_cursor");
}

SERVICE_TEST(what_has_no_version_differs_in_nothing)
{
    struct stage stage;
    CHECK(set_stage(service, &stage));
    const char *run = service_start_run(service, stage.key, "hello", NULL);
    CHECK_STATUS(service, ask(&stage, "runs", run, ""), 200);
    CHECK_STR(changes(service), "");
    CHECK_STATUS(service, ask(&stage, "runs", run, "?to=live"), 409);
    CHECK_STR(service_text(service, "code"), "workspace_not_mounted");
    CHECK_STATUS(service,
                 ask(&stage, "runs", run,
                     "?to="
                     "0190a000-0000-7000-8000-0000000000aa"),
                 404);
    CHECK_STATUS(service, ask(&stage, "runs", run, "?to=nothing"), 400);
    CHECK_STATUS(service, ask(&stage, "workspaces", "0190a000-0000-7000-8000-0000000000aa", ""),
                 404);
}

SERVICE_TEST(versions_of_another_environment_are_not_there)
{
    struct stage stage;
    struct left left;
    CHECK(set_stage(service, &stage) && leave(&stage, first, COUNT_OF(first), &left));
    CHECK(service_sign_in(service));
    const char *path =
        arena_printf(&service->arena, "/api/projects/default/environments/staging/runs/%s/diff",
                     left.run);
    CHECK_STATUS(service, service_ask(service, service->session, "GET", path, NULL), 404);
}

/* One bit of every file of the store that is a manifest. */
static bool damage_manifests(struct service *service)
{
    static const char sql[] = "SELECT id FROM objects WHERE class = 'manifest'";
    static const struct query query = {"test_manifests", 0, 1, SAME_ON_BOTH(sql)};
    struct rows rows;
    struct error err;
    AUTO_TX tx = NULL;

    if (!store_begin_read(service->server->store, &tx, &err) ||
        !store_run(tx, &query, NULL, 0, &service->arena, &rows, &err))
        return false;
    for (size_t i = 0; i < rows.n_rows; i++) {
        const char *id = row_text(&rows, i, 0);
        AUTO_FD int fd =
            open(arena_printf(&service->arena, "%s/store/blobs/%.2s/%s", service->data_dir, id, id),
                 O_RDWR | O_CLOEXEC);
        char byte;
        if (fd < 0 || pread(fd, &byte, 1, SEAL_HEADER_LEN + SEAL_HEAD_LEN + 1) != 1)
            return false;
        byte ^= 1;
        if (pwrite(fd, &byte, 1, SEAL_HEADER_LEN + SEAL_HEAD_LEN + 1) != 1)
            return false;
    }
    return rows.n_rows > 0;
}

SERVICE_TEST(a_damaged_version_is_told_and_not_shown)
{
    struct stage stage;
    struct left left;
    CHECK(set_stage(service, &stage) && leave(&stage, first, COUNT_OF(first), &left));
    CHECK_STATUS(service, ask(&stage, "runs", left.run, ""), 200);
    CHECK(damage_manifests(service));
    CHECK_STATUS(service, ask(&stage, "runs", left.run, ""), 500);
    CHECK_STR(service_text(service, "code"), "object_damaged");
    CHECK(damage_manifests(service));
    CHECK_STATUS(service, ask(&stage, "runs", left.run, ""), 200);
    const char *manifest = object_id(service, "no manifest at all");
    CHECK_STR(worker_put(&stage.worker, "no manifest at all"), manifest);
    static const char sql[] = "UPDATE versions SET manifest_id = $1";
    static const struct query swap = {"test_swap", 1, 0, SAME_ON_BOTH(sql)};
    CHECK(service_change(service, &swap, &V_TEXT(manifest), 1, 1));
    CHECK_STATUS(service, ask(&stage, "runs", left.run, ""), 500);
}

TEST_MAIN()
