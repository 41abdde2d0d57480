#include <poll.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/time.h"
#include "guest/harness.h"

enum { DEADLINE_MS = 30000, MACHINE_MS = 300000 };

static int64_t deadline_of(const struct harness *harness)
{
    return time_boot_ms() + (harness->engine == ON_MACHINE ? MACHINE_MS : DEADLINE_MS);
}

static void keep_text(char *to, size_t size, struct str from)
{
    snprintf(to, size, "%.*s", (int)from.len, from.ptr ? from.ptr : "");
}

static void note_failure(struct harness *harness, struct str stage, struct str failure,
                         struct str text)
{
    keep_text(harness->stage, sizeof harness->stage, stage);
    keep_text(harness->failure, sizeof harness->failure, failure);
    keep_text(harness->text, sizeof harness->text, text);
}

static bool note_outcome(struct harness *harness, const struct message_outcome *outcome,
                         struct error *err)
{
    harness->has_outcome = true;
    harness->outcome_kind = outcome->kind;
    keep_text(harness->error_name, sizeof harness->error_name, outcome->error_name);
    harness->output_stream = (uint16_t)outcome->stream;
    return !outcome->stream ||
           channel_open_stream(&harness->channel, (uint16_t)outcome->stream, CHANNEL_RECEIVES, err);
}

static void note_setup(struct harness *harness, const struct message_setup_done *done)
{
    harness->has_setup = true;
    harness->uid = done->uid;
    harness->gid = done->gid;
    keep_text(harness->home, sizeof harness->home, done->home);
}

static void note_end(struct harness *harness, const struct message_quiesced *quiesced)
{
    harness->has_room_ended |= quiesced->program == 0;
    harness->has_other_quiesced |= quiesced->program == 2;
    if (quiesced->program != 1)
        return;
    harness->has_quiesced = true;
    harness->stdout_end = quiesced->stdout_end;
    harness->stderr_end = quiesced->stderr_end;
}

static void note_capture(struct harness *harness, const struct message_capture_end *end)
{
    harness->has_captured = true;
    harness->captured = *end;
    memcpy(harness->capture_digest, end->digest.ptr, sizeof harness->capture_digest);
}

static void note_preload(struct harness *harness, const struct message_preloaded *preloaded)
{
    harness->has_preloaded = true;
    harness->is_preloaded = preloaded->ok;
    harness->n_preloaded++;
    keep_text(harness->text, sizeof harness->text, preloaded->text);
}

static void note_files(struct harness *harness, const struct message_files_result *result)
{
    struct error err;

    harness->files.max = MIB(1);
    harness->files.len = 0;
    if (result->data.len > 0 && !buf_append(&harness->files, result->data, &err))
        abort();
    harness->files_size = result->size;
    harness->files_more = result->more;
    harness->has_files = true;
}

/* What parks and goes on. */
static void note_rest(struct harness *harness, const struct message *message)
{
    switch ((unsigned)message->type) {
    case MESSAGE_OP: harness->has_op = true; break;
    case MESSAGE_FROZEN:
        harness->has_frozen = true;
        harness->frozen = message->frozen;
        break;
    case MESSAGE_PRELOADED: note_preload(harness, &message->preloaded); break;
    case MESSAGE_THAWED: harness->has_thawed = true; break;
    case MESSAGE_PAUSED: harness->has_paused = true; break;
    case MESSAGE_REESTABLISHED:
        harness->has_reestablished = true;
        harness->reestablished = message->reestablished;
        break;
    case MESSAGE_CONSUMED:
        harness->has_consumed = true;
        harness->consumed = message->consumed;
        break;
    case MESSAGE_CAPTURE_END: note_capture(harness, &message->capture_end); break;
    case MESSAGE_HELD:
        harness->held = message->held;
        harness->is_held = true;
        break;
    case MESSAGE_WENT_ON: harness->has_gone_on = true; break;
    case MESSAGE_RELAY: harness->has_relay = true; break;
    case MESSAGE_FILES_RESULT: note_files(harness, &message->files_result); break;
    case MESSAGE_PLACED:
        harness->placed = message->placed;
        harness->has_placed = true;
        break;
    default: break;
    }
}

static bool note_message(void *arg, const struct message *message, struct error *err)
{
    struct harness *harness = arg;

    switch ((unsigned)message->type) {
    case MESSAGE_HELLO:
        harness->has_hello = true;
        harness->generation = message->hello.generation;
        break;
    case MESSAGE_SETUP_DONE: note_setup(harness, &message->setup_done); break;
    case MESSAGE_SECRETS_READY: harness->has_secrets = true; break;
    case MESSAGE_PONG: harness->last_pong = message->pong.number; break;
    case MESSAGE_STARTED:
        harness->has_started = true;
        keep_text(harness->node_version, sizeof harness->node_version,
                  message->started.node_version);
        break;
    case MESSAGE_ERROR:
        harness->has_error = true;
        note_failure(harness, message->error.stage, message->error.code, message->error.text);
        break;
    case MESSAGE_LAUNCH_FAILED:
        harness->has_failed = true;
        note_failure(harness, message->launch_failed.stage, message->launch_failed.failure,
                     message->launch_failed.text);
        break;
    case MESSAGE_EXITED:
        if (message->exited.program != 1)
            break;
        harness->has_exited = true;
        harness->exit_code = message->exited.exit_code;
        harness->signal = message->exited.signal;
        harness->oom = message->exited.oom;
        break;
    case MESSAGE_LOADED: harness->has_loaded = true; break;
    case MESSAGE_LOG: return buf_append(&harness->log, message->log.message, err);
    case MESSAGE_OUTCOME: return note_outcome(harness, &message->outcome, err);
    case MESSAGE_QUIESCED: note_end(harness, &message->quiesced); break;
    case MESSAGE_DONE: harness->has_done = true; break;
    default: note_rest(harness, message); break;
    }
    return true;
}

