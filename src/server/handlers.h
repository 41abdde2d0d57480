/* Every handler of the public API, by resource. The rows that name them are in routes.c. */
#pragma once

#include "http/call.h"

route_handler health_get;
route_handler ready_get;
route_handler openapi_get;
route_handler live_get;

route_handler console_page;
route_handler console_asset;

route_handler page_dev_login;
route_handler page_dev_login_post;
route_handler page_style;
route_handler page_answer, page_answer_script;
route_handler page_login;
route_handler page_login_post;
route_handler page_setup;
route_handler page_setup_post;
route_handler page_invite;
route_handler page_invite_post;
route_handler page_reset;
route_handler page_reset_post;
route_handler page_device;
route_handler page_device_post;
/* Sends to where people sign in, and from there back to here. */
route_handler page_sign_in_first;

route_handler auth_dev_login;
route_handler auth_logout;
route_handler auth_setup;
route_handler auth_login;
route_handler auth_password;
route_handler auth_password_reset;
route_handler auth_invitation_accept;
route_handler auth_oidc_start;
route_handler auth_oidc_callback;
route_handler auth_device_start;
route_handler auth_device_token;
route_handler auth_device_status;
route_handler auth_device_approve;
route_handler auth_device_deny;

route_handler member_list_get;
route_handler member_patch;
route_handler member_delete_one;
route_handler member_password_reset;
route_handler invitation_list_get;
route_handler invitation_create;
route_handler invitation_delete;
route_handler me_get;

route_handler project_list_get;
route_handler project_get;
route_handler project_create;
route_handler project_update;
route_handler project_delete;
route_handler environment_list_get;
route_handler environment_get;
route_handler environment_create;
route_handler environment_update;
route_handler environment_delete;

route_handler api_key_list_get;
route_handler api_key_create;
route_handler api_key_delete;

route_handler deployment_create;
route_handler deployment_list_get;
route_handler deployment_current_get;
route_handler deployment_one_get;
route_handler deployment_events_get;
route_handler deployment_promote_post;
route_handler deployment_cancel_post;

route_handler task_list_get;
route_handler task_one_get;
route_handler sandbox_list_get;
route_handler sandbox_one_get;

route_handler run_create;
route_handler run_list;
route_handler run_counts_get;
route_handler run_one_get;
route_handler run_cancel, run_fork;
route_handler run_events;
route_handler run_diff_get;
route_handler workspace_diff_get;
route_handler workspace_list_get, workspace_create_post, workspace_one_get, workspace_patch,
    workspace_delete_one, version_list_get, version_one_get, version_restore_post;
route_handler files_list_get, files_stat_get, files_content_get, files_archive_get;
route_handler files_content_put, files_delete, files_move_post, files_directory_post,
    files_archive_put;
route_handler workspace_materialize_post, workspace_stop_post;
route_handler exec_create_post, exec_list_get, exec_one_get, exec_stdin_post, exec_stdin_close_post,
    exec_terminate_post, exec_stdout_get, exec_stderr_get;
route_handler pty_create_post, pty_list_get, pty_one_get, pty_input_post, pty_resize_post,
    pty_close_post, pty_output_get;
route_handler run_logs;
route_handler run_waits_get;

route_handler session_create;
route_handler session_start_and_wait;
route_handler session_list_get;
route_handler session_one_get;
route_handler session_patch;
route_handler session_close_post;
route_handler session_cancel_post;
route_handler session_runs_get;
route_handler schedule_list_get;
route_handler schedule_create_post;
route_handler schedule_one_get;
route_handler schedule_update_put;
route_handler schedule_delete_one;
route_handler schedule_activate_post;
route_handler schedule_deactivate_post;

route_handler token_create_post;
route_handler token_list_get;
route_handler token_one_get;
route_handler token_complete_post;
route_handler token_cancel_post;
route_handler token_callback_post;
route_handler public_token_create;
route_handler public_token_delete;
route_handler public_preflight;
route_handler session_streams_get;
route_handler stream_input_post;
route_handler stream_input_get;
route_handler stream_output_post;
route_handler stream_output_get;
route_handler stream_output_read_get;
route_handler public_input_post;
route_handler public_output_get;
route_handler public_output_read_get;
route_handler public_token_get;
route_handler public_token_complete;

route_handler worker_list_get;
route_handler worker_one_get;
route_handler worker_drain_post;
route_handler worker_undrain_post;
route_handler worker_disable_post;
route_handler worker_group_list_get;
route_handler worker_group_pause_post;
route_handler worker_group_activate_post;

route_handler workspace_port_get, workspace_port_preview_post, pty_attach_get;

route_handler secret_list_get;
route_handler secret_one_get;
route_handler secret_put;
route_handler secret_delete;

route_handler audit_list_get;
route_handler audit_verify_post;
route_handler audit_export_get;
