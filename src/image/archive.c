/* Project sources and bundles: archive_unpack and archive_pack of image/image.h. */
#include <fcntl.h>

#include "base/file.h"
#include "base/own.h"
#include "image/archive.h"
#include "image/extract.h"
#include "image/layer.h"

bool archive_extract(int fd, enum tar_coding coding, const char *folder, struct tar_budget budget,
                     struct error *err)
{
    TAR_UTF8_SCOPE;
    AUTO(tar_reader_finish) struct tar_reader reader = {0};
    char blob[DIGEST_TEXT], diff[DIGEST_TEXT];

    if (!directory_make(folder, 0755, err))
        return false;
    AUTO_FD int root = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (root < 0)
        return error_errno(err, "open %s", folder);
    struct extract_spec spec = {EXTRACT_PROJECT, root, NULL, &budget};
    return tar_reader_open(&reader, fd, coding, budget.bytes + budget.entries * 2048, err) &&
           extract_archive(&spec, &reader, err) && tar_reader_end(&reader, blob, diff, err);
}

bool archive_unpack(int tar_fd, const char *folder, int64_t max_bytes, int64_t max_entries,
                    struct error *err)
{
    return archive_extract(tar_fd, TAR_ONLY, folder, (struct tar_budget){max_bytes, max_entries},
                           err);
}

bool archive_pack(const char *folder, int tar_fd, struct error *err)
{
    AUTO(layer_writer_finish) struct layer_writer writer = {0};
    AUTO_FD int root = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    struct image_layer unused;

    if (root < 0)
        return error_errno(err, "open %s", folder);
    return layer_writer_init(&writer, tar_fd, false, err) &&
           layer_write_tree(&writer, root, LAYER_OF_PROJECT, 0, err) &&
           layer_writer_end(&writer, &unused, err);
}
