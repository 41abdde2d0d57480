/* The terminal while a build is followed. A thread of its own draws the steps ten times a second
 * and takes the signals, so that the cursor comes back and the last word is said however the
 * command ends. Without a terminal it only takes the signals.
 *
 * Who changes the steps or prints holds the lock, and clears the screen before printing.
 */
#pragma once

#include <pthread.h>
#include <signal.h>

#include "cli/live.h"

enum { SCREEN_FAREWELL = 512 };

struct screen {
    const struct steps *steps;
    bool is_live; /* steps are drawn */
    bool is_utf8, has_colour;
    bool is_running, is_stopping; /* the thread */
    pthread_t thread;
    pthread_mutex_t lock;
    sigset_t taken, former;
    struct buf frame;               /* what is on the screen, above the cursor */
    size_t columns;                 /* it was drawn for */
    char farewell[SCREEN_FAREWELL]; /* said when the command is interrupted */
};

/* Whether stderr is a terminal on which lines can be drawn anew. */
bool screen_is_usable(void);

/* How wide stderr is; 0: no terminal, or it does not say. */
size_t screen_columns(void);

void screen_start(struct screen *screen, const struct steps *steps, bool is_live);
void screen_stop(struct screen *screen);

void screen_lock(struct screen *screen);
void screen_unlock(struct screen *screen);

/* Makes room for a line to be printed; the steps come back below it. */
void screen_clear(struct screen *screen);

/* Leaves all steps on the screen as they are now, and draws them no more. */
void screen_settle(struct screen *screen);
