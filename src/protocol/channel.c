#include "protocol/channel.h"

#include <errno.h>
#include <unistd.h>

#include "base/own.h"
#include "base/secret.h"

enum {
    READ_PIECE = 65536,
    READ_TREE = 1048576, /* a tree comes in few large pieces */
    WIRE_FILL = 65536,   /* data is added to the wire up to here */
    WIRE_TREE = 1048576, /* and up to here while a tree is sent: each write has its price */
    CREDIT_PART = 4,     /* of a window */
};

static enum side peer_of(enum side side)
{
    switch (side) {
    case SIDE_HOST: return SIDE_GUEST;
    case SIDE_GUEST: return SIDE_HOST;
    case SIDE_AGENT: return SIDE_ADAPTER;
    case SIDE_ADAPTER: return SIDE_AGENT;
    }
    return SIDE_HOST;
}

static bool has_credit(const struct channel *channel)
{
    return channel->side == SIDE_HOST || channel->side == SIDE_GUEST;
}

void channel_init(struct channel *channel, int fd_in, int fd_out, enum side side)
{
    *channel = (struct channel){
        .fd_in = fd_in,
        .fd_out = fd_out,
        .side = side,
        .control = {.max = CHANNEL_CONTROL_HARD},
        .wire = {.max = CHANNEL_CONTROL_HARD + 2 * WIRE_TREE},
        .inbox = {.max = READ_TREE},
    };
    frame_decoder_init(&channel->decoder, peer_of(side));
}

/* A secret that was sent must not stay behind in our buffers. Only what was used is touched: in a
 * sandbox a page costs more than its bytes. */
static void forget(struct channel *channel)
{
    if (!channel->has_secret)
        return;
    bytes_wipe(channel->control.bytes, channel->control.len);
    bytes_wipe(channel->wire.bytes, channel->wire.len);
    channel->has_secret = false;
}

void channel_finish(struct channel *channel)
{
    for (size_t i = 0; i < channel->n_streams; i++)
        buf_finish(&channel->streams[i].queue);
    free(channel->streams);
    frame_decoder_finish(&channel->decoder);
    arena_finish(&channel->arena);
    forget(channel);
    buf_finish(&channel->control);
    buf_finish(&channel->wire);
    buf_finish(&channel->inbox);
    *channel = (struct channel){.fd_in = -1, .fd_out = -1, .has_failed = true};
}

static struct channel_stream *find_stream(const struct channel *channel, uint32_t number)
{
    for (size_t i = 0; i < channel->n_streams; i++) {
        if (channel->streams[i].open && channel->streams[i].number == number)
            return &channel->streams[i];
    }
    return NULL;
}

static void close_direction(struct channel_stream *stream, unsigned direction)
{
    stream->open &= ~direction;
    if (direction == CHANNEL_SENDS || !stream->open)
        buf_finish(&stream->queue);
}

static struct channel_stream *free_slot(struct channel *channel)
{
    for (size_t i = 0; i < channel->n_streams; i++) {
        if (!channel->streams[i].open)
            return &channel->streams[i];
    }
    if (channel->n_streams == CHANNEL_STREAMS_MAX)
        return NULL;

    size_t old = channel->n_streams, grown = old ? old * 2 : 8;
    struct channel_stream *streams = alloc(grown * sizeof *streams);
    memset(streams, 0, grown * sizeof *streams);
    if (old)
        memcpy(streams, channel->streams, old * sizeof *streams);
    free(channel->streams);
    channel->streams = streams;
    channel->n_streams = grown;
    return &streams[old];
}

bool channel_open_stream(struct channel *channel, uint16_t number, unsigned directions,
                         struct error *err)
{
    if (number == 0 || find_stream(channel, number))
        return error_set(err, ERR_INVALID, "stream %d is not free", number);

    struct channel_stream *stream = free_slot(channel);
    if (!stream)
        return error_set(err, ERR_LIMIT, "over %d streams are open", CHANNEL_STREAMS_MAX);
    *stream = (struct channel_stream){
        .number = number,
        .open = directions,
        .queue = {.max = 2 * (size_t)CHANNEL_WINDOW},
        .window = CHANNEL_WINDOW,
        .credit = CHANNEL_WINDOW,
    };
    return true;
}

