#include "server/audit_verify.h"

#include <fcntl.h>
#include <inttypes.h>
#include <unistd.h>

#include "base/own.h"
#include "server/audit_checkpoint.h"
#include "store/queries.h"

enum { PAGE = 500 };

static struct str mac_of(const uint8_t mac[BLAKE2B_LEN])
{
    return (struct str){(const char *)mac, BLAKE2B_LEN};
}

static bool find_key(const struct keys *keys, struct str id, const char *what, int64_t sequence,
                     struct str *key, struct error *err)
{
    size_t index;
    if (!keys_find(keys, KEY_AUDIT, id, &index))
        return error_set(err, ERR_CONFLICT,
                         "%s %" PRId64 " is under key id %.*s, which is not configured: set "
                         "HELMR_MASTER_KEY_OLD to check it",
                         what, sequence, (int)(id.len > 16 ? 16 : id.len), id.ptr);
    *key = keys_subkey(keys, KEY_AUDIT, index);
    return true;
}

bool audit_verify_next(struct audit_verifier *verifier, const struct audit_record *record,
                       struct error *err)
{
    int64_t want = verifier->last + 1;
    uint8_t mac[BLAKE2B_LEN];
    struct str key = {0};
    if (record->sequence > want)
        return error_set(err, ERR_CONFLICT, "entry %" PRId64 " was removed", want);
    if (record->sequence < want)
        return error_set(err, ERR_CONFLICT,
                         "entry %" PRId64 " was removed: entry %" PRId64 " stands in its place",
                         want, record->sequence);
    if (!find_key(verifier->keys, record->texts[AUDIT_KEY_ID], "entry", want, &key, err))
        return false;
    audit_mac(key, verifier->chain_id, (struct str){(char *)verifier->mac, verifier->mac_len},
              record, mac);
    if (!bytes_equal_constant_time(mac_of(mac), record->mac))
        return error_set(err, ERR_CONFLICT, "entry %" PRId64 " was changed", want);
    verifier->last = want;
    verifier->mac_len = sizeof mac;
    memcpy(verifier->mac, mac, sizeof mac);
    return true;
}

static bool cut_off(int64_t first, struct error *err)
{
    return error_set(err, ERR_CONFLICT, "entry %" PRId64 " was cut off, and what followed it",
                     first);
}

/* That the chain ends where it was said to end. */
static bool check_end(const struct audit_verifier *verifier, const struct audit_end *end,
                      struct error *err)
{
    if (verifier->last < end->sequence)
        return cut_off(verifier->last + 1, err);
    if (verifier->last > end->sequence ||
        !str_equal(end->mac, (struct str){(char *)verifier->mac, verifier->mac_len}))
        return error_set(err, ERR_CONFLICT,
                         "entry %" PRId64 " is the last, but the end of the log was changed",
                         verifier->last);
    return true;
}

static bool check_head(const struct audit_verifier *verifier, const struct rows *head,
                       struct error *err)
{
    const struct audit_end end = {verifier->chain_id, row_int(head, 0, AUDIT_HEAD_GET_SEQUENCE),
                                  row_str(head, 0, AUDIT_HEAD_GET_MAC)};
    uint8_t seal[BLAKE2B_LEN];
    struct str key = {0};
    if (!check_end(verifier, &end, err))
        return false;
    if (end.sequence == 0)
        return true;
    if (!find_key(verifier->keys, row_str(head, 0, AUDIT_HEAD_GET_KEY_ID),
                  "the end of the log after entry", end.sequence, &key, err))
        return false;
    audit_seal(key, "head", &end, seal);
    return bytes_equal_constant_time(mac_of(seal), row_str(head, 0, AUDIT_HEAD_GET_SEAL)) ||
           cut_off(end.sequence + 1, err);
}

