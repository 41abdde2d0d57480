/* layer_apply of image/layer.h. */
#include <string.h>

#include "image/extract.h"
#include "image/layer.h"

static bool matches(const char *what, const char *got, const char *want, struct error *err)
{
    return strcmp(got, want) == 0 ||
           error_set(err, ERR_CONTENT_HASH, "a layer's %s is %s where %s was promised", what, got,
                     want);
}

bool layer_apply(const struct image_layer *layer, int blob, int folder, const struct view *below,
                 struct tar_budget *budget, struct error *err)
{
    TAR_UTF8_SCOPE;
    AUTO(tar_reader_finish) struct tar_reader reader = {0};
    struct extract_spec spec = {EXTRACT_LAYER, folder, below, budget};
    char digest[DIGEST_TEXT], diff[DIGEST_TEXT];

    /* Headers and padding come on top of the content that the budget counts. */
    int64_t most = budget->bytes + budget->entries * 2048;
    return tar_reader_open(&reader, blob, TAR_MAY_BE_COMPRESSED, most, err) &&
           extract_archive(&spec, &reader, err) && tar_reader_end(&reader, digest, diff, err) &&
           matches("digest", digest, layer->digest, err) &&
           matches("content", diff, layer->diff_id, err);
}
