/* What a program asks of the server while it runs. The table of kinds is in wait_ops.c; each kind
 * is done here or beside its resource, in the transaction of the call. */
#pragma once

#include "http/call.h"
#include "protocol/worker_api.h"
#include "server/context.h"
#include "server/lease.h"
#include "server/run_store.h"

/* One call with operations: its lease and run, locked. */
struct asked {
    struct call *call;
    struct server *server;
    struct tx *tx;
    struct lease_row lease;
    struct run_row run;
    struct wakes wakes;
};

/* Does it and fills in the result; *subject becomes what a replay is answered from. */
typedef bool operation(struct asked *asked, const struct wire_op *op, struct wire_op_result *result,
                       char subject[ID_TEXT], struct error *err);
/* The answer of the first time. */
typedef bool operation_again(struct asked *asked, const char *subject,
                             struct wire_op_result *result, struct error *err);

/* Of streams: stream_ops.c. */
operation do_stream_append, do_stream_read, do_stream_list, do_wait_cancel;
operation_again stream_append_again;

/* Of the run itself: metadata_ops.c. */
operation do_metadata_set, do_metadata_patch, do_metadata_increment, do_event_emit;
operation_again said_again;
