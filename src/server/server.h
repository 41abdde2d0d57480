/* The control plane as a process: `helmr server`.
 *
 * server_main owns its whole life. The smaller steps are for tests, which run it on a thread
 * of their own.
 */
#pragma once

#include "base/command.h"
#include "server/config.h"
#include "server/keys.h"

struct server;

/* Runs until SIGTERM or SIGINT, then lets answers finish and returns true. */
bool server_main(const struct server_config *config, struct error *err) MUST_USE;

/* Opens everything and listens; the port is known after it. */
bool server_create(const struct server_config *config, struct server **server,
                   struct error *err) MUST_USE;
bool server_run(struct server *server, struct error *err) MUST_USE; /* until server_stop */
void server_stop(struct server *server);                            /* any thread */
void server_destroy(struct server *server);                         /* accepts NULL */
int server_port(const struct server *server);

extern const struct command server_commands[];
extern const size_t n_server_commands;
