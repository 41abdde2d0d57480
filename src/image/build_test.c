#include "image/build_bench.h"

TEST(every_kind_of_step_has_its_effect)
{
    AUTO(bench_finish) struct bench b = {0};
    struct image image;

    NEEDS_ROOT();
    CHECK(bench_init(&b));
    CHECK(testing_sh(&b.testing, "cd project && printf pkg > package.json && mkdir -p src/deep && "
                                 "printf x > src/run && chmod 0700 src/run && "
                                 "printf y > src/deep/y && printf n > src/notes.md"));
    MUST_BUILD(
        &b,
        "{\"kind\":\"workdir\",\"path\":\"/app\"},"
        "{\"kind\":\"env\",\"key\":\"GREETING\",\"value\":\"hello world\"},"
        "{\"kind\":\"env\",\"key\":\"PATH\",\"value\":\"/bin:/usr/bin\"},"
        "{\"kind\":\"copy\",\"dest\":\"package.json\",\"source\":{\"file\":\"package.json\"}},"
        "{\"kind\":\"copy\",\"dest\":\"/app/code\",\"source\":{\"directory\":\"src\","
        "\"ignore\":[\"*.md\"]}},"
        "{\"kind\":\"workdir\",\"path\":\"code\"}," RUN(
            "pwd > /report; echo $GREETING >> /report; echo $PATH >> /report; ls >> /report; "
            "rm deep/y; ln -s run again; chmod 4711 run") ",{\"kind\":\"user\",\"name\":"
                                                          "\"node\"}",
        NULL, &image);
    CHECK(b.n_run == 1 && b.n_done == 9);
    CHECK(export_image(&b, &image));
    CHECK(testing_reads(testing_path(&b.testing, "out/report"),
                        "/app/code\nhello world\n/bin:/usr/bin\ndeep\nrun\n"));
    CHECK(testing_reads(testing_path(&b.testing, "out/app/package.json"), "pkg"));
    CHECK(testing_sh(&b.testing, "test $(stat -c %a:%u out/app/code/run) = 4711:0 && "
                                 "test -c out/app/code/deep/y && test -L out/app/code/again"));
    CHECK(str_equal(image.config.workdir, STR("/app/code")));
    CHECK(str_equal(image.config.user, STR("node")));
    CHECK(image.config.n_env == 2 && str_equal(image.config.env[0], STR("PATH=/bin:/usr/bin")));
    CHECK(image.n_layers == 5); /* the base, /app, two copies, the run */
}

TEST(a_step_that_was_done_is_not_done_again)
{
    static const char steps[] = RUN("echo 1 > /one") "," RUN(
        "cat /one > /two") ","
                           "{\"kind\":\"copy\",\"dest\":\"/f\",\"source\":{\"file\":\"f\"}}," RUN(
                               "cat /f > /three");
    AUTO(bench_finish) struct bench b = {0};
    struct image first, second, third;

    NEEDS_ROOT();
    CHECK(bench_init(&b) && testing_file(testing_path(&b.testing, "project/f"), "A"));
    MUST_BUILD(&b, steps, NULL, &first);
    CHECK(b.n_run == 3);
    MUST_BUILD(&b, steps, NULL, &second);
    CHECK(b.n_run == 0 && b.n_cached == 5);
    CHECK_STR(second.digest, first.digest);

    CHECK(testing_file(testing_path(&b.testing, "project/f"), "B"));
    MUST_BUILD(&b, steps, NULL, &third);
    CHECK(b.n_run == 1 && strcmp(third.digest, first.digest) != 0);
    CHECK(export_image(&b, &third) && testing_reads(testing_path(&b.testing, "out/three"), "B"));

    CHECK(build(&b, steps, NULL, true, &second) && b.n_run == 3);

    /* A cache that lost its layer is not believed. */
    CHECK(testing_sh(&b.testing, "rm work/oci/blobs/sha256/*"));
    CHECK(!build(&b, steps, NULL, false, &second) && b.testing.err.code == ERR_UNAVAILABLE);
}

TEST(a_failing_step_is_named)
{
    AUTO(bench_finish) struct bench b = {0};
    struct image image;

    NEEDS_ROOT();
    CHECK(bench_init(&b));
    CHECK(!build(&b, RUN("exit 0") "," RUN("echo no; exit 3"), NULL, false, &image));
    CHECK(b.testing.err.code == ERR_UNPROCESSABLE);
    CHECK_STR(b.testing.err.text, "step 3 of 3: RUN sh -ceu echo no; exit 3 exited with code 3");
    CHECK(testing_sh(&b.testing, "test -z \"$(ls work/oci/tmp)\""));
    CHECK(!build(&b, "{\"kind\":\"copy\",\"dest\":\"/f\",\"source\":{\"file\":\"f\"}}", NULL, false,
                 &image));
    CHECK_STR(b.testing.err.text, "step 2 of 2: COPY f /f: f is not in the project");
}

