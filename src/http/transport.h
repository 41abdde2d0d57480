/* The bytes of one accepted socket, in the clear or inside TLS, without blocking.
 *
 * A TLS session is made when the first byte comes, so a silent client costs a socket only. With
 * room for TLS_RECORD_MAX nothing stays behind in the session: the socket alone tells whether
 * there is more.
 */
#pragma once

#include <sys/uio.h>

#include "http/tls.h"

struct transport {
    int fd;
    struct tls *tls; /* of the listener; NULL: in the clear */
    struct tls_session *session;
};

enum transport_result {
    TRANSPORT_MOVED,
    TRANSPORT_BLOCKED_READ,  /* until the socket can be read */
    TRANSPORT_BLOCKED_WRITE, /* until it can be written */
    TRANSPORT_OVER,          /* ended or broken */
    TRANSPORT_IN_CLEAR,      /* of a handshake: the client speaks HTTP */
};

/* TRANSPORT_MOVED when it is complete. */
enum transport_result transport_handshake(struct transport *transport);

enum transport_result transport_read(struct transport *transport, char *bytes, size_t room,
                                     size_t *len);

/* Some of the parts. After TRANSPORT_BLOCKED_WRITE they must begin with the same bytes again. */
enum transport_result transport_write(struct transport *transport, struct iovec *parts, size_t n,
                                      size_t *len);

/* Nothing more will be written; what the client still sends can be read with transport_drop. */
bool transport_shut(struct transport *transport);
/* Reads what comes late and forgets it, without looking into it. */
enum transport_result transport_drop(struct transport *transport, char *scratch, size_t room);
/* A client that vanished without a word is noticed within a minute, also when nobody says anything.
 */
void transport_keep_alive(struct transport *transport);
/* Says goodbye when that has a meaning in the middle of nothing. */
void transport_end(struct transport *transport);
void transport_close(struct transport *transport);
