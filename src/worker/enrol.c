#include "worker/enrol.h"

#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/encode.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/own.h"
#include "base/time.h"
#include "protocol/message.h"
#include "worker/compat.h"
#include "worker/probe.h"

enum { CALL_TIMEOUT_MS = 15 * 1000, ENROL_MS = 60 * 1000, CREDENTIAL_MAX = 512, LIST_MAX = 32 };

/* The same host and work directory give the same text; another host never does. */
static void machine_id(struct worker *worker, char hex[65])
{
    AUTO_FREE char *host_id = NULL;
    struct blake2b hash;
    uint8_t digest[BLAKE2B_LEN];
    struct error err;

    blake2b_init(&hash, STR("helmr machine"));
    if (file_read("/etc/machine-id", 256, &host_id, &err))
        blake2b_update(&hash, str_of(host_id));
    blake2b_update(&hash, str_of(engine_host_tag(worker->host)));
    blake2b_final(&hash, digest);
    hex_encode((struct str){(const char *)digest, sizeof digest}, hex);
    hex[32] = '\0';
}

static struct json_list split_list(const char *text, struct arena *arena)
{
    struct str *items = arena_array(arena, LIST_MAX, sizeof *items);
    struct str rest = str_of(text), piece;
    size_t n = 0;

    while (n < LIST_MAX && rest.len > 0 && str_split(&rest, ',', &piece))
        if (piece.len > 0)
            items[n++] = arena_str(arena, piece);
    return (struct json_list){items, n};
}

static struct json_map split_labels(const char *text, struct arena *arena)
{
    struct json_list parts = split_list(text, arena);
    struct json_pair *pairs = arena_array(arena, parts.n + 1, sizeof *pairs);
    size_t n = 0;

    for (size_t i = 0; i < parts.n; i++) {
        struct str rest = ((struct str *)parts.items)[i], name;
        if (str_split(&rest, '=', &name) && rest.ptr)
            pairs[n++] = (struct json_pair){arena_str(arena, name), rest};
    }
    return (struct json_map){pairs, n};
}

/* `worker id` and `credential`, one a line; the file is the worker's alone. */
static bool read_credential(struct worker *worker, struct error *err)
{
    AUTO_FREE char *text = NULL;
    struct str rest, id, credential;

    if (!file_read(worker->settings->credential_path, CREDENTIAL_MAX, &text, err))
        return false;
    rest = str_of(text);
    if (!str_split(&rest, '\n', &id) || !str_split(&rest, '\n', &credential) || id.len != ID_LEN ||
        credential.len < 16)
        return error_set(err, ERR_NOT_FOUND, "%s is not a credential",
                         worker->settings->credential_path);
    memcpy(worker->link.worker_id, id.ptr, id.len);
    worker->link.worker_id[id.len] = '\0';
    secret_finish(&worker->link.credential);
    worker->link.credential = secret_create(credential);
    bytes_wipe(text, strlen(text));
    return true;
}

static bool keep_credential(struct worker *worker, const struct wire_registered *given,
                            struct error *err)
{
    AUTO(arena_finish) struct arena arena = {0};
    char *text =
        arena_printf(&arena, "%.*s\n%.*s\n", (int)given->worker_id.len, given->worker_id.ptr,
                     (int)given->credential.len, given->credential.ptr);
    bool kept = file_publish(worker->settings->credential_path, str_of(text), 0600, err);

    bytes_wipe(text, strlen(text));
    return kept && read_credential(worker, err);
}

static bool enlist(struct worker *worker, struct line *line, struct error *err)
{
    AUTO(arena_finish) struct arena arena = {0};
    const struct worker_settings *settings = worker->settings;
    char machine[65];
    struct wire_registered given = {0};

    if (!secret_is_set(&settings->bootstrap_token))
        return error_set(err, ERR_INVALID,
                         "HELMR_WORKER_BOOTSTRAP_TOKEN is needed at a worker's first contact");
    machine_id(worker, machine);
    struct wire_register message = {
        .token = secret_reveal(&settings->bootstrap_token),
        .resource_id = str_of(settings->resource_id),
        .machine_id = str_of(machine),
        .group = settings->group[0] ? str_of(settings->group) : (struct str){0},
        .version = STR(HELMR_VERSION),
        .protocol = STR(WORKER_PROTOCOL),
        .roles = split_list(settings->roles, &arena),
        .labels = split_labels(settings->labels, &arena),
    };
    const struct exchange exchange = {
        .route = "register",
        .request_fields = wire_register_fields,
        .request = &message,
        ANSWER(wire_registered_fields, given),
        .timeout_ms = CALL_TIMEOUT_MS,
        .without_bearer = true,
    };
    return line_insist(line, &exchange, time_boot_ms() + ENROL_MS, &arena, err) &&
           keep_credential(worker, &given, err);
}

static struct json_list reclaimed_list(struct worker *worker, struct arena *arena)
{
    size_t n;
    const struct reclaimed *found = engine_host_reclaimed(worker->host, &n);
    struct wire_reclaimed *list = arena_array(arena, n + 1, sizeof *list);

    for (size_t i = 0; i < n; i++)
        list[i] = (struct wire_reclaimed){
            .instance_id = str_of(found[i].instance_id),
            .lease_id = found[i].lease_id[0] ? str_of(found[i].lease_id) : (struct str){0},
            .result = found[i].gone ? STR("gone") : STR("quarantined"),
            .detail = found[i].detail[0] ? str_of(found[i].detail) : (struct str){0},
        };
    return (struct json_list){list, n};
}

