/* Files of a workspace through the API, without a guest: what is written is a version, and reads
 * back. */
#include "server/files_testing.h"

#include <pthread.h>

#include "blob/testing.h"

static bool write_some(struct desk *desk)
{
    return desk_put(desk, "a.txt", STR("hello\n")) == 200 &&
           desk_put(desk, "src/main.c", STR("int x;\n")) == 200 &&
           desk_put(desk, "src/deep/er/note.md", STR("# note\n")) == 200 &&
           desk_put(desk, "empty", STR("")) == 200;
}

SERVICE_TEST(a_workspace_without_a_version_has_no_files_to_read)
{
    struct desk desk;
    CHECK(desk_set(&desk, service));
    CHECK_STATUS(service, desk_get(&desk, ""), 409);
    CHECK_STR(service_text(service, "code"), "workspace_no_current_version");
    snprintf(desk.workspace, sizeof desk.workspace, "0190a000-0000-7000-8000-0000000000aa");
    CHECK_STATUS(service, desk_get(&desk, ""), 404);
    CHECK_STR(service_text(service, "code"), "workspace_not_found");
    CHECK_STATUS(service, desk_put(&desk, "x", STR("x")), 404);
    CHECK_STR(service_text(service, "code"), "workspace_not_found");
}

SERVICE_TEST(files_are_written_and_read_back)
{
    struct desk desk;
    CHECK(desk_set(&desk, service));
    CHECK_STATUS(service, desk_put(&desk, "a.txt", STR("hello\n")), 200);
    CHECK_STR(service_text(service, "entry.path"), "a.txt");
    CHECK(service_int(service, "entry.size_bytes") == 6 &&
          service_int(service, "entry.mode") == 0644);
    CHECK(strlen(service_text(service, "version_id")) == ID_LEN);
    CHECK(write_some(&desk));

    CHECK_STATUS(service, desk_get(&desk, ""), 200);
    CHECK_STR(desk_paths(&desk), "a.txt,empty,src,");
    CHECK_STATUS(service, desk_get(&desk, "?path=/src/&recursive=1"), 200);
    CHECK_STR(desk_paths(&desk), "src/deep,src/deep/er,src/deep/er/note.md,src/main.c,");
    CHECK_STATUS(service, desk_get(&desk, "?recursive=true&name=*.md"), 200);
    CHECK_STR(desk_paths(&desk), "src/deep/er/note.md,");
    CHECK_STATUS(service, desk_get(&desk, "?recursive=true&name=src/*"), 200);
    CHECK_STR(desk_paths(&desk), "src/deep,src/main.c,");
    CHECK_STATUS(service, desk_get(&desk, "/stat?path=src/deep"), 200);
    CHECK_STR(service_text(service, "type"), "directory");
    CHECK_STR(service_text(service, "name"), "deep");
    CHECK_STATUS(service, desk_get(&desk, "/stat"), 200);
    CHECK_STR(service_text(service, "type"), "directory");
    CHECK_STATUS(service, desk_get(&desk, "/content?path=src/main.c"), 200);
    CHECK(str_equal(desk_body(&desk), STR("int x;\n")));
    CHECK_STATUS(service, desk_get(&desk, "/content?path=empty"), 200);
    CHECK(desk_body(&desk).len == 0);
}

SERVICE_TEST(lists_come_in_pages)
{
    struct desk desk;
    CHECK(desk_set(&desk, service));
    CHECK(write_some(&desk));
    const char *seen = "", *cursor = "";
    for (int i = 0; i < 20; i++) {
        CHECK_STATUS(service,
                     desk_get(&desk, arena_printf(&service->arena, "?recursive=1&limit=2%s%s",
                                                  *cursor ? "&cursor=" : "", cursor)),
                     200);
        seen = arena_printf(&service->arena, "%s%s", seen, desk_paths(&desk));
        cursor = service_text(service, "next_cursor");
        if (!*cursor)
            break;
    }
    CHECK_STR(seen, "a.txt,empty,src,src/deep,src/deep/er,src/deep/er/note.md,src/main.c,");
    CHECK_STATUS(service, desk_get(&desk, "?cursor=!"), 400);
    CHECK_STR(service_text(service, "code"), "invalid_cursor");
    CHECK_STATUS(service, desk_get(&desk, "?limit=501"), 400);
}

