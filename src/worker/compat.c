#include "worker/compat.h"

#include <string.h>
#include <sys/utsname.h>

#include "base/encode.h"
#include "base/file.h"
#include "base/own.h"
#include "engine/tsc.h"
#include "image/ext4.h"
#include "protocol/message.h"
#include "worker/probe.h"

enum { FACTS_MAX = 9, CPUINFO_MAX = 1 << 20, SHORT = 16 };

/* The value of the first line of that name: `flags : fpu vme`. */
static struct str cpu_value(struct str text, const char *name)
{
    struct str line, key;

    while (text.len > 0 && str_split(&text, '\n', &line)) {
        if (!str_split(&line, ':', &key))
            continue;
        if (str_equal(str_trim(key, STR(" \t")), str_of(name)))
            return str_trim(line, STR(" \t"));
    }
    return STR("");
}

static const char *short_digest(struct str bytes, struct arena *arena)
{
    uint8_t digest[BLAKE2B_LEN];
    char hex[2 * BLAKE2B_LEN + 1];
    struct blake2b hash;

    blake2b_init(&hash, (struct str){0});
    blake2b_update(&hash, bytes);
    blake2b_final(&hash, digest);
    hex_encode((struct str){(const char *)digest, sizeof digest}, hex);
    hex[SHORT] = '\0';
    return arena_text(arena, str_of(hex));
}

/* What a program in a guest may have found out about the processor, and remembers: its features;
 * with KVM also which one it is; translated only how fast it counts, the rest is QEMU's own. */
static const char *cpu_group(const struct worker *worker, struct arena *arena)
{
    AUTO_FREE char *text = NULL;
    struct error ignored;

    if (worker->engine->has_drives && !worker->accelerated)
        return arena_printf(arena, "%lld kHz, translated", (long long)tsc_khz_rounded(tsc_khz()));
    struct str all =
        file_read("/proc/cpuinfo", CPUINFO_MAX, &text, &ignored) ? str_of(text) : STR("");
    const char *features = short_digest(cpu_value(all, "flags"), arena);
    if (!worker->engine->has_drives)
        return features;
    struct str vendor = cpu_value(all, "vendor_id"), family = cpu_value(all, "cpu family");
    struct str model = cpu_value(all, "model");
    return arena_printf(arena, "%s %.*s %.*s %.*s", features, (int)vendor.len, vendor.ptr,
                        (int)family.len, family.ptr, (int)model.len, model.ptr);
}

const char *compat_rootfs_digest(const struct worker *worker)
{
    return worker->engine->has_drives ? worker->guest_files.initrd_digest : worker->platform.digest;
}

struct json_map compat_facts(const struct worker *worker, struct arena *arena)
{
    struct json_pair *pairs = arena_array(arena, FACTS_MAX, sizeof *pairs);
    struct utsname host = {.machine = "unknown"};
    size_t n = 0;

    if (uname(&host) != 0)
        host.machine[0] = '\0';
    pairs[n++] = (struct json_pair){STR("engine"), str_of(worker->engine->name)};
    pairs[n++] =
        (struct json_pair){STR("engine_build"), str_of(probe_of(worker, worker->engine)->build)};
    pairs[n++] = (struct json_pair){STR("arch"), arena_str(arena, str_of(host.machine))};
    pairs[n++] = (struct json_pair){STR("platform"), str_of(compat_rootfs_digest(worker))};
    pairs[n++] =
        (struct json_pair){STR("guest_abi"), str_of(arena_printf(arena, "%d", (int)MESSAGE_ABI))};
    pairs[n++] = (struct json_pair){STR("network"), str_of(worker->settings->cni_profile)};
    pairs[n++] = (struct json_pair){STR("cpu"), str_of(cpu_group(worker, arena))};
    if (worker->engine->has_drives) {
        pairs[n++] = (struct json_pair){STR("kernel"), str_of(worker->guest_files.kernel_digest)};
        pairs[n++] = (struct json_pair){STR("drives"), STR(EXT4_WRITER)};
    }
    return (struct json_map){pairs, n};
}

bool compat_find(struct worker *worker, struct error *err)
{
    AUTO(arena_finish) struct arena arena = {0};
    struct json_map facts = compat_facts(worker, &arena);
    struct str pieces[2 * FACTS_MAX];
    uint8_t digest[BLAKE2B_LEN];
    struct seal_key key;

    for (size_t i = 0; i < facts.n; i++) {
        pieces[2 * i] = facts.pairs[i].name;
        pieces[2 * i + 1] = facts.pairs[i].value;
    }
    blake2b_list(STR("helmr compat"), pieces, 2 * facts.n, digest);
    hex_encode((struct str){(const char *)digest, sizeof digest}, worker->compat);
    struct str bytes = secret_reveal(&worker->settings->checkpoint_key);
    if (bytes.len != SEAL_KEY_LEN)
        return error_set(err, ERR_INVALID, "the checkpoint key has another length");
    seal_key_init(&key, (const uint8_t *)bytes.ptr);
    seal_key_id_text(&key, worker->checkpoint_key_id);
    seal_key_finish(&key);
    return true;
}
