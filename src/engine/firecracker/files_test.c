#include "engine/firecracker/files.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include "engine/fixture.h"
#include "engine/mount.h"

/* An instance that is no more than its folder. */
struct scene {
    struct fixture fixture;
    struct engine_host host;
    struct instance instance;
    struct files files;
    int memory; /* a folder in memory with a file in it */
};

static void scene_close(struct scene *scene)
{
    files_finish(&scene->files);
    auto_close(&scene->memory);
    auto_close(&scene->instance.record.dir_fd);
    fixture_close(&scene->fixture);
}

static bool scene_open(struct scene *scene, struct error *err)
{
    struct record *record = &scene->instance.record;

    *scene = (struct scene){
        .host = {.jail_id_base = 200000},
          .files = {.root = -1, .saves = -1},
          .memory = -1
    };
    record->dir_fd = -1;
    scene->instance.host = &scene->host;
    if (!fixture_open(&scene->fixture) || !memory_folder_make(MIB(1), &scene->memory, err))
        return false;
    id_make(record->id);
    snprintf(record->path, sizeof record->path, "%s", scene->fixture.layer);
    record->dir_fd = open(record->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    AUTO_FD int file = openat(scene->memory, "memory", O_RDWR | O_CREAT | O_CLOEXEC, 0444);
    return fd_write_all(file, STR("all of it"), err) &&
           files_open(&scene->instance, "firecracker", MIB(1), &scene->files, err);
}

/* As the child that becomes the jailer: what is bound is read there, and cannot be written. */
static bool shows(const struct files *files, const char *name)
{
    struct error err = {0};
    char path[PATH_MAX], text[16] = "";

    snprintf(path, sizeof path, "%.4000s/%s", files->path, name);
    if (!mount_isolate(&err) || !files_place(files, &err)) {
        printf("# %s\n", err.text);
        return false;
    }
    AUTO_FD int fd = open(path, O_RDONLY | O_CLOEXEC);
    return read(fd, text, sizeof text) == 9 && strcmp(text, "all of it") == 0 &&
           open(path, O_RDWR | O_CLOEXEC) < 0 && errno == EROFS;
}

/* What kernels before 6.15 say to who would bind a file of a folder that is mounted nowhere. */
static bool forbid_binding(void)
{
    struct sock_filter rules[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_open_tree, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EINVAL),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    const struct sock_fprog program = {COUNT_OF(rules), rules};

    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
           prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

static int child_main(struct scene *scene, bool is_old)
{
    struct error err = {0};

    if (is_old && !forbid_binding())
        return 2;
    if (!files_bind(&scene->files, scene->memory, "memory", "mem", &err)) {
        printf("# %s\n", err.text);
        return 3;
    }
    bool is_copied = faccessat(scene->files.saves, "mem", F_OK, 0) == 0;
    return is_copied == is_old && shows(&scene->files, "mem") ? 0 : 4;
}

static bool child_succeeds(bool is_old)
{
    AUTO(scene_close) struct scene scene;
    struct error err = {0};
    int status = -1;

    if (!scene_open(&scene, &err)) {
        printf("# %s\n", err.text);
        return false;
    }
    (void)fflush(stdout);
    pid_t pid = fork();
    if (pid == 0)
        _exit(child_main(&scene, is_old));
    bool is_over = waitpid(pid, &status, 0) == pid;
    if (status != 0)
        printf("# status %d\n", status);
    return is_over && status == 0;
}

TEST(a_file_in_memory_is_shown_read_only)
{
    if (geteuid() != 0)
        SKIP("needs root");
    CHECK(child_succeeds(false));
}

TEST(where_the_kernel_binds_nothing_of_a_folder_in_memory_it_is_copied)
{
    if (geteuid() != 0)
        SKIP("needs root");
    CHECK(child_succeeds(true));
}

TEST(what_is_bound_is_a_regular_file_and_no_link)
{
    AUTO(scene_close) struct scene scene;
    struct error err = {0};
    char path[PATH_MAX];

    if (geteuid() != 0)
        SKIP("needs root");
    CHECK(scene_open(&scene, &err));
    snprintf(path, sizeof path, "%s/link", scene.fixture.folder);
    CHECK(symlink("/etc/passwd", path) == 0);
    CHECK(!files_bind(&scene.files, AT_FDCWD, path, "one", &err) && err.sys == ELOOP);
    CHECK(!files_bind(&scene.files, AT_FDCWD, scene.fixture.platform, "two", &err));
    CHECK(err.code == ERR_INVALID);
    CHECK(!files_bind(&scene.files, AT_FDCWD, "/nowhere/at/all", "three", &err));
    CHECK(err.sys == ENOENT);
}

/* The jailed process owns its root and can put there what it likes. */
TEST(what_a_machine_left_is_read_without_following_it_anywhere)
{
    AUTO(scene_close) struct scene scene;
    struct error err = {0};
    int fd;

    if (geteuid() != 0)
        SKIP("needs root");
    CHECK(scene_open(&scene, &err));
    CHECK(symlinkat("/etc/passwd", scene.files.root, "link") == 0);
    CHECK(mkfifoat(scene.files.root, "pipe", 0600) == 0);
    CHECK(!files_read_open(scene.files.root, "link", &fd, &err) && err.sys == ELOOP);
    CHECK(!files_read_open(scene.files.root, "pipe", &fd, &err) && err.code == ERR_INVALID);
    CHECK(!files_read_open(scene.files.root, "../../..", &fd, &err) && err.sys == EXDEV);
    CHECK(!files_read_open(scene.files.root, "/etc/passwd", &fd, &err) && err.sys == EXDEV);
}

TEST_MAIN()
