/* What a registry does on bad days to whoever pushes: a transparent retry or a clear error, and no
 * manifest of what is not all there. */
#include "image/bad_day.h"

static bool push(struct bad_day *day)
{
    return image_push(day->test.here, &day->test.transfer, day->test.digest, day->name, day->digest,
                      &day->test.err);
}

/* Everything arrived as it was, and the manifest last. */
static bool succeeds(struct bad_day *day)
{
    if (push(day) && strcmp(day->digest, day->test.digest) == 0 && day->server.taken == 1 &&
        day->server.manifests == 1)
        return true;
    printf("# %s\n", day->test.err.text);
    return false;
}

TEST(every_fault_ends_in_a_clear_error)
{
    static const struct {
        enum fault fault;
        enum error_code code;
        const char *text;
    } rows[] = {
        {FAULT_DOWN,      ERR_INTERNAL,    "status 503"                                        },
        {FAULT_DENIED,    ERR_FORBIDDEN,   "may not be had with these credentials (status 403)"},
        {FAULT_DROP_EVER, ERR_UNAVAILABLE, "127.0.0.1:"                                        },
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        BAD_DAY(day, rows[i].fault);
        CHECK(!push(&day));
        CHECK(day.test.err.code == rows[i].code);
        CHECK(strstr(day.test.err.text, rows[i].text));
        CHECK(day.server.manifests == 0);
        set_fault(&day, FAULT_NONE);
        CHECK(succeeds(&day));
    }
}

TEST(an_upload_that_breaks_off_is_begun_anew)
{
    BAD_DAY(day, FAULT_DROP);

    CHECK(succeeds(&day));
    CHECK(day.server.uploads == 2);
}

TEST(a_busy_registry_is_asked_again)
{
    BAD_DAY(day, FAULT_BUSY);

    CHECK(succeeds(&day));
    CHECK(day.server.uploads == 1);
}

TEST_MAIN()
