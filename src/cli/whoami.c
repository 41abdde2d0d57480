/* `helmr whoami`: the server, the credential used there, and whose it is. */
#include <stdio.h>

#include "base/json.h"
#include "cli/commands.h"
#include "cli/output.h"

static const struct field person_fields[] = {
    {"user",         "user.email",        NULL},
    {"role",         "role",              NULL},
    {"organization", "organization.slug", NULL},
};

static const struct field key_fields[] = {
    {"key",         "api_key.name",     NULL},
    {"project",     "project.slug",     NULL},
    {"environment", "environment.slug", NULL},
};

bool whoami_command(const struct invocation *invocation, int *exit_code, struct error *err)
{
    AUTO(api_finish) struct api api = {0};
    struct str me = {0};

    *exit_code = 0;
    if (!api_open(invocation, API_ANY, NULL, &api, err) ||
        !api_send(&api, "GET", "/api/me", (struct str){0}, &me, err))
        return false;
    if (!invocation_has(invocation, "json"))
        printf("%s %s\n", api.is_key ? "HELMR_API_KEY" : "login", api.url);
    return output_object(&api, invocation, me, api.is_key ? key_fields : person_fields,
                         api.is_key ? COUNT_OF(key_fields) : COUNT_OF(person_fields), err);
}
