#include "engine/oci/bundle.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "base/json.h"
#include "base/own.h"
#include "engine/oci/mapped.h"

enum { FILES_MAX = 65536 };

static const char *const capabilities[] = {
    "CAP_SYS_ADMIN", "CAP_CHOWN",      "CAP_DAC_OVERRIDE",     "CAP_FOWNER",  "CAP_FSETID",
    "CAP_KILL",      "CAP_MKNOD",      "CAP_SETUID",           "CAP_SETGID",  "CAP_SETPCAP",
    "CAP_SETFCAP",   "CAP_SYS_CHROOT", "CAP_NET_BIND_SERVICE", "CAP_NET_RAW", "CAP_AUDIT_WRITE",
};

static const char *const platform_folders[] = {
    "proc", "dev", "sys", "run", "tmp", "image", "bundle", "scratch", "newroot", "version",
};

int64_t bundle_scratch_mib(const struct sandbox_spec *spec)
{
    if (spec->layout == LAYOUT_DIRECT)
        return 0;
    return spec->disk_mib > 0 && spec->disk_mib < SCRATCH_MAX_MIB ? spec->disk_mib
                                                                  : SCRATCH_MAX_MIB;
}

bool bundle_prepare_platform(const char *platform, struct error *err)
{
    AUTO_FD int root = open(platform, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    if (root < 0)
        return error_errno(err, "open the platform root %s", platform);
    for (size_t i = 0; i < COUNT_OF(platform_folders); i++) {
        if (mkdirat(root, platform_folders[i], 0755) < 0 && errno != EEXIST)
            return error_errno(err, "make /%s of the platform root", platform_folders[i]);
    }
    return true;
}

static void write_capability_set(struct json_writer *json, const char *name)
{
    json_open_list(json, name);
    for (size_t i = 0; i < COUNT_OF(capabilities); i++)
        json_string(json, NULL, capabilities[i]);
    json_close_list(json);
}

/* A worker that may not raise its own limit cannot give more than it has. */
static int64_t files_limit(void)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) < 0 || limit.rlim_max > FILES_MAX)
        return FILES_MAX;
    return (int64_t)limit.rlim_max;
}

static void write_process(struct json_writer *json, const struct bundle *bundle)
{
    json_open(json, "process");
    json_bool(json, "terminal", false);
    json_open(json, "user");
    json_int(json, "uid", 0);
    json_int(json, "gid", 0);
    json_close(json);
    json_open_list(json, "args");
    for (const char *const *arg = bundle->args; *arg; arg++)
        json_string(json, NULL, *arg);
    json_close_list(json);
    json_open_list(json, "env");
    json_string(json, NULL, "PATH=/");
    json_close_list(json);
    json_string(json, "cwd", "/");
    json_open(json, "capabilities");
    write_capability_set(json, "bounding");
    write_capability_set(json, "effective");
    write_capability_set(json, "permitted");
    json_close(json);
    json_open_list(json, "rlimits");
    json_open(json, NULL);
    json_string(json, "type", "RLIMIT_CORE");
    json_int(json, "hard", 0);
    json_int(json, "soft", 0);
    json_close(json);
    json_open(json, NULL);
    json_string(json, "type", "RLIMIT_NOFILE");
    json_int(json, "hard", files_limit());
    json_int(json, "soft", files_limit());
    json_close(json);
    json_close_list(json);
    json_bool(json, "noNewPrivileges", false);
    json_close(json);
}

/* Options are one comma-separated text here and a list in the file. */
static void write_mount(struct json_writer *json, const char *target, const char *type,
                        const char *source, const char *options)
{
    struct str rest = str_of(options), option;

    json_open(json, NULL);
    json_string(json, "destination", target);
    json_string(json, "type", type);
    json_string(json, "source", source);
    json_open_list(json, "options");
    while (options[0] && str_split(&rest, ',', &option))
        json_text(json, NULL, option);
    json_close_list(json);
    json_close(json);
}

