/* What the requests that make a command or a terminal share. */
#pragma once

#include "server/mount_store.h"

struct process_made {
    enum process_kind kind;
    const char *id;
    struct mount_row mount; /* that it will run in */
};

/* Absolute, without `..`; absent is fine. */
bool process_check_cwd(struct str cwd, struct error *err) MUST_USE;

/* Before its row is made: the workspace locked, with a mount that is there or asked for. */
bool process_begin(struct call *call, struct tx *tx, struct process_made *made, struct wakes *wakes,
                   struct error *err) MUST_USE;

/* After that: it goes to the worker that has the mount, or waits for one. */
bool process_launch(struct tx *tx, const struct process_made *made, struct wakes *wakes,
                    struct error *err) MUST_USE;
