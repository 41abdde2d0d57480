#include "model/engine_choice.h"

#include <stdlib.h>
#include <string.h>

#include "base/test.h"

static const struct engine_finding firecracker = {ENGINE_FIRECRACKER, true, true, NULL},
                                   no_firecracker = {ENGINE_FIRECRACKER, false, false,
                                                     "firecracker is not installed"},
                                   qemu = {ENGINE_QEMU, true, true, NULL},
                                   slow_qemu = {ENGINE_QEMU, true, false, NULL},
                                   no_qemu = {ENGINE_QEMU, false, false, "no KVM"},
                                   gvisor = {ENGINE_GVISOR, true, false, NULL},
                                   no_gvisor = {ENGINE_GVISOR, false, false,
                                                "runsc is not installed"},
                                   container = {ENGINE_CONTAINER, true, false, NULL};

/* Asks as a worker does, trying what it is told to, until there is an answer. */
static struct engine_choice settle(const char *wanted, const struct engine_finding *host, size_t n)
{
    struct engine_finding tried[ENGINE_KIND_COUNT];
    struct engine_choice choice;
    size_t n_tried = 0;

    for (;;) {
        engine_choose(wanted, tried, n_tried, &choice);
        if (choice.step != ENGINE_TRY)
            return choice;
        if (n_tried == ENGINE_KIND_COUNT)
            abort();
        tried[n_tried] = (struct engine_finding){choice.engine, false, false, "not in the test"};
        for (size_t i = 0; i < n; i++)
            if (host[i].engine == choice.engine)
                tried[n_tried] = host[i];
        n_tried++;
    }
}

#define SETTLE(wanted, ...)                                \
    settle(wanted, (struct engine_finding[]){__VA_ARGS__}, \
           sizeof((struct engine_finding[]){__VA_ARGS__}) / sizeof(struct engine_finding))

TEST(auto_takes_the_first_that_was_proved)
{
    struct engine_choice choice = SETTLE("auto", firecracker, qemu, gvisor);

    CHECK(choice.step == ENGINE_TAKE && choice.engine == ENGINE_FIRECRACKER);
    choice = SETTLE("auto", no_firecracker, qemu, gvisor);
    CHECK(choice.step == ENGINE_TAKE && choice.engine == ENGINE_QEMU);
    choice = SETTLE("auto", no_firecracker, no_qemu, gvisor);
    CHECK(choice.step == ENGINE_TAKE && choice.engine == ENGINE_GVISOR);
}

TEST(auto_tries_nothing_that_it_does_not_need)
{
    struct engine_choice choice;

    engine_choose("auto", NULL, 0, &choice);
    CHECK(choice.step == ENGINE_TRY && choice.engine == ENGINE_FIRECRACKER);
    engine_choose("auto", &firecracker, 1, &choice);
    CHECK(choice.step == ENGINE_TAKE && choice.engine == ENGINE_FIRECRACKER);
}

TEST(auto_takes_no_microvm_without_kvm_and_says_so)
{
    struct engine_choice choice = SETTLE("auto", no_firecracker, slow_qemu, gvisor);

    CHECK(choice.step == ENGINE_TAKE && choice.engine == ENGINE_GVISOR);
    CHECK(strstr(choice.reason, "firecracker: firecracker is not installed"));
    CHECK(strstr(choice.reason, "qemu: it works without KVM only"));
    choice = SETTLE("auto", no_firecracker, slow_qemu, no_gvisor);
    CHECK(choice.step == ENGINE_NONE);
}

TEST(auto_never_takes_or_tries_the_container)
{
    struct engine_choice choice = SETTLE("auto", no_firecracker, no_qemu, no_gvisor, container);

    CHECK(choice.step == ENGINE_NONE);
    CHECK(strstr(choice.reason, "gvisor: runsc is not installed"));
    CHECK(!strstr(choice.reason, "container"));
}

TEST(what_is_slow_or_weak_is_taken_by_name)
{
    struct engine_choice choice = SETTLE("qemu", slow_qemu);

    CHECK(choice.step == ENGINE_TAKE && choice.engine == ENGINE_QEMU);
    choice = SETTLE("container", container);
    CHECK(choice.step == ENGINE_TAKE && choice.engine == ENGINE_CONTAINER);
}

