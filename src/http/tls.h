/* TLS for accepted sockets, by OpenSSL: a certificate with its key, and a session per connection.
 *
 * TLS 1.2 and 1.3 with forward secrecy; no renegotiation, compression, resumption or early data,
 * so that nothing long-lived but the certificate's key is worth stealing. Only http/1.1 is spoken
 * inside. Files that change are read again without a restart; bad ones leave the former in use.
 * Everything belongs to the loop's thread, and nothing blocks.
 */
#pragma once

#include "base/error.h"
#include "base/str.h"

enum { TLS_RECORD_MAX = 16 * 1024 }; /* room for so much always empties what has been received */

struct tls;
struct tls_session;

struct tls_files {
    const char *certificate, *key;                 /* paths of PEM files, copied */
    const char *certificate_setting, *key_setting; /* what errors call them; static text */
};

/* ERR_INVALID names the setting that is wrong. */
bool tls_create(const struct tls_files *files, struct tls **tls, struct error *err) MUST_USE;
void tls_destroy(struct tls *tls); /* accepts NULL; sessions may outlive it */

/* Reads the files again when they are not those that were read last; at most once a second unless
 * told to look now. True when new ones are in use. */
bool tls_refresh(struct tls *tls, bool now);

enum tls_result {
    TLS_DONE,
    TLS_WANTS_READ,
    TLS_WANTS_WRITE,
    TLS_ENDED, /* the peer said goodbye, or left */
    TLS_BROKEN,
};

/* The descriptor stays the caller's. */
struct tls_session *tls_session_create(const struct tls *tls, int fd);
void tls_session_destroy(struct tls_session *session); /* accepts NULL */

enum tls_result tls_handshake(struct tls_session *session);
enum tls_result tls_read(struct tls_session *session, char *bytes, size_t room, size_t *len);
/* After TLS_WANTS_WRITE the next call must begin with the same bytes; where they are is free. */
enum tls_result tls_write(struct tls_session *session, struct str bytes, size_t *len);
/* Says goodbye, as far as the socket takes it now. */
void tls_end(struct tls_session *session);
