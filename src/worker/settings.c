#include "worker/settings.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/encode.h"
#include "base/file.h"
#include "base/log.h"
#include "base/own.h"
#include "blob/seal.h"
#include "model/engine_choice.h"

enum {
    DISK_RESERVE_MIB = 1024,
    DEFAULT_BUILDERS = 1,
    DEFAULT_STANDBYS = 2,
    SLOTS_MAX = 256,
    JAIL_ID_BASE_MAX = 1000000000,
};

static const char default_blocked[] = "0.0.0.0/8,10.0.0.0/8,100.64.0.0/10,127.0.0.0/8,"
                                      "169.254.0.0/16,172.16.0.0/12,192.168.0.0/16,"
                                      "224.0.0.0/4,240.0.0.0/4";

/* Text settings in one table: variable, flag, where it goes, default (%W: the work directory). */
static const struct text_setting {
    const char *variable, *flag;
    size_t offset, size;
    const char *otherwise;
} texts[] = {
#define TEXT(variable, flag, member, otherwise)                \
    {variable, flag, offsetof(struct worker_settings, member), \
     sizeof(((struct worker_settings *)0)->member), otherwise}
    TEXT("HELMR_WORKER_WORK_DIR", NULL, work_dir, "%D/worker"),
    TEXT("HELMR_WORKER_IMAGES_DIR", NULL, images_dir, "%D/images"),
    TEXT("HELMR_CONTROL_URL", NULL, control_url, ""),
    TEXT("HELMR_WORKER_INSTANCE_CREDENTIAL_PATH", NULL, credential_path, "%W/credential"),
    TEXT("HELMR_WORKER_RESOURCE_ID", NULL, resource_id, ""),
    TEXT("HELMR_WORKER_GROUP_ID", NULL, group, ""),
    TEXT("HELMR_WORKER_ROLES", "roles", roles, "run,build"),
    TEXT("HELMR_WORKER_LABELS", NULL, labels, ""),
    TEXT("HELMR_ENGINE", "engine", engine, "auto"),
    TEXT("HELMR_WORKER_BUILD_ENGINE", NULL, build_engine, "auto"),
    TEXT("HELMR_WORKER_JAILER_CGROUP_PARENT", NULL, cgroup_parent, "helmr"),
    TEXT("HELMR_WORKER_CNI_PROFILE", NULL, cni_profile, ""),
    TEXT("HELMR_WORKER_RUNSC_PATH", NULL, runsc_path, ""),
    TEXT("HELMR_WORKER_RUNC_PATH", NULL, runc_path, ""),
    TEXT("HELMR_WORKER_QEMU_PATH", NULL, qemu_path, ""),
    TEXT("HELMR_WORKER_FIRECRACKER_PATH", NULL, firecracker_path, ""),
    TEXT("HELMR_WORKER_JAILER_PATH", NULL, jailer_path, ""),
    TEXT("HELMR_WORKER_GUEST_DIR", NULL, guest_dir, ""),
    TEXT("HELMR_WORKER_DNS", NULL, dns, ""),
    TEXT("HELMR_WORKER_NETWORK_BLOCKED_CIDRS", NULL, blocked_cidrs, default_blocked),
    TEXT("HELMR_WORKER_NETWORK_ALLOWED_CIDRS", NULL, allowed_cidrs, ""),
    TEXT("HELMR_REGISTRY_AUTH_FILE", NULL, registry_auth_file, ""),
    TEXT("HELMR_REGISTRY_CA_FILE", NULL, registry_ca_file, ""),
    TEXT("HELMR_REGISTRY_MIRRORS", NULL, registry_mirrors, ""),
    TEXT("HELMR_IMAGE_PUSH_REPOSITORY", NULL, image_push_repository, ""),
#undef TEXT
};

/* %D stands for the data directory, %W for the work directory, which is read before. */
static bool fill(struct worker_settings *set, const struct text_setting *row, const char *value,
                 struct error *err)
{
    char *to = (char *)set + row->offset;
    const char *head = "";
    int written;

    if (value[0] == '%') {
        head = value[1] == 'D' ? set->data_dir : set->work_dir;
        value += 2;
    }
    written = snprintf(to, row->size, "%s%s", head, value);
    if (written < 0 || (size_t)written >= row->size)
        return error_set(err, ERR_INVALID, "%s is too long", row->variable);
    return true;
}

static bool read_texts(const struct invocation *call, const struct env *env,
                       struct worker_settings *set, struct error *err)
{
    for (size_t i = 0; i < COUNT_OF(texts); i++) {
        const char *value = call && texts[i].flag ? invocation_value(call, texts[i].flag) : NULL;

        if (!value)
            value = env_text(env, texts[i].variable, texts[i].otherwise);
        if (!fill(set, &texts[i], value, err))
            return false;
    }
    return true;
}

