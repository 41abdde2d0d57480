/* Every request that the stand-in knows: what its body must be, and when it may come. */
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "base/own.h"
#include "machine.h"

enum when { BEFORE_BOOT, AFTER_BOOT };

struct machine_body {
    int64_t vcpu_count, mem_size_mib;
    bool smt, track_dirty_pages;
    struct str cpu_template, huge_pages;
};

static const struct json_field machine_fields[] = {
    {"vcpu_count", JSON_INTEGER, offsetof(struct machine_body, vcpu_count), REQUIRED, .min = 1,
     .max = 32},
    {"mem_size_mib", JSON_INTEGER, offsetof(struct machine_body, mem_size_mib), REQUIRED, .min = 1,
     .max = 1 << 20},
    {"smt", JSON_BOOL, offsetof(struct machine_body, smt), OPTIONAL},
    {"track_dirty_pages", JSON_BOOL, offsetof(struct machine_body, track_dirty_pages), OPTIONAL},
    {"cpu_template", JSON_TEXT, offsetof(struct machine_body, cpu_template), OPTIONAL},
    {"huge_pages", JSON_TEXT, offsetof(struct machine_body, huge_pages), OPTIONAL},
    {0},
};

static bool put_machine(void *body, const char *id, struct error *err)
{
    const struct machine_body *told = body;

    (void)id, (void)err;
    machine.vcpus = told->vcpu_count;
    machine.memory_mib = told->mem_size_mib;
    machine.tracks_pages = told->track_dirty_pages;
    return true;
}

struct boot_body {
    struct str kernel_image_path, initrd_path, boot_args;
};

static const struct json_field boot_fields[] = {
    {"kernel_image_path", JSON_TEXT, offsetof(struct boot_body, kernel_image_path), REQUIRED,
     .max = 255},
    {"initrd_path", JSON_TEXT, offsetof(struct boot_body, initrd_path), OPTIONAL, .max = 255},
    {"boot_args", JSON_TEXT, offsetof(struct boot_body, boot_args), OPTIONAL, .max = 2047},
    {0},
};

static void copy(char *to, size_t room, struct str from)
{
    snprintf(to, room, "%.*s", (int)from.len, from.ptr);
}

static bool put_boot(void *body, const char *id, struct error *err)
{
    const struct boot_body *told = body;

    (void)id;
    copy(machine.kernel, sizeof machine.kernel, told->kernel_image_path);
    copy(machine.initrd, sizeof machine.initrd, told->initrd_path);
    copy(machine.arguments, sizeof machine.arguments, told->boot_args);
    machine.has_kernel = true;
    if (access(machine.kernel, R_OK) != 0)
        return error_errno(err, "The kernel file cannot be opened: %s", machine.kernel);
    return machine.initrd[0] == '\0' || access(machine.initrd, R_OK) == 0 ||
           error_errno(err, "The initrd file cannot be opened: %s", machine.initrd);
}

struct drive_body {
    struct str drive_id, path_on_host, cache_type, io_engine, partuuid;
    bool is_root_device, is_read_only;
};

static const struct json_field drive_fields[] = {
    {"drive_id", JSON_TEXT, offsetof(struct drive_body, drive_id), REQUIRED, .max = 63},
    {"path_on_host", JSON_TEXT, offsetof(struct drive_body, path_on_host), REQUIRED, .max = 255},
    {"is_root_device", JSON_BOOL, offsetof(struct drive_body, is_root_device), REQUIRED},
    {"is_read_only", JSON_BOOL, offsetof(struct drive_body, is_read_only), OPTIONAL},
    {"cache_type", JSON_TEXT, offsetof(struct drive_body, cache_type), OPTIONAL},
    {"io_engine", JSON_TEXT, offsetof(struct drive_body, io_engine), OPTIONAL},
    {"partuuid", JSON_TEXT, offsetof(struct drive_body, partuuid), OPTIONAL},
    {0},
};

