#include "engine/probe.h"

#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/encode.h"
#include "base/own.h"
#include "base/time.h"

enum { SAVE_MS = 10000 };

/* The runtime is found the way process_start will find it. */
bool probe_binary_find(const char *name, char *path, size_t room)
{
    const char *search = getenv("PATH");
    struct str rest = str_of(search ? search : "/usr/bin:/bin"), folder;

    if (strchr(name, '/')) {
        snprintf(path, room, "%s", name);
        return access(path, X_OK) == 0;
    }
    while (str_split(&rest, ':', &folder)) {
        snprintf(path, room, "%.*s/%s", (int)folder.len, folder.ptr, name);
        if (folder.len && access(path, X_OK) == 0)
            return true;
    }
    return false;
}

bool probe_digest(const char *path, char hex[PROBE_DIGEST + 1], struct error *err)
{
    AUTO_FD int fd = open(path, O_RDONLY | O_CLOEXEC);
    char bytes[16384];
    struct blake2b state;
    uint8_t digest[BLAKE2B_LEN];

    if (fd < 0)
        return error_errno(err, "open %s", path);
    blake2b_init(&state, (struct str){0});
    for (ssize_t got; (got = read(fd, bytes, sizeof(bytes))) != 0;) {
        if (got < 0)
            return error_errno(err, "read %s", path);
        blake2b_update(&state, (struct str){bytes, (size_t)got});
    }
    blake2b_final(&state, digest);
    hex_encode((struct str){(const char *)digest, sizeof(digest)}, hex);
    return true;
}

void probe_fail(struct engine_result *result, const char *cure, const char *reason)
{
    result->usable = false;
    snprintf(result->reason, sizeof(result->reason), "%.255s", reason);
    snprintf(result->cure, sizeof(result->cure), "%s", cure);
}

struct conversation {
    struct channel channel;
    int64_t deadline_ms;
    bool has_answered, is_paused;
};

static bool on_message(void *arg, const struct message *message, struct error *err)
{
    struct conversation *conversation = arg;

    if (message->type == MESSAGE_PONG)
        conversation->has_answered = true;
    if (message->type == MESSAGE_PAUSED)
        conversation->is_paused = true;
    if (message->type != MESSAGE_HELLO)
        return true;

    struct message_welcome welcome = {.protocol = MESSAGE_PROTOCOL,
                                      .instance = STR("probe"),
                                      .generation = message->hello.generation + 1};
    struct message_ping ping = {.number = 1, .left_ms = 60000};
    return channel_send(&conversation->channel, MESSAGE_WELCOME, &welcome, err) &&
           channel_send(&conversation->channel, MESSAGE_PING, &ping, err);
}

static bool on_data(void *arg, uint16_t stream, struct str bytes, bool is_end, struct error *err)
{
    (void)arg, (void)bytes, (void)is_end;
    return error_set(err, ERR_INVALID, "data on stream %d, which nobody opened", stream);
}

static void meet(struct conversation *conversation, const struct instance *instance)
{
    int fd = instance_channel(instance);

    (void)fcntl(fd, F_SETFL, O_NONBLOCK);
    channel_init(&conversation->channel, fd, fd, SIDE_HOST);
}

static bool talk_until(struct conversation *conversation, const bool *flag, struct error *err)
{
    struct channel *channel = &conversation->channel;
    bool wants_write;

    while (!*flag) {
        int64_t left = conversation->deadline_ms - time_boot_ms();
        struct pollfd ready = {.fd = channel->fd_in, .events = POLLIN};

        if (!channel_flush(channel, &wants_write, err))
            return false;
        if (left <= 0 || poll(&ready, 1, (int)left) == 0)
            return error_set(err, ERR_TIMEOUT, "the agent did not answer in time");
        if (!channel_read(channel, on_message, on_data, conversation, err))
            return false;
    }
    return true;
}

