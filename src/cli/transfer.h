/* Bytes that go up or come down, for people who wait: after a second a line on stderr, when that
 * is a terminal, says how far it is.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct transfer_line {
    const char *verb;     /* "uploading" */
    uint64_t done, total; /* total 0: unknown */
    int64_t began_ms, shown_ms;
    bool is_shown;
};

void transfer_begin(struct transfer_line *line, const char *verb, uint64_t total);
void transfer_moved(struct transfer_line *line, uint64_t done);
/* Takes the line off the screen. */
void transfer_end(struct transfer_line *line);
