/* The worker's half of `helmr doctor`: what this host can do, found out by doing it. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/file.h"
#include "base/findings.h"
#include "base/own.h"
#include "engine/kvm.h"
#include "engine/spaces.h"
#include "image/image.h"
#include "worker/commands.h"
#include "worker/host_open.h"
#include "worker/worker.h"

enum { LOW_DISK_MIB = 10 * 1024 };

struct doctor {
    struct findings *findings;
    struct worker worker; /* enough of one to start guests */
    struct worker_settings settings;
    bool has_engine;
};

static void check_kernel(struct doctor *doctor)
{
    struct utsname host;

    if (uname(&host) != 0) {
        findings_add(doctor->findings, FINDING_FAIL, "kernel", NULL, "uname: %s", strerror(errno));
        return;
    }
    findings_add(doctor->findings, FINDING_OK, "kernel", NULL, "%s %s", host.release, host.machine);
}

static void check_privileges(struct doctor *doctor)
{
    if (geteuid() == 0)
        findings_add(doctor->findings, FINDING_OK, "privileges", NULL, "root");
    else
        findings_add(doctor->findings, FINDING_WARNING, "privileges", "sudo helmr doctor",
                     "not root: the engine is qemu or none, by name where there is no KVM");
}

/* What a worker that is not root does without, a row each. */
static void check_reductions(struct doctor *doctor)
{
    struct findings *findings = doctor->findings;
    char reason[256];

    if (geteuid() == 0)
        return;
    findings_add(findings, FINDING_WARNING, "slot users", NULL,
                 "every machine runs as user %u; root gives each slot a user of its own",
                 (unsigned)geteuid());
    if (spaces_probe(reason, sizeof reason))
        findings_add(
            findings, FINDING_OK, "namespaces", NULL,
            "machines have processes, mounts, names and IPC of their own and see only /usr");
    else
        findings_add(findings, FINDING_WARNING, "namespaces",
                     "sysctl kernel.unprivileged_userns_clone=1",
                     "%s: machines see this user's files and processes, and runs that wait stay in "
                     "memory",
                     reason);
    findings_add(findings, FINDING_WARNING, "builds", NULL,
                 "in microVMs, which are slower, and without caches of former builds");
}

static void check_cgroups(struct doctor *doctor)
{
    if (geteuid() != 0) {
        findings_add(doctor->findings, FINDING_WARNING, "cgroups", NULL,
                     "not used without root: what a machine takes is limited by its own size only");
        return;
    }
    bool v2 = access("/sys/fs/cgroup/cgroup.controllers", R_OK) == 0;
    bool hybrid = access("/sys/fs/cgroup/unified/cgroup.controllers", R_OK) == 0;
    bool v1 = access("/sys/fs/cgroup/memory", X_OK) == 0;

    if (v2 || v1)
        findings_add(doctor->findings, FINDING_OK, "cgroups", NULL, "%s",
                     v2       ? "v2"
                     : hybrid ? "v1 with v2"
                              : "v1");
    else
        findings_add(doctor->findings, FINDING_FAIL, "cgroups",
                     "mount -t cgroup2 none /sys/fs/cgroup",
                     "no cgroup hierarchy with a memory controller is mounted");
}

static void check_kvm(struct doctor *doctor)
{
    char reason[256];

    if (kvm_probe(reason, sizeof reason))
        findings_add(doctor->findings, FINDING_OK, "/dev/kvm", NULL, "%s", reason);
    else
        findings_add(doctor->findings, FINDING_WARNING, "/dev/kvm", NULL, "%s", reason);
}

static void check_disk(struct doctor *doctor)
{
    struct statvfs disk;

    if (statvfs(doctor->settings.data_dir, &disk) != 0) {
        findings_add(doctor->findings, FINDING_FAIL, "data directory", NULL, "%s: %s",
                     doctor->settings.data_dir, strerror(errno));
        return;
    }
    long long free_mib = (long long)(disk.f_bavail * (disk.f_frsize / 1024) / 1024);
    findings_add(doctor->findings, free_mib < LOW_DISK_MIB ? FINDING_WARNING : FINDING_OK,
                 "data directory", NULL, "%s, %lld MiB free", doctor->settings.data_dir, free_mib);
}

static void check_platform(struct doctor *doctor)
{
    struct error err;

    if (platform_prepare(doctor->settings.images_dir, &doctor->worker.platform, &err))
        findings_add(doctor->findings, FINDING_OK, "guest files", NULL, "sha256:%s",
                     doctor->worker.platform.digest);
    else
        findings_add(doctor->findings, FINDING_FAIL, "guest files", "make", "%s", err.text);
}

static void check_guest_files(struct doctor *doctor)
{
    const char *folder = doctor->settings.guest_dir;
    struct guest_files files;
    struct error err;

    if (!guest_files_find(folder[0] ? folder : NULL, &files, &err)) {
        findings_add(doctor->findings, FINDING_WARNING, "microVM kernel", "make vm", "%s",
                     err.text);
        return;
    }
    findings_add(doctor->findings, FINDING_OK, "microVM kernel", NULL, "sha256:%s",
                 files.kernel_digest);
    findings_add(doctor->findings, FINDING_OK, "microVM initramfs", NULL, "sha256:%s",
                 files.initrd_digest);
}

