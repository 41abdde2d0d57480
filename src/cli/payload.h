/* The body of `helmr run TASK`: payload and options out of flags, checked before anything is sent.
 */
#pragma once

#include "base/buf.h"
#include "base/command.h"

enum { PAYLOAD_MAX = 16 * 1024 * 1024, RUN_BODY_MAX = 18 * 1024 * 1024 };

/* --payload-json, --payload-file or the --payload pairs as JSON text; {} when there is none. */
bool payload_read(const struct invocation *invocation, struct buf *out, struct error *err) MUST_USE;

/* The whole request of POST /api/runs. */
bool payload_run_body(const struct invocation *invocation, const char *task, struct buf *out,
                      struct error *err) MUST_USE;
