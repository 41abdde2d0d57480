/* A blocking HTTP client over libcurl with one kept-alive connection; one per thread.
 *
 * Addresses are http(s)://host:port or unix:/path/to/socket. Redirects are not followed and
 * proxies of the environment not used. A bearer crosses no network in clear text.
 */
#pragma once

#include <stdint.h>

#include "base/buf.h"
#include "base/error.h"
#include "base/secret.h"

struct http_client;

struct http_request {
    const char *method;
    const char *path; /* with its query */
    struct str body;
    const char *content_type; /* NULL: application/json when there is a body */
    int body_fd;              /* > 0: the body is this file from offset 0, body_fd_len bytes */
    uint64_t body_fd_len;
    bool body_is_stream; /* body_fd is read to its end, which is none when *abort is set by then */
    const char *const *headers; /* further "Name: value" lines, NULL-terminated, or NULL */
    int64_t timeout_ms;         /* of the whole exchange; 0: none */
    int64_t stall_ms;           /* without any byte; 0: none */
    bool is_secret;             /* the answer's bytes are wiped from the library's buffer */
    bool is_bulk;               /* large bodies: fewer and larger reads and writes */
    /* When set, body bytes of a 2xx answer go here instead of into the answer's buffer; false
     * ends the exchange without an error. */
    bool (*sink)(void *arg, struct str bytes);
    void *sink_arg;
    /* Every header of the answer, or NULL. */
    void (*on_header)(void *arg, struct str name, struct str value);
    void *on_header_arg;
    /* Upload progress, or NULL. */
    void (*progress)(void *arg, uint64_t sent, uint64_t total);
    void *progress_arg;
    const volatile bool *abort; /* when set to true the exchange ends with ERR_CANCELLED */
};

struct http_answer {
    int status;
    struct buf body;   /* .max must be set by the caller */
    bool is_untrusted; /* somebody was there, but with no certificate to believe */
};

bool http_client_create(const char *base_url, struct http_client **client,
                        struct error *err) MUST_USE;
void http_client_destroy(struct http_client *client);

/* Sent as Authorization: Bearer with every request; NULL takes it away. */
void http_client_set_bearer(struct http_client *client, const struct secret *token);

/* The PEM file of the authorities to believe instead of the system's. */
void http_client_set_authorities(struct http_client *client, const char *path);

/* Whether clear text to this host stays on this machine: localhost, 127.0.0.0/8, [::1]. */
bool http_host_is_loopback(const char *host);

/* True when an answer came, whatever its status. ERR_UNAVAILABLE: nobody answered; ERR_TIMEOUT. */
bool http_client_send(struct http_client *client, const struct http_request *request,
                      struct http_answer *answer, struct error *err) MUST_USE;
