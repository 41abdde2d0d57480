#include "http/tls.h"

#include <openssl/pem.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "base/file.h"
#include "base/own.h"
#include "base/test.h"
#include "http/tls_testing.h"

/* The files behind TLS; what is spoken with them is tested by transport_test. */

static char folder[40];

static char *path_of(const char *name)
{
    static char paths[4][80];
    static size_t next;
    char *path = paths[next++ % COUNT_OF(paths)];

    snprintf(path, sizeof paths[0], "%s/%s", folder, name);
    return path;
}

static bool create(const char *certificate, const char *key, struct tls **tls, struct error *err)
{
    return tls_create(&(struct tls_files){.certificate = path_of(certificate),
                                          .key = path_of(key),
                                          .certificate_setting = "THE_CERTIFICATE",
                                          .key_setting = "THE_KEY"},
                      tls, err);
}

static void write_locked_key(void)
{
    EVP_PKEY *key = EVP_EC_gen("P-256");
    FILE *file = fopen(path_of("locked.key"), "we");

    if (!key || !file || fchmod(fileno(file), 0600) < 0 ||
        PEM_write_PrivateKey(file, key, EVP_aes_128_cbc(), (const unsigned char *)"word", 4, NULL,
                             NULL) != 1)
        abort();
    (void)fclose(file);
    EVP_PKEY_free(key);
}

TEST(files_that_cannot_serve_are_refused_by_name)
{
    static const struct {
        const char *certificate, *key, *want, *also;
    } rows[] = {
        {"none.pem",  "first.key",  "THE_CERTIFICATE", "No such"   },
        {"first.key", "first.key",  "THE_CERTIFICATE", ""          },
        {"first.pem", "none.key",   "THE_KEY",         ""          },
        {"first.pem", "first.pem",  "THE_KEY",         "chmod"     },
        {"first.pem", "second.key", "THE_KEY",         "not that"  },
        {"first.pem", "locked.key", "THE_KEY",         "passphrase"},
        {"first.pem", "open.key",   "THE_KEY",         "chmod"     },
    };
    AUTO_FREE char *text = NULL;
    struct tls *tls = NULL;
    struct error err;

    tls_testing_make(folder, "first");
    tls_testing_make(folder, "second");
    CHECK(file_read(path_of("first.key"), KIB(64), &text, &err));
    CHECK(file_publish(path_of("open.key"), str_of(text), 0644, &err));
    CHECK(chmod(path_of("open.key"), 0644) == 0 && chmod(path_of("first.pem"), 0644) == 0);
    write_locked_key();
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        CHECK(!create(rows[i].certificate, rows[i].key, &tls, &err));
        CHECK(strncmp(err.text, rows[i].want, strlen(rows[i].want)) == 0);
        CHECK(strstr(err.text, rows[i].also));
    }
}

/* The serial number of the certificate that a new session shows; 0: there was no session. */
static uint64_t serial_of(const struct tls *tls)
{
    SSL_CTX *blind = SSL_CTX_new(TLS_client_method());
    uint64_t serial = 0;
    int pair[2];

    if (!blind || socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair) < 0)
        abort();

    SSL *ssl = tls_testing_session(blind, pair[0]);
    struct tls_session *session = tls_session_create(tls, pair[1]);

    for (int i = 0; i < 10; i++) {
        SSL_do_handshake(ssl);
        tls_handshake(session);
    }

    X509 *shown = SSL_get0_peer_certificate(ssl);

    if (shown)
        ASN1_INTEGER_get_uint64(&serial, X509_get0_serialNumber(shown));
    tls_session_destroy(session);
    SSL_free(ssl);
    SSL_CTX_free(blind);
    close(pair[0]);
    close(pair[1]);
    return serial;
}

TEST(renewed_files_are_used_and_bad_ones_are_not)
{
    struct tls *tls = NULL;
    struct error err;

    tls_testing_make(folder, "live");
    tls_testing_make(folder, "second");
    CHECK(create("live.pem", "live.key", &tls, &err));

    uint64_t first = serial_of(tls);

    CHECK(first != 0);
    CHECK(!tls_refresh(tls, true));
    CHECK(rename(path_of("second.pem"), path_of("live.pem")) == 0);
    CHECK(!tls_refresh(tls, true) && serial_of(tls) == first);
    CHECK(rename(path_of("second.key"), path_of("live.key")) == 0);
    CHECK(tls_refresh(tls, true));

    uint64_t second = serial_of(tls);

    CHECK(second != 0 && second != first);
    CHECK(unlink(path_of("live.pem")) == 0);
    CHECK(!tls_refresh(tls, true) && serial_of(tls) == second);
    tls_destroy(tls);
}

int main(void)
{
    struct error err;

    snprintf(folder, sizeof folder, "/tmp/tls-test-XXXXXX");
    if (!mkdtemp(folder))
        abort();
    int status = test_run_all();
    if (!folder_remove(folder, &err))
        printf("# %s\n", err.text);
    return status;
}
