/* What a first start makes: organization, groups, project, environments, the local owner.
 * Every start may run it; what is there stays as it is.
 */
#pragma once

#include "server/context.h"

bool server_seed(struct server *server, struct error *err) MUST_USE;
