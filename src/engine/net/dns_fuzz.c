/* The first two bytes say how much of the input is the question; the rest is the answer from above.
 * No answer of ours ever holds an address that is blocked, and ours can be read again. */
#include "engine/net/dns.h"

#include <stdlib.h>

#include "base/own.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Every address is blocked, so none may come through. */
static bool blocks(const void *arg, uint32_t address)
{
    (void)arg, (void)address;
    return true;
}

static void check_filter(const struct dns_question *question, struct str upstream)
{
    AUTO(buf_finish) struct buf out = {.max = DNS_MESSAGE_MAX};
    struct dns_filter filter = {.blocks = blocks};
    uint16_t id =
        upstream.len < 2 ? 0 : (uint16_t)((uint8_t)upstream.ptr[0] << 8 | (uint8_t)upstream.ptr[1]);

    if (dns_answer_filter(upstream, question, id, &filter, question->room, &out) != DNS_ANSWERED)
        return;
    if (out.len < DNS_HEADER_LEN || out.len > question->room)
        abort();
    if (question->type == DNS_A && (uint8_t)out.bytes[7] > 16)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct dns_question question, again;
    AUTO(buf_finish) struct buf query = {.max = DNS_QUERY_MAX};
    struct error err = {0};

    if (size < 2)
        return 0;
    size_t cut = (size_t)data[0] << 8 | data[1];
    if (cut > size - 2)
        cut = size - 2;
    if (dns_question_parse((struct str){(const char *)data + 2, cut}, &question) != DNS_OK)
        return 0;

    /* What we ask above is a question we would let through ourselves, for the same name. */
    if (!dns_query_write(&question, 1, &query, &err) ||
        dns_question_parse(buf_str(&query), &again) != DNS_OK ||
        again.name.len != question.name.len || again.type != question.type)
        abort();
    check_filter(&question, (struct str){(const char *)data + 2 + cut, size - 2 - cut});
    return 0;
}