bool channel_open_tree(struct channel *channel, uint16_t number, unsigned directions,
                       struct error *err)
{
    if (!channel_open_stream(channel, number, directions, err))
        return false;
    struct channel_stream *stream = find_stream(channel, number);
    stream->window = stream->credit = CHANNEL_WINDOW_TREE;
    stream->queue.max = 2 * (size_t)CHANNEL_WINDOW_TREE;
    return true;
}

bool channel_is_open(const struct channel *channel, uint16_t number, unsigned direction)
{
    const struct channel_stream *stream = find_stream(channel, number);

    return stream && (stream->open & direction);
}

enum { TEXT_OVERHEAD = 256 }; /* tags, lengths and numbers of a message with a secret */

/* At least what the message takes. */
static size_t room_for(enum message_type type, size_t limit, const void *message)
{
    if (type == MESSAGE_SECRET) {
        const struct message_secret *secret = message;
        return secret->name.len + secret->target.len + secret->owner.len + secret->value.len +
               TEXT_OVERHEAD;
    }
    if (type == MESSAGE_A_ENV) {
        const struct message_a_env *variable = message;
        return variable->name.len + variable->value.len + TEXT_OVERHEAD;
    }
    return limit;
}

bool channel_send(struct channel *channel, enum message_type type, const void *message,
                  struct error *err)
{
    if (channel->has_failed)
        return error_set(err, ERR_GONE, "the channel has failed");

    const struct message_info *info = message_info(type);
    if (!info || !(info->senders & (unsigned)channel->side))
        return error_set(err, ERR_INTERNAL, "message %d is not ours to send", (int)type);
    channel->has_secret |= type == MESSAGE_SECRET || type == MESSAGE_A_ENV;
    if (channel->has_secret)
        frame_make_room(&channel->control, FRAME_HEADER_LEN + room_for(type, info->limit, message));
    if (!frame_append(&channel->control, type, message, err))
        return error_wrap(err, "sending %s", info->name);
    channel->n_control++;
    return true;
}

bool channel_send_first(struct channel *channel, enum message_type type, const void *message,
                        struct error *err)
{
    AUTO(buf_finish) struct buf later = channel->control;

    channel->control = (struct buf){.max = later.max};
    return channel_send(channel, type, message, err) &&
           (later.len == 0 || buf_append(&channel->control, buf_str(&later), err));
}

bool channel_is_flushed(const struct channel *channel)
{
    return channel->control.len == 0 && channel->written == channel->wire.len;
}

bool channel_is_congested(const struct channel *channel)
{
    size_t unwritten = channel->wire.len - channel->written;

    return channel->n_control >= CHANNEL_CONTROL_COUNT ||
           channel->control.len + unwritten >= CHANNEL_CONTROL_SOFT;
}

size_t channel_send_room(const struct channel *channel, uint16_t number)
{
    const struct channel_stream *stream = find_stream(channel, number);

    if (!stream || !(stream->open & CHANNEL_SENDS) || stream->is_ending)
        return 0;
    size_t queued = stream->queue.len - stream->taken;
    return queued < stream->window ? stream->window - queued : 0;
}

size_t channel_send_pending(const struct channel *channel, uint16_t number)
{
    const struct channel_stream *stream = find_stream(channel, number);

    if (!stream || !(stream->open & CHANNEL_SENDS))
        return 0;
    return stream->queue.len - stream->taken + stream->is_ending;
}

/* The queue is moved to its front only when half of it is spent, so each byte moves once. */
static void compact(struct channel_stream *stream)
{
    if (stream->taken == 0 || stream->taken < stream->queue.len / 2)
        return;
    buf_consume(&stream->queue, stream->taken);
    stream->taken = 0;
}

bool channel_send_data(struct channel *channel, uint16_t number, struct str bytes, bool is_end,
                       struct error *err)
{
    struct channel_stream *stream = find_stream(channel, number);

    if (channel->has_failed)
        return error_set(err, ERR_GONE, "the channel has failed");
    if (!stream || !(stream->open & CHANNEL_SENDS) || stream->is_ending)
        return true;
    size_t most = stream->queue.max;
    if (stream->queue.len - stream->taken + bytes.len > most - CHANNEL_WINDOW / 2)
        return error_set(err, ERR_LIMIT, "stream %d is not being taken", number);
    if (stream->queue.len + bytes.len > most) {
        buf_consume(&stream->queue, stream->taken);
        stream->taken = 0;
    }
    if (bytes.len && !buf_append(&stream->queue, bytes, err))
        return false;
    stream->is_ending = is_end;
    return true;
}

