/* Objects at rest: sealed, read back, found damaged, sealed anew. */
#include "server/object_store.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/own.h"
#include "server/collect.h"
#include "server/reseal.h"
#include "server/service_suite.h"
#include "server/worker_testing.h"
#include "store/queries.h"

#define TEXT "the quick brown fox jumps over the lazy dog, and the dog does not mind at all"

enum { LARGE = 3 * 1024 * 1024 };

/* The collector would seal what a test makes plain. */
static bool join(struct test_worker *worker, struct service *service)
{
    collector_stop(service->server->collector);
    service->server->collector = NULL;
    return worker_join(worker, service, "one");
}

static const char *path_of(struct service *service, const char *id)
{
    return arena_printf(&service->arena, "%s/store/blobs/%.2s/%s", service->data_dir, id, id);
}

static bool file_of(struct service *service, const char *id, struct str *bytes)
{
    struct error err;
    struct stat facts;
    char *text = NULL;

    if (stat(path_of(service, id), &facts) != 0 ||
        !file_read(path_of(service, id), (size_t)facts.st_size, &text, &err))
        return false;
    char *copy = arena_alloc(&service->arena, (size_t)facts.st_size + 1);
    memcpy(copy, text, (size_t)facts.st_size);
    free(text);
    *bytes = (struct str){copy, (size_t)facts.st_size};
    return true;
}

static bool has_text(struct str bytes, const char *text)
{
    return memmem(bytes.ptr, bytes.len, text, strlen(text)) != NULL;
}

static bool is_sealed_file(struct service *service, const char *id)
{
    struct str bytes;

    return file_of(service, id, &bytes) && bytes.len > SEAL_HEADER_LEN &&
           memcmp(bytes.ptr, "HLMRSO01", 8) == 0;
}

static bool flip(struct service *service, const char *id, off_t offset)
{
    AUTO_FD int fd = open(path_of(service, id), O_RDWR | O_CLOEXEC);
    char byte;

    if (fd < 0 || pread(fd, &byte, 1, offset) != 1)
        return false;
    byte ^= 1;
    return pwrite(fd, &byte, 1, offset) == 1;
}

/* As an installation from before has it: the bytes themselves, and a row that knows of no key. */
static bool make_plain(struct service *service, const char *id, struct str bytes)
{
    static const struct query forget = {
        "test_forget_key", 1, 0,
        SAME_ON_BOTH("UPDATE objects SET key_id = NULL, class = 'blob', domain = 'store', "
                     "stored_bytes = NULL WHERE id = $1")};
    const struct value params[] = {V_TEXT(id)};
    struct error err;

    return file_publish(path_of(service, id), bytes, 0600, &err) &&
           service_change(service, &forget, params, 1, 1);
}

static const char *column(struct service *service, const char *id, const char *name)
{
    const char *sql =
        arena_printf(&service->arena, "SELECT coalesce(%s, '') FROM objects WHERE id = $1", name);
    const struct query *query = arena_alloc(&service->arena, sizeof *query);
    struct rows rows;
    struct error err;
    AUTO_TX tx = NULL;

    *(struct query *)query = (struct query){name, 1, 1, sql, sql};
    if (!store_begin_read(service->server->store, &tx, &err) ||
        !STORE(tx, query, &service->arena, &rows, &err, V_TEXT(id)) || rows.n_rows != 1)
        return "?";
    return row_text(&rows, 0, 0);
}

/* A sealed object of one record, in memory. */
static bool seal(struct service *service, enum seal_class class, bool is_foreign, int *fd,
                 struct seal_facts *facts)
{
    AUTO(key_ring_finish) struct key_ring ring = {0};
    AUTO(seal_writer_finish) struct seal_writer writer = {0};
    const struct seal_plan plan = {.keys = &ring.keys, .class = class};
    static const char strange[SEAL_KEY_LEN] = "a key that nobody here has heard";
    struct error err;

    *fd = memfd_create("object", MFD_CLOEXEC);
    if (is_foreign) {
        key_ring_init(&ring, SEAL_STORE);
        if (!key_ring_add(&ring, (struct str){strange, sizeof strange}, &err))
            return false;
    } else if (!keys_ring(&service->server->keys, &ring, &err)) {
        return false;
    }
    if (!seal_writer_begin(&writer, &plan, seal_sink_fd(fd), &err) ||
        !seal_writer_record(&writer, STR(TEXT), SEAL_LAST, &err))
        return false;
    seal_writer_facts(&writer, facts);
    return true;
}

/* The status of a PUT of these bytes as that class. */
static int put_as(struct test_worker *worker, struct str bytes, const char *class, const char *id)
{
    struct arena *arena = &worker->service->arena;
    const char *const headers[] = {arena_printf(arena, "Helmr-Object-Class: %s", class), NULL};
    const struct http_request request = {
        .method = "PUT",
        .path = arena_printf(arena, "/api/worker/objects/%s", id),
        .content_type = "application/octet-stream",
        .headers = headers,
        .body = bytes,
    };

    return service_send(worker->service, worker->bearer, &request);
}

