#include "protocol/tree.h"

#include "base/own.h"

enum {
    KIND_END = 0,
    FLAG_OPAQUE = 1,
    FLAG_LINKED = 2,
    FLAG_COVER = 4,
    FLAG_SAME = 8,
    XATTR_HEAD = 6
};

static const char magic[TREE_MAGIC_LEN + 1] = "HLMRTR01";
static const char magic_difference[TREE_MAGIC_LEN + 1] = "HLMRTR02";

/* Where the fields of a header are; little-endian, the rest is zero. */
enum {
    AT_KIND = 0,
    AT_FLAGS = 1,
    AT_PATH_LEN = 2,
    AT_MODE = 4,
    AT_UID = 8,
    AT_GID = 12,
    AT_MTIME = 16,
    AT_SIZE = 24,
    AT_GROUP = 32,
    AT_XATTRS_LEN = 40,
    AT_TARGET_LEN = 44,
    AT_ZERO = 46,
};

static void put(char *bytes, size_t at, size_t len, uint64_t value)
{
    for (size_t i = 0; i < len; i++)
        bytes[at + i] = (char)(value >> (8 * i));
}

static uint64_t get(const char *bytes, size_t at, size_t len)
{
    uint64_t value = 0;

    for (size_t i = 0; i < len; i++)
        value |= (uint64_t)(uint8_t)bytes[at + i] << (8 * i);
    return value;
}

int tree_path_order(struct str a, struct str b)
{
    size_t common = a.len < b.len ? a.len : b.len;

    for (size_t i = 0; i < common; i++) {
        /* A slash ends a part, so it comes before every byte that goes on with it. */
        unsigned left = a.ptr[i] == '/' ? 0 : (uint8_t)a.ptr[i];
        unsigned right = b.ptr[i] == '/' ? 0 : (uint8_t)b.ptr[i];
        if (left != right)
            return left < right ? -1 : 1;
    }
    return (a.len > b.len) - (a.len < b.len);
}

static bool path_is_fine(struct str path)
{
    struct str rest = path, part;
    size_t depth = 0;

    if (path.len == 0 || path.len >= TREE_PATH_MAX || memchr(path.ptr, 0, path.len))
        return false;
    while (str_split(&rest, '/', &part)) {
        if (part.len == 0 || part.len > TREE_NAME_MAX || ++depth > TREE_DEPTH_MAX ||
            str_equal(part, STR(".")) || str_equal(part, STR("..")))
            return false;
    }
    return true;
}

static bool xattr_name_is_fine(struct str name)
{
    return name.len <= TREE_NAME_MAX && (!name.len || !memchr(name.ptr, 0, name.len)) &&
           ((name.len > 5 && memcmp(name.ptr, "user.", 5) == 0) ||
            str_equal(name, STR("security.capability")));
}

/* u16 length of the name, u32 length of the value, name, value. */
bool tree_xattr_next(struct str *xattrs, struct str *name, struct str *value)
{
    if (xattrs->len < XATTR_HEAD)
        return false;
    size_t name_len = get(xattrs->ptr, 0, 2), value_len = get(xattrs->ptr, 2, 4);
    if (name_len + value_len > xattrs->len - XATTR_HEAD)
        return false;
    *name = (struct str){xattrs->ptr + XATTR_HEAD, name_len};
    *value = (struct str){name->ptr + name_len, value_len};
    xattrs->ptr += XATTR_HEAD + name_len + value_len;
    xattrs->len -= XATTR_HEAD + name_len + value_len;
    return true;
}

bool tree_xattr_append(struct buf *out, struct str name, struct str value, struct error *err)
{
    char head[XATTR_HEAD];

    if (!xattr_name_is_fine(name) || value.len > TREE_XATTRS_MAX)
        return error_set(err, ERR_INVALID, "an attribute that no tree holds");
    put(head, 0, 2, name.len);
    put(head, 2, 4, value.len);
    return buf_append(out, (struct str){head, sizeof head}, err) && buf_append(out, name, err) &&
           (value.len == 0 || buf_append(out, value, err));
}

static bool xattrs_are_fine(struct str xattrs)
{
    struct str last = {0}, name, value;

    if (xattrs.len > TREE_XATTRS_MAX)
        return false;
    while (xattrs.len) {
        if (!tree_xattr_next(&xattrs, &name, &value) || !xattr_name_is_fine(name) ||
            (last.len && tree_path_order(last, name) >= 0))
            return false;
        last = name;
    }
    return true;
}