static bool read_numbers(const struct env *env, struct worker_settings *set, struct error *err)
{
    return env_int(env, "HELMR_WORKER_CAPACITY_VCPUS", 1, 4096, 0, &set->vcpus, err) &&
           env_int(env, "HELMR_WORKER_CAPACITY_MEMORY_MIB", 128, INT32_MAX, 0, &set->memory_mib,
                   err) &&
           env_int(env, "HELMR_WORKER_DISK_MIB", 1024, INT32_MAX, 0, &set->disk_mib, err) &&
           env_int(env, "HELMR_WORKER_DISK_RESERVE_MIB", 0, INT32_MAX, DISK_RESERVE_MIB,
                   &set->disk_reserve_mib, err) &&
           env_int(env, "HELMR_WORKER_EXECUTION_SLOTS", 1, SLOTS_MAX, 0, &set->execution_slots,
                   err) &&
           env_int(env, "HELMR_WORKER_BUILD_EXECUTORS", 0, 16, DEFAULT_BUILDERS,
                   &set->build_executors, err) &&
           env_int(env, "HELMR_WORKER_STANDBYS", 0, 32, DEFAULT_STANDBYS, &set->standbys, err) &&
           env_int(env, "HELMR_WORKER_ARTIFACT_CACHE_MAX_MIB", 64, INT32_MAX, 0,
                   &set->artifact_cache_max_mib, err) &&
           env_int(env, "HELMR_WORKER_TEMPLATE_CACHE_MAX_MIB", 64, INT32_MAX, 0,
                   &set->template_cache_max_mib, err) &&
           env_int(env, "HELMR_WORKER_JAILER_UID_BASE", 1000, JAIL_ID_BASE_MAX, 0,
                   &set->jail_id_base, err);
}

static bool check_engine(const char *variable, const char *wanted, struct error *err)
{
    return engine_wish_is_valid(wanted) ||
           error_set(err, ERR_INVALID,
                     "%s must be auto, firecracker, qemu, gvisor or container, and is %s", variable,
                     wanted);
}

static bool accel_parse(const char *wanted, enum qemu_accel *accel)
{
    static const char *const names[] = {
        [QEMU_ACCEL_AUTO] = "auto", [QEMU_ACCEL_KVM] = "kvm", [QEMU_ACCEL_TCG] = "tcg"};

    for (size_t i = 0; i < COUNT_OF(names); i++) {
        *accel = (enum qemu_accel)i;
        if (strcmp(names[i], wanted) == 0)
            return true;
    }
    return false;
}

static bool read_engines(const struct env *env, struct worker_settings *set, struct error *err)
{
    const char *accel = env_text(env, "HELMR_WORKER_QEMU_ACCEL", "auto");

    if (!check_engine("HELMR_ENGINE", set->engine, err) ||
        !check_engine("HELMR_WORKER_BUILD_ENGINE", set->build_engine, err))
        return false;
    if (!accel_parse(accel, &set->qemu_accel))
        return error_set(err, ERR_INVALID, "HELMR_WORKER_QEMU_ACCEL must be auto, kvm or tcg");
    /* Without KVM it would not be taken: nobody waits for the proof that it works. */
    if (strcmp(set->engine, "auto") == 0)
        set->qemu_accel = QEMU_ACCEL_KVM;
    return true;
}

/* Docker's own place for credentials, when nobody named another: $DOCKER_CONFIG, else ~/.docker. */
static bool find_registry_auth(struct worker_settings *set, struct error *err)
{
    const char *folder = getenv("DOCKER_CONFIG"), *home = getenv("HOME");
    const char *below = "";
    int written;

    if (set->registry_auth_file[0])
        return true;
    if (!folder || !*folder) {
        folder = home;
        below = "/.docker";
    }
    if (!folder || folder[0] != '/')
        return true;
    written = snprintf(set->registry_auth_file, sizeof set->registry_auth_file, "%s%s/config.json",
                       folder, below);
    if (written < 0 || (size_t)written >= sizeof set->registry_auth_file)
        return error_set(err, ERR_INVALID, "the path of Docker's config.json is too long");
    if (access(set->registry_auth_file, R_OK) != 0)
        set->registry_auth_file[0] = '\0';
    return true;
}

static bool refuse_profile(const char *profile, const char *why, struct error *err)
{
    return error_set(err, ERR_INVALID, "HELMR_WORKER_CNI_PROFILE=%s: %s", profile, why);
}

bool settings_profile(const char *given, bool is_root, char profile[SETTING_PROFILE],
                      bool *is_user_open, struct error *err)
{
    const bool is_users = strcmp(given, PROFILE_USER) == 0;

    *is_user_open = !is_root && is_users;
    if (is_root && is_users)
        return refuse_profile(given, "this is the network of a worker that is not root", err);
    if (!is_root && given[0] && !is_users)
        return refuse_profile(given, "a worker that is not root has " PROFILE_USER " or none", err);
    if (!given[0])
        given = is_root ? "helmr-v1" : PROFILE_USER_OFF;
    snprintf(profile, SETTING_PROFILE, "%s", given);
    return true;
}

