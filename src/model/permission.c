#include "model/permission.h"

#include <stdlib.h>

static const struct {
    const char *wire;
    enum role least;
    bool is_grantable;
} permissions[PERM_COUNT] = {
#define PERMISSION(name, wire, least)         [PERM_##name] = {wire, ROLE_##least, true},
#define SESSION_PERMISSION(name, wire, least) [PERM_##name] = {wire, ROLE_##least, false},
#include "model/permissions.def"
#undef PERMISSION
#undef SESSION_PERMISSION
};

bool permission_parse(struct str text, enum permission *permission)
{
    for (enum permission p = 0; p < PERM_COUNT; p++) {
        if (permissions[p].wire && str_equal(text, str_of(permissions[p].wire))) {
            *permission = p;
            return true;
        }
    }
    return false;
}

const char *permission_name(enum permission permission)
{
    return permissions[permission].wire ? permissions[permission].wire : "";
}

bool permission_is_grantable(enum permission permission)
{
    return permissions[permission].is_grantable;
}

bool role_allows(enum role role, enum permission permission)
{
    if (permission == PERM_PUBLIC || permission == PERM_SESSION)
        return true;
    return permissions[permission].wire && role >= permissions[permission].least;
}

const char *role_name(enum role role)
{
    switch (role) {
    case ROLE_VIEWER: return "viewer";
    case ROLE_DEVELOPER: return "developer";
    case ROLE_ADMIN: return "admin";
    case ROLE_OWNER: return "owner";
    case ROLE_COUNT: break;
    }
    abort();
}

bool role_parse(struct str text, enum role *role)
{
    for (enum role r = 0; r < ROLE_COUNT; r++) {
        if (str_equal(text, str_of(role_name(r)))) {
            *role = r;
            return true;
        }
    }
    return false;
}
