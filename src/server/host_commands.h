/* Commands on the server's host, beside a server that runs or instead of one: they use the
 * database and the keys themselves. */
#pragma once

#include "base/arena.h"
#include "base/command.h"

/* The data directory as `helmr up` chooses it; NULL: the variables decide. */
const char *host_data_dir(const struct invocation *invocation, struct arena *arena);

command_run audit_verify_command, key_generate_command, key_master_status_command,
    key_master_rotate_command, secret_reencrypt_command, store_verify_command;
