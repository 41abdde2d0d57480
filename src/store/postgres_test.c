/* What only PostgreSQL can suffer or do: lost connections, restarts, deadlocks, notifications. */
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

#include "base/own.h"
#include "store/store_suite.h"

#define POSTGRES_TEST(id)                \
    static void id(struct store *store); \
    TEST(id)                             \
    {                                    \
        fixture_run(ON_POSTGRES, id);    \
    }                                    \
    static void id(struct store *store)

/* Fails in the transaction whose connection it ends. */
static const struct query end_connection = {
    "test_end_connection", 0, 1, NULL,
    "SELECT CASE WHEN pg_terminate_backend(pg_backend_pid()) THEN 1 ELSE 0 END"};

static const struct query end_others = {
    "test_end_others", 0, 1, NULL,
    "SELECT COUNT(pg_terminate_backend(pid)) FROM pg_stat_activity "
    "WHERE pid <> pg_backend_pid() AND backend_type = 'client backend'"};

POSTGRES_TEST(a_lost_connection_ends_its_transaction_and_no_other)
{
    AUTO_TX tx = NULL;
    struct error err;
    int64_t total;

    CHECK_OK(item_put(store, 1, &err));
    CHECK_OK(store_begin(store, &tx, &err));
    CHECK_OK(STORE(tx, &item_insert, NULL, NULL, &err, V_INT(2), V_NULL, V_NULL, V_NULL));
    CHECK(!STORE(tx, &end_connection, NULL, NULL, &err));
    CHECK(err.code == ERR_UNAVAILABLE && !store_is_retryable(&err));
    CHECK(!store_commit(&tx, &err));
    CHECK(err.code == ERR_UNAVAILABLE);

    CHECK_OK(item_put(store, 3, &err));
    CHECK_OK(item_total(store, &total, &err));
    CHECK(total == 2);
}

POSTGRES_TEST(connections_that_died_while_idle_are_replaced_without_a_word)
{
    AUTO(arena_finish) struct arena arena = {0};
    struct tx *held[4] = {0};
    AUTO_TX tx = NULL;
    struct error err = {0};
    struct rows rows;
    bool ok = true;

    for (size_t i = 0; i < COUNT_OF(held); i++)
        ok = ok && store_begin(store, &held[i], &err);
    for (size_t i = 0; i < COUNT_OF(held); i++)
        store_rollback(&held[i]);
    CHECK_OK(ok);
    CHECK_OK(store_begin(store, &tx, &err));
    CHECK_OK(STORE(tx, &end_others, &arena, &rows, &err));
    CHECK(row_int(&rows, 0, 0) >= (int64_t)COUNT_OF(held) - 1);

    /* Its own connection is the only one alive, and it is taken. */
    CHECK_OK(item_put(store, 1, &err));
}

POSTGRES_TEST(a_statement_is_prepared_once_per_connection)
{
    static const struct query count_prepared = {"test_count_prepared", 0, 1, NULL,
                                                "SELECT COUNT(*) FROM pg_prepared_statements "
                                                "WHERE name = 'test_item_insert'"};
    AUTO(arena_finish) struct arena arena = {0};
    AUTO_TX tx = NULL;
    struct error err;
    struct rows rows;

    CHECK_OK(item_put(store, 1, &err));
    CHECK_OK(item_put(store, 2, &err));
    CHECK_OK(store_begin(store, &tx, &err));
    CHECK_OK(STORE(tx, &count_prepared, &arena, &rows, &err));
    CHECK(row_int(&rows, 0, 0) == 1);
}

enum { N_THREADS = 4, ITEMS_EACH_MAX = 100000 };

struct putter {
    struct store *store;
    pthread_t thread;
    int64_t first_id;
    int n_tried;
    atomic_int n_kept, *is_over;
    bool *kept;
};

static void rest(void)
{
    nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
}

static void *put_until_over(void *arg)
{
    struct putter *putter = arg;
    struct error err;

    while (!*putter->is_over && putter->n_tried < ITEMS_EACH_MAX) {
        int i = putter->n_tried++;

        putter->kept[i] = item_put(putter->store, putter->first_id + i, &err);
        if (putter->kept[i])
            putter->n_kept++;
        else
            rest();
    }
    return NULL;
}

static int total_kept(struct putter putters[N_THREADS])
{
    int n = 0;

    for (int i = 0; i < N_THREADS; i++)
        n += putters[i].n_kept;
    return n;
}