static struct str bytes_of(struct service *service, int fd)
{
    struct stat facts;

    if (fstat(fd, &facts) != 0)
        return (struct str){0};
    char *bytes = arena_alloc(&service->arena, (size_t)facts.st_size);
    if (pread(fd, bytes, (size_t)facts.st_size, 0) != facts.st_size)
        return (struct str){0};
    return (struct str){bytes, (size_t)facts.st_size};
}

static const char *large_text(struct service *service)
{
    char *text = arena_alloc(&service->arena, LARGE + 1);

    for (size_t i = 0; i < LARGE; i++)
        text[i] = (char)('a' + (i * i / 7 + i / 4096) % 26);
    text[LARGE] = '\0';
    return text;
}

SERVICE_TEST(a_blob_lies_sealed_and_comes_back_as_it_was)
{
    struct test_worker worker;
    struct str file;
    CHECK(join(&worker, service));
    const char *id = worker_put(&worker, TEXT), *large = large_text(service);
    CHECK(*id && file_of(service, id, &file) && is_sealed_file(service, id));
    CHECK(!has_text(file, "quick") && !has_text(file, "lazy"));
    CHECK_STR(column(service, id, "key_id"), service->server->keys.ids[KEY_STORE]);
    CHECK(worker_ask_object(&worker, "GET", id) == 200);
    CHECK(str_equal(buf_str(&service->answer.body), STR(TEXT)));

    const char *of_large = worker_put(&worker, large), *of_nothing = worker_put(&worker, "");
    CHECK(*of_large && *of_nothing);
    CHECK(worker_ask_object(&worker, "GET", of_large) == 200);
    CHECK(str_equal(buf_str(&service->answer.body), str_of(large)));
    CHECK(worker_ask_object(&worker, "GET", of_nothing) == 200);
    CHECK(service->answer.body.len == 0);
    CHECK(worker_ask_object(&worker, "HEAD", of_large) == 200);
}

SERVICE_TEST(a_source_lies_sealed_too)
{
    struct test_worker worker;
    const char *key = service_make_key(service, "\"tasks:deploy\"");
    CHECK(join(&worker, service));
    CHECK(*service_upload(service, key) && worker_take(&worker, "build"));
    const char *source = service_text(service, "grants.0.build.source.digest");
    int64_t size = service_int(service, "grants.0.build.source.size");
    CHECK(is_sealed_file(service, source));
    CHECK(worker_ask_object(&worker, "GET", source) == 200);
    CHECK((int64_t)service->answer.body.len == size);
    char real[SHA256_HEX];
    sha256_of(buf_str(&service->answer.body), real);
    CHECK_STR(real, source);
}

SERVICE_TEST(what_a_worker_sealed_is_kept_as_it_is)
{
    struct test_worker worker;
    struct seal_facts facts;
    struct error err;
    struct str file;
    AUTO_FD int fd = -1;
    CHECK(join(&worker, service) && seal(service, SEAL_PACK, false, &fd, &facts));
    CHECK(worker_put_sealed(&worker, &facts, fd, &err));
    struct str bytes = bytes_of(service, fd);
    CHECK(file_of(service, facts.digest, &file) && str_equal(file, bytes));
    CHECK_STR(column(service, facts.digest, "class"), "pack");
    CHECK_STR(column(service, facts.digest, "key_id"), facts.key_id);
    CHECK(worker_ask_object(&worker, "GET", facts.digest) == 200);
    CHECK(str_equal(buf_str(&service->answer.body), bytes));

    /* Its file must not become another's form. */
    CHECK_STATUS(service, put_as(&worker, bytes, "manifest", facts.digest), 400);
    const struct http_request plain = {
        .method = "PUT",
        .path = arena_printf(&service->arena, "/api/worker/objects/%s", facts.digest),
        .content_type = "application/octet-stream",
        .body = bytes,
    };
    CHECK_STATUS(service, service_send(service, worker.bearer, &plain), 409);
    CHECK(file_of(service, facts.digest, &file) && str_equal(file, bytes));
}

SERVICE_TEST(a_worker_is_not_believed_what_it_sealed)
{
    struct test_worker worker;
    struct seal_facts facts;
    AUTO_FD int fd = -1, foreign = -1;
    CHECK(join(&worker, service));
    const char *id = object_id(service, TEXT);
    CHECK_STATUS(service, put_as(&worker, STR(TEXT), "pack", id), 400);
    CHECK_STATUS(service, put_as(&worker, STR(TEXT), "blob", id), 400);
    CHECK(seal(service, SEAL_BLOB, false, &fd, &facts));
    CHECK_STATUS(service, put_as(&worker, bytes_of(service, fd), "pack", facts.digest), 400);
    CHECK(seal(service, SEAL_PACK, true, &foreign, &facts));
    CHECK_STATUS(service, put_as(&worker, bytes_of(service, foreign), "pack", facts.digest), 400);
    CHECK(!blob_has(service->server->blobs, facts.digest));
    CHECK(!blob_has(service->server->blobs, id));
}

