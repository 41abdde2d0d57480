#include "engine/firecracker/api.h"

#include <curl/curl.h>
#include <pthread.h>
#include <stdio.h>

#include "base/json.h"
#include "base/own.h"
#include "base/time.h"
#include "engine/firecracker/socket.h"

enum { ANSWER_MAX = 16384, HEADERS_MAX = 16384, REASON_MAX = 300 };

struct machine_api {
    CURL *curl;
    struct curl_slist *headers;
    int place; /* of the socket in the jail */

    /* Of the answer that is being read. */
    char answer[ANSWER_MAX];
    size_t answer_len, headers_len;
};

static void global_init(void)
{
    if (curl_global_init(CURL_GLOBAL_DEFAULT) != 0)
        abort();
}

/* What is more than fits ends the transfer. */
static size_t on_body(char *bytes, size_t size, size_t n, void *arg)
{
    struct machine_api *api = arg;
    size_t len = size * n;

    if (len > sizeof(api->answer) - api->answer_len)
        return 0;
    memcpy(api->answer + api->answer_len, bytes, len);
    api->answer_len += len;
    return len;
}

static size_t on_header(char *bytes, size_t size, size_t n, void *arg)
{
    struct machine_api *api = arg;
    size_t len = size * n;

    (void)bytes;
    api->headers_len += len;
    return api->headers_len <= HEADERS_MAX ? len : 0;
}

static void options_set(struct machine_api *api)
{
    CURL *curl = api->curl;
    char path[JAILED_PATH_MAX];

    jailed_path(api->place, path);
    curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http");
    curl_easy_setopt(curl, CURLOPT_HTTP_VERSION, CURL_HTTP_VERSION_1_1);
    curl_easy_setopt(curl, CURLOPT_HTTP09_ALLOWED, 0L);
    curl_easy_setopt(curl, CURLOPT_FOLLOWLOCATION, 0L);
    curl_easy_setopt(curl, CURLOPT_PROXY, "");
    curl_easy_setopt(curl, CURLOPT_HTTPHEADER, api->headers);
    curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, on_body);
    curl_easy_setopt(curl, CURLOPT_WRITEDATA, api);
    curl_easy_setopt(curl, CURLOPT_HEADERFUNCTION, on_header);
    curl_easy_setopt(curl, CURLOPT_HEADERDATA, api);
    curl_easy_setopt(curl, CURLOPT_UNIX_SOCKET_PATH, path);
}

static bool socket_await(int folder, const char *name, unsigned user, int pidfd,
                         int64_t deadline_ms, int *place, struct error *err)
{
    AUTO_FD int fd = -1;

    while (!jailed_connect(folder, name, user, &fd, place, err)) {
        if (err->code != ERR_NOT_FOUND ||
            !jailed_wait(pidfd, deadline_ms, "its API was there", err))
            return false;
    }
    return true;
}

bool machine_api_open(int folder, const char *socket_name, unsigned user, int pidfd,
                      int64_t deadline_ms, struct machine_api **api, struct error *err)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    int place;

    pthread_once(&once, global_init);
    if (!socket_await(folder, socket_name, user, pidfd, deadline_ms, &place, err))
        return false;

    struct machine_api *made = alloc(sizeof(*made));
    *made = (struct machine_api){.curl = curl_easy_init(), .place = place};
    if (!made->curl)
        abort();
    made->headers = curl_slist_append(made->headers, "Content-Type: application/json");
    made->headers = curl_slist_append(made->headers, "Expect:");
    options_set(made);
    *api = made;
    return true;
}

void machine_api_close(struct machine_api *api)
{
    if (!api)
        return;
    curl_easy_cleanup(api->curl);
    curl_slist_free_all(api->headers);
    auto_close(&api->place);
    free(api);
}

struct fault {
    struct str message;
};

static const struct json_field fault_fields[] = {
    {"fault_message", JSON_TEXT, offsetof(struct fault, message), REQUIRED, .max = ANSWER_MAX},
    {0},
};

/* Words of the other side: shown, but never with bytes that could steer a terminal. */
static bool refusal(struct machine_api *api, long status, const char *what, struct error *err)
{
    AUTO(arena_finish) struct arena arena = {0};
    struct fault fault;
    struct error ignored;
    char reason[REASON_MAX];
    size_t len = 0;

    if (!json_read_loose((struct str){api->answer, api->answer_len}, fault_fields, &fault,
                         sizeof(fault), &arena, &ignored))
        return error_set(err, ERR_INVALID, "Firecracker refuses %s with status %ld", what, status);
    for (; len < fault.message.len && len < sizeof(reason) - 1; len++) {
        char byte = fault.message.ptr[len];
        bool steers = (unsigned char)byte < ' ' || byte == 127;
        reason[len] = byte;
        if (steers)
            reason[len] = ' ';
    }
    reason[len] = '\0';
    return error_set(err, ERR_INVALID, "Firecracker refuses %s: %s", what, reason);
}

static bool outcome(struct machine_api *api, CURLcode code, const char *what, struct error *err)
{
    long status = 0;

    if (code == CURLE_OPERATION_TIMEDOUT)
        return error_set(err, ERR_TIMEOUT, "Firecracker did not answer %s in time", what);
    if (code != CURLE_OK)
        return error_set(err, ERR_UNAVAILABLE, "Firecracker gave no answer to %s: %s", what,
                         curl_easy_strerror(code));
    curl_easy_getinfo(api->curl, CURLINFO_RESPONSE_CODE, &status);
    return status == 204 || refusal(api, status, what, err);
}

bool machine_api_send(struct machine_api *api, const char *method, const char *path,
                      struct str body, int64_t deadline_ms, struct error *err)
{
    char url[256], what[256];
    int64_t left = deadline_ms - time_boot_ms();

    snprintf(url, sizeof(url), "http://localhost%.200s", path);
    snprintf(what, sizeof(what), "%s %.200s", method, path);
    if (left <= 0)
        return error_set(err, ERR_TIMEOUT, "the deadline passed before %s", what);
    api->answer_len = api->headers_len = 0;
    curl_easy_setopt(api->curl, CURLOPT_URL, url);
    curl_easy_setopt(api->curl, CURLOPT_CUSTOMREQUEST, method);
    curl_easy_setopt(api->curl, CURLOPT_POSTFIELDSIZE, (long)body.len);
    curl_easy_setopt(api->curl, CURLOPT_POSTFIELDS, body.ptr);
    curl_easy_setopt(api->curl, CURLOPT_TIMEOUT_MS, (long)left);
    return outcome(api, curl_easy_perform(api->curl), what, err);
}
