/* What a build says while it works: steps and lines of text as events of the deployment. */
#include <string.h>

#include "protocol/message.h"
#include "worker/build.h"

enum {
    LINE_MAX_BYTES = 16 * 1024,
    OUTPUT_MAX = 8 * 1024 * 1024, /* of one program */
    TAIL_MAX = 16 * 1024,         /* of what is over: the end tells most */
};

static void emit(struct build *build, const char *kind, struct json_writer *writer,
                 struct buf *text)
{
    struct error err;

    json_close(writer);
    if (json_end(writer, &err))
        output_event(build->output, kind, buf_str(text));
}

void build_step_event(const struct build_part *part, const struct build_step *step)
{
    AUTO(buf_finish) struct buf body = {.max = KIB(64)};
    struct json_writer writer = json_begin(&body);

    json_open(&writer, NULL);
    json_string(&writer, "phase", part->build->phase);
    if (part->image)
        json_string(&writer, "image", part->image);
    if (step->text)
        json_string(&writer, "name", step->text);
    if (step->total > 0) {
        json_int(&writer, "index", step->index);
        json_int(&writer, "total", step->total);
    }
    if (step->total > 0 || step->cached)
        json_bool(&writer, "cached", step->cached);
    json_string(&writer, "status", step->status);
    if (step->ms >= 0)
        json_int(&writer, "ms", step->ms);
    emit(part->build, "deployment.build.step", &writer, &body);
}

/* Programs print bytes; events carry UTF-8. What is none becomes '?'. */
static void make_valid(char *bytes, size_t len)
{
    for (size_t i = 0; i < len;) {
        unsigned char c = (unsigned char)bytes[i];
        size_t n = c < 0x80 ? 1 : c >= 0xf0 ? 4 : c >= 0xe0 ? 3 : 2;

        if (i + n > len || !message_text_is_valid((struct str){bytes + i, n})) {
            bytes[i++] = '?';
            continue;
        }
        i += n;
    }
}

static void emit_text(const struct build_part *part, const char *stream, char *bytes, size_t len)
{
    AUTO(buf_finish) struct buf body = {.max = KIB(256)};
    struct json_writer writer = json_begin(&body);

    make_valid(bytes, len);
    json_open(&writer, NULL);
    json_string(&writer, "phase", part->build->phase);
    if (part->image)
        json_string(&writer, "name", part->image);
    json_string(&writer, "stream", stream);
    json_text(&writer, "text", (struct str){bytes, len});
    emit(part->build, "deployment.build.log", &writer, &body);
}

void build_note(const struct build_part *part, const char *text)
{
    char *bytes = arena_printf(part->arena, "%s\n", text);

    emit_text(part, "stderr", bytes, strlen(bytes));
}

static void flush_line(struct build_part *part)
{
    if (part->line_text.len > 0)
        emit_text(part, "stdout", part->line_text.bytes, part->line_text.len);
    buf_finish(&part->line_text);
    part->line_text.max = LINE_MAX_BYTES;
}

/* Whole lines together, however the program wrote them. */
static void take_lines(struct build_part *part, struct str bytes)
{
    struct error err;

    while (bytes.len > 0) {
        struct buf *text = &part->line_text;
        size_t room = text->max - text->len, n = bytes.len < room ? bytes.len : room;

        if (!buf_append(text, (struct str){bytes.ptr, n}, &err))
            return;
        bytes = (struct str){bytes.ptr + n, bytes.len - n};
        char *last = memrchr(text->bytes, '\n', text->len);
        size_t ready = last ? (size_t)(last - text->bytes) + 1 : 0;
        if (ready == 0 && text->len == text->max)
            ready = text->len;
        if (ready > 0) {
            emit_text(part, "stdout", text->bytes, ready);
            buf_consume(text, ready);
        }
    }
}

static void keep_tail(struct build_part *part, struct str bytes)
{
    struct error err;

    if (bytes.len > TAIL_MAX) {
        part->left_out += (int64_t)(bytes.len - TAIL_MAX);
        bytes = (struct str){bytes.ptr + bytes.len - TAIL_MAX, TAIL_MAX};
    }
    if (part->tail.len + bytes.len > TAIL_MAX) {
        size_t over = part->tail.len + bytes.len - TAIL_MAX;
        buf_consume(&part->tail, over);
        part->left_out += (int64_t)over;
    }
    if (bytes.len > 0 && !buf_append(&part->tail, bytes, &err))
        part->left_out += (int64_t)bytes.len;
}

static bool take_clean(void *arg, struct str bytes)
{
    struct build_part *part = arg;
    size_t room = (size_t)(OUTPUT_MAX - part->taken), n = bytes.len < room ? bytes.len : room;

    part->taken += (int64_t)n;
    take_lines(part, (struct str){bytes.ptr, n});
    keep_tail(part, (struct str){bytes.ptr + n, bytes.len - n});
    return true;
}

bool build_take_output(void *arg, enum guest_stream stream UNUSED, struct str bytes)
{
    struct build_part *part = arg;

    return redaction_feed(&part->redaction, bytes);
}

void build_flush_output(struct build_part *part)
{
    (void)redaction_end(&part->redaction);
    if (part->left_out > 0) {
        char note[96];
        int len = snprintf(note, sizeof note, "\n[%lld bytes of output are left out here]\n",
                           (long long)part->left_out);
        take_lines(part, (struct str){note, (size_t)len});
    }
    if (part->tail.len > 0)
        take_lines(part, buf_str(&part->tail));
    flush_line(part);
    part->tail.len = 0;
    part->taken = part->left_out = 0;
}

void build_part_init(struct build_part *part, struct build *build, struct arena *arena,
                     struct failure *failure, const char *image)
{
    *part = (struct build_part){
        .build = build,
        .arena = arena,
        .failure = failure,
        .image = image,
        .line_text = {.max = LINE_MAX_BYTES},
        .tail = {.max = TAIL_MAX},
    };
    redaction_init(&part->redaction, NULL, take_clean, part);
}

void build_part_finish(struct build_part *part)
{
    buf_finish(&part->line_text);
    buf_finish(&part->tail);
}
