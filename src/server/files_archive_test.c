/* Trees of files up and down as one tar, and what is refused of one. */
#include "server/files_testing.h"

#include "blob/testing.h"
#include "server/worker_testing.h"

enum { TAR_MAX = 16 << 20 };

static int put_tar(struct desk *desk, const char *query, const struct buf *tar)
{
    return desk_ask(desk, "PUT", arena_printf(&desk->service->arena, "/archive%s", query),
                    buf_str(tar), NULL);
}

/* Names over 100 bytes, links of both kinds, a pipe, an owner, a time with a fraction. */
static void make_tree(struct buf *tar)
{
    char name[160];

    snprintf(name, sizeof name, "%0150d", 7);
    tar_add(tar, TREE_FILE, name, "long name\n", 0);
    tar_add(tar, TREE_FILE, "a.txt", "hello\n", 0);
    tar_add(tar, TREE_DIRECTORY, "dir", NULL, 0);
    tar_add(tar, TREE_FILE, "dir/again", "a.txt", '1');
    tar_add(tar, TREE_SYMLINK, "dir/link", "../../outside", 0);
    tar_add(tar, TREE_FIFO, "dir/pipe", NULL, 0);
    tar_add(tar, TREE_FILE, "dir/\xc3\xa4.txt", "umlaut\n", 0);
    tar_close(tar);
}

SERVICE_TEST(a_tree_goes_up_and_comes_down_byte_for_byte)
{
    AUTO(buf_finish) struct buf tar = {.max = TAR_MAX};
    AUTO(buf_finish) struct buf down = {.max = TAR_MAX};
    struct desk desk;
    struct error err;
    CHECK(desk_set(&desk, service));
    make_tree(&tar);
    CHECK_STATUS(service, put_tar(&desk, "", &tar), 200);
    CHECK_STATUS(service, desk_get(&desk, "/stat?path=dir/link"), 200);
    CHECK_STR(service_text(service, "target"), "../../outside");
    CHECK_STATUS(service, desk_get(&desk, "/content?path=dir/again"), 200);
    CHECK(str_equal(desk_body(&desk), STR("hello\n")));
    CHECK_STATUS(service, desk_get(&desk, "/stat?path=a.txt"), 200);
    CHECK_STR(service_text(service, "mtime"), "2009-02-13T23:31:30.123Z");
    CHECK_STATUS(service, desk_get(&desk, "/content?path=dir/link/x"), 404);

    /* Entries are sorted, as those of the test are, and nothing else differs. */
    CHECK_STATUS(service, desk_get(&desk, "/archive"), 200);
    CHECK(str_equal(desk_body(&desk), buf_str(&tar)));
    CHECK(buf_append(&down, desk_body(&desk), &err));
    CHECK_STATUS(service, put_tar(&desk, "?path=copy/of/it", &down), 200);
    CHECK_STATUS(service, desk_get(&desk, "/archive?path=copy/of/it"), 200);
    CHECK(str_equal(desk_body(&desk), buf_str(&tar)));
}

SERVICE_TEST(an_archive_merges_with_what_is_there)
{
    AUTO(buf_finish) struct buf tar = {.max = TAR_MAX};
    struct desk desk;
    CHECK(desk_set(&desk, service));
    CHECK_STATUS(service, desk_put(&desk, "dir/kept", STR("kept")), 200);
    CHECK_STATUS(service, desk_put(&desk, "dir/link", STR("becomes a link")), 200);
    make_tree(&tar);
    CHECK_STATUS(service, put_tar(&desk, "?owners=inherit", &tar), 200);
    CHECK_STATUS(service, desk_get(&desk, "?path=dir"), 200);
    CHECK_STR(desk_paths(&desk), "dir/again,dir/kept,dir/link,dir/pipe,dir/\xc3\xa4.txt,");
    CHECK_STATUS(service, desk_get(&desk, "/stat?path=dir/link"), 200);
    CHECK_STR(service_text(service, "type"), "symlink");
}

