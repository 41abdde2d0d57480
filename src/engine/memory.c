/* Folders in memory, for what must be on no disk, and the images that are kept in them. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include "base/own.h"
#include "engine/engine.h"
#include "engine/host_state.h"
#include "engine/spaces.h"

enum { STAT_BLOCK = 512, OVERHEAD_DIVISOR = 8, SPARE = 64 << 20 };

bool memory_folder_make(int64_t max_bytes, int *folder, struct error *err)
{
    char size[32];

    snprintf(size, sizeof size, "%lld", (long long)max_bytes);
    return spaces_memory(size, folder, err);
}

bool saved_image_make(const struct engine *engine, int64_t max_bytes, struct saved_image *image,
                      struct error *err)
{
    struct saved_image made = {.memory = -1, .scratch = -1, .form = engine->form};

    if (!memory_folder_make(max_bytes, &made.folder, err))
        return false;
    *image = made;
    return true;
}

bool saved_image_add_scratch(struct engine_host *host, struct saved_image *image, struct error *err)
{
    image->scratch = open(host->work_dir, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    return image->scratch >= 0 || errno == EOPNOTSUPP ||
           error_errno(err, "make a file in %s", host->work_dir);
}

/* Pieces that are only stored are a little longer than their bytes. */
int64_t saved_image_room(const struct sandbox_spec *spec)
{
    int64_t disk = spec->disk_mib << 20;
    int64_t bytes = (spec->memory_mib << 20) +
                    (disk > spec->drives.scratch_bytes ? disk : spec->drives.scratch_bytes);

    return bytes + bytes / OVERHEAD_DIVISOR + SPARE;
}

void saved_image_finish(struct saved_image *image)
{
    auto_close(&image->folder);
    auto_close(&image->memory);
    auto_close(&image->scratch);
    *image = (struct saved_image)SAVED_IMAGE_NONE;
}

bool saved_image_size(const struct saved_image *image, int64_t *bytes, struct error *err)
{
    struct stat memory = {0};
    struct statfs folder;

    if (fstatfs(image->folder, &folder) != 0 ||
        (image->memory >= 0 && fstat(image->memory, &memory) != 0))
        return error_errno(err, "see how large a saved image is");
    *bytes = (int64_t)(folder.f_blocks - folder.f_bfree) * folder.f_bsize +
             memory.st_blocks * STAT_BLOCK;
    return true;
}
