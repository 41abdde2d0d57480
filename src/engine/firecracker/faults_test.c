/* A Firecracker that refuses, hangs, talks nonsense or dies, and a worker that dies: in every case
 * the caller is told in words and nothing is left on the host. */
#include <errno.h>
#include <poll.h>
#include <signal.h>

#include "engine/firecracker/rig.h"
#include "engine/host_state.h"
#include "engine/journal.h"

/* Long enough for everything before a request that is never answered. */
enum { SHORT_MS = 1000, STEPS_MAX = 64 };

static const char *is_missing(void)
{
    AUTO(rig_close) struct rig rig = {0};

    return rig_find(&rig, "");
}

/* Starts one that does this wrong; true: refused with that code and text, and nothing is left. */
static bool start_fails(const char *faults, int64_t patience_ms, enum error_code code,
                        const char *text)
{
    AUTO(rig_close) struct rig rig = {0};
    struct instance *instance;
    struct error err = {0};

    if (rig_find(&rig, faults) || !rig_host(&rig, false, &err))
        return false;
    bool is_refused = !rig_start(&rig, patience_ms, &instance, &err) && err.code == code &&
                      strstr(err.text, text);
    if (!is_refused)
        printf("# %s: code %d, %s\n", faults, (int)err.code, err.text);
    return rig_is_clean(&rig) && is_refused;
}

TEST(a_refusal_of_any_part_is_told_in_firecrackers_words)
{
    static const char *const requests[] = {"PUT /machine-config", "PUT /boot-source",
                                           "PUT /drives/root",    "PUT /drives/scratch",
                                           "PUT /drives/bundle",  "PUT /vsock",
                                           "PUT /entropy",        "PUT /actions"};
    const char *why = is_missing();

    if (why)
        SKIP(why);
    for (size_t i = 0; i < COUNT_OF(requests); i++) {
        char faults[64], text[96];
        snprintf(faults, sizeof faults, "#fault %s refuse", requests[i]);
        snprintf(text, sizeof text, "refuses %s: told to refuse this.", requests[i]);
        CHECK(start_fails(faults, PATIENCE_MS, ERR_INVALID, text));
    }
}

TEST(a_firecracker_that_gives_no_proper_answer_is_given_up)
{
    static const struct {
        const char *faults;
        int64_t patience_ms;
        enum error_code code;
        const char *text;
    } rows[] = {
        {"#fault - start exit",             PATIENCE_MS, ERR_UNAVAILABLE, "ended"                 },
        {"#fault PUT /vsock garbage",       PATIENCE_MS, ERR_UNAVAILABLE, "no answer to PUT"      },
        {"#fault PUT /boot-source close",   PATIENCE_MS, ERR_UNAVAILABLE, "no answer to PUT"      },
        {"#fault PUT /actions exit",        PATIENCE_MS, ERR_UNAVAILABLE, "no answer to PUT"      },
        {"#fault PUT /entropy hang",        SHORT_MS,    ERR_TIMEOUT,     ""                      },
        {"#fault PUT /machine-config half", SHORT_MS,    ERR_TIMEOUT,     ""                      },
        {"#fault - agent absent",           SHORT_MS,    ERR_TIMEOUT,     ""                      },
        {"#fault - vsock garbage",          PATIENCE_MS, ERR_INVALID,     "something else than OK"},
    };
    const char *why = is_missing();

    if (why)
        SKIP(why);
    for (size_t i = 0; i < COUNT_OF(rows); i++)
        CHECK(start_fails(rows[i].faults, rows[i].patience_ms, rows[i].code, rows[i].text));
}

/* What it printed last is part of the news. */
TEST(the_last_line_of_the_log_is_in_the_error)
{
    const char *why = is_missing();

    if (why)
        SKIP(why);
    CHECK(start_fails("#fault - start exit", PATIENCE_MS, ERR_UNAVAILABLE,
                      "ends before its API is there"));
}

/* The stand-in for the jailer refuses what the real one does; so it is seen that it would. */
TEST(a_jailer_that_refuses_is_told_in_its_words)
{
    AUTO(rig_close) struct rig rig = {0};
    struct instance *instance;
    struct error err = {0};
    char renamed[PATH_MAX];

    const char *why = rig_find(&rig, "");
    if (why)
        SKIP(why);
    snprintf(renamed, sizeof renamed, "%s/other", rig.fixture.folder);
    CHECK(rename(rig.program, renamed) == 0);
    snprintf(rig.program, sizeof rig.program, "%s", renamed);
    CHECK(rig_host(&rig, false, &err));
    CHECK(!rig_start(&rig, PATIENCE_MS, &instance, &err));
    CHECK(err.code == ERR_UNAVAILABLE && strstr(err.text, "must contain \"firecracker\""));
    CHECK(rig_is_clean(&rig));
}

