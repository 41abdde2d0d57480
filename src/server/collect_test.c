/* What nothing needs goes, in two steps; what a deployment, a run or a step needs stays. */
#include "server/collect.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "base/own.h"
#include "base/time.h"
#include "protocol/worker_api.h"
#include "server/object_refs.h"
#include "server/service_suite.h"
#include "server/worker_testing.h"
#include "store/queries.h"

/* Time passes by moving what is written down about it. */
#define AGE(name, n, sql) static const struct query name = {"test_" #name, n, 0, SAME_ON_BOTH(sql)}

AGE(day, 0, "UPDATE objects SET ready_ms = ready_ms - 90000000");
AGE(hour, 0, "UPDATE objects SET dead_ms = dead_ms - 3700000 WHERE dead_ms IS NOT NULL");
AGE(week, 0, "UPDATE deployments SET failed_ms = failed_ms - 605000000");
AGE(steps_week, 0, "UPDATE image_steps SET used_ms = used_ms - 605000000");
AGE(steps_month, 0, "UPDATE image_steps SET used_ms = used_ms - 2700000000");

static bool pass(struct service *service, const struct query *query)
{
    struct error err;
    AUTO_TX tx = NULL;

    return store_begin(service->server->store, &tx, &err) &&
           store_run(tx, query, NULL, 0, NULL, NULL, &err) && store_commit(&tx, &err);
}

/* All the time there is: whatever may go, goes. */
static bool collect_all(struct service *service)
{
    return pass(service, &day) && !collect_some(service->server) && pass(service, &hour) &&
           !collect_some(service->server);
}

static bool has_file(struct service *service, const char *id)
{
    return blob_has(service->server->blobs, id);
}

struct stage {
    struct test_worker worker;
    const char *key;
};

static bool set_stage(struct service *service, struct stage *stage)
{
    *stage = (struct stage){.key = service_make_key(service, OPERATOR)};
    collector_stop(service->server->collector);
    service->server->collector = NULL;
    return worker_join(&stage->worker, service, "one");
}

static bool set_building(struct service *service, struct stage *stage)
{
    return set_stage(service, stage) && *service_upload(service, stage->key) &&
           worker_take(&stage->worker, "build") && lease_begin(&stage->worker) == 200 &&
           lease_start(&stage->worker) == 200;
}

/* The fence is in the body alone. */
static int record(struct test_worker *worker, const char *step, const char *object)
{
    struct arena *arena = &worker->service->arena;

    return worker_post(
        worker, "images/record",
        arena_printf(arena,
                     "{\"fence\":{\"epoch\":%lld,\"lease_id\":\"%s\",\"sequence\":%lld},"
                     "\"step_digest\":\"%s\",\"layer\":{\"digest\":\"sha256:%s\","
                     "\"diff_id\":\"sha256:%064d\",\"size\":1}}",
                     (long long)worker->epoch, worker->lease, (long long)worker->sequence, step,
                     object, 0));
}

SERVICE_TEST(what_nothing_needs_dies_after_a_day_and_goes_an_hour_later)
{
    struct stage stage;
    CHECK(set_stage(service, &stage));
    const char *id = worker_put(&stage.worker, "nobody needs this");
    CHECK(*id && !collect_some(service->server));
    CHECK(worker_ask_object(&stage.worker, "HEAD", id) == 200);

    CHECK(pass(service, &day) && !collect_some(service->server));
    CHECK(has_file(service, id));
    CHECK(worker_ask_object(&stage.worker, "HEAD", id) == 404);
    CHECK(worker_ask_object(&stage.worker, "GET", id) == 404);
    CHECK(!collect_some(service->server) && has_file(service, id));

    CHECK(pass(service, &hour) && !collect_some(service->server));
    CHECK(!has_file(service, id));
    CHECK(*worker_put(&stage.worker, "nobody needs this"));
    CHECK(worker_ask_object(&stage.worker, "GET", id) == 200);
    CHECK(service_says(service, "nobody needs this"));
}

