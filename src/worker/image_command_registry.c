/* `helmr image pull` and `helmr image push`. */
#include <signal.h>
#include <stdio.h>

#include "base/own.h"
#include "image/recode.h"
#include "image/registry.h"
#include "worker/commands.h"
#include "worker/image_command.h"

static volatile bool is_interrupted;

static void interrupt(int signal UNUSED)
{
    is_interrupted = true;
}

static void registries_finish(struct registries **registries)
{
    registries_close(*registries);
}

struct transfer {
    struct image_host host;
    struct registries *registries;
    struct image_meter meter;
    struct image_transfer how;
};

static void transfer_finish(struct transfer *transfer)
{
    registries_finish(&transfer->registries);
    image_host_finish(&transfer->host);
}

static const char *unless_empty(const char *text)
{
    return text[0] ? text : NULL;
}

static bool begin(const struct invocation *invocation, struct transfer *transfer, struct error *err)
{
    const struct sigaction action = {.sa_handler = interrupt, .sa_flags = (int)SA_RESETHAND};

    if (!image_host_open(invocation, &transfer->host, err))
        return false;
    const struct worker_settings *set = &transfer->host.settings;
    const struct registry_settings settings = {
        .auth_file = set->registry_auth_file, /* already the default where there is one */
        .ca_file = unless_empty(set->registry_ca_file),
        .mirrors = unless_empty(set->registry_mirrors),
    };
    if (!registries_open(&settings, &transfer->registries, err))
        return false;
    /* The first Ctrl-C ends in order, the second at once. */
    (void)sigaction(SIGINT, &action, NULL);
    transfer->meter = image_meter(false);
    transfer->how = (struct image_transfer){
        .registries = transfer->registries,
        .abort = &is_interrupted,
        .progress = image_meter_line,
        .arg = &transfer->meter,
    };
    return true;
}

static void print_result(const struct invocation *invocation, const char *name, const char *digest)
{
    if (invocation_has(invocation, "json"))
        printf("{\"reference\":\"%s\",\"digest\":\"%s\"}\n", name, digest);
    else
        printf("%s\t%s\n", name, digest);
}

bool image_pull_command(const struct invocation *invocation, int *exit_code, struct error *err)
{
    AUTO(transfer_finish) struct transfer transfer = {0};
    char digest[DIGEST_TEXT];

    *exit_code = 0;
    if (!begin(invocation, &transfer, err))
        return false;
    bool done = image_pull(transfer.host.store, &transfer.how, invocation->args[0], digest, err);
    image_meter_end(&transfer.meter);
    if (done)
        print_result(invocation, invocation->args[0], digest);
    return done;
}

static bool push(const struct invocation *invocation, struct transfer *transfer,
                 char digest[DIGEST_TEXT], struct error *err)
{
    struct image_store *store = transfer->host.store;
    const char *reference = invocation->args[0];
    AUTO(arena_finish) struct arena arena = {0};
    char gzip[DIGEST_TEXT];
    AUTO_FD int work = -1;
    struct image image;

    if (!image_work(store, &work, err) || !image_find(store, reference, &arena, &image, err))
        return false;
    if (invocation_has(invocation, "gzip")) {
        if (!image_recode(store, image.digest, LAYER_GZIP, gzip, err))
            return false;
        reference = gzip;
    }
    return image_push(store, &transfer->how, reference, invocation->args[1], digest, err);
}

bool image_push_command(const struct invocation *invocation, int *exit_code, struct error *err)
{
    AUTO(transfer_finish) struct transfer transfer = {0};
    char digest[DIGEST_TEXT];

    *exit_code = 0;
    if (!begin(invocation, &transfer, err))
        return false;
    bool done = push(invocation, &transfer, digest, err);
    image_meter_end(&transfer.meter);
    if (done)
        print_result(invocation, invocation->args[1], digest);
    return done;
}
