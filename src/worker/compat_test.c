#include "worker/compat.h"

#include <stdio.h>
#include <string.h>

#include "base/test.h"

static const struct engine machine = {.name = "qemu",
                                      .grade = ENGINE_GRADE_MICROVM,
                                      .has_drives = true};
static const struct engine sandbox = {.name = "gvisor", .grade = ENGINE_GRADE_USER_KERNEL};

/* As after the engine was chosen. */
static void worker_as(struct worker *worker, const struct engine *engine, bool accelerated)
{
    static struct worker_settings settings = {.cni_profile = "helmr-v1"};
    static const char key[SEAL_KEY_LEN] = "0123456789abcdef0123456789abcde";

    if (!secret_is_set(&settings.checkpoint_key))
        settings.checkpoint_key = secret_create((struct str){key, sizeof key});
    *worker = (struct worker){
        .settings = &settings,
        .engine = engine,
        .accelerated = accelerated,
        .probes = {{.name = engine->name, .build = "aa"}},
        .n_probes = 1,
        .platform = {.digest = "platform"},
        .guest_files = {.kernel_digest = "kernel", .initrd_digest = "initrd"},
    };
}

static void set(char digest[SHA256_HEX], const char *text)
{
    (void)snprintf(digest, SHA256_HEX, "%s", text);
}

static const char *key_of(struct worker *worker)
{
    struct error err;

    return compat_find(worker, &err) ? worker->compat : "no key";
}

static bool has_fact(const struct worker *worker, const char *name, const char *value)
{
    AUTO(arena_finish) struct arena arena = {0};
    struct json_map facts = compat_facts(worker, &arena);

    for (size_t i = 0; i < facts.n; i++)
        if (str_equal(facts.pairs[i].name, str_of(name)) &&
            str_equal(facts.pairs[i].value, str_of(value)))
            return true;
    return false;
}

TEST(equal_workers_may_exchange_checkpoints)
{
    static struct worker one, other;

    worker_as(&one, &machine, true);
    worker_as(&other, &machine, true);
    CHECK_STR(key_of(&one), key_of(&other));
    worker_as(&other, &machine, false);
    CHECK(strcmp(key_of(&one), key_of(&other)) != 0);
    worker_as(&other, &sandbox, false);
    CHECK(strcmp(key_of(&one), key_of(&other)) != 0);
}

TEST(a_machine_goes_on_only_with_its_own_kernel_and_initramfs)
{
    static struct worker one, other;

    worker_as(&one, &machine, true);
    worker_as(&other, &machine, true);
    CHECK(has_fact(&one, "kernel", "kernel") && has_fact(&one, "platform", "initrd"));
    set(other.guest_files.kernel_digest, "another");
    CHECK(strcmp(key_of(&one), key_of(&other)) != 0);
    worker_as(&other, &machine, true);
    set(other.guest_files.initrd_digest, "another");
    CHECK(strcmp(key_of(&one), key_of(&other)) != 0);
}

TEST(what_is_no_machine_has_no_kernel_of_its_own)
{
    static struct worker one, other;

    worker_as(&one, &sandbox, false);
    worker_as(&other, &sandbox, false);
    set(other.guest_files.kernel_digest, "another");
    CHECK_STR(key_of(&one), key_of(&other));
    CHECK(has_fact(&one, "platform", "platform") && !has_fact(&one, "kernel", "kernel"));
}

TEST_MAIN()
