/* What only SQLite can suffer: a lock of another process, a full disk, a failing sync, and the
 * death of the process in the middle of commits made together. */
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdatomic.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "base/own.h"
#include "store/sqlite_fault.h"
#include "store/sqlite_writer.h"
#include "store/store_suite.h"

static void auto_close_store(struct store **store)
{
    store_close(*store);
}

#define AUTO_STORE AUTO(auto_close_store) struct store *

static bool open_items(struct fixture *fixture, int busy_ms, struct store **store,
                       struct error *err)
{
    const char *skip;

    return (fixture->directory[0] || fixture_init(fixture, ON_SQLITE, &skip, err)) &&
           fixture_open(fixture, busy_ms, store, err) &&
           migrate_to(*store, fixture_migrations, n_fixture_migrations, err);
}

static const char *path_of(const struct fixture *fixture)
{
    return fixture->url + strlen("sqlite:");
}

TEST(a_database_that_another_process_has_locked_is_unavailable_until_it_lets_go)
{
    AUTO(fixture_finish) struct fixture fixture = {0};
    AUTO_STORE store = NULL;
    struct error err;
    sqlite3 *other = NULL;
    bool exists = false;

    CHECK_OK(open_items(&fixture, 50, &store, &err));
    CHECK_OK(item_put(store, 1, &err));
    CHECK(sqlite3_open(path_of(&fixture), &other) == SQLITE_OK);
    CHECK(sqlite3_exec(other, "BEGIN IMMEDIATE", NULL, NULL, NULL) == SQLITE_OK);

    bool refused = !item_put(store, 2, &err);
    enum error_code code = err.code;
    bool readable = item_exists(store, 1, &exists, &err);

    sqlite3_exec(other, "COMMIT", NULL, NULL, NULL);
    sqlite3_close(other);
    CHECK(refused && code == ERR_UNAVAILABLE);
    CHECK(readable && exists);
    CHECK_OK(item_put(store, 2, &err));
}

TEST(a_thread_that_begins_twice_is_told_instead_of_waiting_for_itself)
{
    AUTO(fixture_finish) struct fixture fixture = {0};
    AUTO_STORE store = NULL;
    AUTO_TX first = NULL;
    AUTO_TX second = NULL;
    struct error err;

    CHECK_OK(open_items(&fixture, 0, &store, &err));
    CHECK_OK(store_begin(store, &first, &err));
    CHECK(!store_begin(store, &second, &err));
    CHECK(err.code == ERR_INTERNAL);
    store_rollback(&first);
    CHECK_OK(store_begin(store, &first, &err));
}

TEST(the_database_file_is_the_owners_alone)
{
    AUTO(fixture_finish) struct fixture fixture = {0};
    AUTO_STORE store = NULL;
    struct error err;
    struct stat status;
    char wal[600];

    CHECK_OK(open_items(&fixture, 0, &store, &err));
    CHECK(stat(path_of(&fixture), &status) == 0 && (status.st_mode & 0777) == 0600);
    snprintf(wal, sizeof wal, "%s-wal", path_of(&fixture));
    CHECK(stat(wal, &status) == 0 && (status.st_mode & 0777) == 0600);
}

static void fill_until_refused(struct store *store, int64_t *n_kept, struct error *err)
{
    static const char block[65536] = {'x'};
    struct str bytes = {block, sizeof block};

    for (;; ++*n_kept) {
        AUTO_TX tx = NULL;

        if (!store_begin(store, &tx, err) ||
            !STORE(tx, &item_insert, NULL, NULL, err, V_INT(*n_kept), V_NULL, V_NULL,
                   V_BYTES(bytes)) ||
            !store_commit(&tx, err))
            return;
    }
}

