/* A deployment build on its way from an archive to images and a bundle; private to the
 * build*.c files of this folder.
 */
#pragma once

#include "worker/build_memo.h"
#include "worker/guest.h"
#include "worker/output.h"
#include "worker/redact.h"
#include "worker/worker.h"

struct build;

/* A part of a build that goes its own way: the phases in their order, or one image among others.
 * What it says is kept apart from what the others say. */
struct build_part {
    struct build *build;
    struct arena *arena;
    struct failure *failure;    /* retryable: the platform's fault */
    const char *image;          /* whose steps and output these are, or NULL */
    struct redaction redaction; /* its redactor is set while a program has secrets */
    struct buf line_text;       /* output not yet ended by a newline */
    int64_t taken, left_out;    /* bytes of this program's output */
    struct buf tail;            /* the newest of what is over the limit */
};
/* It stays where it is until finish: its output comes through a pointer. */
void build_part_init(struct build_part *part, struct build *build, struct arena *arena,
                     struct failure *failure, const char *image);
void build_part_finish(struct build_part *part);

struct build {
    struct lease *lease;
    struct worker *worker;
    const struct wire_build_grant *grant;
    struct line line;
    struct arena arena;
    struct output *output;
    struct failure failure;
    struct str failure_details; /* JSON object or empty */
    int room;                   /* eventfd */
    int work;                   /* keeps what this build finds and makes in the image store */

    const char *folder;          /* everything of this build, removed at the end */
    const char *source, *bundle; /* folders in it: the project; task/ and deps/ */
    struct image base;           /* the platform's Node image */
    const char *const *base_layers;
    struct registries *registries;
    struct build_memo memo;
    bool is_recalled;    /* memo holds what evaluating gave before */
    bool is_cached;      /* the phase under way had nothing to do */
    struct str manifest; /* JSON, after evaluate */
    struct wire_build_image *images;
    const struct image *built;
    size_t n_images;
    struct json_list imports; /* struct wire_import, after load */

    const char *phase;
    struct build_part part; /* of the phases themselves */
};

/* Events: deployment.build.step and deployment.build.log. `index` from 1, 0: the phase itself;
 * ms -1: unknown. */
struct build_step {
    const char *status, *text;
    int64_t index, total, ms;
    bool cached;
};
void build_step_event(const struct build_part *part, const struct build_step *step);
/* A line of the worker's own, where the output of programs goes. */
void build_note(const struct build_part *part, const char *text);
bool build_take_output(void *arg, enum guest_stream stream, struct str bytes); /* arg: the part */
/* The end of a program's output: what was held back is told. */
void build_flush_output(struct build_part *part);

enum { BUILD_MEMORY_MIB = 4096 }; /* of a sandbox that does not ask for another */

/* One program in a sandbox of its own, from start to proof of its end. */
struct build_program {
    enum sandbox_layout layout;
    const char *const *layers;
    size_t n_layers;
    const char *upper; /* direct layout */
    const struct sandbox_bind *binds;
    size_t n_binds;
    const struct image_config *config;
    const char *bundle, *mount;
    bool is_layer, shows_platform, has_network;
    int64_t memory_mib, limit_ms; /* limit: a duration */
    struct guest_program program;
    const char *mode;    /* of A_START, or NULL when the program is no adapter */
    const char *options; /* JSON */
};
bool build_run(struct build_part *part, const struct build_program *job,
               struct guest_result *result, struct error *err) MUST_USE;

/* The phases. False with build->failure filled. */
bool build_unpack(struct build *build, struct error *err) MUST_USE;
bool build_install(struct build *build, struct error *err) MUST_USE;
bool build_evaluate(struct build *build, struct error *err) MUST_USE;
bool build_images(struct build *build, struct error *err) MUST_USE;
bool build_load(struct build *build, struct error *err) MUST_USE;

/* What loading it showed: whether the task's module may be imported ahead of its runs. */
bool build_may_preload(const struct build *build, struct str task_id);

/* build_publish.c: the images where any worker can get them, before the deployment is complete; and
 * their names in this host's store, after it. */
bool build_share_images(struct build *build, struct error *err) MUST_USE;
void build_push_images(struct build *build); /* where the operator wants them too */
void build_name_images(struct build *build);

/* Makes a sandbox of the new deployment ahead. */
void build_stand_by(struct build *build, const char *bundle_digest);

/* A fault of the project: named layer and kind, final. */
bool build_fault(struct build *build, const char *kind, const struct error *err);
