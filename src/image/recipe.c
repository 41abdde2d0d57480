#include "image/recipe.h"

static const char *const suites[] = {"bookworm", "bullseye", "trixie"};

/* Node and the npm it is released with, newest first. */
static const struct {
    int node_major;
    const char *npm;
} releases[] = {
    {24, "11"},
    {20, "10"},
    {18, "9" },
    {16, "8" },
};

const char *recipe_npm(int node_major)
{
    for (size_t i = 0; i < COUNT_OF(releases); i++)
        if (node_major >= releases[i].node_major)
            return releases[i].npm;
    return NULL;
}

static bool refuse(const struct reference *reference, struct error *err)
{
    char text[REFERENCE_TEXT];

    reference_format(reference, text);
    return error_set(err, ERR_UNSUPPORTED,
                     "%s cannot be made locally: only " RECIPE_KNOWN " can be", text);
}

/* One to three numbers of up to six digits, with dots between; returns what follows. */
static const char *skip_version(const char *text)
{
    for (int part = 0; part < 3; part++) {
        size_t digits = strspn(text, "0123456789");
        if (digits == 0 || digits > 6)
            return NULL;
        text += digits;
        if (*text != '.')
            return text;
        if (part == 2)
            return NULL;
        text++;
    }
    return NULL;
}

static bool take_suite(const char **rest, char suite[16])
{
    for (size_t i = 0; i < COUNT_OF(suites); i++) {
        size_t len = strlen(suites[i]);
        if (strncmp(*rest, suites[i], len) == 0 && ((*rest)[len] == '\0' || (*rest)[len] == '-')) {
            memcpy(suite, suites[i], len + 1);
            *rest += len;
            return true;
        }
    }
    return false;
}

static bool is_end(const char *rest)
{
    return *rest == '\0' || strcmp(rest, "-slim") == 0;
}

static bool read_node_tag(const char *tag, struct recipe *recipe)
{
    const char *rest = skip_version(tag);

    if (!rest || (size_t)(rest - tag) >= sizeof recipe->node_version)
        return false;
    memcpy(recipe->node_version, tag, (size_t)(rest - tag));
    recipe->node_major = (int)strtol(tag, NULL, 10);
    memcpy(recipe->suite, "bookworm", sizeof "bookworm");
    if (is_end(rest))
        return true;
    rest++;
    return take_suite(&rest, recipe->suite) && is_end(rest);
}

bool recipe_find(const struct reference *reference, struct recipe *recipe, struct error *err)
{
    struct recipe found = {0};
    const char *rest = reference->tag;

    if (strcmp(reference->host, "docker.io") != 0 || reference->digest[0])
        return refuse(reference, err);
    if (strcmp(reference->repository, "library/node") == 0) {
        found.has_node = true;
        if (!read_node_tag(reference->tag, &found) || !recipe_npm(found.node_major))
            return refuse(reference, err);
    } else if (strcmp(reference->repository, "library/debian") != 0 ||
               !take_suite(&rest, found.suite) || !is_end(rest)) {
        return refuse(reference, err);
    }
    *recipe = found;
    return true;
}
