/* Engines: how a sandbox is started, stopped and proved gone, behind one table.
 *
 * Every operation is idempotent by instance id and takes a deadline. An engine is a
 * child process held by pidfd; what it needs of the host's kernel is written to the
 * instance's journal before it is made and verified absent after it is released.
 */
#pragma once

#include <stdint.h>

#include "base/error.h"
#include "engine/host.h"

enum engine_grade {
    ENGINE_GRADE_NONE,
    ENGINE_GRADE_SHARED_KERNEL,
    ENGINE_GRADE_USER_KERNEL,
    ENGINE_GRADE_MICROVM
};

enum sandbox_layout {
    LAYOUT_AGENT,  /* read-only binds; the agent stacks the writable layers in guest memory */
    LAYOUT_DIRECT, /* the root is a host overlay whose upper directory outlives the sandbox */
};

enum network_level { NETWORK_OFF, NETWORK_OPEN };

/* Over one of these nothing goes on: connections are reset, what is no TCP is dropped. */
struct network_quota {
    int64_t receive_bytes, send_bytes;
    int connections; /* at a time */
};

struct sandbox_bind {
    const char *source, *target; /* target inside the image root (direct) or the agent's root */
    bool writable;
};

/* The disks of a machine, as files: ext4 that is never written, and what its own begins as. */
struct sandbox_drives {
    const char *root, *bundle; /* bundle NULL: none */
    const char *scratch;       /* an empty file system of scratch_bytes, which every machine copies;
                                * NULL: a blank disk */
    int64_t scratch_bytes;
};

/* What to start. All paths are absolute and on the host. */
struct sandbox_spec {
    char id[ID_TEXT];     /* the instance */
    const char *kind;     /* owner marker: run, template, build, probe */
    const char *lease_id; /* or NULL */
    int64_t epoch;
    enum sandbox_layout layout;
    const char *platform;      /* root of the agent: helmr-guest, /opt/helmr/{adapter,sdk} */
    const char *const *layers; /* unpacked image layers, lowest first */
    size_t n_layers;
    const char *bundle;           /* task/ and deps/, or NULL */
    struct sandbox_drives drives; /* for engines with has_drives, instead of layers and bundle */
    const char *upper;            /* direct layout: the writable directory (made by the caller) */
    const struct sandbox_bind *binds;
    size_t n_binds;
    int vcpus;
    int64_t memory_mib, disk_mib;
    enum network_level network;
    const char *const *deny; /* CIDRs denied besides the host's list */
    size_t n_deny;
    const char *const *ports; /* of programs inside that may be reached through the agent */
    size_t n_ports;
    struct network_quota quota; /* all 0: none */
    int64_t deadline_ms;        /* boot time by which the engine process must be up */
    bool is_asleep;             /* restored: stands before its next instruction (engine.wake) */
};

struct instance;
struct saved_form;

/* What an engine saved: in memory and nowhere else, but for what lay on a disk before. */
struct saved_image {
    int folder; /* from memory_folder_make */
    /* A machine's memory as a memfd: what an engine saved can stay where it is, and once sealed
     * (engine.share) every copy maps it privately. -1: it is a file in the folder, and becomes the
     * memory of the one instance that goes on from it. */
    int memory;
    /* A machine's disk as a file without a name on the host's, which can be larger than memory.
     * -1: it is in the folder. */
    int scratch;
    const struct saved_form *form; /* how it becomes one stream of bytes and back */
};

#define SAVED_IMAGE_NONE {.folder = -1, .memory = -1, .scratch = -1}

struct engine_result {
    const char *name; /* "gvisor" */
    enum engine_grade grade;
    bool usable;
    bool saves;       /* a guest was saved and went on from what was saved */
    bool accelerated; /* a microVM ran with KVM */
    char reason[256]; /* why not usable, or why it does not save, in words */
    char cure[256];   /* the command that fixes it, or empty */
    char build[65];   /* hex digest over the engine's binaries */
};

