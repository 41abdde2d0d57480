#include "server/listen.h"

#include "base/attr.h"
#include "base/test.h"

TEST(only_this_machine_is_loopback)
{
    static const char *const local[] = {"127.0.0.1:80", "127.9.9.9:1", "localhost:3000", "[::1]:80",
                                        "LOCALHOST"};
    static const char *const remote[] = {"0.0.0.0:80",
                                         "[::]:80",
                                         "10.0.0.1:80",
                                         "example.com",
                                         "127.0.0.1.evil.example:80",
                                         "localhost.evil.example",
                                         ""};
    for (size_t i = 0; i < COUNT_OF(local); i++)
        CHECK(listen_address_is_loopback(local[i]));
    for (size_t i = 0; i < COUNT_OF(remote); i++)
        CHECK(!listen_address_is_loopback(remote[i]));
    CHECK(listen_url_is_loopback("http://127.0.0.1:3000/x"));
    CHECK(listen_url_is_loopback("http://[::1]:3000"));
    CHECK(!listen_url_is_loopback("https://helmr.example.com/"));
}

TEST_MAIN()
