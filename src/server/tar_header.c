#include "server/tar_header.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Where the fields of a header are. */
enum {
    AT_NAME = 0,
    AT_MODE = 100,
    AT_UID = 108,
    AT_GID = 116,
    AT_SIZE = 124,
    AT_MTIME = 136,
    AT_SUM = 148,
    AT_TYPE = 156,
    AT_LINK = 157,
    AT_MAGIC = 257,
    AT_VERSION = 263,
    NAME_ROOM = 100,
    NS_PER_S = 1000000000,
};

#define SIZE_MAX_USTAR UINT64_C(077777777777)
#define ID_MAX_USTAR   07777777u

static const char zeros[2 * TAR_BLOCK];

/* The name of the pax entry itself, which nobody unpacks. */
static const struct str pax_name = {"PaxHeaders/entry", 16};

static void put_octal(uint8_t *field, size_t room, uint64_t value)
{
    char digits[24];

    snprintf(digits, sizeof digits, "%0*" PRIo64, (int)room - 1, value);
    memcpy(field, digits, room - 1);
}

static void put_text(uint8_t *field, struct str text)
{
    memcpy(field, text.ptr, text.len < NAME_ROOM ? text.len : NAME_ROOM);
}

static bool put_block(uint8_t block[TAR_BLOCK], struct buf *out, struct error *err)
{
    unsigned sum = 0;

    memcpy(block + AT_MAGIC, "ustar", 6);
    memcpy(block + AT_VERSION, "00", 2);
    memset(block + AT_SUM, ' ', 8);
    for (size_t i = 0; i < TAR_BLOCK; i++)
        sum += block[i];
    put_octal(block + AT_SUM, 7, sum);
    block[AT_SUM + 6] = '\0';
    return buf_append(out, (struct str){(const char *)block, TAR_BLOCK}, err);
}

/* "<length> <name>=<value>\n", where the length counts itself. */
static bool put_record(struct buf *pax, struct str prefix, struct str name, struct str value,
                       struct error *err)
{
    size_t rest = prefix.len + name.len + value.len + 3, len = rest + 1;
    char digits[24];

    while (rest + (size_t)snprintf(digits, sizeof digits, "%zu", len) != len)
        len = rest + strlen(digits);
    return buf_append(pax, str_of(digits), err) && buf_append(pax, STR(" "), err) &&
           (!prefix.len || buf_append(pax, prefix, err)) && buf_append(pax, name, err) &&
           buf_append(pax, STR("="), err) && (!value.len || buf_append(pax, value, err)) &&
           buf_append(pax, STR("\n"), err);
}

static bool is_plain(struct str text)
{
    for (size_t i = 0; i < text.len; i++)
        if ((unsigned char)text.ptr[i] >= 0x80)
            return false;
    return text.len <= NAME_ROOM;
}

static bool put_number(struct buf *pax, const char *name, uint64_t value, uint64_t most,
                       struct error *err)
{
    char digits[24];

    snprintf(digits, sizeof digits, "%" PRIu64, value);
    return value <= most || put_record(pax, (struct str){0}, str_of(name), str_of(digits), err);
}

/* Seconds as a decimal number, the fraction without trailing zeros. */
static bool put_time(struct buf *pax, int64_t ns, struct error *err)
{
    int64_t seconds = ns / NS_PER_S, rest = ns % NS_PER_S;
    char text[40];

    if (rest == 0 && seconds >= 0)
        return true;
    int len = snprintf(text, sizeof text, "%s%" PRId64 ".%09" PRId64, ns < 0 ? "-" : "",
                       seconds < 0 ? -seconds : seconds, rest < 0 ? -rest : rest);
    while (text[len - 1] == '0')
        len--;
    if (text[len - 1] == '.')
        len--;
    return put_record(pax, (struct str){0}, STR("mtime"), (struct str){text, (size_t)len}, err);
}

static bool put_xattrs(struct buf *pax, struct str xattrs, struct error *err)
{
    struct str name, value;

    while (tree_xattr_next(&xattrs, &name, &value))
        if (!put_record(pax, STR("SCHILY.xattr."), name, value, err))
            return false;
    return true;
}

