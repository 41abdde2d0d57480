/* For tests: an empty database on either engine. PostgreSQL is a private server, started at the
 * first use and gone with the process.
 */
#pragma once

#include "store/migrate.h"
#include "store/store.h"

enum store_engine { ON_SQLITE, ON_POSTGRES };

enum { FIXTURE_URL_MAX = 512 };

struct fixture {
    enum store_engine engine;
    char url[FIXTURE_URL_MAX];
    char directory[64]; /* of the SQLite file */
};

/* False with *skip set when this machine cannot; without it when something is broken. */
bool fixture_init(struct fixture *fixture, enum store_engine engine, const char **skip,
                  struct error *err) MUST_USE;
void fixture_finish(struct fixture *fixture);

bool fixture_open(const struct fixture *fixture, int busy_ms, struct store **store,
                  struct error *err) MUST_USE;

/* The private server, as a power cut would stop it. */
bool postgres_fixture_stop(struct error *err) MUST_USE;
bool postgres_fixture_start(struct error *err) MUST_USE;

/* items(id, number, text, bytes), children of items, and counters(id, count), counter 1 at 0. */
extern const struct migration fixture_migrations[];
extern const size_t n_fixture_migrations;

#define SAME_ON_BOTH(sql) (sql), (sql)

extern const struct query item_insert, item_get, item_count, counter_add, counter_get;
enum { ITEM_GET_NUMBER, ITEM_GET_TEXT, ITEM_GET_BYTES };

bool item_put(struct store *store, int64_t id, struct error *err) MUST_USE;
bool item_exists(struct store *store, int64_t id, bool *exists, struct error *err) MUST_USE;
bool item_total(struct store *store, int64_t *total, struct error *err) MUST_USE;