TEST(drives_that_are_not_there_are_named)
{
    AUTO(rig_close) struct rig rig = {0};
    struct instance *instance;
    struct error err = {0};

    const char *why = rig_find(&rig, "");
    if (why)
        SKIP(why);
    CHECK(rig_host(&rig, false, &err));
    rig.spec.drives.bundle = "/nowhere/bundle.ext4";
    CHECK(!rig_start(&rig, PATIENCE_MS, &instance, &err));
    CHECK(strstr(err.text, "/nowhere/bundle.ext4") && err.sys == ENOENT);
    CHECK(rig_is_clean(&rig));
}

/* Saves with one that does this wrong; the machine is over all the same. */
static bool save_fails(const char *faults, int timeout_ms, enum error_code code)
{
    AUTO(rig_close) struct rig rig = {0};
    AUTO(saved_image_finish) struct saved_image image = SAVED_IMAGE_NONE;
    struct instance *instance;
    struct error err = {0};

    if (rig_find(&rig, faults) || !rig_host(&rig, false, &err) ||
        !rig_start(&rig, PATIENCE_MS, &instance, &err))
        return false;
    struct pollfd ended = {.fd = instance_pidfd(instance), .events = POLLIN};
    bool is_refused = probe_meet(instance, time_boot_ms() + PATIENCE_MS, &err) &&
                      saved_image_make(&engine_firecracker, MIB(128), &image, &err) &&
                      !engine_firecracker.save(instance, &image, timeout_ms, &err) &&
                      err.code == code;
    bool is_over = poll(&ended, 1, 0) == 1;
    if (!is_refused)
        printf("# %s: code %d, %s\n", faults, (int)err.code, err.text);
    return instance_destroy(instance, &err) && rig_is_clean(&rig) && is_refused && is_over;
}

TEST(a_machine_that_cannot_be_saved_is_over_and_leaves_nothing)
{
    const char *why = is_missing();

    if (why)
        SKIP(why);
    CHECK(save_fails("#fault PATCH /vm refuse", PATIENCE_MS, ERR_INVALID));
    CHECK(save_fails("#fault PATCH /vm hang", SHORT_MS, ERR_TIMEOUT));
    CHECK(save_fails("#fault PUT /snapshot/create refuse", PATIENCE_MS, ERR_INVALID));
    CHECK(save_fails("#fault PUT /snapshot/create exit", PATIENCE_MS, ERR_UNAVAILABLE));
    CHECK(save_fails("#fault PUT /snapshot/create garbage", PATIENCE_MS, ERR_UNAVAILABLE));
    CHECK(save_fails("#fault PUT /snapshot/create hang", SHORT_MS, ERR_TIMEOUT));
}

/* Makes a copy with one that does this wrong when it is loaded. */
static bool restore_fails(const char *faults, bool (*spoil)(const struct saved_image *image),
                          enum error_code code, const char *text)
{
    AUTO(rig_close) struct rig rig = {0};
    AUTO(saved_image_finish) struct saved_image image = SAVED_IMAGE_NONE;
    struct instance *instance;
    struct error err = {0};

    if (rig_find(&rig, faults) || !rig_host(&rig, false, &err) ||
        !rig_template(&rig, &image, &err) || (spoil && !spoil(&image)))
        return false;
    bool is_refused = !rig_restore(&rig, &image, PATIENCE_MS, &instance, &err) &&
                      err.code == code && strstr(err.text, text);
    if (!is_refused)
        printf("# %s: code %d, %s\n", faults, (int)err.code, err.text);
    return rig_is_clean(&rig) && is_refused;
}

static bool spoil_devices(const struct saved_image *image)
{
    AUTO_FD int fd = openat(image->folder, MACHINE_DEVICES, O_WRONLY | O_CLOEXEC);

    return pwrite(fd, "\xff", 1, 0) == 1;
}

static bool spoil_memory(const struct saved_image *image)
{
    AUTO_FD int fd = openat(image->folder, MACHINE_MEMORY, O_WRONLY | O_CLOEXEC);

    return ftruncate(fd, MIB(1)) == 0;
}

static bool spoil_scratch(const struct saved_image *image)
{
    AUTO_FD int fd = openat(image->folder, MACHINE_SCRATCH, O_WRONLY | O_CLOEXEC);

    return ftruncate(fd, 4096) == 0;
}

