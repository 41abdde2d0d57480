/* Sign-in of the local owner: a session in the database and its token in a cookie. */
#pragma once

#include "server/keys.h"

struct call;
struct response;
struct server;

bool auth_open_session(struct server *server, char token[TOKEN_TEXT], struct error *err) MUST_USE;

/* An empty token takes the cookie away. */
bool auth_set_cookie(struct call *call, struct response *res, const char *token,
                     struct error *err) MUST_USE;
