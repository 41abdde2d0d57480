/* What the tests of this folder share: a work directory of their own, a platform root
 * with the agent, and the proof that nothing of a worker is left on the host.
 *
 * Every test program must also serve as the guard: ENGINE_TEST_MAIN does that.
 */
#pragma once

#include <elf.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "base/file.h"
#include "base/own.h"
#include "base/process.h"
#include "base/test.h"
#include "engine/engine.h"
#include "engine/guard.h"
#include "engine/guest_files.h"

struct fixture {
    char folder[64]; /* below /tmp */
    char work_dir[PATH_MAX], platform[PATH_MAX], layer[PATH_MAX];
};

static inline bool fixture_run(const char *const *argv)
{
    struct error err = {0};
    bool ok = process_must(argv, (struct str){0}, 30000, NULL, &err);

    if (!ok)
        printf("# %s: %s\n", argv[0], err.text);
    return ok;
}

static inline bool fixture_open(struct fixture *fixture)
{
    struct error err = {0};

    snprintf(fixture->folder, sizeof(fixture->folder), "/tmp/helmr-engine-XXXXXX");
    if (!mkdtemp(fixture->folder))
        return false;
    snprintf(fixture->work_dir, PATH_MAX, "%s/worker", fixture->folder);
    snprintf(fixture->platform, PATH_MAX, "%s/platform", fixture->folder);
    snprintf(fixture->layer, PATH_MAX, "%s/layer", fixture->folder);
    return directory_make(fixture->work_dir, 0700, &err) &&
           directory_make(fixture->platform, 0755, &err) &&
           directory_make(fixture->layer, 0755, &err);
}

static inline void fixture_close(struct fixture *fixture)
{
    struct error err = {0};
    AUTO_FD int parent = open("/tmp", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    if (fixture->folder[0] && !tree_remove(parent, fixture->folder + strlen("/tmp/"), &err))
        printf("# %s\n", err.text);
}

/* A program of a sandbox has no loader: one built with a sanitizer cannot run there. */
static inline bool fixture_is_static(const char *path)
{
    Elf64_Ehdr head;
    Elf64_Phdr part;
    AUTO_FD int fd = open(path, O_RDONLY | O_CLOEXEC);

    if (fd < 0 || pread(fd, &head, sizeof(head), 0) != sizeof(head))
        return false;
    for (int i = 0; i < head.e_phnum; i++) {
        off_t at = (off_t)head.e_phoff + i * (off_t)sizeof(part);
        if (pread(fd, &part, sizeof(part), at) != sizeof(part) || part.p_type == PT_INTERP)
            return false;
    }
    return true;
}

/* Why an engine cannot be started here, or NULL. */
static inline const char *fixture_agent(struct fixture *fixture, const char *runtime)
{
    char source[PATH_MAX], target[PATH_MAX + 16], which[64];
    const char *build = getenv("HELMR_BUILD_ROOT");
    const char *given = getenv("HELMR_TEST_AGENT");

    if (geteuid() != 0)
        return "needs root";
    snprintf(which, sizeof(which), "command -v %s", runtime);
    if (!fixture_run((const char *const[]){"/bin/sh", "-c", which, NULL}))
        return "the runtime is not installed";
    snprintf(source, sizeof(source), "%s/src/guest/helmr-guest", build ? build : ".");
    if (given)
        snprintf(source, sizeof(source), "%s", given);
    snprintf(target, sizeof(target), "%s/helmr-guest", fixture->platform);
    if (access(source, X_OK) != 0)
        return "helmr-guest is not built";
    if (!fixture_is_static(source))
        return "helmr-guest is not static in this build";
    return fixture_run((const char *const[]){"cp", source, target, NULL})
               ? NULL
               : "helmr-guest cannot be copied";
}

/* Why no machine can be started here, not even by a worker that is not root, or NULL. */
static inline const char *fixture_machine_of_user(void)
{
    struct guest_files files;
    struct error err = {0};

    if (!fixture_run((const char *const[]){"/bin/sh", "-c", "command -v qemu-system-x86_64", NULL}))
        return "QEMU is not installed";
    return guest_files_find(getenv("HELMR_WORKER_GUEST_DIR"), &files, &err)
               ? NULL
               : "no kernel for machines is built";
}

/* The same for one that is. */
static inline const char *fixture_machine(void)
{
    return geteuid() == 0 ? fixture_machine_of_user() : "needs root";
}

static inline struct engine_settings fixture_settings(const struct fixture *fixture)
{
    return (struct engine_settings){.work_dir = fixture->work_dir,
                                    .cgroup_parent = "helmr-test",
                                    .guest_dir = getenv("HELMR_WORKER_GUEST_DIR"),
                                    .slots = 4};
}

/* For AUTO, and to close early: whatever a test leaves half done, its worker is shut down. */
static inline void fixture_host_close(struct engine_host **host)
{
    engine_host_close(*host);
    *host = NULL;
}

/* The first thing found that carries the tag, as a shell command's output; empty: nothing. */
static inline bool fixture_nothing_left(const struct fixture *fixture, const char *tag)
{
    static const char script[] =
        "ls -d /sys/fs/cgroup/*/helmr-test/$1/* /sys/fs/cgroup/helmr-test/$1/* 2>/dev/null\n"
        "ls /run/helmr/$1 2>/dev/null\n"
        "ls $2/instances\n"
        "grep -F -e $2 -e /run/helmr/$1 /proc/self/mounts\n"
        "ip -o link | grep -i \"hx.*02:$(echo $1 | sed 's/../&:/g')\"\n"
        "nft list tables 2>/dev/null | grep helmr_$1\n"
        "grep -la -e \"$2/[i]nstances\" -e \"[g]roups.helmr-test.$1\" /proc/[0-9]*/cmdline "
        "2>/dev/null\n"
        "true";
    AUTO(buf_finish) struct buf out = {.max = 65536};
    struct error err = {0};
    const char *const argv[] = {"/bin/sh", "-c", script, "sh", tag, fixture->work_dir, NULL};

    if (!process_must(argv, (struct str){0}, 10000, &out, &err)) {
        printf("# %s\n", err.text);
        return false;
    }
    if (out.len)
        printf("# left: %.*s\n", (int)out.len, out.bytes);
    return out.len == 0;
}

#define ENGINE_TEST_MAIN()                                \
    int main(int argc, char **argv)                       \
    {                                                     \
        if (argc > 1 && strcmp(argv[1], "guard") == 0)    \
            return engine_guard_main(argc - 1, argv + 1); \
        return test_run_all();                            \
    }
