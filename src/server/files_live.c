#include "server/files_live.h"

static bool refuse(struct error *err)
{
    return error_set(err, ERR_NOT_MOUNTED, "the workspace is mounted nowhere it can be read");
}

bool files_live_list(struct call *call, const struct files_query *query, struct response *res,
                     struct error *err)
{
    (void)call, (void)query, (void)res;
    return refuse(err);
}

bool files_live_stat(struct call *call, const struct files_query *query, struct response *res,
                     struct error *err)
{
    (void)call, (void)query, (void)res;
    return refuse(err);
}

bool files_live_content(struct call *call, const struct files_query *query, struct response *res,
                        struct error *err)
{
    (void)call, (void)query, (void)res;
    return refuse(err);
}