/* Small amounts are saved up: the peer always keeps three quarters of its window. */
bool channel_consumed(struct channel *channel, uint16_t number, size_t n, struct error *err)
{
    struct channel_stream *stream = find_stream(channel, number);

    if (!has_credit(channel) || !stream || !(stream->open & CHANNEL_RECEIVES))
        return true;
    if (n > stream->outstanding - stream->consumed)
        return error_set(err, ERR_INTERNAL, "stream %d: more consumed than came", number);
    stream->consumed += (uint32_t)n;
    if (stream->consumed < stream->window / CREDIT_PART || stream->is_discarding)
        return true;

    struct message_credit credit = {.stream = number, .bytes = stream->consumed};
    stream->outstanding -= stream->consumed;
    stream->consumed = 0;
    return channel_send(channel, MESSAGE_CREDIT, &credit, err);
}

bool channel_reset(struct channel *channel, uint16_t number, uint32_t code, struct error *err)
{
    struct channel_stream *stream = find_stream(channel, number);

    if (!stream || !(stream->open & CHANNEL_RECEIVES) || stream->is_discarding)
        return true;
    stream->is_discarding = true;
    struct message_reset reset = {.stream = number, .code = code};
    return channel_send(channel, MESSAGE_RESET, &reset, err);
}

static bool take_credit(struct channel *channel, const struct message_credit *credit,
                        struct error *err)
{
    struct channel_stream *stream = find_stream(channel, credit->stream);

    /* Credit for a stream that has ended meanwhile is late, not wrong. */
    if (!stream || !(stream->open & CHANNEL_SENDS))
        return true;
    if (credit->bytes > stream->window - stream->credit)
        return error_set(err, ERR_INVALID, "stream %u got more credit than its window",
                         credit->stream);
    stream->credit += credit->bytes;
    return true;
}

/* The peer wants no more: the end is sent at once, so that it can forget the stream. */
static void take_reset(struct channel *channel, const struct message_reset *reset)
{
    struct channel_stream *stream = find_stream(channel, reset->stream);

    if (!stream || !(stream->open & CHANNEL_SENDS))
        return;
    stream->queue.len = stream->taken = 0;
    stream->is_ending = true;
}

static bool take_data(struct channel *channel, const struct frame *frame, channel_on_data *on_data,
                      void *arg, struct error *err)
{
    struct channel_stream *stream = find_stream(channel, frame->stream);
    bool is_end = frame->flags & FRAME_END;

    if (!stream || !(stream->open & CHANNEL_RECEIVES))
        return error_set(err, ERR_INVALID, "data on stream %d, which is not open", frame->stream);
    if (has_credit(channel)) {
        if (frame->body.len > stream->window - stream->outstanding)
            return error_set(err, ERR_INVALID, "stream %d went over its window", frame->stream);
        stream->outstanding += (uint32_t)frame->body.len;
    }
    bool is_wanted = !stream->is_discarding;
    if (is_end)
        close_direction(stream, CHANNEL_RECEIVES);
    return !is_wanted || on_data(arg, frame->stream, frame->body, is_end, err);
}

static bool take_frame(struct channel *channel, const struct frame *frame,
                       channel_on_message *on_message, channel_on_data *on_data, void *arg,
                       struct error *err)
{
    if (frame->type == MESSAGE_DATA)
        return take_data(channel, frame, on_data, arg, err);

    /* Every member of the union starts where `hello` does. */
    struct message message = {.type = frame->type};
    if (!message_decode(frame->type, frame->body, &channel->arena, &message.hello, err))
        return false;
    if (frame->type == MESSAGE_CREDIT)
        return take_credit(channel, &message.credit, err);
    if (frame->type == MESSAGE_RESET)
        take_reset(channel, &message.reset);

    bool is_fine = on_message(arg, &message, err);
    arena_finish(&channel->arena);
    /* It was lent from here or from the bytes of channel_read, which wipes those. */
    if (frame->type == MESSAGE_SECRET)
        bytes_wipe(channel->decoder.pending.bytes, channel->decoder.pending.len);
    return is_fine;
}

bool channel_is_resyncing(const struct channel *channel)
{
    return channel->resync.is_on;
}