/* On a file system of 4 MiB of its own. */
static void fill_disk(struct fixture *fixture)
{
    struct error err = {0};
    int64_t n_kept = 0, total = -1;

    {
        AUTO_STORE store = NULL;

        CHECK_OK(open_items(fixture, 0, &store, &err));
        fill_until_refused(store, &n_kept, &err);
        CHECK(n_kept > 1);
        CHECK(err.code == ERR_UNAVAILABLE && strstr(err.text, "disk is full"));
        CHECK_OK(item_total(store, &total, &err));
        CHECK(total == n_kept);

        /* Space again: the same store goes on. */
        CHECK(mount(NULL, fixture->directory, NULL, MS_REMOUNT, "size=64m") == 0);
        CHECK_OK(item_put(store, 1000000, &err));
    }
    {
        AUTO_STORE store = NULL;

        CHECK_OK(open_items(fixture, 0, &store, &err));
        CHECK_OK(item_total(store, &total, &err));
        CHECK(total == n_kept + 1);
    }
}

/* In a mount namespace of its own, so that nothing is left behind whatever happens. */
static bool mount_small_disk(const char *directory)
{
    return unshare(CLONE_NEWNS) == 0 && mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 &&
           mount("none", directory, "tmpfs", MS_NODEV, "size=4m") == 0;
}

TEST(a_full_disk_is_survived_with_all_that_was_acknowledged)
{
    AUTO(fixture_finish) struct fixture fixture = {0};
    const char *skip;
    struct error err;

    CHECK_OK(fixture_init(&fixture, ON_SQLITE, &skip, &err));
    if (!mount_small_disk(fixture.directory))
        SKIP("a small file system cannot be mounted here");
    fill_disk(&fixture);
    umount2(fixture.directory, MNT_DETACH);
}

enum { N_THREADS = 8 };

/* Threads that put items of their own numbers and remember which were acknowledged. */
struct putter {
    struct store *store;
    pthread_t thread;
    int64_t first_id;
    int n_rounds;
    bool kept[512];
    int ack_fd;
};

static void *put_many(void *arg)
{
    struct putter *putter = arg;
    struct error err;

    for (int i = 0; i < putter->n_rounds; i++)
        putter->kept[i] = item_put(putter->store, putter->first_id + i, &err);
    return NULL;
}

static void start_putters(struct putter putters[N_THREADS], struct store *store, int64_t first_id,
                          int n_rounds, void *body(void *))
{
    for (int i = 0; i < N_THREADS; i++) {
        putters[i].store = store;
        putters[i].first_id = first_id + i * INT64_C(1000);
        putters[i].n_rounds = n_rounds;
        if (pthread_create(&putters[i].thread, NULL, body, &putters[i]) != 0)
            abort();
    }
}

static void join_putters(struct putter putters[N_THREADS])
{
    for (int i = 0; i < N_THREADS; i++)
        pthread_join(putters[i].thread, NULL);
}

/* True when every item is there exactly if it was acknowledged. */
static bool kept_is_true(struct store *store, const struct putter putters[N_THREADS])
{
    for (int i = 0; i < N_THREADS; i++) {
        for (int round = 0; round < putters[i].n_rounds; round++) {
            struct error err;
            bool exists;

            if (!item_exists(store, putters[i].first_id + round, &exists, &err)) {
                printf("# %s\n", err.text);
                return false;
            }
            if (exists != putters[i].kept[round]) {
                printf("# item %lld: acknowledged %d, there %d\n",
                       (long long)putters[i].first_id + round, putters[i].kept[round], exists);
                return false;
            }
        }
    }
    return true;
}

static int count_kept(const struct putter putters[N_THREADS])
{
    int n = 0;

    for (int i = 0; i < N_THREADS; i++) {
        for (int round = 0; round < putters[i].n_rounds; round++)
            n += putters[i].kept[round];
    }
    return n;
}

/* The Nth write or sync of concurrent commits fails: what was acknowledged is there, what was
 * refused is not, and the same store works on when the trouble is over. */
