/* Files as they are in a mounted sandbox right now, asked of the agent there. Each may park the
 * call; it returns true then, too.
 *
 * One directory is listed at a time, and an answer has at most FILES_LIVE_MAX bytes of a file. */
#pragma once

#include "server/files.h"

enum { FILES_LIVE_MAX = 4 << 20 };

struct files_page {
    struct str glob, after; /* as files_list.c reads them */
    int64_t limit;
};

bool files_live_list(struct call *call, const struct files_query *query,
                     const struct files_page *page, struct response *res,
                     struct error *err) MUST_USE;
bool files_live_stat(struct call *call, const struct files_query *query, struct response *res,
                     struct error *err) MUST_USE;
bool files_live_content(struct call *call, const struct files_query *query, struct response *res,
                        struct error *err) MUST_USE;