SERVICE_TEST(what_a_deployment_needs_stays)
{
    struct stage stage;
    CHECK(set_stage(service, &stage));
    CHECK(service_build(service, &stage.worker, stage.key));
    const char *waiting = service_upload(service, stage.key);
    const char *spare = worker_put(&stage.worker, "spare");
    for (int i = 0; i < 3; i++)
        CHECK(collect_all(service));
    CHECK(!has_file(service, spare));
    CHECK(has_file(service, object_id(service, "the bundle")));
    CHECK(has_file(service, object_id(service, "the manifest of an image")));

    /* One that waits is built, and one that is deployed is run, as if no time had passed. */
    CHECK(worker_take(&stage.worker, "build"));
    CHECK_STR(stage.worker.subject, waiting);
    const char *source = service_text(service, "grants.0.build.source.digest");
    CHECK(worker_ask_object(&stage.worker, "GET", source) == 200);
    CHECK_STATUS(service, lease_begin(&stage.worker), 200);
    CHECK(*service_start_run(service, stage.key, "hello", NULL) &&
          worker_take(&stage.worker, "run"));
    const char *image = service_text(service, "grants.0.run.sandbox.image");
    const char *bundle = service_text(service, "grants.0.run.deployment.bundle.digest");
    CHECK(worker_ask_object(&stage.worker, "GET", image + strlen("sha256:")) == 200);
    CHECK(worker_ask_object(&stage.worker, "GET", bundle) == 200);
}

SERVICE_TEST(the_source_of_a_failed_build_stays_for_a_week)
{
    static const char failure[] =
        ",\"outcome\":\"failed\",\"fingerprint\":\"f\",\"failure\":{\"layer\":\"deployment_build\","
        "\"failure_kind\":\"task_invalid\",\"message\":\"no export\"}";
    struct stage stage;
    CHECK(set_building(service, &stage));
    CHECK(worker_poll(&stage.worker, "[]", &large_room, 0, "[]") == 200);
    CHECK_STATUS(service, lease_post(&stage.worker, "build/complete", failure), 200);
    const char *path = arena_printf(&service->arena, "/api/deployments/%s", stage.worker.subject);
    CHECK_STATUS(service, service_ask(service, stage.key, "GET", path, NULL), 200);
    const char *source = service_text(service, "content_hash") + strlen("sha256:");
    CHECK(collect_all(service) && has_file(service, source));
    CHECK(pass(service, &week) && collect_all(service));
    CHECK(!has_file(service, source));
    CHECK_STATUS(service, service_ask(service, stage.key, "GET", path, NULL), 200);
}

static const char *look_up(struct test_worker *worker, const char *step)
{
    struct arena *arena = &worker->service->arena;

    int status = worker_post(
        worker, "images/lookup",
        arena_printf(arena,
                     "{\"fence\":{\"epoch\":%lld,\"lease_id\":\"%s\",\"sequence\":%lld},"
                     "\"step_digest\":\"%s\"}",
                     (long long)worker->epoch, worker->lease, (long long)worker->sequence, step));
    return status == 200 ? service_text(worker->service, "state") : "";
}

SERVICE_TEST(a_layer_stays_for_a_week_after_its_step_was_last_used)
{
    struct stage stage;
    CHECK(set_building(service, &stage));
    const char *layer = worker_put(&stage.worker, "a layer");
    CHECK_STATUS(service, record(&stage.worker, "step", layer), 200);
    CHECK(collect_all(service) && has_file(service, layer));
    CHECK_STR(look_up(&stage.worker, "step"), "hit");
    CHECK(pass(service, &steps_week) && pass(service, &day));
    CHECK_STR(look_up(&stage.worker, "step"), "hit");
    CHECK(collect_all(service) && has_file(service, layer));
    CHECK(pass(service, &steps_week) && collect_all(service));
    CHECK(!has_file(service, layer));
    CHECK_STR(look_up(&stage.worker, "step"), "yours");

    CHECK_STATUS(service, record(&stage.worker, "old", worker_put(&stage.worker, "old")), 200);
    CHECK(pass(service, &steps_month) && !collect_some(service->server));
    CHECK_STR(look_up(&stage.worker, "old"), "yours");
}

