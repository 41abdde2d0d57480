#include <arpa/inet.h>
#include <netinet/ip_icmp.h>
#include <poll.h>
#include <pthread.h>
#include <sys/socket.h>

#include "base/time.h"
#include "engine/fixture.h"
#include "engine/instance.h"
#include "engine/kvm.h"
#include "engine/net/netns.h"
#include "engine/net/pool.h"
#include "engine/probe.h"
#include "engine/qemu/machine.h"
#include "engine/saved.h"

/* Without hardware and with everything busy a boot takes a minute. Nobody measures here. */
enum { PATIENCE_MS = 600 * 1000, COPIES = 20, MEMORY_MIB = 192, SCRATCH_BYTES = 8 << 20 };

struct scene {
    struct fixture fixture;
    struct engine_host *host;
    char tag[16];
    struct sandbox_spec spec;
    struct saved_image image;
    uint8_t nonce[CHANNEL_NONCE_LEN];
};

static void scene_close(struct scene *scene)
{
    saved_image_finish(&scene->image);
    fixture_host_close(&scene->host);
    fixture_close(&scene->fixture);
}

static const char *scene_open(struct scene *scene, struct error *err)
{
    *scene = (struct scene){.image = SAVED_IMAGE_NONE};
    if (!fixture_open(&scene->fixture))
        return "no folder can be made";
    const char *why = fixture_machine();
    if (why)
        return why;
    struct engine_settings settings = fixture_settings(&scene->fixture);
    settings.slots = COPIES;
    settings.qemu_accel = QEMU_ACCEL_TCG;
    settings.network_enabled = true;
    if (!engine_host_open(&settings, &scene->host, err))
        return NULL;
    snprintf(scene->tag, sizeof(scene->tag), "%s", engine_host_tag(scene->host));
    scene->spec = (struct sandbox_spec){
        .kind = "run",
        .vcpus = 1,
        .memory_mib = MEMORY_MIB,
        .drives = {.scratch_bytes = SCRATCH_BYTES},
        .network = NETWORK_OPEN,
        .deadline_ms = time_boot_ms() + PATIENCE_MS,
    };
    return NULL;
}

/* Boots, pauses and saves: the source is over. */
static bool template_make(struct scene *scene, struct error *err)
{
    struct instance *instance;

    id_make(scene->spec.id);
    if (!saved_image_make(&engine_qemu, (int64_t)2 * MEMORY_MIB << 20, &scene->image, err) ||
        !engine_qemu.start(scene->host, &scene->spec, &instance, err))
        return false;
    bool ok = probe_meet(instance, scene->spec.deadline_ms, err) &&
              probe_pause(instance, scene->spec.deadline_ms, scene->nonce, err) &&
              engine_qemu.save(instance, &scene->image, PATIENCE_MS, err);
    struct error ignored;
    return instance_destroy(instance, ok ? err : &ignored) && ok;
}

static bool copy_wake(struct scene *scene, const struct saved_image *image,
                      struct instance **instance, struct error *err)
{
    struct sandbox_spec spec = scene->spec;

    id_make(spec.id);
    return engine_qemu.restore(scene->host, &spec, image, instance, err) &&
           probe_wake(*instance, spec.deadline_ms, scene->nonce, err);
}

struct copy {
    struct scene *scene;
    struct instance *instance;
    struct error err;
    bool is_awake;
};

static void *copy_main(void *arg)
{
    struct copy *copy = arg;

    copy->is_awake = copy_wake(copy->scene, &copy->scene->image, &copy->instance, &copy->err);
    return NULL;
}

TEST(twenty_copies_of_one_machine_live_at_once)
{
    AUTO(scene_close) struct scene scene = {.image = SAVED_IMAGE_NONE};
    struct copy copies[COPIES];
    pthread_t threads[COPIES];
    struct error err = {0};
    int n_awake = 0, n_gone = 0;

    const char *why = scene_open(&scene, &err);
    if (why)
        SKIP(why);
    bool is_made = scene.host && template_make(&scene, &err);
    CHECK_STR(err.text, "");
    CHECK(is_made);

    /* Nobody writes to what they share, not even through a descriptor of it. */
    CHECK(pwrite(scene.image.memory, "x", 1, 0) < 0);
    for (int i = 0; i < COPIES; i++) {
        copies[i] = (struct copy){.scene = &scene};
        CHECK(pthread_create(&threads[i], NULL, copy_main, &copies[i]) == 0);
    }
    for (int i = 0; i < COPIES; i++) {
        pthread_join(threads[i], NULL);
        n_awake += copies[i].is_awake;
        if (!copies[i].is_awake)
            printf("# %s\n", copies[i].err.text);
    }
    for (int i = 0; i < COPIES; i++)
        n_gone += copies[i].instance && instance_destroy(copies[i].instance, &err);
    CHECK(n_awake == COPIES && n_gone == COPIES);
    saved_image_finish(&scene.image);
    fixture_host_close(&scene.host);
    CHECK(fixture_nothing_left(&scene.fixture, scene.tag));
}

