/* The inside of a run on its worker, shared by run.c (from lease to result), run_waits.c (what the
 * program asks and waits for) and park.c and resume.c (leaving this worker and coming back).
 */
#pragma once

#include "blob/manifest.h"
#include "image/image.h"
#include "worker/guest.h"
#include "worker/link.h"
#include "worker/output.h"
#include "worker/redact.h"
#include "worker/run_secrets.h"

enum { RUN_CALL_MS = 15 * 1000, RUN_PHASES_MAX = 8 };

/* The one wait a program may be blocked in. */
struct run_wait {
    bool is_open;
    char id[ID_TEXT];
    uint64_t op;
    bool is_live;    /* the sandbox stays for it, whatever happens */
    bool is_frozen;  /* in memory, by an engine that cannot save */
    int64_t park_ms; /* boot time from which it should be parked; INT64_MAX: never */
};

struct run {
    struct lease *lease;
    struct worker *worker;
    const struct wire_run_grant *grant;
    struct line line;
    struct arena arena;
    struct guest *guest;
    struct output *output;
    struct run_secrets secrets; /* until the guest has them */
    struct redactor *redactor;  /* NULL: the task has no secrets */
    struct failure failure;
    struct image image;
    struct sandbox_spec spec;
    struct wire_phase phases[RUN_PHASES_MAX];
    size_t n_phases;
    int64_t phase_ms, begun_ms, started_ms;
    const char *start; /* boot, standby (made before it was asked for), template, checkpoint */
    const char *level; /* a: its Node waited, b: with the module; NULL: nothing was ready */
    bool is_started;   /* the server has recorded the start */

    struct run_wait wait;
    int64_t active_ms;       /* of the attempt, until active_since_ms */
    int64_t active_since_ms; /* boot time; 0: it waits */
    struct run_parent {
        struct arena arena;
        struct manifest manifest;
        char digest[SHA256_HEX]; /* empty: none */
    } parent;
    bool is_parked; /* nothing of it is here any more, and the server knows */
};

struct wire_fence run_fence(const struct run *run);

/* Whether its workspace had a version when it began. */
static inline bool run_has_base(const struct run *run)
{
    return run->grant->base_manifest.len > 0;
}

/* Notes how long the step took that began when the last one ended. */
void run_end_phase(struct run *run, const char *step);

/* The release gate: from here on "did it start?" has an answer. */
bool run_pass_gate(struct run *run, struct error *err) MUST_USE;

/* Fetches once more what the task declares and gives it to the program, which is held. */
bool run_give_secrets(struct run *run, struct error *err) MUST_USE;

/* Stays with the program until it is over, or parked (is_parked). */
bool run_attend(struct run *run, struct guest_result *result, struct error *err) MUST_USE;

/* Nobody looks into it any more. */
void run_refuse_snapshots(struct run *run, const char *why);

/* Active time: what counts against the run's maximum. */
void run_count(struct run *run, bool is_active);
int64_t run_active_ms(const struct run *run);

/* Tells the server that the program has its answer. */
bool run_tell_resumed(struct run *run, const char *mode, int64_t resume_version, int64_t resume_ms,
                      struct error *err) MUST_USE;

/* A guest from what was saved, or still is being put into the image, with its output. */
bool run_restore(struct run *run, const struct saved_image *image, struct error *err) MUST_USE;

/* Ends the guest before the run: the output outlives it. */
void run_end_guest(struct run *run);

/* Parks a run that waits. True and not is_parked: it stays, and is to be tried again later. */
bool run_park(struct run *run, struct error *err) MUST_USE;

/* Brings back a run that was parked, up to the moment its program has the answer. */
bool run_come_back(struct run *run, struct error *err) MUST_USE;
