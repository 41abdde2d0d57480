/* The PostgreSQL engine: a pool of connections made when they are needed, and one that listens. */
#include <errno.h>
#include <pthread.h>
#include <time.h>

#include "base/own.h"
#include "base/time.h"
#include "store/postgres_connection.h"

/* How long a transaction waits for a connection of the pool. */
enum { POOL_WAIT_S = 30 };

/* Between attempts to connect to a server that does not answer. */
enum { RETRY_FIRST_MS = 50, RETRY_MAX_MS = 2000 };

struct postgres_store {
    struct store store;
    char *url;
    int busy_ms;

    pthread_mutex_t lock;
    pthread_cond_t is_free;
    struct postgres_connection *connections, *free_connections;
    size_t n_connections;

    /* After a failed attempt: not before this time, and what it said. */
    int64_t retry_at_ms, retry_delay_ms;
    struct error last_failure;

    struct postgres_connection listener; /* of the thread that listens */
};

struct postgres_tx {
    struct tx tx;
    struct postgres_connection *connection;
};

static struct postgres_store *store_of(struct store *store)
{
    return (struct postgres_store *)store;
}

static struct postgres_connection *connection_of(struct tx *tx)
{
    return ((struct postgres_tx *)tx)->connection;
}

/* NULL when all were in use for too long. */
static struct postgres_connection *take(struct postgres_store *store, struct error *err)
{
    struct timespec deadline;
    int waited = 0;

    clock_gettime(CLOCK_MONOTONIC, &deadline);
    deadline.tv_sec += POOL_WAIT_S;
    pthread_mutex_lock(&store->lock);
    while (!store->free_connections && waited == 0)
        waited = pthread_cond_timedwait(&store->is_free, &store->lock, &deadline);

    struct postgres_connection *taken = store->free_connections;

    if (taken)
        store->free_connections = taken->next;
    pthread_mutex_unlock(&store->lock);
    if (!taken)
        error_set(err, ERR_UNAVAILABLE, "no connection to PostgreSQL was free in %d s",
                  POOL_WAIT_S);
    return taken;
}

static void give(struct postgres_store *store, struct postgres_connection *connection)
{
    pthread_mutex_lock(&store->lock);
    connection->next = store->free_connections;
    store->free_connections = connection;
    pthread_cond_signal(&store->is_free);
    pthread_mutex_unlock(&store->lock);
}

static bool may_connect(struct postgres_store *store, struct error *err)
{
    pthread_mutex_lock(&store->lock);

    bool is_early = time_boot_ms() < store->retry_at_ms;

    if (is_early)
        *err = store->last_failure;
    pthread_mutex_unlock(&store->lock);
    return !is_early;
}

static void note_attempt(struct postgres_store *store, bool ok, const struct error *err)
{
    pthread_mutex_lock(&store->lock);
    if (ok) {
        store->retry_at_ms = store->retry_delay_ms = 0;
    } else {
        int64_t delay = store->retry_delay_ms ? store->retry_delay_ms * 2 : RETRY_FIRST_MS;

        store->retry_delay_ms = delay > RETRY_MAX_MS ? RETRY_MAX_MS : delay;
        store->retry_at_ms = time_boot_ms() + store->retry_delay_ms;
        store->last_failure = *err;
    }
    pthread_mutex_unlock(&store->lock);
}

static bool connect_again(struct postgres_store *store, struct postgres_connection *connection,
                          struct error *err)
{
    if (!may_connect(store, err))
        return false;

    bool ok = postgres_connection_open(connection, store->url, store->busy_ms, err);

    note_attempt(store, ok, err);
    return ok;
}

/* A connection may have died since it was last used: nothing has been done on it yet, so it is
 * replaced without a word. */
static bool begin_on(struct postgres_store *store, struct postgres_connection *connection,
                     enum tx_kind kind, struct error *err)
{
    static const char *const begin[] = {
        [TX_READ] = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY",
        [TX_WRITE] = "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE",
    };

    if (connection->db) {
        if (postgres_connection_script(connection, begin[kind], err))
            return true;
        postgres_connection_finish(connection);
    }
    if (!connect_again(store, connection, err))
        return false;
    if (postgres_connection_script(connection, begin[kind], err))
        return true;
    postgres_connection_finish(connection);
    return false;
}

static bool postgres_begin(struct store *base, enum tx_kind kind, struct tx **tx, struct error *err)
{
    struct postgres_store *store = store_of(base);
    struct postgres_connection *connection = take(store, err);

    if (!connection)
        return false;
    if (!begin_on(store, connection, kind, err)) {
        give(store, connection);
        return false;
    }

    struct postgres_tx *begun = alloc(sizeof *begun);

    *begun = (struct postgres_tx){
        {.store = base, .kind = kind},
        connection
    };
    *tx = &begun->tx;
    return true;
}