/* What an entry of its kind may not have. */
static const char *fault_of(const struct tree_entry *entry)
{
    bool is_file = entry->kind == TREE_FILE, is_link = entry->kind == TREE_SYMLINK;
    bool has_facts = entry->mode || entry->uid || entry->gid || entry->mtime_ns || entry->is_cover;
    bool is_more_than_same = has_facts || entry->size || entry->target.len || entry->xattrs.len ||
                             entry->is_opaque || entry->kind == TREE_WHITEOUT;

    if (entry->kind < TREE_FILE || entry->kind > TREE_WHITEOUT)
        return "is of no kind";
    if (!path_is_fine(entry->path))
        return "has a path that no tree holds";
    if (entry->is_same && is_more_than_same)
        return "is the same and still has facts";
    if (entry->mode & ~07777u)
        return "has a mode that is none";
    if (!is_file && (entry->size || entry->link_group || entry->is_linked))
        return "has contents without being a file";
    if (entry->is_linked && (!entry->link_group || entry->size))
        return "is linked to nothing";
    if ((is_link && !entry->is_same) != (entry->target.len > 0) ||
        entry->target.len >= TREE_TARGET_MAX ||
        (entry->target.len && memchr(entry->target.ptr, 0, entry->target.len)))
        return "has a target that is none";
    if (entry->is_opaque && entry->kind != TREE_DIRECTORY)
        return "hides something without being a directory";
    if (entry->kind == TREE_WHITEOUT && (has_facts || entry->xattrs.len))
        return "is gone and still has facts";
    return xattrs_are_fine(entry->xattrs) ? NULL : "has attributes that no tree holds";
}

static bool check_entry(const struct tree_entry *entry, struct error *err)
{
    const char *fault = fault_of(entry);
    int shown = entry->path.len < 100 ? (int)entry->path.len : 100;

    return !fault || error_set(err, ERR_INVALID, "%.*s %s", shown,
                               entry->path.ptr ? entry->path.ptr : "", fault);
}

bool tree_encode_start(struct buf *out, struct error *err)
{
    return buf_append(out, (struct str){magic, TREE_MAGIC_LEN}, err);
}

bool tree_encode_start_difference(struct buf *out, struct error *err)
{
    return buf_append(out, (struct str){magic_difference, TREE_MAGIC_LEN}, err);
}

bool tree_encode_entry(struct buf *out, const struct tree_entry *entry, struct error *err)
{
    char head[TREE_HEADER_LEN] = {0};

    if (!check_entry(entry, err))
        return false;
    unsigned flags = (entry->is_opaque ? FLAG_OPAQUE : 0u) | (entry->is_linked ? FLAG_LINKED : 0u) |
                     (entry->is_cover ? FLAG_COVER : 0u) | (entry->is_same ? FLAG_SAME : 0u);
    put(head, AT_KIND, 1, entry->kind);
    put(head, AT_FLAGS, 1, flags);
    put(head, AT_PATH_LEN, 2, entry->path.len);
    put(head, AT_MODE, 4, entry->mode);
    put(head, AT_UID, 4, entry->uid);
    put(head, AT_GID, 4, entry->gid);
    put(head, AT_MTIME, 8, (uint64_t)entry->mtime_ns);
    put(head, AT_SIZE, 8, entry->size);
    put(head, AT_GROUP, 8, entry->link_group);
    put(head, AT_XATTRS_LEN, 4, entry->xattrs.len);
    put(head, AT_TARGET_LEN, 2, entry->target.len);
    return buf_append(out, (struct str){head, sizeof head}, err) &&
           buf_append(out, entry->path, err) &&
           (!entry->target.len || buf_append(out, entry->target, err)) &&
           (!entry->xattrs.len || buf_append(out, entry->xattrs, err));
}

bool tree_encode_finish(struct buf *out, struct error *err)
{
    char head[TREE_HEADER_LEN] = {KIND_END};

    return buf_append(out, (struct str){head, sizeof head}, err);
}

void tree_decoder_init(struct tree_decoder *decoder, tree_on_entry *on_entry,
                       tree_on_bytes *on_bytes, void *arg)
{
    *decoder = (struct tree_decoder){
        .on_entry = on_entry,
        .on_bytes = on_bytes,
        .arg = arg,
        .pending = {.max = TREE_HEADER_LEN + TREE_PATH_MAX + TREE_TARGET_MAX + TREE_XATTRS_MAX},
        .last = {.max = TREE_PATH_MAX},
    };
}