static void drop_streams(struct channel *channel)
{
    for (size_t i = 0; i < channel->n_streams; i++) {
        close_direction(&channel->streams[i], CHANNEL_SENDS);
        close_direction(&channel->streams[i], CHANNEL_RECEIVES);
    }
}

/* The host opens the streams of a guest's output again, by the same numbers. */
static void renew_streams(struct channel *channel)
{
    for (size_t i = 0; i < channel->n_streams; i++) {
        struct channel_stream *stream = &channel->streams[i];
        close_direction(stream, CHANNEL_RECEIVES);
        stream->credit = stream->window;
        stream->outstanding = stream->consumed = 0;
        stream->is_discarding = false;
    }
}

static void start_decoder(struct channel *channel)
{
    frame_decoder_finish(&channel->decoder);
    frame_decoder_init(&channel->decoder, peer_of(channel->side));
}

static void watch_for(struct channel *channel, const uint8_t nonce[CHANNEL_NONCE_LEN])
{
    channel->resync = (struct channel_resync){.is_on = true};
    memcpy(channel->resync.nonce, nonce, CHANNEL_NONCE_LEN);
}

bool channel_resync_begin(struct channel *channel, const uint8_t nonce[CHANNEL_NONCE_LEN],
                          struct error *err)
{
    start_decoder(channel);
    drop_streams(channel);
    forget(channel);
    channel->control.len = channel->n_control = 0;
    channel->wire.len = channel->written = 0;
    channel->has_failed = false;
    watch_for(channel, nonce);
    return buf_append(&channel->wire, (struct str){(const char *)nonce, CHANNEL_NONCE_LEN}, err);
}

void channel_resync_await(struct channel *channel, const uint8_t nonce[CHANNEL_NONCE_LEN])
{
    watch_for(channel, nonce);
}

/* A nonce serves once: whoever learns it later learns nothing. */
static bool end_resync(struct channel *channel, struct error *err)
{
    struct channel_resync *resync = &channel->resync;
    bool is_fine = true;

    if (channel->side == SIDE_GUEST) {
        start_decoder(channel);
        renew_streams(channel);
        channel->wire.len = channel->written = 0;
        is_fine = buf_append(&channel->wire,
                             (struct str){(const char *)resync->nonce, CHANNEL_NONCE_LEN}, err);
    }
    bytes_wipe(resync, sizeof *resync);
    return is_fine;
}

/* Cuts stale bytes off, up to and with the nonce. */
static bool discard(struct channel *channel, struct str *bytes, struct error *err)
{
    struct channel_resync *resync = &channel->resync;

    while (bytes->len) {
        memmove(resync->seen, resync->seen + 1, CHANNEL_NONCE_LEN - 1);
        resync->seen[CHANNEL_NONCE_LEN - 1] = (uint8_t)bytes->ptr[0];
        resync->n_seen += resync->n_seen < CHANNEL_NONCE_LEN;
        bytes->ptr++;
        bytes->len--;
        if (resync->n_seen == CHANNEL_NONCE_LEN &&
            memcmp(resync->seen, resync->nonce, CHANNEL_NONCE_LEN) == 0)
            return end_resync(channel, err);
    }
    return true;
}

bool channel_feed(struct channel *channel, struct str bytes, channel_on_message *on_message,
                  channel_on_data *on_data, void *arg, struct error *err)
{
    if (channel->has_failed)
        return error_set(err, ERR_GONE, "the channel has failed");
    if (channel->resync.is_on && !discard(channel, &bytes, err))
        return false;
    while (bytes.len) {
        struct frame frame;
        bool is_whole = false;
        if (!frame_decode(&channel->decoder, &bytes, &frame, &is_whole, err) ||
            (is_whole && !take_frame(channel, &frame, on_message, on_data, arg, err))) {
            channel->has_failed = true;
            return false;
        }
    }
    return true;
}

/* A guest that was paused: its descriptor may be that of a host that is gone. */
static bool is_silent(const struct channel *channel)
{
    return channel->side == SIDE_GUEST && channel->resync.is_on;
}

static bool has_tree(const struct channel *channel, unsigned direction)
{
    for (size_t i = 0; i < channel->n_streams; i++) {
        const struct channel_stream *stream = &channel->streams[i];
        if ((stream->open & direction) && stream->window > CHANNEL_WINDOW)
            return true;
    }
    return false;
}

