#include "server/preview_head.h"

#include <stdlib.h>

#include "base/own.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

static bool has(const struct buf *out, const char *text)
{
    return memmem(out->bytes, out->len, text, strlen(text));
}

/* Whatever a program answers, a browser gets one head, and it ends where it ends. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    const struct preview_side side = {.prefix = "/w/one/3000",
                                      .port = 3000,
                                      .accept = "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="};
    AUTO(buf_finish) struct buf out = {.max = MIB(1)};
    struct preview_answer answer;
    struct error err;

    if (!preview_answer_head((struct str){(const char *)data, len}, &side, &out, &answer, &err) ||
        (answer.status < 200 && answer.status != 101))
        return 0;
    const char *end = memmem(out.bytes, out.len, "\r\n\r\n", 4);
    if (end != out.bytes + out.len - 4 || has(&out, "Service-Worker-Allowed:") ||
        has(&out, "Set-Cookie: helmr_"))
        abort();
    return 0;
}