TEST(caches_stay_between_steps_and_out_of_layers)
{
    static const char use[] =
        "{\"kind\":\"run\",\"argv\":[\"sh\",\"-ceu\",\"%s\"],"
        "\"cache\":[{\"mount_path\":\"/root/.cache/deep\",\"cache\":\"npm\"}]}";
    AUTO(bench_finish) struct bench b = {0};
    struct image image;
    char steps[1024], first[256], second[256];

    NEEDS_ROOT();
    CHECK(bench_init(&b));
    (void)snprintf(first, sizeof first, use, "echo kept > /root/.cache/deep/f");
    (void)snprintf(second, sizeof second, use,
                   "cat /root/.cache/deep/f > /seen; echo m > /root/mine");
    (void)snprintf(steps, sizeof steps, "%s,%s", first, second);
    MUST_BUILD(&b, steps, NULL, &image);
    CHECK(image.n_layers == 2); /* the first step left nothing */
    CHECK(export_image(&b, &image) &&
          testing_reads(testing_path(&b.testing, "out/seen"), "kept\n"));
    CHECK(testing_sh(&b.testing, "test -e out/root/mine && test ! -e out/root/.cache && "
                                 "test -e caches/npm/f"));
}

TEST(files_of_the_platform_never_enter_a_layer)
{
    AUTO(bench_finish) struct bench b = {0};
    struct image image;

    NEEDS_ROOT();
    CHECK(bench_init(&b));
    MUST_BUILD(&b,
               RUN("echo h > /etc/hosts; echo h > /etc/hostname; echo r > /etc/resolv.conf; "
                   "echo x > /dev/x; mkdir -p /proc/y /sys/z /run/helmr/a /opt/helmr/b"),
               NULL, &image);
    CHECK(image.n_layers == 1);
    MUST_BUILD(&b, RUN("echo h > /etc/hosts; echo k > /etc/kept; mkdir -p /opt/helmr /opt/mine"),
               NULL, &image);
    CHECK(export_image(&b, &image));
    CHECK(testing_sh(&b.testing, "test -e out/etc/kept && test ! -e out/etc/hosts && "
                                 "test -d out/opt/mine && test ! -e out/opt/helmr"));
}

TEST(a_copy_follows_the_links_of_the_image_and_never_leaves_it)
{
    AUTO(bench_finish) struct bench b = {0};
    struct image image;

    NEEDS_ROOT();
    CHECK(bench_init(&b));
    CHECK(testing_sh(&b.testing,
                     "cd project && mkdir -p tree/data/sub && printf 1 > tree/data/f && "
                     "printf 2 > tree/data/sub/g && printf 3 > one"));
    MUST_BUILD(&b,
               "{\"kind\":\"copy\",\"dest\":\"/\",\"source\":{\"directory\":\"tree\"}},"
               "{\"kind\":\"copy\",\"dest\":\"/data\",\"source\":{\"file\":\"one\"}},"
               "{\"kind\":\"copy\",\"dest\":\"/new/place/\",\"source\":{\"file\":\"one\"}},"
               "{\"kind\":\"copy\",\"dest\":\"/data/../renamed\",\"source\":{\"file\":\"one\"}}",
               NULL, &image);
    CHECK(export_image(&b, &image));
    CHECK(testing_sh(&b.testing,
                     "test -L out/data && test \"$(cat out/usr/data/f)\" = 1 && "
                     "test \"$(cat out/usr/data/sub/g)\" = 2 && test -e out/usr/data/one && "
                     "test -e out/new/place/one && test -e out/usr/renamed"));

    static const char *const escapes[] = {"/usr/up/x", "../x", "/data/../../../x"};
    for (size_t i = 0; i < COUNT_OF(escapes); i++) {
        char step[256];
        (void)snprintf(step, sizeof step,
                       "{\"kind\":\"copy\",\"dest\":\"%s\",\"source\":{\"file\":\"one\"}}",
                       escapes[i]);
        CHECK(!build(&b, step, NULL, false, &image));
        CHECK(b.testing.err.code == ERR_UNPROCESSABLE &&
              strstr(b.testing.err.text, "leaves the image's root"));
    }
    CHECK(!build(&b, "{\"kind\":\"copy\",\"dest\":\"/bin/sh\",\"source\":{\"directory\":\"tree\"}}",
                 NULL, false, &image));
    CHECK(strstr(b.testing.err.text, "not a directory"));
}

