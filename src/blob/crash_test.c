/* Saving, killed at every system call and on a disk that is full at every size: what was there
 * before stays readable, and nothing that is there is half. */
#include <dirent.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "base/file.h"
#include "base/test.h"
#include "blob/loader.h"
#include "blob/saver.h"
#include "blob/testing.h"

enum { LEN = 300 * 1024, CALLS_MAX = 4000, TRACED = 0x80 };

static char bytes[LEN];
static struct seal_keys keys;

static bool save(struct blob_store *store, const char *parent, struct saved *saved,
                 struct error *err)
{
    struct object_backend backend = object_backend_of(store);
    struct loader *loader = NULL;
    struct saver *saver = NULL;
    struct str rest = {bytes, LEN};

    if (parent && !loader_create(&backend, &keys, parent, &loader, err))
        return false;
    struct saver_plan plan = {.backend = &backend,
                              .keys = &keys,
                              .kind = "checkpoint",
                              .parent = loader ? loader_manifest(loader) : NULL,
                              .parent_digest = parent,
                              .sizes = chunk_sizes_memory};
    saver_create(&plan, &saver);
    bool fine = saver_stream(saver, "memory", saver_source_memory(&rest), err) &&
                saver_end(saver, saved, err);
    saver_destroy(saver);
    loader_destroy(loader);
    return fine;
}

static bool loads(struct blob_store *store, const char *manifest, struct str want,
                  struct error *err)
{
    struct object_backend backend = object_backend_of(store);
    AUTO(buf_finish) struct buf got = {0};
    struct loader *loader = NULL;

    bool fine = loader_create(&backend, &keys, manifest, &loader, err) &&
                loader_stream(loader, "memory", test_sink(&got), err);
    loader_destroy(loader);
    return fine &&
           (str_equal(buf_str(&got), want) || error_set(err, ERR_DAMAGED, "other bytes came back"));
}

/* Whether every object of the shard is the one its name says. */
static bool shard_is_whole(const char *path, size_t *n)
{
    DIR *shard = opendir(path);
    struct dirent *entry;
    bool fine = shard != NULL;

    while (fine && (entry = readdir(shard))) {
        struct seal_source source;
        char digest[SHA256_HEX];
        struct error err;
        if (entry->d_name[0] == '.')
            continue;
        char file[1024];
        snprintf(file, sizeof file, "%s/%s", path, entry->d_name);
        AUTO_FD int fd = open(file, O_RDONLY | O_CLOEXEC);
        fine = fd >= 0 && seal_source_fd(&fd, &source, &err) &&
               seal_source_digest(&source, digest, &err) && strcmp(digest, entry->d_name) == 0;
        (*n)++;
    }
    if (shard)
        closedir(shard);
    return fine;
}

static bool all_whole(size_t *n)
{
    char path[512];
    struct dirent *entry;
    bool fine = true;

    *n = 0;
    snprintf(path, sizeof path, "%s/blobs", test_folder);
    DIR *blobs = opendir(path);
    while (blobs && fine && (entry = readdir(blobs))) {
        snprintf(path, sizeof path, "%s/blobs/%s", test_folder, entry->d_name);
        fine = entry->d_name[0] == '.' || shard_is_whole(path, n);
    }
    if (blobs)
        closedir(blobs);
    return blobs && fine;
}

static struct blob_store *fresh_store(void)
{
    keys = test_keys(0, 1);
    test_noise(1, (uint8_t *)bytes, LEN);
    return test_store_make();
}

static pid_t start_traced(struct blob_store *store, const char *parent)
{
    pid_t child = fork();

    if (child != 0)
        return child;
    struct saved saved;
    struct error err;
    if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) != 0 || raise(SIGSTOP) != 0)
        _exit(3);
    _exit(save(store, parent, &saved, &err) ? 0 : 1);
}

struct trace {
    struct call {
        uint64_t number, first, third; /* two of its arguments */
    } calls[CALLS_MAX];
    size_t n;
};

/* Lets it go on for `limit` system calls, then kills it. *has_ended: it came to its end. */
static bool run_traced(pid_t child, size_t limit, struct trace *trace, bool *has_ended)
{
    int status = 0;

    *has_ended = false;
    trace->n = 0;
    if (waitpid(child, &status, 0) != child || !WIFSTOPPED(status) ||
        ptrace(PTRACE_SETOPTIONS, child, NULL, (void *)PTRACE_O_TRACESYSGOOD) != 0)
        return false;
    while (trace->n < limit && trace->n < CALLS_MAX) {
        if (ptrace(PTRACE_SYSCALL, child, NULL, NULL) != 0 || waitpid(child, &status, 0) != child)
            return false;
        if (WIFEXITED(status)) {
            *has_ended = true;
            return WEXITSTATUS(status) == 0;
        }
        struct __ptrace_syscall_info info;
        if (WIFSTOPPED(status) && WSTOPSIG(status) == (SIGTRAP | TRACED) &&
            ptrace(PTRACE_GET_SYSCALL_INFO, child, (void *)sizeof info, &info) > 0 &&
            info.op == PTRACE_SYSCALL_INFO_ENTRY)
            trace->calls[trace->n++] =
                (struct call){info.entry.nr, info.entry.args[0], info.entry.args[2]};
    }
    return kill(child, SIGKILL) == 0 && waitpid(child, &status, 0) == child && WIFSIGNALED(status);
}

