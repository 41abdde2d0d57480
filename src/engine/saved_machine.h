/* The stream of a saved machine: a head, then for each of its files the runs of blocks that are not
 * zero, each with its place before it, up to an empty run at the size of the file. Numbers have
 * their most significant byte first.
 */
#pragma once

#include <stdint.h>

#define MACHINE_MAGIC "HelmrVM"

enum { MACHINE_VERSION = 1 };

/* In the order of the stream. */
enum machine_file {
    MACHINE_FILE_MEMORY,
    MACHINE_FILE_DEVICES,
    MACHINE_FILE_SCRATCH,
    MACHINE_FILES
};

struct machine_head {
    char magic[sizeof MACHINE_MAGIC];
    uint32_t version, block;
    uint64_t sizes[MACHINE_FILES];
};

struct machine_run {
    uint64_t offset, len;
};

_Static_assert(sizeof(struct machine_head) == 40 && sizeof(struct machine_run) == 16,
               "without gaps");
