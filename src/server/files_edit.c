/* PUT files/content, DELETE files, POST files/move and files/directory, PUT files/archive. */
#include <unistd.h>

#include "base/own.h"
#include "base/time.h"
#include "server/files.h"
#include "server/files_write.h"
#include "server/handlers.h"
#include "server/page.h"

enum {
    FILE_MODE = 0644,
    FOLDER_MODE = 0755,
    MODE_MAX = 07777,
    NS_PER_MS = 1000000,
    PIECE = 1 << 18
};

static bool begin_change(struct call *call, files_apply *apply, void *arg,
                         struct files_change *change, struct error *err)
{
    *change = (struct files_change){.apply = apply, .arg = arg};
    if (call_id(call, 0, change->workspace_id, err))
        return true;
    err->code = ERR_WORKSPACE_NOT_FOUND;
    return false;
}

/* A path that names something in the workspace. */
static bool read_path(struct call *call, bool may_be_root, struct str *path, struct error *err)
{
    struct str raw = {0};
    bool found;

    return call_query(call, "path", &raw, &found, err) && files_path(raw, call->arena, path, err) &&
           (may_be_root || path->len > 0 || error_set(err, ERR_INVALID, "path names no file"));
}

static bool answer_version(const struct files_change *change, struct response *res,
                           struct error *err)
{
    struct json_writer json = json_begin(response_body(res));

    if (change->is_parked)
        return true;
    json_open(&json, NULL);
    json_string(&json, "version_id", *change->version_id ? change->version_id : NULL);
    json_close(&json);
    response_json(res, 200);
    return json_end(&json, err);
}

static bool make_and_answer(struct call *call, struct files_change *change, struct response *res,
                            struct error *err)
{
    return files_change_make(call, change, res, err) && answer_version(change, res, err);
}

struct content {
    int fd;
    uint64_t len;
    struct tree_entry entry;
    int how;
    struct node_entry made; /* what it became; nothing in it is borrowed but the path */
};

static bool apply_content(struct tree_edit *edit, void *arg, struct error *err)
{
    struct content *content = arg;
    AUTO_FREE char *piece = alloc(PIECE);
    const struct node_entry *made;
    uint64_t at = 0;

    if (!tree_edit_put(edit, &content->entry, content->how, err))
        return false;
    do {
        uint64_t left = content->len - at;
        size_t want = left < PIECE ? (size_t)left : PIECE;
        ssize_t got = want ? pread(content->fd, piece, want, (off_t)at) : 0;

        if (got < 0 || (want > 0 && got == 0))
            return error_errno(err, "read the upload");
        at += (uint64_t)got;
        if (!tree_edit_bytes(edit, (struct str){piece, (size_t)got}, at == content->len, err))
            return false;
    } while (at < content->len);
    if (!tree_edit_find(edit, content->entry.path, &made, err))
        return false;
    content->made = (struct node_entry){.kind = TREE_FILE,
                                        .size = made->size,
                                        .mode = made->mode,
                                        .mtime_ns = made->mtime_ns};
    return true;
}

/* Octal, as people write modes: 644, 0755. */
static bool read_mode(struct call *call, uint32_t *mode, bool *found, struct error *err)
{
    struct str text = {0};
    uint32_t value = 0;

    if (!call_query(call, "mode", &text, found, err) || !*found)
        return !*found;
    bool is_fine = text.len > 0 && text.len <= 5;
    for (size_t i = 0; i < text.len && is_fine; i++) {
        is_fine = text.ptr[i] >= '0' && text.ptr[i] <= '7';
        value = value * 8 + (uint32_t)(text.ptr[i] - '0');
    }
    *mode = value;
    return (is_fine && value <= MODE_MAX) ||
           error_set(err, ERR_INVALID, "mode is octal, as in 0644, and at most 7777");
}

static bool answer_content(const struct content *content, const struct files_change *change,
                           struct response *res, struct error *err)
{
    struct json_writer json = json_begin(response_body(res));

    if (change->is_parked)
        return true;
    json_open(&json, NULL);
    files_write_entry(&json, "entry", content->entry.path, &content->made);
    json_string(&json, "version_id", change->version_id);
    json_close(&json);
    response_json(res, 200);
    return json_end(&json, err);
}

bool files_content_put(struct call *call, struct response *res, struct error *err)
{
    struct content content = {
        .fd = call->upload_fd,
        .len = call->upload_len,
        .entry = {.kind = TREE_FILE, .mode = FILE_MODE, .mtime_ns = time_now_ms() * NS_PER_MS},
        .how = EDIT_OWNER_OF_PLACE,
    };
    struct files_change change;
    bool has_mode;

    if (!begin_change(call, apply_content, &content, &change, err) ||
        !read_path(call, false, &content.entry.path, err) ||
        !read_mode(call, &content.entry.mode, &has_mode, err))
        return false;
    content.how |= has_mode ? 0 : EDIT_MODE_OF_PLACE;
    return files_change_make(call, &change, res, err) &&
           answer_content(&content, &change, res, err);
}

