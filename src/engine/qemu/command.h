/* The command line of one machine.
 *
 * Everything it touches is a descriptor it inherits: channel, monitor, memory, disks, kernel. It
 * needs no path of the host. A restored machine has the same devices in the same order as the one
 * that was saved; what only booting needs is left out of it, since it would be read into memory
 * once per machine.
 */
#pragma once

#include <stdint.h>

#include "base/error.h"

/* The numbers under which the process finds what it inherits. */
enum qemu_fd {
    QEMU_FD_CHANNEL = 3,
    QEMU_FD_MONITOR,
    QEMU_FD_MEMORY,
    QEMU_FD_ROOT, /* from here on: perhaps */
    QEMU_FD_SCRATCH,
    QEMU_FD_BUNDLE,
    QEMU_FD_TAP,
    QEMU_FD_KERNEL,     /* to boot */
    QEMU_FD_INITRD,     /* to boot */
    QEMU_FD_DEVICES,    /* to go on from what was saved */
    QEMU_FD_FRAMES_OUT, /* what the guest sends, before anything is done with it */
    QEMU_FD_FRAMES_IN,  /* what of that may go on */
    QEMU_FD_OWNER,      /* a file of the instance: by it the process is found */
};

/* Where what a guest sends and receives goes. */
enum qemu_network {
    QEMU_NETWORK_NONE,       /* it has no such device */
    QEMU_NETWORK_TAP,        /* the tap it is given */
    QEMU_NETWORK_RESTRICTED, /* QEMU's own, which reaches nothing */
    QEMU_NETWORK_USER,       /* QEMU's own, behind the frames that we let through */
};

struct qemu_command {
    const char *binary, *name;
    bool is_accelerated;
    int vcpus;
    int64_t memory_mib;
    bool is_copy;     /* of memory that others map too: changed pages are its own */
    bool is_restored; /* goes on from saved devices */
    bool is_asleep;   /* not before the monitor says so */
    bool has_root, has_scratch, has_bundle; /* disks */
    enum qemu_network network;
    long tsc_khz; /* 0: the guest finds out */
};

enum { QEMU_ARGS_MAX = 96, QEMU_TEXT_MAX = 4096 };

struct qemu_args {
    const char *argv[QEMU_ARGS_MAX + 1];
    char text[QEMU_TEXT_MAX];
};

bool qemu_command_make(const struct qemu_command *command, struct qemu_args *args,
                       struct error *err) MUST_USE;
