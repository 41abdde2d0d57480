/* `helmr doctor`: what this host can do, found out by doing it.
 *
 * The worker's half and the server's; each row is ok, warn or fail with what was found and, where
 * there is one, the command that cures it. */
#include "doctor.h"

#include <sys/timex.h>

#include "base/findings.h"
#include "base/own.h"
#include "server/doctor.h"
#include "worker/commands.h"

/* Leases, schedules and sign-ins go by the clock. */
static void check_clock(struct findings *findings)
{
    struct timex clock = {0};

    if (adjtimex(&clock) == TIME_ERROR)
        findings_add(findings, FINDING_WARNING, "clock", "apt-get install systemd-timesyncd",
                     "not kept in step with a time server");
    else
        findings_add(findings, FINDING_OK, "clock", NULL, "in step with a time server");
}

static bool doctor_command(const struct invocation *invocation, int *exit_code, struct error *err)
{
    static struct findings findings;
    bool server = invocation_has(invocation, "server"),
         worker = invocation_has(invocation, "worker");

    check_clock(&findings);
    if ((worker || !server) && !worker_doctor(invocation, &findings, err))
        return false;
    if (server || !worker)
        server_doctor(invocation, server, &findings);
    *exit_code = findings_have_failure(&findings) ? 1 : 0;
    return findings_print(&findings, invocation_has(invocation, "json"), err);
}

static const struct option doctor_options[] = {
    {"json", 0, OPTION_FLAG, NULL, "One JSON document instead of lines."},
    {"server", 0, OPTION_FLAG, NULL, "Only the server: keys, database, store, API."},
    {"worker", 0, OPTION_FLAG, NULL, "Only the worker: engines, network, disk, images."},
    {"data-dir", 0, OPTION_VALUE, "DIR", "Everything local (HELMR_DATA_DIR)."},
    {0},
};

const struct command doctor_commands[] = {
    {
     .name = "doctor",
     .summary = "check this host: engines, network, disk, keys, database",
     .help =
            "Every engine is proved by really starting a guest with it. Exit code 1 when a check\n"
            "fails. Where no server was set up, only --server takes that for a failure.\n\n"
            "  helmr doctor\n  helmr doctor --worker --json", .options = doctor_options,
     .run = doctor_command,
     },
};

const size_t n_doctor_commands = COUNT_OF(doctor_commands);
