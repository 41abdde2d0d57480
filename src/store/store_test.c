#include "store/store.h"

#include <pthread.h>

#include "base/own.h"
#include "store/store_suite.h"

enum { BIG = 16 * 1024 * 1024 };

static bool round_trip(struct store *store, int64_t id, struct value number, struct value text,
                       struct value bytes, struct arena *arena, struct rows *rows,
                       struct error *err)
{
    AUTO_TX tx = NULL;

    if (!store_begin(store, &tx, err) ||
        !STORE(tx, &item_insert, NULL, NULL, err, V_INT(id), number, text, bytes) ||
        !store_commit(&tx, err))
        return false;
    return store_begin_read(store, &tx, err) && STORE(tx, &item_get, arena, rows, err, V_INT(id)) &&
           store_commit(&tx, err);
}

STORE_TEST(a_null_comes_back_as_a_null)
{
    AUTO(arena_finish) struct arena arena = {0};
    struct rows rows;
    struct error err;
    char id[ID_TEXT];

    CHECK_OK(round_trip(store, 1, V_NULL, V_NULL, V_NULL, &arena, &rows, &err));
    CHECK(rows.n_rows == 1 && rows.n_columns == 3);
    for (size_t column = 0; column < 3; column++) {
        CHECK(row_is_null(&rows, 0, column));
        CHECK(row_int(&rows, 0, column) == 0);
        CHECK(row_str(&rows, 0, column).ptr == NULL);
        CHECK(row_text(&rows, 0, column) == NULL);
        row_id(&rows, 0, column, id);
        CHECK_STR(id, "");
    }
}

STORE_TEST(the_empty_text_is_not_null)
{
    AUTO(arena_finish) struct arena arena = {0};
    struct rows rows;
    struct error err;
    struct str nothing = {0};

    CHECK_OK(round_trip(store, 1, V_INT(0), V_STR(nothing), V_BYTES(nothing), &arena, &rows, &err));
    CHECK(!row_is_null(&rows, 0, ITEM_GET_TEXT) && !row_is_null(&rows, 0, ITEM_GET_BYTES));
    CHECK_STR(row_text(&rows, 0, ITEM_GET_TEXT), "");
    CHECK(row_str(&rows, 0, ITEM_GET_BYTES).len == 0);
}

STORE_TEST(the_ends_of_the_numbers_come_back)
{
    static const int64_t numbers[] = {INT64_MIN, INT64_MAX, -1, 0, 1};
    AUTO(arena_finish) struct arena arena = {0};
    struct rows rows;
    struct error err;

    for (size_t i = 0; i < COUNT_OF(numbers); i++) {
        CHECK_OK(round_trip(store, (int64_t)i, V_INT(numbers[i]), V_TEXT("5"), V_NULL, &arena,
                            &rows, &err));
        CHECK(row_int(&rows, 0, ITEM_GET_NUMBER) == numbers[i]);
        CHECK_STR(row_text(&rows, 0, ITEM_GET_TEXT), "5");
    }
}

STORE_TEST(bytes_come_back_with_their_zeros)
{
    AUTO(arena_finish) struct arena arena = {0};
    struct rows rows;
    struct error err;
    struct str bytes = STR("\0a\0\xff\\x00'\0");

    CHECK_OK(round_trip(store, 1, V_INT(1), V_TEXT("gr\xc3\xbc\xc3\x9f 'dich'"), V_BYTES(bytes),
                        &arena, &rows, &err));
    CHECK(str_equal(row_str(&rows, 0, ITEM_GET_BYTES), bytes));
    CHECK_STR(row_text(&rows, 0, ITEM_GET_TEXT), "gr\xc3\xbc\xc3\x9f 'dich'");
}

STORE_TEST(a_text_of_digits_stays_what_it_is_in_a_column_of_bytes)
{
    AUTO(arena_finish) struct arena arena = {0};
    struct rows rows;
    struct error err;

    CHECK_OK(round_trip(store, 1, V_INT(1), V_NULL, V_TEXT("0042"), &arena, &rows, &err));
    CHECK(str_equal(row_str(&rows, 0, ITEM_GET_BYTES), STR("0042")));
}

STORE_TEST(sixteen_mebibytes_come_back)
{
    AUTO(arena_finish) struct arena arena = {0};
    AUTO_FREE char *big = alloc(BIG), *text = alloc(BIG);
    struct rows rows;
    struct error err;

    for (size_t i = 0; i < BIG; i++) {
        big[i] = (char)(i * 7);
        text[i] = (char)('a' + i % 26);
    }

    struct str bytes = {big, BIG}, letters = {text, BIG};

    CHECK_OK(round_trip(store, 1, V_INT(1), V_STR(letters), V_BYTES(bytes), &arena, &rows, &err));
    CHECK(str_equal(row_str(&rows, 0, ITEM_GET_BYTES), bytes));
    CHECK(str_equal(row_str(&rows, 0, ITEM_GET_TEXT), letters));
}

