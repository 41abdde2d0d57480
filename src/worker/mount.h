/* The inside of a mount on its worker: a workspace in a sandbox without a run. Shared by mount.c
 * (from lease to its end) and mount_processes.c (the programs in it).
 */
#pragma once

#include "image/image.h"
#include "worker/guest.h"
#include "worker/link.h"
#include "worker/mail.h"
#include "worker/mount_output.h"
#include "worker/snapshot.h"

enum {
    MOUNT_PHASES_MAX = 8,
    MOUNT_LIVE_MAX = 64,      /* programs at a time; the others wait */
    MOUNT_WAITING_MAX = 4096, /* of those */
    MOUNT_WISHES_MAX = 64,
    MOUNT_GRACE_MS = 10 * 1000,
};

struct process;

/* A file request that the agent has not answered yet. */
struct file_wish {
    uint64_t number; /* of the message */
    char request_id[ID_TEXT];
};

struct mount {
    struct lease *lease;
    struct worker *worker;
    const struct wire_mount_grant *grant;
    struct line line;
    struct arena arena;
    struct guest *guest;
    struct guest_server server;
    struct mount_output *output;
    struct failure failure;
    struct image image;
    struct sandbox_spec spec;
    struct wire_phase phases[MOUNT_PHASES_MAX];
    size_t n_phases;
    int64_t phase_ms, begun_ms;
    const char *start; /* boot, standby, template */
    bool is_started;   /* the server has recorded the start */

    struct process *processes; /* in the order they came */
    size_t n_processes, n_live;
    uint32_t n_launched;
    char (*former)[ID_TEXT]; /* ids of programs that are over, the last of them */
    size_t n_former;

    struct file_wish wishes[MOUNT_WISHES_MAX];
    size_t n_wishes;

    struct snapshot_wishes snapshots;

    bool is_empty;      /* the agent has proved that no program is left */
    int64_t touched_ms; /* boot time when somebody last wanted something */
    bool is_ending;     /* nothing new begins */
    bool wants_version; /* what changed is kept */
    const char *reason; /* of the end */
};

struct wire_fence mount_fence(const struct mount *mount);

/* What the server wants of a program. */
void mount_process_start(struct mount *mount, const struct wire_message *message);
void mount_process_input(struct mount *mount, const struct wire_message *message);
void mount_process_input_close(struct mount *mount, const struct wire_message *message);
void mount_process_resize(struct mount *mount, const struct wire_message *message);
void mount_process_signal(struct mount *mount, const struct wire_message *message);
void mount_process_close(struct mount *mount, const struct wire_message *message);

/* What the server wants to know of a file; whether the message was the agent's answer to such. */
void mount_file_request(struct mount *mount, const struct wire_message *message);
bool mount_files_hear(struct mount *mount, const struct message *message);

/* Programs that have waited for a place get it. */
void mount_start_waiting(struct mount *mount);

/* Every program that has not begun will not. */
void mount_refuse_waiting(struct mount *mount, const char *why);

/* The sandbox is gone, and everything in it. */
void mount_processes_lost(struct mount *mount, const char *why);
void mount_processes_free(struct mount *mount);

/* What the agent says (struct guest_server). */
bool mount_hears(void *arg, const struct message *message, bool *is_taken, struct error *err);
bool mount_gets_data(void *arg, uint16_t stream, struct str bytes, bool is_end, bool *is_taken,
                     struct error *err);
bool mount_pumps(void *arg, struct error *err);
bool mount_has_room(void *arg, struct error *err);
