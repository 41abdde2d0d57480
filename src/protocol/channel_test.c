#include "protocol/channel.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>

#include "base/own.h"
#include "base/test.h"

/* One end and what came in on it. */
struct end {
    struct channel channel;
    int fd;
    struct buf got;
    bool keeps_credit; /* do not give credit back */
    uint64_t last_ping, n_pongs;
    bool has_ended, was_reset;
    struct error err;
};

static bool note_message(void *arg, const struct message *message, struct error *err)
{
    struct end *end = arg;

    if (message->type == MESSAGE_PING) {
        end->last_ping = message->ping.number;
        struct message_pong pong = {.number = message->ping.number};
        return channel_send(&end->channel, MESSAGE_PONG, &pong, err);
    }
    end->n_pongs += message->type == MESSAGE_PONG;
    end->was_reset |= message->type == MESSAGE_RESET;
    return true;
}

static bool note_data(void *arg, uint16_t stream, struct str bytes, bool is_end, struct error *err)
{
    struct end *end = arg;

    end->has_ended |= is_end;
    if (!buf_append(&end->got, bytes, err))
        return false;
    return end->keeps_credit || channel_consumed(&end->channel, stream, bytes.len, err);
}

static void end_finish(struct end *end)
{
    channel_finish(&end->channel);
    buf_finish(&end->got);
    if (end->fd >= 0)
        close(end->fd);
}

static bool pair_open(struct end *host, struct end *guest, enum side left, enum side right)
{
    int fds[2];

    signal(SIGPIPE, SIG_IGN);
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds) != 0)
        return false;
    *host = (struct end){.fd = fds[0], .got = {.max = 8 << 20}};
    *guest = (struct end){.fd = fds[1], .got = {.max = 8 << 20}};
    channel_init(&host->channel, fds[0], fds[0], left);
    channel_init(&guest->channel, fds[1], fds[1], right);
    return true;
}

/* Lets both ends talk until neither has anything left to say. */
static bool settle(struct end *a, struct end *b)
{
    for (int quiet = 0; quiet < 3; quiet++) {
        struct end *ends[] = {a, b};
        for (size_t i = 0; i < 2; i++) {
            size_t before = ends[i]->got.len;
            bool wants_write;
            if (!channel_flush(&ends[i]->channel, &wants_write, &ends[i]->err) ||
                !channel_read(&ends[i]->channel, note_message, note_data, ends[i], &ends[i]->err))
                return false;
            if (wants_write || ends[i]->got.len != before)
                quiet = 0;
        }
    }
    return true;
}

static bool ping(struct end *from, uint64_t number)
{
    struct message_ping message = {.number = number, .left_ms = 60000};

    return channel_send(&from->channel, MESSAGE_PING, &message, &from->err);
}

#define PAIR(a, b, left, right)                 \
    AUTO(end_finish) struct end a = {.fd = -1}; \
    AUTO(end_finish) struct end b = {.fd = -1}; \
    CHECK(pair_open(&(a), &(b), left, right))

TEST(a_message_crosses_and_is_answered)
{
    PAIR(host, guest, SIDE_HOST, SIDE_GUEST);
    CHECK(ping(&host, 7));
    CHECK(settle(&host, &guest));
    CHECK(guest.last_ping == 7 && host.n_pongs == 1);
}

/* Sends `total` bytes of a counting pattern, waiting for room. */
static bool pour(struct end *from, struct end *to, uint16_t stream, size_t total)
{
    char piece[5000];

    for (size_t sent = 0; sent < total;) {
        size_t room = channel_send_room(&from->channel, stream);
        size_t len = total - sent < sizeof piece ? total - sent : sizeof piece;
        len = len < room ? len : room;
        for (size_t i = 0; i < len; i++)
            piece[i] = (char)((sent + i) % 251);
        sent += len;
        if (!channel_send_data(&from->channel, stream, (struct str){piece, len}, sent == total,
                               &from->err))
            return false;
        if (!settle(from, to))
            return false;
        if (len == 0 && channel_send_room(&from->channel, stream) == 0)
            return false;
    }
    return true;
}

static bool is_pattern(struct str bytes)
{
    for (size_t i = 0; i < bytes.len; i++) {
        if (bytes.ptr[i] != (char)(i % 251))
            return false;
    }
    return true;
}

