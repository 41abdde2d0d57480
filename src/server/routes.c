#include "server/routes.h"

#include "model/permission.h"
#include "server/caller.h"
#include "server/handlers.h"
#include "server/worker_plane.h"

/* SECRET_BODY: 64 KiB, each byte of which may be written as \\u00xx; TOKEN_BODY: 256 KiB so;
 * RECORD_BODY: the same with what is said about it. */
enum {
    METADATA_ROOM = 2 * 1024 * 1024,
    SMALL_BODY = 64 * 1024,
    SECRET_BODY = 6 * 64 * 1024 + 1024,
    TOKEN_BODY = 6 * 256 * 1024 + 1024,
    RECORD_BODY = TOKEN_BODY + 16 * 1024,
};

#define SOURCE_MAX (512 * (size_t)1024 * 1024 + METADATA_ROOM)

#define OBJECT_MAX  ((size_t)16 * 1024 * 1024 * 1024)
#define WORKER_BODY ((size_t)1024 * 1024)

/* Whatever is asked of a session by its id is asked of it by the caller's own name for it, too;
 * that row comes first, for the other one's :session would take the word for an id. */
#define SESSION_ROUTE(verb, rest, needed, handler, most)                           \
    {.method = verb,                                                               \
     .pattern = "/api/sessions/by-external-id" rest,                               \
     .needs = needed,                                                              \
     .handle = handler,                                                            \
     .body_max = most,                                                             \
     .scoped = true},                                                              \
    {                                                                              \
        .method = verb, .pattern = "/api/sessions/:session" rest, .needs = needed, \
        .handle = handler, .body_max = most, .scoped = true                        \
    }

/* The same for those with a public access token, whose browsers ask first whether they may. */
#define PUBLIC_ROW(start, verb, rest, handler, most)                                 \
    {METHOD_OPTIONS, "/api/v1/sessions/" start rest, PERM_PUBLIC, public_preflight}, \
    {                                                                                \
        verb, "/api/v1/sessions/" start rest, PERM_PUBLIC, handler, .body_max = most \
    }
#define PUBLIC_ROUTE(verb, rest, handler, most)              \
    PUBLIC_ROW("by-external-id", verb, rest, handler, most), \
        PUBLIC_ROW(":session", verb, rest, handler, most)

