/* One end of the byte stream between two sides: frames in, frames out, credit for data.
 *
 * Control messages go before data and are never held up by it. Each data stream has a window
 * of CHANNEL_WINDOW bytes per direction between host and guest; on fd 3 (agent and adapter) the
 * socket alone pushes back. Memory is bounded on both ways. Any error is final: the caller
 * gives the peer up.
 *
 * Use. The caller owns both descriptors (non-blocking; equal for a socket), ignores SIGPIPE and
 * drives the channel by readiness, from one thread:
 *
 *     channel_init(&ch, fd, fd, SIDE_HOST);
 *     on LOOP_READ:    channel_read(&ch, on_message, on_data, arg, &err)
 *     on LOOP_WRITE, and once after any send, consume or read:
 *                      channel_flush(&ch, &wants_write, &err)
 *                      watch LOOP_WRITE exactly while wants_write
 *
 *     channel_open_stream(&ch, 3, CHANNEL_RECEIVES, &err);     before sending LAUNCH that names it
 *     channel_send(&ch, MESSAGE_LAUNCH, &(struct message_launch){…}, &err);
 *     on_data(arg, 3, bytes, is_end, err)                      store the bytes, then
 *     channel_consumed(&ch, 3, bytes.len, &err);               now, or when they are durable
 *
 *     channel_open_stream(&ch, 5, CHANNEL_SENDS, &err);        then a message that names it, then
 *     channel_send_data(&ch, 5, piece, is_last, &err);         at most channel_send_room(&ch, 5)
 * bytes
 *
 * Callbacks may send. What a message borrows is valid only inside on_message.
 *
 * Resync. After PAUSED the two ends meet again at a nonce, perhaps over another descriptor and in
 * another life of the guest; the decoders never guess. The host, once restored or hot again:
 *
 *     channel_finish, channel_init(&ch, new fd, new fd, SIDE_HOST)    when the descriptor is new
 *     channel_resync_begin(&ch, nonce, &err)                          then drive it as ever
 *     on_message HELLO: the echo has come, streams may be opened and WELCOME sent
 */
#pragma once

#include "protocol/frame.h"

enum {
    CHANNEL_WINDOW = 262144,
    CHANNEL_WINDOW_TREE = 4194304, /* of a stream that a tree of files comes on */
    CHANNEL_STREAMS_MAX = 256,
    CHANNEL_DATA_MAX = 32768,       /* bytes of one DATA frame that we send */
    CHANNEL_CONTROL_SOFT = 1048576, /* is_congested from here on */
    CHANNEL_CONTROL_HARD = 4194304, /* a send fails from here on */
    CHANNEL_CONTROL_COUNT = 64,
    CHANNEL_NONCE_LEN = 16,
};

enum channel_direction { CHANNEL_SENDS = 1, CHANNEL_RECEIVES = 2 };

struct channel_stream {
    uint16_t number;
    unsigned open; /* directions not ended yet; 0: a free slot */
    struct buf queue;
    size_t taken;         /* bytes of the queue already on the wire */
    uint32_t window;      /* at most so much is on its way */
    uint32_t credit;      /* what the peer still lets us send */
    uint32_t outstanding; /* received and not yet credited back */
    uint32_t consumed;    /* stored here, credit not yet sent */
    bool is_ending;       /* the end follows the queue */
    bool is_discarding;   /* reset by us: swallow until the end */
};

/* What comes before the nonce is stale and of no meaning. */
struct channel_resync {
    bool is_on;
    uint8_t nonce[CHANNEL_NONCE_LEN];
    uint8_t seen[CHANNEL_NONCE_LEN]; /* the newest bytes that came */
    size_t n_seen;
};

struct channel {
    int fd_in, fd_out;
    enum side side;
    struct frame_decoder decoder;
    struct arena arena;
    struct buf control, wire;
    struct buf inbox; /* room for what is read; nothing stays in it */
    size_t n_control; /* messages in `control` */
    size_t written;   /* bytes of `wire` already out */
    struct channel_stream *streams;
    size_t n_streams, next_stream;
    bool has_failed;
    bool has_secret; /* bytes of one may be in `control` or `wire` */
    struct channel_resync resync;
};

