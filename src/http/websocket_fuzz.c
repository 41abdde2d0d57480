/* Any bytes, as a client's and as a server's: no crash, the same messages and the same answer
 * whole and byte by byte, and never more of an answer than there may be. */
#include <assert.h>

#include "http/websocket.h"

enum { ANSWER_MAX = 4096 };

struct sum {
    uint64_t hash;
};

static void add(struct sum *sum, struct str bytes)
{
    for (size_t at = 0; at < bytes.len; at++)
        sum->hash = (sum->hash ^ (unsigned char)bytes.ptr[at]) * 1099511628211u;
    sum->hash = sum->hash * 31 + bytes.len;
}

static void on_message(void *arg, enum websocket_kind kind, struct str bytes)
{
    assert(bytes.len <= WEBSOCKET_MESSAGE_MAX);
    add(arg, bytes);
    ((struct sum *)arg)->hash += kind;
}

static uint64_t read_all(enum websocket_role role, struct str bytes, size_t step)
{
    static const struct websocket_events events = {.message = on_message};
    struct sum sum = {1};
    struct websocket *ws = websocket_create(role, &events, &sum, ANSWER_MAX);

    while (bytes.len > 0) {
        size_t len = step < bytes.len ? step : bytes.len;

        websocket_feed(ws, (struct str){bytes.ptr, len});
        bytes = (struct str){bytes.ptr + len, bytes.len - len};
    }
    assert(websocket_output(ws)->len <= ANSWER_MAX);
    /* A client's answers are masked by chance. */
    if (role == WEBSOCKET_SERVER && !websocket_is_choked(ws))
        add(&sum, buf_str(websocket_output(ws)));
    sum.hash += websocket_is_ending(ws);
    if (websocket_is_choked(ws))
        sum.hash = 0;
    websocket_destroy(ws);
    return sum.hash;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct str bytes = {(const char *)data, size};

    for (enum websocket_role role = WEBSOCKET_SERVER; role <= WEBSOCKET_CLIENT; role++) {
        uint64_t whole = read_all(role, bytes, size), bytewise = read_all(role, bytes, 1);

        assert(whole == bytewise || whole == 0 || bytewise == 0);
    }
    return 0;
}