const struct route server_routes[] = {
    /* method      path                              needs                 handler */
    {METHOD_GET, "/healthz", PERM_PUBLIC, health_get, .instant = true},
    {METHOD_GET, "/readyz", PERM_PUBLIC, ready_get},
    {METHOD_GET, "/api/openapi.json", PERM_PUBLIC, openapi_get},

    {METHOD_GET, "/", PERM_PUBLIC, page_home},
    {METHOD_GET, "/style.css", PERM_PUBLIC, page_style},
    {METHOD_GET, "/dev/login", PERM_PUBLIC, page_dev_login},
    {METHOD_POST, "/dev/login", PERM_PUBLIC, page_dev_login_post, .body_max = SMALL_BODY},
    {METHOD_GET, "/login", PERM_PUBLIC, page_login},
    {METHOD_POST, "/login", PERM_PUBLIC, page_login_post, .body_max = SMALL_BODY},
    {METHOD_GET, "/setup", PERM_PUBLIC, page_setup},
    {METHOD_POST, "/setup", PERM_PUBLIC, page_setup_post, .body_max = SMALL_BODY},
    {METHOD_GET, "/invite", PERM_PUBLIC, page_invite},
    {METHOD_POST, "/invite", PERM_PUBLIC, page_invite_post, .body_max = SMALL_BODY},
    {METHOD_GET, "/reset", PERM_PUBLIC, page_reset},
    {METHOD_POST, "/reset", PERM_PUBLIC, page_reset_post, .body_max = SMALL_BODY},
    {METHOD_GET, "/auth/device", PERM_PUBLIC, page_device},
    {METHOD_POST, "/auth/device", PERM_PUBLIC, page_device_post, .body_max = SMALL_BODY},
    {METHOD_GET, "/runs/:run", PERM_PUBLIC, page_run},
    {METHOD_GET, "/answer.js", PERM_PUBLIC, page_answer_script},
    {METHOD_GET, "/answer/:token", PERM_PUBLIC, page_answer},

    {METHOD_POST, "/api/auth/dev/login", PERM_PUBLIC, auth_dev_login, .body_max = SMALL_BODY},
    {METHOD_POST, "/api/auth/setup", PERM_PUBLIC, auth_setup, .body_max = SMALL_BODY},
    {METHOD_POST, "/api/auth/login", PERM_PUBLIC, auth_login, .body_max = SMALL_BODY},
    {METHOD_POST, "/api/auth/password", PERM_SESSION, auth_password, .body_max = SMALL_BODY},
    {METHOD_POST, "/api/auth/password/reset", PERM_PUBLIC, auth_password_reset,
     .body_max = SMALL_BODY},
    {METHOD_POST, "/api/auth/invitations/accept", PERM_PUBLIC, auth_invitation_accept,
     .body_max = SMALL_BODY},
    {METHOD_GET, "/api/auth/oidc/start", PERM_PUBLIC, auth_oidc_start},
    {METHOD_GET, "/api/auth/oidc/callback", PERM_PUBLIC, auth_oidc_callback},
    {METHOD_POST, "/api/auth/device/start", PERM_PUBLIC, auth_device_start, .body_max = SMALL_BODY},
    {METHOD_POST, "/api/auth/device/token", PERM_PUBLIC, auth_device_token, .body_max = SMALL_BODY},
    {METHOD_GET, "/api/auth/device/status", PERM_SESSION, auth_device_status},
    {METHOD_POST, "/api/auth/device/approve", PERM_SESSION, auth_device_approve,
     .body_max = SMALL_BODY},
    {METHOD_POST, "/api/auth/device/deny", PERM_SESSION, auth_device_deny, .body_max = SMALL_BODY},
    {METHOD_POST, "/api/auth/logout", PERM_SESSION, auth_logout, .body_max = SMALL_BODY},
    {METHOD_GET, "/api/me", NEED_ANY_CALLER, me_get},

    {METHOD_GET, "/api/members", PERM_MEMBERS_MANAGE, member_list_get},
    {METHOD_PATCH, "/api/members/:user", PERM_MEMBERS_MANAGE, member_patch, .body_max = SMALL_BODY},
    {METHOD_DELETE, "/api/members/:user", PERM_MEMBERS_MANAGE, member_delete_one,
     .body_max = SMALL_BODY},
    {METHOD_POST, "/api/members/:user/password-reset", PERM_MEMBERS_MANAGE, member_password_reset,
     .body_max = SMALL_BODY},
    {METHOD_GET, "/api/invitations", PERM_MEMBERS_MANAGE, invitation_list_get},
    {METHOD_POST, "/api/invitations", PERM_MEMBERS_MANAGE, invitation_create,
     .body_max = SMALL_BODY},
    {METHOD_DELETE, "/api/invitations/:invitation", PERM_MEMBERS_MANAGE, invitation_delete,
     .body_max = SMALL_BODY},

    {METHOD_GET, "/api/projects", PERM_SESSION, project_list_get},
    {METHOD_GET, "/api/projects/:project", PERM_SESSION, project_get},
    {METHOD_GET, "/api/projects/:project/environments", PERM_SESSION, environment_list_get},
    {METHOD_GET, "/api/projects/:project/environments/:environment", PERM_SESSION, environment_get},

    {METHOD_POST, "/api/projects", PERM_PROJECTS_MANAGE, project_create, .body_max = SMALL_BODY},
    {METHOD_PATCH, "/api/projects/:project", PERM_PROJECTS_MANAGE, project_update,
     .body_max = SMALL_BODY},
    {METHOD_DELETE, "/api/projects/:project", PERM_PROJECTS_MANAGE, project_delete,
     .body_max = SMALL_BODY},
    {METHOD_POST, "/api/projects/:project/environments", PERM_PROJECTS_MANAGE, environment_create,
     .body_max = SMALL_BODY},
    {METHOD_PATCH, "/api/projects/:project/environments/:environment", PERM_PROJECTS_MANAGE,
     environment_update, .body_max = SMALL_BODY},
    {METHOD_DELETE, "/api/projects/:project/environments/:environment", PERM_PROJECTS_MANAGE,
     environment_delete, .body_max = SMALL_BODY},

    {METHOD_GET, "/api/api-keys", PERM_API_KEYS_MANAGE, api_key_list_get, .scoped = true},
    {METHOD_POST, "/api/api-keys", PERM_API_KEYS_MANAGE, api_key_create, .body_max = SMALL_BODY,
     .scoped = true},
    {METHOD_DELETE, "/api/api-keys/:key", PERM_API_KEYS_MANAGE, api_key_delete,
     .body_max = SMALL_BODY, .scoped = true},

    {METHOD_GET, "/api/runs", PERM_RUNS_READ, run_list, .scoped = true},
    {METHOD_POST, "/api/runs", PERM_RUNS_CREATE, run_create, .scoped = true},
    {METHOD_GET, "/api/runs/counts", PERM_RUNS_READ, run_counts_get, .scoped = true},
    {METHOD_GET, "/api/runs/:run", PERM_RUNS_READ, run_one_get, .scoped = true},
    {METHOD_POST, "/api/runs/:run/cancel", PERM_RUNS_MANAGE, run_cancel, .body_max = SMALL_BODY,
     .scoped = true},
    {METHOD_POST, "/api/runs/:run/fork", PERM_RUNS_CREATE, run_fork, .scoped = true},
    {METHOD_GET, "/api/runs/:run/logs", PERM_RUNS_READ, run_logs, .scoped = true},
    {METHOD_GET, "/api/runs/:run/events", PERM_RUNS_READ, run_events, .scoped = true},
    {METHOD_GET, "/api/runs/:run/waits", PERM_RUNS_READ, run_waits_get, .scoped = true},
    {METHOD_GET, "/api/runs/:run/diff", NEED_RUN_AND_VERSIONS, run_diff_get, .scoped = true},

    {METHOD_GET, "/api/sessions", PERM_RUNS_READ, session_list_get, .scoped = true},
    {METHOD_POST, "/api/sessions", PERM_RUNS_CREATE, session_create, .scoped = true},
    {METHOD_POST, "/api/sessions/start-and-wait", PERM_RUNS_CREATE, session_start_and_wait,
     .scoped = true},
    SESSION_ROUTE(METHOD_GET, "", PERM_RUNS_READ, session_one_get, 0),
    SESSION_ROUTE(METHOD_PATCH, "", PERM_RUNS_MANAGE, session_patch, TOKEN_BODY),
    SESSION_ROUTE(METHOD_POST, "/close", PERM_RUNS_MANAGE, session_close_post, SMALL_BODY),
    SESSION_ROUTE(METHOD_POST, "/cancel", PERM_RUNS_MANAGE, session_cancel_post, SMALL_BODY),
    SESSION_ROUTE(METHOD_GET, "/runs", PERM_RUNS_READ, session_runs_get, 0),
    SESSION_ROUTE(METHOD_GET, "/streams", PERM_SESSION_STREAMS_READ, session_streams_get, 0),
    SESSION_ROUTE(METHOD_GET, "/inputs/:stream", PERM_SESSION_STREAMS_READ, stream_input_get, 0),
    SESSION_ROUTE(METHOD_POST, "/inputs/:stream", PERM_SESSION_INPUT_SEND, stream_input_post,
                  RECORD_BODY),
    SESSION_ROUTE(METHOD_GET, "/outputs/:stream", PERM_SESSION_STREAMS_READ, stream_output_get, 0),
    SESSION_ROUTE(METHOD_POST, "/outputs/:stream", PERM_SESSION_OUTPUT_APPEND, stream_output_post,
                  RECORD_BODY),
    SESSION_ROUTE(METHOD_GET, "/outputs/:stream/read", PERM_SESSION_STREAMS_READ,
                  stream_output_read_get, 0),

    {METHOD_GET, "/api/workspaces/:workspace/diff", PERM_WORKSPACE_VERSIONS_READ,
     workspace_diff_get, .scoped = true},

    {METHOD_POST, "/api/deployments", PERM_TASKS_DEPLOY, deployment_create, .body_max = SOURCE_MAX,
     .upload = true, .scoped = true},
    {METHOD_GET, "/api/deployments", NEED_DEPLOY_OR_READ, deployment_list_get, .scoped = true},
    {METHOD_GET, "/api/deployments/current", PERM_RUNS_READ, deployment_current_get,
     .scoped = true},
    {METHOD_GET, "/api/deployments/:deployment", NEED_DEPLOY_OR_READ, deployment_one_get,
     .scoped = true},
    {METHOD_GET, "/api/deployments/:deployment/events", NEED_DEPLOY_OR_READ, deployment_events_get,
     .scoped = true},
    {METHOD_POST, "/api/deployments/:deployment/promote", PERM_TASKS_DEPLOY,
     deployment_promote_post, .body_max = SMALL_BODY, .scoped = true},
    {METHOD_POST, "/api/deployments/:deployment/cancel", PERM_TASKS_DEPLOY, deployment_cancel_post,
     .body_max = SMALL_BODY, .scoped = true},

    {METHOD_GET, "/api/tasks", NEED_DEPLOY_OR_READ, task_list_get, .scoped = true},
    {METHOD_GET, "/api/tasks/:task", NEED_DEPLOY_OR_READ, task_one_get, .scoped = true},
    {METHOD_GET, "/api/sandboxes", NEED_SANDBOX_READ, sandbox_list_get, .scoped = true},
    {METHOD_GET, "/api/sandboxes/:sandbox", NEED_SANDBOX_READ, sandbox_one_get, .scoped = true},

    {METHOD_GET, "/api/schedules", PERM_RUNS_READ, schedule_list_get, .scoped = true},
    {METHOD_POST, "/api/schedules", PERM_RUNS_CREATE, schedule_create_post, .body_max = SMALL_BODY,
     .scoped = true},
    {METHOD_GET, "/api/schedules/:schedule", PERM_RUNS_READ, schedule_one_get, .scoped = true},
    {METHOD_PUT, "/api/schedules/:schedule", PERM_RUNS_CREATE, schedule_update_put,
     .body_max = SMALL_BODY, .scoped = true},
    {METHOD_DELETE, "/api/schedules/:schedule", PERM_RUNS_CREATE, schedule_delete_one,
     .body_max = SMALL_BODY, .scoped = true},
    {METHOD_POST, "/api/schedules/:schedule/activate", PERM_RUNS_CREATE, schedule_activate_post,
     .body_max = SMALL_BODY, .scoped = true},
    {METHOD_POST, "/api/schedules/:schedule/deactivate", PERM_RUNS_CREATE, schedule_deactivate_post,
     .body_max = SMALL_BODY, .scoped = true},

    {METHOD_GET, "/api/secrets", PERM_SECRETS_WRITE, secret_list_get, .scoped = true},
    {METHOD_GET, "/api/secrets/:name", PERM_SECRETS_WRITE, secret_one_get, .scoped = true},
    {METHOD_PUT, "/api/secrets/:name", PERM_SECRETS_WRITE, secret_put, .body_max = SECRET_BODY,
     .scoped = true},
    {METHOD_DELETE, "/api/secrets/:name", PERM_SECRETS_WRITE, secret_delete, .body_max = SMALL_BODY,
     .scoped = true},

    {METHOD_POST, "/api/tokens", PERM_TOKENS_CREATE, token_create_post, .body_max = TOKEN_BODY,
     .scoped = true},
    {METHOD_GET, "/api/tokens", PERM_TOKENS_READ, token_list_get, .scoped = true},
    {METHOD_GET, "/api/tokens/:token", PERM_TOKENS_READ, token_one_get, .scoped = true},
    {METHOD_POST, "/api/tokens/:token/complete", PERM_TOKENS_COMPLETE, token_complete_post,
     .body_max = TOKEN_BODY, .scoped = true},
    {METHOD_POST, "/api/tokens/:token/cancel", PERM_TOKENS_CANCEL, token_cancel_post,
     .body_max = SMALL_BODY, .scoped = true},
    {METHOD_POST, "/api/public-access-tokens", NEED_PUBLIC_GRANT, public_token_create,
     .body_max = SMALL_BODY, .scoped = true},
    {METHOD_DELETE, "/api/public-access-tokens/:public_token", NEED_PUBLIC_GRANT,
     public_token_delete, .body_max = SMALL_BODY, .scoped = true},

    /* these carry their own proof: a public access token, or the secret in the path */
    {METHOD_OPTIONS, "/api/v1/tokens/:token", PERM_PUBLIC, public_preflight},
    {METHOD_GET, "/api/v1/tokens/:token", PERM_PUBLIC, public_token_get},
    {METHOD_OPTIONS, "/api/v1/tokens/:token/complete", PERM_PUBLIC, public_preflight},
    {METHOD_POST, "/api/v1/tokens/:token/complete", PERM_PUBLIC, public_token_complete,
     .body_max = TOKEN_BODY},
    {METHOD_POST, "/api/v1/tokens/:token/callback/:secret", PERM_PUBLIC, token_callback_post,
     .body_max = TOKEN_BODY},
    PUBLIC_ROUTE(METHOD_POST, "/inputs/:stream", public_input_post, RECORD_BODY),
    PUBLIC_ROUTE(METHOD_GET, "/outputs/:stream", public_output_get, 0),
    PUBLIC_ROUTE(METHOD_GET, "/outputs/:stream/read", public_output_read_get, 0),

    {METHOD_GET, "/api/audit", PERM_AUDIT_READ, audit_list_get},
    {METHOD_GET, "/api/audit/export", PERM_AUDIT_READ, audit_export_get},

    {METHOD_GET, "/api/workers", PERM_SESSION, worker_list_get},
    {METHOD_GET, "/api/workers/:worker", PERM_SESSION, worker_one_get},
    {METHOD_POST, "/api/workers/:worker/drain", PERM_WORKERS_MANAGE, worker_drain_post,
     .body_max = SMALL_BODY},
    {METHOD_POST, "/api/workers/:worker/undrain", PERM_WORKERS_MANAGE, worker_undrain_post,
     .body_max = SMALL_BODY},

    {METHOD_POST, "/api/workers/:worker/disable", PERM_WORKERS_MANAGE, worker_disable_post,
     .body_max = SMALL_BODY},
    {METHOD_GET, "/api/worker-groups", PERM_SESSION, worker_group_list_get},
    {METHOD_POST, "/api/worker-groups/:group/pause", PERM_WORKERS_MANAGE, worker_group_pause_post,
     .body_max = SMALL_BODY},
    {METHOD_POST, "/api/worker-groups/:group/activate", PERM_WORKERS_MANAGE,
     worker_group_activate_post, .body_max = SMALL_BODY},

    /* register, session and bearer carry their own proof */
    {METHOD_POST, "/api/worker/register", PERM_PUBLIC, worker_register_post,
     .body_max = SMALL_BODY},
    {METHOD_POST, "/api/worker/session", PERM_PUBLIC, worker_session_post, .body_max = WORKER_BODY},
    {METHOD_POST, "/api/worker/bearer", PERM_PUBLIC, worker_bearer_post, .body_max = SMALL_BODY},
    {METHOD_POST, "/api/worker/activate", PERM_WORKER, worker_activate_post,
     .body_max = WORKER_BODY},
    {METHOD_POST, "/api/worker/heartbeat", PERM_WORKER, worker_heartbeat_post,
     .body_max = WORKER_BODY},
    {METHOD_POST, "/api/worker/poll", PERM_WORKER, worker_poll_post, .body_max = WORKER_BODY},
    {METHOD_POST, "/api/worker/drained", PERM_WORKER, worker_drained_post, .body_max = SMALL_BODY},
    {METHOD_POST, "/api/worker/leases/:lease/begin", PERM_WORKER, lease_begin_post},
    {METHOD_POST, "/api/worker/leases/:lease/secrets", PERM_WORKER, lease_secrets_post,
     .body_max = SMALL_BODY},
    {METHOD_POST, "/api/worker/leases/:lease/start", PERM_WORKER, lease_start_post},
    {METHOD_POST, "/api/worker/leases/:lease/renew", PERM_WORKER, lease_renew_post},
    {METHOD_POST, "/api/worker/leases/:lease/reject", PERM_WORKER, lease_reject_post},
    {METHOD_POST, "/api/worker/leases/:lease/release", PERM_WORKER, lease_release_post},
    {METHOD_POST, "/api/worker/leases/:lease/logs", PERM_WORKER, lease_logs_post},
    {METHOD_POST, "/api/worker/leases/:lease/events", PERM_WORKER, lease_events_post},
    {METHOD_POST, "/api/worker/leases/:lease/ops", PERM_WORKER, lease_ops_post},
    {METHOD_POST, "/api/worker/leases/:lease/checkpoint/begin", PERM_WORKER, checkpoint_begin_post},
    {METHOD_POST, "/api/worker/leases/:lease/checkpoint/stage", PERM_WORKER, checkpoint_stage_post},
    {METHOD_POST, "/api/worker/leases/:lease/checkpoint/ready", PERM_WORKER, checkpoint_ready_post},
    {METHOD_POST, "/api/worker/leases/:lease/checkpoint/abort", PERM_WORKER, checkpoint_abort_post},
    {METHOD_POST, "/api/worker/leases/:lease/resumed", PERM_WORKER, lease_resumed_post},
    {METHOD_POST, "/api/worker/leases/:lease/finalize", PERM_WORKER, lease_finalize_post},
    {METHOD_POST, "/api/worker/leases/:lease/complete", PERM_WORKER, lease_complete_post},
    {METHOD_POST, "/api/worker/leases/:lease/build/progress", PERM_WORKER, build_progress_post},
    {METHOD_POST, "/api/worker/leases/:lease/build/complete", PERM_WORKER, build_complete_post},
    {METHOD_POST, "/api/worker/images/lookup", PERM_WORKER, image_lookup_post,
     .body_max = SMALL_BODY},
    {METHOD_POST, "/api/worker/images/record", PERM_WORKER, image_record_post,
     .body_max = SMALL_BODY},
    {METHOD_POST, "/api/worker/images/needed", PERM_WORKER, images_needed_post,
     .body_max = WORKER_BODY},
    {METHOD_GET, "/api/worker/objects/:object", PERM_WORKER, object_get},
    {METHOD_PUT, "/api/worker/objects/:object", PERM_WORKER, object_put, .body_max = OBJECT_MAX,
     .upload = true},
};

const size_t n_server_routes = COUNT_OF(server_routes);
