#include "server/relay.h"

#include <pthread.h>
#include <stdio.h>

#include "base/json.h"
#include "base/own.h"
#include "base/time.h"

enum {
    INBOX_MAX = 256 * 1024, /* a full one takes nothing more, and each message is shorter */
    PIECE = 32 * 1024,
    ABANDONED_MS = 2 * RELAY_WAIT_MS,
    REASON_TEXT = 200,
};

enum side { SIDE_CLIENT, SIDE_WORKER, SIDES };

enum state { ASKED, OPEN, REFUSED };

/* What one side is to be sent. */
struct inbox {
    struct buf bytes;
    bool has_all; /* the other side has said its end */
    bool is_told; /* and this one knows */
};

struct relay {
    struct relay *next;
    struct relays *relays;
    char id[ID_TEXT], lease_id[ID_TEXT], name[RELAY_NAME_TEXT];
    enum state state;
    enum error_code refusal;
    char reason[REASON_TEXT];
    struct inbox inboxes[SIDES];
    bool has_joined[SIDES], has_left[SIDES];
    int64_t asked_ms; /* boot time */
};

struct relays {
    struct hub *hub;
    pthread_mutex_t lock; /* of everything below and of every relay */
    struct relay *first;
    uint64_t n_asked;
};

/* The state of one WebSocket. */
struct relay_end {
    struct relay *relay;
    enum side side;
};

static void side_topic(const char *id, enum side side, char topic[TOPIC_TEXT])
{
    snprintf(topic, TOPIC_TEXT, "relay:%s:%d", id, (int)side);
}

void relay_topic(const char *id, char topic[TOPIC_TEXT])
{
    side_topic(id, SIDE_CLIENT, topic);
}

static void wake(const struct relay *relay, enum side side)
{
    char topic[TOPIC_TEXT];

    side_topic(relay->id, side, topic);
    hub_wake(relay->relays->hub, topic);
}

static enum side other(enum side side)
{
    return side == SIDE_CLIENT ? SIDE_WORKER : SIDE_CLIENT;
}

struct relays *relays_create(struct hub *hub)
{
    struct relays *relays = alloc(sizeof *relays);

    *relays = (struct relays){.hub = hub};
    pthread_mutex_init(&relays->lock, NULL);
    return relays;
}

static void destroy(struct relay *relay)
{
    struct relay **link = &relay->relays->first;

    while (*link != relay)
        link = &(*link)->next;
    *link = relay->next;
    for (enum side side = 0; side < SIDES; side++)
        buf_finish(&relay->inboxes[side].bytes);
    free(relay);
}

void relays_destroy(struct relays *relays)
{
    if (!relays)
        return;
    while (relays->first)
        destroy(relays->first);
    pthread_mutex_destroy(&relays->lock);
    free(relays);
}

/* A worker that has left may have said something that the client is still to hear. */
static bool is_idle(const struct relay *relay)
{
    return relay->has_left[SIDE_CLIENT] &&
           relay->has_joined[SIDE_WORKER] == relay->has_left[SIDE_WORKER];
}

static void leave(struct relay *relay, enum side side)
{
    relay->has_joined[side] = relay->has_left[side] = true;
    if (side == SIDE_WORKER && relay->state == ASKED) {
        relay->state = REFUSED;
        relay->refusal = ERR_UNAVAILABLE;
        snprintf(relay->reason, sizeof relay->reason, "the sandbox has gone");
    }
    if (is_idle(relay))
        destroy(relay);
    else
        wake(relay, other(side));
}

/* A client that went away while it waited tells nobody: its channels are found here. */
static void drop_abandoned(struct relays *relays, int64_t now)
{
    struct relay *next;

    for (struct relay *relay = relays->first; relay; relay = next) {
        next = relay->next;
        if (!relay->has_joined[SIDE_CLIENT] && now - relay->asked_ms > ABANDONED_MS)
            leave(relay, SIDE_CLIENT);
    }
}

static struct relay *find(struct relays *relays, const char *id)
{
    struct relay *relay = relays->first;

    while (relay && strcmp(relay->id, id) != 0)
        relay = relay->next;
    return relay;
}

static size_t count_of(struct relays *relays, const char *lease_id)
{
    size_t n = 0;

    for (const struct relay *relay = relays->first; relay; relay = relay->next)
        n += strcmp(relay->lease_id, lease_id) == 0;
    return n;
}

bool relay_ask(struct relays *relays, const char *id, const char *lease_id, uint16_t port,
               char name[RELAY_NAME_TEXT], struct error *err)
{
    struct relay *relay = alloc(sizeof *relay);

    pthread_mutex_lock(&relays->lock);
    drop_abandoned(relays, time_boot_ms());
    bool has_room = count_of(relays, lease_id) < RELAYS_OF_LEASE_MAX;
    if (has_room) {
        *relay =
            (struct relay){.next = relays->first, .relays = relays, .asked_ms = time_boot_ms()};
        snprintf(relay->id, sizeof relay->id, "%s", id);
        snprintf(relay->lease_id, sizeof relay->lease_id, "%s", lease_id);
        snprintf(relay->name, sizeof relay->name, "port-%u-%llu", port,
                 (unsigned long long)++relays->n_asked);
        for (enum side side = 0; side < SIDES; side++)
            relay->inboxes[side].bytes.max = INBOX_MAX + WEBSOCKET_MESSAGE_MAX;
        memcpy(name, relay->name, RELAY_NAME_TEXT);
        relays->first = relay;
    }
    pthread_mutex_unlock(&relays->lock);
    if (has_room)
        return true;
    free(relay);
    return error_set(err, ERR_QUOTA, "the sandbox has %d connections already", RELAYS_OF_LEASE_MAX);
}