static bool id_matches(const char *id, struct str told, struct error *err)
{
    return str_equal(str_of(id), told) ||
           error_set(err, ERR_INVALID,
                     "The id from the path [%s] does not match the id from the body [%.*s]!", id,
                     (int)told.len, told.ptr);
}

static bool put_drive(void *body, const char *id, struct error *err)
{
    const struct drive_body *told = body;

    if (!id_matches(id, told->drive_id, err))
        return false;
    if (told->cache_type.ptr && !str_equal(told->cache_type, STR("Unsafe")) &&
        !str_equal(told->cache_type, STR("Writeback")))
        return error_set(err, ERR_INVALID, "unknown variant of cache_type");
    for (size_t i = 0; i < machine.n_drives; i++) {
        if (strcmp(machine.drives[i].id, id) == 0)
            return error_set(err, ERR_INVALID, "a stand-in takes each drive once");
    }
    if (machine.n_drives == DRIVES_MAX)
        return error_set(err, ERR_INVALID, "too many drives");
    struct drive *drive = &machine.drives[machine.n_drives++];
    copy(drive->id, sizeof drive->id, told->drive_id);
    copy(drive->path, sizeof drive->path, told->path_on_host);
    drive->is_read_only = told->is_read_only;
    return drive_open(drive, err);
}

struct net_body {
    struct str iface_id, host_dev_name, guest_mac;
};

static const struct json_field net_fields[] = {
    {"iface_id", JSON_TEXT, offsetof(struct net_body, iface_id), REQUIRED, .max = 63},
    {"host_dev_name", JSON_TEXT, offsetof(struct net_body, host_dev_name), REQUIRED, .max = 15},
    {"guest_mac", JSON_TEXT, offsetof(struct net_body, guest_mac), OPTIONAL, .max = 17},
    {0},
};

static bool is_mac(struct str text)
{
    for (size_t i = 0; i < text.len; i++) {
        if (i % 3 == 2 ? text.ptr[i] != ':' : !strchr("0123456789abcdefABCDEF", text.ptr[i]))
            return false;
    }
    return text.len == 17;
}

static bool put_net(void *body, const char *id, struct error *err)
{
    const struct net_body *told = body;

    if (!id_matches(id, told->iface_id, err))
        return false;
    if (told->guest_mac.ptr && !is_mac(told->guest_mac))
        return error_set(err, ERR_INVALID, "invalid value: guest_mac");
    if (machine.n_nets == NETS_MAX)
        return error_set(err, ERR_INVALID, "too many interfaces");
    struct net *net = &machine.nets[machine.n_nets++];
    copy(net->id, sizeof net->id, told->iface_id);
    copy(net->tap, sizeof net->tap, told->host_dev_name);
    return net_open(net, err);
}

struct vsock_body {
    int64_t guest_cid;
    struct str uds_path, vsock_id;
};

static const struct json_field vsock_fields[] = {
    {"guest_cid", JSON_INTEGER, offsetof(struct vsock_body, guest_cid), REQUIRED, .min = 3,
     .max = UINT32_MAX},
    {"uds_path", JSON_TEXT, offsetof(struct vsock_body, uds_path), REQUIRED, .max = 99},
    {"vsock_id", JSON_TEXT, offsetof(struct vsock_body, vsock_id), OPTIONAL},
    {0},
};

static bool put_vsock(void *body, const char *id, struct error *err)
{
    const struct vsock_body *told = body;

    (void)id, (void)err;
    machine.cid = told->guest_cid;
    copy(machine.vsock_path, sizeof machine.vsock_path, told->uds_path);
    machine.has_vsock = true;
    return true;
}

static const struct json_field entropy_fields[] = {{0}};

static bool put_entropy(void *body, const char *id, struct error *err)
{
    (void)body, (void)id, (void)err;
    machine.has_entropy = true;
    return true;
}

struct text_body {
    struct str text;
};