static void end(struct tx *tx)
{
    struct postgres_connection *connection = connection_of(tx);

    /* Also when the server's idea of the transaction is not known any more. */
    if (postgres_connection_is_lost(connection) ||
        PQtransactionStatus(connection->db) != PQTRANS_IDLE)
        postgres_connection_finish(connection);
    give(store_of(tx->store), connection);
    free(tx);
}

static bool postgres_commit(struct tx *tx, struct error *err)
{
    bool ok = postgres_connection_commit(connection_of(tx), err);

    end(tx);
    return ok;
}

static void postgres_rollback(struct tx *tx)
{
    struct error ignored;

    if (!postgres_connection_is_lost(connection_of(tx)))
        (void)!postgres_connection_script(connection_of(tx), "ROLLBACK", &ignored);
    end(tx);
}

static bool postgres_run(struct tx *tx, const struct query *query, const struct value *params,
                         struct arena *arena, struct rows *rows, struct error *err)
{
    return postgres_connection_run(connection_of(tx), query, params, arena, rows, err);
}

static bool postgres_script(struct tx *tx, const char *sql, struct error *err)
{
    return postgres_connection_script(connection_of(tx), sql, err);
}

static bool postgres_notify(struct tx *tx, struct str topic, struct error *err)
{
    static const struct query notify = {"store_notify", 1, 0, NULL,
                                        "SELECT pg_notify('helmr_wake', $1)"};

    return postgres_connection_run(connection_of(tx), &notify, &V_STR(topic), NULL, NULL, err);
}

static bool postgres_listen(struct store *base, int *fd, struct error *err)
{
    struct postgres_store *store = store_of(base);

    postgres_connection_finish(&store->listener);
    if (!connect_again(store, &store->listener, err) ||
        !postgres_connection_script(&store->listener, "LISTEN helmr_wake", err))
        return false;
    *fd = PQsocket(store->listener.db);
    return true;
}

static bool postgres_notifications(struct store *base, store_notification *each, void *arg,
                                   struct error *err)
{
    PGconn *db = store_of(base)->listener.db;

    if (!db || !PQconsumeInput(db))
        return error_set(err, ERR_UNAVAILABLE, "the connection that listens was lost");
    for (PGnotify *notify; (notify = PQnotifies(db)); PQfreemem(notify))
        each(arg, str_of(notify->extra));
    return true;
}

static void postgres_close(struct store *base)
{
    struct postgres_store *store = store_of(base);

    for (size_t i = 0; i < store->n_connections; i++)
        postgres_connection_finish(&store->connections[i]);
    postgres_connection_finish(&store->listener);
    free(store->connections);
    free(store->url);
    pthread_mutex_destroy(&store->lock);
    pthread_cond_destroy(&store->is_free);
    free(store);
}

static const struct backend postgres_backend = {
    .is_postgres = true,
    .migration_lock = "SET LOCAL lock_timeout = 0; SET LOCAL statement_timeout = 0; "
                      "SELECT pg_advisory_xact_lock(5209574532163466340)",
    .close = postgres_close,
    .begin = postgres_begin,
    .commit = postgres_commit,
    .rollback = postgres_rollback,
    .run = postgres_run,
    .script = postgres_script,
    .notify = postgres_notify,
    .listen = postgres_listen,
    .notifications = postgres_notifications,
};

static struct postgres_store *create(const struct store_config *config)
{
    struct postgres_store *store = alloc(sizeof *store);
    size_t n = (size_t)config->pool_size;
    pthread_condattr_t attributes;

    *store = (struct postgres_store){.store.backend = &postgres_backend,
                                     .url = alloc_text(config->url),
                                     .busy_ms = config->busy_ms,
                                     .connections = alloc(n * sizeof *store->connections),
                                     .n_connections = n};
    for (size_t i = 0; i < n; i++) {
        store->connections[i] = (struct postgres_connection){.next = store->free_connections};
        store->free_connections = &store->connections[i];
    }
    pthread_mutex_init(&store->lock, NULL);
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&store->is_free, &attributes);
    pthread_condattr_destroy(&attributes);
    return store;
}

/* Connects once, so that a wrong URL is found out here. */
bool postgres_store_open(const struct store_config *config, struct store **store, struct error *err)
{
    struct postgres_store *opened = create(config);

    if (!connect_again(opened, opened->free_connections, err)) {
        postgres_close(&opened->store);
        return false;
    }
    *store = &opened->store;
    return true;
}
