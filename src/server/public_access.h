/* Public access tokens: bearers for one thing each, that may be used from any web page. The routes
 * that take them, and only those, allow other origins. */
#pragma once

#include "base/id.h"
#include "http/call.h"
#include "store/store.h"

/* One that was found, has the right scope and was not revoked. */
struct public_bearer {
    char id[ID_TEXT], environment_id[ID_TEXT];
    struct str scope; /* JSON, in the call's arena */
    bool is_used_up, is_over;
};

/* ERR_TOKEN_SCOPE when the call carries none of this scope. Time and uses are the caller's to
 * judge. */
bool public_access_admit(struct call *call, struct response *res, const char *scope_type,
                         struct public_bearer *bearer, struct error *err) MUST_USE;

/* ERR_TOKEN_SCOPE, counted as a guess. Returns false. */
bool public_access_denied(struct call *call, struct error *err);

/* One use more; ERR_TOKEN_SCOPE when there is none left. */
bool public_access_use(struct tx *tx, const struct public_bearer *bearer,
                       struct error *err) MUST_USE;

bool public_access_cors(struct response *res, struct error *err) MUST_USE;
