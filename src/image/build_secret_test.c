/* A build secret is there for its step and nowhere afterwards. */
#include <sys/xattr.h>

#include "image/build_bench.h"

#define VALUE "hunter2?>?>hunter2~~~"

#define WITH_SECRET(script)                                        \
    "{\"kind\":\"run\",\"argv\":[\"sh\",\"-ceu\",\"" script "\"]," \
    "\"secrets\":[{\"mount_path\":\"/run/secrets/npm/token\",\"secret\":\"NPM_TOKEN\"}]}"

static bool build_with(struct bench *bench, const char *value, const char *steps,
                       struct image *image)
{
    bench->secret = value;
    return build(bench, steps, NULL, false, image);
}

TEST(a_step_has_its_secret_and_the_layer_nothing_of_it)
{
    AUTO(bench_finish) struct bench b = {0};
    struct image image;

    NEEDS_ROOT();
    CHECK(bench_init(&b));
    CHECK(
        build_with(&b, VALUE, WITH_SECRET("cat /run/secrets/npm/token; echo ok > /seen"), &image));
    CHECK(image.n_layers == 2);
    CHECK_STR(b.log, VALUE);
    CHECK(export_image(&b, &image));
    CHECK(testing_sh(&b.testing, "test -e out/seen && test ! -e out/run"));

    /* Neither does a step that changes nothing else leave a layer. */
    CHECK(build_with(&b, VALUE, WITH_SECRET("true"), &image));
    CHECK(image.n_layers == 1);
    CHECK(testing_sh(&b.testing, "! grep -rqF '" VALUE "' work"));
}

TEST(the_value_of_a_secret_is_no_part_of_the_key)
{
    AUTO(bench_finish) struct bench b = {0};
    struct image image;

    NEEDS_ROOT();
    CHECK(bench_init(&b));
    CHECK(build_with(&b, VALUE, WITH_SECRET("echo 1 > /one"), &image) && b.n_run == 1);
    CHECK(build_with(&b, "another value", WITH_SECRET("echo 1 > /one"), &image));
    CHECK(b.n_run == 0 && b.n_cached == 2);
    /* A cached step asks for no value either. */
    CHECK(build_with(&b, NULL, WITH_SECRET("echo 1 > /one"), &image) && b.n_run == 0);
    CHECK(!build_with(&b, NULL, WITH_SECRET("echo 2 > /two"), &image));
    CHECK(b.testing.err.code == ERR_SECRET_MISSING && b.n_run == 0);
    CHECK(strstr(b.testing.err.text, "there is no secret NPM_TOKEN"));
}

static const struct {
    const char *what, *script, *path;
} leaks[] = {
    {"a copy",           "cat /run/secrets/npm/token > /copy",                                     "/copy"},
    {"a settings file",  "mkdir /etc/npm; echo token=$(cat /run/secrets/npm/token) > /etc/npm/rc",
     "/etc/npm/rc"                                                                                        },
    {"a name",           "mkdir -p /d/x$(cat /run/secrets/npm/token)",                             "/d"   },
    {"a link",           "ln -s $(cat /run/secrets/npm/token) /link",                              "/link"},
    {"base64",           "echo aGVsbG8gaHVudGVyMj8+Pz5odW50ZXIyfn5+ > /b",                         "/b"   },
    {"base64 one later", "echo eGh1bnRlcjI/Pj8+aHVudGVyMn5+fnk= > /b",                             "/b"   },
    {"base64 two later", "echo eHhodW50ZXIyPz4/Pmh1bnRlcjJ+fn4= > /b",                             "/b"   },
    {"base64url",        "echo aGVsbG8gaHVudGVyMj8-Pz5odW50ZXIyfn5- > /b",                         "/b"   },
};

TEST(a_step_that_keeps_a_secret_fails_and_leaves_nothing)
{
    AUTO(bench_finish) struct bench b = {0};
    struct image image;

    NEEDS_ROOT();
    CHECK(bench_init(&b));
    CHECK(testing_sh(&b.testing, "ls work/oci/blobs/sha256 > before"));
    for (size_t i = 0; i < COUNT_OF(leaks); i++) {
        const char *step = arena_printf(&b.arena,
                                        "{\"kind\":\"run\",\"argv\":[\"sh\",\"-ceu\",\"%s\"],"
                                        "\"secrets\":[{\"mount_path\":\"/run/secrets/npm/token\","
                                        "\"secret\":\"NPM_TOKEN\"}]}",
                                        leaks[i].script);
        bool built = build_with(&b, VALUE, step, &image);
        if (built || b.testing.err.code != ERR_UNPROCESSABLE)
            printf("# %s: %s\n", leaks[i].what, built ? "not found" : b.testing.err.text);
        CHECK(!built && b.testing.err.code == ERR_UNPROCESSABLE);
        CHECK(strstr(b.testing.err.text, arena_printf(&b.arena,
                                                      "the step wrote the value of secret "
                                                      "NPM_TOKEN to %s",
                                                      leaks[i].path)));
        CHECK(!strstr(b.testing.err.text, VALUE));
    }
    CHECK(testing_sh(&b.testing, "ls work/oci/blobs/sha256 | cmp - before && "
                                 "test -z \"$(find work/oci/steps work/oci/tmp -type f)\""));
}

/* What a program of the image cannot do here: an attribute. */
static bool run_and_mark(void *arg, const struct image_step_run *step, struct error *err)
{
    struct str value = secret_reveal(step->secrets[0].value);

    return run_in_chroot(arg, step, err) &&
           (setxattr(step->upper, "user.note", value.ptr, value.len, 0) == 0 ||
            error_errno(err, "setxattr"));
}

TEST(attributes_are_looked_at_too)
{
    AUTO(bench_finish) struct bench b = {0};
    const struct image *images;

    NEEDS_ROOT();
    CHECK(bench_init(&b));
    prepare(&b);
    b.secret = VALUE;
    b.hooks.run = run_and_mark;
    CHECK(!build_plans(&b, "[" OTHER("a", WITH_SECRET("true")) "]", &images));
    CHECK(b.testing.err.code == ERR_UNPROCESSABLE && strstr(b.testing.err.text, "NPM_TOKEN"));
}

TEST(a_value_is_found_wherever_it_lies_in_a_large_file)
{
    static const long at[] = {0, 1048576 - 7, 1048576, 3 * 1048576 - 1};
    AUTO(bench_finish) struct bench b = {0};
    struct image image;

    NEEDS_ROOT();
    CHECK(bench_init(&b));
    for (size_t i = 0; i < COUNT_OF(at); i++) {
        char script[512];
        (void)snprintf(script, sizeof script,
                       "head -c %ld /dev/zero > project/big; printf %%s '%s' >> project/big; "
                       "head -c 70000 /dev/zero >> project/big",
                       at[i], VALUE);
        CHECK(testing_sh(&b.testing, script));
        /* The file comes by a copy, and the step that has the secret moves it. */
        CHECK(!build_with(
            &b, VALUE,
            "{\"kind\":\"copy\",\"dest\":\"/big\",\"source\":{\"file\":\"big\"}}," WITH_SECRET(
                "mv /big /bigger"),
            &image));
        CHECK(strstr(b.testing.err.text, "to /bigger"));
    }
}

TEST_MAIN()
