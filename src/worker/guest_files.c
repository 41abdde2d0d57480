/* What a sandbox is made of: kept on this host as long as the guest lives. */
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/time.h"
#include "worker/guest_state.h"
#include "worker/worker.h"

static bool hold_bundle(struct guest *guest, const char *bundle, struct error *err)
{
    struct stat held, there;

    guest->held_bundle = open(bundle, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (guest->held_bundle < 0 || flock(guest->held_bundle, LOCK_SH) != 0)
        return error_errno(err, "hold %s", bundle);
    /* Taken away while we waited for the lock: then it is another folder, or none. */
    return (fstat(guest->held_bundle, &held) == 0 && stat(bundle, &there) == 0 &&
            held.st_dev == there.st_dev && held.st_ino == there.st_ino) ||
           error_set(err, ERR_UNAVAILABLE, "%s has gone", bundle);
}

/* The time it takes to make them is not the engine's. */
static bool hold_drives(struct guest *guest, struct sandbox_spec *spec, struct error *err)
{
    int64_t begun_ms = time_boot_ms();

    if (!drives_open(guest->worker->settings->work_dir, spec, &guest->drives, err))
        return false;
    spec->drives = drives_paths(&guest->drives, spec);
    spec->deadline_ms += time_boot_ms() - begun_ms;
    return true;
}

bool guest_hold_files(struct guest *guest, const struct engine *engine, struct sandbox_spec *spec,
                      struct error *err)
{
    return image_hold_folders(guest->worker->images, spec->layers, spec->n_layers,
                              &guest->held_layers, err) &&
           (!spec->bundle || hold_bundle(guest, spec->bundle, err)) &&
           (!engine->has_drives || hold_drives(guest, spec, err));
}

void guest_release_files(struct guest *guest)
{
    if (guest->held_layers >= 0)
        close(guest->held_layers);
    if (guest->held_bundle >= 0)
        close(guest->held_bundle);
    drives_finish(&guest->drives);
}
