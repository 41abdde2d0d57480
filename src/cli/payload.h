/* The bodies of `helmr run TASK` and `helmr session start TASK`: payload and options out of flags,
 * checked before anything is sent.
 */
#pragma once

#include "base/buf.h"
#include "base/command.h"

/* The flags that both have, as rows of their options. */
#define START_OPTIONS                                                                            \
    {"payload", 'p', OPTION_LIST, "K=V", "A text field of the payload."},                        \
        {"payload-json", 0, OPTION_VALUE, "JSON", "The whole payload."},                         \
        {"payload-file", 0, OPTION_VALUE, "FILE", "The whole payload from a file; -: stdin."},   \
        {"secret", 0, OPTION_LIST, "N=vault:S", "A secret of the task, stored as S."},           \
        {"queue", 0, OPTION_VALUE, "NAME", "Another queue of the deployment."},                  \
        {"concurrency-key", 0, OPTION_VALUE, "KEY", "Runs of one key share the queue's limit."}, \
        {"priority", 0, OPTION_VALUE, "N", "Larger starts earlier."},                            \
        {"ttl", 0, OPTION_VALUE, "DURATION", "Expire if not started by then."},                  \
        {"max-duration-seconds", 0, OPTION_VALUE, "N", "Stop it after so much active time."},    \
        {"metadata-json", 0, OPTION_VALUE, "JSON", "Metadata, an object."},                      \
        {"metadata-file", 0, OPTION_VALUE, "FILE", "The same from a file; -: stdin."},           \
        {"tag", 0, OPTION_LIST, "TAG", "A tag."},                                                \
        {"retry-json", 0, OPTION_VALUE, "JSON", "Another retry policy."},                        \
        {"retry-file", 0, OPTION_VALUE, "FILE", "The same from a file; -: stdin."},              \
        {"wait", 0, OPTION_FLAG, NULL, "Wait for the end and print the status."},                \
        {"follow", 0, OPTION_FLAG, NULL, "Wait, and show the output as it comes."},              \
        {"timeout", 0, OPTION_VALUE, "DURATION", "Stop waiting then; the run goes on."}

enum { PAYLOAD_MAX = 16 * 1024 * 1024, RUN_BODY_MAX = 18 * 1024 * 1024 };

/* --payload-json, --payload-file or the --payload pairs as JSON text; {} when there is none. */
bool payload_read(const struct invocation *invocation, struct buf *out, struct error *err) MUST_USE;

/* The whole request of POST /api/runs. */
bool payload_run_body(const struct invocation *invocation, const char *task, struct buf *out,
                      struct error *err) MUST_USE;

/* The same of POST /api/sessions, whose options are members of the request itself. */
bool payload_session_body(const struct invocation *invocation, const char *task, struct buf *out,
                          struct error *err) MUST_USE;
