#include "http/client.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>

#include "base/own.h"
#include "base/time.h"
#include "http/client_state.h"

enum { BULK_BUFFER = 512 << 10 };

/* What one exchange tells libcurl's callbacks. */
struct transfer {
    struct http_client *client;
    const struct http_request *request;
    struct http_answer *answer;
    struct error err;
    uint64_t read_at; /* in body_fd */
    curl_off_t moved; /* bytes both ways at moved_ms */
    int64_t moved_ms;
    bool is_too_large, sink_ended, is_stalled, is_cancelled;
};

static void free_secret(char **text)
{
    if (*text)
        bytes_wipe(*text, strlen(*text));
    free(TAKE(*text));
}

static void global_init(void)
{
    if (curl_global_init(CURL_GLOBAL_DEFAULT) != 0)
        abort();
}

bool http_host_is_loopback(const char *host)
{
    return strcmp(host, "localhost") == 0 || strcmp(host, "[::1]") == 0 ||
           (strncmp(host, "127.", 4) == 0 && strspn(host, "0123456789.") == strlen(host));
}

static void free_part(char **text)
{
    curl_free(*text);
}

/* Scheme, host and perhaps a port and a path; nothing else has a place in a server's address. */
static bool check_url(CURLU *url, const char *text, bool *is_clear_text, struct error *err)
{
    AUTO(free_part) char *scheme = NULL, *host = NULL, *user = NULL, *query = NULL;

    if (curl_url_set(url, CURLUPART_URL, text, 0) != CURLUE_OK ||
        curl_url_get(url, CURLUPART_SCHEME, &scheme, 0) != CURLUE_OK ||
        curl_url_get(url, CURLUPART_HOST, &host, 0) != CURLUE_OK)
        return error_set(err, ERR_INVALID,
                         "%s is no server address; use https://host, http://host:port or "
                         "unix:/path",
                         text);
    if (strcmp(scheme, "http") != 0 && strcmp(scheme, "https") != 0)
        return error_set(err, ERR_INVALID, "%s: only http, https and unix are spoken", text);
    if (curl_url_get(url, CURLUPART_USER, &user, 0) == CURLUE_OK ||
        curl_url_get(url, CURLUPART_QUERY, &query, 0) == CURLUE_OK)
        return error_set(err, ERR_INVALID, "a server address has no user and no query");
    *is_clear_text = strcmp(scheme, "http") == 0 && !http_host_is_loopback(host);
    return true;
}

static char *copy_trimmed(const char *text)
{
    size_t len = strlen(text);

    while (len > 0 && text[len - 1] == '/')
        len--;
    char *copy = strndup(text, len);
    if (!copy)
        abort();
    return copy;
}

bool http_client_create(const char *base_url, struct http_client **client, struct error *err)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    bool is_unix = strncmp(base_url, "unix:", 5) == 0, is_clear_text = false;

    pthread_once(&once, global_init);
    if (!is_unix) {
        CURLU *url = curl_url();
        bool ok = url && check_url(url, base_url, &is_clear_text, err);

        curl_url_cleanup(url);
        if (!ok)
            return false;
    } else if (base_url[5] != '/') {
        return error_set(err, ERR_INVALID, "unix: is followed by an absolute path");
    }

    struct http_client *made = alloc(sizeof *made);

    *made = (struct http_client){
        .curl = curl_easy_init(),
        .base = copy_trimmed(is_unix ? "http://localhost" : base_url),
        .socket = is_unix ? copy_trimmed(base_url + 5) : NULL,
        .is_clear_text = is_clear_text,
    };
    if (!made->curl)
        abort();
    *client = made;
    return true;
}

void http_client_destroy(struct http_client *client)
{
    if (!client)
        return;
    curl_easy_cleanup(client->curl);
    free_secret(&client->bearer);
    free(client->base);
    free(client->socket);
    free(client->authorities);
    free(client);
}

void http_client_set_bearer(struct http_client *client, const struct secret *token)
{
    free_secret(&client->bearer);
    if (!token || !secret_is_set(token))
        return;

    struct str text = secret_reveal(token);
    size_t size = text.len + sizeof "Authorization: Bearer ";

    client->bearer = alloc(size);
    snprintf(client->bearer, size, "Authorization: Bearer %.*s", (int)text.len, text.ptr);
}

