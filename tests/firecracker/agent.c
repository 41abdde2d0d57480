/* The agent of the guest that is not there: it says hello, answers pings, and rests between a
 * PAUSE and the nonce. All it knows is in the memory of the machine. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "base/own.h"
#include "machine.h"
#include "protocol/channel.h"

enum { PORT = 5000, DEAF_TURNS = 2 };

struct guest {
    uint64_t generation, n_pings;
    uint8_t nonce[CHANNEL_NONCE_LEN];
    bool is_paused;
    int n_refused; /* before it listened */
};

static struct channel channel;
static int fd = -1;
static bool wants_rest;

static struct guest *guest(void)
{
    return (struct guest *)machine.memory;
}

static void touch(void)
{
    machine_touch(guest(), sizeof *guest());
}

void agent_boot(void)
{
    *guest() = (struct guest){.generation = 1};
    touch();
}

int agent_fd(void)
{
    return fd;
}

void agent_disconnect(void)
{
    if (fd < 0)
        return;
    channel_finish(&channel);
    close(fd);
    fd = -1;
}

static bool say_hello(struct error *err)
{
    static const char zeros[32];
    const struct message_hello hello = {
        .protocol = MESSAGE_PROTOCOL,
        .abi = MESSAGE_ABI,
        .agent_digest = {zeros, 32},
        .boot_nonce = {zeros, 16},
        .arch = STR("stand-in"),
        .kernel = STR("none"),
        .generation = guest()->generation,
    };

    return channel_send_first(&channel, MESSAGE_HELLO, &hello, err);
}

/* Pings are counted in a page of their own each, so that there is something to save. */
static bool on_message(void *arg, const struct message *message, struct error *err)
{
    struct guest *self = guest();

    (void)arg;
    if (message->type == MESSAGE_PING) {
        const struct message_pong pong = {.number = message->ping.number,
                                          .memory_kib = ++self->n_pings};
        size_t page = 64 + self->n_pings % 32;
        machine.memory[page * PAGE] = (uint8_t)self->n_pings;
        machine_touch(machine.memory + page * PAGE, 1);
        touch();
        return channel_send(&channel, MESSAGE_PONG, &pong, err);
    }
    if (message->type == MESSAGE_PAUSE) {
        const struct message_paused paused = {.id = message->pause.id};
        memcpy(self->nonce, message->pause.nonce.ptr, sizeof self->nonce);
        self->is_paused = wants_rest = true;
        self->generation++;
        touch();
        return channel_send(&channel, MESSAGE_PAUSED, &paused, err);
    }
    return message->type == MESSAGE_WELCOME ||
           error_set(err, ERR_INVALID, "a stand-in knows no message %d", (int)message->type);
}

static bool on_data(void *arg, uint16_t stream, struct str bytes, bool is_end, struct error *err)
{
    (void)arg, (void)bytes, (void)is_end;
    return error_set(err, ERR_INVALID, "data on stream %d", stream);
}

void agent_turn(void)
{
    struct error err;
    bool was_away = channel_is_resyncing(&channel), wants_write;

    if (!channel_read(&channel, on_message, on_data, NULL, &err)) {
        agent_disconnect();
        return;
    }
    if (was_away && !channel_is_resyncing(&channel)) {
        guest()->is_paused = false;
        touch();
        if (!say_hello(&err)) {
            agent_disconnect();
            return;
        }
    }
    if (!channel_flush(&channel, &wants_write, &err)) {
        agent_disconnect();
        return;
    }
    if (wants_rest && channel_is_flushed(&channel)) {
        wants_rest = false;
        channel_resync_await(&channel, guest()->nonce);
    }
}

/* The line that the host asks with; nothing else may come before its answer. */
static bool question_read(int connection, unsigned *port)
{
    char line[32];
    size_t len = 0;

    while (len < sizeof line - 1) {
        if (recv(connection, &line[len], 1, 0) != 1)
            return false;
        if (line[len++] == '\n')
            break;
    }
    line[len] = '\0';
    int end = 0;
    return sscanf(line, "CONNECT %u\n%n", port, &end) == 1 && (size_t)end == len;
}

int agent_accept(int connection)
{
    unsigned port = 0;
    struct error err;
    bool wants_write;
    const char *fault = fault_of("-", "vsock");
    const char *answer = fault ? "KO\n" : "OK 1073741824\n";

    if (!question_read(connection, &port) || port != PORT || fault_of("-", "agent"))
        return -1;

    /* A guest takes its time to boot; hung up on means: ask again. */
    if (guest()->n_refused < DEAF_TURNS) {
        guest()->n_refused++;
        touch();
        return -1;
    }
    agent_disconnect();
    fd = connection;
    (void)!send(fd, answer, strlen(answer), MSG_NOSIGNAL);
    (void)fcntl(fd, F_SETFL, O_NONBLOCK);
    channel_init(&channel, fd, fd, SIDE_GUEST);
    if (guest()->is_paused)
        channel_resync_await(&channel, guest()->nonce);
    else if (!say_hello(&err) || !channel_flush(&channel, &wants_write, &err))
        agent_disconnect();
    return fd;
}