void relay_forget(struct relays *relays, const char *id)
{
    pthread_mutex_lock(&relays->lock);
    struct relay *relay = find(relays, id);
    if (relay)
        leave(relay, SIDE_CLIENT);
    pthread_mutex_unlock(&relays->lock);
}

bool relay_look(struct relays *relays, const char *id, bool *is_asked, bool *is_open,
                struct error *err)
{
    bool is_refused = false;

    pthread_mutex_lock(&relays->lock);
    struct relay *relay = find(relays, id);
    *is_asked = relay;
    *is_open = relay && relay->state == OPEN;
    if (relay && relay->state == REFUSED) {
        is_refused = true;
        error_set(err, relay->refusal, "%s", relay->reason);
        leave(relay, SIDE_CLIENT);
    }
    pthread_mutex_unlock(&relays->lock);
    return !is_refused;
}

/* Codes of the agent that mean something to whoever asked. */
static enum error_code code_of(struct str code)
{
    return str_equal(code, STR("port_not_allowed")) ? ERR_PORT_NOT_ALLOWED : ERR_UNAVAILABLE;
}

static void refuse(struct relay *relay, struct str message, struct arena *arena)
{
    struct str code = {0}, text = STR("the port cannot be reached");

    json_find_text(message, "code", arena, &code);
    json_find_text(message, "error", arena, &text);
    relay->state = REFUSED;
    relay->refusal = code_of(code);
    snprintf(relay->reason, sizeof relay->reason, "%.*s", (int)text.len, text.ptr);
}

/* {"type":"end"} of both; {"type":"open"} or {"type":"refused","code","error"} of the worker. */
static bool take_text(struct relay *relay, enum side side, struct str message)
{
    AUTO(arena_finish) struct arena arena = {0};
    struct str type = {0};

    json_find_text(message, "type", &arena, &type);
    if (str_equal(type, STR("end")))
        relay->inboxes[other(side)].has_all = true;
    else if (side == SIDE_WORKER && relay->state == ASKED && str_equal(type, STR("open")))
        relay->state = OPEN;
    else if (side == SIDE_WORKER && relay->state == ASKED && str_equal(type, STR("refused")))
        refuse(relay, message, &arena);
    else
        return false;
    return true;
}

static bool take(void *state, enum websocket_kind kind, struct str bytes, bool *held,
                 struct websocket_out *out, struct error *err)
{
    struct relay_end *end = state;
    struct relay *relay = end->relay;
    bool ok = true;

    pthread_mutex_lock(&relay->relays->lock);
    struct inbox *inbox = &relay->inboxes[other(end->side)];
    if (kind == WEBSOCKET_TEXT ? !take_text(relay, end->side, bytes) : inbox->has_all)
        websocket_say_end(out, WEBSOCKET_POLICY, "that is not expected here");
    else if (kind == WEBSOCKET_BINARY && inbox->bytes.len >= INBOX_MAX)
        *held = !relay->has_left[other(end->side)];
    else if (kind == WEBSOCKET_BINARY)
        ok = buf_append(&inbox->bytes, bytes, err);
    if (!*held)
        wake(relay, other(end->side));
    pthread_mutex_unlock(&relay->relays->lock);
    return ok;
}

static bool send_bytes(struct inbox *inbox, struct websocket_out *out, struct error *err)
{
    struct str rest = buf_str(&inbox->bytes);

    while (rest.len > 0) {
        struct str piece = {rest.ptr, rest.len < PIECE ? rest.len : PIECE};

        if (out->messages.bytes.len >= INBOX_MAX)
            break;
        if (!websocket_say(out, WEBSOCKET_BINARY, piece, err))
            return false;
        rest = (struct str){rest.ptr + piece.len, rest.len - piece.len};
    }
    buf_consume(&inbox->bytes, inbox->bytes.len - rest.len);
    return true;
}

static bool send_end(struct relay *relay, enum side side, struct websocket_out *out,
                     struct error *err)
{
    struct inbox *inbox = &relay->inboxes[side];
    bool has_left = relay->has_left[other(side)];

    if (inbox->bytes.len > 0)
        return true;
    if (inbox->has_all && !inbox->is_told) {
        inbox->is_told = true;
        if (!websocket_say(out, WEBSOCKET_TEXT, STR("{\"type\":\"end\"}"), err))
            return false;
    }
    if (has_left || relay->state == REFUSED)
        websocket_say_end(out, inbox->has_all ? WEBSOCKET_NORMAL : WEBSOCKET_GOING_AWAY,
                          inbox->has_all ? "" : "the connection was cut");
    return true;
}