TEST(data_larger_than_the_window_arrives_whole_and_in_order)
{
    PAIR(host, guest, SIDE_HOST, SIDE_GUEST);
    CHECK(channel_open_stream(&host.channel, 3, CHANNEL_RECEIVES, &host.err));
    CHECK(channel_open_stream(&guest.channel, 3, CHANNEL_SENDS, &guest.err));
    CHECK(pour(&guest, &host, 3, 3 << 20));
    CHECK(host.got.len == 3 << 20 && host.has_ended && is_pattern(buf_str(&host.got)));
    CHECK(!channel_is_open(&guest.channel, 3, CHANNEL_SENDS));
    CHECK(!channel_is_open(&host.channel, 3, CHANNEL_RECEIVES));
}

TEST(without_credit_exactly_one_window_is_sent_and_control_still_passes)
{
    PAIR(host, guest, SIDE_HOST, SIDE_GUEST);
    host.keeps_credit = true;
    CHECK(channel_open_stream(&host.channel, 3, CHANNEL_RECEIVES, &host.err));
    CHECK(channel_open_stream(&guest.channel, 3, CHANNEL_SENDS, &guest.err));
    CHECK(!pour(&guest, &host, 3, 3 << 20));
    CHECK(host.got.len == CHANNEL_WINDOW);
    CHECK(channel_send_room(&guest.channel, 3) == 0);

    CHECK(ping(&host, 9));
    CHECK(settle(&host, &guest));
    CHECK(host.n_pongs == 1);

    CHECK(channel_consumed(&host.channel, 3, CHANNEL_WINDOW, &host.err));
    CHECK(settle(&host, &guest));
    CHECK(host.got.len == (size_t)2 * CHANNEL_WINDOW && is_pattern(buf_str(&host.got)));
}

TEST(control_overtakes_data_that_waits)
{
    static char much[CHANNEL_WINDOW];
    PAIR(host, guest, SIDE_HOST, SIDE_GUEST);
    CHECK(channel_open_stream(&host.channel, 3, CHANNEL_SENDS, &host.err));
    CHECK(channel_open_stream(&guest.channel, 3, CHANNEL_RECEIVES, &guest.err));
    CHECK(channel_send_data(&host.channel, 3, (struct str){much, sizeof much}, true, &host.err));
    CHECK(ping(&host, 5));

    bool wants_write;
    CHECK(channel_flush(&host.channel, &wants_write, &host.err));
    CHECK(channel_read(&guest.channel, note_message, note_data, &guest, &guest.err));
    CHECK(guest.last_ping == 5);
    CHECK(settle(&host, &guest));
    CHECK(guest.got.len == sizeof much && guest.has_ended);
}

TEST(a_reset_stream_ends_and_swallows_what_was_under_way)
{
    PAIR(host, guest, SIDE_HOST, SIDE_GUEST);
    guest.keeps_credit = true;
    CHECK(channel_open_stream(&host.channel, 3, CHANNEL_SENDS, &host.err));
    CHECK(channel_open_stream(&guest.channel, 3, CHANNEL_RECEIVES, &guest.err));
    CHECK(channel_send_data(&host.channel, 3, STR("one"), false, &host.err));
    CHECK(settle(&host, &guest));
    CHECK(channel_reset(&guest.channel, 3, 1, &guest.err));
    CHECK(channel_send_data(&host.channel, 3, STR("two"), false, &host.err));
    CHECK(settle(&host, &guest));
    CHECK(host.was_reset && guest.got.len == 3);
    CHECK(!channel_is_open(&guest.channel, 3, CHANNEL_RECEIVES));
    CHECK(channel_send_data(&host.channel, 3, STR("three"), false, &host.err));
}

TEST(the_adapter_link_needs_no_credit)
{
    PAIR(agent, adapter, SIDE_AGENT, SIDE_ADAPTER);
    adapter.keeps_credit = true;
    CHECK(channel_open_stream(&agent.channel, 1, CHANNEL_SENDS, &agent.err));
    CHECK(channel_open_stream(&adapter.channel, 1, CHANNEL_RECEIVES, &adapter.err));
    CHECK(pour(&agent, &adapter, 1, 2 << 20));
    CHECK(adapter.got.len == 2 << 20 && adapter.has_ended && is_pattern(buf_str(&adapter.got)));
}

