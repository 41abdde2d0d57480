/* A journal that is believed must say the same when it is cut at its last whole line, and a
 * journal that is believed stays believable however it is torn. */
#include "engine/journal.h"

#include <stdlib.h>

#include "base/own.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct journal_list whole;
    struct journal_list part;
    struct str text = {(const char *)data, size};
    struct error err = {0};

    if (!journal_parse(text, &whole, &err))
        return 0;
    if (whole.good_bytes > size || whole.torn != (whole.good_bytes < size))
        abort();
    if (!journal_parse((struct str){text.ptr, whole.good_bytes}, &part, &err) || part.torn ||
        part.n != whole.n || part.next_seq != whole.next_seq)
        abort();
    if (size > 0 && !journal_parse((struct str){text.ptr, size - 1}, &part, &err))
        abort();
    return 0;
}
