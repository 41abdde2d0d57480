#include "image/registry_manifest.h"

#include "base/json.h"
#include "base/own.h"
#include "image/config.h"
#include "image/digest.h"

enum { PLATFORMS_MAX = 1024 };

#define ACCEPT                                                        \
    "Accept: application/vnd.oci.image.index.v1+json, " MANIFEST_TYPE \
    ", application/vnd.docker.distribution.manifest.list.v2+json, "   \
    "application/vnd.docker.distribution.manifest.v2+json"

struct platform {
    struct str os, architecture, variant;
};

struct row {
    struct str digest;
    int64_t size;
    struct platform platform;
};

/* What tells the kinds of documents apart. */
struct document {
    int64_t version;
    struct str media_type;
    struct str config, layers; /* raw */
    struct json_list manifests;
    bool is_list, is_signed;
    struct str signatures;
};

struct descriptor {
    struct str digest;
    int64_t size;
};

static const struct json_field platform_fields[] = {
    {"os", JSON_TEXT, offsetof(struct platform, os), OPTIONAL, .max = 64},
    {"architecture", JSON_TEXT, offsetof(struct platform, architecture), OPTIONAL, .max = 64},
    {"variant", JSON_TEXT, offsetof(struct platform, variant), OPTIONAL, .max = 64},
    {0},
};

static const struct json_field row_fields[] = {
    {"digest", JSON_TEXT, offsetof(struct row, digest), REQUIRED, .max = 256},
    {"size", JSON_INTEGER, offsetof(struct row, size), REQUIRED, .max = INT64_MAX},
    {"platform", JSON_OBJ, offsetof(struct row, platform), OPTIONAL, .fields = platform_fields},
    {0},
};

static const struct json_field document_fields[] = {
    {"schemaVersion", JSON_INTEGER, offsetof(struct document, version), REQUIRED},
    {"mediaType", JSON_TEXT, offsetof(struct document, media_type), OPTIONAL, .max = 127},
    {"config", JSON_RAW, offsetof(struct document, config), OPTIONAL, .max = MANIFEST_LIMIT},
    {"layers", JSON_RAW, offsetof(struct document, layers), OPTIONAL, .max = MANIFEST_LIMIT},
    {"manifests", JSON_LIST, offsetof(struct document, manifests), OPTIONAL, .max = PLATFORMS_MAX,
     .fields = row_fields, .size = sizeof(struct row),
     .present = offsetof(struct document, is_list)},
    {"signatures", JSON_RAW, offsetof(struct document, signatures), OPTIONAL, .max = MANIFEST_LIMIT,
     .present = offsetof(struct document, is_signed)},
    {0},
};

static const struct json_field descriptor_fields[] = {
    {"digest", JSON_TEXT, offsetof(struct descriptor, digest), REQUIRED, .max = 256},
    {"size", JSON_INTEGER, offsetof(struct descriptor, size), REQUIRED, .max = INT64_MAX},
    {0},
};

static bool read_document(struct str bytes, struct arena *arena, struct document *document,
                          struct error *err)
{
    if (!json_read_loose(bytes, document_fields, document, sizeof *document, arena, err)) {
        err->code = ERR_UNSUPPORTED;
        return error_wrap(err, "what the registry gave is no manifest");
    }
    if (document->version == 1 || document->is_signed)
        return error_set(err, ERR_UNSUPPORTED,
                         "the image has a manifest of schema 1, which is long obsolete: push it "
                         "again with a tool of today");
    if (document->version != 2)
        return error_set(err, ERR_UNSUPPORTED, "the manifest is of an unknown schema");
    /* A document that is both would be read in one way here and in the other elsewhere. */
    if (document->is_list == (document->config.len > 0))
        return error_set(err, ERR_UNSUPPORTED,
                         "the manifest is neither an image nor a list of images");
    return true;
}

static bool is_ours(const struct platform *platform)
{
    if (!str_equal(platform->os, STR("linux")) ||
        !str_equal(platform->architecture, STR(IMAGE_ARCHITECTURE)))
        return false;
    return platform->variant.len == 0 || strcmp(IMAGE_ARCHITECTURE, "arm64") != 0 ||
           str_equal(platform->variant, STR("v8"));
}

