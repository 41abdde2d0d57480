#include <poll.h>
#include <signal.h>
#include <sys/statvfs.h>

#include "engine/firecracker/rig.h"
#include "engine/firecracker/snapshot.h"
#include "engine/host_state.h"
#include "engine/instance.h"

/* Of a test: whatever is wrong is printed. */
static bool is_fine(bool ok, const struct error *err)
{
    if (!ok)
        printf("# %s\n", err->text);
    return ok;
}

/* How often the stand-in's agent was pinged: it is in the machine's memory, eight bytes in. */
static uint64_t pings_of(const struct saved_image *image)
{
    AUTO_FD int fd = openat(image->folder, MACHINE_MEMORY, O_RDONLY | O_CLOEXEC);
    uint64_t count = 0;

    return pread(fd, &count, sizeof count, 8) == sizeof count ? count : 0;
}

TEST(a_machine_boots_to_its_hello_and_leaves_nothing)
{
    AUTO(rig_close) struct rig rig = {0};
    struct instance *instance;
    struct instance_usage usage;
    struct error err = {0};

    const char *why = rig_find(&rig, "");
    if (why)
        SKIP(why);
    CHECK(is_fine(rig_host(&rig, true, &err), &err));
    CHECK(is_fine(rig_start(&rig, PATIENCE_MS, &instance, &err), &err));
    CHECK(engine_host_free_slots(rig.host) == 3);
    bool is_heard = probe_meet(instance, time_boot_ms() + PATIENCE_MS, &err);
    bool is_measured = instance_usage(instance, &usage, &err) && usage.memory_peak_bytes > 0;

    /* The same id again is refused and does not disturb the first. */
    struct instance *second;
    bool is_refused =
        !engine_firecracker.start(rig.host, &rig.spec, &second, &err) && err.code == ERR_CONFLICT;
    CHECK(is_fine(instance_destroy(instance, &err), &err));
    CHECK(is_heard && is_measured && is_refused);
    CHECK(rig_is_clean(&rig));
}

TEST(copies_of_one_machine_live_beside_each_other)
{
    AUTO(rig_close) struct rig rig = {0};
    AUTO(saved_image_finish) struct saved_image image = SAVED_IMAGE_NONE;
    struct instance *copies[3] = {0};
    struct error err = {0}, after;
    bool ok = true;

    const char *why = rig_find(&rig, "");
    if (why)
        SKIP(why);
    CHECK(is_fine(rig_host(&rig, true, &err), &err));
    CHECK(is_fine(rig_template(&rig, &image, &err), &err));
    for (size_t i = 0; ok && i < COUNT_OF(copies); i++)
        ok = rig_restore(&rig, &image, PATIENCE_MS, &copies[i], &err);
    for (size_t i = 0; ok && i < COUNT_OF(copies); i++)
        ok = probe_wake(copies[i], time_boot_ms() + PATIENCE_MS, rig.nonce, &err);
    for (size_t i = 0; i < COUNT_OF(copies); i++)
        ok = (!copies[i] || instance_destroy(copies[i], &after)) && ok;
    CHECK(is_fine(ok, &err));
    CHECK(pings_of(&image) == 1);
    CHECK(rig_is_clean(&rig));
}

/* As a checkpoint comes back from the store, its disk not in memory. */
TEST(a_machine_goes_on_from_a_stream_of_bytes)
{
    AUTO(rig_close) struct rig rig = {0};
    AUTO(saved_image_finish) struct saved_image image = SAVED_IMAGE_NONE;
    AUTO(saved_image_finish) struct saved_image again = SAVED_IMAGE_NONE;
    AUTO(saved_image_finish) struct saved_image next = SAVED_IMAGE_NONE;
    struct error err = {0};

    const char *why = rig_find(&rig, "");
    if (why)
        SKIP(why);
    CHECK(is_fine(rig_host(&rig, false, &err), &err));
    CHECK(is_fine(rig_template(&rig, &image, &err), &err));
    bool ok = saved_image_make(&engine_firecracker, MIB(2 * MEMORY_MIB), &again, &err) &&
              saved_image_add_scratch(rig.host, &again, &err) && saved_copy(&image, &again, &err);
    CHECK(is_fine(ok, &err));
    saved_image_finish(&image);
    CHECK(is_fine(rig_live(&rig, &again, &next, &err), &err));
    CHECK(pings_of(&next) == 2);
    CHECK(rig_is_clean(&rig));
}