/* Feeds raw bytes to a guest whose stream 3 is open for receiving and 4 for sending. */
static bool feeds(struct str bytes, char text[512])
{
    AUTO(end_finish) struct end guest = {.fd = -1, .got = {.max = 1 << 20}, .keeps_credit = true};

    channel_init(&guest.channel, -1, -1, SIDE_GUEST);
    if (!channel_open_stream(&guest.channel, 3, CHANNEL_RECEIVES, &guest.err) ||
        !channel_open_stream(&guest.channel, 4, CHANNEL_SENDS, &guest.err))
        return false;
    bool is_fine = channel_feed(&guest.channel, bytes, note_message, note_data, &guest, &guest.err);
    struct error after;
    if (!is_fine && channel_feed(&guest.channel, STR("x"), note_message, note_data, &guest, &after))
        return true; /* an error that was not final counts as accepted */
    memcpy(text, guest.err.text, sizeof guest.err.text);
    return is_fine;
}

TEST(a_peer_that_breaks_the_rules_is_given_up)
{
    char text[512];

    CHECK(feeds(STR("\3\0\0\0\7\0\3\0abc"), text));
    CHECK(!feeds(STR("\3\0\0\0\7\0\5\0abc"), text) && strstr(text, "not open"));
    CHECK(!feeds(STR("\3\0\0\0\7\0\4\0abc"), text) && strstr(text, "not open"));
    CHECK(!feeds(STR("\0\0\0\0\7\1\3\0\0\0\0\0\7\1\3\0"), text) && strstr(text, "not open"));
    CHECK(!feeds(STR("\xc\0\0\0\6\0\0\0\1\1\4\0\0\0\2\1\1\0\0\0"), text) && strstr(text, "credit"));
    CHECK(feeds(STR("\xc\0\0\0\6\0\0\0\1\1\x9\0\0\0\2\1\1\0\0\0"), text));
}

TEST(data_over_the_window_is_refused)
{
    AUTO(buf_finish) struct buf flood = {.max = 1 << 20};
    static char body[65536];
    char header[FRAME_HEADER_LEN], text[512];
    struct error err;

    for (int i = 0; i < 5; i++) {
        frame_header(header, i < 4 ? sizeof body : 1, MESSAGE_DATA, 0, 3);
        CHECK(buf_append(&flood, (struct str){header, sizeof header}, &err));
        CHECK(buf_append(&flood, (struct str){body, i < 4 ? sizeof body : 1}, &err));
        CHECK((i < 4) == feeds(buf_str(&flood), text));
    }
    CHECK(strstr(text, "window"));
}

TEST(a_backlog_of_control_is_seen_and_ends)
{
    PAIR(host, guest, SIDE_HOST, SIDE_GUEST);
    CHECK(!channel_is_congested(&host.channel));
    for (uint64_t i = 0; i < CHANNEL_CONTROL_COUNT; i++)
        CHECK(ping(&host, i));
    CHECK(channel_is_congested(&host.channel));
    while (ping(&host, 1))
        CHECK(host.channel.control.len <= CHANNEL_CONTROL_HARD);
    CHECK(host.err.code == ERR_TOO_LARGE);
}

TEST(a_closed_peer_is_an_error)
{
    PAIR(host, guest, SIDE_HOST, SIDE_GUEST);
    close(guest.fd);
    guest.fd = -1;
    CHECK(!channel_read(&host.channel, note_message, note_data, &host, &host.err));
    CHECK(host.err.code == ERR_GONE);
}

static const uint8_t nonce[CHANNEL_NONCE_LEN] = "\1\1\1\1\1\1\1\2\1\1\1\1\1\1\1\3";

static bool resync(struct end *host, struct end *guest)
{
    return channel_resync_begin(&host->channel, nonce, &host->err) && settle(host, guest) &&
           !channel_is_resyncing(&host->channel) && !channel_is_resyncing(&guest->channel);
}

