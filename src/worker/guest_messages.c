/* What the agent says, and what becomes of it in struct guest. */
#include "base/log.h"
#include "base/own.h"
#include "base/time.h"
#include "worker/guest_state.h"
#include "worker/relay.h"
#include "worker/worker.h"

enum { CLOCK_OFFSET_MAX_MS = 2000 }; /* beyond the time between question and answer */

uint16_t guest_stream_number(uint32_t program, enum guest_stream which)
{
    return (uint16_t)(program * 8 + 1 + (unsigned)which * 2);
}

uint16_t guest_payload_number(uint32_t program)
{
    return (uint16_t)(program * 8 + 5);
}

void guest_break_off(struct guest *guest, const struct error *err)
{
    if (guest->is_broken)
        return;
    guest->is_broken = true;
    guest->broken = *err;
}

static void pump_payload(struct guest *guest, struct error *err, bool *fine)
{
    while (*fine && guest->payload.len > 0) {
        size_t room = channel_send_room(&guest->channel, guest->payload_stream);
        size_t n = guest->payload.len < room ? guest->payload.len : room;

        if (n == 0)
            return;
        *fine =
            channel_send_data(&guest->channel, guest->payload_stream,
                              (struct str){guest->payload.ptr, n}, n == guest->payload.len, err);
        guest->payload = (struct str){guest->payload.ptr + n, guest->payload.len - n};
    }
}

void guest_flush(struct guest *guest)
{
    struct error err;
    bool wants_write = false, fine = true;

    if (guest->is_broken)
        return;
    pump_payload(guest, &err, &fine);
    fine = fine && guest_place_pump(guest, &err) && relay_settle(guest, &err) &&
           (!guest->server || guest->server->pump(guest->server->arg, &err)) &&
           channel_flush(&guest->channel, &wants_write, &err) &&
           loop_change(guest->socket, LOOP_READ | (wants_write ? LOOP_WRITE : 0), &err);
    guest->is_drained = fine && !wants_write;
    if (!fine)
        guest_break_off(guest, &err);
}

struct str guest_keep(struct guest *guest, struct str text)
{
    return text.len ? arena_str(&guest->arena, text) : (struct str){0};
}

static bool take_outcome(struct guest *guest, const struct message_outcome *outcome,
                         struct error *err)
{
    struct guest_result *result = &guest->result;

    result->has_outcome = true;
    result->outcome = (enum outcome_kind)outcome->kind;
    result->error_name = guest_keep(guest, outcome->error_name);
    result->error_message = guest_keep(guest, outcome->error_message);
    result->error_stack = guest_keep(guest, outcome->error_stack);
    result->error_details = guest_keep(guest, outcome->error_details);
    if (outcome->len == 0)
        return true;
    if (outcome->len > GUEST_OUTPUT_MAX)
        return error_set(err, ERR_TOO_LARGE, "an output of %llu bytes",
                         (unsigned long long)outcome->len);
    /* An adapter may leave it out: loading a hash costs a run more than the socket can damage. */
    guest->has_digest = outcome->digest.len == sizeof guest->outcome_digest;
    if (guest->has_digest)
        memcpy(guest->outcome_digest, outcome->digest.ptr, sizeof guest->outcome_digest);
    guest->outcome_len = outcome->len;
    guest->outcome_stream = (uint16_t)outcome->stream;
    return channel_open_stream(&guest->channel, guest->outcome_stream, CHANNEL_RECEIVES, err);
}

static void take_loaded(struct guest *guest, const struct message_loaded *loaded)
{
    struct guest_result *result = &guest->result;

    if (loaded->failure.len == 0)
        return;
    result->has_load_failure = true;
    result->load_kind = guest_keep(guest, loaded->failure);
    result->load_message = guest_keep(guest, loaded->message);
    result->load_file = guest_keep(guest, loaded->file);
    result->load_stack = guest_keep(guest, loaded->stack);
    result->load_line = loaded->line;
}

/* What the image or the project is to blame for: trying again would change nothing. */
static const struct {
    const char *told, *layer, *kind;
} launch_faults[] = {
    {"node_missing",       "image_preparation", "node_missing"      },
    {"node_too_old",       "image_preparation", "node_too_old"      },
    {"unsafe_path",        "image_preparation", "unsafe_path"       },
    {"image_root_invalid", "image_preparation", "image_root_invalid"},
    {"launch_failed",      "image_preparation", "image_root_invalid"},
    {"secret_unreadable",  "guest_runtime",     "secret_unreadable" },
};

static void take_launch_failure(struct guest *guest, const struct message_launch_failed *failed)
{
    struct str text = failed->text;
    struct error err;

    if (str_equal(failed->failure, STR("node_missing"))) /* the guest only saw exec fail */
        text = STR("the image has no node on its PATH: build it from() one with Node 22.18 or "
                   "newer, such as node:24-bookworm-slim");
    for (size_t i = 0; i < COUNT_OF(launch_faults); i++)
        if (str_equal(failed->failure, str_of(launch_faults[i].told)))
            failure_set(guest->failure, launch_faults[i].layer, launch_faults[i].kind, "launch",
                        false, "%.*s", (int)text.len, text.ptr);
    if (!guest->failure->kind)
        failure_set(guest->failure, "guest_runtime", "agent_unhealthy", "launch", true, "%.*s",
                    (int)text.len, text.ptr);
    error_set(&err, ERR_UNPROCESSABLE, "%.*s", (int)text.len, text.ptr);
    guest_break_off(guest, &err);
}

