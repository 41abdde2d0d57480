/* Reads an archive from a descriptor: plain tar, or gzip or zstd over tar when allowed.
 *
 * Every byte is hashed on both sides of the compression, and what comes out is bounded before it
 * is looked at. libarchive parses; what an entry may do is decided by its caller.
 */
#pragma once

#include <archive.h>
#include <archive_entry.h>

#include "image/inflate.h"
#include "image/tar.h"

struct tar_reader {
    struct inflate *source;
    struct archive *tar;
    struct error err; /* why reading failed: libarchive keeps only a number */
    bool failed;
    int64_t left;  /* of the entry's content */
    bool is_ended; /* there are no more bytes */
    bool is_cut;   /* nor entries: the last one lacks its padding */
};

/* The descriptor is borrowed and read from where it stands. The reader must not move. */
bool tar_reader_open(struct tar_reader *reader, int fd, enum tar_coding coding, int64_t max_bytes,
                     struct error *err) MUST_USE;
void tar_reader_finish(struct tar_reader *reader);

/* *entry is NULL at the end; valid until the next call. */
bool tar_reader_next(struct tar_reader *reader, struct archive_entry **entry,
                     struct error *err) MUST_USE;

/* A piece of the entry's content; len 0 at its end. */
bool tar_reader_data(struct tar_reader *reader, struct str *bytes, int64_t *offset,
                     struct error *err) MUST_USE;

/* Reads what is left and says what was read. */
bool tar_reader_end(struct tar_reader *reader, char blob[DIGEST_TEXT], char diff[DIGEST_TEXT],
                    struct error *err) MUST_USE;

/* libarchive converts names through the locale; within this scope it is UTF-8 in this thread. */
typedef struct __locale_struct *tar_locale;
tar_locale tar_locale_enter(void);
void tar_locale_leave(const tar_locale *before);
#define TAR_UTF8_SCOPE AUTO(tar_locale_leave) UNUSED tar_locale locale_before = tar_locale_enter()
