/* The file system that programs see: image root, workspace, /dev, /etc files, /opt/helmr.
 *
 * Made once per sandbox from SETUP, in the agent's own mount namespace; program inits add what
 * depends on their PID namespace. With is_layer nothing of ours may stay in the root: every
 * mount point made here is noted and removed by sandbox_clear.
 */
#pragma once

#include "base/arena.h"
#include "guest/user.h"
#include "protocol/message.h"

#define SANDBOX_ROOT "/newroot"

/* The agent's own files, on the runtime's /run. */
#define SANDBOX_STATE "/run/helmr-guest"

enum { SANDBOX_PHASES_MAX = 16, SANDBOX_MOUNTS_MAX = 64 };

struct sandbox_trace; /* a mount point of ours in the root */

struct sandbox_mount {
    const char *path; /* inside the root */
    bool is_read_only;
};

struct sandbox {
    struct arena arena;
    bool is_started, is_ready, is_layer;
    uint64_t generation;
    const char *mount; /* workspace path, or NULL */
    int upper_fd;      /* what programs changed in it; -1: the host has it */
    int lower_fd;      /* what the image has there; -1 as well */
    int merged_fd;     /* the two together, as programs see it; -1 as well */
    int layer_fd;      /* what programs changed in the image, where that is to be a layer; or -1 */
    const char *workdir; /* the image's, or "/" */
    const char *boot_id_file;
    struct str_list env;
    struct str_list ports; /* that relays may reach, in decimal */
    struct user user;
    uint64_t shm_bytes;
    struct sandbox_trace *traces;
    /* Some gVisor versions give all programs one mount table. Then each program that runs beside
     * another one gets a root of its own, put together from these. */
    bool shares_mounts;
    struct sandbox_mount mounts[SANDBOX_MOUNTS_MAX];
    size_t n_mounts;
    struct str phases[SANDBOX_PHASES_MAX];
    size_t n_phases;
};

/* On failure *failure is the failure kind for the host, a literal. */
bool sandbox_setup(struct sandbox *sandbox, const struct message_setup *setup, const char **failure,
                   struct error *err) MUST_USE;

/* New identity and name servers for a sandbox that was restored; the generation is the caller's to
 * judge. */
bool sandbox_renew(struct sandbox *sandbox, const struct message_reestablish *message,
                   struct error *err) MUST_USE;

/* Unmounts and removes what is_layer must not leave; best effort, after every program ended. */
void sandbox_clear(struct sandbox *sandbox);
