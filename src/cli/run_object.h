/* What the run commands share: how a run is shown, and how its end is waited for. */
#pragma once

#include "cli/api.h"
#include "cli/follow.h"
#include "cli/output.h"

/* succeeded, failed, cancelled or expired. */
bool run_is_over(struct str status);

/* --timeout as a point on the boot clock; 0 when it is not given. */
bool run_deadline(const struct invocation *invocation, int64_t *deadline_ms,
                  struct error *err) MUST_USE;

/* Follows the events until the run has ended; *run is the run as it is then. */
bool run_wait_end(struct api *api, const char *id, int64_t deadline_ms, struct str *run,
                  struct error *err) MUST_USE;

/* Follows a stream of the run until on_event ends it, or until the run is over and a further look
 * brings nothing: the server may have cut the stream before that. */
bool run_follow(struct follow *follow, const char *id, struct str *run, struct error *err) MUST_USE;

/* Prints log bytes as they come until the run has ended and all were seen. `as_json`: the records
 * themselves, one per line. */
bool run_follow_logs(struct api *api, const char *id, int64_t deadline_ms, bool as_json,
                     struct str *run, struct error *err) MUST_USE;

/* "task process: boom (task_failed)"; empty when there is no error. */
struct str run_error_text(struct str run, struct arena *arena);

/* Whether a start stays with its run, and how long. */
struct stay {
    bool stays, follows, as_json;
    int64_t deadline_ms;
};

/* Out of --wait, --follow, --timeout and --json; flags that do not go together are refused. */
bool run_stays(const struct invocation *invocation, struct stay *stay, struct error *err) MUST_USE;
/* To the end of the run, which is then in *run. */
bool run_stay(struct api *api, const struct stay *stay, const char *id, struct str *run,
              struct error *err) MUST_USE;
/* The error, if any, on stderr, and `run_status: …`. */
void run_print_end(struct api *api, struct str run);
/* A run that nobody can take would be waited for without a word. */
void run_note_waiting(struct api *api, struct str run);
