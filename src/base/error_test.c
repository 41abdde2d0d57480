#include "base/error.h"

#include <errno.h>
#include <stdlib.h>

#include "base/test.h"

TEST(errno_becomes_part_of_the_sentence)
{
    struct error err;

    errno = EACCES;
    CHECK(!error_errno(&err, "open %s", "/dev/kvm"));
    CHECK(err.sys == EACCES && err.code == ERR_INTERNAL);
    CHECK_STR(err.text, "open /dev/kvm: Permission denied");
}

TEST(what_does_not_exist_is_not_found)
{
    struct error err;

    errno = ENOENT;
    CHECK(!error_errno(&err, "open x"));
    CHECK(err.code == ERR_NOT_FOUND);
}

TEST(context_is_put_in_front_on_the_way_up)
{
    struct error err;

    error_set(&err, ERR_TIMEOUT, "no answer in %d ms", 5);
    CHECK(!error_wrap(&err, "starting %s", "the guest"));
    CHECK(err.code == ERR_TIMEOUT);
    CHECK_STR(err.text, "starting the guest: no answer in 5 ms");
}

TEST(a_long_sentence_is_cut_and_never_overruns)
{
    struct error err;
    char lengthy[2000];

    memset(lengthy, 'x', sizeof lengthy - 1);
    lengthy[sizeof lengthy - 1] = '\0';
    error_set(&err, ERR_INVALID, "%s", lengthy);
    error_wrap(&err, "%s", lengthy);
    CHECK(strlen(err.text) == sizeof err.text - 1);
}

TEST(every_code_has_a_wire_name_and_an_http_status)
{
    static const enum error_code codes[] = {
#define ERROR_CODE(name, wire, http) ERR_##name,
#include "base/error_codes.def"
#undef ERROR_CODE
    };

    for (size_t i = 0; i < COUNT_OF(codes); i++) {
        CHECK(error_wire_name(codes[i])[0] != '\0');
        CHECK(error_http_status(codes[i]) >= 400 && error_http_status(codes[i]) <= 599);
        for (size_t j = 0; j < i; j++)
            CHECK(strcmp(error_wire_name(codes[i]), error_wire_name(codes[j])) != 0);
    }
}

TEST_MAIN()