static void break_with(struct guest *guest, const struct message_error *error)
{
    static const char *const of_image[] = {"unsafe_path", "image_root_invalid"};
    struct error err;
    const char *layer = "guest_runtime", *kind = "agent_unhealthy";
    bool retryable = true;

    for (size_t i = 0; i < COUNT_OF(of_image); i++) {
        if (!str_equal(error->code, str_of(of_image[i])))
            continue;
        layer = "image_preparation";
        kind = of_image[i];
        retryable = false;
    }
    if (str_equal(error->code, STR("mount_failed")))
        kind = "mount_failed";
    failure_set(guest->failure, layer, kind, "setup", retryable, "%.*s", (int)error->text.len,
                error->text.ptr);
    error_set(&err, ERR_UNPROCESSABLE, "%.*s: %.*s", (int)error->stage.len, error->stage.ptr,
              (int)error->text.len, error->text.ptr);
    guest_break_off(guest, &err);
}

static void take_error(struct guest *guest, const struct message_error *error)
{
    if (str_equal(error->stage, STR("freeze"))) {
        guest->is_refused = guest->is_frozen = true;
        snprintf(guest->refusal, sizeof guest->refusal, "%.*s", (int)error->text.len,
                 error->text.ptr);
        return;
    }
    if (str_equal(error->stage, STR("hold"))) {
        guest->is_hold_refused = guest->is_hold_answered = true;
        snprintf(guest->refusal, sizeof guest->refusal, "%.*s", (int)error->text.len,
                 error->text.ptr);
        return;
    }
    if (str_equal(error->stage, STR("capture"))) {
        guest_capture_refused(guest, error);
        return;
    }
    if (str_equal(error->stage, STR("relay"))) {
        relay_refused(guest, error);
        return;
    }
    if (str_equal(error->stage, STR("place"))) {
        guest_place_refused(guest, error);
        return;
    }
    break_with(guest, error);
}

static bool answer_hello(struct guest *guest, const struct message_hello *hello, struct error *err)
{
    const struct lease *lease = guest->lease;
    struct message_welcome welcome = {
        .protocol = MESSAGE_PROTOCOL,
        .instance = str_of(instance_id(guest->instance)),
        .epoch = (uint64_t)guest->worker->link.epoch,
        .lease = lease ? str_of(lease->id) : (struct str){0},
        .sequence = lease ? (uint64_t)lease->sequence : 0,
        .generation = hello->generation + 1,
    };

    if (hello->abi != MESSAGE_ABI)
        return error_set(err, ERR_UNSUPPORTED, "the agent speaks ABI %u, not %d", hello->abi,
                         MESSAGE_ABI);
    guest->has_hello = true;
    guest->generation = welcome.generation;
    return channel_send(&guest->channel, MESSAGE_WELCOME, &welcome, err);
}

static bool take_op(struct guest *guest, const struct message_op *asked, struct error *err)
{
    struct guest_op **last = &guest->first_op;

    for (; *last; last = &(*last)->next)
        ;
    if (++guest->n_ops > GUEST_OPS_MAX)
        return error_set(err, ERR_TOO_LARGE, "the program asks too much at a time");
    struct guest_op *op = alloc(sizeof *op);
    *op = (struct guest_op){.op = asked->op, .body = {.max = MESSAGE_BODY_MAX}};
    snprintf(op->kind, sizeof op->kind, "%.*s", (int)asked->kind.len, asked->kind.ptr);
    *last = op;
    guest->is_stirred = true;
    return buf_append(&op->body, asked->body, err);
}

/* Every row of the restore contract is proved, or the sandbox is of no use. */
static bool take_reestablished(struct guest *guest, const struct message_reestablished *done,
                               struct error *err)
{
    int64_t now = time_now_ms(), told = (int64_t)(done->realtime_ns / 1000000);
    int64_t offset = told > now                       ? told - now
                     : told < guest->reestablished_ms ? told - guest->reestablished_ms
                                                      : 0;

    if (!done->entropy_ok || !done->network_ok || done->generation != guest->generation ||
        offset > CLOCK_OFFSET_MAX_MS || offset < -CLOCK_OFFSET_MAX_MS)
        return error_set(err, ERR_GONE,
                         "the restored sandbox is not as of now: entropy %u, network %u, clock off "
                         "by %lld ms",
                         done->entropy_ok, done->network_ok, (long long)offset);
    guest->is_reestablished = true;
    return true;
}

static void take_end(struct guest *guest)
{
    struct error err;

    guest->is_quiesced = guest->is_stirred = true;
    if (!guest->awaits_secrets && !guest->awaits_preload)
        return;
    error_set(&err, ERR_GONE, "the program ended before it had %s",
              guest->awaits_secrets ? "its secrets" : "loaded what it was to load ahead");
    guest_break_off(guest, &err);
}

