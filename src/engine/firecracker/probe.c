#include "engine/firecracker/probe.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>

#include "base/own.h"
#include "engine/guest_files.h"
#include "engine/kvm.h"
#include "engine/probe.h"
#include "engine/probe_cache.h"

enum { PROBE_MS = 5000, PROBE_MEMORY_MIB = 128, VERSION_MS = 5000, MINOR_MIN = 8 };

#define CURE                                                             \
    "put the release's firecracker and jailer on PATH, or name them in " \
    "HELMR_WORKER_FIRECRACKER_PATH and HELMR_WORKER_JAILER_PATH"

bool firecracker_find(const char *name, char path[PATH_MAX], struct error *err)
{
    char found[PATH_MAX];

    if (!probe_binary_find(name, found, sizeof(found)))
        return error_set(err, ERR_NOT_FOUND, "%.200s is not installed", name);
    return realpath(found, path) || error_errno(err, "find %.200s", found);
}

/* Before 1.8 it gave guests no ACPI tables, without which their kernel finds no device. */
static bool version_check(const char *binary, struct error *err)
{
    const char *const argv[] = {binary, "--version", NULL};
    const struct process_spec spec = {.argv = argv};
    AUTO(buf_finish) struct buf out = {.max = 65536};
    char text[64];
    int status, major, minor;

    if (!process_run(&spec, (struct str){0}, VERSION_MS, &out, NULL, &status, err))
        return error_wrap(err, "ask Firecracker for its version");
    snprintf(text, sizeof(text), "%.*s", (int)(out.len < 60 ? out.len : 60), out.bytes);
    if (status != 0 || sscanf(text, "Firecracker v%d.%d", &major, &minor) != 2)
        return error_set(err, ERR_UNSUPPORTED, "Firecracker does not tell its version");
    return major > 1 || (major == 1 && minor >= MINOR_MIN) ||
           error_set(err, ERR_UNSUPPORTED, "Firecracker %d.%d is too old: it must be 1.%d or newer",
                     major, minor, MINOR_MIN);
}

/* Both programs, and what they boot. */
static bool identify(struct engine_host *host, struct engine_result *result,
                     char guest[PROBE_GUEST_MAX], struct error *err)
{
    char binary[PATH_MAX], jailer[PATH_MAX], kernel[PATH_MAX], other[PROBE_DIGEST + 1];
    AUTO_FREE struct guest_files *files = alloc(sizeof(*files));

    if (!firecracker_find(host->firecracker_path, binary, err) ||
        !firecracker_find(host->jailer_path, jailer, err)) {
        probe_fail(result, CURE, err->text);
        return false;
    }
    if (!version_check(binary, err)) {
        probe_fail(result, CURE, err->text);
        return false;
    }
    if (!guest_files_find(host->guest_dir, files, err) ||
        !guest_files_unpacked(files, kernel, err)) {
        probe_fail(result, err->code == ERR_NOT_FOUND ? "make vm" : "", err->text);
        return false;
    }
    if (!probe_digest(binary, result->build, err) || !probe_digest(jailer, other, err)) {
        probe_fail(result, "", err->text);
        return false;
    }
    snprintf(guest, PROBE_GUEST_MAX, "%.40s %.64s %.64s", other, files->kernel_digest,
             files->initrd_digest);
    return true;
}

/* What went wrong, and what is wrong with KVM, which is the likely cause. */
static void unaccelerated_fail(struct engine_result *result, const char *what, const char *kvm)
{
    char both[256];

    snprintf(both, sizeof(both), "%.120s; %.120s", what, kvm);
    probe_fail(result, "", both);
}

void firecracker_probe(struct engine_host *host, const char *platform UNUSED,
                       const char *const *layers UNUSED, size_t n_layers UNUSED,
                       struct engine_result *result)
{
    const struct engine *engine = &engine_firecracker;
    struct sandbox_spec spec = {.layout = LAYOUT_AGENT,
                                .vcpus = 1,
                                .memory_mib = PROBE_MEMORY_MIB,
                                .network = NETWORK_OFF};
    char guest[PROBE_GUEST_MAX], reason[256];
    struct error err = {0};

    *result = (struct engine_result){.name = engine->name, .grade = engine->grade};
    if (geteuid() != 0) {
        probe_fail(result, "run as root", "needs root");
        return;
    }
    if (!identify(host, result, guest, &err) || probe_cache_find(host, engine, guest, result))
        return;

    /* It knows no other way to run a guest than KVM. */
    result->usable = probe_prove(host, engine, &spec, PROBE_MS, result, &err);
    result->accelerated = result->usable;
    if (!result->usable && kvm_probe(reason, sizeof(reason)))
        probe_fail(result, "", err.text);
    else if (!result->usable)
        unaccelerated_fail(result, err.text, reason);
    probe_cache_keep(host, guest, result);
}