/* In the edge namespace: an echo of the guest's, which comes through the rules as an answer. */
static bool guest_answers(void *arg, struct error *err)
{
    struct sockaddr_in guest = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(0xc6120002)};
    const struct icmphdr echo = {.type = ICMP_ECHO, .checksum = htons(0xf7ff)};
    AUTO_FD int fd = socket(AF_INET, SOCK_RAW | SOCK_CLOEXEC, IPPROTO_ICMP);
    struct pollfd ready = {.fd = fd, .events = POLLIN};
    int64_t deadline_ms = *(int64_t *)arg;
    char packet[256];

    while (fd >= 0 && time_boot_ms() < deadline_ms) {
        if (sendto(fd, &echo, sizeof(echo), 0, (struct sockaddr *)&guest, sizeof(guest)) < 0)
            break;
        if (poll(&ready, 1, 1000) == 1 && recv(fd, packet, sizeof(packet), 0) >= 28 &&
            packet[20] == ICMP_ECHOREPLY)
            return true;
    }
    return error_errno(err, "no echo of the guest");
}

/* What its monitor says, once it has taken up its image. */
static bool status_get(struct instance *instance, char status[QMP_STATUS_ROOM], struct error *err)
{
    struct qmp *qmp = &machine_of(instance)->qmp;
    const int64_t deadline_ms = time_boot_ms() + PATIENCE_MS;

    snprintf(status, QMP_STATUS_ROOM, "inmigrate");
    if (!qmp_greet(qmp, deadline_ms, err))
        return false;
    while (strcmp(status, "inmigrate") == 0)
        if (!qmp_status(qmp, status, deadline_ms, err))
            return false;
    return true;
}

TEST(a_copy_that_sleeps_runs_when_it_is_woken)
{
    AUTO(scene_close) struct scene scene = {.image = SAVED_IMAGE_NONE};
    struct instance *copies[2] = {NULL};
    char asleep[QMP_STATUS_ROOM] = "", awake[QMP_STATUS_ROOM] = "";
    struct error err = {0}, ignored;

    const char *why = scene_open(&scene, &err);
    if (why)
        SKIP(why);
    bool ok = scene.host && template_make(&scene, &err);
    struct sandbox_spec spec = scene.spec;
    spec.is_asleep = true;
    for (int i = 0; ok && i < 2; i++) {
        id_make(spec.id);
        ok = engine_qemu.restore(scene.host, &spec, &scene.image, &copies[i], &err);
    }
    ok = ok && status_get(copies[0], asleep, &err) &&
         engine_qemu.wake(copies[0], PATIENCE_MS, &err) && status_get(copies[0], awake, &err) &&
         probe_wake(copies[0], spec.deadline_ms, scene.nonce, &err);

    /* One that is told before it has arrived goes on when it has. */
    ok = ok && engine_qemu.wake(copies[1], PATIENCE_MS, &err) &&
         probe_wake(copies[1], spec.deadline_ms, scene.nonce, &err);
    for (int i = 0; i < 2; i++)
        ok &= copies[i] && instance_destroy(copies[i], &ignored);
    CHECK_STR(err.text, "");
    CHECK_STR(asleep, "paused");
    CHECK_STR(awake, "running");
    CHECK(ok);
}

TEST(a_copy_is_reached_over_its_own_tap)
{
    AUTO(scene_close) struct scene scene = {.image = SAVED_IMAGE_NONE};
    struct instance *copies[2] = {NULL};
    struct error err = {0};
    bool is_reached[2] = {false};

    const char *why = scene_open(&scene, &err);
    if (why)
        SKIP(why);
    bool ok = scene.host && template_make(&scene, &err);
    for (int i = 0; ok && i < 2; i++) {
        ok = copy_wake(&scene, &scene.image, &copies[i], &err);
        is_reached[i] = ok && netns_run(copies[i]->network->edge_fd, guest_answers,
                                        &scene.spec.deadline_ms, &err);
    }
    struct error ignored;
    for (int i = 0; i < 2; i++)
        ok &= copies[i] && instance_destroy(copies[i], &ignored);
    CHECK_STR(err.text, "");
    CHECK(ok && is_reached[0] && is_reached[1]);
}

/* Pauses and saves it once more, into an empty image. */
static bool rest(struct scene *scene, struct instance *instance, struct saved_image *image,
                 struct error *err)
{
    return probe_pause(instance, scene->spec.deadline_ms, scene->nonce, err) &&
           engine_qemu.save(instance, image, PATIENCE_MS, err);
}

