/* Commands on the server's host, beside a server that runs or instead of one: they use the
 * database and the keys themselves. */
#pragma once

#include "base/command.h"

command_run audit_verify_command, key_generate_command, key_master_status_command,
    key_master_rotate_command, secret_reencrypt_command, store_verify_command;