/* Lets the threads go on until they have n more; false when they do not get there. */
static bool wait_for_more(struct putter putters[N_THREADS], int n)
{
    int wanted = total_kept(putters) + n;

    for (int i = 0; i < 60000 && total_kept(putters) < wanted; i++)
        rest();
    return total_kept(putters) >= wanted;
}

static bool all_kept_are_there(struct store *store, struct putter putters[N_THREADS],
                               struct error *err)
{
    for (int i = 0; i < N_THREADS; i++) {
        for (int j = 0; j < putters[i].n_tried; j++) {
            bool exists = true;

            if (putters[i].kept[j] && !item_exists(store, putters[i].first_id + j, &exists, err))
                return false;
            if (!exists)
                return error_set(err, ERR_INTERNAL, "item %lld was acknowledged and is not there",
                                 (long long)putters[i].first_id + j);
        }
    }
    return true;
}

static bool crash_while_writing(struct putter putters[N_THREADS], struct error *err)
{
    for (int i = 0; i < 3; i++) {
        if (!wait_for_more(putters, 50))
            return error_set(err, ERR_INTERNAL, "nothing is written any more");
        if (!postgres_fixture_stop(err) || !postgres_fixture_start(err))
            return false;
    }
    return wait_for_more(putters, 50) ||
           error_set(err, ERR_INTERNAL, "nothing is written after the restart");
}

POSTGRES_TEST(what_was_acknowledged_survives_a_crash_of_the_server)
{
    struct putter putters[N_THREADS] = {0};
    atomic_int is_over = 0;
    struct error err;

    for (int i = 0; i < N_THREADS; i++) {
        putters[i].store = store;
        putters[i].first_id = i * 1000000LL;
        putters[i].is_over = &is_over;
        putters[i].kept = calloc(ITEMS_EACH_MAX, sizeof(bool));
        CHECK(putters[i].kept != NULL);
        CHECK(pthread_create(&putters[i].thread, NULL, put_until_over, &putters[i]) == 0);
    }

    bool ok = crash_while_writing(putters, &err);

    is_over = 1;
    for (int i = 0; i < N_THREADS; i++)
        pthread_join(putters[i].thread, NULL);
    ok = ok && all_kept_are_there(store, putters, &err);
    for (int i = 0; i < N_THREADS; i++)
        free(putters[i].kept);
    CHECK_OK(ok);
}

POSTGRES_TEST(a_server_that_is_away_is_unavailable_and_welcome_back)
{
    struct error err = {0}, away = {0};

    CHECK_OK(item_put(store, 1, &err));
    CHECK_OK(postgres_fixture_stop(&err));

    bool refused = !item_put(store, 2, &away), refused_again = !item_put(store, 2, &away);

    CHECK_OK(postgres_fixture_start(&err));
    CHECK(refused && refused_again && away.code == ERR_UNAVAILABLE);

    bool ok = false;

    for (int i = 0; i < 10000 && !(ok = item_put(store, 2, &err)); i++)
        rest();
    CHECK_OK(ok);
}

struct crossing {
    struct store *store;
    pthread_t thread;
    pthread_barrier_t *both_hold_one;
    int64_t first, second;
    bool ok;
    struct error err;
};

static void *lock_two(void *arg)
{
    struct crossing *crossing = arg;
    AUTO_TX tx = NULL;
    bool has_first =
        store_begin(crossing->store, &tx, &crossing->err) &&
        STORE(tx, &counter_add, NULL, NULL, &crossing->err, V_INT(crossing->first), V_INT(1));

    pthread_barrier_wait(crossing->both_hold_one);
    crossing->ok =
        has_first &&
        STORE(tx, &counter_add, NULL, NULL, &crossing->err, V_INT(crossing->second), V_INT(1)) &&
        store_commit(&tx, &crossing->err);
    return NULL;
}

