/* The schema: numbered scripts, forward only, each in a transaction of its own.
 *
 * What has been applied is in schema_migrations with the checksum it had; a database that is
 * newer than this binary, or that was made by another text, is refused and left alone.
 */
#pragma once

#include "store/store.h"

struct migration {
    const char *name, *checksum;
    const char *sqlite, *postgres;
};

/* The version of the schema is the number of migrations applied. */
extern const struct migration all_migrations[];
extern const size_t n_migrations;

bool migrate_to(struct store *store, const struct migration *migrations, size_t n,
                struct error *err) MUST_USE;

/* 0 when nothing has been applied. */
bool migrate_version(struct store *store, int *version, struct error *err) MUST_USE;
