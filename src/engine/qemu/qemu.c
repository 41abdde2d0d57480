/* QEMU: a machine with a kernel of its own, run by the hardware where that works, else by
 * translating its instructions. */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/own.h"
#include "base/time.h"
#include "engine/guest_files.h"
#include "engine/kvm.h"
#include "engine/probe.h"
#include "engine/probe_cache.h"
#include "engine/qemu/machine.h"
#include "engine/saved.h"

enum {
    HELLO_MS = 180 * 1000, /* where no deadline was given */
    PROBE_MEMORY_MIB = 256,
    PROBE_KVM_MS = 5 * 1000,
    PROBE_TCG_MS = 180 * 1000,
};

static bool qemu_boot(struct instance *instance, const struct sandbox_spec *spec, struct error *err)
{
    const int64_t deadline_ms = spec->deadline_ms ? spec->deadline_ms : time_boot_ms() + HELLO_MS;

    if (!boot_turn_take(instance->host, deadline_ms, err))
        return false;
    bool ok = machine_launch(instance, spec, NULL, err) &&
              machine_await_hello(instance, deadline_ms, err);
    boot_turn_give(instance->host);
    return ok;
}

static bool qemu_make(struct engine_host *host, const struct sandbox_spec *spec,
                      const struct saved_image *image, struct instance **instance,
                      struct error *err)
{
    struct instance *made;
    struct error ignored;

    if (!instance_create(host, &engine_qemu, spec, false, &made, err))
        return false;
    bool ok = image ? machine_launch(made, spec, image, err) : qemu_boot(made, spec, err);
    if (!ok) {
        (void)!instance_destroy(made, &ignored);
        return error_wrap(err, image ? "restore QEMU" : "start QEMU");
    }
    *instance = made;
    return true;
}

static bool qemu_start(struct engine_host *host, const struct sandbox_spec *spec,
                       struct instance **instance, struct error *err)
{
    return qemu_make(host, spec, NULL, instance, err);
}

static bool qemu_restore(struct engine_host *host, const struct sandbox_spec *spec,
                         const struct saved_image *image, struct instance **instance,
                         struct error *err)
{
    return qemu_make(host, spec, image, instance, err);
}

/* It may still be on its way from the image: then it goes on when it has arrived. */
static bool qemu_wake(struct instance *instance, int timeout_ms, struct error *err)
{
    struct qmp *qmp = &machine_of(instance)->qmp;
    const int64_t deadline_ms = time_boot_ms() + timeout_ms;

    return (qmp_greet(qmp, deadline_ms, err) && qmp_cont(qmp, deadline_ms, err)) ||
           error_wrap(err, "wake QEMU");
}

static bool try_machine(struct engine_host *host, bool is_accelerated, int timeout_ms,
                        struct engine_result *result, struct error *err)
{
    struct sandbox_spec spec = {.layout = LAYOUT_AGENT,
                                .vcpus = 1,
                                .memory_mib = PROBE_MEMORY_MIB,
                                .network = NETWORK_OFF};

    host->qemu_is_accelerated = is_accelerated;
    if (!probe_prove(host, &engine_qemu, &spec, timeout_ms, result, err))
        return false;
    result->accelerated = is_accelerated;
    return true;
}

/* That the device opens proves nothing; neither do a few instructions that ran. Only a guest that
 * said hello does. */
static bool try_machines(struct engine_host *host, struct engine_result *result, struct error *err)
{
    char reason[256];

    if (host->qemu_accel != QEMU_ACCEL_TCG) {
        bool may_work = kvm_probe(reason, sizeof(reason));
        if (may_work && try_machine(host, true, PROBE_KVM_MS, result, err))
            return true;
        if (host->qemu_accel == QEMU_ACCEL_KVM)
            return may_work ? error_wrap(err, "with KVM")
                            : error_set(err, ERR_UNSUPPORTED, "KVM: %.200s", reason);
    }
    return try_machine(host, false, PROBE_TCG_MS, result, err);
}

/* What the verdict depends on besides the program: what is booted, and how it is to be run. */
static bool guest_name(const struct engine_host *host, char name[PROBE_GUEST_MAX],
                       struct error *err)
{
    static const char *const accels[] = {
        [QEMU_ACCEL_AUTO] = "auto", [QEMU_ACCEL_KVM] = "kvm", [QEMU_ACCEL_TCG] = "tcg"};
    AUTO_FREE struct guest_files *files = alloc(sizeof(*files));

    if (!guest_files_find(host->guest_dir, files, err))
        return false;
    snprintf(name, PROBE_GUEST_MAX, "%s %s %s", files->kernel_digest, files->initrd_digest,
             accels[host->qemu_accel]);
    return true;
}

static void qemu_probe(struct engine_host *host, const char *platform UNUSED,
                       const char *const *layers UNUSED, size_t n_layers UNUSED,
                       struct engine_result *result)
{
    char path[PATH_MAX], whole[PATH_MAX], guest[PROBE_GUEST_MAX];
    struct error err = {0};

    *result = (struct engine_result){.name = engine_qemu.name, .grade = engine_qemu.grade};
    if (!probe_binary_find(host->qemu_path, path, sizeof(path))) {
        snprintf(err.text, sizeof(err.text), "%.200s is not installed", host->qemu_path);
        probe_fail(result, "apt-get install --no-install-recommends qemu-system-x86", err.text);
        return;
    }
    if ((host->is_root || host->has_spaces) &&
        (!realpath(path, whole) || strncmp(whole, "/usr/", 5) != 0)) {
        probe_fail(result, "install QEMU below /usr", "its jail shows nothing but /usr");
        return;
    }
    if (!probe_digest(path, result->build, &err) || !guest_name(host, guest, &err)) {
        probe_fail(result, err.code == ERR_NOT_FOUND ? "make vm" : "", err.text);
        return;
    }
    if (probe_cache_find(host, &engine_qemu, guest, result)) {
        host->qemu_is_accelerated = result->accelerated;
        return;
    }
    result->usable = try_machines(host, result, &err);
    if (!result->usable)
        probe_fail(result, "", err.text);
    probe_cache_keep(host, guest, result);
}

const struct engine engine_qemu = {
    .name = "qemu",
    .grade = ENGINE_GRADE_MICROVM,
    .probe = qemu_probe,
    .start = qemu_start,
    .save = qemu_save,
    .restore = qemu_restore,
    .wake = qemu_wake,
    .share = saved_machine_share,
    .form = &saved_form_machine,
    .has_drives = true,
};