static const struct json_field action_fields[] = {
    {"action_type", JSON_TEXT, offsetof(struct text_body, text), REQUIRED},
    {0},
};

static bool put_action(void *body, const char *id, struct error *err)
{
    const struct text_body *told = body;

    (void)id;
    if (!str_equal(told->text, STR("InstanceStart")))
        return error_set(err, ERR_INVALID, "unknown variant of action_type");
    return machine_boot(err);
}

static const struct json_field state_fields[] = {
    {"state", JSON_TEXT, offsetof(struct text_body, text), REQUIRED},
    {0},
};

static bool patch_state(void *body, const char *id, struct error *err)
{
    const struct text_body *told = body;

    (void)id;
    if (str_equal(told->text, STR("Paused")))
        machine.phase = PAUSED;
    else if (str_equal(told->text, STR("Resumed")))
        machine.phase = RUNNING;
    else
        return error_set(err, ERR_INVALID, "unknown variant of state");
    return true;
}

struct create_body {
    struct str snapshot_type, snapshot_path, mem_file_path;
};

static const struct json_field create_fields[] = {
    {"snapshot_type", JSON_TEXT, offsetof(struct create_body, snapshot_type), OPTIONAL},
    {"snapshot_path", JSON_TEXT, offsetof(struct create_body, snapshot_path), REQUIRED, .max = 255},
    {"mem_file_path", JSON_TEXT, offsetof(struct create_body, mem_file_path), REQUIRED, .max = 255},
    {0},
};

static bool put_create(void *body, const char *id, struct error *err)
{
    const struct create_body *told = body;
    bool is_diff = str_equal(told->snapshot_type, STR("Diff"));
    char state[256], memory[256];

    (void)id;
    if (told->snapshot_type.ptr && !is_diff && !str_equal(told->snapshot_type, STR("Full")))
        return error_set(err, ERR_INVALID, "unknown variant of snapshot_type");
    copy(state, sizeof state, told->snapshot_path);
    copy(memory, sizeof memory, told->mem_file_path);
    return machine_create_snapshot(state, memory, is_diff, err);
}

struct backend_body {
    struct str backend_type, backend_path;
};

struct load_body {
    struct str snapshot_path, mem_file_path;
    struct backend_body mem_backend;
    bool has_backend, enable_diff_snapshots, track_dirty_pages, resume_vm, clock_realtime;
};

static const struct json_field backend_fields[] = {
    {"backend_type", JSON_TEXT, offsetof(struct backend_body, backend_type), REQUIRED},
    {"backend_path", JSON_TEXT, offsetof(struct backend_body, backend_path), REQUIRED, .max = 255},
    {0},
};

static const struct json_field load_fields[] = {
    {"snapshot_path", JSON_TEXT, offsetof(struct load_body, snapshot_path), REQUIRED, .max = 255},
    {"mem_file_path", JSON_TEXT, offsetof(struct load_body, mem_file_path), OPTIONAL, .max = 255},
    {"mem_backend", JSON_OBJ, offsetof(struct load_body, mem_backend), OPTIONAL,
     .fields = backend_fields, .present = offsetof(struct load_body, has_backend)},
    {"enable_diff_snapshots", JSON_BOOL, offsetof(struct load_body, enable_diff_snapshots),
     OPTIONAL},
    {"track_dirty_pages", JSON_BOOL, offsetof(struct load_body, track_dirty_pages), OPTIONAL},
    {"resume_vm", JSON_BOOL, offsetof(struct load_body, resume_vm), OPTIONAL},
    {"clock_realtime", JSON_BOOL, offsetof(struct load_body, clock_realtime), OPTIONAL},
    {0},
};

