#include "http/peer.h"

#include "base/own.h"
#include "base/test.h"
#include "http/request.h"

static const char *show(const char *text)
{
    static char shown[ADDRESS_TEXT];
    struct address address;

    if (!address_parse(str_of(text), &address))
        return "refused";
    address_format(&address, shown);
    return shown;
}

TEST(an_address_is_read_with_and_without_a_port)
{
    static const struct {
        const char *text, *want;
    } rows[] = {
        {"192.0.2.1",           "192.0.2.1"  },
        {"192.0.2.1:8080",      "192.0.2.1"  },
        {"::ffff:192.0.2.1",    "192.0.2.1"  },
        {"2001:DB8::1",         "2001:db8::1"},
        {"[2001:db8::1]",       "2001:db8::1"},
        {"[2001:db8::1]:443",   "2001:db8::1"},
        {"",                    "refused"    },
        {"unknown",             "refused"    },
        {"192.0.2",             "refused"    },
        {"192.0.2.1:",          "refused"    },
        {"192.0.2.1:x",         "refused"    },
        {"192.0.2.1:123456",    "refused"    },
        {"[192.0.2.1]",         "refused"    },
        {"[2001:db8::1",        "refused"    },
        {"[2001:db8::1]443",    "refused"    },
        {"192.0.2.1 192.0.2.2", "refused"    },
        {"fe80::1%lo",          "refused"    },
        {"1.2.3.4, 5.6.7.8",    "refused"    },
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++)
        CHECK_STR(show(rows[i].text), rows[i].want);
}

TEST(loopback_is_127_and_one)
{
    static const struct {
        const char *text;
        bool want;
    } rows[] = {
        {"127.0.0.1",        true },
        {"127.255.0.9",      true },
        {"::1",              true },
        {"::ffff:127.0.0.1", true },
        {"128.0.0.1",        false},
        {"::2",              false},
        {"10.0.0.127",       false},
    };
    struct address address;

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        CHECK(address_parse(str_of(rows[i].text), &address));
        CHECK(address_is_loopback(&address) == rows[i].want);
    }
}

TEST(a_client_of_ipv6_has_its_whole_64)
{
    struct address address, network;
    char text[ADDRESS_TEXT];

    CHECK(address_parse(STR("2001:db8:1:2:3:4:5:6"), &address));
    network = address_network(&address);
    address_format(&network, text);
    CHECK_STR(text, "2001:db8:1:2::");
    CHECK(address_parse(STR("192.0.2.9"), &address));
    network = address_network(&address);
    address_format(&network, text);
    CHECK_STR(text, "192.0.2.9");
    address_format(&(struct address){0}, text);
    CHECK_STR(text, "unix");
}

TEST(a_list_of_proxies_is_blocks_and_addresses)
{
    static const struct {
        const char *text;
        bool want;
    } rows[] = {
        {"10.1.2.3",           true },
        {"10.255.255.255",     true },
        {"11.0.0.0",           false},
        {"192.0.2.7",          true },
        {"192.0.2.8",          false},
        {"2001:db8:0:7fff::1", true },
        {"2001:db8:0:8000::1", false},
        {"::1",                true },
        {"::2",                false},
    };
    struct proxies proxies;
    struct address address;
    struct error err;

    CHECK(proxies_parse("10.0.0.0/8, 192.0.2.7,2001:db8::/49 ,::1/128", &proxies, &err));
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        CHECK(address_parse(str_of(rows[i].text), &address));
        CHECK(proxies_have(&proxies, &address) == rows[i].want);
    }
    CHECK(proxies_parse("0.0.0.0/0", &proxies, &err));
    CHECK(address_parse(STR("203.0.113.1"), &address) && proxies_have(&proxies, &address));
    CHECK(address_parse(STR("2001:db8::1"), &address) && !proxies_have(&proxies, &address));
}

