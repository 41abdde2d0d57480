/* The journal of one instance: every kernel resource it may hold, in the order made.
 *
 * A resource is announced (intent, on disk before the system call), then identified
 * (made), then crossed out once its absence is proved (gone). One line is
 * `crc32c seq verb kind name [identity]`. A torn last line is dropped: what it would
 * have said is either not made yet or covered by an earlier intent.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/str.h"

enum resource_kind {
    RESOURCE_SLOT,
    RESOURCE_DIR,
    RESOURCE_CGROUP,
    RESOURCE_NETNS,
    RESOURCE_LINK,
    RESOURCE_MOUNT,
    RESOURCE_PROCESS,
    RESOURCE_KIND_COUNT,
};

enum { JOURNAL_NAME_MAX = 512, JOURNAL_IDENTITY_MAX = 96, JOURNAL_RESOURCES_MAX = 32 };

struct resource {
    enum resource_kind kind;
    char name[JOURNAL_NAME_MAX];         /* a path, a number or an interface */
    char identity[JOURNAL_IDENTITY_MAX]; /* empty: announced, perhaps never made */
    bool gone;
};

struct journal_list {
    struct resource items[JOURNAL_RESOURCES_MAX];
    size_t n;
    size_t good_bytes; /* up to the end of the last whole line */
    uint32_t next_seq;
    bool torn;
};

/* False: damaged before its last line, so it cannot be believed. */
bool journal_parse(struct str text, struct journal_list *list, struct error *err) MUST_USE;

struct journal {
    int fd; /* -1: none */
    uint32_t next_seq;
};

bool journal_create(int dir_fd, struct journal *journal, struct error *err) MUST_USE;

/* Reads an old one and makes it ready to be appended to: a torn tail is cut off. A missing file
 * is an empty list. */
bool journal_open(int dir_fd, struct journal *journal, struct journal_list *list,
                  struct error *err) MUST_USE;
void journal_finish(struct journal *journal);

/* Announce any number of resources, then journal_sync once, then make them. */
bool journal_intent(struct journal *journal, enum resource_kind kind, const char *name,
                    struct error *err) MUST_USE;
bool journal_sync(struct journal *journal, struct error *err) MUST_USE;
bool journal_made(struct journal *journal, enum resource_kind kind, const char *name,
                  const char *identity, struct error *err) MUST_USE;
bool journal_gone(struct journal *journal, enum resource_kind kind, const char *name,
                  struct error *err) MUST_USE;

const char *resource_kind_name(enum resource_kind kind);

/* For tests: the process dies by SIGKILL in place of its Nth journal line (counted from 1). */
extern int journal_die_at;
