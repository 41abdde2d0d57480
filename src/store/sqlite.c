/* The SQLite engine: readers in a pool, everything that writes through sqlite_writer.c. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>

#include "base/own.h"
#include "store/sqlite_writer.h"

struct sqlite_store {
    struct store store;
    struct writer writer;

    pthread_mutex_t lock;
    pthread_cond_t is_free;
    struct sqlite_connection *readers, *free_readers;
    size_t n_readers;
};

struct sqlite_tx {
    struct tx tx;
    struct sqlite_connection *connection;
};

static struct sqlite_store *store_of(struct store *store)
{
    return (struct sqlite_store *)store;
}

static struct sqlite_connection *reader_take(struct sqlite_store *store)
{
    pthread_mutex_lock(&store->lock);
    while (!store->free_readers)
        pthread_cond_wait(&store->is_free, &store->lock);

    struct sqlite_connection *reader = store->free_readers;

    store->free_readers = reader->next;
    pthread_mutex_unlock(&store->lock);
    return reader;
}

static void reader_give(struct sqlite_store *store, struct sqlite_connection *reader)
{
    pthread_mutex_lock(&store->lock);
    reader->next = store->free_readers;
    store->free_readers = reader;
    pthread_cond_signal(&store->is_free);
    pthread_mutex_unlock(&store->lock);
}

static bool begin_read(struct sqlite_store *store, struct sqlite_connection **connection,
                       struct error *err)
{
    struct sqlite_connection *reader = reader_take(store);

    if (!sqlite_connection_script(reader, "BEGIN", err)) {
        reader_give(store, reader);
        return false;
    }
    *connection = reader;
    return true;
}

static void end_read(struct sqlite_store *store, struct sqlite_connection *reader)
{
    struct error ignored;

    if (sqlite_connection_is_open(reader))
        (void)!sqlite_connection_script(reader, "ROLLBACK", &ignored);
    reader_give(store, reader);
}

static bool sqlite_begin(struct store *base, enum tx_kind kind, struct tx **tx, struct error *err)
{
    struct sqlite_store *store = store_of(base);
    struct sqlite_connection *connection = &store->writer.connection;

    if (kind == TX_READ ? !begin_read(store, &connection, err) : !writer_begin(&store->writer, err))
        return false;

    struct sqlite_tx *begun = alloc(sizeof *begun);

    *begun = (struct sqlite_tx){
        {.store = base, .kind = kind},
        connection
    };
    *tx = &begun->tx;
    return true;
}

static bool sqlite_commit(struct tx *tx, struct error *err)
{
    AUTO_FREE struct sqlite_tx *ending = (struct sqlite_tx *)tx;
    struct sqlite_store *store = store_of(tx->store);

    if (tx->kind == TX_WRITE)
        return writer_commit(&store->writer, err);
    end_read(store, ending->connection);
    return true;
}

static void sqlite_rollback(struct tx *tx)
{
    AUTO_FREE struct sqlite_tx *ending = (struct sqlite_tx *)tx;
    struct sqlite_store *store = store_of(tx->store);

    if (tx->kind == TX_WRITE)
        writer_rollback(&store->writer, &tx->why);
    else
        end_read(store, ending->connection);
}

static bool sqlite_run(struct tx *tx, const struct query *query, const struct value *params,
                       struct arena *arena, struct rows *rows, struct error *err)
{
    struct sqlite_connection *connection = ((struct sqlite_tx *)tx)->connection;

    return sqlite_connection_run(connection, query, params, arena, rows, err);
}

static bool sqlite_script(struct tx *tx, const char *sql, struct error *err)
{
    return sqlite_connection_script(((struct sqlite_tx *)tx)->connection, sql, err);
}

static bool sqlite_notify(struct tx *tx UNUSED, struct str topic UNUSED, struct error *err UNUSED)
{
    return true;
}

static bool sqlite_listen(struct store *store UNUSED, int *fd, struct error *err UNUSED)
{
    *fd = -1;
    return true;
}

static bool sqlite_notifications(struct store *store UNUSED, store_notification *each UNUSED,
                                 void *arg UNUSED, struct error *err UNUSED)
{
    return true;
}

static void sqlite_close(struct store *base)
{
    struct sqlite_store *store = store_of(base);

    for (size_t i = 0; i < store->n_readers; i++)
        sqlite_connection_finish(&store->readers[i]);
    free(store->readers);
    writer_finish(&store->writer);
    pthread_mutex_destroy(&store->lock);
    pthread_cond_destroy(&store->is_free);
    free(store);
}

static const struct backend sqlite_backend = {
    .is_postgres = false,
    .migration_lock = "", /* a writing transaction is alone already */
    .close = sqlite_close,
    .begin = sqlite_begin,
    .commit = sqlite_commit,
    .rollback = sqlite_rollback,
    .run = sqlite_run,
    .script = sqlite_script,
    .notify = sqlite_notify,
    .listen = sqlite_listen,
    .notifications = sqlite_notifications,
};

/* Before SQLite does, which would let everyone on the host read it. */
static bool create_private(const char *path, struct error *err)
{
    AUTO_FD int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);

    return fd >= 0 || error_errno(err, "open the database %s", path);
}

static bool open_connections(struct sqlite_store *store, const struct store_config *config,
                             const char *path, struct error *err)
{
    if (!writer_init(&store->writer, path, config->busy_ms, err))
        return false;
    store->readers = alloc((size_t)config->readers * sizeof *store->readers);
    while (store->n_readers < (size_t)config->readers) {
        struct sqlite_connection *reader = &store->readers[store->n_readers++];

        *reader = (struct sqlite_connection){.next = store->free_readers};
        store->free_readers = reader;
        if (!sqlite_connection_open(reader, path, TX_READ, config->busy_ms, err))
            return false;
    }
    return true;
}

bool sqlite_store_open(const struct store_config *config, const char *path, struct store **store,
                       struct error *err)
{
    if (path[0] == '\0')
        return error_set(err, ERR_INVALID, "sqlite: needs the path of a file");
    if (!create_private(path, err))
        return false;

    struct sqlite_store *opened = alloc(sizeof *opened);

    *opened = (struct sqlite_store){.store.backend = &sqlite_backend};
    pthread_mutex_init(&opened->lock, NULL);
    pthread_cond_init(&opened->is_free, NULL);
    if (!open_connections(opened, config, path, err)) {
        sqlite_close(&opened->store);
        return error_wrap(err, "open the database %s", path);
    }
    *store = &opened->store;
    return true;
}
