#include "worker/compat.h"

#include <string.h>
#include <sys/utsname.h>

#include "base/encode.h"
#include "base/file.h"
#include "base/own.h"
#include "protocol/message.h"

enum { FACTS = 7, CPUINFO_MAX = 1 << 20, SHORT = 16 };

static const char *build_of(const struct worker *worker)
{
    for (size_t i = 0; i < worker->n_probes; i++)
        if (strcmp(worker->probes[i].name, worker->engine->name) == 0)
            return worker->probes[i].build;
    return "";
}

/* A digest of what the processor can do: a program may have looked, and remembers. */
static const char *cpu_features(struct arena *arena)
{
    AUTO_FREE char *text = NULL;
    uint8_t digest[BLAKE2B_LEN];
    char hex[2 * BLAKE2B_LEN + 1];
    struct blake2b hash;
    struct error ignored;
    struct str rest, line;

    blake2b_init(&hash, (struct str){0});
    rest = file_read("/proc/cpuinfo", CPUINFO_MAX, &text, &ignored) ? str_of(text) : STR("");
    while (rest.len > 0 && str_split(&rest, '\n', &line)) {
        if (line.len < 5 || memcmp(line.ptr, "flags", 5) != 0)
            continue;
        blake2b_update(&hash, line);
        break;
    }
    blake2b_final(&hash, digest);
    hex_encode((struct str){(const char *)digest, sizeof digest}, hex);
    hex[SHORT] = '\0';
    return arena_text(arena, str_of(hex));
}

struct json_map compat_facts(const struct worker *worker, struct arena *arena)
{
    struct json_pair *pairs = arena_array(arena, FACTS, sizeof *pairs);
    struct utsname host = {.machine = "unknown"};

    if (uname(&host) != 0)
        host.machine[0] = '\0';
    const struct json_pair facts[FACTS] = {
        {STR("engine"), str_of(worker->engine->name)},
        {STR("engine_build"), str_of(build_of(worker))},
        {STR("arch"), arena_str(arena, str_of(host.machine))},
        {STR("platform"), str_of(worker->platform.digest)},
        {STR("guest_abi"), str_of(arena_printf(arena, "%d", (int)MESSAGE_ABI))},
        {STR("network"), str_of(worker->settings->cni_profile)},
        {STR("cpu"), str_of(cpu_features(arena))},
    };
    memcpy(pairs, facts, sizeof facts);
    return (struct json_map){pairs, FACTS};
}

bool compat_find(struct worker *worker, struct error *err)
{
    AUTO(arena_finish) struct arena arena = {0};
    struct json_map facts = compat_facts(worker, &arena);
    struct str pieces[2 * FACTS];
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
