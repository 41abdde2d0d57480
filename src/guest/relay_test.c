#include "base/time.h"
#include "guest/scenario.h"

enum { STREAM = 31 };

/* On this machine's own network for one engine, so of numbers that nobody else uses. */
#define PORT       "38417"
#define OTHER_PORT "38418"

static bool set_up_with_ports(struct harness *harness)
{
    static const struct str ports[] = {STR("80"), STR(PORT)};
    struct message_setup setup = harness_setup(harness);

    setup.ports = (struct str_list){ports, COUNT_OF(ports)};
    return harness_send(harness, MESSAGE_SETUP, &setup) &&
           harness_until(harness, &harness->has_setup);
}

static bool ask(struct harness *harness, const char *name, uint32_t stream)
{
    struct error err;

    harness->has_relay = harness->has_error = false;
    return channel_open_stream(&harness->channel, (uint16_t)stream,
                               CHANNEL_SENDS | CHANNEL_RECEIVES, &err) &&
           harness_send(harness, MESSAGE_RELAY,
                        &(struct message_relay){.id = 50, .name = str_of(name), .stream = stream});
}

/* Talks until the agent answers with an error of this code. */
static bool is_refused(struct harness *harness, const char *code)
{
    while (!harness->has_error && !harness->has_relay && harness_step(harness))
        ;
    if (strcmp(harness->failure, code) != 0)
        printf("# %s: %s\n", harness->failure, harness->text);
    return harness->has_error && strcmp(harness->failure, code) == 0;
}

static bool send_all(struct harness *harness, size_t total)
{
    AUTO_FREE char *bytes = alloc(total);
    struct error err;

    for (size_t i = 0; i < total; i++)
        bytes[i] = (char)(i % 251);
    for (size_t at = 0; at < total;) {
        size_t room = channel_send_room(&harness->channel, STREAM), left = total - at;
        size_t len = room < left ? room : left;

        if (len == 0 && !harness_step(harness))
            return false;
        if (len > 0 && !channel_send_data(&harness->channel, STREAM, (struct str){bytes + at, len},
                                          at + len == total, &err))
            return false;
        at += len;
    }
    return true;
}

static bool hears(struct harness *harness, size_t total)
{
    while (harness->output.len < total && harness_step(harness))
        ;
    return harness->output.len == total;
}

ON_EVERY_ENGINE(a_listed_port_is_reached_and_both_ends_are_kept_apart)
{
    enum { TOTAL = 1000003 };

    CHECK(set_up_with_ports(harness));
    CHECK(harness_launch(harness, 1, PROGRAM_STEP, ARGV("probe", "serve", PORT), NULL, ""));
    CHECK(harness_until_text(harness, "listening\n"));
    CHECK(ask(harness, "port-" PORT "-1", STREAM));
    CHECK(harness_until(harness, &harness->has_relay));
    CHECK(send_all(harness, TOTAL));
    CHECK(hears(harness, TOTAL + 7));
    for (size_t i = 0; i < TOTAL; i++)
        CHECK(harness->output.bytes[i] == (char)(i % 251));
    CHECK(memcmp(harness->output.bytes + TOTAL, "goodbye", 7) == 0);
    CHECK(harness_until_text(harness, "over\n"));
}

ON_EVERY_ENGINE(what_is_not_listed_or_not_there_is_refused)
{
    static const char *const names[] = {
        "port-" OTHER_PORT "-1",
        "port-0" PORT "-1",
        "port-65616-1",
        "port--1",
        "port",
        "desktop",
        "port-8-1",
        "port- 80-1",
        "pty-1",
    };

    CHECK(set_up_with_ports(harness));
    for (size_t i = 0; i < COUNT_OF(names); i++) {
        CHECK(ask(harness, names[i], STREAM + 2 * (uint32_t)i));
        CHECK(is_refused(harness, "port_not_allowed"));
    }
    CHECK(ask(harness, "port-" PORT "-1", 91));
    CHECK(is_refused(harness, "connection_refused"));
    harness->has_error = false;
    CHECK(run_command(harness, ARGV("probe", "exit", "3"), ""));
}

ON_EVERY_ENGINE(a_connection_that_the_host_drops_ends_inside)
{
    struct error err;

    CHECK(set_up_with_ports(harness));
    CHECK(harness_launch(harness, 1, PROGRAM_STEP, ARGV("probe", "serve", PORT), NULL, ""));
    CHECK(harness_until_text(harness, "listening\n"));
    CHECK(ask(harness, "port-" PORT "-1", STREAM));
    CHECK(harness_until(harness, &harness->has_relay));
    CHECK(channel_reset(&harness->channel, STREAM, 0, &err));
    CHECK(channel_send_data(&harness->channel, STREAM, STR("x"), true, &err));
    CHECK(harness_until_text(harness, "over\n"));
}

TEST_MAIN()