static bool read_network(const struct env *env, struct worker_settings *set, struct error *err)
{
    char given[SETTING_PROFILE];

    const char *mode = env_text(env, "HELMR_WORKER_NETWORK", "auto");

    if (strcmp(mode, "auto") != 0 && strcmp(mode, "none") != 0)
        return error_set(err, ERR_INVALID, "HELMR_WORKER_NETWORK must be auto or none");
    set->network_enabled = strcmp(mode, "auto") == 0;
    memcpy(given, set->cni_profile, sizeof given);
    return settings_profile(given, geteuid() == 0, set->cni_profile, &set->is_user_network_open,
                            err);
}

bool settings_data_dir(const struct invocation *invocation, char *path, size_t size,
                       struct error *err)
{
    const char *given = invocation ? invocation_value(invocation, "data-dir") : NULL;
    char whole[PATH_MAX];

    if (!given)
        given = getenv("HELMR_DATA_DIR");
    if (!given)
        given = "/var/lib/helmr";
    if (given[0] != '/') {
        if (!directory_make(given, 0755, err))
            return false;
        if (!realpath(given, whole))
            return error_errno(err, "data directory %s", given);
        given = whole;
    }
    if (snprintf(path, size, "%s", given) >= (int)size)
        return error_set(err, ERR_INVALID, "the data directory's path is too long");
    return true;
}

bool settings_has_role(const struct worker_settings *settings, const char *role)
{
    struct str rest = str_of(settings->roles), piece;

    while (rest.len > 0 && str_split(&rest, ',', &piece))
        if (str_equal(piece, str_of(role)))
            return true;
    return false;
}

static bool check_roles(const struct worker_settings *settings, struct error *err)
{
    struct str rest = str_of(settings->roles), piece;

    while (rest.len > 0 && str_split(&rest, ',', &piece))
        if (!str_equal(piece, STR("run")) && !str_equal(piece, STR("build")))
            return error_set(err, ERR_INVALID, "HELMR_WORKER_ROLES: %.*s is neither run nor build",
                             (int)piece.len, piece.ptr);
    return settings->roles[0] ||
           error_set(err, ERR_INVALID, "HELMR_WORKER_ROLES must be run, build or run,build");
}

static bool set_identity(struct worker_settings *set, struct error *err)
{
    if (!set->resource_id[0] && gethostname(set->resource_id, sizeof set->resource_id - 1) != 0)
        return error_errno(err, "gethostname");
    if (!set->control_url[0])
        return error_set(err, ERR_INVALID,
                         "HELMR_CONTROL_URL is not set: the address of the server");
    return true;
}

/* Base64 in the variable, bytes here. */
static bool read_checkpoint_key(const struct env *env, struct worker_settings *set,
                                struct error *err)
{
    static const char name[] = "HELMR_CHECKPOINT_ENCRYPTION_KEY";
    struct secret text = {0};
    uint8_t bytes[SEAL_KEY_LEN];
    size_t len = sizeof bytes;

    if (!env_secret(env, name, &text, err))
        return false;
    if (!secret_is_set(&text))
        return true;
    struct str given = secret_reveal(&text);
    bool fine = base64_decode(given, bytes, &len) && len == SEAL_KEY_LEN;
    if (fine)
        set->checkpoint_key = secret_create((struct str){(const char *)bytes, len});
    bytes_wipe(bytes, sizeof bytes);
    secret_finish(&text);
    return fine || error_set(err, ERR_INVALID,
                             "%s must be base64 of exactly 32 bytes: make one "
                             "with `helmr key generate`",
                             name);
}

static bool check_checkpoint_key(const struct worker_settings *set, struct error *err)
{
    return secret_is_set(&set->checkpoint_key) ||
           error_set(err, ERR_INVALID,
                     "HELMR_CHECKPOINT_ENCRYPTION_KEY is not set: base64 of 32 bytes, the same on "
                     "all workers that resume each other's runs (`helmr key generate` makes one)");
}

bool worker_settings_read_host(const struct invocation *invocation,
                               struct worker_settings *settings, struct error *err)
{
    AUTO(env_finish) struct env env = {0};
    char file[SETTING_TEXT + 16];

    *settings = (struct worker_settings){0};
    if (!settings_data_dir(invocation, settings->data_dir, sizeof settings->data_dir, err))
        return false;
    snprintf(file, sizeof file, "%s/helmr.env", settings->data_dir);
    return env_load(&env, file, err) && read_texts(invocation, &env, settings, err) &&
           read_numbers(&env, settings, err) && read_engines(&env, settings, err) &&
           read_network(&env, settings, err) && find_registry_auth(settings, err) &&
           env_secret(&env, "HELMR_WORKER_BOOTSTRAP_TOKEN", &settings->bootstrap_token, err) &&
           read_checkpoint_key(&env, settings, err);
}

bool worker_settings_read(const struct invocation *invocation, struct worker_settings *settings,
                          struct error *err)
{
    return worker_settings_read_host(invocation, settings, err) && check_roles(settings, err) &&
           set_identity(settings, err) && check_checkpoint_key(settings, err);
}

void worker_settings_finish(struct worker_settings *settings)
{
    secret_finish(&settings->bootstrap_token);
    secret_finish(&settings->checkpoint_key);
}