void http_client_set_authorities(struct http_client *client, const char *path)
{
    free(client->authorities);
    client->authorities = alloc_text(path);
}

static size_t on_write(char *bytes, size_t one UNUSED, size_t len, void *arg)
{
    struct transfer *transfer = arg;
    const struct http_request *request = transfer->request;
    long status = 0;

    curl_easy_getinfo(transfer->client->curl, CURLINFO_RESPONSE_CODE, &status);
    if (request->sink && status >= 200 && status < 300) {
        transfer->sink_ended = !request->sink(request->sink_arg, (struct str){bytes, len});
        return transfer->sink_ended ? 0 : len;
    }
    transfer->is_too_large =
        !buf_append(&transfer->answer->body, (struct str){bytes, len}, &transfer->err);
    if (request->is_secret)
        bytes_wipe(bytes, len);
    return transfer->is_too_large ? 0 : len;
}

static size_t on_header(char *bytes, size_t one UNUSED, size_t len, void *arg)
{
    const struct http_request *request = ((struct transfer *)arg)->request;
    struct str line = {bytes, len}, name;

    while (line.len > 0 && strchr("\r\n", line.ptr[line.len - 1]))
        line.len--;
    if (request->on_header && str_split(&line, ':', &name) && line.ptr) {
        while (line.len > 0 && line.ptr[0] == ' ')
            line = (struct str){line.ptr + 1, line.len - 1};
        request->on_header(request->on_header_arg, name, line);
    }
    return len;
}

static size_t read_stream(struct transfer *transfer, char *bytes, size_t room)
{
    const struct http_request *request = transfer->request;
    ssize_t got;

    do
        got = read(request->body_fd, bytes, room);
    while (got < 0 && errno == EINTR);
    if (got < 0 || (got == 0 && request->abort && *request->abort))
        return CURL_READFUNC_ABORT;
    transfer->read_at += (uint64_t)got;
    return (size_t)got;
}

static size_t on_read(char *bytes, size_t one, size_t len, void *arg)
{
    struct transfer *transfer = arg;
    const struct http_request *request = transfer->request;

    if (request->body_is_stream)
        return read_stream(transfer, bytes, one * len);
    uint64_t left = request->body_fd_len - transfer->read_at;
    size_t want = one * len < left ? one * len : (size_t)left;
    ssize_t got = pread(request->body_fd, bytes, want, (off_t)transfer->read_at);

    if (got < 0 || (got == 0 && want > 0))
        return CURL_READFUNC_ABORT;
    transfer->read_at += (uint64_t)got;
    return (size_t)got;
}

/* A kept-alive connection may turn out dead after some bytes; libcurl then starts over. */
static int on_seek(void *arg, curl_off_t offset, int origin)
{
    struct transfer *transfer = arg;

    if (transfer->request->body_is_stream)
        return offset == (curl_off_t)transfer->read_at ? CURL_SEEKFUNC_OK : CURL_SEEKFUNC_CANTSEEK;
    if (origin != SEEK_SET || offset < 0 || (uint64_t)offset > transfer->request->body_fd_len)
        return CURL_SEEKFUNC_CANTSEEK;
    transfer->read_at = (uint64_t)offset;
    return CURL_SEEKFUNC_OK;
}

static int on_progress(void *arg, curl_off_t down_total UNUSED, curl_off_t down,
                       curl_off_t up_total, curl_off_t up)
{
    struct transfer *transfer = arg;
    const struct http_request *request = transfer->request;
    int64_t now = time_boot_ms();

    if (request->progress && up > 0)
        request->progress(request->progress_arg, (uint64_t)up, (uint64_t)up_total);
    if (down + up != transfer->moved) {
        transfer->moved = down + up;
        transfer->moved_ms = now;
    }
    transfer->is_cancelled = request->abort && *request->abort;
    transfer->is_stalled = request->stall_ms > 0 && now - transfer->moved_ms > request->stall_ms;
    return transfer->is_cancelled || transfer->is_stalled;
}

static void add_header(struct curl_slist **list, const char *line)
{
    struct curl_slist *longer = curl_slist_append(*list, line);

    if (!longer)
        abort();
    *list = longer;
}

