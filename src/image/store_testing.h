/* Help for tests of the store: one of their own, with small images in it. */
#pragma once

#include "image/store.h"
#include "image/testing.h"

struct opened {
    struct testing testing;
    struct image_store *store;
    struct arena arena;
};

static inline bool opened_init(struct opened *opened)
{
    *opened = (struct opened){0};
    testing_init(&opened->testing);
    return image_store_open(testing_path(&opened->testing, "work"), &opened->store,
                            &opened->testing.err);
}

static inline void opened_finish(struct opened *opened)
{
    image_store_close(opened->store);
    arena_finish(&opened->arena);
    testing_finish(&opened->testing);
}

static inline bool opened_import(struct opened *o, const char *reference, const char *text,
                                 char digest[DIGEST_TEXT])
{
    static const struct str env[] = {
        {"PATH=/bin", 9}
    };
    struct image_config config = {STR("/app"), STR("nobody"), env, 1};

    return testing_folder(testing_path(&o->testing, "tree")) &&
           testing_file(testing_path(&o->testing, "tree/file"), text) &&
           image_import_directory(o->store, reference, testing_path(&o->testing, "tree"), &config,
                                  digest, &o->testing.err);
}

/* Tells what is wrong, if anything. */
static inline bool opened_verifies(struct opened *o, struct image_verdict *verdict)
{
    if (!image_verify(o->store, false, NULL, NULL, verdict, &o->testing.err)) {
        printf("# %s\n", o->testing.err.text);
        return false;
    }
    for (size_t i = 0; i < verdict->n_problems && i < IMAGE_PROBLEMS_MAX; i++)
        printf("# %s: %s\n", verdict->problems[i].what, verdict->problems[i].text);
    return verdict->n_problems == 0;
}