bool channel_read(struct channel *channel, channel_on_message *on_message, channel_on_data *on_data,
                  void *arg, struct error *err)
{
    size_t room = has_tree(channel, CHANNEL_RECEIVES) ? READ_TREE : READ_PIECE;
    char *bytes = buf_room(&channel->inbox, room, err);

    if (!bytes)
        return false;
    ssize_t got = read(channel->fd_in, bytes, room);
    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        return true;
    if (got <= 0 && is_silent(channel))
        return true;
    if (got <= 0) {
        channel->has_failed = true;
        return got ? error_errno(err, "reading the channel")
                   : error_set(err, ERR_GONE, "the other side closed the channel");
    }
    bool is_fine =
        channel_feed(channel, (struct str){bytes, (size_t)got}, on_message, on_data, arg, err);
    if (channel->side == SIDE_GUEST) /* only hosts send secrets */
        bytes_wipe(bytes, (size_t)got);
    return is_fine;
}

/* Moves one DATA frame of the stream to the wire; false when it has nothing it may send. */
static bool wire_one(struct channel *channel, struct channel_stream *stream)
{
    char header[FRAME_HEADER_LEN];
    size_t len = stream->queue.len - stream->taken;
    struct error err;

    if (!(stream->open & CHANNEL_SENDS))
        return false;
    if (has_credit(channel) && len > stream->credit)
        len = stream->credit;
    if (len > CHANNEL_DATA_MAX)
        len = CHANNEL_DATA_MAX;
    bool is_end = stream->is_ending && len == stream->queue.len - stream->taken;
    if (len == 0 && !is_end)
        return false;

    struct str bytes = {stream->queue.bytes + stream->taken, len};
    frame_header(header, len, MESSAGE_DATA, is_end ? FRAME_END : 0, stream->number);
    /* The wire has room for this by its fill; were it not so, nothing may be lost in silence. */
    if (!buf_append(&channel->wire, (struct str){header, sizeof header}, &err) ||
        (len && !buf_append(&channel->wire, bytes, &err)))
        abort();
    stream->taken += len;
    if (has_credit(channel))
        stream->credit -= (uint32_t)len;
    compact(stream);
    if (is_end)
        close_direction(stream, CHANNEL_SENDS);
    return true;
}

/* Streams take turns; the turn goes on where the last one stopped. */
static void wire_data(struct channel *channel)
{
    size_t idle = 0, most = has_tree(channel, CHANNEL_SENDS) ? WIRE_TREE : WIRE_FILL;

    while (idle < channel->n_streams && channel->wire.len < most) {
        channel->next_stream = (channel->next_stream + 1) % channel->n_streams;
        idle = wire_one(channel, &channel->streams[channel->next_stream]) ? 0 : idle + 1;
    }
}

static bool fill_wire(struct channel *channel, struct error *err)
{
    if (channel->has_secret)
        bytes_wipe(channel->wire.bytes, channel->wire.len);
    channel->wire.len = channel->written = 0;
    if (channel->has_secret)
        frame_make_room(&channel->wire, channel->control.len);
    if (channel->control.len && !buf_append(&channel->wire, buf_str(&channel->control), err))
        return false;
    if (channel->has_secret)
        bytes_wipe(channel->control.bytes, channel->control.len);
    channel->control.len = channel->n_control = 0;
    /* Room for data was not made: it goes when the secret has gone. */
    if (!channel->has_secret)
        wire_data(channel);
    return true;
}

bool channel_flush(struct channel *channel, bool *wants_write, struct error *err)
{
    *wants_write = false;
    if (channel->has_failed)
        return error_set(err, ERR_GONE, "the channel has failed");
    if (is_silent(channel))
        return true;
    for (;;) {
        if (channel->written == channel->wire.len && !fill_wire(channel, err))
            return false;
        if (channel->wire.len == 0 && !channel->has_secret)
            return true;
        if (channel->wire.len == 0) {
            forget(channel);
            continue;
        }

        ssize_t put = write(channel->fd_out, channel->wire.bytes + channel->written,
                            channel->wire.len - channel->written);
        if (put < 0 && errno == EINTR)
            continue;
        if (put < 0 && errno == EAGAIN) {
            *wants_write = true;
            return true;
        }
        if (put < 0) {
            channel->has_failed = true;
            return error_errno(err, "writing the channel");
        }
        channel->written += (size_t)put;
    }
}
