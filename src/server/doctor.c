#include "server/doctor.h"

#include <sys/stat.h>
#include <unistd.h>

#include "base/own.h"
#include "http/client.h"
#include "server/config.h"
#include "server/host_commands.h"
#include "server/keys.h"
#include "store/store.h"

enum { BUSY_MS = 10 * 1000, ANSWER_MS = 5000, ANSWER_MAX = 65536 };

struct doctor {
    struct findings *findings;
    struct arena arena;
    struct server_config config;
};

static void doctor_finish(struct doctor *doctor)
{
    server_config_finish(&doctor->config);
    arena_finish(&doctor->arena);
}

static bool is_sqlite(const struct doctor *doctor)
{
    return strncmp(doctor->config.database_url, "sqlite:", 7) == 0;
}

/* Keys are files here, or come with the variables; either way they have a form. */
static void check_keys(struct doctor *doctor)
{
    const struct server_config *config = &doctor->config;
    const struct key_sources sources = {config->data_dir, &config->master_key, &config->former_keys,
                                        &config->bootstrap_token};
    AUTO(keys_finish) struct keys keys = {0};
    struct stat facts;
    struct error err;

    if (!keys_load_master(&sources, &keys, &err)) {
        findings_add(doctor->findings, FINDING_FAIL, "keys", NULL, "%s", err.text);
        return;
    }
    const char *file =
        config->data_dir ? arena_printf(&doctor->arena, "%s/keys/master", config->data_dir) : "";
    if (!secret_is_set(&config->master_key) && stat(file, &facts) == 0 && (facts.st_mode & 077))
        findings_add(doctor->findings, FINDING_FAIL, "keys",
                     arena_printf(&doctor->arena, "chmod 600 %s", file), "%s can be read by others",
                     file);
    else if (keys.n_former > 0)
        findings_add(doctor->findings, FINDING_WARNING, "keys", "helmr key master status",
                     "%s, and %zu old in use", keys.ids[0], keys.n_former);
    else
        findings_add(doctor->findings, FINDING_OK, "keys", NULL, "%s", keys.ids[0]);
}

static void check_database(struct doctor *doctor)
{
    const struct store_config settings = {.url = doctor->config.database_url,
                                          .readers = 1,
                                          .pool_size = 2,
                                          .busy_ms = BUSY_MS};
    const char *kind = is_sqlite(doctor) ? "SQLite" : "PostgreSQL";
    struct store *store = NULL;
    struct error err;
    int have, want;

    if (!store_open(&settings, &store, &err) || !store_schema_version(store, &have, &want, &err))
        findings_add(doctor->findings, FINDING_FAIL, "database", NULL, "%s: %s", kind, err.text);
    else if (have > want)
        findings_add(doctor->findings, FINDING_FAIL, "database", "install a newer helmr",
                     "%s, schema %d, and this program knows %d", kind, have, want);
    else if (have < want)
        findings_add(doctor->findings, FINDING_WARNING, "database", "helmr server migrate",
                     "%s, schema %d of %d: brought up to date at the next start", kind, have, want);
    else
        findings_add(doctor->findings, FINDING_OK, "database", NULL, "%s, schema %d", kind, have);
    store_close(store);
}

static void check_store(struct doctor *doctor)
{
    const char *folder = doctor->config.store_dir;

    if (access(folder, R_OK | W_OK | X_OK) == 0)
        findings_add(doctor->findings, FINDING_OK, "store", NULL, "%s", folder);
    else
        findings_add(doctor->findings, FINDING_FAIL, "store", NULL,
                     "%s is not there or cannot be written", folder);
}

/* By the socket that workers of this host use: no certificate and no proxy is in the way. */
static void check_api(struct doctor *doctor)
{
    const struct http_request request = {.method = "GET",
                                         .path = "/readyz",
                                         .timeout_ms = ANSWER_MS};
    struct http_answer answer = {.body = {.max = ANSWER_MAX}};
    struct http_client *client = NULL;
    struct error err;

    if (!doctor->config.data_dir)
        return;
    const char *url =
        arena_printf(&doctor->arena, "unix:%s/run/server.sock", doctor->config.data_dir);
    if (!http_client_create(url, &client, &err) ||
        !http_client_send(client, &request, &answer, &err))
        findings_add(doctor->findings, FINDING_WARNING, "API", "helmr up", "no server is running");
    else
        findings_add(doctor->findings, answer.status == 200 ? FINDING_OK : FINDING_FAIL, "API",
                     NULL, answer.status == 200 ? "ready" : "the server is not ready");
    http_client_destroy(client);
    buf_finish(&answer.body);
}

void server_doctor(const struct invocation *invocation, bool must, struct findings *findings)
{
    AUTO(doctor_finish) struct doctor doctor = {.findings = findings};
    const struct server_flags flags = {.data_dir = host_data_dir(invocation, &doctor.arena)};
    struct error err;

    if (!server_config_load(&flags, &doctor.arena, &doctor.config, &err)) {
        findings_add(findings, must ? FINDING_FAIL : FINDING_WARNING, "server", NULL, "%s",
                     err.text);
        return;
    }
    /* To look must not make a database. */
    if (is_sqlite(&doctor) && access(doctor.config.database_url + 7, F_OK) != 0) {
        findings_add(findings, must ? FINDING_FAIL : FINDING_WARNING, "server", "helmr up",
                     "none was set up: there is no %s", doctor.config.database_url + 7);
        return;
    }
    check_keys(&doctor);
    check_database(&doctor);
    check_store(&doctor);
    check_api(&doctor);
}