/* Saved, woken, saved again: first both ways, to compare them, then by its changes only. */
TEST(what_a_copy_changed_is_saved_over_what_it_came_from)
{
    AUTO(rig_close) struct rig rig = {0};
    AUTO(saved_image_finish) struct saved_image image = SAVED_IMAGE_NONE;
    struct saved_image next = SAVED_IMAGE_NONE;
    struct error err = {0};
    struct stat before, now;

    const char *why = rig_find(&rig, "");
    if (why)
        SKIP(why);
    CHECK(is_fine(rig_host(&rig, false, &err), &err));
    CHECK(is_fine(rig_template(&rig, &image, &err), &err));
    CHECK(rig.host->firecracker_changes == SNAPSHOT_UNKNOWN);
    CHECK(fstatat(image.folder, MACHINE_MEMORY, &before, 0) == 0);
    for (uint64_t round = 2; round < 5; round++) {
        CHECK(is_fine(rig_live(&rig, &image, &next, &err), &err));
        saved_image_finish(&image);
        image = next;

        CHECK(pings_of(&image) == round);
        CHECK(rig.host->firecracker_changes == SNAPSHOT_COMPLETE);
        CHECK(fstatat(image.folder, MACHINE_MEMORY, &now, 0) == 0);
        CHECK(now.st_size == before.st_size && now.st_blocks * 512 < now.st_size / 4);
    }
    CHECK(rig_is_clean(&rig));
}

TEST(a_firecracker_that_forgets_changes_is_found_out)
{
    AUTO(rig_close) struct rig rig = {0};
    AUTO(saved_image_finish) struct saved_image image = SAVED_IMAGE_NONE;
    AUTO(saved_image_finish) struct saved_image next = SAVED_IMAGE_NONE;
    AUTO(saved_image_finish) struct saved_image last = SAVED_IMAGE_NONE;
    struct error err = {0};

    const char *why = rig_find(&rig, "#fault - changes lossy");
    if (why)
        SKIP(why);
    CHECK(is_fine(rig_host(&rig, false, &err), &err));
    CHECK(is_fine(rig_template(&rig, &image, &err), &err));
    CHECK(is_fine(rig_live(&rig, &image, &next, &err), &err));
    CHECK(rig.host->firecracker_changes == SNAPSHOT_INCOMPLETE);
    CHECK(pings_of(&next) == 2);

    /* From now on all is written, so nothing is lost either. */
    CHECK(is_fine(rig_live(&rig, &next, &last, &err), &err));
    CHECK(pings_of(&last) == 3);
    CHECK(rig.host->firecracker_changes == SNAPSHOT_INCOMPLETE);
    CHECK(rig_is_clean(&rig));
}

TEST(an_older_release_is_asked_in_its_own_words)
{
    AUTO(rig_close) struct rig rig = {0};
    AUTO(saved_image_finish) struct saved_image image = SAVED_IMAGE_NONE;
    AUTO(saved_image_finish) struct saved_image next = SAVED_IMAGE_NONE;
    struct error err = {0};

    const char *why = rig_find(&rig, "#fault - release old");
    if (why)
        SKIP(why);
    CHECK(is_fine(rig_host(&rig, false, &err), &err));
    CHECK(is_fine(rig_template(&rig, &image, &err), &err));
    CHECK(is_fine(rig_live(&rig, &image, &next, &err), &err));
    CHECK(rig_is_clean(&rig));
}

