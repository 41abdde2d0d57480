/* For tests of TLS: certificates made on the spot, and a real client behind a plain descriptor.
 *
 * A client's settings are an SSL_CTX, so that a test can ask for what a server must refuse.
 */
#pragma once

#include <openssl/ssl.h>
#include <stdbool.h>
#include <stddef.h>

/* Writes <folder>/<name>.pem and <folder>/<name>.key (0600): for localhost, signed by itself. */
void tls_testing_make(const char *folder, const char *name);

/* Believes that certificate and no other; the caller's to free. */
SSL_CTX *tls_testing_client(const char *folder, const char *name);

/* A session over the connected socket, before its handshake, that insists on localhost. */
SSL *tls_testing_session(SSL_CTX *client, int fd);

/* What is written to the descriptor arrives decrypted, what the server says can be read, and
 * closing it says goodbye; a thread in between does TLS over `wire`, which it takes, `step` bytes
 * at a time. */
int tls_testing_wrap(SSL_CTX *client, int wire, size_t step);
/* Waits for the threads whose descriptors are closed. */
void tls_testing_finish(void);
