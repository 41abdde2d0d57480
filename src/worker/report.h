/* The end of a lease, told to the server exactly once: a result, a rejection or a release.
 *
 * The fingerprint covers everything but the fence and the version, so that a lost answer can be
 * asked for again and a different result is refused; how its files are stored is no other result.
 */
#pragma once

#include "worker/capture.h"
#include "worker/guest.h"
#include "worker/link.h"

struct report {
    struct lease *lease;
    struct line *line;
    char operation[ID_TEXT]; /* of this result, however often it is told */
    int64_t active_ms, stdout_end, stderr_end, max_duration_ms;
    bool was_cancelled, was_timed_out;
    struct capture capture;
    struct error *unsaved; /* why there is no version; NULL: there is, or there need be none */
};

/* Whether the program did what it was asked for. */
bool report_succeeds(const struct report *report, const struct guest_result *result);

/* After the program is proved gone. ERR_OBJECT_GONE: the version has to be stored anew, and then it
 * may be told again. */
bool report_complete(const struct report *report, const struct guest_result *result,
                     struct error *err) MUST_USE;

/* The program was never let go, for a reason that will not pass. */
bool report_failed(const struct report *report, const struct failure *failure,
                   struct error *err) MUST_USE;

/* The attempt did not reach a result: rejected before the start was recorded, released after it.
 * A stale lease is told nothing. */
void report_failure(struct lease *lease, struct line *line, const struct failure *failure,
                    bool is_started, const struct error *why);

/* BLAKE2b-256 in hex over the message as JSON with an empty fence and fingerprint. */
void report_fingerprint(const struct json_field *fields, const void *message, char hex[65]);