TEST(an_engine_that_was_named_is_never_replaced)
{
    for (enum engine_kind named = 0; named < ENGINE_KIND_COUNT; named++) {
        struct engine_finding all[ENGINE_KIND_COUNT];

        for (enum engine_kind e = 0; e < ENGINE_KIND_COUNT; e++)
            all[e] = (struct engine_finding){e, e != named, true, "it broke"};
        struct engine_choice choice = settle(engine_kind_name(named), all, ENGINE_KIND_COUNT);
        CHECK(choice.step == ENGINE_NONE && strstr(choice.reason, "it broke"));
    }
}

TEST(a_name_that_is_none_is_refused)
{
    struct engine_choice choice = SETTLE("docker", gvisor);

    CHECK(choice.step == ENGINE_NONE && strstr(choice.reason, "docker"));
    CHECK(engine_wish_is_valid("auto") && engine_wish_is_valid("qemu"));
    CHECK(!engine_wish_is_valid("docker") && !engine_wish_is_valid(""));
}

TEST(builds_have_the_engine_of_runs_where_it_can_build)
{
    struct engine_choice choice;

    engine_choose_builder("auto", ENGINE_CONTAINER, true, &container, 1, &choice);
    CHECK(choice.step == ENGINE_TAKE && choice.engine == ENGINE_CONTAINER);
    engine_choose_builder("auto", ENGINE_GVISOR, true, &gvisor, 1, &choice);
    CHECK(choice.step == ENGINE_TAKE && choice.engine == ENGINE_GVISOR);
}

TEST(builds_beside_machines_have_gvisor_or_none)
{
    const struct engine_finding found[] = {slow_qemu, gvisor}, without[] = {slow_qemu, no_gvisor};
    struct engine_choice choice;

    engine_choose_builder("auto", ENGINE_QEMU, true, found, 1, &choice);
    CHECK(choice.step == ENGINE_TRY && choice.engine == ENGINE_GVISOR);
    engine_choose_builder("auto", ENGINE_QEMU, true, found, 2, &choice);
    CHECK(choice.step == ENGINE_TAKE && choice.engine == ENGINE_GVISOR);
    CHECK(strstr(choice.reason, "microVM"));
    engine_choose_builder("auto", ENGINE_QEMU, true, without, 2, &choice);
    CHECK(choice.step == ENGINE_NONE && strstr(choice.reason, "runsc is not installed"));
}

TEST(who_is_not_root_builds_with_the_engine_of_runs)
{
    struct engine_choice choice;

    engine_choose_builder("auto", ENGINE_QEMU, false, &slow_qemu, 1, &choice);
    CHECK(choice.step == ENGINE_TAKE && choice.engine == ENGINE_QEMU);
    engine_choose_builder("gvisor", ENGINE_QEMU, false, &slow_qemu, 1, &choice);
    CHECK(choice.step == ENGINE_TRY && choice.engine == ENGINE_GVISOR);
}

TEST(the_engine_of_builds_can_be_named_if_it_can_build)
{
    const struct engine_finding found[] = {gvisor, container};
    struct engine_choice choice;

    engine_choose_builder("container", ENGINE_GVISOR, true, found, 2, &choice);
    CHECK(choice.step == ENGINE_TAKE && choice.engine == ENGINE_CONTAINER);
    engine_choose_builder("qemu", ENGINE_QEMU, true, &slow_qemu, 1, &choice);
    CHECK(choice.step == ENGINE_TAKE && choice.engine == ENGINE_QEMU);
    engine_choose_builder("firecracker", ENGINE_GVISOR, true, found, 2, &choice);
    CHECK(choice.step == ENGINE_NONE && strstr(choice.reason, "cannot build"));
    engine_choose_builder("docker", ENGINE_GVISOR, true, found, 2, &choice);
    CHECK(choice.step == ENGINE_NONE && strstr(choice.reason, "docker"));
}

TEST_MAIN()
