#include "engine/slot.h"

#include <limits.h>
#include <stdio.h>

#include "base/file.h"
#include "base/own.h"

bool slot_claim(const char *folder, int from, struct slot *slot, struct error *err)
{
    if (!directory_make(folder, 0755, err))
        return false;
    for (int number = from; number < SLOTS_MAX; number++) {
        char path[PATH_MAX];
        int fd;
        struct error taken = {0};

        snprintf(path, sizeof(path), "%s/%d", folder, number);
        if (file_lock(path, &fd, &taken)) {
            *slot = (struct slot){.number = number, .fd = fd};
            return true;
        }
        if (taken.code != ERR_CONFLICT) {
            *err = taken;
            return false;
        }
    }
    return error_set(err, ERR_UNAVAILABLE, "all %d slots of this host are taken", SLOTS_MAX);
}

void slot_free(struct slot *slot)
{
    auto_close(&slot->fd);
    slot->fd = -1;
}
