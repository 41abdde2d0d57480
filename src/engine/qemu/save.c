#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/stat.h>

#include "base/own.h"
#include "base/time.h"
#include "engine/qemu/machine.h"
#include "engine/saved.h"
#include "engine/sparse.h"

enum { END_MS = 5000 };

/* A new file in the place of what may be there from the machine's last rest. */
static bool file_make(int folder, const char *name, int flags, int *file, struct error *err)
{
    (void)unlinkat(folder, name, 0);
    *file = openat(folder, name, flags | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    return *file >= 0 || error_errno(err, "make %s of the saved machine", name);
}

static bool devices_save(struct machine *machine, int folder, int64_t deadline_ms,
                         struct error *err)
{
    AUTO_FD int file = -1;

    return file_make(folder, MACHINE_DEVICES, O_WRONLY, &file, err) &&
           qmp_greet(&machine->qmp, deadline_ms, err) &&
           qmp_stop(&machine->qmp, deadline_ms, err) &&
           qmp_save_devices(&machine->qmp, file, deadline_ms, err);
}

static bool scratch_save(const struct machine *machine, const struct saved_image *image,
                         struct error *err)
{
    AUTO_FD int file = -1;

    return saved_scratch_make(image, &file, err) &&
           (machine->scratch < 0 || sparse_copy(machine->scratch, file, err));
}

/* Once it has ended nobody writes to its memory any more. */
static bool machine_end(struct instance *instance, struct error *err)
{
    struct pollfd ended = {.fd = instance_pidfd(instance), .events = POLLIN};

    return process_signal(&instance->process, SIGKILL, err) &&
           (poll(&ended, 1, END_MS) == 1 ||
            error_set(err, ERR_TIMEOUT, "the saved machine does not end"));
}

/* Of a copy only what it changed; the rest is where it was. */
static bool changes_save(const struct instance *instance, int folder, struct error *err)
{
    AUTO_FD int file = -1;

    return !machine_of(instance)->is_copy ||
           (file_make(folder, MACHINE_CHANGES, O_RDWR, &file, err) &&
            machine_changes_gather(instance, file, err));
}

static bool parts_save(struct instance *instance, const struct saved_image *image,
                       int64_t deadline_ms, struct error *err)
{
    struct machine *machine = machine_of(instance);

    return devices_save(machine, image->folder, deadline_ms, err) &&
           scratch_save(machine, image, err) && changes_save(instance, image->folder, err);
}

/* Memory that is a file in a folder of the machine's own stays where it is: the image becomes that
 * folder, and what else was in it from the machine's last rest is written anew. */
static void folder_give(struct machine *machine, struct saved_image *image)
{
    if (machine->folder < 0)
        return;
    close(image->folder);
    image->folder = take_fd(&machine->folder);
}

bool qemu_save(struct instance *instance, struct saved_image *image, int timeout_ms,
               struct error *err)
{
    struct machine *machine = machine_of(instance);
    const bool has_name = machine->folder >= 0;
    struct error ignored;

    folder_give(machine, image);
    if (!parts_save(instance, image, time_boot_ms() + timeout_ms, err)) {
        (void)!machine_end(instance, &ignored);
        return error_wrap(err, "save QEMU");
    }
    if (!machine_end(instance, err))
        return error_wrap(err, "save QEMU");
    if (has_name)
        return true;
    image->memory = take_fd(&machine->memory);
    return machine->is_copy || saved_machine_share(instance->host, image, err) ||
           error_wrap(err, "save QEMU");
}
