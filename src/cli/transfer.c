#include "cli/transfer.h"

#include <stdio.h>

#include "base/time.h"
#include "cli/screen.h"

enum { QUIET_MS = 1000, AGAIN_MS = 200 };

static const double mib = 1024.0 * 1024.0;

void transfer_begin(struct transfer_line *line, const char *verb, uint64_t total)
{
    *line = (struct transfer_line){.verb = verb, .total = total, .began_ms = time_boot_ms()};
}

void transfer_moved(struct transfer_line *line, uint64_t done)
{
    int64_t now = time_boot_ms();

    line->done = done;
    if (now - line->began_ms < QUIET_MS || now - line->shown_ms < AGAIN_MS || !screen_is_usable())
        return;
    line->shown_ms = now;
    line->is_shown = true;
    double seconds = (double)(now - line->began_ms) / 1000.0, moved = (double)done / mib;
    fprintf(stderr, "\r\033[K%s %.1f", line->verb, moved);
    if (line->total > 0)
        fprintf(stderr, " of %.1f", (double)line->total / mib);
    fprintf(stderr, " MiB, %.1f MiB/s", moved / seconds);
    fflush(stderr);
}

void transfer_end(struct transfer_line *line)
{
    if (line->is_shown)
        fprintf(stderr, "\r\033[K");
}