static bool on_message(void *arg, const struct message *message, struct error *err)
{
    struct guest *guest = arg;
    bool is_taken = false;

    if (guest->server) {
        guest->is_stirred = true;
        if (!guest->server->message(guest->server->arg, message, &is_taken, err))
            return false;
    }
    if (is_taken)
        return true;
    switch ((int)message->type) {
    case MESSAGE_HELLO: return answer_hello(guest, &message->hello, err);
    case MESSAGE_PONG: guest->ponged_ms = time_boot_ms(); break;
    case MESSAGE_SETUP_DONE: guest->is_set_up = true; break;
    case MESSAGE_SECRETS_READY: guest->has_secrets = true; break;
    case MESSAGE_STARTED: guest->is_started = true; break;
    case MESSAGE_PRELOADED: guest_take_preloaded(guest, &message->preloaded); break;
    case MESSAGE_LOADED: take_loaded(guest, &message->loaded); break;
    case MESSAGE_OUTCOME: return take_outcome(guest, &message->outcome, err);
    case MESSAGE_EXITED:
        guest->result.exit_code = (int)message->exited.exit_code;
        guest->result.signal = (int)message->exited.signal;
        guest->result.oom = message->exited.oom;
        guest->result.cpu_ms = (int64_t)message->exited.cpu_ms;
        break;
    case MESSAGE_QUIESCED: take_end(guest); break;
    case MESSAGE_OP: return take_op(guest, &message->op, err);
    case MESSAGE_LOG:
        if (guest->listener.log)
            guest->listener.log(guest->listener.arg, &message->log);
        break;
    case MESSAGE_AGENT_LOG:
        log_debug("agent", LOG_STR("instance", instance_id(guest->instance)),
                  LOG_SLICE("text", message->agent_log.text));
        break;
    case MESSAGE_LAUNCH_FAILED: take_launch_failure(guest, &message->launch_failed); break;
    case MESSAGE_ERROR: take_error(guest, &message->error); break;
    case MESSAGE_DONE: guest->is_done = true; break;
    case MESSAGE_FROZEN: guest->is_frozen = true; break;
    case MESSAGE_THAWED: guest->is_thawed = true; break;
    case MESSAGE_HELD: guest->is_hold_answered = true; break;
    case MESSAGE_WENT_ON: guest->has_gone_on = true; break;
    case MESSAGE_PAUSED: guest->is_paused = true; break;
    case MESSAGE_REESTABLISHED: return take_reestablished(guest, &message->reestablished, err);
    case MESSAGE_CAPTURE_END: guest_capture_end(guest, &message->capture_end); break;
    case MESSAGE_PLACED: guest_place_end(guest); break;
    case MESSAGE_RELAY: relay_connected(guest, &message->relay); break;
    case MESSAGE_RESET: relay_was_reset(guest, message->reset.stream); break;
    case MESSAGE_CONSUMED: guest->has_consumed = true; break;
    default: break; /* later kinds answer requests this worker does not make */
    }
    return true;
}

static bool on_data(void *arg, uint16_t stream, struct str bytes, bool is_end, struct error *err)
{
    struct guest *guest = arg;
    bool is_taken = false;

    if (guest->server &&
        !guest->server->data(guest->server->arg, stream, bytes, is_end, &is_taken, err))
        return false;
    if (is_taken)
        return true;
    if (guest_captures(guest, stream))
        return guest_capture_data(guest, stream, bytes, is_end, err);
    if (relay_owns(guest, stream))
        return relay_data(guest, stream, bytes, is_end, err);
    if (stream == guest->outcome_stream && stream != 0)
        return buf_append(&guest->outcome_bytes, bytes, err) &&
               channel_consumed(&guest->channel, stream, bytes.len, err);
    for (unsigned which = 0; which < GUEST_STREAMS; which++) {
        if (stream != guest_stream_number(guest->program, which) || bytes.len == 0)
            continue;
        if (guest->listener.output(guest->listener.arg, which, bytes) && guest->owed[which] == 0)
            return channel_consumed(&guest->channel, stream, bytes.len, err);
        guest->owed[which] += bytes.len;
    }
    return true;
}

void guest_on_socket(void *arg, unsigned events)
{
    struct guest *guest = arg;
    struct error err;

    if (guest->is_broken)
        return;
    if ((events & (LOOP_READ | LOOP_CLOSED)) &&
        !channel_read(&guest->channel, on_message, on_data, guest, &err)) {
        loop_remove(TAKE(guest->socket));
        guest_break_off(guest, &err);
        return;
    }
    guest_flush(guest);
}

void guest_on_process_end(void *arg, unsigned events UNUSED)
{
    struct guest *guest = arg;
    struct error err;

    /* What it wrote before it ended is still in the socket: read that first. */
    loop_remove(TAKE(guest->process));
    while (!guest->is_broken && channel_read(&guest->channel, on_message, on_data, guest, &err))
        ;
    error_set(&err, ERR_GONE, "the sandbox ended by itself");
    guest_break_off(guest, &err);
}