/* The machine's disk is its own, and what it was is what comes back. */
TEST(the_scratch_disk_goes_with_the_machine)
{
    AUTO(rig_close) struct rig rig = {0};
    AUTO(saved_image_finish) struct saved_image image = SAVED_IMAGE_NONE;
    struct instance *instance, *copy = NULL;
    struct error err = {0};
    char path[PATH_MAX], word[9] = "";

    const char *why = rig_find(&rig, "");
    if (why)
        SKIP(why);
    CHECK(is_fine(rig_host(&rig, false, &err), &err));
    CHECK(is_fine(rig_start(&rig, PATIENCE_MS, &instance, &err), &err));
    snprintf(path, sizeof path, "/proc/%d/root/scratch.img", (int)instance->process.pid);
    AUTO_FD int disk = open(path, O_RDWR | O_CLOEXEC);
    bool is_written = pwrite(disk, "changed", 7, SCRATCH_BYTES / 2) == 7;
    CHECK(is_fine(rig_save(&rig, instance, &image, &err), &err));
    CHECK(is_written);
    CHECK(is_fine(rig_restore(&rig, &image, PATIENCE_MS, &copy, &err), &err));
    snprintf(path, sizeof path, "/proc/%d/root/scratch.img", (int)copy->process.pid);
    AUTO_FD int again = open(path, O_RDONLY | O_CLOEXEC);
    bool is_back = pread(again, word, 7, SCRATCH_BYTES / 2) == 7 && strcmp(word, "changed") == 0;
    bool is_based = pread(again, word, 7, 0) == 7 && strcmp(word, "scratch") == 0;
    CHECK(is_fine(instance_destroy(copy, &err), &err));
    CHECK(is_back && is_based);
    AUTO_FD int source = open(rig.scratch, O_RDONLY | O_CLOEXEC);
    CHECK(pread(source, word, 7, SCRATCH_BYTES / 2) == 7 && word[0] == '\0');
}

static bool status_has(pid_t pid, const char *line)
{
    char path[64];
    AUTO_FREE char *text = NULL;
    struct error err;

    snprintf(path, sizeof path, "/proc/%d/status", (int)pid);
    return file_read(path, 16384, &text, &err) && strstr(text, line);
}

static bool is_apart(pid_t pid, const char *kind)
{
    char ours[64], theirs[64], path[64];

    snprintf(path, sizeof path, "/proc/self/ns/%s", kind);
    ssize_t n = readlink(path, ours, sizeof ours);
    snprintf(path, sizeof path, "/proc/%d/ns/%s", (int)pid, kind);
    ssize_t m = readlink(path, theirs, sizeof theirs);
    return n > 0 && m > 0 && (n != m || memcmp(ours, theirs, (size_t)n) != 0);
}

static bool is_read_only(pid_t pid, const char *name)
{
    char path[PATH_MAX];
    struct statvfs about;

    snprintf(path, sizeof path, "/proc/%d/root/%s", (int)pid, name);
    return statvfs(path, &about) == 0 && about.f_flag & ST_RDONLY;
}

TEST(a_jailed_machine_sees_only_its_own_files)
{
    static const char *const bound[] = {"kernel", "initrd", "root.img", "bundle.img"};
    static const char *const kinds[] = {"pid", "mnt", "net", "ipc", "uts"};
    AUTO(rig_close) struct rig rig = {0};
    struct instance *instance;
    struct error err = {0};
    char line[64], path[64];
    bool ok = true;

    const char *why = rig_find(&rig, "");
    if (why)
        SKIP(why);
    CHECK(is_fine(rig_host(&rig, false, &err), &err));
    CHECK(is_fine(rig_start(&rig, PATIENCE_MS, &instance, &err), &err));
    pid_t pid = instance->process.pid;
    unsigned user = instance_user(instance);
    snprintf(line, sizeof line, "\nUid:\t%u\t%u\t%u\t%u\n", user, user, user, user);
    ok = status_has(pid, line) && status_has(pid, "\nCapEff:\t0000000000000000\n") &&
         status_has(pid, "\nGroups:\t \n") && status_has(pid, "\nNoNewPrivs:\t1\n");
    for (size_t i = 0; ok && i < COUNT_OF(kinds); i++)
        ok = is_apart(pid, kinds[i]);
    for (size_t i = 0; ok && i < COUNT_OF(bound); i++)
        ok = is_read_only(pid, bound[i]);

    /* Its root has no way out, and nothing of it is mounted where the host could see it. */
    snprintf(path, sizeof path, "/proc/%d/root/etc", (int)pid);
    ok = ok && access(path, F_OK) != 0;
    AUTO_FREE char *mounts = NULL;
    ok = ok && file_read("/proc/self/mounts", MIB(1), &mounts, &err) &&
         !strstr(mounts, rig.fixture.folder);
    CHECK(is_fine(instance_destroy(instance, &err), &err));
    CHECK(ok);
}

