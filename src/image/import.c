/* image_import_directory: an image from a folder. */
#include <fcntl.h>

#include "base/own.h"
#include "image/config.h"
#include "image/import.h"
#include "image/reference.h"

bool import_folder(struct image_store *store, const char *folder, int64_t newest,
                   struct image_layer *layer, struct error *err)
{
    AUTO(store_layer_finish) struct store_layer writing = {0};
    AUTO_FD int root = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    if (root < 0)
        return error_errno(err, "open %s", folder);
    return store_layer_begin(store, &writing, err) &&
           layer_write_tree(&writing.writer, root, LAYER_OF_ROOT, newest, err) &&
           store_layer_commit(&writing, layer, err);
}

bool image_import_directory(struct image_store *store, const char *reference, const char *folder,
                            const struct image_config *config, char digest[DIGEST_TEXT],
                            struct error *err)
{
    AUTO(arena_finish) struct arena arena = {0};
    AUTO_FD int work = -1;
    struct image_document document = {.image.config.workdir = STR("/")};
    struct image_layer layer;
    struct reference parsed;
    char text[REFERENCE_TEXT];

    if (!reference_parse(str_of(reference), &parsed, err))
        return false;
    reference_format(&parsed, text);
    if (parsed.digest[0])
        return error_set(err, ERR_INVALID, "an image is imported under a tag, not under a digest");
    if (config)
        document.image.config = *config;
    if (!image_work(store, &work, err) || !import_folder(store, folder, 0, &layer, err))
        return error_wrap(err, "importing %s", folder);
    document_add(&document, &layer, "import of a directory", &arena);
    if (!document_publish(store, &document, text, err))
        return false;
    memcpy(digest, document.image.digest, DIGEST_TEXT);
    return true;
}
