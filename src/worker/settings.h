/* What the operator set: flags, then variables, then <data dir>/helmr.env, then defaults. */
#pragma once

#include "base/command.h"
#include "base/env.h"
#include "base/secret.h"
#include "engine/host.h"

enum { SETTING_TEXT = 4096, SETTING_PROFILE = 64 };

/* Networks of a worker that is not root: open, and closed. */
#define PROFILE_USER     "user-v1"
#define PROFILE_USER_OFF "user-v1-off"

struct worker_settings {
    char data_dir[SETTING_TEXT], work_dir[SETTING_TEXT], images_dir[SETTING_TEXT];
    char control_url[SETTING_TEXT], credential_path[SETTING_TEXT];
    char resource_id[256], group[128];
    char engine[32];       /* "auto" or a name */
    char build_engine[32]; /* the same, for builds */
    char roles[64];        /* "run,build" */
    char labels[1024];
    char cgroup_parent[128], cni_profile[SETTING_PROFILE];
    char runsc_path[SETTING_TEXT], runc_path[SETTING_TEXT]; /* empty: on PATH */
    char qemu_path[SETTING_TEXT], firecracker_path[SETTING_TEXT], jailer_path[SETTING_TEXT];
    char guest_dir[SETTING_TEXT]; /* kernel and initramfs; empty: beside this program */
    enum qemu_accel qemu_accel;   /* where the engine is auto: with KVM or not at all */
    int64_t jail_id_base;         /* 0: the engine's default */
    char dns[1024], blocked_cidrs[SETTING_TEXT], allowed_cidrs[SETTING_TEXT];
    bool network_enabled;
    bool is_user_network_open;                             /* the operator named it */
    struct secret bootstrap_token;                         /* unset when a credential exists */
    struct secret checkpoint_key;                          /* 32 bytes: seals checkpoints */
    int64_t vcpus, memory_mib, disk_mib, disk_reserve_mib; /* capacity; 0: the host's */
    int64_t execution_slots, build_executors, standbys;
    char registry_auth_file[SETTING_TEXT], registry_ca_file[SETTING_TEXT]; /* empty: none */
    char registry_mirrors[SETTING_TEXT], image_push_repository[1024];      /* empty: none */
    int64_t artifact_cache_max_mib; /* images, layers, caches, bundles, drives; 0: 20 % */
    int64_t template_cache_max_mib; /* of memory; 0: a quarter of the capacity */
};

/* For `helmr worker` and the worker half of `helmr up`; the invocation may be NULL. */
bool worker_settings_read(const struct invocation *invocation, struct worker_settings *settings,
                          struct error *err) MUST_USE;
/* The same without what only matters to a server: for commands on this host. */
bool worker_settings_read_host(const struct invocation *invocation,
                               struct worker_settings *settings, struct error *err) MUST_USE;

/* Which network sandboxes have, from what was asked for (empty: nothing). Who is not root opens it
 * by name only. */
bool settings_profile(const char *given, bool is_root, char profile[SETTING_PROFILE],
                      bool *is_user_open, struct error *err) MUST_USE;

/* --data-dir, else HELMR_DATA_DIR, else /var/lib/helmr; made absolute. */
bool settings_data_dir(const struct invocation *invocation, char *path, size_t size,
                       struct error *err) MUST_USE;
void worker_settings_finish(struct worker_settings *settings);

/* Whether the worker takes this kind of work: run or build. */
bool settings_has_role(const struct worker_settings *settings, const char *role);
