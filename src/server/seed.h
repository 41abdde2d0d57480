/* What a first start makes: organization, groups, project, environments, the local owner.
 * Every start may run it; what is there stays as it is.
 */
#pragma once

#include "server/context.h"

bool server_seed(struct server *server, struct error *err) MUST_USE;

/* The environments every project begins with, and whether one of that slug is among them: those
 * keep their names and stay. */
bool seed_environments(struct tx *tx, const char *project_id, const char *group_id, int64_t now,
                       struct error *err) MUST_USE;
bool seed_protects(struct str slug);