static bool put_names(struct buf *pax, struct str path, struct str link, struct error *err)
{
    return (is_plain(path) || put_record(pax, (struct str){0}, STR("path"), path, err)) &&
           (is_plain(link) || put_record(pax, (struct str){0}, STR("linkpath"), link, err));
}

static bool put_pax(struct str records, struct buf *out, struct error *err)
{
    uint8_t block[TAR_BLOCK] = {0};

    if (records.len == 0)
        return true;
    put_text(block + AT_NAME, pax_name);
    put_octal(block + AT_MODE, 8, 0644);
    put_octal(block + AT_UID, 8, 0);
    put_octal(block + AT_GID, 8, 0);
    put_octal(block + AT_SIZE, 12, records.len);
    put_octal(block + AT_MTIME, 12, 0);
    block[AT_TYPE] = 'x';
    return put_block(block, out, err) && buf_append(out, records, err) &&
           tar_pad_put(records.len, out, err);
}

static uint8_t type_of(enum tree_kind kind, bool is_link)
{
    switch (kind) {
    case TREE_FILE: return is_link ? '1' : '0';
    case TREE_DIRECTORY: return '5';
    case TREE_SYMLINK: return '2';
    case TREE_FIFO: return '6';
    case TREE_WHITEOUT: break;
    }
    return '0';
}

static bool put_entry(const struct node_entry *entry, struct str path, struct str link,
                      uint64_t size, struct buf *out, struct error *err)
{
    uint8_t block[TAR_BLOCK] = {0};
    int64_t seconds = entry->mtime_ns / NS_PER_S;

    put_text(block + AT_NAME, path);
    put_octal(block + AT_MODE, 8, entry->mode);
    put_octal(block + AT_UID, 8, entry->uid <= ID_MAX_USTAR ? entry->uid : 0);
    put_octal(block + AT_GID, 8, entry->gid <= ID_MAX_USTAR ? entry->gid : 0);
    put_octal(block + AT_SIZE, 12, size <= SIZE_MAX_USTAR ? size : 0);
    put_octal(block + AT_MTIME, 12, entry->mtime_ns < 0 ? 0 : (uint64_t)seconds);
    block[AT_TYPE] = type_of(entry->kind, entry->kind == TREE_FILE && link.len > 0);
    if (link.len > 0)
        put_text(block + AT_LINK, link);
    return put_block(block, out, err);
}

bool tar_header_put(const struct node_entry *entry, struct str path, struct str link,
                    struct buf *out, struct error *err)
{
    AUTO(buf_finish) struct buf pax = {.max = TAR_HEADERS_MAX};
    AUTO(buf_finish) struct buf folder = {.max = TREE_PATH_MAX + 1};
    bool is_link = entry->kind == TREE_FILE && link.len > 0;
    uint64_t size = entry->kind == TREE_FILE && !is_link ? entry->size : 0;

    if (entry->kind == TREE_DIRECTORY) {
        if (!buf_append(&folder, path, err) || !buf_append(&folder, STR("/"), err))
            return false;
        path = buf_str(&folder);
    }
    if (entry->kind == TREE_SYMLINK)
        link = entry->target;
    return put_names(&pax, path, link, err) &&
           put_number(&pax, "size", size, SIZE_MAX_USTAR, err) &&
           put_number(&pax, "uid", entry->uid, ID_MAX_USTAR, err) &&
           put_number(&pax, "gid", entry->gid, ID_MAX_USTAR, err) &&
           put_time(&pax, entry->mtime_ns, err) &&
           (is_link || put_xattrs(&pax, entry->xattrs, err)) && put_pax(buf_str(&pax), out, err) &&
           put_entry(entry, path, link, size, out, err);
}

bool tar_pad_put(uint64_t size, struct buf *out, struct error *err)
{
    size_t over = (size_t)(size % TAR_BLOCK);

    return over == 0 || buf_append(out, (struct str){zeros, TAR_BLOCK - over}, err);
}

bool tar_end_put(struct buf *out, struct error *err)
{
    return buf_append(out, (struct str){zeros, sizeof zeros}, err);
}