static void fail_at(enum fault_kind kind, int nth)
{
    AUTO(fixture_finish) struct fixture fixture = {0};
    AUTO_STORE store = NULL;
    struct putter putters[N_THREADS] = {0};
    struct error err;
    int64_t total, total_again;

    CHECK_OK(open_items(&fixture, 0, &store, &err));
    sqlite_fault_set(kind, nth, 3);
    start_putters(putters, store, 0, 10, put_many);
    join_putters(putters);

    int n_faults = sqlite_fault_clear();

    CHECK(n_faults > 0);
    CHECK(count_kept(putters) < N_THREADS * 10);
    CHECK(kept_is_true(store, putters));
    CHECK_OK(item_put(store, 1000000, &err));
    CHECK_OK(item_total(store, &total, &err));
    store_close(TAKE(store));

    CHECK_OK(open_items(&fixture, 0, &store, &err));
    CHECK_OK(item_total(store, &total_again, &err));
    CHECK(total == total_again && total == count_kept(putters) + 1);
    CHECK(kept_is_true(store, putters));
}

TEST(a_write_that_fails_takes_only_what_was_not_acknowledged)
{
    sqlite_fault_install();
    for (int nth = 1; nth <= 12 && !test_failed; nth++) {
        fail_at(FAULT_WRITE_FULL, nth);
        fail_at(FAULT_WRITE_ERROR, nth);
    }
}

TEST(a_sync_that_fails_takes_only_what_was_not_acknowledged)
{
    sqlite_fault_install();
    for (int nth = 1; nth <= 8 && !test_failed; nth++)
        fail_at(FAULT_SYNC_ERROR, nth);
}

static int count_commit(void *arg)
{
    atomic_fetch_add((atomic_int *)arg, 1);
    return 0;
}

struct member {
    struct writer *writer;
    pthread_t thread;
    int64_t id;
    bool rolls_back, ok;
};

static void *work_as_member(void *arg)
{
    struct member *member = arg;
    struct error err = {0};
    const struct value params[] = {V_INT(member->id), V_NULL, V_NULL, V_NULL};

    if (!writer_begin(member->writer, &err) ||
        !sqlite_connection_run(&member->writer->connection, &item_insert, params, NULL, NULL, &err))
        return NULL;
    if (member->rolls_back)
        writer_rollback(member->writer, &err);
    else
        member->ok = writer_commit(member->writer, &err);
    return NULL;
}

/* How many threads wait for their turn. */
static int count_waiting(struct writer *writer)
{
    int n = 0;

    pthread_mutex_lock(&writer->lock);
    for (struct writer_turn *turn = writer->first; turn; turn = turn->next)
        n++;
    pthread_mutex_unlock(&writer->lock);
    return n;
}

static void start_members(struct member *members, size_t n, struct writer *writer)
{
    for (size_t i = 0; i < n; i++) {
        members[i].writer = writer;
        members[i].id = (int64_t)i;
        if (pthread_create(&members[i].thread, NULL, work_as_member, &members[i]) != 0)
            abort();
    }
    while (count_waiting(writer) < (int)n)
        sched_yield();
}

/* Six that come while a seventh works: one COMMIT for all, and two throw theirs away. */
TEST(commits_that_come_together_are_one_and_a_rollback_among_them_is_its_own)
{
    AUTO(fixture_finish) struct fixture fixture = {0};
    AUTO_STORE store = NULL;
    struct writer writer;
    struct member members[6] = {[2] = {.rolls_back = true}, [5] = {.rolls_back = true}};
    atomic_int n_commits = 0;
    struct error err;

    CHECK_OK(open_items(&fixture, 0, &store, &err));
    CHECK_OK(writer_init(&writer, path_of(&fixture), 1000, &err));
    writer.delay_max_ns = INT64_MAX;
    sqlite3_commit_hook(writer.connection.db, count_commit, &n_commits);
    CHECK_OK(writer_begin(&writer, &err));
    start_members(members, COUNT_OF(members), &writer);

    bool ok = writer_commit(&writer, &err);

    for (size_t i = 0; i < COUNT_OF(members); i++)
        pthread_join(members[i].thread, NULL);
    writer_finish(&writer);
    CHECK_OK(ok);
    CHECK(n_commits == 1);
    for (size_t i = 0; i < COUNT_OF(members); i++) {
        bool exists;

        CHECK_OK(item_exists(store, (int64_t)i, &exists, &err));
        CHECK(members[i].ok == !members[i].rolls_back && exists == members[i].ok);
    }
}

static int refuse_commit(void *arg)
{
    return count_commit(arg) == 0;
}

