/* What an attached terminal is made of; shared by attach.c (keys, screen, signals) and
 * attach_line.c (the connection).
 */
#pragma once

#include "cli/attach.h"
#include "cli/escape.h"
#include "cli/replay.h"
#include "cli/screen_modes.h"
#include "cli/terminal.h"
#include "http/websocket_client.h"

enum { ATTACH_KEPT_MAX = 64 * 1024 };

struct attached {
    struct attach *attach;
    struct terminal terminal;
    struct escape escape;
    struct screen_modes modes;
    struct replay replay;
    struct websocket_client *line; /* NULL: there is no connection */
    int64_t output_cursor;         /* bytes of the PTY that are on the screen */
    int64_t typed;                 /* bytes for the PTY, from the first key on */
    struct buf kept;               /* the last of them */
    int64_t lost_ms, try_ms;       /* boot time: when the connection broke, when to try again */
    int64_t pause_ms;
    bool was_told; /* that the connection is lost */
    bool is_over, is_detached, has_failed;
    int exit_code;
    struct error err; /* when has_failed */
};

/* One try to connect. False: it will never work, err says why; else there may be a line. */
bool attach_line_open(struct attached *attached, struct error *err) MUST_USE;

/* A turn of the connection; it may be gone afterwards. */
void attach_line_turn(struct attached *attached);
void attach_line_drop(struct attached *attached);

/* Keys; without a connection they are kept for the next. */
void attach_line_type(struct attached *attached, struct str keys);
void attach_line_resize(struct attached *attached);

/* Says goodbye and waits a little for what is on its way. */
void attach_line_finish(struct attached *attached);
