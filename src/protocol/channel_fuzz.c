/* Any bytes before and after a resync: it ends exactly when the nonce has come, and the same
 * messages and verdict follow whole and byte by byte. */
#include <assert.h>

#include "base/hash.h"
#include "base/own.h"
#include "protocol/channel.h"

struct heard {
    struct channel channel;
    struct blake2b state;
};

static bool hear_message(void *arg, const struct message *message, struct error *err UNUSED)
{
    struct heard *heard = arg;
    char type = (char)message->type;

    blake2b_update(&heard->state, (struct str){&type, 1});
    return true;
}

static bool hear_data(void *arg, uint16_t stream, struct str bytes, bool is_end, struct error *err)
{
    struct heard *heard = arg;

    (void)is_end;
    blake2b_update(&heard->state, bytes);
    return channel_consumed(&heard->channel, stream, bytes.len, err);
}

static bool listen(enum side side, const uint8_t nonce[CHANNEL_NONCE_LEN], struct str input,
                   size_t step, bool *is_resyncing, uint8_t out[BLAKE2B_LEN])
{
    struct heard heard;
    struct error err;
    bool is_fine = true;

    channel_init(&heard.channel, -1, -1, side);
    blake2b_init(&heard.state, (struct str){0});
    if (side == SIDE_GUEST)
        channel_resync_await(&heard.channel, nonce);
    else
        is_fine = channel_resync_begin(&heard.channel, nonce, &err);
    is_fine = is_fine && channel_open_stream(&heard.channel, 3, CHANNEL_RECEIVES, &err);
    for (size_t at = 0; at < input.len && is_fine; at += step) {
        size_t len = input.len - at < step ? input.len - at : step;
        is_fine = channel_feed(&heard.channel, (struct str){input.ptr + at, len}, hear_message,
                               hear_data, &heard, &err);
    }
    *is_resyncing = channel_is_resyncing(&heard.channel);
    blake2b_final(&heard.state, out);
    channel_finish(&heard.channel);
    return is_fine;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint8_t whole[BLAKE2B_LEN], bytewise[BLAKE2B_LEN];
    bool is_resyncing, is_bytewise_resyncing;

    if (size <= 1 + CHANNEL_NONCE_LEN)
        return 0;
    enum side side = data[0] % 2 ? SIDE_GUEST : SIDE_HOST;
    const uint8_t *nonce = data + 1;
    struct str input = {(const char *)nonce + CHANNEL_NONCE_LEN, size - 1 - CHANNEL_NONCE_LEN};
    bool is_fine = listen(side, nonce, input, input.len, &is_resyncing, whole);
    bool is_bytewise_fine = listen(side, nonce, input, 1, &is_bytewise_resyncing, bytewise);
    assert(is_fine == is_bytewise_fine);
    assert(is_resyncing == is_bytewise_resyncing);
    assert(is_resyncing == !memmem(input.ptr, input.len, nonce, CHANNEL_NONCE_LEN));
    assert(memcmp(whole, bytewise, sizeof whole) == 0);
    return 0;
}