static bool check_entry(struct audit_verifier *verifier, const struct audit_checkpoint *checkpoint,
                        const struct audit_record *record, struct error *err)
{
    if (!audit_verify_next(verifier, record, err))
        return false;
    return !checkpoint->is_there || record->sequence != checkpoint->sequence ||
           str_equal(record->mac, mac_of(checkpoint->mac)) ||
           error_set(err, ERR_CONFLICT, "entry %" PRId64 " is not the one of the checkpoint",
                     record->sequence);
}

static bool check_entries(struct tx *tx, struct audit_verifier *verifier,
                          const struct audit_checkpoint *checkpoint, struct error *err)
{
    for (size_t n = PAGE; n == PAGE;) {
        AUTO(arena_finish) struct arena arena = {0};
        struct rows rows;
        /* From the first number there is, also when it is one that there should not be. */
        if (!STORE(tx, &audit_read, &arena, &rows, err,
                   V_INT(verifier->last ? verifier->last : INT64_MIN), V_TEXT(""), V_TEXT(""),
                   V_INT(INT64_MIN), V_INT(INT64_MAX), V_INT(PAGE)))
            return false;
        n = rows.n_rows;
        for (size_t i = 0; i < n; i++) {
            struct audit_record record = audit_record_of(&rows, i);
            if (!check_entry(verifier, checkpoint, &record, err))
                return false;
        }
    }
    return true;
}

bool audit_verify_store(struct store *store, const struct keys *keys, const char *checkpoint_path,
                        int64_t *n_entries, struct error *err)
{
    AUTO(arena_finish) struct arena arena = {0};
    struct audit_checkpoint checkpoint = {0};
    struct audit_verifier verifier = {.keys = keys};
    struct rows head;
    AUTO_TX tx = NULL;
    /* The file first: a server that runs may renew it after our snapshot. */
    if ((checkpoint_path && !audit_checkpoint_read(checkpoint_path, keys, &checkpoint, err)) ||
        !store_begin_read(store, &tx, err) ||
        !store_run(tx, &audit_head_get, NULL, 0, &arena, &head, err))
        return false;
    if (head.n_rows == 1)
        verifier.chain_id = row_str(&head, 0, AUDIT_HEAD_GET_CHAIN_ID);
    if (checkpoint.is_there && head.n_rows == 1 &&
        !str_equal(verifier.chain_id, str_of(checkpoint.chain_id)))
        return error_set(err, ERR_CONFLICT,
                         "entry 1 was removed: the log is another than that of the checkpoint");
    if (!check_entries(tx, &verifier, &checkpoint, err))
        return head.n_rows == 1 ? false
                                : error_set(err, ERR_CONFLICT, "the end of the log was removed");
    if (head.n_rows == 1 && !check_head(&verifier, &head, err))
        return false;
    *n_entries = verifier.last;
    return !checkpoint.is_there || checkpoint.sequence <= verifier.last ||
           cut_off(verifier.last + 1, err);
}

/* An exported file on its way, read twice: the trailer comes last, but says where it begins. */
struct reading {
    int fd;
    size_t start, len; /* what is read and not yet taken */
    char bytes[AUDIT_LINE_MAX];
};

/* Valid until the next one. */
static bool next_line(struct reading *reading, struct str *line, bool *over, struct error *err)
{
    for (*over = false;;) {
        char *from = reading->bytes + reading->start;
        const char *end = memchr(from, '\n', reading->len);
        if (end) {
            *line = (struct str){from, (size_t)(end - from)};
            reading->start += line->len + 1;
            reading->len -= line->len + 1;
            return true;
        }
        if (reading->len == sizeof reading->bytes)
            return error_set(err, ERR_TOO_LARGE, "a line is over %d bytes", AUDIT_LINE_MAX);
        memmove(reading->bytes, from, reading->len);
        reading->start = 0;
        ssize_t got =
            read(reading->fd, reading->bytes + reading->len, sizeof reading->bytes - reading->len);
        if (got < 0)
            return error_errno(err, "read the file");
        if (got == 0) {
            *over = reading->len == 0;
            *line = (struct str){reading->bytes, reading->len};
            reading->len = 0;
            return true;
        }
        reading->len += (size_t)got;
    }
}