static void free_headers(struct curl_slist **list)
{
    for (struct curl_slist *line = *list; line; line = line->next)
        bytes_wipe(line->data, strlen(line->data));
    curl_slist_free_all(*list);
}

bool client_has_control_byte(const char *line)
{
    for (; *line; line++)
        if ((unsigned char)*line < ' ' || *line == 0x7f)
            return true;
    return false;
}

static bool collect_headers(const struct http_client *client, const struct http_request *request,
                            struct curl_slist **list, struct error *err)
{
    const char *type = request->content_type ? request->content_type : "application/json";
    char line[512];

    if (request->body.len > 0 || request->body_fd > 0) {
        if (snprintf(line, sizeof line, "Content-Type: %s", type) >= (int)sizeof line)
            return error_set(err, ERR_INVALID, "the content type is too long");
        add_header(list, line);
    }
    if (client->bearer)
        add_header(list, client->bearer);
    for (size_t i = 0; request->headers && request->headers[i]; i++)
        add_header(list, request->headers[i]);
    for (const struct curl_slist *header = *list; header; header = header->next)
        if (client_has_control_byte(header->data))
            return error_set(err, ERR_INVALID, "a header would hold a control byte");
    return true;
}

static void set_body(CURL *curl, struct transfer *transfer)
{
    const struct http_request *request = transfer->request;

    if (request->body_fd > 0) {
        curl_easy_setopt(curl, CURLOPT_UPLOAD, 1L);
        curl_easy_setopt(curl, CURLOPT_INFILESIZE_LARGE,
                         request->body_is_stream ? -1 : (curl_off_t)request->body_fd_len);
        curl_easy_setopt(curl, CURLOPT_READFUNCTION, on_read);
        curl_easy_setopt(curl, CURLOPT_READDATA, transfer);
        curl_easy_setopt(curl, CURLOPT_SEEKFUNCTION, on_seek);
        curl_easy_setopt(curl, CURLOPT_SEEKDATA, transfer);
    } else if (strcmp(request->method, "HEAD") == 0) {
        curl_easy_setopt(curl, CURLOPT_NOBODY, 1L);
    } else if (request->body.len > 0 || strcmp(request->method, "GET") != 0) {
        curl_easy_setopt(curl, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)request->body.len);
        curl_easy_setopt(curl, CURLOPT_POSTFIELDS, request->body.len ? request->body.ptr : "");
    }
    curl_easy_setopt(curl, CURLOPT_CUSTOMREQUEST, request->method);
}

/* SSL_CERT_FILE and SSL_CERT_DIR are OpenSSL's own variables, which libcurl leaves to programs. */
static void set_authorities(CURL *curl, const char *path)
{
    const char *folder = path ? NULL : getenv("SSL_CERT_DIR");

    if (!path)
        path = getenv("SSL_CERT_FILE");
    if (!path && !folder)
        return;
    curl_easy_setopt(curl, CURLOPT_CAINFO, path);
    curl_easy_setopt(curl, CURLOPT_CAPATH, folder);
}

void client_set_connection(const struct http_client *client, CURL *curl, char *error_text)
{
    curl_easy_setopt(curl, CURLOPT_UNIX_SOCKET_PATH, client->socket);
    curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(curl, CURLOPT_PROXY, "");
    curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(curl, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
    curl_easy_setopt(curl, CURLOPT_SSLVERSION, (long)CURL_SSLVERSION_TLSv1_2);
    curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, error_text);
    curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT_MS, (long)CLIENT_CONNECT_MS);
    curl_easy_setopt(curl, CURLOPT_TCP_KEEPALIVE, 1L);
    set_authorities(curl, client->authorities);
}

