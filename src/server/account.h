/* How people come in: the first owner, sign-in by password, invitations, password resets.
 *
 * The API and the pages share these. Each counts the try, checks, hashes outside of any
 * transaction and then changes everything in one; it ends with a fresh session. All hash, so they
 * run inside password_guarded.
 */
#pragma once

#include "server/keys.h"

struct call;
struct response;
struct server;

#define LOCAL_OWNER "owner@localhost"

struct setup_input {
    struct str setup_token, email, password, display_name;
    struct str organization_slug, organization_name; /* empty: as they are */
};

bool account_setup(struct call *call, struct response *res, const struct setup_input *input,
                   char token[TOKEN_TEXT], struct error *err) MUST_USE;

bool account_login(struct call *call, struct response *res, struct str email, struct str password,
                   char token[TOKEN_TEXT], struct error *err) MUST_USE;

bool account_accept(struct call *call, struct response *res, struct str invitation,
                    struct str display_name, struct str password, char token[TOKEN_TEXT],
                    struct error *err) MUST_USE;

bool account_reset(struct call *call, struct response *res, struct str reset, struct str password,
                   char token[TOKEN_TEXT], struct error *err) MUST_USE;

/* By an e-mail that a provider has verified: a member, or who has a pending invitation; else
 * ERR_NOT_A_MEMBER. Hashes nothing. */
bool account_enter(struct call *call, struct str email, struct str display_name,
                   char token[TOKEN_TEXT], struct error *err) MUST_USE;

/* Lower-case and plausible, or ERR_INVALID. */
bool account_email(struct call *call, struct str text, struct str *email,
                   struct error *err) MUST_USE;

/* Whether anybody on this machine may sign in as the local owner. */
bool account_has_dev_login(const struct server *server);

/* Where there is no owner who could sign in: makes a token for the first one, unless it is
 * configured, into server->setup_token. */
bool account_offer_setup(struct server *server, struct error *err) MUST_USE;
