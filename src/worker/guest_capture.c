/* The tree of a workspace as the agent sends it: on a stream of its own, summed up at its end. */
#include "base/own.h"
#include "base/time.h"
#include "protocol/tree_sum.h"
#include "worker/guest_state.h"

enum { RESET_UNWANTED = 1, STREAMS_END = 128 /* from there on they are a mount's */ };

struct guest_capture {
    guest_take_tree *take;
    void *arg;
    uint16_t stream;
    struct tree_sum sum;
    uint8_t digest[BLAKE2B_LEN]; /* that the agent says, when has_sum */
    bool has_ended, has_sum;
    bool is_over; /* both, or it failed */
    bool has_failed;
    struct error failure;
    struct guest_captured captured;
};

/* One that was refused, or is on its way to its end, may still have the first. */
static uint16_t free_stream(const struct guest *guest)
{
    uint16_t stream = (uint16_t)(guest->program * 8 + 7);

    while (stream < STREAMS_END && channel_is_open(&guest->channel, stream, CHANNEL_RECEIVES))
        stream += 8;
    return stream;
}

bool guest_captures(const struct guest *guest, uint16_t stream)
{
    return guest->capture && guest->capture->stream == stream;
}

static void fail(struct guest_capture *capture, const struct error *err)
{
    if (!capture->has_failed)
        capture->failure = *err;
    capture->has_failed = capture->is_over = true;
}

static void look_over(struct guest_capture *capture)
{
    capture->is_over = capture->is_over || (capture->has_ended && capture->has_sum);
}

bool guest_capture_data(struct guest *guest, uint16_t stream, struct str bytes, bool is_end,
                        struct error *err)
{
    struct guest_capture *capture = guest->capture;
    struct error why;

    capture->has_ended = capture->has_ended || is_end;
    look_over(capture);
    if (bytes.len == 0 || capture->has_failed)
        return true;
    tree_sum_update(&capture->sum, bytes);
    if (capture->take(capture->arg, bytes, &why))
        return channel_consumed(&guest->channel, stream, bytes.len, err);
    fail(capture, &why);
    return is_end || channel_reset(&guest->channel, stream, RESET_UNWANTED, err);
}

void guest_capture_end(struct guest *guest, const struct message_capture_end *end)
{
    struct guest_capture *capture = guest->capture;

    if (!capture)
        return;
    memcpy(capture->digest, end->digest.ptr, sizeof capture->digest);
    capture->captured.files_read = end->files_read;
    capture->captured.bytes_read = end->bytes_read;
    snprintf(capture->captured.lack, sizeof capture->captured.lack, "%.*s", (int)end->lack.len,
             end->lack.ptr ? end->lack.ptr : "");
    capture->has_sum = true;
    look_over(capture);
}

void guest_capture_refused(struct guest *guest, const struct message_error *error)
{
    bool is_too_large = str_equal(error->code, STR("too_large"));
    bool is_no_difference = str_equal(error->code, STR("not_a_difference"));
    struct error err;

    if (!guest->capture)
        return;
    error_set(&err,
              is_too_large       ? ERR_TOO_LARGE
              : is_no_difference ? ERR_CONFLICT
                                 : ERR_UNPROCESSABLE,
              "the workspace cannot be captured: %.*s", (int)error->text.len, error->text.ptr);
    fail(guest->capture, &err);
}

static bool is_whole(struct guest_capture *capture, struct error *err)
{
    uint8_t digest[BLAKE2B_LEN];

    if (capture->has_failed) {
        *err = capture->failure;
        return false;
    }
    tree_sum_final(&capture->sum, digest);
    return memcmp(digest, capture->digest, sizeof digest) == 0 ||
           error_set(err, ERR_CONTENT_HASH, "the workspace came damaged");
}

bool guest_can_capture(const struct guest *guest)
{
    return guest->instance && !guest->is_broken && (guest->is_quiesced || guest->is_frozen);
}

bool guest_goes_on(const struct guest *guest)
{
    return guest->is_frozen && !guest->is_quiesced && !guest->is_still;
}

const struct guest_base *guest_base(const struct guest *guest)
{
    return &guest->base;
}

void guest_set_base(struct guest *guest, const char *manifest, const char *mark)
{
    guest->base = (struct guest_base){0};
    if (!manifest)
        return;
    snprintf(guest->base.manifest, sizeof guest->base.manifest, "%s", manifest);
    snprintf(guest->base.mark, sizeof guest->base.mark, "%s", mark);
}

static struct str text_of(const char *text)
{
    return str_of(text ? text : "");
}

bool guest_capture(struct guest *guest, const struct guest_wanted *wanted, guest_take_tree *take,
                   void *arg, int64_t until_ms, struct guest_captured *captured, struct error *err)
{
    struct guest_capture capture = {.take = take, .arg = arg, .stream = free_stream(guest)};
    struct message_capture message = {++guest->number,       capture.stream,
                                      guest->generation,     text_of(wanted->since),
                                      text_of(wanted->mark), wanted->is_layer};

    tree_sum_init(&capture.sum);
    if (!channel_open_tree(&guest->channel, capture.stream, CHANNEL_RECEIVES, err))
        return false;
    guest->capture = &capture;
    bool fine = guest_send(guest, MESSAGE_CAPTURE, &message, err) &&
                guest_wait_for(guest, &capture.is_over, until_ms, err);
    guest->capture = NULL;
    *captured = capture.captured;
    return fine && is_whole(&capture, err);
}
