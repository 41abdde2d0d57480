#include "guest/reestablish.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/random.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <time.h>

#include "base/own.h"
#include "guest/adapter.h"
#include "guest/clock.h"
#include "guest/deliver.h"
#include "guest/sockets.h"

enum {
    RESEED_MS = 60 * 1000, /* the host gives up sooner, if it wants to */
    DNS_PORT = 53,
    ENTROPY_LEN = 64,
};

/* A kernel of our own takes the host's bytes with credit, or the copy would draw what every other
 * one draws. One that draws from the host's generator refuses, and shows that it is alive: two
 * draws of 32 bytes are not equal. */
static bool renew_entropy(struct str entropy, bool is_machine)
{
    struct {
        struct rand_pool_info info;
        char bytes[ENTROPY_LEN];
    } pool = {
        .info = {.entropy_count = ENTROPY_LEN * 8, .buf_size = ENTROPY_LEN}
    };
    char first[32] = {0}, second[32] = {0};
    AUTO_FD int fd = open("/dev/urandom", O_WRONLY | O_CLOEXEC);

    memcpy(pool.bytes, entropy.ptr, sizeof pool.bytes);
    bool is_renewed =
        fd >= 0 && ioctl(fd, RNDADDENTROPY, &pool) == 0 && ioctl(fd, RNDRESEEDCRNG) == 0;
    if (is_machine && !is_renewed)
        return false;
    if (fd >= 0 && !is_renewed)
        (void)!write(fd, entropy.ptr, entropy.len);
    return getrandom(first, sizeof first, 0) == sizeof first &&
           getrandom(second, sizeof second, 0) == sizeof second &&
           memcmp(first, second, sizeof first) != 0;
}

/* Whether there is a way to the name server; nothing is sent. */
static bool network_is_fine(struct str_list dns)
{
    struct sockaddr_in server = {.sin_family = AF_INET, .sin_port = htons(DNS_PORT)};
    char text[64];

    if (dns.n == 0)
        return true;
    snprintf(text, sizeof text, "%.*s", (int)dns.items[0].len, dns.items[0].ptr);
    if (inet_pton(AF_INET, text, &server.sin_addr) != 1)
        return false;
    AUTO_FD int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    return fd >= 0 && connect(fd, (const struct sockaddr *)&server, sizeof server) == 0;
}

static bool secrets_are_whole(const struct agent *agent, uint32_t *count, struct error *err)
{
    for (const struct program *p = agent->programs; p; p = p->next) {
        if (!deliver_is_whole(p))
            return error_set(err, ERR_CONFLICT, "secrets of program %u have not come again",
                             p->number);
        *count += p->secrets ? (uint32_t)p->secrets->n : 0;
    }
    return true;
}

static bool renew(struct agent *agent, const struct message_reestablish *message,
                  struct message_reestablished *answer, const char **code, struct error *err)
{
    struct sandbox *sandbox = &agent->sandbox;

    *code = "invalid_request";
    if (!sandbox->is_ready || agent->reestablish.is_waiting)
        return error_set(err, ERR_CONFLICT, "the sandbox is not ready");
    *code = "lease_stale";
    if (message->generation <= sandbox->generation)
        return error_set(err, ERR_CONFLICT, "generation %llu is not newer than %llu",
                         (unsigned long long)message->generation,
                         (unsigned long long)sandbox->generation);
    *code = "secret_unavailable";
    if (!secrets_are_whole(agent, &answer->secrets, err))
        return false;
    *code = "entropy_failed";
    if (agent->boot)
        agent_set_clock(agent, message->realtime_ns);
    answer->entropy_ok = renew_entropy(message->entropy, agent->boot != NULL);
    if (!answer->entropy_ok)
        return error_set(err, ERR_INTERNAL, "the random numbers could not be renewed");
    *code = "identity_failed";
    if (!sandbox_renew(sandbox, message, err))
        return false;
    /* Elsewhere restored connections are ended by the engine, which knows them all. */
    *code = "network_failed";
    if (agent->boot && !sockets_close(&answer->sockets_closed, err))
        return false;
    answer->network_ok = network_is_fine(message->dns);
    answer->generation = message->generation;
    return true;
}

static void answer(struct agent *agent)
{
    struct reestablish *state = &agent->reestablish;

    loop_cancel(state->timer);
    state->timer = NULL;
    state->is_waiting = false;
    state->answer.realtime_ns = (uint64_t)clock_now_ns();
    agent_send(agent, MESSAGE_REESTABLISHED, &state->answer);
}

static void refuse_reseed(struct agent *agent, const char *text)
{
    struct reestablish *state = &agent->reestablish;
    struct error err = {.code = ERR_INTERNAL};

    loop_cancel(state->timer);
    state->timer = NULL;
    state->is_waiting = false;
    snprintf(err.text, sizeof err.text, "%s", text);
    agent_refuse(agent, state->answer.id, "reestablish", "reseed_failed", &err);
}

static void reseed_is_late(void *arg)
{
    struct agent *agent = arg;

    agent->reestablish.timer = NULL;
    refuse_reseed(agent, "an adapter did not renew its random numbers in time");
}

void reestablish_begin(struct agent *agent, const struct message_reestablish *message)
{
    struct reestablish *state = &agent->reestablish;
    struct message_reestablished result = {.id = message->id};
    const char *code = NULL;
    struct error err = {0};

    if (!renew(agent, message, &result, &code, &err)) {
        agent_refuse(agent, message->id, "reestablish", code, &err);
        return;
    }
    *state = (struct reestablish){.is_waiting = true, .answer = result};
    for (struct program *p = agent->programs; p; p = p->next) {
        if (!p->adapter || p->adapter->state != ADAPTER_WAITING)
            continue;
        adapter_reseed(p->adapter, message->entropy);
        state->n_reseeding++;
    }
    if (state->n_reseeding)
        state->timer = loop_after(agent->loop, RESEED_MS, reseed_is_late, agent);
    else
        answer(agent);
}

void reestablish_reseeded(struct agent *agent, bool is_fine)
{
    struct reestablish *state = &agent->reestablish;

    if (!state->is_waiting)
        return;
    if (!is_fine)
        refuse_reseed(agent, "an adapter has no new random numbers");
    else if (--state->n_reseeding == 0)
        answer(agent);
}
