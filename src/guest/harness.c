#include "guest/harness.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "base/own.h"
#include "base/time.h"

enum { OUT_MAX = 64 << 20 };

const char *harness_obstacle(enum harness_engine engine)
{
    if (geteuid() != 0)
        return "only root makes namespaces here";
    if (engine != ON_LINUX && !GUEST_IS_STATIC)
        return "sanitizers do not run there";
    if (engine == ON_MACHINE)
        return harness_machine_obstacle();
    if (engine == ON_GVISOR && access("/usr/bin/runsc", X_OK) != 0)
        return "runsc is not installed";
    if (engine == ON_RUNC && access("/usr/sbin/runc", X_OK) != 0)
        return "runc is not installed";
    return NULL;
}

static bool make_folder(struct harness *harness, const char *name, struct error *err)
{
    char path[512];

    snprintf(path, sizeof path, "%s/%s", harness->folder, name);
    return mkdir(path, 0755) == 0 || error_errno(err, "mkdir %s", path);
}

static bool copy_file(const char *from, const char *to, struct error *err)
{
    AUTO_FD int in = open(from, O_RDONLY | O_CLOEXEC);
    AUTO_FD int out = open(to, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0755);
    char bytes[65536];
    ssize_t got;

    if (in < 0 || out < 0)
        return error_errno(err, "copying %s to %s", from, to);
    while ((got = read(in, bytes, sizeof bytes)) > 0) {
        if (write(out, bytes, (size_t)got) != got)
            return error_errno(err, "writing %s", to);
    }
    return true;
}

static bool copy_built(struct harness *harness, const char *built, const char *name,
                       struct error *err)
{
    const char *build = getenv("HELMR_BUILD_ROOT");
    char from[512], to[512];

    snprintf(from, sizeof from, "%s/src/guest/%s", build ? build : ".", built);
    snprintf(to, sizeof to, "%s/%s", harness->folder, name);
    return copy_file(from, to, err);
}

bool harness_write(struct harness *harness, const char *path, const char *text, struct error *err)
{
    char full[512];

    snprintf(full, sizeof full, "%s/%s", harness->folder, path);
    FILE *file = fopen(full, "we");
    if (!file)
        return error_errno(err, "open %s", full);
    bool is_written = fputs(text, file) >= 0;
    return (fclose(file) == 0 && is_written) || error_errno(err, "write %s", full);
}

/* A build with sanitizers cannot be static: its libraries go into both roots. */
static bool copy_libraries(struct harness *harness, struct error *err)
{
    static const char script[] =
        "for lib in $(ldd \"$0/platform/helmr-guest\" | grep -o '/[^ ]*'); do"
        "  for root in platform image; do"
        "    mkdir -p \"$0/$root${lib%/*}\" && cp -L \"$lib\" \"$0/$root$lib\" || exit 1;"
        "  done;"
        "done";

    if (GUEST_IS_STATIC)
        return true;
    const char *const argv[] = {"sh", "-c", script, harness->folder, NULL};
    return process_must(argv, (struct str){0}, 20000, NULL, err);
}

bool harness_prepare(struct harness *harness, enum harness_engine engine, enum setup_layout layout,
                     struct error *err)
{
    static const char *const folders[] = {"platform",
                                          "platform/proc",
                                          "platform/dev",
                                          "platform/sys",
                                          "platform/run",
                                          "platform/tmp",
                                          "platform/image",
                                          "platform/bundle",
                                          "platform/scratch",
                                          "platform/newroot",
                                          "platform/opt",
                                          "platform/opt/helmr",
                                          "platform/opt/helmr/adapter",
                                          "platform/opt/helmr/sdk",
                                          "image",
                                          "image/bin",
                                          "image/usr",
                                          "image/usr/bin",
                                          "image/etc",
                                          "image/tmp",
                                          "image/workspace",
                                          "image/workspace/old",
                                          "bundle",
                                          "bundle/task",
                                          "bundle/deps",
                                          "oci",
                                          "state"};

