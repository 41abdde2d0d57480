/* The web console: files that the build packed into the binary, and the pages of the application
 * that they are.
 *
 * Every page is the same document; the application in it looks at the address. Assets carry their
 * digest in their name and never change.
 */
#include <string.h>

#include "blob/bytes.h"
#include "server/caller.h"
#include "server/console_archive.h"
#include "server/handlers.h"
#include "server/headers.h"

enum { MAGIC_LEN = 8, HEAD_LEN = 12, ROW_LEN = 56, TAG_LEN = 16 };

struct web_file {
    struct str path, type, tag, raw, gzip;
};

static struct str slice(uint64_t at, uint64_t len)
{
    return (struct str){console_archive + at, len};
}

/* The build made the archive, so that its numbers are right is not asked again. */
static bool find(struct str path, struct web_file *file)
{
    if (console_archive_len < HEAD_LEN)
        return false;
    const uint8_t *row = (const uint8_t *)console_archive + HEAD_LEN;
    uint32_t n = get_u32((const uint8_t *)console_archive + MAGIC_LEN);
    uint64_t text = HEAD_LEN + (uint64_t)n * ROW_LEN;

    for (uint32_t i = 0; i < n; i++, row += ROW_LEN) {
        uint32_t path_len = get_u32(row), type_len = get_u32(row + 4);
        if (str_equal(path, slice(text, path_len))) {
            *file = (struct web_file){
                .path = slice(text, path_len),
                .type = slice(text + path_len, type_len),
                .tag = {(const char *)row + 8, TAG_LEN},
                .raw = slice(get_u64(row + 24), get_u64(row + 32)),
                .gzip = slice(get_u64(row + 40), get_u64(row + 48)),
            };
            return true;
        }
        text += path_len + type_len;
    }
    return false;
}

static bool takes_gzip(const struct call *call)
{
    struct str accepted = call_header(call, STR("accept-encoding"));
    return accepted.ptr && memmem(accepted.ptr, accepted.len, "gzip", 4);
}

static bool send(struct call *call, struct response *res, const struct web_file *file,
                 struct str cache, struct error *err)
{
    const char *tag = arena_printf(call->arena, "\"%.*s\"", (int)file->tag.len, file->tag.ptr);
    if (!response_header(res, "Cache-Control", cache, err) ||
        !response_header(res, "Vary", STR("Accept-Encoding"), err) ||
        !response_header(res, "ETag", str_of(tag), err))
        return false;
    if (str_equal(call_header(call, STR("if-none-match")), str_of(tag))) {
        response_empty(res, 304);
        return true;
    }
    bool is_small = takes_gzip(call);
    if (is_small && !response_header(res, "Content-Encoding", STR("gzip"), err))
        return false;
    if (!buf_append(response_body(res), is_small ? file->gzip : file->raw, err))
        return false;
    response_bytes(res, 200, arena_text(call->arena, file->type));
    return true;
}

bool console_asset(struct call *call, struct response *res, struct error *err)
{
    struct web_file file;
    if (!find(call->path, &file))
        return error_set(err, ERR_NOT_FOUND, "there is no such file");
    return send(call, res, &file, STR("public, max-age=31536000, immutable"), err);
}

bool console_page(struct call *call, struct response *res, struct error *err)
{
    struct caller caller;
    struct web_file file;
    if (!caller_find(call, &caller))
        return page_sign_in_first(call, res, err);
    if (!find(STR("/index.html"), &file))
        return error_set(err, ERR_NOT_FOUND,
                         "this server was built without the console: build it with `make build`");
    return headers_add_console(res, err) && send(call, res, &file, STR("no-cache"), err);
}
