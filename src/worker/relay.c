#include "worker/relay.h"

#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>

#include "base/json.h"
#include "base/log.h"
#include "base/own.h"
#include "http/websocket_client.h"
#include "worker/guest_state.h"
#include "worker/worker.h"

enum {
    RELAYS_MAX = 64,
    NAME_TEXT = 48,
    DIAL_MS = 10000,
    WAITING_MAX = 128 * 1024, /* beyond it the other side is held back */
    PENDING_MAX = 4 * 1024 * 1024,
    /* Odd, as the host's are, and from the end: programs have theirs at the beginning. */
    STREAMS = 1024,
    STREAM_FIRST = 65535 - 2 * STREAMS,
};

enum stage { DIALLING, ARRIVING, ASKING, OPEN, CLOSING };

struct guest_relay {
    struct guest_relay *next;
    struct guest *guest;
    char name[NAME_TEXT];
    uint64_t id; /* of the question to the agent */
    uint16_t stream;
    enum stage stage; /* DIALLING and ARRIVING: under the lock, for the thread has it */
    pthread_mutex_t lock;
    bool is_abandoned; /* the thread is to clean up */
    char path[256];
    struct line dial;
    struct websocket_client *line; /* NULL: it could not be dialled, or not yet */
    struct loop_source *source;
    unsigned watched;
    struct buf pending;  /* for the agent */
    size_t owed;         /* received from the agent, its credit withheld */
    bool has_heard_end;  /* of the line: no more will come, */
    bool has_passed_end; /* and the agent knows */
    bool is_line_over, is_stream_over;
};

static const struct str end_text = STR("{\"type\":\"end\"}");

static void destroy(struct guest_relay *relay)
{
    loop_remove(relay->source);
    websocket_client_destroy(relay->line);
    line_close(&relay->dial);
    buf_finish(&relay->pending);
    pthread_mutex_destroy(&relay->lock);
    free(relay);
}

static struct guest_relay *of_stream(const struct guest *guest, uint32_t stream)
{
    struct guest_relay *relay = guest->relays;

    while (relay && (relay->stage < ASKING || relay->stream != stream))
        relay = relay->next;
    return relay;
}

static struct guest_relay *of_id(const struct guest *guest, uint64_t id)
{
    struct guest_relay *relay = guest->relays;

    while (relay && (relay->stage < ASKING || relay->id != id))
        relay = relay->next;
    return relay;
}

size_t relay_count(const struct guest *guest)
{
    size_t n = 0;

    for (const struct guest_relay *relay = guest->relays; relay; relay = relay->next)
        n++;
    return n;
}

static void on_line_message(void *arg, enum websocket_kind kind, struct str bytes)
{
    struct guest_relay *relay = arg;
    struct error err;

    if (kind == WEBSOCKET_TEXT)
        relay->has_heard_end = true;
    else if (!relay->has_heard_end && !buf_append(&relay->pending, bytes, &err))
        relay->is_line_over = true;
    if (relay->pending.len > WAITING_MAX)
        websocket_client_hold(relay->line, true);
}

static void say(struct guest_relay *relay, enum websocket_kind kind, struct str bytes)
{
    struct error err;

    if (!relay->is_line_over && !websocket_client_send(relay->line, kind, bytes, &err))
        relay->is_line_over = true;
}

/* Ends both sides; it is gone when what was said before is out. */
static bool close_both(struct guest_relay *relay, struct error *err)
{
    struct channel *channel = &relay->guest->channel;

    if (relay->stage == CLOSING)
        return true;
    relay->stage = CLOSING;
    if (!relay->is_line_over)
        websocket_client_close(relay->line, WEBSOCKET_NORMAL, "");
    if (relay->is_stream_over || relay->stream == 0)
        return true;
    return channel_send_data(channel, relay->stream, STR(""), true, err) &&
           channel_reset(channel, relay->stream, 0, err);
}

static bool pass_to_agent(struct guest_relay *relay, struct error *err)
{
    struct channel *channel = &relay->guest->channel;

    while (relay->pending.len > 0) {
        size_t room = channel_send_room(channel, relay->stream);
        size_t len = relay->pending.len < room ? relay->pending.len : room;

        if (len == 0)
            return true;
        if (!channel_send_data(channel, relay->stream, (struct str){relay->pending.bytes, len},
                               false, err))
            return false;
        buf_consume(&relay->pending, len);
    }
    websocket_client_hold(relay->line, false);
    if (!relay->has_heard_end || relay->has_passed_end)
        return true;
    relay->has_passed_end = true;
    return channel_send_data(channel, relay->stream, STR(""), true, err);
}