void tree_decoder_finish(struct tree_decoder *decoder)
{
    buf_finish(&decoder->pending);
    buf_finish(&decoder->last);
}

/* Moves bytes to `pending` until it holds `wanted`; false while it does not. */
static bool gather(struct tree_decoder *decoder, struct str *bytes, size_t wanted, bool *is_there,
                   struct error *err)
{
    size_t missing = wanted - decoder->pending.len;
    struct str taken = {bytes->ptr, bytes->len < missing ? bytes->len : missing};

    if (taken.len && !buf_append(&decoder->pending, taken, err))
        return false;
    bytes->ptr += taken.len;
    bytes->len -= taken.len;
    *is_there = taken.len == missing;
    return true;
}

/* The parent is the root or on the way to where the last entry was. */
static bool has_parent(const struct tree_decoder *decoder, struct str path)
{
    const char *slash = memrchr(path.ptr, '/', path.len);
    size_t len = slash ? (size_t)(slash - path.ptr) : 0;

    if (!slash)
        return true;
    return len <= decoder->folder_len && memcmp(path.ptr, decoder->last.bytes, len) == 0 &&
           (len == decoder->folder_len || decoder->last.bytes[len] == '/');
}

static bool check_place(struct tree_decoder *decoder, const struct tree_entry *entry,
                        struct error *err)
{
    int shown = entry->path.len < 100 ? (int)entry->path.len : 100;
    struct str last = buf_str(&decoder->last);

    if (last.len && tree_path_order(last, entry->path) >= 0)
        return error_set(err, ERR_INVALID, "%.*s is out of order", shown, entry->path.ptr);
    if (!has_parent(decoder, entry->path))
        return error_set(err, ERR_INVALID, "%.*s is in no directory", shown, entry->path.ptr);
    if (++decoder->n_entries > TREE_ENTRIES_MAX)
        return error_set(err, ERR_TOO_LARGE, "a tree holds at most %d entries", TREE_ENTRIES_MAX);
    if (entry->size > TREE_BYTES_MAX - decoder->n_bytes)
        return error_set(err, ERR_TOO_LARGE, "a tree holds at most 64 GiB");
    decoder->n_bytes += entry->size;

    /* Groups are numbered as they first appear. */
    bool is_new = entry->link_group && !entry->is_linked;
    if (entry->link_group > decoder->n_groups + is_new ||
        (is_new && entry->link_group <= decoder->n_groups))
        return error_set(err, ERR_INVALID, "%.*s is linked to nothing", shown, entry->path.ptr);
    decoder->n_groups += is_new;
    return true;
}

static bool note_place(struct tree_decoder *decoder, const struct tree_entry *entry,
                       struct error *err)
{
    const char *slash = memrchr(entry->path.ptr, '/', entry->path.len);

    decoder->last.len = 0;
    bool is_open = entry->kind == TREE_DIRECTORY && !entry->is_same;
    decoder->folder_len = is_open ? entry->path.len : slash ? (size_t)(slash - entry->path.ptr) : 0;
    return buf_append(&decoder->last, entry->path, err);
}

static bool take_entry(struct tree_decoder *decoder, struct error *err)
{
    const char *head = decoder->pending.bytes;
    unsigned flags = (uint8_t)head[AT_FLAGS];
    size_t path_len = get(head, AT_PATH_LEN, 2), target_len = get(head, AT_TARGET_LEN, 2);
    const struct tree_entry entry = {
        .kind = (enum tree_kind)(uint8_t)head[AT_KIND],
        .path = {head + TREE_HEADER_LEN, path_len},
        .target = {head + TREE_HEADER_LEN + path_len, target_len},
        .xattrs = {head + TREE_HEADER_LEN + path_len + target_len, get(head, AT_XATTRS_LEN, 4)},
        .mode = (uint32_t)get(head, AT_MODE, 4),
        .uid = (uint32_t)get(head, AT_UID, 4),
        .gid = (uint32_t)get(head, AT_GID, 4),
        .mtime_ns = (int64_t)get(head, AT_MTIME, 8),
        .size = get(head, AT_SIZE, 8),
        .link_group = get(head, AT_GROUP, 8),
        .is_opaque = flags & FLAG_OPAQUE,
        .is_linked = flags & FLAG_LINKED,
        .is_cover = flags & FLAG_COVER,
        .is_same = flags & FLAG_SAME,
    };
    unsigned known =
        FLAG_OPAQUE | FLAG_LINKED | FLAG_COVER | (decoder->is_difference ? FLAG_SAME : 0u);

    if (flags & ~known || get(head, AT_ZERO, 2))
        return error_set(err, ERR_INVALID, "an entry of a tree says what nobody knows");
    if (!check_entry(&entry, err) || !check_place(decoder, &entry, err) ||
        !note_place(decoder, &entry, err) || !decoder->on_entry(decoder->arg, &entry, err))
        return false;
    decoder->contents = entry.size;
    if (entry.kind == TREE_FILE && !entry.is_linked && !entry.is_same && entry.size == 0)
        return decoder->on_bytes(decoder->arg, STR(""), true, err);
    return true;
}

