#include "http/tls.h"

#include <errno.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <pthread.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>

#include "base/log.h"
#include "base/own.h"
#include "base/time.h"

enum { LOOK_AGAIN_MS = 1000, SECURITY_LEVEL = 2, RENEW_DAYS = 14, DAY_SECONDS = 24 * 60 * 60 };

#define CIPHERS "ECDHE+AESGCM:ECDHE+CHACHA20"
#define GROUPS  "X25519:P-256:P-384"

/* What tells one state of the two files from another. */
struct stamp {
    struct {
        dev_t device;
        ino_t inode;
        off_t size;
        struct timespec changed;
    } files[2];
};

struct tls {
    SSL_CTX *context;
    char *certificate, *key;
    const char *certificate_setting, *key_setting;
    struct stamp stamp; /* of what was read last, good or bad */
    int64_t looked_ms;  /* boot time */
};

struct tls_session {
    SSL *ssl;
    int fd;
    bool has_failed; /* OpenSSL must not be asked for a goodbye then */
};

static BIO_METHOD *socket_method;

/* The first of the queue when the system said no, else the last: those between only pass it on. */
static const char *why(void)
{
    unsigned long first = ERR_peek_error();
    const char *reason = ERR_reason_error_string(ERR_peek_last_error());

    if (ERR_SYSTEM_ERROR(first))
        return strerror(ERR_GET_REASON(first));

    return reason ? reason : "unknown reason";
}

static int socket_read(BIO *bio, char *bytes, size_t room, size_t *len)
{
    const struct tls_session *session = BIO_get_data(bio);
    ssize_t got = recv(session->fd, bytes, room, MSG_DONTWAIT);

    BIO_clear_retry_flags(bio);
    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        BIO_set_retry_read(bio);
    if (got == 0)
        BIO_set_flags(bio, BIO_FLAGS_IN_EOF);
    *len = got > 0 ? (size_t)got : 0;
    return got > 0;
}

/* OpenSSL's own socket would let a peer that left end the process by a signal. */
static int socket_write(BIO *bio, const char *bytes, size_t room, size_t *len)
{
    const struct tls_session *session = BIO_get_data(bio);
    ssize_t sent = send(session->fd, bytes, room, MSG_DONTWAIT | MSG_NOSIGNAL);

    BIO_clear_retry_flags(bio);
    if (sent < 0 && (errno == EAGAIN || errno == EINTR))
        BIO_set_retry_write(bio);
    *len = sent > 0 ? (size_t)sent : 0;
    return sent > 0;
}

static long socket_control(BIO *bio, int command, long number UNUSED, void *pointer UNUSED)
{
    if (command == BIO_CTRL_EOF)
        return BIO_test_flags(bio, BIO_FLAGS_IN_EOF) != 0;
    return command == BIO_CTRL_FLUSH;
}

static void make_method(void)
{
    socket_method = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "socket");
    if (!socket_method || BIO_meth_set_read_ex(socket_method, socket_read) != 1 ||
        BIO_meth_set_write_ex(socket_method, socket_write) != 1 ||
        BIO_meth_set_ctrl(socket_method, socket_control) != 1)
        abort();
}

static int choose_protocol(SSL *ssl UNUSED, const unsigned char **chosen, unsigned char *len,
                           const unsigned char *offered, unsigned n_offered, void *arg UNUSED)
{
    static const unsigned char spoken[] = "\x08http/1.1";
    unsigned char *found = NULL;

    if (SSL_select_next_proto(&found, len, spoken, sizeof spoken - 1, offered, n_offered) !=
        OPENSSL_NPN_NEGOTIATED)
        return SSL_TLSEXT_ERR_ALERT_FATAL;
    *chosen = found;
    return SSL_TLSEXT_ERR_OK;
}

/* A server has nobody to ask. */
static int refuse_to_ask(char *text UNUSED, int size UNUSED, int is_writing UNUSED,
                         void *arg UNUSED)
{
    return -1;
}

