/* Looks into the workspace for the host, as programs see it right now: names in a directory, facts
 * of an entry, bytes of a file. Links are shown and not followed. */
#pragma once

#include "guest/agent.h"

void files_answer(struct agent *agent, const struct message_files *message);