SERVICE_TEST(a_file_from_before_is_read_and_then_sealed)
{
    struct test_worker worker;
    struct seal_facts facts;
    struct error err;
    struct str sealed;
    AUTO_FD int fd = -1;
    CHECK(join(&worker, service));
    const char *id = worker_put(&worker, TEXT), *large = large_text(service);
    const char *of_large = worker_put(&worker, large);
    CHECK(*id && *of_large && file_of(service, id, &sealed));
    CHECK(make_plain(service, id, STR(TEXT)) && make_plain(service, of_large, str_of(large)));
    CHECK(seal(service, SEAL_MANIFEST, false, &fd, &facts));
    CHECK(worker_put_sealed(&worker, &facts, fd, &err));
    CHECK(make_plain(service, facts.digest, bytes_of(service, fd)));
    CHECK(worker_ask_object(&worker, "GET", id) == 200 && service_says(service, TEXT));
    CHECK(worker_ask_object(&worker, "GET", of_large) == 200);
    CHECK(str_equal(buf_str(&service->answer.body), str_of(large)));

    CHECK(reseal_all(service->server, NULL));
    CHECK(is_sealed_file(service, id) && is_sealed_file(service, of_large));
    CHECK_STR(column(service, id, "key_id"), service->server->keys.ids[KEY_STORE]);
    CHECK_STR(column(service, facts.digest, "class"), "manifest");
    CHECK(worker_ask_object(&worker, "GET", id) == 200 && service_says(service, TEXT));
    CHECK(worker_ask_object(&worker, "GET", of_large) == 200);
    CHECK(str_equal(buf_str(&service->answer.body), str_of(large)));

    /* Killed after the file took its place and before its row knew. */
    CHECK(make_plain(service, id, sealed));
    CHECK(worker_ask_object(&worker, "GET", id) == 200 && service_says(service, TEXT));
    CHECK(reseal_all(service->server, NULL));
    CHECK(worker_ask_object(&worker, "GET", id) == 200 && service_says(service, TEXT));
}

static bool stop_at_once(void *arg, size_t n_bytes UNUSED)
{
    (*(int *)arg)++;
    return false;
}

SERVICE_TEST(sealing_anew_can_be_stopped_and_leaves_what_was_there)
{
    struct test_worker worker;
    int calls = 0;
    const struct reseal_pace pace = {stop_at_once, &calls};
    CHECK(join(&worker, service));
    const char *id = worker_put(&worker, TEXT);
    CHECK(*id && make_plain(service, id, STR(TEXT)));
    CHECK(!reseal_all(service->server, &pace) && calls == 1);
    CHECK(!is_sealed_file(service, id));
    CHECK(worker_ask_object(&worker, "GET", id) == 200 && service_says(service, TEXT));
}

SERVICE_TEST(damage_is_told_as_that_and_mended_by_storing_again)
{
    struct test_worker worker;
    CHECK(join(&worker, service));
    const char *id = worker_put(&worker, TEXT);
    CHECK(*id && flip(service, id, SEAL_HEADER_LEN + SEAL_HEAD_LEN + 3));
    CHECK(worker_ask_object(&worker, "HEAD", id) == 200);
    for (int i = 0; i < 2; i++) {
        CHECK_STATUS(service, worker_ask_object(&worker, "GET", id), 500);
        CHECK_STR(service_text(service, "code"), "object_damaged");
    }
    CHECK(worker_ask_object(&worker, "HEAD", id) == 404);
    CHECK(*worker_put(&worker, TEXT));
    CHECK(worker_ask_object(&worker, "HEAD", id) == 200);
    CHECK(worker_ask_object(&worker, "GET", id) == 200 && service_says(service, TEXT));

    /* It had only been misread. */
    CHECK(flip(service, id, 0) && worker_ask_object(&worker, "GET", id) == 500);
    CHECK(flip(service, id, 0) && worker_ask_object(&worker, "GET", id) == 200);
    CHECK(worker_ask_object(&worker, "HEAD", id) == 200);
}

/* The answer has begun when it is found: it breaks off, and the next one says why. */
SERVICE_TEST(damage_further_in_breaks_the_answer_and_is_told_the_next_time)
{
    struct test_worker worker;
    struct str file;
    CHECK(join(&worker, service));
    const char *id = worker_put(&worker, large_text(service));
    CHECK(*id && file_of(service, id, &file) && flip(service, id, (off_t)file.len - 1));
    CHECK(worker_ask_object(&worker, "GET", id) == -1);
    CHECK_STATUS(service, worker_ask_object(&worker, "GET", id), 500);
    CHECK_STR(service_text(service, "code"), "object_damaged");

    CHECK(make_plain(service, id, STR("something else")));
    CHECK(reseal_all(service->server, NULL) && !is_sealed_file(service, id));
    CHECK_STATUS(service, worker_ask_object(&worker, "GET", id), 500);
}

TEST_MAIN()
