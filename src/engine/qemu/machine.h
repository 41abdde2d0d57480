/* Inside of a QEMU machine, for the files of this folder. */
#pragma once

#include "engine/instance.h"
#include "engine/qemu/qmp.h"

struct machine {
    struct qmp qmp;
    int memory;   /* what the process maps */
    bool is_copy; /* the memory is a template's: changed pages are in the process only */
    int folder;   /* where the memory is a file, with what else was saved; -1: it has no name */
    int scratch;  /* its disk, or -1 */
    struct frames *frames; /* what a guest of a user's worker sends; NULL: nothing can be */
};

/* Everything up to the running process: memory, disks, network, jail. Without an image the machine
 * boots. What is made is the instance's, also after a failure. */
bool machine_launch(struct instance *instance, const struct sandbox_spec *spec,
                    const struct saved_image *image, struct error *err) MUST_USE;

static inline struct machine *machine_of(const struct instance *instance)
{
    return instance->machine;
}

/* A machine that boots keeps a processor busy for seconds. So many at a time as there are
 * processors; the others wait their turn, at most to the deadline. */
bool boot_turn_take(struct engine_host *host, int64_t deadline_ms, struct error *err) MUST_USE;
void boot_turn_give(struct engine_host *host);

/* Until the agent has said something. */
bool machine_await_hello(struct instance *instance, int64_t deadline_ms,
                         struct error *err) MUST_USE;

/* The changed pages of a copy go to an empty file, to where they are in memory. */
bool machine_changes_gather(const struct instance *instance, int file, struct error *err) MUST_USE;

bool qemu_save(struct instance *instance, struct saved_image *image, int timeout_ms,
               struct error *err) MUST_USE;
