/* Any body of any message: what is accepted encodes to bytes that decode to the same again,
 * and everything it borrows lies inside the body. */
#include <assert.h>

#include "base/own.h"
#include "protocol/message.h"

static bool lies_inside(struct str piece, struct str body)
{
    return !piece.ptr || (piece.ptr >= body.ptr && piece.ptr + piece.len <= body.ptr + body.len);
}

static void check_borrowed(const struct message_info *info, const struct message *message,
                           struct str body)
{
    for (size_t i = 0; i < info->n_fields; i++) {
        const struct message_field *field = &info->fields[i];
        const void *slot = (const char *)&message->hello + field->offset;
        if (field->kind == FIELD_BYTES || field->kind == FIELD_TEXT)
            assert(lies_inside(*(const struct str *)slot, body));
        if (field->kind != FIELD_LIST)
            continue;
        const struct str_list *list = slot;
        assert(list->n <= field->max_items);
        for (size_t j = 0; j < list->n; j++)
            assert(lies_inside(list->items[j], body));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    AUTO(arena_finish) struct arena arena = {0};
    AUTO(buf_finish) struct buf once = {.max = (size_t)2 * MESSAGE_BODY_MAX};
    AUTO(buf_finish) struct buf twice = {.max = (size_t)2 * MESSAGE_BODY_MAX};
    struct message message, again;
    struct error err;

    if (size < 1 || !message_info(data[0]))
        return 0;
    const struct message_info *info = message_info(data[0]);
    struct str body = {(const char *)data + 1, size - 1};
    if (!message_decode(info->type, body, &arena, &message.hello, &err))
        return 0;
    check_borrowed(info, &message, body);
    assert(message_encode(info->type, &message.hello, &once, &err));
    assert(message_decode(info->type, buf_str(&once), &arena, &again.hello, &err));
    assert(message_encode(info->type, &again.hello, &twice, &err));
    assert(str_equal(buf_str(&once), buf_str(&twice)));
    return 0;
}