static bool open_session(struct worker *worker, struct line *line, struct error *err)
{
    AUTO(arena_finish) struct arena arena = {0};
    char machine[65], boot_id[ID_TEXT];
    struct wire_session_open opened = {0};

    machine_id(worker, machine);
    id_make(boot_id);
    struct wire_session message = {
        .worker_id = str_of(worker->link.worker_id),
        .credential = secret_reveal(&worker->link.credential),
        .boot_id = str_of(boot_id),
        .machine_id = str_of(machine),
        .protocol = STR(WORKER_PROTOCOL),
        .reclaimed = reclaimed_list(worker, &arena),
    };
    const struct exchange exchange = {
        .route = "session",
        .request_fields = wire_session_fields,
        .request = &message,
        ANSWER(wire_session_open_fields, opened),
        .timeout_ms = CALL_TIMEOUT_MS,
        .without_bearer = true,
        .is_secret = true,
    };
    int64_t until = time_boot_ms() + ENROL_MS, wait_ms = 200;

    /* A refused credential is final here; a server that is not up yet is not. */
    while (!line_call(line, &exchange, &arena, err)) {
        if (err->code != ERR_UNAVAILABLE && err->code != ERR_TIMEOUT)
            return false;
        if (time_boot_ms() > until)
            return false;
        usleep((useconds_t)wait_ms * 1000);
    }
    worker->link.epoch = opened.epoch;
    worker->rules = opened.settings;
    link_set_bearer(&worker->link, opened.bearer, opened.bearer_expires_ms - opened.server_time_ms);
    return link_set_store_keys(&worker->link, &opened.store_keys, err);
}

bool enrol(struct worker *worker, struct line *line, struct error *err)
{
    if (!read_credential(worker, err)) {
        if (err->code != ERR_NOT_FOUND)
            return false;
        return enlist(worker, line, err) && open_session(worker, line, err);
    }
    if (open_session(worker, line, err))
        return true;
    if (err->code != ERR_UNAUTHENTICATED)
        return false;
    log_warn("the server refused this worker's credential; registering anew");
    if (unlink(worker->settings->credential_path) != 0)
        return error_errno(err, "remove %s", worker->settings->credential_path);
    return enlist(worker, line, err) && open_session(worker, line, err);
}

static struct json_list probe_list(struct worker *worker, struct arena *arena)
{
    struct wire_probe *list = arena_array(arena, worker->n_probes + 1, sizeof *list);

    for (size_t i = 0; i < worker->n_probes; i++) {
        const struct engine_result *probe = &worker->probes[i];
        list[i] = (struct wire_probe){
            .engine = str_of(probe->name),
            .grade = str_of(engine_grade_name(probe->grade)),
            .reason = probe->reason[0] ? str_of(probe->reason) : (struct str){0},
            .usable = probe->usable,
        };
    }
    return (struct json_list){list, worker->n_probes};
}

bool enrol_activate(struct worker *worker, struct line *line, struct error *err)
{
    AUTO(arena_finish) struct arena arena = {0};
    struct room total = worker->capacity.total;
    const char *kernel = worker->guest_files.kernel_digest;
    struct utsname host;
    struct wire_state answer;

    if (uname(&host) != 0)
        return error_errno(err, "uname");
    struct wire_activate message = {
        .epoch = worker->link.epoch,
        .capabilities =
            {
                           .version = STR(HELMR_VERSION),
                           .protocol = STR(WORKER_PROTOCOL),
                           .arch = str_of(host.machine),
                           .privilege = geteuid() == 0 ? STR("root") : STR("user"),
                           .cni_profile = str_of(worker->settings->cni_profile),
                           .roles = split_list(worker->settings->roles, &arena),
                           .labels = split_labels(worker->settings->labels, &arena),
                           .engine = str_of(worker->engine->name),
                           .grade = str_of(engine_grade_name(worker->engine->grade)),
                           .engine_build = str_of(probe_of(worker, worker->engine)->build),
                           .accelerated = worker->accelerated,
                           .probes = probe_list(worker, &arena),
                           .rootfs_digest = str_of(compat_rootfs_digest(worker)),
                           .kernel_digest = kernel[0] ? str_of(kernel) : (struct str){0},
                           .guest_abi = MESSAGE_ABI,
                           .vcpus = total.cpu_millis / 1000,
                           .memory_mib = total.memory_mib,
                           .disk_mib = total.disk_mib,
                           .execution_slots = total.slots,
                           .build_slots = total.build_slots,
                           .max_vcpus = total.cpu_millis / 1000,
                           .max_memory_mib = total.memory_mib,
                           .memory_checkpoint = worker->saves,
                           .checkpoint_key_id = str_of(worker->checkpoint_key_id),
                           .compat = str_of(worker->compat),
                           .compat_facts = compat_facts(worker, &arena),
                           },
    };
    const struct exchange exchange = {
        .route = "activate",
        .request_fields = wire_activate_fields,
        .request = &message,
        ANSWER(wire_state_fields, answer),
        .timeout_ms = CALL_TIMEOUT_MS,
    };
    return line_insist(line, &exchange, time_boot_ms() + ENROL_MS, &arena, err);
}
