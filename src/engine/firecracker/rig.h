/* What the tests of this engine share: a worker whose Firecracker and jailer are the stand-ins of
 * tests/firecracker, files for them to boot, and a way to tell the stand-in what to do wrong.
 * The same tests run with the real programs where a real machine boots.
 */
#pragma once

#include "base/sha256.h"
#include "base/time.h"
#include "engine/fixture.h"
#include "engine/kvm.h"
#include "engine/probe.h"
#include "engine/saved.h"

enum { PATIENCE_MS = 300 * 1000, MEMORY_MIB = 32, REAL_MEMORY_MIB = 256, SCRATCH_BYTES = 1 << 20 };

struct rig {
    struct fixture fixture;
    struct engine_host *host;
    char tag[16];
    char program[PATH_MAX], jailer[PATH_MAX], guest[PATH_MAX];
    char root[PATH_MAX], bundle[PATH_MAX], scratch[PATH_MAX];
    struct sandbox_spec spec;
    uint8_t nonce[CHANNEL_NONCE_LEN];
};

static inline void rig_close(struct rig *rig)
{
    fixture_host_close(&rig->host);
    fixture_close(&rig->fixture);
}

static inline bool rig_put(const char *folder, const char *name, struct str bytes,
                           char path[PATH_MAX])
{
    struct error err;

    snprintf(path, PATH_MAX, "%.4000s/%s", folder, name);
    return file_publish(path, bytes, 0444, &err);
}

/* A disk: a word at its start, the rest a hole. */
static inline bool rig_disk(struct rig *rig, const char *name, char path[PATH_MAX])
{
    return rig_put(rig->fixture.folder, name, str_of(name), path) &&
           truncate(path, SCRATCH_BYTES) == 0;
}

static inline bool rig_guest(struct rig *rig)
{
    static const char *const names[] = {"kernel", "vmlinux", "initrd"};
    const struct str bytes = STR("\177ELF and nothing else");
    char path[PATH_MAX], hex[SHA256_HEX], list[512];
    struct error err;

    snprintf(rig->guest, PATH_MAX, "%s/guest", rig->fixture.folder);
    sha256_of(bytes, hex);
    snprintf(list, sizeof list, "{\"kernel\":\"%s\",\"vmlinux\":\"%s\",\"initrd\":\"%s\"}", hex,
             hex, hex);
    bool ok = directory_make(rig->guest, 0755, &err) &&
              rig_put(rig->guest, "artefacts.json", str_of(list), path);
    for (size_t i = 0; ok && i < COUNT_OF(names); i++)
        ok = rig_put(rig->guest, names[i], bytes, path);
    return ok;
}

/* A copy of the stand-in, with what it is to do wrong at its end. */
static inline bool rig_program(struct rig *rig, const char *source, const char *faults)
{
    struct error err = {0};

    snprintf(rig->program, PATH_MAX, "%s/firecracker", rig->fixture.folder);
    if (!fixture_run((const char *const[]){"cp", source, rig->program, NULL}))
        return false;
    AUTO_FD int fd = open(rig->program, O_WRONLY | O_APPEND | O_CLOEXEC);
    return fd >= 0 && fd_write_all(fd, STR("\n"), &err) && fd_write_all(fd, str_of(faults), &err) &&
           fd_write_all(fd, STR("\n"), &err);
}

/* Why there can be no rig here, or NULL. */
static inline const char *rig_find(struct rig *rig, const char *faults)
{
    const char *build = getenv("HELMR_BUILD_ROOT");
    char source[PATH_MAX];

    if (geteuid() != 0)
        return "needs root";
    snprintf(source, PATH_MAX, "%s/tests/firecracker/firecracker", build ? build : ".");
    snprintf(rig->jailer, PATH_MAX, "%s/tests/firecracker/jailer", build ? build : ".");
    if (!fixture_is_static(source))
        return "the stand-ins are not built, or not static";
    return fixture_open(&rig->fixture) && rig_guest(rig) && rig_program(rig, source, faults) &&
                   rig_disk(rig, "root", rig->root) && rig_disk(rig, "bundle", rig->bundle) &&
                   rig_disk(rig, "scratch", rig->scratch)
               ? NULL
               : "the rig cannot be made";
}

