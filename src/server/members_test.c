#include <pthread.h>

#include "base/json.h"
#include "base/time.h"
#include "server/account.h"
#include "server/service_suite.h"
#include "server/session.h"
#include "store/queries.h"

#define PASSWORD "correct horse battery"

static const char *token_of(struct service *service)
{
    const char *at = strchr(service->set_cookie, '=');
    return at ? arena_printf(&service->arena, "%.*s", (int)strcspn(at + 1, ";"), at + 1) : "";
}

/* What stands behind ?token= in an address of the last answer. */
static const char *link_token(struct service *service, const char *field)
{
    const char *at = strstr(service_text(service, field), "?token=");
    return at ? at + strlen("?token=") : "";
}

static int invite(struct service *service, const char *by, const char *email, const char *role)
{
    const char *body =
        arena_printf(&service->arena, "{\"email\":\"%s\",\"role\":\"%s\"}", email, role);
    return service_ask(service, by, "POST", "/api/invitations", body);
}

static int accept_with(struct service *service, const char *token)
{
    const char *body = arena_printf(&service->arena,
                                    "{\"token\":\"%s\",\"display_name\":\"Somebody\","
                                    "\"password\":\"" PASSWORD "\"}",
                                    token);
    return service_ask(service, NULL, "POST", "/api/auth/invitations/accept", body);
}

/* Invites and accepts; the session of the new member, or "". */
static const char *join(struct service *service, const char *email, const char *role)
{
    if ((!service->session[0] && !service_sign_in(service)) ||
        invite(service, service->session, email, role) != 201 ||
        accept_with(service, link_token(service, "invite_url")) != 200)
        return "";
    return token_of(service);
}

static const char *member_path(struct service *service, const char *session)
{
    if (service_ask(service, session, "GET", "/api/me", NULL) != 200)
        return "/api/members/none";
    return arena_printf(&service->arena, "/api/members/%s", service_text(service, "user.id"));
}

static int login(struct service *service, const char *email, const char *password)
{
    const char *body =
        arena_printf(&service->arena, "{\"email\":\"%s\",\"password\":\"%s\"}", email, password);
    return service_ask(service, NULL, "POST", "/api/auth/login", body);
}

SERVICE_TEST(who_is_invited_joins_with_the_role_they_were_given)
{
    const char *developer = join(service, "dev@example.test", "developer");
    CHECK(*developer);
    CHECK_STATUS(service, service_ask(service, developer, "GET", "/api/me", NULL), 200);
    CHECK_STR(service_text(service, "role"), "developer");
    CHECK_STR(service_text(service, "user.display_name"), "Somebody");
    CHECK_STATUS(service, service_ask(service, developer, "GET", "/api/members", NULL), 403);
    CHECK_STATUS(service, service_ask(service, developer, "GET", "/api/runs", NULL), 200);
    CHECK_STATUS(service, login(service, "dev@example.test", PASSWORD), 200);

    CHECK_STATUS(service, service_ask(service, service->session, "GET", "/api/members", NULL), 200);
    CHECK(json_count(buf_str(&service->answer.body), "members") == 2);
    CHECK_STR(service_text(service, "members.0.email"), "dev@example.test");
    CHECK_STR(service_text(service, "members.0.status"), "active");
    CHECK_STATUS(service, invite(service, service->session, "dev@example.test", "viewer"), 409);
}

SERVICE_TEST(an_invitation_is_used_once_and_not_after_it_was_taken_back)
{
    CHECK(service_sign_in(service));
    CHECK_STATUS(service, invite(service, service->session, "a@example.test", "viewer"), 201);
    CHECK_STR(service_text(service, "status"), "pending");
    const char *first = link_token(service, "invite_url");
    const char *path =
        arena_printf(&service->arena, "/api/invitations/%s", service_text(service, "id"));
    CHECK_STATUS(service, accept_with(service, first), 200);
    CHECK_STATUS(service, accept_with(service, first), 409);
    CHECK_STR(service_text(service, "code"), "invitation_not_pending");
    CHECK_STATUS(service, service_ask(service, service->session, "DELETE", path, NULL), 409);

    CHECK_STATUS(service, invite(service, service->session, "b@example.test", "viewer"), 201);
    const char *second = link_token(service, "invite_url");
    path = arena_printf(&service->arena, "/api/invitations/%s", service_text(service, "id"));
    CHECK_STATUS(service, service_ask(service, service->session, "DELETE", path, NULL), 204);
    CHECK_STATUS(service, accept_with(service, second), 409);

    /* A new one takes the place of the old. */
    CHECK_STATUS(service, invite(service, service->session, "c@example.test", "viewer"), 201);
    const char *third = link_token(service, "invite_url");
    CHECK_STATUS(service, invite(service, service->session, "c@example.test", "viewer"), 201);
    CHECK_STATUS(service, accept_with(service, third), 409);
    CHECK_STATUS(service, accept_with(service, "hlmr_in_unknown"), 404);
    CHECK_STATUS(service, service_ask(service, service->session, "GET", "/api/invitations", NULL),
                 200);
    CHECK_STR(service_text(service, "invitations.0.status"), "pending");
    CHECK_STR(service_text(service, "invitations.1.status"), "revoked");
    CHECK_STR(service_text(service, "invitations.3.status"), "accepted");
    CHECK_STR(service_text(service, "invitations.0.invite_url"), "");
}