struct engine {
    const char *name;
    enum engine_grade grade;
    bool by_name_only; /* auto never takes it */
    /* Really starts a guest to the agent's hello and kills it. */
    void (*probe)(struct engine_host *host, const char *platform, const char *const *layers,
                  size_t n_layers, struct engine_result *result);
    bool (*start)(struct engine_host *host, const struct sandbox_spec *spec,
                  struct instance **instance, struct error *err);

    /* All of these or none. The sandbox's memory goes to files in the image's folder; an engine
     * that has it in a folder already may give that in its place. The sandbox is over after it,
     * saved or not. */
    bool (*save)(struct instance *instance, struct saved_image *image, int timeout_ms,
                 struct error *err);
    /* As start, with what was saved: the agent goes on where it stood, on a new channel. */
    bool (*restore)(struct engine_host *host, const struct sandbox_spec *spec,
                    const struct saved_image *image, struct instance **instance, struct error *err);
    /* One that was restored asleep goes on; NULL: none can be. */
    bool (*wake)(struct instance *instance, int timeout_ms, struct error *err);
    /* Makes of a saved image what any number of copies are restored from, quickly and at a time. */
    bool (*share)(struct engine_host *host, struct saved_image *image, struct error *err);
    const struct saved_form *form; /* of its images; NULL: it does not save */
    bool cannot_save_tcp;          /* a socket that an epoll watches ends its save */
    bool has_drives;               /* starts from spec.drives */
};

/* An empty image for what this engine saves, with room for so much. */
bool saved_image_make(const struct engine *engine, int64_t max_bytes, struct saved_image *image,
                      struct error *err) MUST_USE;
/* The most that what is saved of such a sandbox takes. */
int64_t saved_image_room(const struct sandbox_spec *spec);
/* For a machine: what it has on its disk need not come into memory, where the host's file system
 * has files without a name. */
bool saved_image_add_scratch(struct engine_host *host, struct saved_image *image,
                             struct error *err) MUST_USE;
void saved_image_finish(struct saved_image *image); /* accepts SAVED_IMAGE_NONE, and leaves it */
/* The memory it takes. */
bool saved_image_size(const struct saved_image *image, int64_t *bytes, struct error *err) MUST_USE;

/* A folder in memory that has no place in any tree: what is in it is on no disk, is seen by who
 * holds the descriptor only, and goes with the last of them. */
bool memory_folder_make(int64_t max_bytes, int *folder, struct error *err) MUST_USE;

extern const struct engine engine_firecracker, engine_qemu, engine_gvisor, engine_container;
extern const struct engine *const engines[];
extern const size_t n_engines;

const struct engine *engine_find(const char *name); /* or NULL */

/* How long its sandboxes may take until their agent is heard. */
int engine_start_ms(const struct engine *engine);
const char *engine_grade_name(enum engine_grade grade);

/* A running (or ended) sandbox. The channel is a connected socket to the agent, the caller's to
 * read and write, closed with the instance. */
int instance_channel(const struct instance *instance);
const char *instance_id(const struct instance *instance);
const struct engine *instance_engine(const struct instance *instance);

/* The engine's process: readable when it has ended. */
int instance_pidfd(const struct instance *instance);

/* The last of what the engine printed, for failure reports (at most 64 KiB). */
struct str instance_log_tail(struct instance *instance);

struct instance_usage {
    int64_t cpu_ms, memory_peak_bytes;
    bool oom_killed, fork_refused;
};
bool instance_usage(const struct instance *instance, struct instance_usage *usage,
                    struct error *err) MUST_USE;

bool instance_freeze(struct instance *instance, struct error *err) MUST_USE;

/* Kills, releases every resource and proves each absent; true: nothing is left and the slot is
 * free. False: quarantined, with the reason. The instance is freed either way. */
bool instance_destroy(struct instance *instance, struct error *err) MUST_USE;