SERVICE_TEST(a_dead_object_cannot_be_published_until_it_is_stored_again)
{
    struct stage stage;
    CHECK(set_building(service, &stage));
    const char *layer = worker_put(&stage.worker, "a layer");
    const char *manifest = worker_put(&stage.worker, "a manifest");
    const char *images =
        arena_printf(&service->arena,
                     "{\"id\":\"image\",\"digest\":\"sha256:%s\",\"size\":1,\"objects\":["
                     "{\"digest\":\"%s\",\"size\":7},{\"digest\":\"%s\",\"size\":10}]}",
                     manifest, layer, manifest);
    CHECK(pass(service, &day) && !collect_some(service->server));
    CHECK_STATUS(service, record(&stage.worker, "step", layer), 409);
    CHECK_STR(service_text(service, "code"), "object_gone");
    CHECK_STATUS(service, build_end_with(&stage.worker, test_manifest, images), 409);
    CHECK_STR(service_text(service, "code"), "object_gone");
    CHECK(*worker_put(&stage.worker, "a layer"));
    CHECK_STATUS(service, build_end_with(&stage.worker, test_manifest, images), 409);
    CHECK(*worker_put(&stage.worker, "a manifest"));
    CHECK_STATUS(service, build_end_with(&stage.worker, test_manifest, images), 200);
    CHECK(collect_all(service) && collect_all(service));
    CHECK(has_file(service, layer) && has_file(service, manifest));
}

/* Put into the folder as by a server that is killed before it commits. */
static bool leave_file(struct service *service, const char *text, const char *id)
{
    AUTO_FD int fd = memfd_create("blob", MFD_CLOEXEC);
    char made[BLOB_ID];
    struct error err;

    return fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text) &&
           blob_put_fd(service->server->blobs, fd, 0, strlen(text), id, made, &err);
}

static bool make_old(struct service *service, const char *id)
{
    const struct timespec times[2] = {{.tv_sec = time_now_ms() / 1000 - 90000},
                                      {.tv_sec = time_now_ms() / 1000 - 90000}};

    return utimensat(AT_FDCWD,
                     arena_printf(&service->arena, "%s/store/blobs/%.2s/%s", service->data_dir, id,
                                  id),
                     times, 0) == 0;
}

SERVICE_TEST(a_file_without_a_row_goes_after_a_day)
{
    struct stage stage;
    CHECK(set_stage(service, &stage));
    const char *lost = object_id(service, "lost"), *young = object_id(service, "young");
    const char *kept = worker_put(&stage.worker, "kept"), *back = object_id(service, "back");
    CHECK(leave_file(service, "lost", lost) && leave_file(service, "young", young));
    CHECK(leave_file(service, "back", back));
    CHECK(make_old(service, lost) && make_old(service, kept) && make_old(service, back));
    CHECK(collect_orphans(service->server));
    CHECK_STR(worker_put(&stage.worker, "back"), back);
    CHECK(!collect_some(service->server));
    CHECK(!has_file(service, lost) && has_file(service, young) && has_file(service, kept));
    CHECK(worker_ask_object(&stage.worker, "GET", kept) == 200);
    CHECK(worker_ask_object(&stage.worker, "GET", back) == 200 && service_says(service, "back"));
}

enum { TRIES = 200, PACKS = 6, PUBLISHERS = 3, ROUNDS = 25, LOOKS = 3 };

struct pack {
    struct seal_facts facts;
    int fd;
};

/* One who publishes versions and drops them again, while the collector runs. */
struct author {
    struct test_worker worker;
    pthread_t thread;
    const struct pack *packs;
    unsigned number;
    const char *complaint;
    atomic_int *n_busy;
};

static bool make_pack(struct service *service, unsigned number, struct pack *pack)
{
    AUTO(key_ring_finish) struct key_ring ring = {0};
    AUTO(seal_writer_finish) struct seal_writer writer = {0};
    const struct seal_plan plan = {.keys = &ring.keys, .class = SEAL_PACK};
    struct error err;

    pack->fd = memfd_create("pack", MFD_CLOEXEC);
    if (!keys_ring(&service->server->keys, &ring, &err) ||
        !seal_writer_begin(&writer, &plan, seal_sink_fd(&pack->fd), &err) ||
        !seal_writer_record(&writer, str_of(arena_printf(&service->arena, "pack %u", number)),
                            SEAL_LAST, &err))
        return false;
    seal_writer_facts(&writer, &pack->facts);
    return true;
}

