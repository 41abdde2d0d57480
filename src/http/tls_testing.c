#include "http/tls_testing.h"

#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/x509v3.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "base/own.h"
#include "base/str.h"

enum { PIECE = 16 * 1024, A_DAY = 24 * 60 * 60 };

/* One client: plain bytes on one side, a socket on the other. */
struct bridge {
    int plain, wire;
    SSL *ssl;
    BIO *received, *to_send;
    size_t step;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t is_less = PTHREAD_COND_INITIALIZER;
static int n_bridges;

static void must(bool ok)
{
    if (ok)
        return;
    printf("Bail out! the test's own TLS does not work\n");
    exit(1);
}

static FILE *create(const char *folder, const char *name, const char *suffix)
{
    char path[256];

    snprintf(path, sizeof path, "%s/%s.%s", folder, name, suffix);
    FILE *file = fopen(path, "we");
    must(file && fchmod(fileno(file), 0600) == 0);
    return file;
}

static void add_extension(X509 *certificate, int kind, const char *value)
{
    X509_EXTENSION *extension = X509V3_EXT_conf_nid(NULL, NULL, kind, value);

    must(extension && X509_add_ext(certificate, extension, -1) == 1);
    X509_EXTENSION_free(extension);
}

static X509 *sign(EVP_PKEY *key)
{
    X509 *certificate = X509_new();
    uint32_t serial = 0;

    must(certificate && RAND_bytes((unsigned char *)&serial, sizeof serial) == 1);
    X509_NAME *name = X509_get_subject_name(certificate);
    must(X509_set_version(certificate, X509_VERSION_3) == 1 &&
         ASN1_INTEGER_set_uint64(X509_get_serialNumber(certificate), serial) == 1 &&
         X509_gmtime_adj(X509_getm_notBefore(certificate), -A_DAY) &&
         X509_gmtime_adj(X509_getm_notAfter(certificate), 30L * A_DAY) &&
         X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC, (const unsigned char *)"localhost",
                                    -1, -1, 0) == 1 &&
         X509_set_issuer_name(certificate, name) == 1 && X509_set_pubkey(certificate, key) == 1);
    add_extension(certificate, NID_subject_alt_name, "DNS:localhost,IP:127.0.0.1");
    add_extension(certificate, NID_basic_constraints, "critical,CA:TRUE");
    must(X509_sign(certificate, key, EVP_sha256()) > 0);
    return certificate;
}

void tls_testing_make(const char *folder, const char *name)
{
    EVP_PKEY *key = EVP_EC_gen("P-256");
    must(key != NULL);
    X509 *certificate = sign(key);
    FILE *key_file = create(folder, name, "key"), *file = create(folder, name, "pem");

    must(PEM_write_PrivateKey(key_file, key, NULL, NULL, 0, NULL, NULL) == 1 &&
         PEM_write_X509(file, certificate) == 1);
    must(fclose(key_file) == 0 && fclose(file) == 0);
    X509_free(certificate);
    EVP_PKEY_free(key);
}

SSL_CTX *tls_testing_client(const char *folder, const char *name)
{
    SSL_CTX *client = SSL_CTX_new(TLS_client_method());
    char path[256];

    snprintf(path, sizeof path, "%s/%s.pem", folder, name);
    must(client && SSL_CTX_load_verify_file(client, path) == 1);
    SSL_CTX_set_verify(client, SSL_VERIFY_PEER, NULL);
    return client;
}

SSL *tls_testing_session(SSL_CTX *client, int fd)
{
    SSL *ssl = SSL_new(client);

    must(ssl && SSL_set1_host(ssl, "localhost") == 1);
    must(fd < 0 || SSL_set_fd(ssl, fd) == 1);
    SSL_set_connect_state(ssl);
    return ssl;
}

static bool send_all(int fd, const char *bytes, size_t len, size_t step)
{
    while (len > 0) {
        ssize_t sent = send(fd, bytes, len < step ? len : step, MSG_NOSIGNAL);

        if (sent <= 0)
            return false;
        bytes += sent;
        len -= (size_t)sent;
    }
    return true;
}

static bool flush(struct bridge *bridge)
{
    char bytes[PIECE];
    int len;

    while ((len = BIO_read(bridge->to_send, bytes, sizeof bytes)) > 0)
        if (!send_all(bridge->wire, bytes, (size_t)len, bridge->step))
            return false;
    return true;
}

static bool from_plain(struct bridge *bridge)
{
    char bytes[PIECE];
    ssize_t got = recv(bridge->plain, bytes, sizeof bytes, 0);
    size_t written;

    if (got <= 0) {
        SSL_shutdown(bridge->ssl);
        flush(bridge);
        return false;
    }
    return SSL_write_ex(bridge->ssl, bytes, (size_t)got, &written) == 1 && written == (size_t)got;
}

static bool from_wire(struct bridge *bridge)
{
    char bytes[PIECE];
    size_t len = 0;
    ssize_t got =
        recv(bridge->wire, bytes, bridge->step < sizeof bytes ? bridge->step : sizeof bytes, 0);

    if (got <= 0)
        return false;
    must(BIO_write(bridge->received, bytes, (int)got) == got);
    if (!SSL_is_init_finished(bridge->ssl))
        SSL_do_handshake(bridge->ssl);
    while (SSL_read_ex(bridge->ssl, bytes, sizeof bytes, &len) == 1)
        if (!send_all(bridge->plain, bytes, len, sizeof bytes))
            return false;
    return SSL_get_error(bridge->ssl, 0) == SSL_ERROR_WANT_READ;
}

static bool carry(struct bridge *bridge)
{
    bool is_ready = SSL_is_init_finished(bridge->ssl);
    struct pollfd ends[] = {
        {bridge->wire,                  POLLIN, 0},
        {is_ready ? bridge->plain : -1, POLLIN, 0}
    };

    if (!flush(bridge) || poll(ends, COUNT_OF(ends), -1) <= 0)
        return false;
    if (ends[0].revents)
        return from_wire(bridge);
    return !ends[1].revents || from_plain(bridge);
}

static void *run(void *arg)
{
    struct bridge *bridge = arg;

    SSL_do_handshake(bridge->ssl);
    while (carry(bridge))
        continue;
    close(bridge->wire);
    close(bridge->plain);
    SSL_free(bridge->ssl);
    free(bridge);
    pthread_mutex_lock(&lock);
    n_bridges--;
    pthread_cond_signal(&is_less);
    pthread_mutex_unlock(&lock);
    return NULL;
}

int tls_testing_wrap(SSL_CTX *client, int wire, size_t step)
{
    struct bridge *bridge = alloc(sizeof *bridge);
    struct timeval patience = {.tv_sec = 10};
    pthread_t thread;
    int pair[2];

    must(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0 &&
         setsockopt(pair[0], SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience) == 0);
    *bridge = (struct bridge){
        .plain = pair[1],
        .wire = wire,
        .ssl = tls_testing_session(client, -1),
        .received = BIO_new(BIO_s_mem()),
        .to_send = BIO_new(BIO_s_mem()),
        .step = step,
    };
    must(bridge->received && bridge->to_send);
    SSL_set_bio(bridge->ssl, bridge->received, bridge->to_send);
    pthread_mutex_lock(&lock);
    n_bridges++;
    pthread_mutex_unlock(&lock);
    must(pthread_create(&thread, NULL, run, bridge) == 0 && pthread_detach(thread) == 0);
    return pair[0];
}

void tls_testing_finish(void)
{
    pthread_mutex_lock(&lock);
    while (n_bridges > 0)
        pthread_cond_wait(&is_less, &lock);
    pthread_mutex_unlock(&lock);
}
