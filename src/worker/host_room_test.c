#include "worker/host_room.h"

#include "base/attr.h"
#include "base/test.h"

TEST(a_machine_takes_more_than_its_guest_and_most_without_kvm)
{
    CHECK(host_room_overhead_mib("qemu", false) > host_room_overhead_mib("qemu", true));
    CHECK(host_room_overhead_mib("qemu", true) > host_room_overhead_mib("firecracker", true));
    CHECK(host_room_overhead_mib("gvisor", false) == 0);
}

TEST(what_machines_take_besides_is_not_given_out)
{
    static struct worker_settings settings;
    struct room room = {.memory_mib = 16000, .slots = 4};
    struct error err;

    CHECK(host_room_keep_back(&settings, 384, &room, &err));
    CHECK(room.slots == 4 && room.memory_mib == 16000 - 4 * 384);
    CHECK(host_room_keep_back(&settings, 0, &room, &err) && room.memory_mib == 16000 - 4 * 384);
}

TEST(a_small_host_has_fewer_slots_rather_than_no_room_in_them)
{
    static struct worker_settings settings;
    struct room room = {.memory_mib = 3200, .slots = 4};
    struct error err;

    CHECK(host_room_keep_back(&settings, 384, &room, &err));
    CHECK(room.slots == 3 && room.memory_mib == 3200 - 3 * 384);
    room = (struct room){.memory_mib = 300, .slots = 4};
    CHECK(!host_room_keep_back(&settings, 384, &room, &err) && err.code == ERR_UNAVAILABLE);
}

TEST(what_the_operator_set_is_given_out)
{
    static struct worker_settings settings = {.memory_mib = 4096};
    static struct worker_settings of_slots = {.execution_slots = 8};
    struct room room = {.memory_mib = 4096, .slots = 8};
    struct error err;

    CHECK(host_room_keep_back(&settings, 384, &room, &err));
    CHECK(room.memory_mib == 4096 && room.slots == 8);
    CHECK(host_room_keep_back(&of_slots, 384, &room, &err));
    CHECK(room.memory_mib == 4096 - 8 * 384 && room.slots == 8);
}

TEST_MAIN()
