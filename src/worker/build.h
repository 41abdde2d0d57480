/* A deployment build on its way from an archive to images and a bundle; private to the
 * build*.c files of this folder.
 */
#pragma once

#include "worker/guest.h"
#include "worker/output.h"
#include "worker/worker.h"

struct build {
    struct lease *lease;
    struct worker *worker;
    const struct wire_build_grant *grant;
    struct line line;
    struct arena arena;
    struct output *output;
    struct failure failure;     /* retryable: the platform's fault */
    struct str failure_details; /* JSON object or empty */
    int room;                   /* eventfd */

    const char *folder;          /* everything of this build, removed at the end */
    const char *source, *bundle; /* folders in it: the project; task/ and deps/ */
    struct image base;           /* the platform's Node image */
    const char *const *base_layers;
    struct str manifest; /* JSON, after evaluate */
    struct wire_build_image *images;
    struct image *built;
    size_t n_images;

    const char *phase, *name; /* what output belongs to now */
    struct buf line_text;     /* output not yet ended by a newline */
};

/* Events: deployment.build.step and deployment.build.log. */
void build_step_event(struct build *build, const char *status, int64_t index, int64_t total,
                      const char *text, bool cached, int64_t ms);
bool build_take_output(void *arg, enum guest_stream stream, struct str bytes);
void build_flush_output(struct build *build);

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
bool build_run(struct build *build, const struct build_program *job, struct guest_result *result,
               struct error *err) MUST_USE;

/* The phases. False with build->failure filled. */
bool build_unpack(struct build *build, struct error *err) MUST_USE;
bool build_install(struct build *build, struct error *err) MUST_USE;
bool build_evaluate(struct build *build, struct error *err) MUST_USE;
bool build_images(struct build *build, struct error *err) MUST_USE;
bool build_load(struct build *build, struct error *err) MUST_USE;

/* Makes a sandbox of the new deployment ahead. */
void build_stand_by(struct build *build, const char *bundle_digest);

/* A fault of the project: named layer and kind, final. */
bool build_fault(struct build *build, const char *kind, const struct error *err);