/* All packs of a round belong to one owner, as those of a version do. */
static bool refer(struct author *author, const char *owner, const struct wire_object *objects,
                  size_t n, struct error *err)
{
    struct server *server = author->worker.service->server;
    struct json_list list = {.items = (void *)objects, .n = n};
    AUTO(arena_finish) struct arena arena = {0};
    AUTO_TX tx = NULL;

    return store_begin(server->store, &tx, err) &&
           object_refs_add(server, tx, owner, &list, &arena, err) && store_commit(&tx, err);
}

static bool drop(struct author *author, const char *owner, struct error *err)
{
    AUTO_TX tx = NULL;

    return store_begin(author->worker.service->server->store, &tx, err) &&
           object_refs_drop(tx, owner, err) && store_commit(&tx, err);
}

static bool upload_missing(struct author *author, const struct pack *pack, struct error *err)
{
    return worker_ask_object(&author->worker, "HEAD", pack->facts.digest) == 200 ||
           worker_put_sealed(&author->worker, &pack->facts, pack->fd, err);
}

SERVICE_TEST(a_dead_pack_cannot_be_referred_to_until_it_is_stored_again)
{
    struct author author = {0};
    struct stage stage;
    struct pack pack;
    struct error err;
    char owner[ID_TEXT];
    CHECK(set_stage(service, &stage) && make_pack(service, 1, &pack));
    author.worker = stage.worker;
    id_make(owner);
    const struct wire_object object = {.digest = str_of(pack.facts.digest)};
    CHECK(worker_put_sealed(&stage.worker, &pack.facts, pack.fd, &err));
    CHECK(pass(service, &day) && !collect_some(service->server));
    CHECK(!refer(&author, owner, &object, 1, &err) && err.code == ERR_OBJECT_GONE);
    CHECK(has_file(service, pack.facts.digest));
    CHECK(worker_put_sealed(&stage.worker, &pack.facts, pack.fd, &err));
    CHECK(refer(&author, owner, &object, 1, &err));
    CHECK(collect_all(service) && collect_all(service));
    CHECK(worker_ask_object(&stage.worker, "GET", pack.facts.digest) == 200);
    CHECK(drop(&author, owner, &err) && collect_all(service));
    CHECK(!has_file(service, pack.facts.digest));
    close(pack.fd);
}

static const char *publish_and_look(struct author *author, const struct pack *a,
                                    const struct pack *b)
{
    const struct wire_object objects[] = {{.digest = str_of(a->facts.digest)},
                                          {.digest = str_of(b->facts.digest)}};
    struct test_worker *worker = &author->worker;
    bool is_in = false;
    char owner[ID_TEXT];
    struct error err;

    id_make(owner);
    for (int try = 0; try < TRIES && !is_in; try++) {
        if (!upload_missing(author, a, &err) || !upload_missing(author, b, &err))
            return "a pack was not taken";
        is_in = refer(author, owner, objects, 2, &err);
        if (!is_in && err.code != ERR_OBJECT_GONE && !store_is_retryable(&err))
            return arena_printf(&worker->service->arena, "refused: %s", err.text);
    }
    if (!is_in)
        return "a version could not be published";
    for (int i = 0; i < LOOKS; i++)
        if (worker_ask_object(worker, "GET", a->facts.digest) != 200 ||
            worker_ask_object(worker, "GET", b->facts.digest) != 200)
            return "a pack that is referred to is gone";
    return drop(author, owner, &err) ? NULL : "a version was not dropped";
}

static void *write_versions(void *arg)
{
    struct author *author = arg;

    for (unsigned i = 0; i < ROUNDS && !author->complaint; i++) {
        unsigned first = (i * 7 + author->number * 3) % PACKS;
        unsigned second = (first + 1 + i % (PACKS - 1)) % PACKS;
        author->complaint = publish_and_look(author, &author->packs[first], &author->packs[second]);
    }
    (*author->n_busy)--;
    return NULL;
}

