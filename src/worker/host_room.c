#include "worker/host_room.h"

#include <string.h>
#include <sys/statvfs.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include "base/attr.h"

enum {
    MIB = 1024 * 1024,
    DEFAULT_DISK_MIB = 8192,
    DEFAULT_MEMORY_MIB = 2048, /* of a sandbox that asks for nothing else */
    SLOTS_PER_CPU = 2,
    SLOTS_MAX = 256,
};

static const struct overhead {
    const char *engine;
    bool accelerated;
    int64_t mib;
} overheads[] = {
    {"firecracker", true,  64 },
    {"qemu",        true,  128},
    {"qemu",        false, 384}, /* what it translated of the guest's instructions */
};

bool host_room(const struct worker_settings *settings, struct room *room, struct error *err)
{
    struct statvfs disk;
    struct sysinfo host;
    int64_t cpus = sysconf(_SC_NPROCESSORS_ONLN);

    if (sysinfo(&host) != 0)
        return error_errno(err, "sysinfo");
    if (statvfs(settings->work_dir, &disk) != 0)
        return error_errno(err, "statvfs %s", settings->work_dir);

    int64_t memory = (int64_t)(host.totalram / MIB) * host.mem_unit;
    int64_t free_disk = (int64_t)(disk.f_bavail / 1024 * disk.f_frsize / 1024);

    room->memory_mib = settings->memory_mib ? settings->memory_mib : memory * 8 / 10;
    room->disk_mib =
        settings->disk_mib ? settings->disk_mib : free_disk - settings->disk_reserve_mib;
    room->slots = settings->execution_slots;
    /* Sandboxes wait more than they compute: a core is shared by several of two vCPUs each. */
    if (room->slots == 0)
        room->slots = cpus * SLOTS_PER_CPU;
    if (room->slots > SLOTS_MAX)
        room->slots = SLOTS_MAX;
    room->cpu_millis = settings->vcpus ? settings->vcpus * 1000
                                       : (cpus > room->slots * 2 ? cpus : room->slots * 2) * 1000;
    room->build_slots = settings->build_executors;
    if (room->disk_mib < DEFAULT_DISK_MIB / 8)
        return error_set(err, ERR_UNAVAILABLE, "%s has only %lld MiB free", settings->work_dir,
                         (long long)free_disk);
    return true;
}

int64_t host_room_overhead_mib(const char *engine, bool accelerated)
{
    for (size_t i = 0; i < COUNT_OF(overheads); i++)
        if (strcmp(overheads[i].engine, engine) == 0 && overheads[i].accelerated == accelerated)
            return overheads[i].mib;
    return 0;
}

bool host_room_keep_back(const struct worker_settings *settings, int64_t overhead_mib,
                         struct room *room, struct error *err)
{
    if (settings->memory_mib != 0)
        return true;
    while (settings->execution_slots == 0 && room->slots > 1 &&
           room->memory_mib - room->slots * overhead_mib < DEFAULT_MEMORY_MIB)
        room->slots--;
    room->memory_mib -= room->slots * overhead_mib;
    return room->memory_mib > 0 ||
           error_set(err, ERR_UNAVAILABLE,
                     "the memory of this host is too small for %lld sandboxes, of which each takes "
                     "%lld MiB besides its own",
                     (long long)room->slots, (long long)overhead_mib);
}