typedef bool channel_on_message(void *arg, const struct message *message, struct error *err);
typedef bool channel_on_data(void *arg, uint16_t stream, struct str bytes, bool is_end,
                             struct error *err);

void channel_init(struct channel *channel, int fd_in, int fd_out, enum side side);
void channel_finish(struct channel *channel); /* does not close the descriptors */

/* Reads what is there, up to 64 KiB a call, of a tree 1 MiB, and hands on whole frames in order.
 * CREDIT is handled here; RESET too, and then also handed on. ERR_GONE when the peer has closed.
 * on_message and on_data return false to fail the channel. */
bool channel_read(struct channel *channel, channel_on_message *on_message, channel_on_data *on_data,
                  void *arg, struct error *err) MUST_USE;

/* The same for bytes that are already here. */
bool channel_feed(struct channel *channel, struct str bytes, channel_on_message *on_message,
                  channel_on_data *on_data, void *arg, struct error *err) MUST_USE;

/* Writes until done or the descriptor is full. */
bool channel_flush(struct channel *channel, bool *wants_write, struct error *err) MUST_USE;

/* Queues a control message; `message` points to the struct of that type. */
bool channel_send(struct channel *channel, enum message_type type, const void *message,
                  struct error *err) MUST_USE;

/* Whether the control backlog is so long that nothing should be read that makes it longer. */
bool channel_is_congested(const struct channel *channel);

/* `directions` are bits of enum channel_direction. The number must be free on this side. */
bool channel_open_stream(struct channel *channel, uint16_t number, unsigned directions,
                         struct error *err) MUST_USE;
/* The same with a wide window: both sides know which streams those are. */
bool channel_open_tree(struct channel *channel, uint16_t number, unsigned directions,
                       struct error *err) MUST_USE;
bool channel_is_open(const struct channel *channel, uint16_t number, unsigned direction);

/* Bytes channel_send_data takes now; 0 also for a stream that is not open. */
size_t channel_send_room(const struct channel *channel, uint16_t number);

/* Bytes queued and not yet on the wire; an end that is to follow counts as one. */
size_t channel_send_pending(const struct channel *channel, uint16_t number);

/* Queues bytes, and with is_end the end after them. Dropped without an error when the peer has
 * reset the stream; ERR_LIMIT when the room was ignored by more than half a window. */
bool channel_send_data(struct channel *channel, uint16_t number, struct str bytes, bool is_end,
                       struct error *err) MUST_USE;

/* n bytes of the stream have been stored: the peer may send as many more. */
bool channel_consumed(struct channel *channel, uint16_t number, size_t n,
                      struct error *err) MUST_USE;

/* Tells the peer to stop sending on the stream; what still comes is swallowed. */
bool channel_reset(struct channel *channel, uint16_t number, uint32_t code,
                   struct error *err) MUST_USE;

/* Host: drops every stream, every queued message and every half frame, sends the nonce, and
 * discards input until the guest has echoed it. A failed channel starts afresh by this. */
bool channel_resync_begin(struct channel *channel, const uint8_t nonce[CHANNEL_NONCE_LEN],
                          struct error *err) MUST_USE;

/* Guest, when everything has been written: from here on nothing is written, the end of the old
 * descriptor and its errors are no failure, and input is discarded until the nonce comes. It is
 * echoed then; messages queued meanwhile follow, and streams that send go on with a new window. */
void channel_resync_await(struct channel *channel, const uint8_t nonce[CHANNEL_NONCE_LEN]);

bool channel_is_resyncing(const struct channel *channel);

/* Queues a message before all that are queued already. */
bool channel_send_first(struct channel *channel, enum message_type type, const void *message,
                        struct error *err) MUST_USE;

/* Whether nothing is queued that could be written now or once the descriptor takes more. */
bool channel_is_flushed(const struct channel *channel);
