#include "guest/sandbox.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/random.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <time.h>

#include "base/file.h"
#include "base/own.h"
#include "base/time.h"
#include "guest/mounts.h"
#include "guest/path.h"
#include "guest/sharing.h"
#include "guest/statx.h"

#define STATX_SHIM "/dev/.helmr-statx.so"

enum { INSIDE_MAX = 4200 };

struct sandbox_trace {
    struct sandbox_trace *next;
    const char *path;   /* inside the root */
    const char *target; /* of a link that stood there, or NULL */
    bool is_directory, is_new;
};

static const char *inside(struct sandbox *sandbox, const char *path)
{
    return arena_printf(&sandbox->arena, "%s%s", SANDBOX_ROOT, path);
}

static void trace(struct sandbox *sandbox, const char *path, const char *target, bool is_directory,
                  bool is_new)
{
    struct sandbox_trace *made = arena_alloc(&sandbox->arena, sizeof *made);

    *made = (struct sandbox_trace){sandbox->traces, arena_text(&sandbox->arena, str_of(path)),
                                   target, is_directory, is_new};
    sandbox->traces = made;
}

/* Takes away a link or file that stands where a platform directory must be. */
static bool displace(struct sandbox *sandbox, const char *path, struct error *err)
{
    enum path_kind kind;

    if (!path_kind(SANDBOX_ROOT, path, &kind, err))
        return false;
    if (kind != PATH_LINK && kind != PATH_OTHER)
        return true;
    if (sandbox->is_layer)
        return error_set(err, ERR_FORBIDDEN, "%s of the image is no directory", path);
    if (unlink(inside(sandbox, path)) != 0)
        return error_errno(err, "removing %s", path);
    return true;
}

/* Makes the missing directories above `path`, noting each. */
static bool make_parents(struct sandbox *sandbox, const char *path, struct error *err)
{
    for (const char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        const char *parent =
            arena_text(&sandbox->arena, (struct str){path, (size_t)(slash - path)});
        bool is_new;
        if (!path_make(SANDBOX_ROOT, parent, 0755, &is_new, err))
            return false;
        if (is_new)
            trace(sandbox, parent, NULL, true, true);
    }
    return true;
}

/* A directory of the root to mount on; *target is its path for the agent. */
static bool mount_point(struct sandbox *sandbox, const char *path, mode_t mode, const char **target,
                        bool *is_new, struct error *err)
{
    if (!make_parents(sandbox, path, err) || !displace(sandbox, path, err) ||
        !path_make(SANDBOX_ROOT, path, mode, is_new, err))
        return false;
    trace(sandbox, path, NULL, true, *is_new);
    *target = inside(sandbox, path);
    return true;
}

static bool make_state(const char *path, struct error *err)
{
    if (mkdir(path, 0755) != 0 && errno != EEXIST)
        return error_errno(err, "making %s", path);
    return true;
}

