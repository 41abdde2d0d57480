/* The commands that speak the API: rows for the binary's table, and the functions behind them. */
#pragma once

#include "base/command.h"

extern const struct command cli_commands[];
extern const size_t n_cli_commands;
extern const struct command token_commands[]; /* and resume */
extern const size_t n_token_commands;
extern const struct command schedule_commands[];
extern const size_t n_schedule_commands;
extern const struct command account_commands[]; /* people, projects, keys, secrets */
extern const size_t n_account_commands;
extern const struct command session_commands[]; /* and their streams */
extern const size_t n_session_commands;
extern const struct command workspace_commands[];
extern const size_t n_workspace_commands;
extern const struct command workspace_terminal_commands[]; /* and ports */
extern const size_t n_workspace_terminal_commands;
extern const struct command workspace_exec_commands[];
extern const size_t n_workspace_exec_commands;
extern const struct command workspace_files_commands[];
extern const size_t n_workspace_files_commands;
extern const struct command fleet_commands[]; /* of workers */
extern const size_t n_fleet_commands;

/* Server, project, environment and --json: of every command about an environment. */
extern const struct option cli_scope_options[];

command_run init_command, deploy_command;
command_run login_command, logout_command, whoami_command;
command_run run_start_command, run_list_command, run_ps_command, run_get_command, run_logs_command,
    run_events_command, run_wait_command, run_cancel_command, fork_command;
command_run diff_command;
command_run deployment_list_command, deployment_get_command, deployment_promote_command,
    deployment_cancel_command;
command_run task_list_command, task_get_command, sandbox_list_command, sandbox_get_command;
command_run session_start_command, session_list_command, session_get_command, session_close_command,
    session_cancel_command;
command_run stream_list_command, stream_send_command, stream_inputs_command, stream_outputs_command;
command_run workspace_create_command, workspace_list_command, workspace_get_command,
    workspace_update_command, workspace_archive_command, workspace_delete_command,
    workspace_open_command, workspace_materialize_command, workspace_stop_command,
    workspace_versions_command, workspace_restore_command;
command_run workspace_exec_command, workspace_exec_list_command, workspace_exec_get_command,
    workspace_exec_logs_command, workspace_exec_wait_command, workspace_exec_kill_command;
command_run workspace_shell_command, workspace_pty_create_command, workspace_pty_list_command,
    workspace_pty_connect_command, workspace_pty_close_command, workspace_forward_command,
    workspace_preview_command;
command_run workspace_files_list_command, workspace_files_stat_command,
    workspace_files_read_command, workspace_files_get_command, workspace_files_put_command,
    workspace_files_rm_command, workspace_files_mkdir_command, workspace_files_mv_command;
command_run project_list_command, project_get_command, project_create_command,
    project_update_command, project_delete_command;
command_run env_list_command, env_get_command, env_create_command, env_update_command,
    env_delete_command;
command_run key_list_command, key_create_command, key_revoke_command;
command_run secret_set_command, secret_list_command, secret_get_command, secret_delete_command;
command_run audit_list_command, audit_export_command;