SERVICE_TEST(parts_of_a_file_are_read_by_range)
{
    enum { LEN = 3 << 20 };
    struct desk desk;
    CHECK(desk_set(&desk, service));
    AUTO_FREE uint8_t *noise = alloc(LEN);
    test_noise(5, noise, LEN);
    struct str all = {(const char *)noise, LEN};
    CHECK_STATUS(service, desk_put(&desk, "noise", all), 200);
    CHECK_STATUS(service, desk_get(&desk, "/content?path=noise"), 200);
    CHECK(str_equal(desk_body(&desk), all));
    char etag[sizeof desk.etag];
    snprintf(etag, sizeof etag, "%s", desk.etag);
    CHECK(strlen(etag) == 66);

    static const struct {
        const char *range;
        int status;
        size_t first, len;
    } rows[] = {
        {"Range: bytes=0-0",              206, 0,       1      },
        {"Range: bytes=1000000-1999999",  206, 1000000, 1000000},
        {"Range: bytes=3145720-",         206, LEN - 8, 8      },
        {"Range: bytes=-5",               206, LEN - 5, 5      },
        {"Range: bytes=-99999999",        206, 0,       LEN    },
        {"Range: bytes=0-99999999999999", 206, 0,       LEN    },
        {"Range: bytes=2-1",              200, 0,       LEN    },
        {"Range: bytes=0-1,5-6",          200, 0,       LEN    },
        {"Range: lines=0-1",              200, 0,       LEN    },
        {"Range: bytes=3145728-",         416, 0,       0      },
        {"Range: bytes=-0",               416, 0,       0      },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        CHECK_STATUS(service,
                     desk_ask(&desk, "GET", "/content?path=noise", (struct str){0}, rows[i].range),
                     rows[i].status);
        if (rows[i].status == 416) {
            CHECK_STR(desk.content_range, "bytes */3145728");
            continue;
        }
        CHECK(str_equal(desk_body(&desk), (struct str){all.ptr + rows[i].first, rows[i].len}));
        CHECK((desk.content_range[0] != '\0') == (rows[i].status == 206));
    }
    const char *same = arena_printf(&service->arena, "If-None-Match: %s", etag);
    CHECK_STATUS(service, desk_ask(&desk, "GET", "/content?path=noise", (struct str){0}, same),
                 304);
}

SERVICE_TEST(what_is_not_there_or_of_another_kind_is_said_so)
{
    struct desk desk;
    CHECK(desk_set(&desk, service));
    CHECK(write_some(&desk));
    static const struct {
        const char *method, *rest, *body;
        int status;
        const char *code;
    } rows[] = {
        {"GET",    "/content?path=nothing",                            NULL,                                  404, "workspace_file_not_found"    },
        {"GET",    "/stat?path=a.txt/x",                               NULL,                                  404, "workspace_file_not_found"    },
        {"GET",    "/content?path=src",                                NULL,                                  409, "workspace_file_not_regular"  },
        {"GET",    "?path=a.txt",                                      NULL,                                  409, "workspace_file_not_directory"},
        {"GET",    "/archive?path=a.txt",                              NULL,                                  409, "workspace_file_not_directory"},
        {"GET",    "/stat?path=../etc",                                NULL,                                  400, "invalid_request"             },
        {"GET",    "?source=version",                                  NULL,                                  400, "invalid_request"             },
        {"GET",    "?source=else",                                     NULL,                                  400, "invalid_request"             },
        {"GET",    "?version_id=0190a000-0000-7000-8000-0000000000aa", NULL,                                  404,
         "workspace_version_not_found"                                                                                                           },
        {"GET",    "?source=live",                                     NULL,                                  409, "workspace_not_mounted"       },
        {"PUT",    "/content?path=src",                                "x",                                   409, "workspace_file_not_regular"  },
        {"PUT",    "/content?path=a.txt/x",                            "x",                                   409, "workspace_file_not_directory"},
        {"PUT",    "/content?path=",                                   "x",                                   400, "invalid_request"             },
        {"PUT",    "/content?path=x/../y",                             "x",                                   400, "invalid_request"             },
        {"PUT",    "/content?path=x&mode=9",                           "x",                                   400, "invalid_request"             },
        {"PUT",    "/content?path=x&mode=77777",                       "x",                                   400, "invalid_request"             },
        {"DELETE", "?path=nothing",                                    NULL,                                  404, "workspace_file_not_found"    },
        {"DELETE", "?path=src",                                        NULL,                                  409, "conflict"                    },
        {"DELETE", "?path=/",                                          NULL,                                  400, "invalid_request"             },
        {"POST",   "/move",                                            "{\"from\":\"no\",\"to\":\"x\"}",      404, "workspace_file_not_found"    },
        {"POST",   "/move",                                            "{\"from\":\"src\",\"to\":\"src/x\"}", 400, "invalid_request"             },
        {"POST",   "/move",                                            "{\"from\":\"src\",\"to\":\"a.txt\"}", 409,
         "workspace_file_not_directory"                                                                                                          },
        {"POST",   "/move",                                            "{\"from\":\"a.txt\",\"to\":\"src\"}", 409, "workspace_file_not_regular"  },
        {"POST",   "/directory",                                       "{\"path\":\"a.txt\"}",                409, "workspace_file_not_directory"},
        {"POST",   "/directory",                                       "{\"path\":\"x\",\"mode\":4096}",      400, "invalid_request"             },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct str body = rows[i].body ? str_of(rows[i].body) : (struct str){0};
        printf("# %s %s\n", rows[i].method, rows[i].rest);
        CHECK_STATUS(service, desk_ask(&desk, rows[i].method, rows[i].rest, body, NULL),
                     rows[i].status);
        CHECK_STR(service_text(service, "code"), rows[i].code);
    }
}

