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
