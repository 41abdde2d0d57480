#include "protocol/files.h"

#include "guest/scenario.h"

/* Asks and waits for an answer of either kind. */
static bool ask(struct harness *harness, enum files_op op, const char *path, const char *after,
                uint64_t length)
{
    harness->has_files = harness->has_error = false;
    if (!harness_send(harness, MESSAGE_FILES,
                      &(struct message_files){.id = 70,
                                              .op = op,
                                              .path = str_of(path),
                                              .length = length,
                                              .after = str_of(after)}))
        return false;
    while (!harness->has_files && !harness->has_error && harness_step(harness))
        ;
    return harness->has_files;
}

static bool is_refused(struct harness *harness, enum files_op op, const char *path,
                       const char *code)
{
    bool is_answered = ask(harness, op, path, "", 100);

    if (strcmp(harness->failure, code) != 0)
        printf("# %s: %s\n", path, harness->failure);
    return !is_answered && strcmp(harness->failure, code) == 0;
}

/* The names of the last list, with a comma after each. */
static const char *names(struct harness *harness)
{
    static char all[1024];
    struct str rest = buf_str(&harness->files);
    struct files_entry entry;
    struct error err;
    size_t len = 0;

    all[0] = '\0';
    while (rest.len > 0 && files_entry_take(&rest, &entry, &err))
        len += (size_t)snprintf(all + len, sizeof all - len, "%.*s,", (int)entry.name.len,
                                entry.name.ptr);
    return all;
}

ON_EVERY_ENGINE(the_workspace_is_seen_as_programs_see_it)
{
    struct files_entry entry;
    struct error err;

    CHECK(set_up(harness));
    CHECK(ask(harness, FILES_LIST, "", "", 100));
    CHECK_STR(names(harness), "from-image,old,");
    CHECK(!harness->files_more);
    CHECK(ask(harness, FILES_LIST, "", "", 1));
    CHECK_STR(names(harness), "from-image,");
    CHECK(harness->files_more);
    CHECK(ask(harness, FILES_LIST, "", "from-image", 100));
    CHECK_STR(names(harness), "old,");
    CHECK(ask(harness, FILES_LIST, "old", "", 100));
    CHECK_STR(names(harness), "inner,");

    CHECK(ask(harness, FILES_STAT, "old/inner", "", 0));
    struct str rest = buf_str(&harness->files);
    CHECK(files_entry_take(&rest, &entry, &err) && rest.len == 0);
    CHECK(entry.type == FILES_FILE && entry.size == 6 && str_equal(entry.name, STR("inner")));
    CHECK(ask(harness, FILES_READ, "old/inner", "", 100));
    CHECK(str_equal(buf_str(&harness->files), STR("below\n")) && harness->files_size == 6);
    CHECK(ask(harness, FILES_READ, "old/inner", "", 2));
    CHECK(str_equal(buf_str(&harness->files), STR("be")) && harness->files_size == 6);
}

ON_EVERY_ENGINE(what_cannot_be_looked_at_is_refused)
{
    static const struct {
        enum files_op op;
        const char *path, *code;
    } rows[] = {
        {FILES_STAT, "nothing",      "not_found"    },
        {FILES_STAT, "../etc",       "not_found"    },
        {FILES_STAT, "from-image/x", "not_found"    },
        {FILES_LIST, "from-image",   "not_directory"},
        {FILES_READ, "old",          "not_regular"  },
        /* NOLINTNEXTLINE(*-EnumCastOutOfRange): no such operation */
        {0,          "old",          "unsupported"  },
    };

    CHECK(is_refused(harness, FILES_LIST, "", "not_ready"));
    harness->has_error = false;
    CHECK(set_up(harness));
    for (size_t i = 0; i < COUNT_OF(rows); i++)
        CHECK(is_refused(harness, rows[i].op, rows[i].path, rows[i].code));
}

TEST_MAIN()
