/* The commands that work on this host: rows for the binary's table. */
#pragma once

#include "base/command.h"
#include "base/findings.h"

extern const struct command worker_commands[];
extern const size_t n_worker_commands;

/* The worker's half of `helmr doctor`: engines, network, disk, images. */
bool worker_doctor(const struct invocation *invocation, struct findings *findings,
                   struct error *err) MUST_USE;

command_run worker_command, image_bootstrap_command, image_list_command, image_show_command,
    image_pull_command, image_push_command, image_export_command, image_rm_command,
    image_prune_command, image_verify_command, guard_command;