TEST(the_platforms_folders_are_no_working_directory)
{
    static const char *const steps[] = {
        "{\"kind\":\"workdir\",\"path\":\"/proc\"}",
        "{\"kind\":\"workdir\",\"path\":\"/opt\"},{\"kind\":\"workdir\",\"path\":\"helmr/x\"}",
        "{\"kind\":\"workdir\",\"path\":\"/usr/./..//sys\"}",
    };
    AUTO(bench_finish) struct bench b = {0};
    struct image image;

    NEEDS_ROOT();
    CHECK(bench_init(&b));
    for (size_t i = 0; i < COUNT_OF(steps); i++) {
        CHECK(!build(&b, steps[i], NULL, false, &image));
        CHECK(b.testing.err.code == ERR_INVALID);
    }
    MUST_BUILD(&b, "{\"kind\":\"workdir\",\"path\":\"/opt/helmrs\"}", NULL, &image);
}

TEST(an_image_can_be_copied_from)
{
    static const char tools[] = OTHER(
        "tools",
        RUN("mkdir -p /t/d /t/gone; echo a > /t/a; ln -s a /t/l; rm -r /t/gone; chmod 700 /t/d; "
            "echo p > /t/d/p; chmod 4755 /t/d/p; rm /bin/ls"));
    AUTO(bench_finish) struct bench b = {0};
    struct image image;

    NEEDS_ROOT();
    CHECK(bench_init(&b));
    MUST_BUILD(&b,
               "{\"kind\":\"copyFrom\",\"dest\":\"/x\",\"image\":\"tools\",\"path\":\"/t\"},"
               "{\"kind\":\"copyFrom\",\"dest\":\"/y/b\",\"image\":\"tools\",\"path\":\"/t/l\"},"
               "{\"kind\":\"copy\",\"dest\":\"/all\",\"image\":\"tools\"}",
               tools, &image);
    CHECK(b.n_run == 1);
    CHECK(export_image(&b, &image));
    CHECK(testing_sh(&b.testing,
                     "test \"$(ls out/x | tr '\\n' ' ')\" = 'a d l ' && test -L out/x/l && "
                     "test $(stat -c %a out/x/d) = 700 && test $(stat -c %a out/x/d/p) = 4755 && "
                     "test \"$(cat out/y/b)\" = a && test -e out/all/bin/sh && "
                     "test ! -e out/all/bin/ls && test -L out/all/data"));
    CHECK(!build(&b, "{\"kind\":\"copyFrom\",\"dest\":\"/x\",\"image\":\"tools\",\"path\":\"/no\"}",
                 tools, false, &image));
    CHECK(strstr(b.testing.err.text, "/no is not in the image"));
    CHECK(!build(&b, "{\"kind\":\"copy\",\"dest\":\"/x\",\"image\":\"nobody\"}", tools, false,
                 &image));
    CHECK(strstr(b.testing.err.text, "no image \"nobody\""));
}

TEST(images_that_need_each_other_are_refused_before_anything_runs)
{
    AUTO(bench_finish) struct bench b = {0};
    struct image image;

    NEEDS_ROOT();
    CHECK(bench_init(&b));
    CHECK(!build(&b, RUN("true") ",{\"kind\":\"copy\",\"dest\":\"/x\",\"image\":\"two\"}",
                 OTHER("two", "{\"kind\":\"copy\",\"dest\":\"/x\",\"image\":\"three\"}") "," OTHER(
                     "three", "{\"kind\":\"copyFrom\",\"dest\":\"/x\",\"image\":\"two\","
                              "\"path\":\"/etc\"}"),
                 false, &image));
    CHECK(b.testing.err.code == ERR_INVALID && b.n_run == 0 && b.n_started == 0);
    CHECK_STR(b.testing.err.text, "images copy from each other in a circle: two, three, two");
    CHECK(
        !build(&b, "{\"kind\":\"copy\",\"dest\":\"/x\",\"image\":\"main\"}", NULL, false, &image));
    CHECK_STR(b.testing.err.text, "images copy from each other in a circle: main, main");
}

TEST(a_base_that_is_nowhere_says_what_to_do)
{
    AUTO(bench_finish) struct bench b = {0};
    const struct image *images;

    NEEDS_ROOT();
    CHECK(bench_init(&b));
    prepare(&b);
    CHECK(!build_plans(&b,
                       "[{\"id\":\"a\",\"steps\":[{\"kind\":\"from\",\"ref\":\"ubuntu:24.04\"}]}]",
                       &images));
    CHECK(b.testing.err.code == ERR_UNAVAILABLE);
    CHECK(strstr(b.testing.err.text, "registry") && strstr(b.testing.err.text, "image bootstrap"));
}

TEST_MAIN()
