#include "store/backend.h"

bool postgres_store_open(const struct store_config *config UNUSED, struct store **store UNUSED,
                         struct error *err)
{
    return error_set(err, ERR_UNSUPPORTED, "PostgreSQL is not built in");
}
