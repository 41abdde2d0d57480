#include "image/bootstrap.h"

#include <stdarg.h>

#include "base/own.h"
#include "image/authorities.h"
#include "image/config.h"
#include "image/import.h"

/* Later times become this one, so that the same packages give the same layers: 2023-06-10, the
 * release of bookworm. SOURCE_DATE_EPOCH overrides it. */
enum { NEWEST = 1686355200 };

#define SEARCH_PATH "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
#define LABELS      "{\"helmr.bootstrap\":\"1\"}"

void bootstrap_say(const struct bootstrap *bootstrap, const char *fmt, ...)
{
    char line[512];
    va_list args;

    if (!bootstrap->progress)
        return;
    va_start(args, fmt);
    (void)vsnprintf(line, sizeof line, fmt, args);
    va_end(args);
    bootstrap->progress(bootstrap->arg, line);
}

static int64_t newest_time(void)
{
    const char *asked = getenv("SOURCE_DATE_EPOCH");
    char *end = NULL;
    long long seconds = asked && *asked ? strtoll(asked, &end, 10) : 0;

    return end && *end == '\0' && seconds > 0 ? seconds : NEWEST;
}

static bool add_folder(const struct bootstrap *bootstrap, const char *folder, const char *what,
                       struct image_document *document, struct error *err)
{
    struct image_layer layer;

    bootstrap_say(bootstrap, "writing a layer");
    if (!import_folder(bootstrap->store, folder, bootstrap->newest, &layer, err))
        return false;
    document_add(document, &layer, what, bootstrap->arena);
    return true;
}

/* A Debian made here before is found by its label; one from elsewhere is not built upon. */
static bool find_debian(const struct bootstrap *bootstrap, const char *reference,
                        struct image_document *document)
{
    char digest[DIGEST_TEXT];
    struct error ignored;

    return index_find(bootstrap->store, reference, digest, &ignored) &&
           document_load(bootstrap->store, digest, bootstrap->arena, document, &ignored) &&
           document->image.n_layers == 1 && str_equal(document->labels, STR(LABELS));
}

static bool make_debian(const struct bootstrap *bootstrap, const char *reference,
                        struct image_document *document, struct error *err)
{
    struct str *env = arena_array(bootstrap->arena, 1, sizeof *env);
    const char *folder = NULL;

    env[0] = STR(SEARCH_PATH);
    *document = (struct image_document){
        .image.config = {.workdir = STR("/"), .env = env, .n_env = 1},
        .labels = STR(LABELS),
        .command = STR("[\"bash\"]"),
        .created_ms = bootstrap->newest * 1000,
    };
    return bootstrap_debian(bootstrap, &folder, err) &&
           add_folder(bootstrap, folder, "mmdebstrap", document, err) &&
           document_publish(bootstrap->store, document, reference, err);
}

static bool add_node(const struct bootstrap *bootstrap, struct image_document *document,
                     struct error *err)
{
    struct str *env = arena_array(bootstrap->arena, 3, sizeof *env);
    const char *const *below = NULL;
    const char *folder = NULL;
    char version[32];

    if (!image_unpack(bootstrap->store, &document->image, bootstrap->arena, &below, err) ||
        !bootstrap_node(bootstrap, below[0], &folder, version, err) ||
        !add_folder(bootstrap, folder, "node and npm from npm packages", document, err))
        return false;
    env[0] = STR(SEARCH_PATH);
    env[1] = str_of(arena_printf(bootstrap->arena, "NODE_VERSION=%s", version));
    document->image.config.env = env;
    document->image.config.n_env = 2;
    /* Node has authorities of its own and asks for others by name only. */
    if (authorities_are_added(below[0]))
        env[document->image.config.n_env++] = STR("NODE_EXTRA_CA_CERTS=/" AUTHORITIES_BUNDLE);
    document->command = STR("[\"node\"]");
    return true;
}

static bool make(const struct bootstrap *bootstrap, const char *reference, bool force,
                 char digest[DIGEST_TEXT], struct error *err)
{
    const char *debian =
        arena_printf(bootstrap->arena, "docker.io/library/debian:%s-slim", bootstrap->recipe.suite);
    struct image_document document;

    if ((force || !find_debian(bootstrap, debian, &document)) &&
        !make_debian(bootstrap, debian, &document, err))
        return false;
    if (bootstrap->recipe.has_node && !add_node(bootstrap, &document, err))
        return false;
    if (strcmp(reference, debian) != 0 &&
        !document_publish(bootstrap->store, &document, reference, err))
        return false;
    memcpy(digest, document.image.digest, DIGEST_TEXT);
    bootstrap_say(bootstrap, "%s is %s", reference, digest);
    return true;
}

bool image_bootstrap(struct image_store *store, const char *reference, bool force,
                     image_progress *progress, void *arg, char digest[DIGEST_TEXT],
                     struct error *err)
{
    AUTO(arena_finish) struct arena arena = {0};
    AUTO_FD int lock = -1, work = -1;
    struct bootstrap bootstrap = {
        .store = store, .progress = progress, .arg = arg, .arena = &arena, .newest = newest_time()};
    char text[REFERENCE_TEXT];
    struct reference parsed;
    struct error ignored;
    char *scratch;

    if (!reference_parse(str_of(reference), &parsed, err) ||
        !recipe_find(&parsed, &bootstrap.recipe, err))
        return false;
    reference_format(&parsed, text);
    /* Not the store's own lock: builds must be able to publish meanwhile. */
    if (!disk_lock(store->oci_fd, "bootstrap-lock", false, &lock, err))
        return false;
    if (!force && index_find(store, text, digest, &ignored))
        return true;
    if (!image_work(store, &work, err) || !store_scratch(store, &arena, &scratch, err))
        return false;
    bootstrap.scratch = scratch;
    bool ok = make(&bootstrap, text, force, digest, err);
    store_drop_scratch(store, scratch);
    return ok || error_wrap(err, "making %s", text);
}
