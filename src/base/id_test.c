#include "base/id.h"

#include <pthread.h>
#include <stdlib.h>

#include "base/attr.h"
#include "base/test.h"

enum { N_THREADS = 4, N_EACH = 20000 };

static char made[N_THREADS][N_EACH][ID_TEXT];

TEST(a_fresh_id_is_a_version_7_uuid)
{
    char id[ID_TEXT], parsed[ID_TEXT];

    id_make(id);
    CHECK(strlen(id) == ID_LEN);
    CHECK(id[14] == '7' && strchr("89ab", id[19]));
    CHECK(id_parse(str_of(id), parsed));
    CHECK_STR(parsed, id);
}

static void *make_many(void *arg)
{
    char(*ids)[ID_TEXT] = arg;

    for (int i = 0; i < N_EACH; i++)
        id_make(ids[i]);
    return NULL;
}

static int by_text(const void *a, const void *b)
{
    return strcmp(a, b);
}

TEST(ids_grow_within_a_thread_and_never_repeat_across_threads)
{
    pthread_t threads[N_THREADS];

    for (int t = 0; t < N_THREADS; t++)
        CHECK(pthread_create(&threads[t], NULL, make_many, made[t]) == 0);
    for (int t = 0; t < N_THREADS; t++)
        pthread_join(threads[t], NULL);
    for (int t = 0; t < N_THREADS; t++) {
        for (int i = 1; i < N_EACH; i++)
            CHECK(strcmp(made[t][i - 1], made[t][i]) < 0);
    }

    char(*all)[ID_TEXT] = made[0];

    qsort(all, (size_t)N_THREADS * N_EACH, ID_TEXT, by_text);
    for (int i = 1; i < N_THREADS * N_EACH; i++)
        CHECK(strcmp(all[i - 1], all[i]) != 0);
}

TEST(input_is_lower_cased)
{
    char id[ID_TEXT];

    CHECK(id_parse(STR("0199AAAA-BBBB-7CCC-8DDD-EEEEFFFF0000"), id));
    CHECK_STR(id, "0199aaaa-bbbb-7ccc-8ddd-eeeeffff0000");
    CHECK_STR(id_short(id), "eeeeffff0000");
}

TEST(what_is_no_uuid_is_refused)
{
    static const char *const wrong[] = {
        "",
        "0199aaaa-bbbb-7ccc-8ddd-eeeeffff000",
        "0199aaaa-bbbb-7ccc-8ddd-eeeeffff00000",
        "0199aaaabbbb-7ccc-8ddd-eeeeffff00000",
        "0199aaaa-bbbb-7ccc-8ddd-eeeeffff000g",
        "0199aaaa-bbbb-7ccc-8ddd_eeeeffff0000",
        "{199aaaa-bbbb-7ccc-8ddd-eeeeffff000}",
    };
    char id[ID_TEXT] = "untouched";

    for (size_t i = 0; i < COUNT_OF(wrong); i++)
        CHECK(!id_parse(str_of(wrong[i]), id));
    CHECK_STR(id, "untouched");
}

TEST(an_id_survives_its_binary_form)
{
    char fresh[ID_TEXT], back[ID_TEXT];
    uint8_t bytes[ID_BYTES];

    id_make(fresh);
    id_to_bytes(fresh, bytes);
    id_from_bytes(bytes, back);
    CHECK_STR(back, fresh);
    id_to_bytes("00112233-4455-6677-8899-aabbccddeeff", bytes);
    CHECK(bytes[0] == 0 && bytes[6] == 0x66 && bytes[15] == 0xff);
}

TEST_MAIN()
