#include "engine/firecracker/boot.h"

#include <stdio.h>

#include "base/json.h"
#include "base/own.h"
#include "base/time.h"
#include "engine/net/network.h"
#include "protocol/message.h"

enum { CALL_MS = 10000, GUEST_CID = 3 };

int64_t boot_call_deadline(int64_t deadline_ms)
{
    int64_t own = time_boot_ms() + CALL_MS;

    return own < deadline_ms ? own : deadline_ms;
}

/* A request's body while it is written: { is open from the start. */
struct request {
    struct buf body;
    struct json_writer json;
};

static void request_begin(struct request *request)
{
    request->body = (struct buf){.max = MACHINE_BODY_MAX};
    request->json = json_begin(&request->body);
    json_open(&request->json, NULL);
}

static bool request_put(struct request *request, const struct boot *boot, const char *path,
                        struct error *err)
{
    json_close(&request->json);
    bool ok = json_end(&request->json, err) &&
              machine_api_send(boot->api, "PUT", path, buf_str(&request->body),
                               boot_call_deadline(boot->deadline_ms), err);
    buf_finish(&request->body);
    return ok;
}

static bool put_machine(const struct boot *boot, struct error *err)
{
    struct request request;

    request_begin(&request);
    json_int(&request.json, "vcpu_count", boot->spec->vcpus > 0 ? boot->spec->vcpus : 1);
    json_int(&request.json, "mem_size_mib", boot->spec->memory_mib);
    json_bool(&request.json, "smt", false);
    json_bool(&request.json, "track_dirty_pages", true);
    return request_put(&request, boot, "/machine-config", err);
}

size_t boot_drives(const struct sandbox_drives *drives, struct boot_drive list[BOOT_DRIVES_MAX])
{
    size_t n = 0;

    if (drives->root)
        list[n++] = (struct boot_drive){"root", BOOT_ROOT, true};
    if (drives->scratch || drives->scratch_bytes > 0)
        list[n++] = (struct boot_drive){"scratch", BOOT_SCRATCH, false};
    if (drives->bundle)
        list[n++] = (struct boot_drive){"bundle", BOOT_BUNDLE, true};
    return n;
}

/* Firecracker gives disks no serial number, so the agent is told their order. */
static bool put_boot_source(const struct boot *boot, struct error *err)
{
    struct boot_drive drives[BOOT_DRIVES_MAX];
    size_t n = boot_drives(&boot->spec->drives, drives);
    char arguments[256];
    struct request request;
    int len = snprintf(arguments, sizeof(arguments),
                       "quiet panic=-1 reboot=t 8250.nr_uarts=0 helmr.channel=vsock helmr.abi=%d",
                       (int)MESSAGE_ABI);

    for (size_t i = 0; i < n; i++)
        len += snprintf(arguments + len, sizeof(arguments) - (size_t)len, "%s%s",
                        i ? "," : " helmr.drives=", drives[i].name);
    request_begin(&request);
    json_string(&request.json, "kernel_image_path", "/" BOOT_KERNEL);
    json_string(&request.json, "initrd_path", "/" BOOT_INITRD);
    json_string(&request.json, "boot_args", arguments);
    return request_put(&request, boot, "/boot-source", err);
}

/* Nothing on a disk must survive the instance, so none is ever flushed. */
static bool put_drive(const struct boot *boot, const struct boot_drive *drive, struct error *err)
{
    char path[64], file[64];
    struct request request;

    snprintf(path, sizeof(path), "/drives/%s", drive->name);
    snprintf(file, sizeof(file), "/%s", drive->file);
    request_begin(&request);
    json_string(&request.json, "drive_id", drive->name);
    json_string(&request.json, "path_on_host", file);
    json_bool(&request.json, "is_root_device", false);
    json_bool(&request.json, "is_read_only", drive->is_read_only);
    json_string(&request.json, "cache_type", "Unsafe");
    return request_put(&request, boot, path, err);
}

static bool put_drives(const struct boot *boot, struct error *err)
{
    struct boot_drive drives[BOOT_DRIVES_MAX];
    size_t n = boot_drives(&boot->spec->drives, drives);

    for (size_t i = 0; i < n; i++) {
        if (!put_drive(boot, &drives[i], err))
            return false;
    }
    return true;
}

static bool put_network(const struct boot *boot, struct error *err)
{
    struct request request;

    if (!boot->tap)
        return true;
    request_begin(&request);
    json_string(&request.json, "iface_id", "eth0");
    json_string(&request.json, "host_dev_name", boot->tap);
    json_string(&request.json, "guest_mac", NETWORK_GUEST_MAC);
    return request_put(&request, boot, "/network-interfaces/eth0", err);
}

static bool put_vsock(const struct boot *boot, struct error *err)
{
    struct request request;

    request_begin(&request);
    json_int(&request.json, "guest_cid", GUEST_CID);
    json_string(&request.json, "uds_path", "/" BOOT_VSOCK);
    return request_put(&request, boot, "/vsock", err);
}

static bool put_entropy(const struct boot *boot, struct error *err)
{
    struct request request;

    request_begin(&request);
    return request_put(&request, boot, "/entropy", err);
}

static bool put_start(const struct boot *boot, struct error *err)
{
    struct request request;

    request_begin(&request);
    json_string(&request.json, "action_type", "InstanceStart");
    return request_put(&request, boot, "/actions", err);
}

bool boot_machine(const struct boot *boot, struct error *err)
{
    return put_machine(boot, err) && put_boot_source(boot, err) && put_drives(boot, err) &&
           put_network(boot, err) && put_vsock(boot, err) && put_entropy(boot, err) &&
           put_start(boot, err);
}