static void check_base_image(struct doctor *doctor)
{
    AUTO(arena_finish) struct arena arena = {0};
    struct image_store *store;
    struct image image;
    struct error err;

    if (!image_store_open(doctor->settings.work_dir, &store, &err)) {
        findings_add(doctor->findings, FINDING_FAIL, "image store", NULL, "%s", err.text);
        return;
    }
    if (image_find(store, "node:24-bookworm-slim", &arena, &image, &err))
        findings_add(doctor->findings, FINDING_OK, "node base image", NULL, "%s", image.digest);
    else
        findings_add(doctor->findings, FINDING_WARNING, "node base image",
                     "helmr image bootstrap node:24-bookworm-slim",
                     "not made yet; the first deploy makes it");
    image_store_close(store);
}

static void check_network(struct doctor *doctor)
{
    struct error err;

    if (!doctor->settings.network_enabled)
        findings_add(doctor->findings, FINDING_WARNING, "network", NULL,
                     "off: HELMR_WORKER_NETWORK=none");
    else if (geteuid() != 0 && !doctor->settings.is_user_network_open)
        findings_add(doctor->findings, FINDING_WARNING, "network",
                     "HELMR_WORKER_CNI_PROFILE=user-v1",
                     "off: a worker that is not root opens it by name only");
    else if (geteuid() != 0)
        findings_add(doctor->findings, FINDING_WARNING, "network", NULL,
                     "user-v1: open; sandboxes that deny networks are left to other workers");
    else if (engine_host_network_preflight(doctor->worker.host, &err))
        findings_add(doctor->findings, FINDING_OK, "network", NULL,
                     "namespace, rules and DNS work");
    else
        findings_add(doctor->findings, FINDING_FAIL, "network", "apt-get install nftables", "%s",
                     err.text);
}

static void check_engine(struct doctor *doctor, const struct engine *engine)
{
    struct engine_result result = {0};
    char check[48];

    snprintf(check, sizeof check, "engine %s", engine->name);
    engine->probe(doctor->worker.host, doctor->worker.platform.root, NULL, 0, &result);
    bool is_machine = engine->grade == ENGINE_GRADE_MICROVM;
    bool is_slow = is_machine && !result.accelerated;
    if (result.usable) {
        doctor->has_engine |= (!engine->by_name_only && !is_slow) ||
                              strcmp(engine->name, doctor->settings.engine) == 0;
        findings_add(doctor->findings, FINDING_OK, check, NULL, "%s, a guest was started%s%s%s",
                     engine_grade_name(engine->grade),
                     is_slow      ? " without KVM, which is slow"
                     : is_machine ? " with KVM"
                                  : "",
                     result.saves ? ", saved and brought back" : "; runs that wait stay in memory",
                     engine->by_name_only || is_slow ? "; only by name" : "");
        return;
    }
    findings_add(doctor->findings, FINDING_WARNING, check, result.cure, "%s, not usable: %s",
                 engine_grade_name(engine->grade), result.reason);
}

/* Guests are started below a directory of doctor's own, so that it works beside a worker. */
static void check_engines(struct doctor *doctor)
{
    AUTO(arena_finish) struct arena arena = {0};
    const char *work_dir = arena_printf(&arena, "%s/doctor", doctor->settings.data_dir);
    struct error err;

    if (!doctor->worker.platform.root[0])
        return;
    if (!directory_make(work_dir, 0700, &err) ||
        !host_open(&doctor->settings, work_dir, 2, &doctor->worker.host, &err)) {
        findings_add(doctor->findings, FINDING_FAIL, "host", NULL, "%s", err.text);
        return;
    }
    check_network(doctor);
    for (size_t i = 0; i < n_engines; i++)
        check_engine(doctor, engines[i]);
    engine_host_close(doctor->worker.host);
    if (!folder_remove(work_dir, &err))
        findings_add(doctor->findings, FINDING_WARNING, "host", NULL, "%s", err.text);
    if (!doctor->has_engine)
        findings_add(doctor->findings, FINDING_FAIL, "engines",
                     geteuid() == 0 ? "apt-get install runsc" : "HELMR_ENGINE=qemu",
                     "no engine can run tasks here");
}

bool worker_doctor(const struct invocation *invocation, struct findings *findings,
                   struct error *err)
{
    static struct doctor doctor;

    doctor.findings = findings;
    if (!worker_settings_read_host(invocation, &doctor.settings, err) ||
        !directory_make(doctor.settings.data_dir, 0755, err) ||
        !directory_make(doctor.settings.work_dir, 0700, err))
        return false;
    /* Also what auto would not take is shown. */
    if (strcmp(doctor.settings.engine, "auto") == 0)
        doctor.settings.qemu_accel = QEMU_ACCEL_AUTO;
    check_kernel(&doctor);
    check_privileges(&doctor);
    check_cgroups(&doctor);
    check_reductions(&doctor);
    check_kvm(&doctor);
    check_disk(&doctor);
    check_platform(&doctor);
    check_guest_files(&doctor);
    check_base_image(&doctor);
    check_engines(&doctor);
    worker_settings_finish(&doctor.settings);
    return true;
}