/* The lengths are judged as soon as the header is there. */
static bool entry_len(const char *head, size_t *len, struct error *err)
{
    size_t path = get(head, AT_PATH_LEN, 2), target = get(head, AT_TARGET_LEN, 2);
    size_t xattrs = get(head, AT_XATTRS_LEN, 4);

    if (path >= TREE_PATH_MAX || target >= TREE_TARGET_MAX || xattrs > TREE_XATTRS_MAX)
        return error_set(err, ERR_TOO_LARGE, "an entry of a tree is too long");
    *len = TREE_HEADER_LEN + path + target + xattrs;
    return true;
}

static bool take_end(struct tree_decoder *decoder, struct error *err)
{
    for (size_t i = 0; i < TREE_HEADER_LEN; i++) {
        if (decoder->pending.bytes[i])
            return error_set(err, ERR_INVALID, "an entry of a tree is of no kind");
    }
    decoder->is_complete = true;
    return true;
}

static bool take_head(struct tree_decoder *decoder, struct str *bytes, struct error *err)
{
    size_t len = 0;
    bool is_there;

    if (decoder->pending.len < TREE_HEADER_LEN) {
        if (!gather(decoder, bytes, TREE_HEADER_LEN, &is_there, err))
            return false;
        if (!is_there)
            return true;
        if (decoder->pending.bytes[AT_KIND] == KIND_END)
            return take_end(decoder, err);
    }
    if (!entry_len(decoder->pending.bytes, &len, err) ||
        !gather(decoder, bytes, len, &is_there, err))
        return false;
    if (!is_there)
        return true;
    bool is_fine = take_entry(decoder, err);
    decoder->pending.len = 0;
    return is_fine;
}

static bool take_contents(struct tree_decoder *decoder, struct str *bytes, struct error *err)
{
    size_t len = bytes->len < decoder->contents ? bytes->len : (size_t)decoder->contents;
    struct str piece = {bytes->ptr, len};

    bytes->ptr += len;
    bytes->len -= len;
    decoder->contents -= len;
    return decoder->on_bytes(decoder->arg, piece, decoder->contents == 0, err);
}

static bool take_magic(struct tree_decoder *decoder, struct str *bytes, struct error *err)
{
    bool is_there;

    if (!gather(decoder, bytes, TREE_MAGIC_LEN, &is_there, err))
        return false;
    if (!is_there)
        return true;
    decoder->is_difference = decoder->takes_differences &&
                             memcmp(decoder->pending.bytes, magic_difference, TREE_MAGIC_LEN) == 0;
    decoder->has_magic =
        decoder->is_difference || memcmp(decoder->pending.bytes, magic, TREE_MAGIC_LEN) == 0;
    decoder->pending.len = 0;
    return decoder->has_magic || error_set(err, ERR_INVALID, "this is no tree");
}

static bool take_some(struct tree_decoder *decoder, struct str *bytes, struct error *err)
{
    if (decoder->is_complete)
        return error_set(err, ERR_INVALID, "bytes after the end of a tree");
    if (!decoder->has_magic)
        return take_magic(decoder, bytes, err);
    if (decoder->contents)
        return take_contents(decoder, bytes, err);
    return take_head(decoder, bytes, err);
}

bool tree_decode(struct tree_decoder *decoder, struct str bytes, struct error *err)
{
    if (decoder->has_failed)
        return error_set(err, ERR_INVALID, "the tree was refused before");
    while (bytes.len) {
        if (!take_some(decoder, &bytes, err)) {
            decoder->has_failed = true;
            return false;
        }
    }
    return true;
}

bool tree_decode_end(const struct tree_decoder *decoder, struct error *err)
{
    return (decoder->is_complete && !decoder->has_failed) ||
           error_set(err, ERR_INVALID, "the tree ended too early");
}
