#include "machine.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/json.h"
#include "base/own.h"

enum { STATE_MAX = 65536, KERNEL_PAGE = 128 };

struct machine machine = {.phase = NOT_STARTED, .vcpus = 1, .memory_mib = 128, .vsock = -1};

size_t machine_bytes(void)
{
    return (size_t)machine.memory_mib << 20;
}

void machine_touch(const void *at, size_t len)
{
    size_t first = (size_t)((const uint8_t *)at - machine.memory) / PAGE;
    size_t last = ((size_t)((const uint8_t *)at - machine.memory) + len - 1) / PAGE;

    for (size_t page = first; page <= last; page++)
        machine.dirty[page] = true;
}

static bool memory_map(int fd, struct error *err)
{
    int flags = MAP_PRIVATE | (fd < 0 ? MAP_ANONYMOUS : 0);
    void *mapped = mmap(NULL, machine_bytes(), PROT_READ | PROT_WRITE, flags, fd, 0);

    if (mapped == MAP_FAILED)
        return error_errno(err, "Cannot map guest memory");
    machine.memory = mapped;
    machine.dirty = alloc(machine_bytes() / PAGE);
    memset(machine.dirty, 0, machine_bytes() / PAGE);
    return true;
}

static bool memory_put(const char *path, size_t page, bool is_elf, struct error *err)
{
    AUTO_FD int fd = open(path, O_RDONLY | O_CLOEXEC);
    uint8_t *to = machine.memory + page * PAGE;
    size_t room = 256 * PAGE;

    if (fd < 0)
        return error_errno(err, "Cannot open %s", path);
    ssize_t got = read(fd, to, room);
    if (got <= 0 || (is_elf && memcmp(to,
                                      "\x7f"
                                      "ELF",
                                      4) != 0))
        return error_set(err, ERR_INVALID, "Cannot load %s: Invalid Elf magic number", path);
    machine_touch(to, (size_t)got);
    return true;
}

bool machine_boot(struct error *err)
{
    if (!machine.has_kernel)
        return error_set(err, ERR_INVALID, "Cannot start microvm without kernel configuration.");
    if (!memory_map(-1, err) || !memory_put(machine.kernel, KERNEL_PAGE, true, err) ||
        (machine.initrd[0] && !memory_put(machine.initrd, KERNEL_PAGE + 256, false, err)) ||
        (machine.has_vsock && !vsock_open(err)))
        return false;
    memcpy(machine.memory + PAGE, machine.arguments, strlen(machine.arguments) + 1);
    machine_touch(machine.memory + PAGE, PAGE);
    agent_boot();
    machine.phase = RUNNING;
    return true;
}

static bool state_write(const char *path, struct error *err)
{
    AUTO(buf_finish) struct buf text = {.max = STATE_MAX};
    struct json_writer json = json_begin(&text);

    json_open(&json, NULL);
    json_int(&json, "vcpus", machine.vcpus);
    json_int(&json, "memory_mib", machine.memory_mib);
    json_string(&json, "vsock_path", machine.vsock_path);
    json_open_list(&json, "drives");
    for (size_t i = 0; i < machine.n_drives; i++) {
        json_open(&json, NULL);
        json_string(&json, "id", machine.drives[i].id);
        json_string(&json, "path", machine.drives[i].path);
        json_bool(&json, "is_read_only", machine.drives[i].is_read_only);
        json_int(&json, "size", machine.drives[i].size);
        json_close(&json);
    }
    json_close_list(&json);
    json_open_list(&json, "nets");
    for (size_t i = 0; i < machine.n_nets; i++) {
        json_open(&json, NULL);
        json_string(&json, "id", machine.nets[i].id);
        json_string(&json, "tap", machine.nets[i].tap);
        json_close(&json);
    }
    json_close_list(&json);
    json_close(&json);

    AUTO_FD int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0)
        return error_errno(err, "Cannot open snapshot file %s", path);
    return json_end(&json, err) && fd_write_all(fd, buf_str(&text), err);
}

static bool page_is_written(size_t page, bool is_diff)
{
    /* The page that a lossy one forgets is the first, where the agent's own state is. */
    return !is_diff || (machine.dirty[page] && !(page == 0 && fault_of("-", "changes")));
}

static bool memory_write(const char *path, bool is_diff, struct error *err)
{
    AUTO_FD int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

    if (fd < 0 || ftruncate(fd, (off_t)machine_bytes()) < 0)
        return error_errno(err, "Cannot open memory file %s", path);
    for (size_t page = 0; page < machine_bytes() / PAGE; page++) {
        if (page_is_written(page, is_diff) &&
            pwrite(fd, machine.memory + page * PAGE, PAGE, (off_t)(page * PAGE)) != PAGE)
            return error_errno(err, "Cannot write memory file %s", path);
    }
    return true;
}

