/* The commands that work on this host: rows for the binary's table. */
#pragma once

#include "base/command.h"

extern const struct command worker_commands[];
extern const size_t n_worker_commands;

command_run worker_command, doctor_command, image_bootstrap_command, image_list_command,
    image_show_command, image_pull_command, image_push_command, image_export_command,
    image_rm_command, image_prune_command, image_verify_command, guard_command;