POSTGRES_TEST(a_deadlock_fails_one_of_the_two_which_may_try_again)
{
    static const struct query second_counter = {"test_second_counter", 0, 0, NULL,
                                                "INSERT INTO counters (id, count) VALUES (2, 0)"};
    pthread_barrier_t both_hold_one;
    struct crossing crossings[2] = {
        {.store = store, .both_hold_one = &both_hold_one, .first = 1, .second = 2},
        {.store = store, .both_hold_one = &both_hold_one, .first = 2, .second = 1},
    };
    AUTO_TX tx = NULL;
    struct error err;

    CHECK_OK(store_begin(store, &tx, &err));
    CHECK_OK(STORE(tx, &second_counter, NULL, NULL, &err));
    CHECK_OK(store_commit(&tx, &err));
    pthread_barrier_init(&both_hold_one, NULL, 2);
    for (size_t i = 0; i < 2; i++)
        CHECK(pthread_create(&crossings[i].thread, NULL, lock_two, &crossings[i]) == 0);
    for (size_t i = 0; i < 2; i++)
        pthread_join(crossings[i].thread, NULL);
    pthread_barrier_destroy(&both_hold_one);

    const struct crossing *loser = &crossings[crossings[0].ok ? 1 : 0];

    CHECK(crossings[0].ok != crossings[1].ok);
    CHECK(loser->err.code == ERR_CONFLICT && store_is_retryable(&loser->err));
}

static void *begin_and_release(void *arg)
{
    AUTO_TX tx = NULL;
    static struct error err;

    return store_begin(arg, &tx, &err) ? arg : NULL;
}

TEST(a_transaction_waits_for_a_connection_when_all_are_taken)
{
    AUTO(fixture_finish) struct fixture fixture = {0};
    const char *skip = NULL;
    struct store *store = NULL;
    struct tx *only = NULL;
    struct error err;
    pthread_t thread;
    void *begun = NULL;

    if (!fixture_init(&fixture, ON_POSTGRES, &skip, &err) && skip)
        SKIP(skip);
    CHECK_OK(store_open(&(struct store_config){.url = fixture.url, .pool_size = 1}, &store, &err));

    bool ok = store_begin(store, &only, &err) &&
              pthread_create(&thread, NULL, begin_and_release, store) == 0;

    rest();
    store_rollback(&only);
    if (ok)
        pthread_join(thread, &begun);
    store_close(store);
    CHECK(ok && begun);
}

struct heard {
    int n;
    char last[64];
};

static void hear(void *arg, struct str topic)
{
    struct heard *heard = arg;

    heard->n++;
    snprintf(heard->last, sizeof heard->last, "%.*s", (int)topic.len, topic.ptr);
}

static bool notify(struct store *store, const char *topic, bool keep, struct error *err)
{
    AUTO_TX tx = NULL;

    if (!store_begin(store, &tx, err) || !store_notify(tx, str_of(topic), err))
        return false;
    return !keep || store_commit(&tx, err);
}

/* Collects until something has been heard or nothing comes. */
static bool collect(struct store *store, int fd, struct heard *heard, struct error *err)
{
    struct pollfd waiting = {.fd = fd, .events = POLLIN};

    while (heard->n == 0 && poll(&waiting, 1, 10000) == 1) {
        if (!store_notifications(store, hear, heard, err))
            return false;
    }
    return true;
}

POSTGRES_TEST(a_listener_hears_what_was_committed_and_nothing_else)
{
    struct heard heard = {0};
    struct error err;
    int fd = -1;

    CHECK_OK(store_listen(store, &fd, &err));
    CHECK(fd >= 0);
    CHECK_OK(notify(store, "thrown away", false, &err));
    CHECK_OK(notify(store, "kept", true, &err));
    CHECK_OK(collect(store, fd, &heard, &err));
    CHECK(heard.n == 1);
    CHECK_STR(heard.last, "kept");
}

POSTGRES_TEST(a_listener_that_was_cut_off_is_told_and_can_listen_again)
{
    struct heard heard = {0};
    AUTO_TX tx = NULL;
    struct error err;
    int fd = -1;

    CHECK_OK(store_listen(store, &fd, &err));
    CHECK_OK(store_begin(store, &tx, &err));
    CHECK_OK(STORE(tx, &end_others, NULL, NULL, &err));
    CHECK_OK(store_commit(&tx, &err));
    CHECK(!collect(store, fd, &heard, &err));
    CHECK(err.code == ERR_UNAVAILABLE);
    CHECK_OK(store_listen(store, &fd, &err));
    CHECK_OK(notify(store, "again", true, &err));
    CHECK_OK(collect(store, fd, &heard, &err));
    CHECK_STR(heard.last, "again");
}

TEST(a_server_that_is_not_there_is_unavailable)
{
    struct store *store;
    struct error err;

    CHECK(!store_open(&(struct store_config){.url = "postgres:///x?host=/nonexistent"}, &store,
                      &err));
    CHECK(err.code == ERR_UNAVAILABLE && strstr(err.text, "/nonexistent"));
}

TEST_MAIN()