STORE_TEST(a_text_with_a_zero_byte_or_a_half_character_is_refused)
{
    AUTO(arena_finish) struct arena arena = {0};
    struct rows rows;
    struct error err = {0};

    CHECK(!round_trip(store, 1, V_INT(1), V_STR(STR("a\0b")), V_NULL, &arena, &rows, &err));
    CHECK(err.code == ERR_INVALID);
    CHECK(!round_trip(store, 1, V_INT(1), V_TEXT("a\xc3"), V_NULL, &arena, &rows, &err));
    CHECK(err.code == ERR_INVALID);
}

STORE_TEST(a_wrong_number_of_parameters_is_refused)
{
    AUTO_TX tx = NULL;
    struct error err;

    CHECK_OK(store_begin(store, &tx, &err));
    CHECK(!STORE(tx, &item_insert, NULL, NULL, &err, V_INT(1)));
    CHECK(err.code == ERR_INTERNAL && strstr(err.text, "test_item_insert"));
}

static bool begin_and_leave(struct store *store, struct error *err)
{
    AUTO_TX tx = NULL;

    return store_begin(store, &tx, err) &&
           STORE(tx, &item_insert, NULL, NULL, err, V_INT(1), V_NULL, V_NULL, V_NULL);
}

STORE_TEST(a_transaction_that_is_left_is_rolled_back)
{
    struct error err;
    bool exists = true;

    CHECK_OK(begin_and_leave(store, &err));
    CHECK_OK(item_exists(store, 1, &exists, &err));
    CHECK(!exists);
    CHECK_OK(item_put(store, 1, &err));
    CHECK_OK(item_exists(store, 1, &exists, &err));
    CHECK(exists);
}

STORE_TEST(a_broken_constraint_is_a_conflict_that_names_itself)
{
    static const struct query child_insert = {
        "test_child_insert", 1, 0, SAME_ON_BOTH("INSERT INTO children (id, item) VALUES (1, $1)")};
    AUTO_TX tx = NULL;
    struct error err;

    CHECK_OK(item_put(store, 1, &err));
    CHECK(!item_put(store, 1, &err));
    CHECK(err.code == ERR_CONFLICT && strstr(err.text, "items"));
    CHECK(!store_is_retryable(&err));

    CHECK_OK(store_begin(store, &tx, &err));
    CHECK(!STORE(tx, &child_insert, NULL, NULL, &err, V_INT(77)) || !store_commit(&tx, &err));
    CHECK(err.code == ERR_CONFLICT);
}

STORE_TEST(nothing_of_a_transaction_with_a_failed_statement_is_kept)
{
    AUTO_TX tx = NULL;
    struct error err, again;
    int64_t total;

    CHECK_OK(item_put(store, 1, &err));
    CHECK_OK(store_begin(store, &tx, &err));
    CHECK_OK(STORE(tx, &item_insert, NULL, NULL, &err, V_INT(2), V_NULL, V_NULL, V_NULL));
    CHECK(!STORE(tx, &item_insert, NULL, NULL, &err, V_INT(1), V_NULL, V_NULL, V_NULL));
    CHECK(!STORE(tx, &item_insert, NULL, NULL, &again, V_INT(3), V_NULL, V_NULL, V_NULL));
    CHECK_STR(again.text, err.text);
    CHECK(!store_commit(&tx, &again));
    CHECK(tx == NULL);
    CHECK(again.code == ERR_CONFLICT);
    CHECK_OK(item_total(store, &total, &err));
    CHECK(total == 1);
}

STORE_TEST(changed_rows_are_counted)
{
    static const struct query update_all = {"test_update_all", 1, 0,
                                            SAME_ON_BOTH(
                                                "UPDATE items SET number = 9 WHERE id < $1")};
    static const struct query insert_quietly = {
        "test_insert_quietly", 0, 0,
        SAME_ON_BOTH("INSERT INTO items (id) VALUES (1) ON CONFLICT DO NOTHING")};
    AUTO(arena_finish) struct arena arena = {0};
    AUTO_TX tx = NULL;
    struct rows rows;
    struct error err;

    CHECK_OK(item_put(store, 1, &err));
    CHECK_OK(item_put(store, 2, &err));
    CHECK_OK(item_put(store, 3, &err));
    CHECK_OK(store_begin(store, &tx, &err));
    CHECK_OK(STORE(tx, &update_all, &arena, &rows, &err, V_INT(3)));
    CHECK(rows.n_changed == 2 && rows.n_rows == 0);
    CHECK_OK(STORE(tx, &item_get, &arena, &rows, &err, V_INT(1)));
    CHECK(rows.n_changed == 0 && row_int(&rows, 0, ITEM_GET_NUMBER) == 9);
    CHECK_OK(STORE(tx, &counter_add, &arena, &rows, &err, V_INT(1), V_INT(5)));
    CHECK(rows.n_changed == 1 && row_int(&rows, 0, 0) == 5);
    CHECK_OK(STORE(tx, &insert_quietly, &arena, &rows, &err));
    CHECK(rows.n_changed == 0);
    CHECK_OK(store_commit(&tx, &err));
}