static bool set_options(SSL_CTX *context, struct error *err)
{
    SSL_CTX_set_options(context, SSL_OP_NO_COMPRESSION | SSL_OP_NO_RENEGOTIATION |
                                     SSL_OP_CIPHER_SERVER_PREFERENCE | SSL_OP_PRIORITIZE_CHACHA |
                                     SSL_OP_NO_TICKET | SSL_OP_IGNORE_UNEXPECTED_EOF);
    SSL_CTX_set_mode(context, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
                                  SSL_MODE_RELEASE_BUFFERS);
    SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
    SSL_CTX_set_security_level(context, SECURITY_LEVEL);
    SSL_CTX_set_default_passwd_cb(context, refuse_to_ask);
    SSL_CTX_set_alpn_select_cb(context, choose_protocol, NULL);
    if (SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION) != 1 ||
        SSL_CTX_set_num_tickets(context, 0) != 1 ||
        SSL_CTX_set_cipher_list(context, CIPHERS) != 1 ||
        SSL_CTX_set1_groups_list(context, GROUPS) != 1)
        return error_set(err, ERR_INTERNAL, "setting up TLS: %s", why());
    return true;
}

static bool check_key_mode(const struct tls *tls, struct error *err)
{
    struct stat about;

    if (stat(tls->key, &about) < 0)
        return error_errno(err, "%s: %s", tls->key_setting, tls->key);
    if (about.st_mode & (S_IROTH | S_IWOTH))
        return error_set(err, ERR_INVALID,
                         "%s: everybody on this machine may read or write %s; chmod 600 it",
                         tls->key_setting, tls->key);
    return true;
}

static bool read_files(const struct tls *tls, SSL_CTX *context, struct error *err)
{
    ERR_clear_error();
    if (SSL_CTX_use_certificate_chain_file(context, tls->certificate) != 1)
        return error_set(err, ERR_INVALID, "%s: no certificate can be read from %s: %s",
                         tls->certificate_setting, tls->certificate, why());
    if (!check_key_mode(tls, err))
        return false;
    if (SSL_CTX_use_PrivateKey_file(context, tls->key, SSL_FILETYPE_PEM) != 1)
        return ERR_GET_REASON(ERR_peek_last_error()) == X509_R_KEY_VALUES_MISMATCH
                   ? error_set(err, ERR_INVALID, "%s: the key is not that of the certificate in %s",
                               tls->key_setting, tls->certificate_setting)
                   : error_set(err, ERR_INVALID,
                               "%s: no key without a passphrase can be read from %s: %s",
                               tls->key_setting, tls->key, why());
    return true;
}

static void warn_of_end(const struct tls *tls, SSL_CTX *context)
{
    const ASN1_TIME *end = X509_get0_notAfter(SSL_CTX_get0_certificate(context));
    time_t soon = time(NULL) + (time_t)RENEW_DAYS * DAY_SECONDS;

    if (X509_cmp_current_time(end) < 0)
        log_warn("the TLS certificate has expired", LOG_STR("file", tls->certificate));
    else if (X509_cmp_time(end, &soon) < 0)
        log_warn("the TLS certificate expires soon", LOG_STR("file", tls->certificate));
}

static bool load(const struct tls *tls, SSL_CTX **context, struct error *err)
{
    SSL_CTX *made = SSL_CTX_new(TLS_server_method());

    if (!made)
        abort();
    if (!set_options(made, err) || !read_files(tls, made, err)) {
        SSL_CTX_free(made);
        return false;
    }
    warn_of_end(tls, made);
    *context = made;
    return true;
}

static struct stamp look(const struct tls *tls)
{
    const char *const paths[] = {tls->certificate, tls->key};
    struct stamp stamp;
    struct stat about;

    memset(&stamp, 0, sizeof stamp);
    for (size_t i = 0; i < COUNT_OF(paths); i++) {
        if (stat(paths[i], &about) < 0)
            continue;
        stamp.files[i].device = about.st_dev;
        stamp.files[i].inode = about.st_ino;
        stamp.files[i].size = about.st_size;
        stamp.files[i].changed = about.st_ctim;
    }
    return stamp;
}