static bool expire_everything(struct service *service)
{
    static const struct query invitations = {
        .name = "test_expire_invitations",
        .n_params = 1,
        .sqlite = "UPDATE invitations SET expires_ms = $1",
        .postgres = "UPDATE invitations SET expires_ms = $1",
    };
    static const struct query resets = {
        .name = "test_expire_resets",
        .n_params = 1,
        .sqlite = "UPDATE password_resets SET expires_ms = $1",
        .postgres = "UPDATE password_resets SET expires_ms = $1",
    };
    struct error err;
    AUTO_TX tx = NULL;
    return store_begin(service->server->store, &tx, &err) &&
           STORE(tx, &invitations, NULL, NULL, &err, V_INT(time_now_ms() - 1)) &&
           STORE(tx, &resets, NULL, NULL, &err, V_INT(time_now_ms() - 1)) &&
           store_commit(&tx, &err);
}

SERVICE_TEST(an_invitation_changes_nothing_for_who_is_a_member_already)
{
    struct error err;
    CHECK(service_sign_in(service));
    CHECK_STATUS(service, invite(service, service->session, "a@example.test", "viewer"), 201);
    const char *token = link_token(service, "invite_url");
    service->config.setup_token = secret_create(STR("for this test only"));
    CHECK(account_offer_setup(service->server, &err));
    CHECK_STATUS(service,
                 service_ask(service, NULL, "POST", "/api/auth/setup",
                             "{\"setup_token\":\"for this test only\",\"email\":\"a@example.test\","
                             "\"password\":\"not the other one\"}"),
                 201);
    CHECK_STATUS(service, accept_with(service, token), 409);
    CHECK_STR(service_text(service, "code"), "invitation_not_pending");
    CHECK_STATUS(service, login(service, "a@example.test", "not the other one"), 200);
    CHECK_STATUS(service, service_ask(service, token_of(service), "GET", "/api/me", NULL), 200);
    CHECK_STR(service_text(service, "role"), "owner");
}

SERVICE_TEST(an_invitation_expires)
{
    CHECK(service_sign_in(service));
    CHECK_STATUS(service,
                 service_ask(service, service->session, "POST", "/api/invitations",
                             "{\"email\":\"a@example.test\",\"role\":\"viewer\","
                             "\"expires_in_days\":31}"),
                 400);
    CHECK_STATUS(service, invite(service, service->session, "a@example.test", "viewer"), 201);
    const char *token = link_token(service, "invite_url");
    CHECK(expire_everything(service));
    CHECK_STATUS(service, accept_with(service, token), 410);
    CHECK_STR(service_text(service, "code"), "invitation_expired");
    CHECK_STATUS(service, service_ask(service, service->session, "GET", "/api/invitations", NULL),
                 200);
    CHECK_STR(service_text(service, "invitations.0.status"), "expired");
}

SERVICE_TEST(what_makes_or_unmakes_an_owner_is_for_owners)
{
    const char *admin = join(service, "admin@example.test", "admin");
    const char *owner = join(service, "owner@example.test", "owner");
    CHECK(*admin && *owner);
    const char *owners = member_path(service, owner), *admins = member_path(service, admin);
    const char *reset = arena_printf(&service->arena, "%s/password-reset", owners);
    CHECK_STATUS(service, invite(service, admin, "x@example.test", "owner"), 403);
    CHECK_STATUS(service,
                 service_ask(service, admin, "PATCH", owners,
                             "{\"role\":\"viewer\",\"expected_role\":\"owner\"}"),
                 403);
    CHECK_STATUS(service,
                 service_ask(service, admin, "PATCH", admins,
                             "{\"role\":\"owner\",\"expected_role\":\"admin\"}"),
                 403);
    CHECK_STATUS(service, service_ask(service, admin, "DELETE", owners, NULL), 403);
    CHECK_STATUS(service, service_ask(service, admin, "POST", reset, "{}"), 403);
    CHECK_STATUS(service, service_ask(service, owner, "POST", reset, "{}"), 201);
}