TEST(a_commit_that_fails_fails_for_every_member_of_the_group)
{
    AUTO(fixture_finish) struct fixture fixture = {0};
    AUTO_STORE store = NULL;
    struct writer writer;
    struct member members[5] = {0};
    atomic_int n_commits = 0;
    struct error err;
    int64_t total = -1;

    CHECK_OK(open_items(&fixture, 0, &store, &err));
    CHECK_OK(writer_init(&writer, path_of(&fixture), 1000, &err));
    writer.delay_max_ns = INT64_MAX;
    CHECK_OK(writer_begin(&writer, &err));
    start_members(members, COUNT_OF(members), &writer);
    sqlite3_commit_hook(writer.connection.db, refuse_commit, &n_commits);

    bool ok = writer_commit(&writer, &err);

    for (size_t i = 0; i < COUNT_OF(members); i++)
        pthread_join(members[i].thread, NULL);
    sqlite3_commit_hook(writer.connection.db, NULL, NULL);

    bool works_again = writer_begin(&writer, &err) && writer_commit(&writer, &err);

    writer_finish(&writer);
    CHECK(!ok && works_again);
    CHECK(n_commits == 1);
    for (size_t i = 0; i < COUNT_OF(members); i++)
        CHECK(!members[i].ok);
    CHECK_OK(item_total(store, &total, &err));
    CHECK(total == 0);
}

/* In a child that will be killed: an item is written to the pipe when it has been acknowledged. */
static void *put_and_tell(void *arg)
{
    struct putter *putter = arg;
    struct error err;

    for (int64_t i = 0;; i++) {
        int64_t id = putter->first_id + i;

        if (!item_put(putter->store, id, &err) ||
            write(putter->ack_fd, &id, sizeof id) != sizeof id)
            _exit(1);
    }
}

static pid_t start_child(struct fixture *fixture, int ack_fd, int64_t first_id)
{
    pid_t child = fork();

    if (child != 0)
        return child;

    struct putter *putters = calloc(N_THREADS, sizeof *putters);
    struct store *store;
    struct error err;

    if (!putters || !open_items(fixture, 0, &store, &err))
        _exit(1);
    for (int i = 0; i < N_THREADS; i++) {
        putters[i] = (struct putter){.store = store,
                                     .first_id = first_id + i * INT64_C(100000),
                                     .ack_fd = ack_fd};
        if (pthread_create(&putters[i].thread, NULL, put_and_tell, &putters[i]) != 0)
            _exit(1);
    }
    for (;;)
        pause();
}

enum { ACKS_MAX = 1000000 };

/* Kills the child after n acknowledgements, then reads those still in the pipe. */
static bool acknowledged_survive(struct fixture *fixture, int round, int n_before)
{
    int ends[2], n_acks = 0, status;
    static int64_t ids[ACKS_MAX];
    int64_t id;
    bool ok = pipe(ends) == 0;
    pid_t child = ok ? start_child(fixture, ends[1], round * 10000000LL) : -1;

    if (child < 0)
        return false;
    close(ends[1]);
    while (n_acks < ACKS_MAX && read(ends[0], &id, sizeof id) == sizeof id) {
        ids[n_acks++] = id;
        if (n_acks == n_before)
            kill(child, SIGKILL);
    }
    close(ends[0]);
    waitpid(child, &status, 0);
    ok = WIFSIGNALED(status) && n_acks >= n_before;

    AUTO_STORE store = NULL;
    struct error err;

    ok = ok && open_items(fixture, 0, &store, &err);
    for (int i = 0; ok && i < n_acks; i++) {
        bool exists = false;

        ok = item_exists(store, ids[i], &exists, &err) && exists;
    }
    return ok;
}

TEST(what_was_acknowledged_survives_kill_9)
{
    AUTO(fixture_finish) struct fixture fixture = {0};
    const char *skip;
    struct error err;

    CHECK_OK(fixture_init(&fixture, ON_SQLITE, &skip, &err));
    for (int round = 0; round < 10; round++)
        CHECK(acknowledged_survive(&fixture, round, 20 + round * 37));
}

TEST_MAIN()