static bool pull(void *state, struct websocket_out *out, bool *more, struct error *err)
{
    struct relay_end *end = state;
    struct relay *relay = end->relay;

    pthread_mutex_lock(&relay->relays->lock);
    struct inbox *inbox = &relay->inboxes[end->side];
    size_t before = inbox->bytes.len;
    bool ok = send_bytes(inbox, out, err) && send_end(relay, end->side, out, err);
    *more = inbox->bytes.len > 0;
    if (inbox->bytes.len < before)
        wake(relay, other(end->side));
    pthread_mutex_unlock(&relay->relays->lock);
    return ok;
}

void relay_leave(struct relay_end *end)
{
    if (!end)
        return;

    struct relays *relays = end->relay->relays;

    pthread_mutex_lock(&relays->lock);
    leave(end->relay, end->side);
    pthread_mutex_unlock(&relays->lock);
    free(end);
}

static void release(void *state)
{
    relay_leave(state);
}

static void become_websocket(struct relay *relay, enum side side, const char *protocol,
                             struct call *call, struct response *res)
{
    struct relay_end *end = alloc(sizeof *end);
    char topic[TOPIC_TEXT];

    *end = (struct relay_end){relay, side};
    relay->has_joined[side] = true;
    side_topic(relay->id, side, topic);
    response_websocket(res, call,
                       &(struct response_websocket){
                           .topic = topic,
                           .protocol = protocol,
                           .take = take,
                           .pull = pull,
                           .release = release,
                           .state = end,
                       });
}

bool relay_join_here(struct relays *relays, const char *id, struct relay_end **end,
                     struct error *err)
{
    pthread_mutex_lock(&relays->lock);
    struct relay *relay = find(relays, id);
    bool is_there = relay && relay->state == OPEN && !relay->has_joined[SIDE_CLIENT];
    if (is_there) {
        relay->has_joined[SIDE_CLIENT] = true;
        *end = alloc(sizeof **end);
        **end = (struct relay_end){relay, SIDE_CLIENT};
    }
    pthread_mutex_unlock(&relays->lock);
    return is_there || error_set(err, ERR_UNAVAILABLE, "the connection has gone already");
}

bool relay_read(struct relay_end *end, size_t most, struct buf *bytes, bool *is_over,
                struct error *err)
{
    struct relay *relay = end->relay;

    pthread_mutex_lock(&relay->relays->lock);
    struct inbox *inbox = &relay->inboxes[end->side];
    struct str all = buf_str(&inbox->bytes), piece = {all.ptr, all.len < most ? all.len : most};
    bool ok = piece.len == 0 || buf_append(bytes, piece, err);
    if (ok && piece.len > 0) {
        buf_consume(&inbox->bytes, piece.len);
        wake(relay, other(end->side));
    }
    *is_over = inbox->bytes.len == 0 && (inbox->has_all || relay->has_left[other(end->side)]);
    pthread_mutex_unlock(&relay->relays->lock);
    return ok;
}

bool relay_write(struct relay_end *end, struct str bytes, size_t *taken, struct error *err)
{
    struct relay *relay = end->relay;
    bool ok = true;

    pthread_mutex_lock(&relay->relays->lock);
    struct inbox *inbox = &relay->inboxes[other(end->side)];
    size_t room = inbox->bytes.len < INBOX_MAX ? INBOX_MAX - inbox->bytes.len : 0;
    *taken = bytes.len < room ? bytes.len : room;
    if (*taken > 0) {
        ok = buf_append(&inbox->bytes, (struct str){bytes.ptr, *taken}, err);
        wake(relay, other(end->side));
    }
    pthread_mutex_unlock(&relay->relays->lock);
    return ok;
}

bool relay_join_client(struct relays *relays, const char *id, struct call *call,
                       struct response *res, struct error *err)
{
    pthread_mutex_lock(&relays->lock);
    struct relay *relay = find(relays, id);
    bool is_there = relay && relay->state == OPEN && !relay->has_joined[SIDE_CLIENT];
    if (is_there)
        become_websocket(relay, SIDE_CLIENT, "helmr.port.v1", call, res);
    pthread_mutex_unlock(&relays->lock);
    return is_there || error_set(err, ERR_UNAVAILABLE, "the connection has gone already");
}

bool relay_join_worker(struct relays *relays, struct str lease_id, struct str name,
                       struct call *call, struct response *res, struct error *err)
{
    pthread_mutex_lock(&relays->lock);
    struct relay *relay = relays->first;
    while (relay &&
           !(str_equal(str_of(relay->lease_id), lease_id) && str_equal(str_of(relay->name), name)))
        relay = relay->next;
    bool is_there = relay && !relay->has_joined[SIDE_WORKER] && !relay->has_left[SIDE_CLIENT];
    if (is_there)
        become_websocket(relay, SIDE_WORKER, "helmr.relay.v0", call, res);
    pthread_mutex_unlock(&relays->lock);
    return is_there || error_set(err, ERR_NOT_FOUND, "nobody waits for this relay");
}