static bool pick(const struct document *document, char digest[DIGEST_TEXT], struct error *err)
{
    const struct row *rows = document->manifests.items;

    for (size_t i = 0; i < document->manifests.n; i++) {
        if (!is_ours(&rows[i].platform))
            continue;
        if (!digest_is_valid(rows[i].digest))
            return error_set(err, ERR_UNSUPPORTED,
                             "the list of images has a digest other than "
                             "sha256");
        memcpy(digest, rows[i].digest.ptr, DIGEST_TEXT - 1);
        digest[DIGEST_TEXT - 1] = '\0';
        return true;
    }
    return error_set(err, ERR_UNSUPPORTED,
                     "the image is there for %zu platforms, but not for linux/%s",
                     document->manifests.n, IMAGE_ARCHITECTURE);
}

static bool take_image(const struct document *document, struct str bytes, const char *digest,
                       struct arena *arena, struct registry_manifest *manifest, struct error *err)
{
    struct descriptor config;

    if (!json_read_loose(document->config, descriptor_fields, &config, sizeof config, arena, err))
        return error_wrap(err, "the manifest's configuration");
    if (!digest_is_valid(config.digest))
        return error_set(err, ERR_UNSUPPORTED, "the manifest has a digest other than sha256");
    if (config.size < 0 || config.size > CONFIG_LIMIT)
        return error_set(err, ERR_TOO_LARGE, "the image's configuration is over %d MiB",
                         CONFIG_LIMIT >> 20);
    *manifest = (struct registry_manifest){.bytes = bytes, .config_size = config.size};
    memcpy(manifest->digest, digest, DIGEST_TEXT);
    memcpy(manifest->config, config.digest.ptr, DIGEST_TEXT - 1);
    (void)snprintf(manifest->media_type, sizeof manifest->media_type, "%.*s",
                   (int)document->media_type.len,
                   document->media_type.len ? document->media_type.ptr : "");
    if (!document->media_type.len)
        memcpy(manifest->media_type, MANIFEST_TYPE, sizeof MANIFEST_TYPE);
    return true;
}

bool registry_manifest_read(struct str bytes, const char *digest, struct arena *arena,
                            struct registry_manifest *manifest, struct error *err)
{
    struct document document;

    if (!read_document(bytes, arena, &document, err))
        return false;
    if (document.is_list)
        return error_set(err, ERR_UNSUPPORTED, "%s is a list of images", digest);
    return take_image(&document, bytes, digest, arena, manifest, err);
}

/* `name` is a tag, or a digest that the bytes must have. */
static bool get(struct registry_line *line, const char *name, bool is_digest, struct arena *arena,
                struct str *bytes, char digest[DIGEST_TEXT], struct error *err)
{
    AUTO_FREE struct registry_reply *reply = alloc(sizeof *reply);
    char path[256], what[300];

    *reply = (struct registry_reply){.body.max = MANIFEST_LIMIT};
    (void)snprintf(path, sizeof path, "manifests/%s", name);
    (void)snprintf(what, sizeof what, "%s%s%.140s", line->repository, is_digest ? "@" : ":", name);
    bool ok = registry_line_try(
        line, &(struct registry_ask){.path = path, .header = ACCEPT, .http = {.method = "GET"}},
        reply, err);
    bool is_given = ok && reply->status == 200;
    if (is_given)
        *bytes = arena_str(arena, buf_str(&reply->body));
    else if (ok)
        (void)registry_line_refused(line, what, reply, err);
    else if (err->code == ERR_TOO_LARGE)
        (void)error_set(err, ERR_TOO_LARGE, "the manifest of %s is over %d MiB", what,
                        MANIFEST_LIMIT >> 20);
    buf_finish(&reply->body);
    if (!is_given)
        return false;
    digest_of(*bytes, digest);
    return !is_digest || strcmp(digest, name) == 0 ||
           error_set(err, ERR_CONTENT_HASH, "%s gave another manifest for %s: it hashes to %s",
                     line->endpoint->name, what, digest);
}

bool registry_manifest_get(struct registry_line *line, const struct reference *reference,
                           struct arena *arena, struct registry_manifest *manifest,
                           struct error *err)
{
    bool by_digest = reference->digest[0] != '\0';
    char digest[DIGEST_TEXT], chosen[DIGEST_TEXT];
    struct document document;
    struct str bytes;

    if (!get(line, by_digest ? reference->digest : reference->tag, by_digest, arena, &bytes, digest,
             err) ||
        !read_document(bytes, arena, &document, err))
        return false;
    if (!document.is_list)
        return take_image(&document, bytes, digest, arena, manifest, err);
    return pick(&document, chosen, err) && get(line, chosen, true, arena, &bytes, digest, err) &&
           registry_manifest_read(bytes, digest, arena, manifest, err);
}