static bool layer_open(struct sandbox *sandbox, struct error *err)
{
    sandbox->layer_fd = open("/scratch/root/upper", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return sandbox->layer_fd >= 0 || error_errno(err, "open the image's changes");
}

static bool setup_root(struct sandbox *sandbox, const struct message_setup *setup,
                       struct error *err)
{
    static const char *const directories[] = {"/scratch/root",      "/scratch/root/upper",
                                              "/scratch/root/work", "/scratch/ws",
                                              "/scratch/ws/upper",  "/scratch/ws/work"};

    if (!make_state(SANDBOX_STATE, err) || !make_state(SANDBOX_STATE "/etc", err) ||
        !make_state(SANDBOX_STATE "/empty", err))
        return false;
    if (setup->layout == SETUP_LAYOUT_DIRECT)
        return true;
    if (setup->layout != SETUP_LAYOUT_AGENT)
        return error_set(err, ERR_INVALID, "layout %u is not known", setup->layout);
    for (size_t i = 0; i < COUNT_OF(directories); i++) {
        if (!make_state(directories[i], err))
            return false;
    }
    /* The upper directory is what programs see as the root's owner and mode. */
    struct stat info;
    if (stat("/image", &info) != 0 || chmod("/scratch/root/upper", info.st_mode & 07777) != 0)
        return error_errno(err, "the mode of the image's root");
    if (setup->is_layer && !layer_open(sandbox, err))
        return false;
    return mount_overlay("/image", "/scratch/root/upper", "/scratch/root/work", SANDBOX_ROOT, err);
}

/* What the image has at the mount path shows through; a link there is refused. */
static bool image_lower(struct sandbox *sandbox, const char **lower, struct error *err)
{
    enum path_kind kind;
    struct stat info;

    *lower = SANDBOX_STATE "/empty";
    if (!path_kind("/image", sandbox->mount, &kind, err))
        return false;
    if (kind == PATH_ABSENT)
        return true;
    if (kind != PATH_DIRECTORY)
        return error_set(err, ERR_FORBIDDEN, "%s of the image is no directory", sandbox->mount);
    *lower = arena_printf(&sandbox->arena, "/image%s", sandbox->mount);
    if (stat(*lower, &info) != 0 || chmod("/scratch/ws/upper", info.st_mode & 07777) != 0)
        return error_errno(err, "the mode of %s", sandbox->mount);
    return true;
}

static bool setup_workspace(struct sandbox *sandbox, const struct message_setup *setup,
                            struct error *err)
{
    const char *lower = NULL;
    bool is_new;

    if (!sandbox->mount)
        return true;
    /* These would end a path inside the options of the overlay. */
    if (strpbrk(sandbox->mount, ":,\\") || !path_is_clean(str_of(sandbox->mount)))
        return error_set(err, ERR_FORBIDDEN, "the mount path %s is not allowed", sandbox->mount);
    if (setup->layout == SETUP_LAYOUT_AGENT && !image_lower(sandbox, &lower, err))
        return false;
    if (!path_make(SANDBOX_ROOT, sandbox->mount, 0755, &is_new, err))
        return false;

    const char *target = inside(sandbox, sandbox->mount);
    const char *owned = setup->layout == SETUP_LAYOUT_AGENT ? "/scratch/ws/upper" : target;
    if (chown(owned, sandbox->user.uid, sandbox->user.gid) != 0)
        return error_errno(err, "the owner of %s", sandbox->mount);
    if (setup->layout != SETUP_LAYOUT_AGENT)
        return true;
    /* Opened now: later there may be no way to it. */
    sandbox->upper_fd = open("/scratch/ws/upper", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    sandbox->lower_fd = open(lower, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (sandbox->upper_fd < 0 || sandbox->lower_fd < 0)
        return error_errno(err, "open the workspace's changes");
    if (!mount_overlay(lower, "/scratch/ws/upper", "/scratch/ws/work", target, err))
        return false;
    sandbox->merged_fd = open(target, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return sandbox->merged_fd >= 0 || error_errno(err, "open the workspace");
}

/* /tmp and /run are the image's when they are directories there, else a tmpfs. */
static bool setup_temporary(struct sandbox *sandbox, const char *path, mode_t mode,
                            const char *options, struct error *err)
{
    enum path_kind kind;
    const char *target;
    bool is_new;

    if (!path_kind(SANDBOX_ROOT, path, &kind, err))
        return false;
    if (kind == PATH_DIRECTORY) {
        if (!sandbox->is_layer && chmod(inside(sandbox, path), mode) != 0)
            return error_errno(err, "the mode of %s", path);
        return true;
    }
    return mount_point(sandbox, path, mode, &target, &is_new, err) &&
           mount_tmpfs(target, MS_NOSUID | MS_NODEV, options, err);
}

static bool setup_kernel(struct sandbox *sandbox, struct error *err)
{
    const char *target;
    bool is_new;

    if (!mount_point(sandbox, "/proc", 0555, &target, &is_new, err))
        return false;
    if (!mount_point(sandbox, "/dev", 0755, &target, &is_new, err) ||
        !mount_dev(target, sandbox->shm_bytes, err))
        return false;
    if (!mount_point(sandbox, "/sys", 0555, &target, &is_new, err) || !mount_sys(target, err))
        return false;
    return setup_temporary(sandbox, "/tmp", 01777, "mode=1777", err) &&
           setup_temporary(sandbox, "/run", 0755, "mode=755", err);
}

/* A file that must not stay in the layer: bound over what is there, or over a placeholder. */
static bool cover_file(struct sandbox *sandbox, const char *path, struct str text,
                       struct error *err)
{
    const char *copy = arena_printf(&sandbox->arena, SANDBOX_STATE "%s", path);
    char target[INSIDE_MAX];
    enum path_kind kind;

    if (!path_write(SANDBOX_STATE, path, 0644, text, err) ||
        !path_kind(SANDBOX_ROOT, path, &kind, err))
        return false;
    if (kind == PATH_DIRECTORY)
        return error_set(err, ERR_FORBIDDEN, "%s of the image is a directory", path);
    const char *link = NULL;
    if (kind == PATH_LINK) {
        ssize_t len = readlink(inside(sandbox, path), target, sizeof target - 1);
        if (len < 0)
            return error_errno(err, "reading %s", path);
        link = arena_text(&sandbox->arena, (struct str){target, (size_t)len});
    }
    if (kind != PATH_OTHER && !path_write(SANDBOX_ROOT, path, 0644, STR(""), err))
        return false;
    trace(sandbox, path, link, false, kind != PATH_OTHER);
    return mount_bind(copy, inside(sandbox, path), false, err);
}

static bool place_file(struct sandbox *sandbox, const char *path, mode_t mode, struct str text,
                       struct error *err)
{
    if (sandbox->is_layer)
        return cover_file(sandbox, path, text, err);
    return path_write(SANDBOX_ROOT, path, mode, text, err);
}

static const char hosts[] = "127.0.0.1 localhost\n"
                            "::1 localhost ip6-localhost ip6-loopback\n"
                            "127.0.1.1 helmr-sandbox\n";

/* Where ls would fail, every program is given a statx that works. An image with a preload of its
 * own keeps that. */
static bool setup_statx(struct sandbox *sandbox, struct error *err)
{
    enum path_kind kind;

    if (!statx_is_broken())
        return true;
    if (!path_kind(SANDBOX_ROOT, "/etc/ld.so.preload", &kind, err))
        return false;
    return kind != PATH_ABSENT ||
           (path_write(SANDBOX_ROOT, STATX_SHIM, 0755, statx_shim(), err) &&
            place_file(sandbox, "/etc/ld.so.preload", 0644, STR(STATX_SHIM "\n"), err));
}

/* What is never the same in two lives of a sandbox. */
struct identity {
    struct str machine_id, boot_id;
    struct str_list dns;
    uint64_t generation;
};

static bool place_servers(struct sandbox *sandbox, struct str_list dns, struct error *err)
{
    AUTO(buf_finish) struct buf text = {.max = KIB(1)};

    for (size_t i = 0; i < dns.n; i++) {
        if (!buf_append(&text, STR("nameserver "), err) || !buf_append(&text, dns.items[i], err) ||
            !buf_append(&text, STR("\n"), err))
            return false;
    }
    return !dns.n || place_file(sandbox, "/etc/resolv.conf", 0644, buf_str(&text), err);
}

/* Programs have it bound over a file of their /proc: the same file gets another text. */
static bool write_boot_id(const struct sandbox *sandbox, struct str id, struct error *err)
{
    char text[64];
    AUTO_FD int fd = open(sandbox->boot_id_file, O_WRONLY | O_TRUNC | O_NOFOLLOW | O_CLOEXEC);

    if (fd < 0)
        return error_errno(err, "open %s", sandbox->boot_id_file);
    snprintf(text, sizeof text, "%.*s\n", (int)id.len, id.ptr);
    return fd_write_all(fd, str_of(text), err);
}

/* The generation is there for programs that keep random numbers or connections of their own: when
 * it has changed, theirs are those of another life. */
static bool place_identity(struct sandbox *sandbox, const struct identity *identity,
                           struct error *err)
{
    char id[64], generation[32];
    bool is_new;

    if (!place_servers(sandbox, identity->dns, err) ||
        !write_boot_id(sandbox, identity->boot_id, err))
        return false;
    if (sandbox->is_layer)
        return true;
    snprintf(id, sizeof id, "%.*s\n", (int)identity->machine_id.len, identity->machine_id.ptr);
    snprintf(generation, sizeof generation, "%llu\n", (unsigned long long)identity->generation);
    return place_file(sandbox, "/etc/machine-id", 0444, str_of(id), err) &&
           path_make(SANDBOX_ROOT, "/run/helmr", 0755, &is_new, err) &&
           path_write(SANDBOX_ROOT, "/run/helmr/generation", 0444, str_of(generation), err);
}

static bool setup_identity(struct sandbox *sandbox, const struct message_setup *setup,
                           struct error *err)
{
    /* A runtime that named the sandbox already may not let it be named again. */
    if (sethostname("helmr-sandbox", 13) != 0 && errno != EPERM)
        return error_errno(err, "setting the host name");
    if (!place_file(sandbox, "/etc/hostname", 0644, STR("helmr-sandbox\n"), err) ||
        !place_file(sandbox, "/etc/hosts", 0644, str_of(hosts), err))
        return false;
    const struct identity identity = {setup->machine_id, setup->boot_id, setup->dns,
                                      setup->generation};
    sandbox->boot_id_file = SANDBOX_STATE "/boot_id";
    return path_write(SANDBOX_STATE, "/boot_id", 0444, STR(""), err) &&
           place_identity(sandbox, &identity, err);
}

bool sandbox_renew(struct sandbox *sandbox, const struct message_reestablish *message,
                   struct error *err)
{
    const struct identity identity = {message->machine_id, message->boot_id, message->dns,
                                      message->generation};

    if (!place_identity(sandbox, &identity, err))
        return false;
    sandbox->generation = message->generation;
    return true;
}

static const struct {
    const char *source, *name;
} platform[] = {
    {"/opt/helmr/adapter", "adapter"},
    {"/opt/helmr/sdk",     "sdk"    },
    {"/bundle/task",       "task"   },
    {"/bundle/deps",       "deps"   },
};

static bool setup_platform(struct sandbox *sandbox, struct error *err)
{
    const char *target;
    bool is_new;

    if (!mount_point(sandbox, "/opt/helmr", 0755, &target, &is_new, err) ||
        !mount_tmpfs(target, MS_NOSUID | MS_NODEV, "mode=755,size=64k", err))
        return false;
    for (size_t i = 0; i < COUNT_OF(platform); i++) {
        const char *place = arena_printf(&sandbox->arena, "%s/%s", target, platform[i].name);
        struct stat info;
        if (stat(platform[i].source, &info) != 0)
            continue;
        if (mkdir(place, 0755) != 0)
            return error_errno(err, "making %s", place);
        if (!mount_bind(platform[i].source, place, true, err))
            return false;
    }
    /* Refused inside gVisor; there only root could write, and only over the empty tmpfs. */
    (void)!mount(NULL, target, NULL, MS_REMOUNT | MS_RDONLY | MS_NOSUID | MS_NODEV, NULL);
    return true;
}

/* Random bytes of the host's, credited, so that two copies of a guest differ. OCI guests share
 * the host's generator and may not credit; mixing in is enough there. */
static void add_entropy(struct str entropy)
{
    AUTO_FD int fd = open("/dev/urandom", O_WRONLY | O_CLOEXEC);

    if (fd >= 0)
        (void)!write(fd, entropy.ptr, entropy.len);
}

static void end_phase(struct sandbox *sandbox, const char *name, int64_t *since_ns)
{
    int64_t now = time_boot_ns();
    const char *text =
        arena_printf(&sandbox->arena, "%s=%lld", name, (long long)((now - *since_ns) / 1000));

    if (sandbox->n_phases < SANDBOX_PHASES_MAX)
        sandbox->phases[sandbox->n_phases++] = str_of(text);
    *since_ns = now;
}

static void remember(struct sandbox *sandbox, const struct message_setup *setup)
{
    struct arena *arena = &sandbox->arena;
    struct str *env = arena_array(arena, setup->env.n + 1, sizeof *env);

    for (size_t i = 0; i < setup->env.n; i++)
        env[i] = arena_str(arena, setup->env.items[i]);
    sandbox->env = (struct str_list){env, setup->env.n};
    struct str *ports = arena_array(arena, setup->ports.n + 1, sizeof *ports);
    for (size_t i = 0; i < setup->ports.n; i++)
        ports[i] = arena_str(arena, setup->ports.items[i]);
    sandbox->ports = (struct str_list){ports, setup->ports.n};
    sandbox->is_started = true;
    sandbox->generation = setup->generation;
    sandbox->is_layer = setup->is_layer != 0;
    sandbox->shm_bytes = setup->shm_bytes;
    sandbox->mount = setup->mount.len ? arena_text(arena, setup->mount) : NULL;
    sandbox->workdir = setup->workdir.len ? arena_text(arena, setup->workdir) : "/";
}

static const char *failure_of(const char *stage_failure, const struct error *err)
{
    if (err->sys == ENOSPC)
        return "disk_full";
    return err->code == ERR_FORBIDDEN ? "unsafe_path" : stage_failure;
}

static bool setup_files(struct sandbox *sandbox, const struct message_setup *setup,
                        int64_t *since_ns, struct error *err)
{
    if (!setup_kernel(sandbox, err))
        return false;
    end_phase(sandbox, "kernel", since_ns);
    if (!setup_statx(sandbox, err) || !setup_identity(sandbox, setup, err))
        return false;
    end_phase(sandbox, "identity", since_ns);
    if (setup->platform && !setup_platform(sandbox, err))
        return false;
    end_phase(sandbox, "platform", since_ns);
    return true;
}

bool sandbox_setup(struct sandbox *sandbox, const struct message_setup *setup, const char **failure,
                   struct error *err)
{
    int64_t since_ns = time_boot_ns();
    const char *stage = "mount_failed";
    bool is_fine = false;

    remember(sandbox, setup);
    add_entropy(setup->entropy);
    if (setup_root(sandbox, setup, err)) {
        end_phase(sandbox, "root", &since_ns);
        stage = "image_root_invalid";
        is_fine = user_resolve(SANDBOX_ROOT, setup->user, &sandbox->user, err);
    }
    if (is_fine) {
        stage = "mount_failed";
        is_fine = setup_workspace(sandbox, setup, err);
        end_phase(sandbox, "workspace", &since_ns);
    }
    is_fine = is_fine && setup_files(sandbox, setup, &since_ns, err) && sharing_setup(sandbox, err);
    end_phase(sandbox, "sharing", &since_ns);
    if (!is_fine)
        *failure = failure_of(stage, err);
    sandbox->is_ready = is_fine;
    return is_fine;
}

void sandbox_clear(struct sandbox *sandbox)
{
    for (const struct sandbox_trace *t = sandbox->traces; t && sandbox->is_layer; t = t->next) {
        const char *path = inside(sandbox, t->path);

        while (umount2(path, MNT_DETACH) == 0)
            ;
        if (!t->is_new)
            continue;
        (void)!(t->is_directory ? rmdir(path) : unlink(path));
        if (t->target)
            (void)!symlink(t->target, path);
    }
    sandbox->traces = NULL;
}