static bool give_credit(struct guest_relay *relay, struct error *err)
{
    size_t owed = relay->owed;

    if (owed == 0 || websocket_client_unsent(relay->line) > WAITING_MAX)
        return true;
    relay->owed = 0;
    return channel_consumed(&relay->guest->channel, relay->stream, owed, err);
}

static bool watch(struct guest_relay *relay, struct error *err);

static void on_line_ready(void *arg, unsigned events UNUSED)
{
    struct guest_relay *relay = arg;
    struct guest *guest = relay->guest;
    struct error err;

    do {
        relay->is_line_over = relay->is_line_over || !websocket_client_turn(relay->line, &err);
    } while (!relay->is_line_over && websocket_client_has_more(relay->line));
    guest->is_stirred = true;
    guest_flush(guest);
}

static bool watch(struct guest_relay *relay, struct error *err)
{
    int wants = relay->is_line_over ? 0 : websocket_client_wants(relay->line);
    unsigned events = (wants & POLLIN ? LOOP_READ : 0U) | (wants & POLLOUT ? LOOP_WRITE : 0U);

    if (events == relay->watched)
        return true;
    relay->watched = events;
    if (events == 0) {
        loop_remove(TAKE(relay->source));
        return true;
    }
    if (relay->source)
        return loop_change(relay->source, events, err);
    return loop_add(relay->guest->loop, websocket_client_fd(relay->line), events, on_line_ready,
                    relay, &relay->source, err);
}

static bool settle(struct guest_relay *relay, struct error *err)
{
    struct error ignored;

    if (relay->stage == OPEN && (!pass_to_agent(relay, err) || !give_credit(relay, err)))
        return false;
    if (relay->is_line_over || (relay->is_stream_over && relay->has_passed_end))
        if (!close_both(relay, err))
            return false;
    if (!relay->is_line_over && websocket_client_unsent(relay->line) > 0)
        relay->is_line_over = !websocket_client_turn(relay->line, &ignored);
    return watch(relay, err);
}

static bool is_gone(const struct guest_relay *relay)
{
    return relay->stage == CLOSING &&
           (relay->is_line_over || websocket_client_unsent(relay->line) == 0);
}

bool relay_settle(struct guest *guest, struct error *err)
{
    struct guest_relay **link = &guest->relays;

    while (*link) {
        struct guest_relay *relay = *link;

        pthread_mutex_lock(&relay->lock);
        bool is_ours = relay->stage >= ASKING;
        pthread_mutex_unlock(&relay->lock);
        if (is_ours && !settle(relay, err))
            return false;
        if (is_ours && is_gone(relay)) {
            *link = relay->next;
            destroy(relay);
        } else {
            link = &relay->next;
        }
    }
    return true;
}

/* In turn: the agent's last words about a stream that was just closed may be on their way. */
static bool choose_stream(struct guest *guest, uint16_t *stream, struct error *err)
{
    static const unsigned both = CHANNEL_SENDS | CHANNEL_RECEIVES;

    for (unsigned i = 0; i < STREAMS; i++) {
        *stream = (uint16_t)(STREAM_FIRST + 2 * (guest->n_relayed++ % STREAMS));
        if (!channel_is_open(&guest->channel, *stream, CHANNEL_SENDS) &&
            !channel_is_open(&guest->channel, *stream, CHANNEL_RECEIVES))
            return channel_open_stream(&guest->channel, *stream, both, err);
    }
    return error_set(err, ERR_LIMIT, "there is no stream left");
}

static bool ask_agent(struct guest_relay *relay, struct error *err)
{
    struct guest *guest = relay->guest;

    if (!choose_stream(guest, &relay->stream, err))
        return false;
    relay->id = ++guest->number;
    return channel_send(&guest->channel, MESSAGE_RELAY,
                        &(struct message_relay){
                            .id = relay->id,
                            .name = str_of(relay->name),
                            .stream = relay->stream,
                        },
                        err);
}

/* On the loop: the thread is done with it. */
static void on_arrived(void *arg)
{
    struct guest_relay *relay = arg;
    struct guest *guest = relay->guest;
    struct error err;

    pthread_mutex_lock(&relay->lock);
    relay->stage = ASKING;
    pthread_mutex_unlock(&relay->lock);
    relay->is_line_over = !relay->line;
    if (relay->line && !ask_agent(relay, &err))
        guest_break_off(guest, &err);
    guest_flush(guest);
}

