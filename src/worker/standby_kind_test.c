#include "worker/standby_kind.h"

#include <string.h>

#include "base/test.h"

static const char *const layers[] = {"/layers/one", "/layers/two"};
static const char *const deny[] = {"10.0.0.0/8"};
static const struct sandbox_spec spec = {
    .kind = "run",
    .lease_id = "lease",
    .platform = "/platform",
    .bundle = "/bundles/b",
    .layers = layers,
    .n_layers = 2,
    .deny = deny,
    .n_deny = 1,
    .vcpus = 2,
    .memory_mib = 512,
    .disk_mib = 1024,
};
static struct str env[] = {STR("PATH=/bin")};
static const struct image_config config = {STR("/app"), STR("node"), env, 1};

static struct standby_key key_with(const char *module, const char *mount)
{
    const struct standby_kind kind = {&spec, &config, mount, module};
    struct standby_key key;

    standby_kind_key(&kind, &key);
    return key;
}

static bool is_same(const uint8_t a[BLAKE2B_LEN], const uint8_t b[BLAKE2B_LEN])
{
    return memcmp(a, b, BLAKE2B_LEN) == 0;
}

TEST(kinds_that_differ_in_their_module_are_plain_alike)
{
    struct standby_key none = key_with(NULL, "/w"), empty = key_with("", "/w"),
                       one = key_with("tasks/a.ts", "/w"), same = key_with("tasks/a.ts", "/w"),
                       two = key_with("tasks/b.ts", "/w");

    CHECK(is_same(none.plain, one.plain) && is_same(one.plain, two.plain));
    CHECK(is_same(one.exact, same.exact));
    CHECK(!is_same(none.exact, one.exact) && !is_same(one.exact, two.exact));
    CHECK(!is_same(none.exact, empty.exact) && is_same(none.exact, none.plain));
}

TEST(kinds_that_differ_in_anything_else_have_nothing_in_common)
{
    struct standby_key here = key_with("tasks/a.ts", "/w"), there = key_with("tasks/a.ts", "/v");

    CHECK(!is_same(here.plain, there.plain) && !is_same(here.exact, there.exact));
}

TEST(a_kept_kind_is_a_copy_without_a_lease)
{
    char module[] = "tasks/a.ts", mount[] = "/w";
    const struct standby_kind kind = {&spec, &config, mount, module};
    struct kept_kind kept;

    kept_kind_init(&kept, &kind);
    module[0] = mount[1] = 'x';
    CHECK_STR(kept.module, "tasks/a.ts");
    CHECK_STR(kept.mount, "/w");
    CHECK_STR(kept.spec.layers[1], "/layers/two");
    CHECK_STR(kept.spec.deny[0], "10.0.0.0/8");
    CHECK(kept.spec.layers != layers && !kept.spec.lease_id);
    CHECK(kept.config.n_env == 1 && str_equal(kept.config.env[0], STR("PATH=/bin")));
    kept_kind_finish(&kept);

    const struct standby_kind plain = {&spec, &config, "/w", NULL};
    kept_kind_init(&kept, &plain);
    CHECK(!kept.module);
    kept_kind_finish(&kept);
}

TEST_MAIN()