bool probe_meet(struct instance *instance, int64_t deadline_ms, struct error *err)
{
    struct conversation conversation = {.deadline_ms = deadline_ms};

    meet(&conversation, instance);
    bool ok = talk_until(&conversation, &conversation.has_answered, err);
    channel_finish(&conversation.channel);
    return ok;
}

/* The last line that says something: the reason, more often than not. */
static void tail_append(struct instance *instance, struct error *err)
{
    struct str rest = instance_log_tail(instance), line, last = {0};

    while (str_split(&rest, '\n', &line)) {
        if (line.len)
            last = line;
    }
    if (last.len) {
        struct error inner = *err;
        error_set(err, inner.code, "%.200s (%.*s)", inner.text,
                  (int)(last.len < 200 ? last.len : 200), last.ptr);
    }
}

bool probe_pause(struct instance *instance, int64_t deadline_ms, uint8_t nonce[CHANNEL_NONCE_LEN],
                 struct error *err)
{
    struct conversation conversation = {.deadline_ms = deadline_ms};

    random_bytes(nonce, CHANNEL_NONCE_LEN);
    struct message_pause pause = {
        1, PAUSE_TEMPLATE, {(const char *)nonce, CHANNEL_NONCE_LEN}
    };
    meet(&conversation, instance);
    bool ok = channel_send(&conversation.channel, MESSAGE_PAUSE, &pause, err) &&
              talk_until(&conversation, &conversation.is_paused, err);
    channel_finish(&conversation.channel);
    return ok;
}

bool probe_wake(struct instance *instance, int64_t deadline_ms,
                const uint8_t nonce[CHANNEL_NONCE_LEN], struct error *err)
{
    struct conversation conversation = {.deadline_ms = deadline_ms};

    meet(&conversation, instance);
    bool ok = channel_resync_begin(&conversation.channel, nonce, err) &&
              talk_until(&conversation, &conversation.has_answered, err);
    channel_finish(&conversation.channel);
    return ok;
}

/* Ends the guest; what went wrong before is the news, else what went wrong now. */
static bool end_guest(struct instance *instance, bool is_fine, struct error *err)
{
    struct error after = {0};

    if (!is_fine)
        tail_append(instance, err);
    if (instance_destroy(instance, &after) || !is_fine)
        return is_fine;
    *err = after;
    return false;
}

/* A guest is saved, and another goes on where it was. */
static bool try_saving(struct engine_host *host, const struct engine *engine,
                       struct sandbox_spec *spec, struct error *err)
{
    uint8_t nonce[CHANNEL_NONCE_LEN];
    struct instance *instance;
    AUTO(saved_image_finish) struct saved_image image = SAVED_IMAGE_NONE;

    id_make(spec->id);
    if (!saved_image_make(engine, 2 * spec->memory_mib << 20, &image, err) ||
        !engine->start(host, spec, &instance, err))
        return false;
    bool ok = probe_meet(instance, spec->deadline_ms, err) &&
              probe_pause(instance, spec->deadline_ms, nonce, err) &&
              engine->save(instance, &image, SAVE_MS, err);
    id_make(spec->id);
    if (!end_guest(instance, ok, err) || !engine->restore(host, spec, &image, &instance, err))
        return false;
    return end_guest(instance, probe_wake(instance, spec->deadline_ms, nonce, err), err);
}

bool probe_prove(struct engine_host *host, const struct engine *engine, struct sandbox_spec *spec,
                 int timeout_ms, struct engine_result *result, struct error *err)
{
    struct instance *instance;

    spec->kind = "probe";
    spec->deadline_ms = time_boot_ms() + timeout_ms;
    if (engine->save) {
        result->saves = try_saving(host, engine, spec, err);
        if (result->saves)
            return true;
        snprintf(result->reason, sizeof result->reason, "cannot save: %.200s", err->text);
        spec->deadline_ms = time_boot_ms() + timeout_ms;
    }
    id_make(spec->id);
    return engine->start(host, spec, &instance, err) &&
           end_guest(instance, probe_meet(instance, spec->deadline_ms, err), err);
}