static void *dial(void *arg)
{
    static const struct websocket_events events = {.message = on_line_message};
    struct guest_relay *relay = arg;
    struct websocket_dial dialled = {.path = relay->path,
                                     .protocol = "helmr.relay.v0",
                                     .timeout_ms = DIAL_MS};
    struct error err;

    if (!line_dial(&relay->dial, &dialled, &events, relay, &relay->line, &err))
        log_info("relay not dialled", LOG_STR("name", relay->name), LOG_ERR(&err));
    pthread_mutex_lock(&relay->lock);
    bool is_abandoned = relay->is_abandoned;
    if (!is_abandoned) {
        relay->stage = ARRIVING;
        loop_post(relay->guest->loop, on_arrived, relay);
    }
    pthread_mutex_unlock(&relay->lock);
    if (is_abandoned)
        destroy(relay);
    return NULL;
}

static bool is_known(const struct guest *guest, struct str name)
{
    for (const struct guest_relay *relay = guest->relays; relay; relay = relay->next)
        if (str_equal(str_of(relay->name), name))
            return true;
    return false;
}

static bool name_fits(struct str name)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyz0123456789-";

    for (size_t i = 0; i < name.len; i++)
        if (!memchr(letters, name.ptr[i], sizeof letters - 1))
            return false;
    return name.len > 0 && name.len < NAME_TEXT;
}

void relay_open(struct guest *guest, struct str name)
{
    const struct lease *lease = guest->lease;
    struct error err;
    pthread_t thread;

    if (!name_fits(name) || is_known(guest, name) || relay_count(guest) >= RELAYS_MAX)
        return;
    struct guest_relay *relay = alloc(sizeof *relay);
    *relay = (struct guest_relay){.guest = guest, .pending.max = PENDING_MAX};
    pthread_mutex_init(&relay->lock, NULL);
    snprintf(relay->name, sizeof relay->name, "%.*s", (int)name.len, name.ptr);
    snprintf(relay->path, sizeof relay->path,
             "/api/worker/leases/%s/relay/%s?epoch=%" PRId64 "&sequence=%" PRId64, lease->id,
             relay->name, guest->worker->link.epoch, lease->sequence);
    if (!line_open(&guest->worker->link, &relay->dial, &err) ||
        pthread_create(&thread, NULL, dial, relay) != 0) {
        destroy(relay);
        return;
    }
    pthread_detach(thread);
    relay->next = guest->relays;
    guest->relays = relay;
}

void relay_connected(struct guest *guest, const struct message_relay *message)
{
    struct guest_relay *relay = of_id(guest, message->id);

    if (!relay || relay->stage != ASKING)
        return;
    relay->stage = OPEN;
    say(relay, WEBSOCKET_TEXT, STR("{\"type\":\"open\"}"));
}

void relay_refused(struct guest *guest, const struct message_error *error)
{
    AUTO(buf_finish) struct buf text = {.max = 8192};
    struct guest_relay *relay = of_id(guest, error->id);
    struct json_writer json = json_begin(&text);
    struct error err;

    if (!relay || relay->stage != ASKING)
        return;
    json_open(&json, NULL);
    json_string(&json, "type", "refused");
    json_text(&json, "code", error->code);
    json_text(&json, "error", error->text);
    json_close(&json);
    if (json_end(&json, &err))
        say(relay, WEBSOCKET_TEXT, buf_str(&text));
    if (!close_both(relay, &err))
        guest_break_off(guest, &err);
}

void relay_was_reset(struct guest *guest, uint32_t stream)
{
    struct guest_relay *relay = of_stream(guest, stream);
    struct error err;

    if (relay && relay->stage == OPEN && !relay->is_stream_over && !close_both(relay, &err))
        guest_break_off(guest, &err);
}

bool relay_owns(const struct guest *guest, uint16_t stream)
{
    return of_stream(guest, stream);
}

bool relay_data(struct guest *guest, uint16_t stream, struct str bytes, bool is_end,
                struct error *err)
{
    struct guest_relay *relay = of_stream(guest, stream);

    if (relay->stage != OPEN)
        return channel_consumed(&guest->channel, stream, bytes.len, err);
    relay->owed += bytes.len;
    if (bytes.len > 0)
        say(relay, WEBSOCKET_BINARY, bytes);
    if (is_end) {
        relay->is_stream_over = true;
        say(relay, WEBSOCKET_TEXT, end_text);
    }
    return true;
}

void relay_drop_all(struct guest *guest)
{
    while (guest->relays) {
        struct guest_relay *relay = guest->relays;

        guest->relays = relay->next;
        pthread_mutex_lock(&relay->lock);
        bool is_dialling = relay->stage == DIALLING;
        relay->is_abandoned = is_dialling;
        pthread_mutex_unlock(&relay->lock);
        if (!is_dialling)
            destroy(relay);
    }
}
