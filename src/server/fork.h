/* A branch of a run: the same program at the same wait, in a session and a workspace of its own.
 *
 * The source is not changed but for an event: it can still be answered, and forked again.
 */
#pragma once

#include "server/resume.h"

struct fork {
    struct server *server;
    struct tx *tx;
    struct arena *arena;
    struct wakes *wakes;

    /* what it is a branch of, all locked */
    struct run_row run;
    struct wait_row wait;
    struct checkpoint_row checkpoint;

    /* what was asked for; ptr NULL: as the source has it */
    struct str external_id, metadata, tags;
    struct str sdk_version, cli_version;

    /* what it becomes; no token: "" */
    char run_id[ID_TEXT], session_id[ID_TEXT], workspace_id[ID_TEXT], wait_id[ID_TEXT];
    char checkpoint_id[ID_TEXT], token_id[ID_TEXT];
    int64_t now;
};

/* Copies run, session, workspace, wait and checkpoint under new ids, parked at the wait. */
bool fork_copy(struct fork *fork, struct error *err) MUST_USE;

/* Of its session, with their records up to the checkpoint. */
bool fork_copy_streams(struct fork *fork, struct error *err) MUST_USE;
