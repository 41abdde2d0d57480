#include "http/sse_reader.h"

enum { SSE_NAME_MAX = 256 };

void sse_reader_init(struct sse_reader *reader,
                     bool (*on_event)(void *arg, const struct sse_event *event), void *arg)
{
    *reader = (struct sse_reader){
        .on_event = on_event,
        .arg = arg,
        .line.max = SSE_LINE_MAX,
        .data.max = SSE_LINE_MAX,
        .name.max = SSE_NAME_MAX,
        .id.max = SSE_NAME_MAX,
    };
}

void sse_reader_finish(struct sse_reader *reader)
{
    buf_finish(&reader->line);
    buf_finish(&reader->data);
    buf_finish(&reader->name);
    buf_finish(&reader->id);
}

static bool replace(struct buf *buf, struct str value, struct error *err)
{
    buf->len = 0;
    return buf_append(buf, value, err);
}

static bool add_data(struct sse_reader *reader, struct str value, struct error *err)
{
    if (reader->has_data && !buf_append(&reader->data, STR("\n"), err))
        return false;
    reader->has_data = true;
    return buf_append(&reader->data, value, err);
}

/* An event without data is none, though its id stays. */
static void dispatch(struct sse_reader *reader)
{
    struct sse_event event = {
        .id = buf_str(&reader->id),
        .name = reader->name.len > 0 ? buf_str(&reader->name) : STR("message"),
        .data = buf_str(&reader->data),
    };

    if (reader->has_data && !reader->on_event(reader->arg, &event))
        reader->is_over = true;
    reader->has_data = false;
    reader->data.len = 0;
    reader->name.len = 0;
}

static bool take_line(struct sse_reader *reader, struct error *err)
{
    struct str value = buf_str(&reader->line), field = {0};

    if (value.len == 0) {
        dispatch(reader);
        return true;
    }
    str_split(&value, ':', &field);
    if (value.len > 0 && value.ptr[0] == ' ')
        value = (struct str){value.ptr + 1, value.len - 1};
    if (str_equal(field, STR("data")))
        return add_data(reader, value, err);
    if (str_equal(field, STR("event")))
        return replace(&reader->name, value, err);
    if (str_equal(field, STR("id")) && (value.len == 0 || !memchr(value.ptr, '\0', value.len)))
        return replace(&reader->id, value, err);
    return true;
}

static size_t line_end(struct str bytes)
{
    for (size_t i = 0; i < bytes.len; i++)
        if (bytes.ptr[i] == '\n' || bytes.ptr[i] == '\r')
            return i;
    return bytes.len;
}

/* A line ends in LF, CR or CRLF; the LF of a CRLF may come with the next bytes. */
bool sse_reader_push(struct sse_reader *reader, struct str bytes, struct error *err)
{
    while (bytes.len > 0 && !reader->is_over) {
        if (reader->after_return && bytes.ptr[0] == '\n')
            bytes = (struct str){bytes.ptr + 1, bytes.len - 1};
        reader->after_return = false;

        size_t len = line_end(bytes);

        if (!buf_append(&reader->line, (struct str){bytes.ptr, len}, err))
            return false;
        if (len == bytes.len)
            break;
        reader->after_return = bytes.ptr[len] == '\r';
        bytes = (struct str){bytes.ptr + len + 1, bytes.len - len - 1};
        if (!take_line(reader, err))
            return false;
        reader->line.len = 0;
    }
    return true;
}