SERVICE_TEST(nothing_of_a_bad_archive_becomes_a_version)
{
    struct desk desk;
    CHECK(desk_set(&desk, service));
    CHECK_STATUS(service, desk_put(&desk, "kept/file", STR("here")), 200);
    static const struct {
        enum tree_kind kind;
        const char *path, *text;
        char type;
        int status;
        const char *code;
    } rows[] = {
        {TREE_FILE, "../out",      "x",           0,   400, "archive_invalid"             },
        {TREE_FILE, "a/../../out", "x",           0,   400, "archive_invalid"             },
        {TREE_FILE, "/etc/passwd", "x",           0,   400, "archive_invalid"             },
        {TREE_FILE, "dev",         NULL,          '3', 400, "archive_invalid"             },
        {TREE_FILE, "disk",        NULL,          '4', 400, "archive_invalid"             },
        {TREE_FILE, "hard",        "../secret",   '1', 400, "archive_invalid"             },
        {TREE_FILE, "hard",        "/etc/shadow", '1', 400, "archive_invalid"             },
        {TREE_FILE, "hard",        "not-there",   '1', 400, "archive_invalid"             },
        {TREE_FILE, "hard",        "kept",        '1', 400, "archive_invalid"             },
        {TREE_FILE, "kept",        "x",           0,   409, "workspace_file_not_regular"  },
        {TREE_FILE, "kept/file/x", "x",           0,   409, "workspace_file_not_directory"},
        {TREE_FILE, "trap/x",      "x",           0,   409, "workspace_file_not_directory"},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        AUTO(buf_finish) struct buf tar = {.max = TAR_MAX};

        tar_add(&tar, TREE_FILE, "fine", "this one is fine", 0);
        tar_add(&tar, TREE_SYMLINK, "trap", "/etc", 0);
        tar_add(&tar, rows[i].kind, rows[i].path, rows[i].text, rows[i].type);
        tar_close(&tar);
        printf("# %s\n", rows[i].path);
        CHECK_STATUS(service, put_tar(&desk, "", &tar), rows[i].status);
        CHECK_STR(service_text(service, "code"), rows[i].code);
        CHECK_STATUS(service, desk_get(&desk, "?recursive=1"), 200);
        CHECK_STR(desk_paths(&desk), "kept,kept/file,");
    }
}

SERVICE_TEST(what_is_no_archive_or_not_all_of_one_is_refused)
{
    AUTO(buf_finish) struct buf tar = {.max = TAR_MAX};
    struct desk desk;
    CHECK(desk_set(&desk, service));
    CHECK_STATUS(service, desk_ask(&desk, "PUT", "/archive", STR("not a tar"), NULL), 400);
    CHECK_STR(service_text(service, "code"), "archive_invalid");
    CHECK_STATUS(service, desk_ask(&desk, "PUT", "/archive", STR(""), NULL), 400);
    AUTO_FREE char *text = alloc(20001);
    memset(text, 'x', 20000);
    text[20000] = '\0';
    tar_add(&tar, TREE_FILE, "half", text, 0);
    tar.len -= 10000;
    CHECK_STATUS(service, put_tar(&desk, "", &tar), 400);
    CHECK_STR(service_text(service, "code"), "archive_invalid");
    CHECK_STATUS(service, desk_get(&desk, ""), 409);
}

/* Every object of the store gets a flipped byte. */
static void damage_all(struct service *service)
{
    char command[256];

    snprintf(command, sizeof command,
             "find %s/store -type f -size +0 | while read f; do "
             "printf '\\377\\001' | dd of=\"$f\" bs=1 seek=200 conv=notrunc status=none; done",
             service->data_dir);
    if (system(command) != 0)
        abort();
}

SERVICE_TEST(a_damaged_store_is_said_to_be_that)
{
    struct desk desk;
    CHECK(desk_set(&desk, service));
    CHECK_STATUS(service, desk_put(&desk, "a.txt", STR("hello\n")), 200);
    damage_all(service);
    static const char *const routes[] = {"", "/stat?path=a.txt", "/content?path=a.txt", "/archive"};
    for (size_t i = 0; i < COUNT_OF(routes); i++) {
        CHECK_STATUS(service, desk_get(&desk, routes[i]), 500);
        CHECK_STR(service_text(service, "code"), "object_damaged");
    }
    CHECK_STATUS(service, desk_put(&desk, "b.txt", STR("x")), 500);
    CHECK_STR(service_text(service, "code"), "object_damaged");
}

TEST_MAIN()
