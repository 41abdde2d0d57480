/* An image as the manifest describes it: an id and steps, read and checked.
 *
 *     {"id": "repo-agent", "steps": [
 *       {"kind": "from", "ref": "node:24-bookworm-slim"},
 *       {"kind": "run", "argv": ["npm", "install"], "cache": [{"mount_path": "/c", "cache":
 * "id"}]},
 *       {"kind": "copy", "dest": "/app", "source": {"directory": "app", "ignore": ["*.md"]}}, …]}
 *
 * A plan that was read keeps the rules of the SDK, whoever wrote it.
 */
#pragma once

#include "base/json.h"
#include "image/image.h"

enum step_kind {
    STEP_FROM,
    STEP_RUN,
    STEP_COPY,
    STEP_COPY_FROM,
    STEP_WORKDIR,
    STEP_ENV,
    STEP_USER,
};

struct step_mount {
    struct str path, id;
};

struct step_source {
    struct str file, directory; /* one of them */
    struct json_list ignore;    /* struct str */
};

struct step {
    enum step_kind kind;
    struct str kind_name;
    struct str ref;                        /* from */
    struct json_list argv, cache, secrets; /* run: struct str, struct step_mount */
    struct str dest;                       /* copy, copyFrom */
    struct step_source source;             /* copy */
    struct str image;                      /* copy, copyFrom: the id of another plan */
    struct str path;                       /* copyFrom, workdir */
    struct str key, value;                 /* env */
    struct str name;                       /* user */
};

struct plan {
    struct str id;
    struct step *steps;
    size_t n_steps;
};

enum { STEP_TEXT = 160 };

bool plan_read(struct str text, struct arena *arena, struct plan *plan, struct error *err) MUST_USE;
bool plan_read_all(struct str list, struct arena *arena, struct plan **plans, size_t *n,
                   struct error *err) MUST_USE;

/* One line for people: RUN npm install. The value of a variable is not shown. */
void step_text(const struct step *step, char text[STEP_TEXT]);

/* Cuts the line so that it fits `room` bytes with its NUL. */
void step_text_cut(char text[STEP_TEXT], size_t room);

/* Letters, digits and . _ -, not one of these first: a name that is a file's name too. */
bool plan_name_is_valid(struct str text);

/* The prefix that keeps an absolute path for the platform, or NULL: /dev /opt/helmr /proc /sys */
const char *plan_reserved_path(struct str path);

/* Names that never enter an image from a project: node_modules .git .helmr .next .env .env.* */
bool plan_is_excluded(struct str name);
