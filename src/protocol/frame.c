#include "protocol/frame.h"

#include "base/own.h"
#include "base/secret.h"

void frame_decoder_init(struct frame_decoder *decoder, enum side sender)
{
    *decoder = (struct frame_decoder){.sender = sender,
                                      .pending = {.max = FRAME_HEADER_LEN + MESSAGE_BODY_MAX}};
}

void frame_decoder_finish(struct frame_decoder *decoder)
{
    buf_finish(&decoder->pending);
}

void frame_make_room(struct buf *buf, size_t more)
{
    if (more > buf->max - buf->len)
        more = buf->max - buf->len;
    if (buf->cap - buf->len >= more)
        return;
    size_t cap = buf->len + more;
    if (cap < 2 * buf->cap)
        cap = 2 * buf->cap < buf->max ? 2 * buf->cap : buf->max;
    char *bytes = alloc(cap);
    if (buf->len)
        memcpy(bytes, buf->bytes, buf->len);
    bytes_wipe(buf->bytes, buf->len);
    free(buf->bytes);
    buf->bytes = bytes;
    buf->cap = cap;
}

static bool read_header(enum side sender, const char *bytes, struct frame *frame, size_t *len,
                        struct error *err)
{
    const unsigned char *b = (const unsigned char *)bytes;
    const struct message_info *info = message_info(b[4]);

    *len = b[0] | (size_t)b[1] << 8 | (size_t)b[2] << 16 | (size_t)b[3] << 24;
    if (!info || !(info->senders & (unsigned)sender))
        return error_set(err, ERR_INVALID, "message type %d may not come from here", b[4]);
    if (*len > info->limit)
        return error_set(err, ERR_TOO_LARGE, "%s claims %zu bytes, the limit is %zu", info->name,
                         *len, info->limit);

    frame->type = info->type;
    frame->flags = b[5];
    frame->stream = (uint16_t)(b[6] | b[7] << 8);
    if ((frame->type == MESSAGE_DATA) != (frame->stream != 0))
        return error_set(err, ERR_INVALID, "%s on stream %d", info->name, frame->stream);
    if (frame->flags & ~(frame->type == MESSAGE_DATA ? FRAME_END : 0))
        return error_set(err, ERR_INVALID, "%s has unknown flags", info->name);
    return true;
}

/* Moves up to `want - pending` bytes of input over; true when pending then holds `want`. */
static bool collect(struct frame_decoder *decoder, struct str *input, size_t want, bool *is_enough,
                    struct error *err)
{
    size_t missing = want > decoder->pending.len ? want - decoder->pending.len : 0;
    size_t take = missing < input->len ? missing : input->len;

    if (!buf_append(&decoder->pending, (struct str){input->ptr, take}, err))
        return false;
    input->ptr += take;
    input->len -= take;
    *is_enough = decoder->pending.len >= want;
    return true;
}

/* A frame that lies whole in the input is lent from there, without a copy. */
static bool lend(struct frame_decoder *decoder, struct str *input, struct frame *frame,
                 bool *is_whole, struct error *err)
{
    size_t len;

    if (input->len < FRAME_HEADER_LEN)
        return true;
    if (!read_header(decoder->sender, input->ptr, frame, &len, err))
        return false;
    if (input->len - FRAME_HEADER_LEN < len)
        return true;
    frame->body = (struct str){input->ptr + FRAME_HEADER_LEN, len};
    input->ptr += FRAME_HEADER_LEN + len;
    input->len -= FRAME_HEADER_LEN + len;
    *is_whole = true;
    return true;
}

bool frame_decode(struct frame_decoder *decoder, struct str *input, struct frame *frame,
                  bool *is_whole, struct error *err)
{
    bool is_enough;
    size_t len;

    *is_whole = false;
    if (decoder->is_given_out) {
        decoder->pending.len = 0;
        decoder->is_given_out = false;
    }
    if (decoder->pending.len == 0 && !lend(decoder, input, frame, is_whole, err))
        return false;
    if (*is_whole || input->len == 0)
        return true;

    if (!collect(decoder, input, FRAME_HEADER_LEN, &is_enough, err))
        return false;
    if (!is_enough)
        return true;
    if (!read_header(decoder->sender, decoder->pending.bytes, frame, &len, err))
        return false;
    /* The one length that is believed: the host's, and within the bound of its type. */
    if (frame->type == MESSAGE_SECRET && decoder->pending.len == FRAME_HEADER_LEN)
        frame_make_room(&decoder->pending, len);
    if (!collect(decoder, input, FRAME_HEADER_LEN + len, &is_enough, err))
        return false;
    if (!is_enough)
        return true;
    frame->body = (struct str){decoder->pending.bytes + FRAME_HEADER_LEN, len};
    decoder->is_given_out = *is_whole = true;
    return true;
}

void frame_header(char header[FRAME_HEADER_LEN], size_t len, enum message_type type, uint8_t flags,
                  uint16_t stream)
{
    header[0] = (char)len;
    header[1] = (char)(len >> 8);
    header[2] = (char)(len >> 16);
    header[3] = (char)(len >> 24);
    header[4] = (char)type;
    header[5] = (char)flags;
    header[6] = (char)stream;
    header[7] = (char)(stream >> 8);
}

bool frame_append(struct buf *out, enum message_type type, const void *message, struct error *err)
{
    char header[FRAME_HEADER_LEN] = {0};
    size_t before = out->len;

    if (!buf_append(out, (struct str){header, sizeof header}, err))
        return false;
    if (!message_encode(type, message, out, err)) {
        out->len = before;
        return false;
    }
    frame_header(out->bytes + before, out->len - before - FRAME_HEADER_LEN, type, 0, 0);
    return true;
}