bool tls_create(const struct tls_files *files, struct tls **tls, struct error *err)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    struct tls *made = alloc(sizeof *made);

    pthread_once(&once, make_method);
    *made = (struct tls){
        .certificate = alloc_text(files->certificate),
        .key = alloc_text(files->key),
        .certificate_setting = files->certificate_setting,
        .key_setting = files->key_setting,
        .looked_ms = time_boot_ms(),
    };
    made->stamp = look(made);
    if (!load(made, &made->context, err)) {
        tls_destroy(made);
        return false;
    }
    *tls = made;
    return true;
}

void tls_destroy(struct tls *tls)
{
    if (!tls)
        return;
    SSL_CTX_free(tls->context);
    free(tls->certificate);
    free(tls->key);
    free(tls);
}

/* The stamp is from before the reading: a change in between is seen next time. */
bool tls_refresh(struct tls *tls, bool now)
{
    SSL_CTX *context;
    struct error err;

    if (!now && time_boot_ms() - tls->looked_ms < LOOK_AGAIN_MS)
        return false;
    tls->looked_ms = time_boot_ms();

    struct stamp stamp = look(tls);

    if (memcmp(&stamp, &tls->stamp, sizeof stamp) == 0)
        return false;
    tls->stamp = stamp;
    if (!load(tls, &context, &err)) {
        log_warn("the changed TLS files are not used", LOG_ERR(&err));
        return false;
    }
    SSL_CTX_free(tls->context);
    tls->context = context;
    log_info("the changed TLS files are in use", LOG_STR("file", tls->certificate));
    return true;
}

struct tls_session *tls_session_create(const struct tls *tls, int fd)
{
    struct tls_session *session = alloc(sizeof *session);
    BIO *bio = BIO_new(socket_method);

    *session = (struct tls_session){.ssl = SSL_new(tls->context), .fd = fd};
    if (!session->ssl || !bio)
        abort();
    BIO_set_data(bio, session);
    BIO_set_init(bio, 1);
    SSL_set_bio(session->ssl, bio, bio);
    SSL_set_accept_state(session->ssl);
    return session;
}

void tls_session_destroy(struct tls_session *session)
{
    if (!session)
        return;
    SSL_free(session->ssl);
    free(session);
}

static enum tls_result outcome(struct tls_session *session, int result)
{
    int error = SSL_get_error(session->ssl, result);

    if (error == SSL_ERROR_WANT_READ)
        return TLS_WANTS_READ;
    if (error == SSL_ERROR_WANT_WRITE)
        return TLS_WANTS_WRITE;
    if (error == SSL_ERROR_ZERO_RETURN)
        return TLS_ENDED;
    session->has_failed = true;
    return TLS_BROKEN;
}

enum tls_result tls_handshake(struct tls_session *session)
{
    ERR_clear_error();

    int done = SSL_do_handshake(session->ssl);

    if (done == 1)
        return TLS_DONE;

    enum tls_result result = outcome(session, done);

    if (result == TLS_BROKEN)
        log_debug("TLS handshake failed", LOG_STR("reason", why()));
    return result;
}

enum tls_result tls_read(struct tls_session *session, char *bytes, size_t room, size_t *len)
{
    ERR_clear_error();

    int done = SSL_read_ex(session->ssl, bytes, room, len);

    return done == 1 ? TLS_DONE : outcome(session, done);
}

enum tls_result tls_write(struct tls_session *session, struct str bytes, size_t *len)
{
    ERR_clear_error();

    int done = SSL_write_ex(session->ssl, bytes.ptr, bytes.len, len);

    return done == 1 ? TLS_DONE : outcome(session, done);
}

void tls_end(struct tls_session *session)
{
    if (session->has_failed || SSL_in_init(session->ssl))
        return;
    ERR_clear_error();
    SSL_shutdown(session->ssl);
}
