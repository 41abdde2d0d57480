#include "store/sqlite_fault.h"

#include <sqlite3.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>

#include "base/own.h"

static const struct {
    int result;
    bool is_write;
} kinds[] = {
    [FAULT_WRITE_FULL] = {SQLITE_FULL,        true },
    [FAULT_WRITE_ERROR] = {SQLITE_IOERR_WRITE, true },
    [FAULT_SYNC_ERROR] = {SQLITE_IOERR_FSYNC, false},
};

static atomic_int armed_kind = -1, calls_left, faults_left, n_faults;

void sqlite_fault_set(enum fault_kind kind, int nth, int count)
{
    calls_left = nth;
    faults_left = count;
    n_faults = 0;
    armed_kind = (int)kind;
}

int sqlite_fault_clear(void)
{
    armed_kind = -1;
    return n_faults;
}

static int fault_now(bool is_write)
{
    int kind = armed_kind;

    if (kind < 0 || kinds[kind].is_write != is_write || --calls_left > 0 || faults_left <= 0)
        return SQLITE_OK;
    faults_left--;
    n_faults++;
    return kinds[kind].result;
}

/* The real methods of a kind of file, and a copy with ours in place of two. */
struct methods {
    sqlite3_io_methods ours; /* first: what a file's pMethods points to */
    const sqlite3_io_methods *real;
};

static struct methods methods[4];
static sqlite3_vfs *real_vfs, our_vfs;

static const sqlite3_io_methods *real_of(sqlite3_file *file)
{
    return ((const struct methods *)file->pMethods)->real;
}

static int fault_write(sqlite3_file *file, const void *bytes, int len, sqlite3_int64 offset)
{
    int fault = fault_now(true);

    return fault != SQLITE_OK ? fault : real_of(file)->xWrite(file, bytes, len, offset);
}

static int fault_sync(sqlite3_file *file, int flags)
{
    int fault = fault_now(false);

    return fault != SQLITE_OK ? fault : real_of(file)->xSync(file, flags);
}

static const sqlite3_io_methods *wrap(const sqlite3_io_methods *real)
{
    for (size_t i = 0; i < COUNT_OF(methods); i++) {
        if (!methods[i].real) {
            methods[i] = (struct methods){*real, real};
            methods[i].ours.xWrite = fault_write;
            methods[i].ours.xSync = fault_sync;
        }
        if (methods[i].real == real)
            return &methods[i].ours;
    }
    abort();
}

/* Files are opened when connections are, by one thread. */
static int fault_open(sqlite3_vfs *vfs UNUSED, const char *name, sqlite3_file *file, int flags,
                      int *out_flags)
{
    int result = real_vfs->xOpen(real_vfs, name, file, flags, out_flags);

    if (result == SQLITE_OK && file->pMethods)
        file->pMethods = wrap(file->pMethods);
    return result;
}

void sqlite_fault_install(void)
{
    if (real_vfs)
        return;
    real_vfs = sqlite3_vfs_find(NULL);
    our_vfs = *real_vfs;
    our_vfs.zName = "fault";
    our_vfs.xOpen = fault_open;
    sqlite3_vfs_register(&our_vfs, 1);
}