SERVICE_TEST(the_collector_never_deletes_a_referenced_pack)
{
    struct author authors[PUBLISHERS] = {0};
    struct pack packs[PACKS];
    struct stage stage;
    atomic_int n_busy = PUBLISHERS;
    bool is_clean = true;
    CHECK(set_stage(service, &stage));
    for (unsigned i = 0; i < PACKS; i++)
        CHECK(make_pack(service, i, &packs[i]));
    for (unsigned i = 0; i < PUBLISHERS; i++) {
        authors[i] =
            (struct author){.worker = stage.worker, .packs = packs, .number = i, .n_busy = &n_busy};
        authors[i].worker.service = service_view(service);
        CHECK(pthread_create(&authors[i].thread, NULL, write_versions, &authors[i]) == 0);
    }
    while (n_busy > 0) {
        pass(service, &day);
        collect_some(service->server);
        pass(service, &hour);
        collect_some(service->server);
    }
    for (unsigned i = 0; i < PUBLISHERS; i++) {
        pthread_join(authors[i].thread, NULL);
        if (authors[i].complaint)
            printf("# %s\n", authors[i].complaint);
        is_clean = is_clean && !authors[i].complaint;
        service_view_end(authors[i].worker.service);
    }
    CHECK(is_clean && collect_all(service));
    for (unsigned i = 0; i < PACKS; i++) {
        CHECK(!has_file(service, packs[i].facts.digest));
        close(packs[i].fd);
    }
}

enum { LAYERS = 40 };

struct publisher {
    struct test_worker worker;
    pthread_t thread;
    atomic_bool is_over;
    const char *complaint;
};

/* As a worker does: asks, stores what is missing, refers; and again when that came too late. */
static void *publish(void *arg)
{
    struct publisher *publisher = arg;
    struct test_worker *worker = &publisher->worker;
    struct arena *arena = &worker->service->arena;

    for (int i = 0; i < LAYERS && !publisher->complaint; i++) {
        const char *text = arena_printf(arena, "layer %d", i),
                   *id = object_id(worker->service, text);
        int status = 0;

        for (int try = 0; try < TRIES && status != 200; try++) {
            if (worker_ask_object(worker, "HEAD", id) != 200 && !*worker_put(worker, text))
                publisher->complaint = "an object was not taken";
            status = record(worker, arena_printf(arena, "step-%d", i), id);
            if (status != 200 && !service_says(worker->service, "object_gone"))
                publisher->complaint = "a record was refused for another reason";
        }
        if (status != 200)
            publisher->complaint = "a layer could not be published";
    }
    publisher->is_over = true;
    return NULL;
}

SERVICE_TEST(the_collector_never_takes_what_is_published_meanwhile)
{
    struct publisher publisher = {0};
    struct stage stage;
    CHECK(set_building(service, &stage));
    for (int i = 0; i < LAYERS; i++)
        CHECK(*worker_put(&stage.worker, arena_printf(&service->arena, "layer %d", i)));
    publisher.worker = stage.worker;
    publisher.worker.service = service_view(service);
    CHECK(pthread_create(&publisher.thread, NULL, publish, &publisher) == 0);
    while (!publisher.is_over) {
        pass(service, &day);
        collect_some(service->server);
        pass(service, &hour);
        collect_some(service->server);
    }
    pthread_join(publisher.thread, NULL);
    if (publisher.complaint)
        printf("# %s: %.*s\n", publisher.complaint, (int)publisher.worker.service->answer.body.len,
               publisher.worker.service->answer.body.bytes);
    service_view_end(publisher.worker.service);
    CHECK(!publisher.complaint);
    CHECK(collect_all(service));
    for (int i = 0; i < LAYERS; i++) {
        const char *text = arena_printf(&service->arena, "layer %d", i);
        CHECK_STR(look_up(&stage.worker, arena_printf(&service->arena, "step-%d", i)), "hit");
        CHECK(worker_ask_object(&stage.worker, "GET", object_id(service, text)) == 200);
        CHECK(service_says(service, text));
    }
}

TEST_MAIN()
