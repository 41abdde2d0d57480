/* Bringing a machine up: what it is made of, told to Firecracker part by part. */
#pragma once

#include "engine/engine.h"
#include "engine/firecracker/api.h"

/* Names inside the jail. */
#define BOOT_KERNEL  "kernel"
#define BOOT_INITRD  "initrd"
#define BOOT_ROOT    "root.img"
#define BOOT_SCRATCH "scratch.img"
#define BOOT_BUNDLE  "bundle.img"
#define BOOT_VSOCK   "v.sock"

enum { BOOT_DRIVES_MAX = 3 };

struct boot_drive {
    const char *name, *file; /* the file is a name inside the jail */
    bool is_read_only;
};

/* Those that the machine has, in the order in which it finds them. */
size_t boot_drives(const struct sandbox_drives *drives, struct boot_drive list[BOOT_DRIVES_MAX]);

struct boot {
    struct machine_api *api;
    const struct sandbox_spec *spec;
    const char *tap; /* NULL: no network */
    int64_t deadline_ms;
};

/* From nothing to a kernel that runs. */
bool boot_machine(const struct boot *boot, struct error *err) MUST_USE;

/* Boot time until which one request may take, within the deadline of all. */
int64_t boot_call_deadline(int64_t deadline_ms);