TEST(a_bad_list_of_proxies_is_refused)
{
    static const char *const lists[] = {
        "",           ",",     "10.0.0.0/33", "::/129",      "10.0.0.0/",
        "10.0.0.0/x", "proxy", "10.0.0.0/8,", "10.0.0.0/-1", "10.0.0.0/8 192.0.2.1"};
    struct proxies proxies;
    struct error err;

    for (size_t i = 0; i < COUNT_OF(lists); i++)
        CHECK(!proxies_parse(lists[i], &proxies, &err));
}

/* The address found behind proxies in 10/8 when one of them hands this over. */
static struct forwarded hear(const char *head)
{
    static struct request_parser *parser;
    struct proxies proxies;
    struct address proxy;
    struct error err;
    size_t used;

    request_parser_destroy(parser);
    parser = request_parser_create();
    if (!proxies_parse("10.0.0.0/8", &proxies, &err) || !address_parse(STR("10.0.0.1"), &proxy) ||
        !request_parser_feed(parser, str_of(head), &used, &err))
        abort();
    return peer_forwarded(&proxies, &proxy, request_parser_request(parser));
}

#define HEAD(lines) "GET / HTTP/1.1\r\nHost: h\r\n" lines "\r\n"

TEST(what_a_client_writes_itself_is_not_believed)
{
    static const struct {
        const char *head, *want;
    } rows[] = {
        {HEAD(""),                                                                        "10.0.0.1"    },
        {HEAD("X-Forwarded-For: 203.0.113.5\r\n"),                                        "203.0.113.5" },
        {HEAD("X-Forwarded-For: 127.0.0.1, 203.0.113.5\r\n"),                             "203.0.113.5" },
        {HEAD("X-Forwarded-For: 127.0.0.1\r\nX-Forwarded-For: 203.0.113.5\r\n"),          "203.0.113.5" },
        {HEAD("X-Forwarded-For: 127.0.0.1, 203.0.113.5, 10.0.0.2\r\n"),                   "203.0.113.5" },
        {HEAD("X-Forwarded-For: 203.0.113.5, 10.0.0.3\r\nX-FORWARDED-FOR: 10.0.0.2\r\n"),
         "203.0.113.5"                                                                                  },
        {HEAD("X-Forwarded-For: 10.9.9.9, 10.0.0.2\r\n"),                                 "10.9.9.9"    },
        {HEAD("X-Forwarded-For: 203.0.113.5, unknown, 10.0.0.2\r\n"),                     "10.0.0.2"    },
        {HEAD("X-Forwarded-For: 203.0.113.5,\r\n"),                                       "10.0.0.1"    },
        {HEAD("X-Forwarded-For:\r\n"),                                                    "10.0.0.1"    },
        {HEAD("X-Real-IP: 203.0.113.5\r\nForwarded: for=203.0.113.5\r\n"),                "10.0.0.1"    },
        {HEAD("X-Forwarded-For: 198.51.100.1:4711\r\n"),                                  "198.51.100.1"},
    };
    char text[ADDRESS_TEXT];

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct forwarded said = hear(rows[i].head);

        address_format(&said.client, text);
        CHECK_STR(text, rows[i].want);
    }
}

TEST(the_nearest_proxy_tells_scheme_and_host)
{
    struct forwarded said =
        hear(HEAD("X-Forwarded-Proto: https\r\nX-Forwarded-Host: a.example\r\n"));

    CHECK(said.has_proto && said.is_https && str_equal(said.host, STR("a.example")));
    said = hear(HEAD("X-Forwarded-Proto: https, http\r\n"));
    CHECK(said.has_proto && !said.is_https && said.host.len == 0);
    said = hear(HEAD("X-Forwarded-Proto: https\r\nX-Forwarded-Proto: http\r\n"));
    CHECK(said.has_proto && !said.is_https);
    said = hear(HEAD("X-Forwarded-Host: evil.example/path\r\n"));
    CHECK(!said.has_proto && said.host.len == 0);
}

TEST_MAIN()