TEST(stale_bytes_before_a_resync_are_ignored)
{
    PAIR(host, guest, SIDE_HOST, SIDE_GUEST);
    channel_resync_await(&guest.channel, nonce);

    /* Half a frame, the start of the nonce, and what looks like the nonce until its last byte. */
    CHECK(write(host.fd, "\377\377\0\0\4\0", 6) == 6);
    CHECK(write(host.fd, nonce, 15) == 15);
    CHECK(write(host.fd, "\1\1\1\1\1\1\1\2\1\1\1\1\1\1\1\1", 16) == 16);
    CHECK(settle(&host, &guest) && channel_is_resyncing(&guest.channel));
    CHECK(write(guest.fd, "\377\377\377\377\377\377\377\377", 8) == 8);
    CHECK(write(guest.fd, nonce, 9) == 9);
    CHECK(resync(&host, &guest));

    CHECK(ping(&host, 7) && settle(&host, &guest));
    CHECK(guest.last_ping == 7 && host.n_pongs == 1);
}

/* Whatever a program makes the agent say before the echo, it is not the nonce, which it cannot
 * know; and a nonce that has served means nothing any more. */
TEST(a_program_cannot_forge_a_resync)
{
    PAIR(host, guest, SIDE_HOST, SIDE_GUEST);
    CHECK(channel_open_stream(&guest.channel, 3, CHANNEL_SENDS, &guest.err));
    CHECK(channel_send_data(&guest.channel, 3, STR("0123456789abcdef0123456789abcdef"), false,
                            &guest.err));
    bool wants_write;
    CHECK(channel_flush(&guest.channel, &wants_write, &guest.err));
    CHECK(channel_resync_begin(&host.channel, nonce, &host.err) && settle(&host, &host));
    CHECK(channel_is_resyncing(&host.channel) && host.got.len == 0);

    channel_resync_await(&guest.channel, nonce);
    CHECK(settle(&host, &guest) && !channel_is_resyncing(&host.channel));
    CHECK(channel_open_stream(&host.channel, 3, CHANNEL_RECEIVES, &host.err));
    CHECK(channel_send_data(&guest.channel, 3, (struct str){(const char *)nonce, sizeof nonce},
                            false, &guest.err));
    CHECK(settle(&host, &guest) && host.got.len == sizeof nonce);
    CHECK(ping(&host, 1) && settle(&host, &guest) && host.n_pongs == 1);
}

TEST(output_that_was_not_taken_goes_on_after_a_resync)
{
    PAIR(host, guest, SIDE_HOST, SIDE_GUEST);
    static const char bytes[CHANNEL_WINDOW];
    host.keeps_credit = true;
    CHECK(channel_open_stream(&host.channel, 3, CHANNEL_RECEIVES, &host.err));
    CHECK(channel_open_stream(&guest.channel, 3, CHANNEL_SENDS, &guest.err));
    CHECK(
        channel_send_data(&guest.channel, 3, (struct str){bytes, sizeof bytes}, false, &guest.err));
    CHECK(settle(&host, &guest) && host.got.len == CHANNEL_WINDOW);
    CHECK(channel_send_data(&guest.channel, 3, STR("later"), true, &guest.err));
    CHECK(settle(&host, &guest) && host.got.len == CHANNEL_WINDOW);

    channel_resync_await(&guest.channel, nonce);
    CHECK(channel_send(&guest.channel, MESSAGE_PONG, &(struct message_pong){.number = 1},
                       &guest.err));
    CHECK(channel_resync_begin(&host.channel, nonce, &host.err));
    CHECK(channel_open_stream(&host.channel, 3, CHANNEL_RECEIVES, &host.err));
    CHECK(settle(&host, &guest) && host.n_pongs == 1);
    CHECK(host.got.len == CHANNEL_WINDOW + 5 && host.has_ended);
}

TEST(a_paused_guest_outlives_its_descriptor)
{
    PAIR(host, guest, SIDE_HOST, SIDE_GUEST);
    channel_resync_await(&guest.channel, nonce);
    close(host.fd);
    host.fd = -1;
    CHECK(channel_read(&guest.channel, note_message, note_data, &guest, &guest.err));
    CHECK(channel_send(&guest.channel, MESSAGE_PONG, &(struct message_pong){.number = 1},
                       &guest.err));
    bool wants_write = true;
    CHECK(channel_flush(&guest.channel, &wants_write, &guest.err) && !wants_write);
}

TEST_MAIN()
