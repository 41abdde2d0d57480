#include "image/authorities.h"

#include "image/testing.h"

#define CERT(body)  "-----BEGIN CERTIFICATE-----\n" body "\n-----END CERTIFICATE-----\n"
#define HOST_BUNDLE CERT("AAAA\nBBBB") "# a comment\n" CERT("CCCC") CERT("DDDD\r\nEEEE")

static bool make_host(const struct testing *testing, const char *bundle)
{
    return testing_folder(testing_path(testing, "shipped")) &&
           testing_folder(testing_path(testing, "shipped/mozilla")) &&
           testing_file(testing_path(testing, "shipped/mozilla/a.crt"), CERT("AAAABBBB")) &&
           testing_file(testing_path(testing, "shipped/mozilla/b.crt"), CERT("ZZZZ")) &&
           testing_file(testing_path(testing, "bundle"), bundle);
}

TEST(only_what_no_package_brought_is_added)
{
    TESTING(t);
    AUTO(buf_finish) struct buf added = {.max = 4096};
    size_t n;

    CHECK(make_host(&t, HOST_BUNDLE));
    CHECK(authorities_find(testing_path(&t, "bundle"), testing_path(&t, "shipped"), &added, &n,
                           &t.err));
    CHECK(n == 2);
    CHECK(str_equal(buf_str(&added), STR(CERT("CCCC") CERT("DDDD\r\nEEEE"))));
}

TEST(a_host_without_a_bundle_adds_nothing)
{
    TESTING(t);
    AUTO(buf_finish) struct buf added = {.max = 4096};
    size_t n = 7;

    CHECK(authorities_find(testing_path(&t, "none"), testing_path(&t, "none"), &added, &n, &t.err));
    CHECK(n == 0 && added.len == 0);
}

TEST(a_certificate_that_never_ends_is_left_out)
{
    TESTING(t);
    AUTO(buf_finish) struct buf added = {.max = 4096};
    size_t n;

    CHECK(make_host(&t, CERT("CCCC") "-----BEGIN CERTIFICATE-----\nDDDD"));
    CHECK(authorities_find(testing_path(&t, "bundle"), testing_path(&t, "shipped"), &added, &n,
                           &t.err));
    CHECK(n == 1);
}

TEST(an_image_trusts_what_was_added)
{
    TESTING(t);
    for (const char *const *folder = (const char *const[]){"usr", "usr/local", "usr/local/share",
                                                           "etc", "etc/ssl", "etc/ssl/certs", NULL};
         *folder; folder++)
        CHECK(testing_folder(testing_path(&t, "%s", *folder)));
    CHECK(testing_file(testing_path(&t, AUTHORITIES_BUNDLE), CERT("AAAA")));
    CHECK(!authorities_are_added(t.path));
    AUTO_FD int root = open(t.path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    CHECK(authorities_trust(root, STR(CERT("CCCC") CERT("DDDD")), &t.err));
    CHECK(authorities_are_added(t.path));
    CHECK(testing_reads(testing_path(&t, AUTHORITIES_BUNDLE),
                        CERT("AAAA") CERT("CCCC") CERT("DDDD")));
    CHECK(testing_reads(testing_path(&t, "usr/local/share/ca-certificates/host-2.crt"),
                        CERT("DDDD")));
}

TEST_MAIN()
