#include <stdio.h>

#include "base/file.h"
#include "base/own.h"
#include "server/host_commands.h"
#include "server/server.h"
#include "store/store.h"

static const struct option server_options[] = {
    {"addr", 0, OPTION_VALUE, "HOST:PORT", "where to listen (127.0.0.1:8080)"},
    {"data-dir", 0, OPTION_VALUE, "DIR", "one directory for everything local"},
    {"no-migrate", 0, OPTION_FLAG, NULL, "refuse to start on an older schema"},
    {0},
};

static const struct option host_options[] = {
    {"data-dir", 0, OPTION_VALUE, "DIR", "one directory for everything local"},
    {"json", 0, OPTION_FLAG, NULL, "as JSON"},
    {0},
};

static const struct option status_options[] = {
    {"data-dir", 0, OPTION_VALUE, "DIR", "one directory for everything local"},
    {"json", 0, OPTION_FLAG, NULL, "as JSON"},
    {0},
};

static const struct option reencrypt_options[] = {
    {"limit", 0, OPTION_VALUE, "N", "at most so many (1000)"},
    {"data-dir", 0, OPTION_VALUE, "DIR", "one directory for everything local"},
    {"json", 0, OPTION_FLAG, NULL, "as JSON"},
    {0},
};

static const struct option json_options[] = {
    {"json", 0, OPTION_FLAG, NULL, "as JSON"},
    {0},
};

static bool run_server(const struct invocation *invocation, int *exit_code, struct error *err)
{
    AUTO(arena_finish) struct arena arena = {0};
    AUTO(server_config_finish) struct server_config config = {0};
    const struct server_flags flags = {
        .data_dir = invocation_value(invocation, "data-dir"),
        .address = invocation_value(invocation, "addr"),
        .no_migrate = invocation_has(invocation, "no-migrate"),
    };
    *exit_code = 0;
    return server_config_load(&flags, &arena, &config, err) && server_main(&config, err);
}

static void close_store(struct store **store)
{
    store_close(*store);
}

static bool run_migrate(const struct invocation *invocation, int *exit_code, struct error *err)
{
    AUTO(arena_finish) struct arena arena = {0};
    AUTO(server_config_finish) struct server_config config = {0};
    AUTO(close_store) struct store *store = NULL;
    const struct server_flags flags = {.data_dir = invocation_value(invocation, "data-dir")};
    int have, want;
    if (!server_config_load(&flags, &arena, &config, err) ||
        (config.data_dir && !directory_make(config.data_dir, 0700, err)))
        return false;
    const struct store_config store_config = {.url = config.database_url,
                                              .readers = 1,
                                              .pool_size = 2,
                                              .busy_ms = 60 * 1000};
    if (!store_open(&store_config, &store, err) || !store_migrate(store, err) ||
        !store_schema_version(store, &have, &want, err))
        return false;
    printf(invocation_has(invocation, "json") ? "{\"schema\":%d}\n" : "schema: %d\n", have);
    *exit_code = 0;
    return true;
}

const struct command server_commands[] = {
    {
     .name = "server",
     .summary = "run the control plane",
     .help = "Runs the API and the console pages until it is stopped; the schema of the\n"
                "database is brought up to date first.\n"
                "\n"
                "  helmr server --data-dir /var/lib/helmr --addr 127.0.0.1:8080\n", .options = server_options,
     .run = run_server,
     },
    {
     .name = "server migrate",
     .summary = "bring the database schema up to date, then exit",
     .help = "Prints the version of the schema.\n"
                "\n"
                "  HELMR_DATABASE_URL=postgres://helmr@db/helmr helmr server migrate\n", .options = host_options,
     .run = run_migrate,
     },
    {
     .name = "audit verify",
     .args = "[FILE]",
     .summary = "check the audit log, or an exported file, on the server's host",
     .help =
            "Needs the database (or the file) and the master keys, not a server. Exits with 1 and\n"
            "names the first entry that was changed, removed or cut off.\n"
            "\n"
            "  helmr audit verify\n"
            "  helmr audit verify audit-2026.jsonl\n", .options = host_options,
     .run = audit_verify_command,
     .max_args = 1,
     },
    {
     .name = "key generate",
     .summary = "print a new master or checkpoint key",
     .help = "32 random bytes in base64; nothing is stored.\n"
                "\n"
                "  helmr key generate\n", .options = json_options,
     .run = key_generate_command,
     },
    {
     .name = "key master status",
     .summary = "count what is under which master key, on the server's host",
     .help =
            "Per key id and context. When old_key_count is 0, the old key may be dropped; audit\n"
            "entries stay under theirs and need it only to be verified. Blobs of the store are\n"
            "sealed anew by the server; packs and manifests of versions stay until they go.\n"
            "\n"
            "  helmr key master status\n", .options = status_options,
     .run = key_master_status_command,
     },
    {
     .name = "key master rotate",
     .summary = "make a new master key for the next start, on the server's host",
     .help = "Writes keys/master and keeps the former one in keys/master.old. With "
                "HELMR_MASTER_KEY\n"
                "set it says what to set and changes nothing.\n"
                "\n"
                "  helmr key master rotate\n", .options = host_options,
     .run = key_master_rotate_command,
     },
    {
     .name = "store verify",
     .summary = "read every object of the store back, on the server's host",
     .help =
            "Sources, bundles, image layers, workspace versions and checkpoints, beside a server\n"
            "that runs or without one. Prints what is damaged or missing, and then exits with 1.\n"
            "\n"
            "  helmr store verify\n", .options = host_options,
     .run = store_verify_command,
     },
    {
     .name = "secret reencrypt",
     .summary = "wrap stored secrets under the current master key, on the server's host",
     .help = "The server may run meanwhile. Repeat until remaining_old_key_count is 0.\n"
                "\n"
                "  helmr secret reencrypt --limit 500\n", .options = reencrypt_options,
     .run = secret_reencrypt_command,
     },
};

const size_t n_server_commands = COUNT_OF(server_commands);