static bool can_trace(void)
{
    pid_t child = fork();
    int status = 0;

    if (child == 0)
        _exit(ptrace(PTRACE_TRACEME, 0, NULL, NULL) == 0 ? 0 : 1);
    return child > 0 && waitpid(child, &status, 0) == child && status == 0;
}

TEST(a_crash_at_each_write_leaves_old_or_new)
{
    struct blob_store *store = fresh_store();
    static struct trace trace;
    static char old_bytes[LEN];
    struct saved old;
    struct error err;
    bool has_ended = false;
    size_t n_before, n_after = 0;

    CHECK(store);
    if (!can_trace()) {
        test_store_drop(store);
        SKIP("tracing is not allowed here");
    }
    CHECK(save(store, NULL, &old, &err) && all_whole(&n_before) && n_before == 2);
    memcpy(old_bytes, bytes, LEN);
    test_noise(2, (uint8_t *)bytes + LEN / 3, LEN / 3);
    for (size_t limit = 1; !has_ended; limit++) {
        pid_t child = start_traced(store, old.manifest);
        CHECK(child > 0 && run_traced(child, limit, &trace, &has_ended));
        CHECK(all_whole(&n_after));
        CHECK(loads(store, old.manifest, (struct str){old_bytes, LEN}, &err));
    }
    CHECK(trace.n > 20 && n_after > n_before);
    struct saved saved;
    CHECK(save(store, old.manifest, &saved, &err));
    CHECK(loads(store, saved.manifest, (struct str){bytes, LEN}, &err));
    test_store_drop(store);
}

/* A kill cannot show what a power cut would: that the bytes reach the disk before their name does,
 * and the name before anybody is told. So the order of the calls is looked at. */
TEST(bytes_are_synced_before_their_name_and_the_name_before_success)
{
    struct blob_store *store = fresh_store();
    static struct trace trace;
    struct saved old;
    struct error err;
    bool has_ended = false;
    size_t n_names = 0;

    CHECK(store);
    if (!can_trace()) {
        test_store_drop(store);
        SKIP("tracing is not allowed here");
    }
    CHECK(save(store, NULL, &old, &err));
    test_noise(3, (uint8_t *)bytes, LEN);
    pid_t child = start_traced(store, old.manifest);
    CHECK(child > 0 && run_traced(child, CALLS_MAX, &trace, &has_ended) && has_ended);
    uint64_t written = 0, folder_fd = 0;
    bool is_synced = false, is_named = true;
    for (size_t i = 0; i < trace.n; i++) {
        const struct call *call = &trace.calls[i];
        if (call->number == SYS_write) {
            CHECK(is_named);
            is_synced = false;
            written = call->first;
        } else if (call->number == SYS_fsync) {
            is_synced = is_synced || call->first == written;
            is_named = is_named || call->first == folder_fd;
        } else if (call->number == SYS_renameat || call->number == SYS_renameat2) {
            CHECK(is_synced);
            is_named = false;
            folder_fd = call->third;
            n_names++;
        }
    }
    CHECK(n_names == 2 && is_named);
    test_store_drop(store);
}

TEST(a_disk_full_at_each_write_corrupts_nothing)
{
    struct blob_store *store = NULL;
    struct saved old, saved;
    struct error err;
    char size[32];
    static char old_bytes[LEN];
    bool fine = false;
    size_t n;

    CHECK((store = fresh_store()));
    blob_store_close(store);
    if (unshare(CLONE_NEWNS) != 0 || mount("", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
        mount("none", test_folder, "tmpfs", 0, "size=500k") != 0) {
        CHECK(folder_remove(test_folder, &err));
        SKIP("only root can mount a small disk");
    }
    CHECK(blob_store_open(test_folder, &store, &err) && save(store, NULL, &old, &err));
    memcpy(old_bytes, bytes, LEN);
    test_noise(2, (uint8_t *)bytes, LEN);
    for (int kib = 400; !fine && kib < 2000; kib += 40) {
        snprintf(size, sizeof size, "size=%dk", kib);
        CHECK(mount("none", test_folder, "tmpfs", MS_REMOUNT, size) == 0);
        fine = save(store, old.manifest, &saved, &err);
        CHECK(fine || (err.code == ERR_UNAVAILABLE && strstr(err.text, "full")));
        CHECK(all_whole(&n));
        CHECK(loads(store, old.manifest, (struct str){old_bytes, LEN}, &err));
    }
    CHECK(fine && loads(store, saved.manifest, (struct str){bytes, LEN}, &err));
    blob_store_close(store);
    CHECK(umount(test_folder) == 0 && folder_remove(test_folder, &err));
}

TEST_MAIN()
