/* Any bytes from any side: the same frames and the same verdict whole and byte by byte. */
#include <assert.h>

#include "base/hash.h"
#include "base/own.h"
#include "protocol/frame.h"

static bool digest(enum side sender, struct str input, size_t step, uint8_t out[BLAKE2B_LEN])
{
    AUTO(frame_decoder_finish) struct frame_decoder decoder;
    struct blake2b state;
    bool is_fine = true;

    frame_decoder_init(&decoder, sender);
    blake2b_init(&state, (struct str){0});
    for (size_t at = 0; at < input.len && is_fine; at += step) {
        size_t len = input.len - at < step ? input.len - at : step;
        struct str piece = {input.ptr + at, len};
        while (piece.len && is_fine) {
            struct frame frame = {.type = MESSAGE_DATA};
            struct error err;
            bool is_whole;
            is_fine = frame_decode(&decoder, &piece, &frame, &is_whole, &err);
            if (!is_fine || !is_whole)
                continue;
            char head[4] = {(char)frame.type, (char)frame.flags, (char)frame.stream,
                            (char)(frame.stream >> 8)};
            blake2b_update(&state, (struct str){head, sizeof head});
            blake2b_update(&state, frame.body);
        }
    }
    blake2b_final(&state, out);
    return is_fine;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const enum side sides[] = {SIDE_HOST, SIDE_GUEST, SIDE_AGENT, SIDE_ADAPTER};
    uint8_t whole[BLAKE2B_LEN], bytewise[BLAKE2B_LEN];

    if (size < 2)
        return 0;
    struct str input = {(const char *)data + 1, size - 1};
    enum side sender = sides[data[0] % 4];
    bool is_fine = digest(sender, input, input.len, whole);
    assert(is_fine == digest(sender, input, 1, bytewise));
    assert(memcmp(whole, bytewise, sizeof whole) == 0);
    return 0;
}