static bool find_trailer(struct reading *reading, struct arena *arena,
                         struct audit_trailer *trailer, struct error *err)
{
    int64_t last = 0;
    for (;;) {
        AUTO(arena_finish) struct arena scratch = {0};
        struct audit_trailer read;
        struct audit_record record;
        struct str line = {0};
        bool over, is_trailer;
        if (!next_line(reading, &line, &over, err))
            return false;
        if (over)
            return error_set(err, ERR_CONFLICT,
                             "entry %" PRId64 " was cut off, or the export is of some entries "
                             "only: the file has no seal",
                             last + 1);
        if (!audit_line_read(line, &scratch, &record, &read, &is_trailer, err))
            return error_wrap(err, "entry %" PRId64 " was changed", last + 1);
        if (is_trailer) {
            *trailer = (struct audit_trailer){.chain_id = arena_str(arena, read.chain_id),
                                              .before = arena_str(arena, read.before),
                                              .first = read.first,
                                              .last = read.last,
                                              .key_id = arena_str(arena, read.key_id),
                                              .seal = arena_str(arena, read.seal)};
            return true;
        }
        last = record.sequence;
    }
}

static bool check_lines(struct reading *reading, struct audit_verifier *verifier, struct error *err)
{
    for (bool is_sealed = false;;) {
        AUTO(arena_finish) struct arena arena = {0};
        struct audit_trailer trailer;
        struct audit_record record;
        struct str line = {0};
        bool over;
        if (!next_line(reading, &line, &over, err))
            return false;
        if (over)
            return true;
        if (is_sealed)
            return error_set(err, ERR_CONFLICT, "something was added after entry %" PRId64,
                             verifier->last);
        if (!audit_line_read(line, &arena, &record, &trailer, &is_sealed, err))
            return error_wrap(err, "entry %" PRId64 " was changed", verifier->last + 1);
        if (!is_sealed && !audit_verify_next(verifier, &record, err))
            return false;
    }
}

bool audit_verify_file(const char *path, const struct keys *keys, int64_t *n_entries,
                       struct error *err)
{
    AUTO(arena_finish) struct arena arena = {0};
    AUTO_FD int fd = open(path, O_RDONLY | O_CLOEXEC);
    struct reading reading = {.fd = fd};
    struct audit_verifier verifier = {.keys = keys};
    struct audit_trailer trailer;
    uint8_t seal[BLAKE2B_LEN];
    struct str key = {0};
    if (fd < 0)
        return error_errno(err, "open %s", path);
    if (!find_trailer(&reading, &arena, &trailer, err))
        return false;
    if (lseek(fd, 0, SEEK_SET) != 0)
        return error_errno(err, "%s must be a file", path);
    reading.start = reading.len = 0;
    verifier.chain_id = trailer.chain_id;
    verifier.last = trailer.first - 1;
    verifier.mac_len = trailer.before.len;
    memcpy(verifier.mac, trailer.before.ptr, trailer.before.len);
    if (!check_lines(&reading, &verifier, err))
        return false;
    if (verifier.last < trailer.last)
        return cut_off(verifier.last + 1, err);
    if (!find_key(keys, trailer.key_id, "the seal after entry", trailer.last, &key, err))
        return false;
    audit_trailer_seal(key, &trailer, (struct str){(char *)verifier.mac, verifier.mac_len}, seal);
    if (verifier.last > trailer.last || !bytes_equal_constant_time(mac_of(seal), trailer.seal))
        return error_set(err, ERR_CONFLICT,
                         "entry %" PRId64 " is the last, but the seal of the file was changed",
                         verifier.last);
    *n_entries = trailer.last - trailer.first + 1;
    return true;
}
