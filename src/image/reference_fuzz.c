/* Any text: no crash, and what is accepted has a canonical form that means itself. */
#include <assert.h>
#include <stdint.h>

#include "image/reference.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct reference first, second;
    char text[REFERENCE_TEXT], again[REFERENCE_TEXT];
    struct error err;

    if (!reference_parse((struct str){(const char *)data, size}, &first, &err))
        return 0;
    reference_format(&first, text);
    assert(reference_parse(str_of(text), &second, &err));
    reference_format(&second, again);
    assert(strcmp(text, again) == 0);
    return 0;
}
