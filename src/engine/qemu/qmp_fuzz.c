/* Whatever a monitor says is one known thing or refused, and what it points to is text of ours. */
#include "engine/qemu/qmp.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    AUTO(arena_finish) struct arena arena = {0};
    struct qmp_message message;
    struct error err = {0};

    if (!qmp_parse((struct str){(const char *)data, size}, &arena, &message, &err)) {
        if (err.code == 0)
            abort();
        return 0;
    }
    if ((message.kind == QMP_RETURN) != (message.body.ptr != NULL) || message.text.len > 4096)
        abort();
    return 0;
}