    *harness = (struct harness){
        .engine = engine,
        .layout = layout,
        .fd = -1,
        .out = {.max = OUT_MAX},
        .err = {.max = OUT_MAX},
        .other_out = {.max = OUT_MAX},
        .output = {.max = OUT_MAX},
        .log = {.max = OUT_MAX},
        .tree = {.max = OUT_MAX},
        .process = {.pidfd = -1},
        .folder = "/tmp/helmr-guest-test-XXXXXX",
    };
    if (!mkdtemp(harness->folder))
        return error_errno(err, "mkdtemp");
    for (size_t i = 0; i < COUNT_OF(folders); i++) {
        if (!make_folder(harness, folders[i], err))
            return false;
    }
    char link[512], old[512];
    snprintf(link, sizeof link, "%s/image/link", harness->folder);
    snprintf(old, sizeof old, "%s/image/workspace/old", harness->folder);
    return chmod(harness->folder, 0755) == 0 && symlink("/etc", link) == 0 &&
           chown(old, 1000, 1001) == 0 &&
           harness_write(harness, "image/workspace/old/inner", "below\n", err) &&
           copy_built(harness, "helmr-guest", "platform/helmr-guest", err) &&
           copy_built(harness, "guest_probe", "image/bin/probe", err) &&
           copy_built(harness, "guest_probe", "image/usr/bin/node", err) &&
           harness_write(harness, "image/etc/passwd",
                         "root:x:0:0::/root:/bin/sh\nann:x:1000:1001::/home/ann:/bin/ann-sh\n",
                         err) &&
           harness_write(harness, "image/etc/group", "root:x:0:\nann:x:1001:\nwheel:x:70:bob,ann\n",
                         err) &&
           harness_write(harness, "image/workspace/from-image", "below\n", err) &&
           harness_write(harness, "bundle/task/task.js", "the task\n", err) &&
           copy_libraries(harness, err);
}

/* As an OCI runtime would: the platform root, and in it the kernel's file systems. */
static bool enter_linux(void *arg, struct error *err)
{
    struct harness *harness = arg;
    char root[512], image[512], newroot[512];

    snprintf(root, sizeof root, "%s/platform", harness->folder);
    snprintf(image, sizeof image, "%s/image", harness->folder);
    bool is_direct = harness->layout == SETUP_LAYOUT_DIRECT;
    snprintf(newroot, sizeof newroot, "%s/platform/%s", harness->folder,
             is_direct ? "newroot" : "image");
    if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
        mount(root, root, NULL, MS_BIND, NULL) != 0 ||
        mount(image, newroot, NULL, MS_BIND, NULL) != 0)
        return error_errno(err, "mounting the roots");
    snprintf(image, sizeof image, "%s/bundle", harness->folder);
    snprintf(newroot, sizeof newroot, "%s/platform/bundle", harness->folder);
    if (mount(image, newroot, NULL, MS_BIND, NULL) != 0 || chdir(root) != 0 ||
        mount("proc", "proc", "proc", 0, NULL) != 0 ||
        mount("/dev", "dev", NULL, MS_BIND | MS_REC, NULL) != 0 ||
        mount("tmpfs", "run", "tmpfs", 0, NULL) != 0 ||
        mount("tmpfs", "scratch", "tmpfs", 0, NULL) != 0)
        return error_errno(err, "mounting the platform root");
    if (syscall(SYS_pivot_root, ".", ".") != 0 || umount2(".", MNT_DETACH) != 0 || chdir("/") != 0)
        return error_errno(err, "entering the platform root");
    return true;
}

/* The middle process: its only child is PID 1 of the new namespace, and ends with it. */
static int linux_main(struct harness *harness, int fd)
{
    if (unshare(CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWUTS | CLONE_NEWIPC) != 0)
        return 120;
    pid_t pid = fork();
    if (pid == 0) {
        struct error err;
        const char *const argv[] = {"helmr-guest", "--channel", "fd:3", NULL};
        char *const env[] = {NULL};
        if (!enter_linux(harness, &err)) {
            dprintf(2, "# %s\n", err.text);
            _exit(121);
        }
        if (dup2(fd, 3) < 0)
            _exit(122);
        execve("/helmr-guest", (char *const *)argv, env);
        _exit(123);
    }
    int status;
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 124;
}