static void set_options(struct transfer *transfer, const char *url, struct curl_slist *headers,
                        char *error_text)
{
    const struct http_client *client = transfer->client;
    CURL *curl = client->curl;

    curl_easy_reset(curl);
    client_set_connection(client, curl, error_text);
    curl_easy_setopt(curl, CURLOPT_URL, url);
    curl_easy_setopt(curl, CURLOPT_HTTPHEADER, headers);
    curl_easy_setopt(curl, CURLOPT_TIMEOUT_MS, (long)transfer->request->timeout_ms);
    curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, on_write);
    curl_easy_setopt(curl, CURLOPT_WRITEDATA, transfer);
    curl_easy_setopt(curl, CURLOPT_HEADERFUNCTION, on_header);
    curl_easy_setopt(curl, CURLOPT_HEADERDATA, transfer);
    curl_easy_setopt(curl, CURLOPT_NOPROGRESS, 0L);
    curl_easy_setopt(curl, CURLOPT_XFERINFOFUNCTION, on_progress);
    curl_easy_setopt(curl, CURLOPT_XFERINFODATA, transfer);
    if (transfer->request->is_bulk) {
        curl_easy_setopt(curl, CURLOPT_BUFFERSIZE, (long)BULK_BUFFER);
        curl_easy_setopt(curl, CURLOPT_UPLOAD_BUFFERSIZE, (long)BULK_BUFFER);
    }
    set_body(curl, transfer);
}

/* A server that refuses an upload answers and stops reading; that is still an answer. */
static bool is_answered(CURLcode result, const struct transfer *transfer, long status)
{
    return result == CURLE_OK || transfer->sink_ended ||
           (result == CURLE_SEND_ERROR && status >= 400);
}

bool client_explain(const struct http_client *client, CURLcode result, const char *error_text,
                    struct error *err)
{
    const char *where = client->socket ? client->socket : client->base;

    if (result == CURLE_OPERATION_TIMEDOUT)
        return error_set(err, ERR_TIMEOUT, "%s did not answer in time", where);
    if (result == CURLE_PEER_FAILED_VERIFICATION) {
        error_set(err, ERR_UNAVAILABLE,
                  "%s is not trusted: %s; SSL_CERT_FILE can name its authority", where,
                  error_text[0] ? error_text : curl_easy_strerror(result));
        err->sys = EKEYREJECTED;
        return false;
    }
    return error_set(err, ERR_UNAVAILABLE, "%s: %s", where,
                     error_text[0] ? error_text : curl_easy_strerror(result));
}

static bool explain(CURLcode result, const struct transfer *transfer, const char *error_text,
                    struct error *err)
{
    const struct http_client *client = transfer->client;
    const char *where = client->socket ? client->socket : client->base;

    if (transfer->is_too_large) {
        *err = transfer->err;
        return error_wrap(err, "the answer of %s", where);
    }
    if (transfer->is_cancelled)
        return error_set(err, ERR_CANCELLED, "stopped while talking to %s", where);
    if (transfer->is_stalled)
        result = CURLE_OPERATION_TIMEDOUT;
    return client_explain(client, result, error_text, err);
}

bool client_may_send(const struct http_client *client, const char *path, struct error *err)
{
    if (client->bearer && client->is_clear_text)
        return error_set(err, ERR_INVALID,
                         "refusing to send a key in clear text to %s: use https, or a tunnel to "
                         "127.0.0.1",
                         client->base);
    if (path[0] != '/' || client_has_control_byte(path))
        return error_set(err, ERR_INVALID, "a path starts with a slash");
    return true;
}

bool http_client_send(struct http_client *client, const struct http_request *request,
                      struct http_answer *answer, struct error *err)
{
    struct transfer transfer = {
        .client = client,
        .request = request,
        .answer = answer,
        .moved_ms = time_boot_ms(),
    };
    AUTO(free_headers) struct curl_slist *headers = NULL;
    char error_text[CURL_ERROR_SIZE] = "";
    long status = 0;

    if (!client_may_send(client, request->path, err) ||
        !collect_headers(client, request, &headers, err))
        return false;

    size_t url_size = strlen(client->base) + strlen(request->path) + 1;
    AUTO_FREE char *url = alloc(url_size);
    snprintf(url, url_size, "%s%s", client->base, request->path);

    answer->status = 0;
    answer->body.len = 0;
    set_options(&transfer, url, headers, error_text);
    CURLcode result = curl_easy_perform(client->curl);
    curl_easy_getinfo(client->curl, CURLINFO_RESPONSE_CODE, &status);
    answer->is_untrusted = result == CURLE_PEER_FAILED_VERIFICATION;
    if (!is_answered(result, &transfer, status))
        return explain(result, &transfer, error_text, err);
    answer->status = (int)status;
    return true;
}