bool machine_create_snapshot(const char *state, const char *memory, bool is_diff, struct error *err)
{
    if (machine.phase != PAUSED)
        return error_set(err, ERR_INVALID, "Create snapshot error: the microVM is not paused.");
    if (is_diff && !machine.tracks_pages)
        return error_set(err, ERR_INVALID,
                         "Diff snapshots are not allowed on uVMs with dirty page tracking "
                         "disabled.");

    /* Connections do not survive; who listens does. */
    agent_disconnect();
    if (!state_write(state, err) || !memory_write(memory, is_diff, err))
        return false;
    memset(machine.dirty, 0, machine_bytes() / PAGE);
    return true;
}

struct saved_drive {
    struct str id, path;
    bool is_read_only;
    int64_t size;
};

struct saved_net {
    struct str id, tap;
};

struct saved {
    int64_t vcpus, memory_mib;
    struct str vsock_path;
    struct json_list drives, nets;
};

static const struct json_field drive_fields[] = {
    {"id", JSON_TEXT, offsetof(struct saved_drive, id), REQUIRED},
    {"path", JSON_TEXT, offsetof(struct saved_drive, path), REQUIRED},
    {"is_read_only", JSON_BOOL, offsetof(struct saved_drive, is_read_only), REQUIRED},
    {"size", JSON_INTEGER, offsetof(struct saved_drive, size), REQUIRED},
    {0},
};

static const struct json_field net_fields[] = {
    {"id", JSON_TEXT, offsetof(struct saved_net, id), REQUIRED},
    {"tap", JSON_TEXT, offsetof(struct saved_net, tap), REQUIRED},
    {0},
};

static const struct json_field saved_fields[] = {
    {"vcpus", JSON_INTEGER, offsetof(struct saved, vcpus), REQUIRED},
    {"memory_mib", JSON_INTEGER, offsetof(struct saved, memory_mib), REQUIRED},
    {"vsock_path", JSON_TEXT, offsetof(struct saved, vsock_path), REQUIRED, .max = 99},
    {"drives", JSON_LIST, offsetof(struct saved, drives), REQUIRED, .max = DRIVES_MAX,
     .fields = drive_fields, .size = sizeof(struct saved_drive)},
    {"nets", JSON_LIST, offsetof(struct saved, nets), REQUIRED, .max = NETS_MAX,
     .fields = net_fields, .size = sizeof(struct saved_net)},
    {0},
};

static void copy(char *to, size_t room, struct str from)
{
    snprintf(to, room, "%.*s", (int)from.len, from.ptr);
}

/* Every device must find on this side what it had on the other. */
static bool devices_restore(const struct saved *saved, struct error *err)
{
    const struct saved_drive *drives = saved->drives.items;
    const struct saved_net *nets = saved->nets.items;

    for (size_t i = 0; i < saved->drives.n; i++) {
        struct drive *drive = &machine.drives[machine.n_drives++];
        copy(drive->id, sizeof drive->id, drives[i].id);
        copy(drive->path, sizeof drive->path, drives[i].path);
        drive->is_read_only = drives[i].is_read_only;
        if (!drive_open(drive, err))
            return false;
        if (drive->size != drives[i].size)
            return error_set(err, ERR_INVALID, "%s has another size than it had", drive->path);
    }
    for (size_t i = 0; i < saved->nets.n; i++) {
        struct net *net = &machine.nets[machine.n_nets++];
        copy(net->id, sizeof net->id, nets[i].id);
        copy(net->tap, sizeof net->tap, nets[i].tap);
        if (!net_open(net, err))
            return false;
    }
    copy(machine.vsock_path, sizeof machine.vsock_path, saved->vsock_path);
    return machine.vsock_path[0] == '\0' || vsock_open(err);
}

bool machine_load(const char *state, const char *memory, bool tracks_pages, struct error *err)
{
    AUTO(arena_finish) struct arena arena = {0};
    AUTO_FREE char *text = NULL;
    AUTO_FD int fd = open(memory, O_RDONLY | O_CLOEXEC);
    struct saved saved;
    struct stat status;

    if (!file_read(state, STATE_MAX, &text, err) ||
        !json_read(str_of(text), saved_fields, &saved, sizeof saved, &arena, err))
        return false;
    machine.vcpus = saved.vcpus;
    machine.memory_mib = saved.memory_mib;
    machine.tracks_pages = tracks_pages;
    if (fd < 0 || fstat(fd, &status) < 0)
        return error_errno(err, "Cannot open memory file %s", memory);
    if ((size_t)status.st_size != machine_bytes())
        return error_set(err, ERR_INVALID, "The memory file has another size than the memory");
    if (!memory_map(fd, err) || !devices_restore(&saved, err))
        return false;
    machine.phase = PAUSED;
    return true;
}