static bool start_linux(struct harness *harness, int fd, struct error *err)
{
    pid_t pid = fork();

    if (pid < 0)
        return error_errno(err, "fork");
    if (pid == 0) {
        /* A second holder of our end would keep the channel open after we closed it. */
        close(harness->fd);
        _exit(linux_main(harness, fd));
    }
    harness->process = (struct process){pid, (int)syscall(SYS_pidfd_open, pid, 0)};
    return true;
}

bool harness_connect(struct harness *harness, int *theirs, struct error *err)
{
    int fds[2];

    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) != 0) {
        error_errno(err, "socketpair");
        return false;
    }
    harness->fd = fds[0];
    *theirs = fds[1];
    channel_init(&harness->channel, harness->fd, harness->fd, SIDE_HOST);
    return fcntl(harness->fd, F_SETFL, O_NONBLOCK) == 0 || error_errno(err, "fcntl");
}

bool harness_start(struct harness *harness, struct error *err)
{
    AUTO_FD int theirs = -1;

    signal(SIGPIPE, SIG_IGN);
    if (!harness_connect(harness, &theirs, err))
        return false;
    bool is_started = harness->engine == ON_LINUX     ? start_linux(harness, theirs, err)
                      : harness->engine == ON_MACHINE ? harness_start_machine(harness, theirs, err)
                                                      : harness_start_oci(harness, theirs, err);
    close(take_fd(&theirs));
    if (!is_started)
        return false;
    if (!harness_until(harness, &harness->has_hello))
        return error_set(err, ERR_TIMEOUT, "the agent did not say hello");
    struct message_welcome welcome = {.protocol = MESSAGE_PROTOCOL, .instance = STR("test")};
    return channel_send(&harness->channel, MESSAGE_WELCOME, &welcome, err);
}

void harness_finish(struct harness *harness)
{
    char state[512], name[64];
    struct error err;

    if (harness->fd >= 0) {
        channel_finish(&harness->channel);
        close(harness->fd);
    }
    /* The agent ends with its channel; only one that does not is killed. */
    int status;
    if (harness->process.pidfd >= 0 && !process_wait(&harness->process, 5000, &status, &err))
        printf("# the agent outlived its channel\n");
    process_finish(&harness->process);
    bool is_oci = harness->engine == ON_GVISOR || harness->engine == ON_RUNC;
    if (harness->folder[0] && is_oci) {
        snprintf(state, sizeof state, "%s/state", harness->folder);
        snprintf(name, sizeof name, "%s", strrchr(harness->folder, '/') + 1);
        const char *const argv[] = {harness->engine == ON_RUNC ? "runc" : "runsc",
                                    "--root",
                                    state,
                                    "delete",
                                    "--force",
                                    name,
                                    NULL};
        struct process_spec spec = {.argv = argv};
        (void)!process_run(&spec, (struct str){0}, 20000, NULL, NULL, &status, &err);
    }
    if (harness->folder[0]) {
        const char *const argv[] = {"rm", "-rf", "--one-file-system", harness->folder, NULL};
        (void)!process_must(argv, (struct str){0}, 20000, NULL, &err);
    }
    buf_finish(&harness->out);
    buf_finish(&harness->err);
    buf_finish(&harness->other_out);
    buf_finish(&harness->output);
    buf_finish(&harness->log);
    buf_finish(&harness->tree);
    buf_finish(&harness->files);
}

struct message_setup harness_setup(const struct harness *harness)
{
    static const char entropy[64];
    static const struct str env[] = {STR("COLOUR=blue"), STR("LD_PRELOAD=/evil.so")};
    static const struct str dns[] = {STR("198.18.0.1")};

    return (struct message_setup){
        .id = 1,
        .entropy = {entropy, sizeof entropy},
        .machine_id = STR("0123456789abcdef0123456789abcdef"),
        .boot_id = STR("01234567-89ab-cdef-0123-456789abcdef"),
        .generation = 7,
        .layout = harness->layout,
        .mount = STR("/workspace"),
        .env = {env,     COUNT_OF(env) },
        .dns = {dns,     1             },
        .user = STR("ann"),
        .platform = 1,
    };
}
