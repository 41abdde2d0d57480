#include "cli/tar.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/buf.h"

enum { BLOCK = 512, NAME_FIELD = 100, PAX_MAX = 64 * 1024, NS_PER_S = 1000000000 };

#define SIZE_FIELD_MAX UINT64_C(077777777777)

/* The ustar header, byte for byte. */
struct header {
    char name[NAME_FIELD];
    char mode[8], uid[8], gid[8];
    char size[12], mtime[12];
    char checksum[8];
    char type;
    char link[NAME_FIELD];
    char magic[6], version[2];
    char user[32], group[32];
    char major[8], minor[8];
    char prefix[155];
    char rest[12];
};
_Static_assert(sizeof(struct header) == BLOCK, "a header is one block");

static void put_octal(char *field, size_t size, uint64_t value)
{
    char text[32];

    snprintf(text, sizeof text, "%0*" PRIo64, (int)size - 1, value);
    memcpy(field, text, size);
}

static void put_text(char *field, size_t size, struct str text)
{
    if (text.len > 0)
        memcpy(field, text.ptr, text.len < size ? text.len : size);
}

struct facts {
    unsigned mode;
    uint64_t size, seconds;
};

static bool write_header(char type, struct str name, struct str link, const struct facts *facts,
                         tar_write *write, void *arg, struct error *err)
{
    struct header header = {
        .type = type, .magic = "ustar", .version = {'0', '0'}
    };
    unsigned sum = 0;

    put_text(header.name, sizeof header.name, name);
    put_text(header.link, sizeof header.link, link);
    put_octal(header.mode, sizeof header.mode, facts->mode);
    put_octal(header.uid, sizeof header.uid, 0);
    put_octal(header.gid, sizeof header.gid, 0);
    put_octal(header.size, sizeof header.size, facts->size > SIZE_FIELD_MAX ? 0 : facts->size);
    put_octal(header.mtime, sizeof header.mtime, facts->seconds);
    put_octal(header.major, sizeof header.major, 0);
    put_octal(header.minor, sizeof header.minor, 0);

    /* The sum is taken with blanks in its own place. */
    memset(header.checksum, ' ', sizeof header.checksum);
    for (size_t i = 0; i < sizeof header; i++)
        sum += ((const unsigned char *)&header)[i];
    put_octal(header.checksum, sizeof header.checksum - 1, sum);
    return write(arg, (struct str){(const char *)&header, sizeof header}, err);
}

static size_t count_digits(size_t number)
{
    size_t digits = 1;

    for (; number >= 10; number /= 10)
        digits++;
    return digits;
}

/* "LENGTH key=value\n", where LENGTH counts itself. */
static bool append_record(struct buf *out, const char *key, struct str value, struct error *err)
{
    size_t body = strlen(key) + value.len + 3, total = body;
    char head[64];

    while (total != body + count_digits(total))
        total = body + count_digits(total);
    snprintf(head, sizeof head, "%zu %s=", total, key);
    return buf_append(out, str_of(head), err) && buf_append(out, value, err) &&
           buf_append(out, STR("\n"), err);
}

/* Sizes over 8 GiB, and times with a fraction or before 1970. */
static bool append_numbers(struct buf *records, const struct tar_entry *entry, struct error *err)
{
    int64_t ns = entry->has_facts ? entry->mtime_ns : 0;
    int64_t seconds = ns / NS_PER_S, rest = ns % NS_PER_S;
    char text[48];

    snprintf(text, sizeof text, "%" PRIu64, entry->size);
    if (entry->kind == TAR_FILE && entry->size > SIZE_FIELD_MAX &&
        !append_record(records, "size", str_of(text), err))
        return false;
    snprintf(text, sizeof text, "%s%" PRId64 ".%09" PRId64, ns < 0 ? "-" : "",
             seconds < 0 ? -seconds : seconds, rest < 0 ? -rest : rest);
    return (rest == 0 && seconds >= 0) || append_record(records, "mtime", str_of(text), err);
}

static bool write_pax(const struct tar_entry *entry, tar_write *write, void *arg, struct error *err)
{
    AUTO(buf_finish) struct buf records = {.max = PAX_MAX};

    if (entry->path.len >= NAME_FIELD && !append_record(&records, "path", entry->path, err))
        return false;
    if (entry->target.len > NAME_FIELD && !append_record(&records, "linkpath", entry->target, err))
        return false;
    if (!append_numbers(&records, entry, err))
        return false;
    if (records.len == 0)
        return true;
    const struct facts facts = {.mode = 0644, .size = records.len};
    return write_header('x', STR("pax"), (struct str){0}, &facts, write, arg, err) &&
           write(arg, buf_str(&records), err) && tar_pad(records.len, write, arg, err);
}

bool tar_header(const struct tar_entry *entry, tar_write *write, void *arg, struct error *err)
{
    static const char types[] = {[TAR_FILE] = '0', [TAR_DIRECTORY] = '5', [TAR_LINK] = '2'};
    bool is_open = entry->kind != TAR_FILE || entry->is_executable;
    const struct facts facts = {
        .mode = entry->has_facts ? entry->mode
                : is_open        ? 0755
                                 : 0644,
        .size = entry->kind == TAR_FILE ? entry->size : 0,
        .seconds =
            entry->has_facts && entry->mtime_ns > 0 ? (uint64_t)entry->mtime_ns / NS_PER_S : 0,
    };
    char name[NAME_FIELD + 1];
    size_t len = entry->path.len < NAME_FIELD ? entry->path.len : NAME_FIELD;

    memcpy(name, entry->path.ptr, len);
    if (entry->kind == TAR_DIRECTORY && len < NAME_FIELD)
        name[len++] = '/';
    return write_pax(entry, write, arg, err) &&
           write_header(types[entry->kind], (struct str){name, len}, entry->target, &facts, write,
                        arg, err);
}

bool tar_pad(uint64_t size, tar_write *write, void *arg, struct error *err)
{
    static const char zeros[BLOCK];
    size_t over = (size_t)(size % BLOCK);

    return over == 0 || write(arg, (struct str){zeros, BLOCK - over}, err);
}

bool tar_end(tar_write *write, void *arg, struct error *err)
{
    static const char zeros[2 * BLOCK];

    return write(arg, (struct str){zeros, sizeof zeros}, err);
}