static bool note_data(void *arg, uint16_t stream, struct str bytes, bool is_end UNUSED,
                      struct error *err)
{
    struct harness *harness = arg;
    struct buf *to = stream == 3    ? &harness->out
                     : stream == 5  ? &harness->err
                     : stream == 13 ? &harness->other_out
                     : stream == 15 ? &harness->other_out
                     : stream == 21 ? &harness->tree
                                    : &harness->output;

    if (!buf_append(to, bytes, err))
        return false;
    if (stream == 3 && harness->keeps_credit) {
        harness->kept += bytes.len;
        return true;
    }
    return channel_consumed(&harness->channel, stream, bytes.len, err);
}

/* One exchange of at most 100 ms; false when the agent has gone. */
bool harness_step(struct harness *harness)
{
    struct error err = {0};
    bool wants_write;

    if (!channel_flush(&harness->channel, &wants_write, &err)) {
        harness->is_closed = true;
        return false;
    }
    struct pollfd ready = {.fd = harness->fd, .events = POLLIN};
    if (wants_write)
        ready.events |= POLLOUT;
    if (poll(&ready, 1, 100) <= 0 || !(ready.revents & ~POLLOUT))
        return true;
    if (channel_read(&harness->channel, note_message, note_data, harness, &err))
        return true;
    if (err.code != ERR_GONE)
        printf("# the channel: %s\n", err.text);
    harness->is_closed = true;
    return false;
}

bool harness_until(struct harness *harness, const bool *condition)
{
    int64_t deadline = deadline_of(harness);

    while (!*condition && !harness->has_error && time_boot_ms() < deadline) {
        if (!harness_step(harness))
            break;
    }
    if (!*condition)
        printf("# gave up: closed %d, failure %s, stage %s, text %s\n", harness->is_closed,
               harness->failure, harness->stage, harness->text);
    return *condition;
}

bool harness_until_text(struct harness *harness, const char *text)
{
    int64_t deadline = deadline_of(harness);

    while (time_boot_ms() < deadline) {
        if (harness->out.len && memmem(harness->out.bytes, harness->out.len, text, strlen(text)))
            return true;
        if (!harness_step(harness))
            break;
    }
    return false;
}

bool harness_credit(struct harness *harness)
{
    struct error err;
    size_t kept = harness->kept;

    harness->kept = 0;
    return channel_consumed(&harness->channel, 3, kept, &err);
}

bool harness_send(struct harness *harness, enum message_type type, const void *message)
{
    struct error err;

    if (channel_send(&harness->channel, type, message, &err))
        return true;
    printf("# %s\n", err.text);
    return false;
}

static struct str_list list_of(struct str *items, const char *const *texts)
{
    size_t n = 0;

    for (; texts && texts[n]; n++)
        items[n] = str_of(texts[n]);
    return (struct str_list){items, n};
}

bool harness_launch(struct harness *harness, uint32_t program, enum program_kind kind,
                    const char *const *argv, const char *const *env, const char *user)
{
    struct str arguments[32], variables[32];
    uint16_t first = program == 1 ? 3 : 13;
    struct error err;
    struct message_launch launch = {
        .id = 100 + program,
        .program = program,
        .kind = kind,
        .argv = list_of(arguments, argv),
        .env = list_of(variables, env),
        .user = str_of(user),
        .cols = kind == PROGRAM_PTY ? 80 : 0,
        .rows = kind == PROGRAM_PTY ? 24 : 0,
        .stdin_stream = kind == PROGRAM_EXEC || kind == PROGRAM_PTY ? first + 4u : 0,
        .stdout_stream = first,
        .stderr_stream = first + 2u,
        .generation = 7,
    };

    return channel_open_stream(&harness->channel, first, CHANNEL_RECEIVES, &err) &&
           channel_open_stream(&harness->channel, first + 2, CHANNEL_RECEIVES, &err) &&
           (!launch.stdin_stream ||
            channel_open_stream(&harness->channel, first + 4, CHANNEL_SENDS, &err)) &&
           harness_send(harness, MESSAGE_LAUNCH, &launch);
}

bool harness_resync(struct harness *harness, const uint8_t nonce[CHANNEL_NONCE_LEN])
{
    struct message_welcome welcome = {.protocol = MESSAGE_PROTOCOL, .instance = STR("test")};
    struct error err;

    harness->has_hello = harness->has_paused = false;
    return channel_resync_begin(&harness->channel, nonce, &err) &&
           channel_open_stream(&harness->channel, 3, CHANNEL_RECEIVES, &err) &&
           channel_open_stream(&harness->channel, 5, CHANNEL_RECEIVES, &err) &&
           harness_until(harness, &harness->has_hello) &&
           harness_send(harness, MESSAGE_WELCOME, &welcome);
}