TEST(a_machine_goes_on_over_and_over_whatever_its_memory_is)
{
    AUTO(scene_close) struct scene scene = {.image = SAVED_IMAGE_NONE};
    AUTO(saved_image_finish) struct saved_image second = SAVED_IMAGE_NONE;
    AUTO(saved_image_finish) struct saved_image third = SAVED_IMAGE_NONE;
    AUTO(saved_image_finish) struct saved_image fourth = SAVED_IMAGE_NONE;
    struct instance *instance = NULL;
    struct error err = {0};
    const int64_t room = (int64_t)4 * MEMORY_MIB << 20;

    const char *why = scene_open(&scene, &err);
    if (why)
        SKIP(why);
    CHECK(scene.host && saved_image_make(&engine_qemu, room, &second, &err) &&
          saved_image_make(&engine_qemu, room, &third, &err) &&
          saved_image_make(&engine_qemu, room, &fourth, &err));

    /* A copy of shared memory: what it changed is in its process only. */
    bool ok = template_make(&scene, &err) && copy_wake(&scene, &scene.image, &instance, &err) &&
              rest(&scene, instance, &second, &err) && instance_destroy(instance, &err);
    CHECK_STR(err.text, "");
    CHECK(ok && second.memory >= 0 && faccessat(second.folder, MACHINE_CHANGES, R_OK, 0) == 0);

    /* With its changes it goes on as it is, too. */
    ok = copy_wake(&scene, &second, &instance, &err) && instance_destroy(instance, &err);
    CHECK_STR(err.text, "");
    CHECK(ok);

    /* Memory in a folder of its own, as it comes back from a store; it stays there. */
    ok = saved_copy(&second, &third, &err) && third.memory < 0 &&
         copy_wake(&scene, &third, &instance, &err) && rest(&scene, instance, &fourth, &err) &&
         instance_destroy(instance, &err);
    CHECK_STR(err.text, "");
    CHECK(ok && fourth.memory < 0 && faccessat(fourth.folder, MACHINE_MEMORY, R_OK, 0) == 0);

    ok = engine_qemu.share(scene.host, &fourth, &err) && fourth.memory >= 0 &&
         copy_wake(&scene, &fourth, &instance, &err) && instance_destroy(instance, &err);
    CHECK_STR(err.text, "");
    CHECK(ok);

    /* Another size is another machine. */
    scene.spec.memory_mib *= 2;
    CHECK(!copy_wake(&scene, &fourth, &instance, &err) && err.code == ERR_INVALID);
    scene.spec.memory_mib /= 2;
    scene.spec.drives.scratch_bytes *= 2;
    CHECK(!copy_wake(&scene, &fourth, &instance, &err) && err.code == ERR_INVALID);
}

TEST(a_guest_that_said_hello_proves_the_engine_and_nothing_else_does)
{
    AUTO(fixture_close) struct fixture fixture = {0};
    AUTO(fixture_host_close) struct engine_host *host = NULL;
    struct engine_result result, again;
    struct error err = {0};
    char reason[256], tag[16];

    CHECK(fixture_open(&fixture));
    const char *why = fixture_machine();
    if (why)
        SKIP(why);
    struct engine_settings settings = fixture_settings(&fixture);
    CHECK(engine_host_open(&settings, &host, &err));
    snprintf(tag, sizeof(tag), "%s", engine_host_tag(host));
    engine_qemu.probe(host, NULL, NULL, 0, &result);
    engine_qemu.probe(host, NULL, NULL, 0, &again);
    bool is_free = engine_host_free_slots(host) == settings.slots;
    fixture_host_close(&host);
    CHECK_STR(result.reason, "");
    CHECK(result.usable && result.saves && is_free);
    CHECK(again.usable && again.saves && again.accelerated == result.accelerated);
    CHECK(!result.accelerated || kvm_probe(reason, sizeof(reason)));
    CHECK(fixture_nothing_left(&fixture, tag));
}

/* A folder with files of any content, and a list that vouches for them. */
static bool guest_fake(const struct fixture *fixture, char folder[PATH_MAX])
{
    static const char script[] =
        "mkdir $1 && cd $1 && echo none >kernel && echo none >initrd && "
        "sum=$(sha256sum <kernel) && sum=${sum%% *} && "
        "printf '{\"kernel\":\"%s\",\"initrd\":\"%s\"}' $sum $sum >artefacts.json";

    snprintf(folder, PATH_MAX, "%s/guest", fixture->folder);
    return fixture_run((const char *const[]){"/bin/sh", "-c", script, "sh", folder, NULL});
}

TEST(a_machine_that_cannot_boot_is_refused_with_what_it_said)
{
    AUTO(fixture_close) struct fixture fixture = {0};
    AUTO(fixture_host_close) struct engine_host *host = NULL;
    struct sandbox_spec spec = {.kind = "run",
                                .vcpus = 1,
                                .memory_mib = MEMORY_MIB,
                                .deadline_ms = time_boot_ms() + PATIENCE_MS};
    struct instance *instance;
    struct error err = {0};
    char folder[PATH_MAX], tag[16];

    CHECK(fixture_open(&fixture));
    const char *why = fixture_machine();
    if (why)
        SKIP(why);
    CHECK(guest_fake(&fixture, folder));
    struct engine_settings settings = fixture_settings(&fixture);
    settings.guest_dir = folder;
    CHECK(engine_host_open(&settings, &host, &err));
    snprintf(tag, sizeof(tag), "%s", engine_host_tag(host));
    id_make(spec.id);
    bool is_started = engine_qemu.start(host, &spec, &instance, &err);
    fixture_host_close(&host);
    CHECK(!is_started && err.code == ERR_UNAVAILABLE);
    CHECK(strstr(err.text, "kernel"));
    CHECK(fixture_nothing_left(&fixture, tag));
}

ENGINE_TEST_MAIN()
