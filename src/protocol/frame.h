/* Frames: `u32 length | u8 type | u8 flags | u16 stream`, little-endian, then `length` bytes.
 *
 * The header is judged as soon as its eight bytes are there: the type must be one that this
 * sender may use, and the length within that type's bound. Memory follows the bytes that
 * arrived, never the length that was claimed. The verdict is the same however input is cut.
 */
#pragma once

#include "protocol/message.h"

enum { FRAME_HEADER_LEN = 8, FRAME_END = 1 };

struct frame {
    enum message_type type;
    uint8_t flags;
    uint16_t stream;
    struct str body; /* borrowed: valid until the next call */
};

struct frame_decoder {
    enum side sender;   /* whose frames these are */
    struct buf pending; /* the start of a frame that has not ended yet */
    bool is_given_out;  /* `pending` holds the frame of the last answer */
};

void frame_decoder_init(struct frame_decoder *decoder, enum side sender);
void frame_decoder_finish(struct frame_decoder *decoder);

/* Cuts bytes off *input. *is_whole says whether a frame was completed; when not, all input
 * was used. An error is final: the decoder must not be fed again. */
bool frame_decode(struct frame_decoder *decoder, struct str *input, struct frame *frame,
                  bool *is_whole, struct error *err) MUST_USE;

/* Makes room in one step and wipes the old place: growing by parts would leave pieces of a secret
 * in memory that was given back. */
void frame_make_room(struct buf *buf, size_t more);

void frame_header(char header[FRAME_HEADER_LEN], size_t len, enum message_type type, uint8_t flags,
                  uint16_t stream);

/* Appends a whole control frame; nothing is appended on failure. */
bool frame_append(struct buf *out, enum message_type type, const void *message,
                  struct error *err) MUST_USE;