static void write_image_mounts(struct json_writer *json, const struct bundle *bundle)
{
    const struct sandbox_spec *spec = bundle->spec;
    char target[PATH_MAX], size[64];
    const char *prefix = "";

    if (spec->layout == LAYOUT_DIRECT) {
        write_mount(json, "/newroot", "bind", bundle->image, "rbind,rw");
        prefix = "/newroot";
    } else {
        /* Not nosuid: set-uid programs of the image must work from the writable layer too. */
        snprintf(size, sizeof(size), "mode=755,size=%lldm", (long long)bundle_scratch_mib(spec));
        write_mount(json, "/image", "bind", bundle->image, "rbind,ro");
        write_mount(json, "/scratch", "tmpfs", "tmpfs", size);
    }
    if (spec->bundle)
        write_mount(json, "/bundle", "bind", spec->bundle, "rbind,ro");
    for (size_t i = 0; i < spec->n_binds; i++) {
        const struct sandbox_bind *bind = &spec->binds[i];
        snprintf(target, sizeof(target), "%s%s", prefix, bind->target);
        write_mount(json, target, "bind", bind->source, bind->writable ? "rbind,rw" : "rbind,ro");
    }
}

static void write_mounts(struct json_writer *json, const struct bundle *bundle)
{
    json_open_list(json, "mounts");
    write_mount(json, "/proc", "proc", "proc", "nosuid,nodev,noexec");
    write_mount(json, "/dev", "tmpfs", "tmpfs", "nosuid,mode=755,size=64k");
    write_mount(json, "/dev/pts", "devpts", "devpts",
                "nosuid,noexec,newinstance,ptmxmode=0666,mode=0620");
    /* The network namespace is the host's, so a user namespace may not mount its sysfs. */
    if (bundle->is_mapped)
        write_mount(json, "/sys", "tmpfs", "tmpfs", "nosuid,nodev,noexec,ro,size=4k");
    else
        write_mount(json, "/sys", "sysfs", "sysfs", "nosuid,nodev,noexec,ro");
    write_mount(json, "/run", "tmpfs", "tmpfs", "nosuid,nodev,mode=755,size=64m");
    write_image_mounts(json, bundle);
    json_close_list(json);
}

static void write_id_map(struct json_writer *json, const char *name)
{
    json_open_list(json, name);
    json_open(json, NULL);
    json_int(json, "containerID", 0);
    json_int(json, "hostID", MAPPED_BASE);
    json_int(json, "size", MAPPED_IDS);
    json_close(json);
    json_close_list(json);
}

static void write_namespaces(struct json_writer *json, const struct bundle *bundle)
{
    static const char *const kinds[] = {"pid", "ipc", "uts", "mount"};

    json_open_list(json, "namespaces");
    for (size_t i = 0; i < COUNT_OF(kinds); i++) {
        json_open(json, NULL);
        json_string(json, "type", kinds[i]);
        json_close(json);
    }
    if (!bundle->network_path || !bundle->is_mapped) {
        json_open(json, NULL);
        json_string(json, "type", "network");
        if (bundle->network_path)
            json_string(json, "path", bundle->network_path);
        json_close(json);
    }
    if (bundle->is_mapped) {
        json_open(json, NULL);
        json_string(json, "type", "user");
        json_close(json);
    }
    json_close_list(json);
}

static void write_resources(struct json_writer *json, const struct bundle *bundle)
{
    json_open(json, "resources");
    json_open(json, "memory");
    json_int(json, "limit", bundle->memory_bytes);
    json_close(json);
    json_open(json, "cpu");
    json_int(json, "quota", (int64_t)bundle->cpu_percent * 1000);
    json_int(json, "period", 100000);
    json_close(json);
    json_open(json, "pids");
    json_int(json, "limit", bundle->processes);
    json_close(json);
    json_close(json);
}

bool bundle_config(const struct bundle *bundle, struct buf *out, struct error *err)
{
    struct json_writer json = json_begin(out);

    json_open(&json, NULL);
    json_string(&json, "ociVersion", "1.0.2");
    write_process(&json, bundle);
    json_open(&json, "root");
    json_string(&json, "path", bundle->spec->platform);
    json_bool(&json, "readonly", true);
    json_close(&json);
    json_string(&json, "hostname", "helmr-sandbox");
    write_mounts(&json, bundle);
    json_open(&json, "linux");
    json_string(&json, "cgroupsPath", bundle->cgroups_path);
    write_resources(&json, bundle);
    write_namespaces(&json, bundle);
    if (bundle->is_mapped) {
        write_id_map(&json, "uidMappings");
        write_id_map(&json, "gidMappings");
    }
    json_close(&json);
    json_close(&json);
    return json_end(&json, err);
}