static bool put_load(void *body, const char *id, struct error *err)
{
    const struct load_body *told = body;
    char state[256], memory[256];

    (void)id;
    if (machine.is_configured)
        return error_set(err, ERR_INVALID,
                         "Load snapshot error: not allowed after configuring boot-specific "
                         "resources.");
    if (fault_of("-", "release") && told->track_dirty_pages)
        return error_set(err, ERR_INVALID, "unknown field `track_dirty_pages`");
    if (told->has_backend == (told->mem_file_path.ptr != NULL))
        return error_set(err, ERR_INVALID,
                         "exactly one of `mem_backend` and `mem_file_path` is needed");
    if (told->has_backend && !str_equal(told->mem_backend.backend_type, STR("File")))
        return error_set(err, ERR_INVALID, "a stand-in has files only");
    copy(state, sizeof state, told->snapshot_path);
    copy(memory, sizeof memory,
         told->has_backend ? told->mem_backend.backend_path : told->mem_file_path);
    machine.is_broken =
        !machine_load(state, memory, told->enable_diff_snapshots || told->track_dirty_pages, err);
    if (machine.is_broken)
        return false;
    if (told->resume_vm)
        machine.phase = RUNNING;
    return true;
}

static const struct rule {
    const char *method, *path; /* a path that ends in / is followed by an id */
    enum when when;
    bool configures;
    const struct json_field *fields;
    bool (*apply)(void *body, const char *id, struct error *err);
} rules[] = {
    {"PUT",   "/machine-config",      BEFORE_BOOT, true,  machine_fields, put_machine},
    {"PUT",   "/boot-source",         BEFORE_BOOT, true,  boot_fields,    put_boot   },
    {"PUT",   "/drives/",             BEFORE_BOOT, true,  drive_fields,   put_drive  },
    {"PUT",   "/network-interfaces/", BEFORE_BOOT, true,  net_fields,     put_net    },
    {"PUT",   "/vsock",               BEFORE_BOOT, true,  vsock_fields,   put_vsock  },
    {"PUT",   "/entropy",             BEFORE_BOOT, true,  entropy_fields, put_entropy},
    {"PUT",   "/actions",             BEFORE_BOOT, true,  action_fields,  put_action },
    {"PUT",   "/snapshot/load",       BEFORE_BOOT, false, load_fields,    put_load   },
    {"PUT",   "/snapshot/create",     AFTER_BOOT,  false, create_fields,  put_create },
    {"PATCH", "/vm",                  AFTER_BOOT,  false, state_fields,   patch_state},
};

static bool rule_is(const struct rule *rule, const char *method, const char *path)
{
    size_t len = strlen(rule->path);

    if (strcmp(rule->method, method) != 0)
        return false;
    return rule->path[len - 1] == '/' ? strncmp(path, rule->path, len) == 0 && path[len] != '\0' &&
                                            !strchr(path + len, '/')
                                      : strcmp(path, rule->path) == 0;
}

bool rules_apply(const char *method, const char *path, struct str body, struct error *err)
{
    AUTO(arena_finish) struct arena arena = {0};
    union {
        struct machine_body machine;
        struct boot_body boot;
        struct drive_body drive;
        struct net_body net;
        struct vsock_body vsock;
        struct create_body create;
        struct load_body load;
    } told;

    for (size_t i = 0; i < COUNT_OF(rules); i++) {
        const struct rule *rule = &rules[i];
        if (!rule_is(rule, method, path))
            continue;
        if (body.len == 0)
            return error_set(err, ERR_INVALID, "Empty %s request.", method);
        if (!json_read(body, rule->fields, &told, sizeof told, &arena, err))
            return false;
        if ((rule->when == BEFORE_BOOT) != (machine.phase == NOT_STARTED))
            return error_set(err, ERR_INVALID,
                             "The requested operation is not supported %s starting the microVM.",
                             rule->when == BEFORE_BOOT ? "after" : "before");
        machine.is_configured = machine.is_configured || rule->configures;
        return rule->apply(&told, strrchr(path, '/') + 1, err);
    }
    return error_set(err, ERR_INVALID, "Invalid request method and/or path: %s %s.", method, path);
}
