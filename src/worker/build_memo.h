/* What a project came to when it was built here before: its manifest, its sealed bundle, and the
 * images its tasks were loaded in.
 *
 * The same source, evaluated by the same platform on the same base, gives the same; a deploy of
 * an unchanged project then starts no sandbox. Builds with variables of their own are not
 * remembered: their values would have to enter the key.
 */
#pragma once

#include "base/json.h"

struct build;

struct build_memo {
    int64_t format;
    struct str manifest; /* JSON */
    struct str bundle;   /* digest */
    int64_t bundle_bytes;
    struct json_list images;  /* struct build_memo_image */
    struct json_list imports; /* struct wire_import: what loading the tasks showed */
};

struct build_memo_image {
    struct str id, digest;
};

/* False: nothing is known, or the build asked for no cache. Needs build->base. */
bool build_memo_find(struct build *build, struct build_memo *memo);

/* Remembers the build's manifest, bundle and images. A failure to is no failure of the build. */
void build_memo_keep(struct build *build);
void build_memo_forget(struct build *build);

/* Whether every task was loaded in just the images the build has now. */
bool build_memo_has_images(const struct build_memo *memo, const struct build *build);