static bool read_counter(struct tx *tx, int64_t *count, struct error *err)
{
    AUTO(arena_finish) struct arena arena = {0};
    struct rows rows;

    if (!STORE(tx, &counter_get, &arena, &rows, err, V_INT(1)))
        return false;
    *count = row_int(&rows, 0, 0);
    return true;
}

static bool add_to_counter(struct store *store, int64_t more, bool keep, struct error *err)
{
    AUTO_TX tx = NULL;

    if (!store_begin(store, &tx, err) ||
        !STORE(tx, &counter_add, NULL, NULL, err, V_INT(1), V_INT(more)))
        return false;
    return !keep || store_commit(&tx, err);
}

STORE_TEST(a_reader_sees_one_moment)
{
    AUTO_TX reader = NULL;
    struct error err;
    int64_t count = -1;

    CHECK_OK(store_begin_read(store, &reader, &err));
    CHECK_OK(read_counter(reader, &count, &err));
    CHECK(count == 0);
    CHECK_OK(add_to_counter(store, 3, true, &err));
    CHECK_OK(read_counter(reader, &count, &err));
    CHECK(count == 0);
    CHECK_OK(store_commit(&reader, &err));
    CHECK_OK(store_begin_read(store, &reader, &err));
    CHECK_OK(read_counter(reader, &count, &err));
    CHECK(count == 3);
}

STORE_TEST(a_reader_cannot_write)
{
    AUTO_TX reader = NULL;
    struct error err;
    int64_t total;

    CHECK_OK(store_begin_read(store, &reader, &err));
    CHECK(!STORE(reader, &item_insert, NULL, NULL, &err, V_INT(1), V_NULL, V_NULL, V_NULL));
    CHECK(err.code == ERR_INTERNAL);
    store_rollback(&reader);
    CHECK_OK(item_total(store, &total, &err));
    CHECK(total == 0);
}

enum { N_THREADS = 8, N_ROUNDS = 200 };

struct adder {
    struct store *store;
    pthread_t thread;
    int64_t kept; /* what the store said it has */
    struct error err;
    bool has_failed;
};

/* Every seventh transaction is thrown away: its neighbours must not notice. */
static void *add_many(void *arg)
{
    struct adder *adder = arg;

    for (int i = 0; i < N_ROUNDS && !adder->has_failed; i++) {
        bool keep = i % 7 != 0;

        if (!add_to_counter(adder->store, 1, keep, &adder->err))
            adder->has_failed = true;
        else if (keep)
            adder->kept++;
    }
    return NULL;
}

STORE_TEST(eight_threads_lose_no_increment)
{
    struct adder adders[N_THREADS] = {0};
    AUTO_TX tx = NULL;
    struct error err;
    int64_t kept = 0, count = -1;

    for (size_t i = 0; i < N_THREADS; i++) {
        adders[i].store = store;
        CHECK(pthread_create(&adders[i].thread, NULL, add_many, &adders[i]) == 0);
    }
    for (size_t i = 0; i < N_THREADS; i++) {
        pthread_join(adders[i].thread, NULL);
        kept += adders[i].kept;
    }
    for (size_t i = 0; i < N_THREADS; i++) {
        err = adders[i].err;
        CHECK_OK(!adders[i].has_failed);
    }
    CHECK_OK(store_begin_read(store, &tx, &err));
    CHECK_OK(read_counter(tx, &count, &err));
    CHECK(count == kept);
    CHECK(kept == N_THREADS * (int64_t)(N_ROUNDS - (N_ROUNDS + 6) / 7));
}

TEST(an_unknown_kind_of_database_is_refused)
{
    struct store *store;
    struct error err;

    CHECK(!store_open(&(struct store_config){.url = "mysql://x"}, &store, &err));
    CHECK(err.code == ERR_INVALID);
    CHECK(!store_open(&(struct store_config){.url = "sqlite:"}, &store, &err));
    CHECK(err.code == ERR_INVALID);
    CHECK(!store_open(&(struct store_config){.url = "sqlite:/nonexistent/x.db"}, &store, &err));
    CHECK(strstr(err.text, "/nonexistent/x.db"));
}

TEST_MAIN()
