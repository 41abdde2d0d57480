/* The marker on disk of one instance: its directory, owner file and journal.
 *
 * The owner file exists before anything else of the instance does, and goes last. All
 * releases, of a living instance and of a dead worker's, read the journal back and run
 * it backwards here; there is no second way.
 */
#pragma once

#include <limits.h>
#include <stdint.h>

#include "base/id.h"
#include "engine/journal.h"

struct engine_host;

enum { RECORD_KIND_MAX = 16 };

struct record_owner {
    char kind[RECORD_KIND_MAX]; /* run template build probe pool stray */
    char lease_id[ID_TEXT];     /* or empty */
    int64_t epoch;
    char boot_id[ID_TEXT];
};

struct record {
    char id[ID_TEXT];
    char path[PATH_MAX];
    int dir_fd;            /* -1: none */
    bool is_of_other_boot; /* no kernel resource of it can exist any more */
    struct journal journal;
};

/* Makes the directory with its owner file; nothing is durable before record_sync. */
bool record_create(struct engine_host *host, const char *id, const struct record_owner *owner,
                   struct record *record, struct error *err) MUST_USE;

/* Everything announced so far is on disk, the owner included, when this returns. */
bool record_sync(struct engine_host *host, struct record *record, struct error *err) MUST_USE;

void record_finish(struct record *record);

/* An instance left by a dead worker. A missing or damaged owner file reads as kind "unknown". */
bool record_open(struct engine_host *host, const char *id, struct record *record,
                 struct record_owner *owner, struct error *err) MUST_USE;

/* Kills, releases backwards, proves each absence, removes the directory. False: quarantined, with
 * the reason left in the directory. */
bool record_release(struct engine_host *host, struct record *record, struct error *err) MUST_USE;

const char *host_boot_id(void);