static inline struct engine_settings rig_settings(const struct rig *rig)
{
    struct engine_settings settings = fixture_settings(&rig->fixture);

    settings.firecracker_path = rig->program[0] ? rig->program : NULL;
    settings.jailer_path = rig->jailer[0] ? rig->jailer : NULL;
    settings.guest_dir = rig->guest[0] ? rig->guest : getenv("HELMR_WORKER_GUEST_DIR");
    return settings;
}

static inline bool rig_host(struct rig *rig, bool has_network, struct error *err)
{
    struct engine_settings settings = rig_settings(rig);

    settings.network_enabled = has_network;
    if (!engine_host_open(&settings, &rig->host, err))
        return false;
    snprintf(rig->tag, sizeof(rig->tag), "%s", engine_host_tag(rig->host));
    rig->spec = (struct sandbox_spec){
        .kind = "run",
        .lease_id = "01890000-0000-7000-8000-000000000001",
        .vcpus = 2,
        .memory_mib = MEMORY_MIB,
        .drives = {.root = rig->root,
                   .bundle = rig->bundle,
                   .scratch = rig->scratch,
                   .scratch_bytes = SCRATCH_BYTES},
        .network = has_network ? NETWORK_OPEN : NETWORK_OFF,
    };
    return true;
}

/* As many milliseconds as there are from now on. */
static inline bool rig_start(struct rig *rig, int64_t patience_ms, struct instance **instance,
                             struct error *err)
{
    id_make(rig->spec.id);
    rig->spec.deadline_ms = time_boot_ms() + patience_ms;
    return engine_firecracker.start(rig->host, &rig->spec, instance, err);
}

static inline bool rig_restore(struct rig *rig, const struct saved_image *image,
                               int64_t patience_ms, struct instance **instance, struct error *err)
{
    id_make(rig->spec.id);
    rig->spec.deadline_ms = time_boot_ms() + patience_ms;
    return engine_firecracker.restore(rig->host, &rig->spec, image, instance, err);
}

/* The machine is over, saved or not. */
static inline bool rig_keep(struct rig *rig, struct instance *instance, struct saved_image *image,
                            bool is_resting, struct error *err)
{
    struct error after = {0};
    bool ok = is_resting &&
              saved_image_make(&engine_firecracker, rig->spec.memory_mib << 22, image, err) &&
              engine_firecracker.save(instance, image, PATIENCE_MS, err);

    return instance_destroy(instance, ok ? err : &after) && ok;
}

/* Of one that was started. */
static inline bool rig_save(struct rig *rig, struct instance *instance, struct saved_image *image,
                            struct error *err)
{
    int64_t deadline = time_boot_ms() + PATIENCE_MS;
    bool ok =
        probe_meet(instance, deadline, err) && probe_pause(instance, deadline, rig->nonce, err);

    return rig_keep(rig, instance, image, ok, err);
}

/* One more life: goes on from one image, is heard, and becomes another. */
static inline bool rig_live(struct rig *rig, const struct saved_image *from, struct saved_image *to,
                            struct error *err)
{
    struct instance *instance;

    if (!rig_restore(rig, from, PATIENCE_MS, &instance, err))
        return false;
    int64_t deadline = time_boot_ms() + PATIENCE_MS;
    bool ok = probe_wake(instance, deadline, rig->nonce, err) &&
              probe_pause(instance, deadline, rig->nonce, err);
    return rig_keep(rig, instance, to, ok, err);
}

static inline bool rig_template(struct rig *rig, struct saved_image *image, struct error *err)
{
    struct instance *instance;

    return rig_start(rig, PATIENCE_MS, &instance, err) && rig_save(rig, instance, image, err) &&
           engine_firecracker.share(rig->host, image, err);
}

/* Nothing runs, nothing lies about, and every slot is free. */
static inline bool rig_is_clean(struct rig *rig)
{
    bool is_free = engine_host_free_slots(rig->host) == 4;

    fixture_host_close(&rig->host);
    return fixture_nothing_left(&rig->fixture, rig->tag) && is_free;
}