TEST(a_machine_whose_process_is_killed_is_over_and_leaves_nothing)
{
    AUTO(rig_close) struct rig rig = {0};
    AUTO(saved_image_finish) struct saved_image image = SAVED_IMAGE_NONE;
    struct instance *instance;
    struct error err = {0};

    const char *why = rig_find(&rig, "");
    if (why)
        SKIP(why);
    CHECK(is_fine(rig_host(&rig, false, &err), &err));
    CHECK(is_fine(rig_start(&rig, PATIENCE_MS, &instance, &err), &err));
    struct pollfd ended = {.fd = instance_pidfd(instance), .events = POLLIN};
    bool was_alive = poll(&ended, 1, 0) == 0;
    kill(instance->process.pid, SIGKILL);
    bool is_over = poll(&ended, 1, PATIENCE_MS) == 1;
    bool is_unsavable = saved_image_make(&engine_firecracker, MIB(64), &image, &err) &&
                        !engine_firecracker.save(instance, &image, PATIENCE_MS, &err) &&
                        err.code == ERR_UNAVAILABLE;
    CHECK(is_fine(instance_destroy(instance, &err), &err));
    CHECK(was_alive && is_over && is_unsavable);
    CHECK(rig_is_clean(&rig));
}

TEST(a_probe_boots_saves_and_goes_on)
{
    AUTO(rig_close) struct rig rig = {0};
    struct engine_result result;
    struct error err = {0};

    const char *why = rig_find(&rig, "");
    if (why)
        SKIP(why);
    CHECK(is_fine(rig_host(&rig, false, &err), &err));
    engine_firecracker.probe(rig.host, NULL, NULL, 0, &result);
    printf("# %s\n", result.reason);
    CHECK(result.usable && result.saves && result.accelerated && strlen(result.build) == 64);
    CHECK(rig_is_clean(&rig));
}

static bool probe_says(const char *faults, const char *program, const char *reason,
                       const char *cure)
{
    AUTO(rig_close) struct rig rig = {0};
    struct engine_result result = {0};
    struct error err = {0};

    if (rig_find(&rig, faults))
        return false;
    if (program)
        snprintf(rig.program, sizeof rig.program, "%s", program);
    if (!rig_host(&rig, false, &err))
        return false;
    engine_firecracker.probe(rig.host, NULL, NULL, 0, &result);
    bool ok = !result.usable && strstr(result.reason, reason) && strstr(result.cure, cure);
    if (!ok)
        printf("# %s; %s\n", result.reason, result.cure);
    return rig_is_clean(&rig) && ok;
}

TEST(a_probe_says_why_not_and_what_would_cure_it)
{
    struct rig rig = {0};
    const char *why = rig_find(&rig, "");

    rig_close(&rig);
    if (why)
        SKIP(why);
    CHECK(probe_says("", "/nowhere/firecracker", "is not installed", "PATH"));
    CHECK(probe_says("#fault - version old", NULL, "1.7 is too old", "PATH"));
    CHECK(probe_says("#fault PUT /actions refuse", NULL, "told to refuse", ""));
    CHECK(probe_says("#fault - start exit", NULL, "ended", ""));
}

/* The same life with a real Firecracker, where there is one and a machine boots in it. */
TEST(a_real_firecracker_boots_saves_and_goes_on)
{
    AUTO(rig_close) struct rig rig = {0};
    AUTO(saved_image_finish) struct saved_image image = SAVED_IMAGE_NONE;
    AUTO(saved_image_finish) struct saved_image next = SAVED_IMAGE_NONE;
    struct guest_files guest;
    struct error err = {0};
    char path[PATH_MAX], reason[256];

    if (geteuid() != 0)
        SKIP("needs root");
    if (!probe_binary_find("firecracker", path, sizeof path) ||
        !probe_binary_find("jailer", path, sizeof path))
        SKIP("firecracker and jailer are not installed");
    if (!kvm_probe(reason, sizeof reason))
        SKIP("no guest runs with this KVM");
    if (!guest_files_find(getenv("HELMR_WORKER_GUEST_DIR"), &guest, &err))
        SKIP("no kernel for machines is built");
    CHECK(fixture_open(&rig.fixture) && rig_host(&rig, true, &err));
    rig.spec.drives = (struct sandbox_drives){.scratch_bytes = SCRATCH_BYTES};
    rig.spec.memory_mib = REAL_MEMORY_MIB;
    CHECK(is_fine(rig_template(&rig, &image, &err), &err));
    CHECK(is_fine(rig_live(&rig, &image, &next, &err), &err));
    CHECK(rig.host->firecracker_changes != SNAPSHOT_UNKNOWN);
    CHECK(rig_is_clean(&rig));
}

ENGINE_TEST_MAIN()