SERVICE_TEST(a_change_of_role_holds_at_once_and_only_from_the_role_expected)
{
    const char *member = join(service, "dev@example.test", "developer");
    CHECK(*member);
    const char *path = member_path(service, member);
    CHECK_STATUS(service,
                 service_ask(service, service->session, "PATCH", path,
                             "{\"role\":\"admin\",\"expected_role\":\"viewer\"}"),
                 409);
    CHECK_STR(service_text(service, "code"), "role_changed");
    CHECK_STATUS(service,
                 service_ask(service, service->session, "PATCH", path,
                             "{\"role\":\"king\",\"expected_role\":\"developer\"}"),
                 400);
    CHECK_STATUS(service,
                 service_ask(service, service->session, "PATCH", path, "{\"role\":\"viewer\"}"),
                 400);
    CHECK_STATUS(service, service_ask(service, member, "GET", "/api/members", NULL), 403);
    CHECK_STATUS(service,
                 service_ask(service, service->session, "PATCH", path,
                             "{\"role\":\"admin\",\"expected_role\":\"developer\"}"),
                 200);
    CHECK_STR(service_text(service, "role"), "admin");
    CHECK_STATUS(service, service_ask(service, member, "GET", "/api/members", NULL), 200);
}

SERVICE_TEST(who_is_disabled_or_removed_is_out_with_every_session_and_key)
{
    const char *member = join(service, "admin@example.test", "admin");
    CHECK(*member);
    const char *path = member_path(service, member);
    CHECK_STATUS(service,
                 service_ask(service, member, "POST", "/api/api-keys",
                             "{\"name\":\"k\",\"permissions\":[{\"scopes\":[\"runs:read\"]}]}"),
                 201);
    const char *key = service_text(service, "raw_key");
    CHECK_STATUS(service, service_ask(service, key, "GET", "/api/runs", NULL), 200);
    CHECK_STATUS(service,
                 service_ask(service, service->session, "PATCH", path,
                             "{\"status\":\"disabled\",\"expected_role\":\"admin\"}"),
                 200);
    CHECK_STATUS(service, service_ask(service, member, "GET", "/api/me", NULL), 401);
    CHECK_STATUS(service, service_ask(service, key, "GET", "/api/runs", NULL), 401);
    CHECK_STATUS(service, login(service, "admin@example.test", PASSWORD), 401);
    CHECK_STATUS(service,
                 service_ask(service, service->session, "PATCH", path,
                             "{\"status\":\"active\",\"expected_role\":\"admin\"}"),
                 200);
    CHECK_STATUS(service, service_ask(service, member, "GET", "/api/me", NULL), 401);
    CHECK_STATUS(service, login(service, "admin@example.test", PASSWORD), 200);
    member = token_of(service);
    CHECK_STATUS(service, service_ask(service, member, "GET", "/api/me", NULL), 200);

    CHECK_STATUS(service, service_ask(service, service->session, "DELETE", path, NULL), 204);
    CHECK_STATUS(service, service_ask(service, member, "GET", "/api/me", NULL), 401);
    CHECK_STATUS(service, service_ask(service, key, "GET", "/api/runs", NULL), 401);
    CHECK_STATUS(service, login(service, "admin@example.test", PASSWORD), 401);
    CHECK_STATUS(service, service_ask(service, service->session, "DELETE", path, NULL), 404);

    /* Invited again, without what the keys of old could do. */
    CHECK(*join(service, "admin@example.test", "admin"));
    CHECK_STATUS(service, service_ask(service, key, "GET", "/api/runs", NULL), 401);
}

SERVICE_TEST(the_last_owner_stays)
{
    struct error err;
    CHECK(service_sign_in(service));
    const char *local = member_path(service, service->session);
    CHECK_STATUS(service, service_ask(service, service->session, "DELETE", local, NULL), 409);
    CHECK_STR(service_text(service, "code"), "last_owner");

    service->config.setup_token = secret_create(STR("for this test only"));
    CHECK(account_offer_setup(service->server, &err));
    CHECK_STATUS(service,
                 service_ask(service, NULL, "POST", "/api/auth/setup",
                             "{\"setup_token\":\"for this test only\",\"email\":\"a@example.test\","
                             "\"password\":\"" PASSWORD "\"}"),
                 201);
    const char *owner = token_of(service), *path = member_path(service, owner);

    /* The local owner, whom nobody can be from afar, does not count any more. */
    static const char *const changes[] = {
        "{\"role\":\"admin\",\"expected_role\":\"owner\"}",
        "{\"status\":\"disabled\",\"expected_role\":\"owner\"}",
    };
    for (size_t i = 0; i < COUNT_OF(changes); i++) {
        CHECK_STATUS(service, service_ask(service, owner, "PATCH", path, changes[i]), 409);
        CHECK_STR(service_text(service, "code"), "last_owner");
    }
    CHECK_STATUS(service, service_ask(service, owner, "DELETE", path, NULL), 409);
    CHECK_STATUS(service, service_ask(service, owner, "DELETE", local, NULL), 204);
    CHECK(*join(service, "b@example.test", "owner") == '\0');
    CHECK_STATUS(service, invite(service, owner, "b@example.test", "owner"), 201);
    CHECK_STATUS(service, accept_with(service, link_token(service, "invite_url")), 200);
    CHECK_STATUS(service, service_ask(service, owner, "PATCH", path, changes[0]), 200);
}

