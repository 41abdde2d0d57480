/* Files as they are in a mounted sandbox right now, asked of the agent there. */
#pragma once

#include "server/files.h"

bool files_live_list(struct call *call, const struct files_query *query, struct response *res,
                     struct error *err) MUST_USE;
bool files_live_stat(struct call *call, const struct files_query *query, struct response *res,
                     struct error *err) MUST_USE;
bool files_live_content(struct call *call, const struct files_query *query, struct response *res,
                        struct error *err) MUST_USE;