struct removal {
    struct str path;
    bool is_recursive;
};

static bool apply_removal(struct tree_edit *edit, void *arg, struct error *err)
{
    const struct removal *removal = arg;

    return tree_edit_remove(edit, removal->path, removal->is_recursive, err);
}

bool files_delete(struct call *call, struct response *res, struct error *err)
{
    struct removal removal;
    struct files_change change;

    return begin_change(call, apply_removal, &removal, &change, err) &&
           read_path(call, false, &removal.path, err) &&
           files_flag_read(call, "recursive", &removal.is_recursive, err) &&
           make_and_answer(call, &change, res, err);
}

struct move {
    struct str from, to;
};

static const struct json_field move_fields[] = {
    {"from", JSON_TEXT, offsetof(struct move, from), REQUIRED, .max = TREE_PATH_MAX},
    {"to", JSON_TEXT, offsetof(struct move, to), REQUIRED, .max = TREE_PATH_MAX},
    {0},
};

static bool apply_move(struct tree_edit *edit, void *arg, struct error *err)
{
    const struct move *move = arg;

    return tree_edit_move(edit, move->from, move->to, err);
}

bool files_move_post(struct call *call, struct response *res, struct error *err)
{
    struct files_change change;
    struct move move;

    if (!begin_change(call, apply_move, &move, &change, err) ||
        !call_body(call, move_fields, &move, sizeof move, err) ||
        !files_path(move.from, call->arena, &move.from, err) ||
        !files_path(move.to, call->arena, &move.to, err))
        return false;
    if (move.from.len == 0 || move.to.len == 0)
        return error_set(err, ERR_INVALID, "from and to name files in the workspace");
    return make_and_answer(call, &change, res, err);
}

struct directory {
    struct str path;
    int64_t mode;
};

static const struct json_field directory_fields[] = {
    {"path", JSON_TEXT, offsetof(struct directory, path), REQUIRED, .max = TREE_PATH_MAX},
    {"mode", JSON_INTEGER, offsetof(struct directory, mode), OPTIONAL, .min = 0, .max = MODE_MAX},
    {0},
};

static bool apply_directory(struct tree_edit *edit, void *arg, struct error *err)
{
    const struct directory *directory = arg;
    const struct tree_entry entry = {
        .kind = TREE_DIRECTORY,
        .path = directory->path,
        .mode = directory->mode > 0 ? (uint32_t)directory->mode : FOLDER_MODE,
        .mtime_ns = time_now_ms() * NS_PER_MS,
    };
    const struct node_entry *there;

    if (!tree_edit_find(edit, directory->path, &there, err))
        return false;
    /* One that is there is left as it is, unless it is to have another mode. */
    if (there && there->kind == TREE_DIRECTORY &&
        (directory->mode == 0 || there->mode == entry.mode))
        return true;
    return tree_edit_put(edit, &entry, EDIT_OWNER_OF_PLACE, err);
}

bool files_directory_post(struct call *call, struct response *res, struct error *err)
{
    struct directory directory = {0};
    struct files_change change;

    return begin_change(call, apply_directory, &directory, &change, err) &&
           call_body(call, directory_fields, &directory, sizeof directory, err) &&
           files_path(directory.path, call->arena, &directory.path, err) &&
           (directory.path.len > 0 || error_set(err, ERR_INVALID, "path names no directory")) &&
           make_and_answer(call, &change, res, err);
}

static bool read_owners(struct call *call, bool *takes_place_owner, struct error *err)
{
    struct str text = {0};
    bool found;

    if (!call_query(call, "owners", &text, &found, err))
        return false;
    *takes_place_owner = found && str_equal(text, STR("inherit"));
    return !found || *takes_place_owner || str_equal(text, STR("keep")) ||
           error_set(err, ERR_INVALID, "owners is keep or inherit");
}

bool files_archive_put(struct call *call, struct response *res, struct error *err)
{
    struct files_upload upload = {
        .fd = call->upload_fd,
        .len = call->upload_len,
        .now_ns = time_now_ms() * NS_PER_MS,
    };
    struct files_change change;

    return begin_change(call, files_upload_apply, &upload, &change, err) &&
           read_path(call, true, &upload.path, err) &&
           read_owners(call, &upload.takes_place_owner, err) &&
           make_and_answer(call, &change, res, err);
}
