#include "engine/record.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/json.h"
#include "base/own.h"
#include "engine/host_state.h"

enum { OWNER_MAX = 1024 };

const char *host_boot_id(void)
{
    static char id[ID_TEXT];

    if (!id[0]) {
        AUTO_FREE char *text = NULL;
        struct error ignored;
        if (!file_read("/proc/sys/kernel/random/boot_id", 64, &text, &ignored) ||
            !id_parse((struct str){text, strcspn(text, "\n")}, id))
            snprintf(id, sizeof(id), "unknown");
    }
    return id;
}

static bool owner_write(int dir_fd, const struct record_owner *owner, struct error *err)
{
    AUTO(buf_finish) struct buf text = {.max = OWNER_MAX};
    struct json_writer json = json_begin(&text);

    json_open(&json, NULL);
    json_string(&json, "kind", owner->kind);
    json_string(&json, "lease_id", owner->lease_id);
    json_int(&json, "epoch", owner->epoch);
    json_string(&json, "boot_id", host_boot_id());
    json_close(&json);
    if (!json_end(&json, err))
        return false;

    AUTO_FD int fd = openat(dir_fd, "owner", O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0)
        return error_errno(err, "create the owner file");
    return fd_write_all(fd, buf_str(&text), err);
}

static void record_path(struct engine_host *host, const char *id, struct record *record)
{
    *record = (struct record){.dir_fd = -1, .journal = {.fd = -1}};
    snprintf(record->id, sizeof(record->id), "%s", id);
    snprintf(record->path, sizeof(record->path), "%s/instances/%s", host->work_dir, id);
}

bool record_create(struct engine_host *host, const char *id, const struct record_owner *owner,
                   struct record *record, struct error *err)
{
    record_path(host, id, record);
    if (mkdirat(host->instances_fd, id, 0700) < 0) {
        if (errno == EEXIST)
            return error_set(err, ERR_CONFLICT, "instance %s exists already", id);
        return error_errno(err, "make %s", record->path);
    }
    record->dir_fd =
        openat(host->instances_fd, id, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (record->dir_fd < 0)
        return error_errno(err, "open %s", record->path);
    return owner_write(record->dir_fd, owner, err) &&
           journal_create(record->dir_fd, &record->journal, err);
}

bool record_sync(struct engine_host *host, struct record *record, struct error *err)
{
    AUTO_FD int owner = openat(record->dir_fd, "owner", O_RDONLY | O_CLOEXEC);

    if (owner < 0 || fsync(owner) < 0)
        return error_errno(err, "sync the owner of %s", record->id);
    if (!journal_sync(&record->journal, err))
        return false;
    if (fsync(record->dir_fd) < 0 || fsync(host->instances_fd) < 0)
        return error_errno(err, "sync %s", record->path);
    return true;
}

void record_finish(struct record *record)
{
    journal_finish(&record->journal);
    auto_close(&record->dir_fd);
    record->dir_fd = -1;
}

struct owner_text {
    struct str kind, lease_id, boot_id;
    int64_t epoch;
};

static const struct json_field owner_fields[] = {
    {"kind", JSON_TEXT, offsetof(struct owner_text, kind), REQUIRED, .max = 15},
    {"lease_id", JSON_TEXT, offsetof(struct owner_text, lease_id), REQUIRED, .max = ID_LEN},
    {"epoch", JSON_INTEGER, offsetof(struct owner_text, epoch), REQUIRED, .max = INT64_MAX},
    {"boot_id", JSON_TEXT, offsetof(struct owner_text, boot_id), REQUIRED, .max = ID_LEN},
    {0},
};

static void text_copy(char *into, size_t room, struct str text)
{
    snprintf(into, room, "%.*s", (int)text.len, text.ptr);
}

static void owner_read(const char *folder, struct record_owner *owner)
{
    char path[PATH_MAX + 8];
    AUTO_FREE char *text = NULL;
    AUTO(arena_finish) struct arena arena = {0};
    struct owner_text read;
    struct error ignored;

    *owner = (struct record_owner){.kind = "unknown"};
    snprintf(path, sizeof(path), "%s/owner", folder);
    if (!file_read(path, OWNER_MAX, &text, &ignored) ||
        !json_read(str_of(text), owner_fields, &read, sizeof(read), &arena, &ignored))
        return;
    text_copy(owner->kind, sizeof(owner->kind), read.kind);
    text_copy(owner->lease_id, sizeof(owner->lease_id), read.lease_id);
    text_copy(owner->boot_id, sizeof(owner->boot_id), read.boot_id);
    owner->epoch = read.epoch;
}

bool record_open(struct engine_host *host, const char *id, struct record *record,
                 struct record_owner *owner, struct error *err)
{
    record_path(host, id, record);
    record->dir_fd =
        openat(host->instances_fd, id, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (record->dir_fd < 0)
        return error_errno(err, "open %s", record->path);
    owner_read(record->path, owner);
    return true;
}
