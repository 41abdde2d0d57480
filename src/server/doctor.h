/* The server's half of `helmr doctor`: settings, keys, database, store, API. */
#pragma once

#include "base/command.h"
#include "base/findings.h"

/* Where no server was ever set up that is a failure only when it `must` be there. */
void server_doctor(const struct invocation *invocation, bool must, struct findings *findings);