struct rival {
    char url[64], path[128];
    struct secret token;
    int status;
};

static void *demote(void *arg)
{
    struct rival *rival = arg;
    struct http_client *client = NULL;
    struct http_answer answer = {.body.max = 65536};
    const struct http_request request = {
        .method = "PATCH",
        .path = rival->path,
        .body = STR("{\"role\":\"viewer\",\"expected_role\":\"owner\"}"),
    };
    struct error err;
    rival->status = -1;
    if (http_client_create(rival->url, &client, &err)) {
        http_client_set_bearer(client, &rival->token);
        if (http_client_send(client, &request, &answer, &err))
            rival->status = answer.status;
    }
    buf_finish(&answer.body);
    http_client_destroy(client);
    return NULL;
}

SERVICE_TEST(two_owners_who_demote_each_other_do_not_both_succeed)
{
    const char *first = join(service, "a@example.test", "owner");
    const char *second = join(service, "b@example.test", "owner");
    CHECK(*first && *second);
    CHECK_STATUS(service,
                 service_ask(service, first, "DELETE", member_path(service, service->session),
                             NULL),
                 204);
    struct rival rivals[2] = {0};
    pthread_t threads[2];
    for (size_t i = 0; i < 2; i++) {
        snprintf(rivals[i].url, sizeof rivals[i].url, "%s", service->url);
        snprintf(rivals[i].path, sizeof rivals[i].path, "%s",
                 member_path(service, i ? first : second));
        rivals[i].token = secret_create(str_of(i ? second : first));
    }
    for (size_t i = 0; i < 2; i++)
        CHECK(pthread_create(&threads[i], NULL, demote, &rivals[i]) == 0);
    for (size_t i = 0; i < 2; i++) {
        pthread_join(threads[i], NULL);
        secret_finish(&rivals[i].token);
    }
    /* Who comes second is no owner any more, or the other is the last one. */
    CHECK((rivals[0].status == 200) != (rivals[1].status == 200));
    CHECK_STATUS(service,
                 service_ask(service, rivals[0].status == 200 ? first : second, "GET", "/api/me",
                             NULL),
                 200);
    CHECK_STR(service_text(service, "role"), "owner");
}

SERVICE_TEST(a_reset_link_sets_the_password_once_and_ends_sessions)
{
    const char *member = join(service, "dev@example.test", "developer");
    CHECK(*member);
    const char *path =
        arena_printf(&service->arena, "%s/password-reset", member_path(service, member));
    CHECK_STATUS(service, service_ask(service, service->session, "POST", path, "{}"), 201);
    const char *stale = link_token(service, "reset_url");
    CHECK_STATUS(service, service_ask(service, service->session, "POST", path, "{}"), 201);
    const char *body =
        arena_printf(&service->arena, "{\"token\":\"%s\",\"new_password\":\"another long one\"}",
                     link_token(service, "reset_url"));
    const char *old =
        arena_printf(&service->arena, "{\"token\":\"%s\",\"new_password\":\"another long one\"}",
                     stale);
    CHECK_STATUS(service, service_ask(service, NULL, "POST", "/api/auth/password/reset", old), 410);
    CHECK_STATUS(service, service_ask(service, NULL, "POST", "/api/auth/password/reset", body),
                 200);
    const char *renewed = token_of(service);
    CHECK_STATUS(service, service_ask(service, NULL, "POST", "/api/auth/password/reset", body),
                 410);
    CHECK_STATUS(service, service_ask(service, member, "GET", "/api/me", NULL), 401);
    CHECK_STATUS(service, service_ask(service, renewed, "GET", "/api/me", NULL), 200);
    CHECK_STATUS(service, login(service, "dev@example.test", PASSWORD), 401);
    CHECK_STATUS(service, login(service, "dev@example.test", "another long one"), 200);

    CHECK_STATUS(service, service_ask(service, service->session, "POST", path, "{}"), 201);
    body = arena_printf(&service->arena, "{\"token\":\"%s\",\"new_password\":\"a third long one\"}",
                        link_token(service, "reset_url"));
    CHECK(expire_everything(service));
    CHECK_STATUS(service, service_ask(service, NULL, "POST", "/api/auth/password/reset", body),
                 410);
}

TEST_MAIN()