TEST(what_cannot_be_loaded_starts_nothing)
{
    const char *why = is_missing();

    if (why)
        SKIP(why);
    CHECK(restore_fails("#fault PUT /snapshot/load refuse", NULL, ERR_INVALID, "told to refuse"));
    CHECK(restore_fails("#fault PUT /snapshot/load exit", NULL, ERR_UNAVAILABLE, "no answer"));
    CHECK(restore_fails("", spoil_devices, ERR_INVALID, "refuses PUT /snapshot/load"));
    CHECK(restore_fails("", spoil_memory, ERR_DAMAGED, "the saved memory has"));
    CHECK(restore_fails("", spoil_scratch, ERR_INVALID, "another size"));
}

/* The whole life of a worker with one machine; 0: it got to the end. */
static int worker_life(struct rig *rig, int die_at)
{
    struct instance *instance;
    struct error err = {0};

    journal_die_at = die_at;
    if (!rig_host(rig, false, &err) || !rig_start(rig, PATIENCE_MS, &instance, &err) ||
        !probe_meet(instance, time_boot_ms() + PATIENCE_MS, &err) ||
        !instance_destroy(instance, &err)) {
        printf("# %s\n", err.text);
        return 1;
    }
    engine_host_close(rig->host);
    return 0;
}

static bool reclaims_everything(struct rig *rig)
{
    struct error err = {0};

    if (!rig_host(rig, false, &err)) {
        printf("# %s\n", err.text);
        return false;
    }
    return engine_host_quarantined(rig->host, NULL, 0) == 0 && rig_is_clean(rig);
}

TEST(kill_at_each_journal_step_leaves_no_stray)
{
    AUTO(rig_close) struct rig rig = {0};
    int step = 1;
    bool has_ended = false;

    const char *why = rig_find(&rig, "");
    if (why)
        SKIP(why);
    for (; step < STEPS_MAX && !has_ended; step++) {
        int status;
        (void)fflush(stdout);
        pid_t pid = fork();
        if (pid == 0)
            _exit(worker_life(&rig, step));
        CHECK(pid > 0 && waitpid(pid, &status, 0) == pid);
        CHECK(status == 0 || (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL));
        has_ended = status == 0;
        bool is_clean = reclaims_everything(&rig);
        if (!is_clean)
            printf("# after a kill at step %d\n", step);
        CHECK(is_clean);
    }
    CHECK(has_ended && step > 8);
}

static bool group_is_empty(const char *tag)
{
    char script[256];
    struct error err = {0};

    snprintf(script, sizeof(script),
             "test -z \"$(cat /sys/fs/cgroup/*/helmr-test/%s/*/cgroup.procs "
             "/sys/fs/cgroup/helmr-test/%s/*/cgroup.procs 2>/dev/null)\"",
             tag, tag);
    return process_must((const char *const[]){"/bin/sh", "-c", script, NULL}, (struct str){0},
                        PATIENCE_MS, NULL, &err);
}

static void worker_until_killed(struct rig *rig, int report)
{
    struct instance *instance;
    struct error err = {0};
    char tag[16] = "";

    if (rig_host(rig, false, &err) && rig_start(rig, PATIENCE_MS, &instance, &err))
        snprintf(tag, sizeof tag, "%s", rig->tag);
    (void)!write(report, tag, sizeof tag);
    (void)pause();
}

/* The machine is no child of the worker, and ends with it nevertheless. */
TEST(no_machine_outlives_its_killed_worker)
{
    AUTO(rig_close) struct rig rig = {0};
    char tag[16] = "";
    int report[2];

    const char *why = rig_find(&rig, "");
    if (why)
        SKIP(why);
    CHECK(pipe(report) == 0);
    (void)fflush(stdout);
    pid_t pid = fork();
    if (pid == 0)
        worker_until_killed(&rig, report[1]);
    ssize_t got = read(report[0], tag, sizeof tag);
    bool was_running = got == sizeof tag && tag[0] && !group_is_empty(tag);
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);

    int64_t deadline = time_boot_ms() + PATIENCE_MS;
    bool is_empty = false;
    while (was_running && !(is_empty = group_is_empty(tag)) && time_boot_ms() < deadline)
        (void)poll(NULL, 0, 10);
    close(report[0]);
    close(report[1]);
    CHECK(reclaims_everything(&rig));
    CHECK(was_running && is_empty);
}

ENGINE_TEST_MAIN()
