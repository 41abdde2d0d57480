/* What a client is, for the files that make connections of it. Private to http/. */
#pragma once

#include <curl/curl.h>

#include "http/client.h"

enum { CLIENT_CONNECT_MS = 10000 };

struct http_client {
    CURL *curl;
    char *base;         /* scheme, host and port, without a slash at the end */
    char *socket;       /* path of a unix socket, or NULL */
    char *bearer;       /* the whole header line, or NULL */
    char *authorities;  /* path of a PEM file, or NULL: the system's */
    bool is_clear_text; /* http over a network */
};

/* How to reach the server and whom to believe; error_text has CURL_ERROR_SIZE bytes and outlives
 * the exchange. */
void client_set_connection(const struct http_client *client, CURL *curl, char *error_text);

/* False for a path that is none, and for a key that would cross a network in clear text. */
bool client_may_send(const struct http_client *client, const char *path,
                     struct error *err) MUST_USE;
bool client_has_control_byte(const char *line);

/* Why there was no answer. Returns false. */
bool client_explain(const struct http_client *client, CURLcode result, const char *error_text,
                    struct error *err);