SERVICE_TEST(every_change_is_a_version_and_older_ones_stay)
{
    struct desk desk;
    CHECK(desk_set(&desk, service));
    CHECK_STATUS(service, desk_put(&desk, "dir/a", STR("one")), 200);
    const char *first = service_text(service, "version_id");
    CHECK_STATUS(service, desk_ask(&desk, "PUT", "/content?path=dir/a&mode=0755", STR("two"), NULL),
                 200);
    CHECK_STATUS(service, desk_put(&desk, "dir/a", STR("three")), 200);
    CHECK(service_int(service, "entry.mode") == 0755);
    CHECK_STATUS(service,
                 desk_ask(&desk, "POST", "/move", STR("{\"from\":\"dir\",\"to\":\"x/y\"}"), NULL),
                 200);
    CHECK_STATUS(service, desk_get(&desk, "?recursive=1"), 200);
    CHECK_STR(desk_paths(&desk), "x,x/y,x/y/a,");
    CHECK_STATUS(service,
                 desk_ask(&desk, "POST", "/directory", STR("{\"path\":\"new/one\"}"), NULL), 200);
    const char *made = service_text(service, "version_id");
    CHECK_STATUS(service,
                 desk_ask(&desk, "POST", "/directory", STR("{\"path\":\"new/one\"}"), NULL), 200);
    CHECK_STR(service_text(service, "version_id"), made);
    CHECK_STATUS(service, desk_ask(&desk, "DELETE", "?path=x&recursive=1", (struct str){0}, NULL),
                 200);
    CHECK_STATUS(service, desk_get(&desk, "?recursive=1"), 200);
    CHECK_STR(desk_paths(&desk), "new,new/one,");

    CHECK_STATUS(service,
                 desk_get(&desk,
                          arena_printf(&service->arena,
                                       "/content?path=dir/a&source=version&version_id=%s", first)),
                 200);
    CHECK(str_equal(desk_body(&desk), STR("one")));
}

static bool move_run(struct service *service, const char *run, const char *workspace)
{
    static const char sql[] = "UPDATE runs SET workspace_id = $2 WHERE id = $1";
    static const struct query query = {"test_move_run", 2, 0, SAME_ON_BOTH(sql)};
    struct error err;
    AUTO_TX tx = NULL;

    return store_begin(service->server->store, &tx, &err) &&
           STORE(tx, &query, NULL, NULL, &err, V_TEXT(run), V_TEXT(workspace)) &&
           store_commit(&tx, &err);
}

SERVICE_TEST(a_run_that_is_not_over_is_the_only_writer)
{
    struct desk desk;
    CHECK(desk_set(&desk, service));
    CHECK(write_some(&desk));
    const char *run = service_create_run(service, desk.key);
    CHECK(*run && move_run(service, run, desk.workspace));
    CHECK_STATUS(service, desk_put(&desk, "b.txt", STR("no")), 409);
    CHECK_STR(service_text(service, "code"), "workspace_writer_active");
    CHECK_STATUS(service, desk_get(&desk, "/content?path=a.txt"), 200);
}

struct writer {
    struct desk *desk;
    pthread_t thread;
    int number, failures;
};

enum { WRITERS = 4, WRITES = 6 };

static void *write_many(void *arg)
{
    struct writer *writer = arg;
    struct service *service = writer->desk->service;
    struct http_client *client;
    struct error err;
    AUTO(secret_finish) struct secret key = secret_create(str_of(writer->desk->key));

    if (!http_client_create(service->url, &client, &err))
        return NULL;
    http_client_set_bearer(client, &key);
    for (int i = 0; i < WRITES; i++) {
        struct http_answer answer = {.body.max = MIB(1)};
        char path[256];
        snprintf(path, sizeof path, "/api/workspaces/%s/files/content?path=w%d/%d",
                 writer->desk->workspace, writer->number, i);
        struct http_request request = {.method = "PUT", .path = path, .body = STR("x")};
        /* Too many at once may be told to come again. */
        do {
            answer.status = 0;
            answer.body.len = 0;
        } while (http_client_send(client, &request, &answer, &err) && answer.status == 409);
        writer->failures += answer.status != 200;
        buf_finish(&answer.body);
    }
    http_client_destroy(client);
    return NULL;
}

SERVICE_TEST(no_write_is_lost_among_several_writers)
{
    struct writer writers[WRITERS];
    struct desk desk;
    CHECK(desk_set(&desk, service));
    for (int i = 0; i < WRITERS; i++) {
        writers[i] = (struct writer){.desk = &desk, .number = i};
        CHECK(pthread_create(&writers[i].thread, NULL, write_many, &writers[i]) == 0);
    }
    for (int i = 0; i < WRITERS; i++)
        CHECK(pthread_join(writers[i].thread, NULL) == 0);
    for (int i = 0; i < WRITERS; i++)
        CHECK(writers[i].failures == 0);
    CHECK_STATUS(service, desk_get(&desk, "?recursive=1"), 200);
    CHECK(json_count(desk_body(&desk), "entries") == WRITERS * ((size_t)WRITES + 1));
}

TEST_MAIN()
