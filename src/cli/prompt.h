/* A value typed at the terminal that nobody sees. The terminal is as it was afterwards, also when
 * a signal ends or stops the command meanwhile.
 */
#pragma once

#include "base/buf.h"

enum { PROMPT_MAX = 4095 }; /* bytes a terminal takes in one line */

/* Asks on stderr and reads one line of stdin, without its newline. */
bool prompt_hidden(const char *question, struct buf *answer, struct error *err) MUST_USE;
