#include "image/config.h"

#include "base/json.h"
#include "base/own.h"
#include "base/time.h"

enum { MANIFEST_MAX = 4 << 20, CONFIG_MAX = 8 << 20 };
#define BLOB_MAX ((int64_t)8 << 30)

#define CONFIG_TYPE "application/vnd.oci.image.config.v1+json"

static const struct layer_type {
    const char *name;
    enum layer_coding coding;
} layer_types[] = {
    /* the first of each coding is what we write */
    {"application/vnd.oci.image.layer.v1.tar",            LAYER_TAR },
    {"application/vnd.oci.image.layer.v1.tar+gzip",       LAYER_GZIP},
    {"application/vnd.oci.image.layer.v1.tar+zstd",       LAYER_ZSTD},
    {"application/vnd.docker.image.rootfs.diff.tar.gzip", LAYER_GZIP},
    {"application/vnd.docker.image.rootfs.diff.tar",      LAYER_TAR },
};

struct descriptor {
    struct str media_type, digest;
    int64_t size;
};

struct manifest {
    int64_t version;
    struct descriptor config;
    struct json_list layers;
};

struct container {
    struct json_list env;
    struct str workdir, user, labels, entrypoint, command;
};

struct rootfs {
    struct json_list diff_ids;
};

struct config {
    struct str architecture, os, created, history;
    struct container container;
    struct rootfs rootfs;
};

static const struct json_field descriptor_fields[] = {
    {"mediaType", JSON_TEXT, offsetof(struct descriptor, media_type), REQUIRED, .max = 256},
    {"digest", JSON_TEXT, offsetof(struct descriptor, digest), REQUIRED, .max = 71},
    {"size", JSON_INTEGER, offsetof(struct descriptor, size), REQUIRED, .max = BLOB_MAX},
    {0},
};

static const struct json_field manifest_fields[] = {
    {"schemaVersion", JSON_INTEGER, offsetof(struct manifest, version), REQUIRED, .min = 2,
     .max = 2},
    {"config", JSON_OBJ, offsetof(struct manifest, config), REQUIRED, .fields = descriptor_fields},
    {"layers", JSON_LIST, offsetof(struct manifest, layers), REQUIRED, .max = VIEW_LAYERS_MAX,
     .fields = descriptor_fields, .size = sizeof(struct descriptor)},
    {0},
};

static const struct json_field container_fields[] = {
    {"Env", JSON_LIST, offsetof(struct container, env), OPTIONAL, .max = 4096},
    {"WorkingDir", JSON_TEXT, offsetof(struct container, workdir), OPTIONAL, .max = 4096},
    {"User", JSON_TEXT, offsetof(struct container, user), OPTIONAL, .max = 256},
    {"Labels", JSON_RAW, offsetof(struct container, labels), OPTIONAL, .max = CONFIG_MAX},
    {"Entrypoint", JSON_RAW, offsetof(struct container, entrypoint), OPTIONAL, .max = CONFIG_MAX},
    {"Cmd", JSON_RAW, offsetof(struct container, command), OPTIONAL, .max = CONFIG_MAX},
    {0},
};

static const struct json_field rootfs_fields[] = {
    {"diff_ids", JSON_LIST, offsetof(struct rootfs, diff_ids), REQUIRED, .max = VIEW_LAYERS_MAX},
    {0},
};

static const struct json_field config_fields[] = {
    {"architecture", JSON_TEXT, offsetof(struct config, architecture), REQUIRED, .max = 64},
    {"os", JSON_TEXT, offsetof(struct config, os), REQUIRED, .max = 64},
    {"created", JSON_TEXT, offsetof(struct config, created), OPTIONAL, .max = 64},
    {"history", JSON_RAW, offsetof(struct config, history), OPTIONAL, .max = CONFIG_MAX},
    {"config", JSON_OBJ, offsetof(struct config, container), OPTIONAL, .fields = container_fields},
    {"rootfs", JSON_OBJ, offsetof(struct config, rootfs), REQUIRED, .fields = rootfs_fields},
    {0},
};

static bool coding_of(struct str media_type, enum layer_coding *coding, struct error *err)
{
    for (size_t i = 0; i < COUNT_OF(layer_types); i++)
        if (str_equal(media_type, str_of(layer_types[i].name))) {
            *coding = layer_types[i].coding;
            return true;
        }
    if (memmem(media_type.ptr, media_type.len, "foreign", 7) ||
        memmem(media_type.ptr, media_type.len, "nondistributable", 16))
        return error_set(err, ERR_UNSUPPORTED,
                         "the image has a foreign layer, to be had from somewhere else than its "
                         "registry: not supported");
    return error_set(err, ERR_UNSUPPORTED, "layers of type %.*s are not supported",
                     (int)media_type.len, media_type.ptr);
}

static const char *type_of(enum layer_coding coding)
{
    for (size_t i = 0; i < COUNT_OF(layer_types); i++)
        if (layer_types[i].coding == coding)
            return layer_types[i].name;
    abort();
}

/* The chain id of a stack: its lowest layer's content, then "<chain below> <content>" hashed. */
static void set_chain(struct image_layer *layers, size_t n)
{
    char digest[DIGEST_TEXT], pair[2 * DIGEST_TEXT];
    struct image_layer *top = &layers[n - 1];

    memcpy(digest, top->diff_id, sizeof digest);
    if (n > 1) {
        int len = snprintf(pair, sizeof pair, "sha256:%s %s", layers[n - 2].chain, top->diff_id);
        digest_of((struct str){pair, (size_t)len}, digest);
    }
    memcpy(top->chain, digest_hex(digest), sizeof top->chain);
}

static bool load_layers(const struct manifest *manifest, const struct config *config,
                        struct arena *arena, struct image *image, struct error *err)
{
    const struct descriptor *rows = manifest->layers.items;
    const struct str *diff_ids = config->rootfs.diff_ids.items;
    size_t n = manifest->layers.n;

    if (n != config->rootfs.diff_ids.n)
        return error_set(err, ERR_INVALID, "the manifest has %zu layers, its configuration %zu", n,
                         config->rootfs.diff_ids.n);
    struct image_layer *layers = arena_array(arena, n + 1, sizeof *layers);
    for (size_t i = 0; i < n; i++) {
        if (!digest_is_valid(rows[i].digest) || !digest_is_valid(diff_ids[i]))
            return error_set(err, ERR_INVALID, "layer %zu has no valid sha256 digest", i);
        if (!coding_of(rows[i].media_type, &layers[i].coding, err))
            return false;
        memcpy(layers[i].digest, rows[i].digest.ptr, DIGEST_TEXT - 1);
        memcpy(layers[i].diff_id, diff_ids[i].ptr, DIGEST_TEXT - 1);
        layers[i].size = rows[i].size;
        set_chain(layers, i + 1);
    }
    image->layers = layers;
    image->n_layers = n;
    return true;
}

static struct str without_brackets(struct str list)
{
    if (list.len <= 2 || list.ptr[0] != '[')
        return (struct str){0};
    return (struct str){list.ptr + 1, list.len - 2};
}

static struct str unless_null(struct str raw)
{
    if (str_equal(raw, STR("null")))
        return (struct str){0};
    return raw;
}

static bool load_config(struct image_store *store, const struct manifest *manifest,
                        struct arena *arena, struct image_document *document, struct error *err)
{
    struct config config;
    struct str text;
    struct error ignored;

    if (!digest_is_valid(manifest->config.digest))
        return error_set(err, ERR_INVALID, "the configuration has no valid sha256 digest");
    if (!store_read_blob(store, arena_text(arena, manifest->config.digest), CONFIG_MAX, arena,
                         &text, err) ||
        !json_read_loose(text, config_fields, &config, sizeof config, arena, err) ||
        !load_layers(manifest, &config, arena, &document->image, err))
        return error_wrap(err, "the image's configuration");
    if (!str_equal(config.os, STR("linux")) ||
        !str_equal(config.architecture, STR(IMAGE_ARCHITECTURE)))
        return error_set(err, ERR_UNSUPPORTED, "the image is for %.*s/%.*s, this machine is %s",
                         (int)config.os.len, config.os.ptr, (int)config.architecture.len,
                         config.architecture.ptr, "linux/" IMAGE_ARCHITECTURE);
    document->image.config = (struct image_config){
        .workdir = config.container.workdir.len ? config.container.workdir : STR("/"),
        .user = config.container.user,
        .env = config.container.env.items,
        .n_env = config.container.env.n,
    };
    document->labels = unless_null(config.container.labels);
    document->entrypoint = unless_null(config.container.entrypoint);
    document->command = unless_null(config.container.command);
    document->history = without_brackets(config.history);
    if (!config.created.len || !time_parse(config.created, &document->created_ms, &ignored))
        document->created_ms = 0;
    return true;
}

static bool read_manifest(struct image_store *store, const char *digest, struct arena *arena,
                          struct manifest *manifest, int64_t *size, struct error *err)
{
    struct str text;

    if (!store_read_blob(store, digest, MANIFEST_MAX, arena, &text, err))
        return false;
    *size = (int64_t)text.len;
    return json_read_loose(text, manifest_fields, manifest, sizeof *manifest, arena, err) ||
           error_wrap(err, "%s is no image manifest", digest);
}

static bool add_blob(struct manifest_blobs *blobs, const struct descriptor *row, struct error *err)
{
    struct manifest_blob *blob = &blobs->items[blobs->n++];

    if (!digest_is_valid(row->digest))
        return error_set(err, ERR_INVALID, "a part of the image has no valid sha256 digest");
    memcpy(blob->digest, row->digest.ptr, DIGEST_TEXT - 1);
    blob->size = row->size;
    blob->media_type = row->media_type;
    return true;
}

bool manifest_load(struct image_store *store, const char *digest, struct arena *arena,
                   struct manifest_blobs *blobs, struct error *err)
{
    struct descriptor own = {STR(MANIFEST_TYPE), str_of(digest), 0};
    struct manifest manifest;

    if (!read_manifest(store, digest, arena, &manifest, &own.size, err))
        return false;
    const struct descriptor *rows = manifest.layers.items;
    blobs->n = 0;
    blobs->items = arena_array(arena, BLOB_LAYERS + manifest.layers.n, sizeof *blobs->items);
    if (!add_blob(blobs, &own, err) || !add_blob(blobs, &manifest.config, err))
        return false;
    for (size_t i = 0; i < manifest.layers.n; i++)
        if (!add_blob(blobs, &rows[i], err))
            return false;
    return true;
}

bool document_read(struct image_store *store, struct str text, struct arena *arena,
                   struct image_document *document, struct error *err)
{
    struct manifest manifest;

    *document = (struct image_document){0};
    return (json_read_loose(text, manifest_fields, &manifest, sizeof manifest, arena, err) ||
            error_wrap(err, "a malformed image manifest")) &&
           load_config(store, &manifest, arena, document, err);
}

bool document_load(struct image_store *store, const char *digest, struct arena *arena,
                   struct image_document *document, struct error *err)
{
    struct manifest manifest;
    int64_t size;

    *document = (struct image_document){0};
    if (!read_manifest(store, digest, arena, &manifest, &size, err) ||
        !load_config(store, &manifest, arena, document, err))
        return false;
    memcpy(document->image.digest, digest, DIGEST_TEXT);
    document->image.size = size;
    memcpy(document->image.config_digest, manifest.config.digest.ptr, DIGEST_TEXT - 1);
    document->image.config_size = manifest.config.size;
    return true;
}

static bool save_config(struct image_store *store, const struct image_document *document,
                        char digest[DIGEST_TEXT], int64_t *size, struct error *err)
{
    AUTO(buf_finish) struct buf out = {.max = CONFIG_MAX};
    struct json_writer writer = json_begin(&out);
    const struct image_config *config = &document->image.config;

    json_open(&writer, NULL);
    json_time(&writer, "created", document->created_ms);
    json_string(&writer, "architecture", IMAGE_ARCHITECTURE);
    json_string(&writer, "os", "linux");
    json_open(&writer, "config");
    if (config->user.len)
        json_text(&writer, "User", config->user);
    json_open_list(&writer, "Env");
    for (size_t i = 0; i < config->n_env; i++)
        json_text(&writer, NULL, config->env[i]);
    json_close_list(&writer);
    if (document->entrypoint.len)
        json_raw(&writer, "Entrypoint", document->entrypoint);
    if (document->command.len)
        json_raw(&writer, "Cmd", document->command);
    json_text(&writer, "WorkingDir", config->workdir);
    if (document->labels.len)
        json_raw(&writer, "Labels", document->labels);
    json_close(&writer);
    json_open(&writer, "rootfs");
    json_string(&writer, "type", "layers");
    json_open_list(&writer, "diff_ids");
    for (size_t i = 0; i < document->image.n_layers; i++)
        json_string(&writer, NULL, document->image.layers[i].diff_id);
    json_close_list(&writer);
    json_close(&writer);
    json_open_list(&writer, "history");
    if (document->history.len)
        json_raw(&writer, NULL, document->history);
    json_close_list(&writer);
    json_close(&writer);
    if (!json_end(&writer, err))
        return false;
    *size = (int64_t)out.len;
    return store_put_blob(store, buf_str(&out), digest, err);
}

static void write_descriptor(struct json_writer *writer, const char *name, const char *media_type,
                             const char *digest, int64_t size)
{
    json_open(writer, name);
    json_string(writer, "mediaType", media_type);
    json_string(writer, "digest", digest);
    json_int(writer, "size", size);
    json_close(writer);
}

bool document_save(struct image_store *store, struct image_document *document, int64_t *size,
                   struct error *err)
{
    AUTO(buf_finish) struct buf out = {.max = MANIFEST_MAX};
    struct json_writer writer = json_begin(&out);
    struct image *image = &document->image;

    if (!save_config(store, document, image->config_digest, &image->config_size, err))
        return false;
    json_open(&writer, NULL);
    json_int(&writer, "schemaVersion", 2);
    json_string(&writer, "mediaType", MANIFEST_TYPE);
    write_descriptor(&writer, "config", CONFIG_TYPE, image->config_digest, image->config_size);
    json_open_list(&writer, "layers");
    for (size_t i = 0; i < document->image.n_layers; i++) {
        const struct image_layer *layer = &document->image.layers[i];
        write_descriptor(&writer, NULL, type_of(layer->coding), layer->digest, layer->size);
    }
    json_close_list(&writer);
    json_close(&writer);
    if (!json_end(&writer, err))
        return false;
    *size = image->size = (int64_t)out.len;
    return store_put_blob(store, buf_str(&out), image->digest, err);
}

static void add_history(struct image_document *document, bool is_empty, const char *created_by,
                        struct arena *arena)
{
    AUTO(buf_finish) struct buf out = {.max = CONFIG_MAX};
    struct json_writer writer = json_begin(&out);
    struct error ignored;

    json_open(&writer, NULL);
    json_time(&writer, "created", document->created_ms);
    json_string(&writer, "created_by", created_by);
    if (is_empty)
        json_bool(&writer, "empty_layer", true);
    json_close(&writer);
    /* A history that has grown out of all bounds is not worth a failed build. */
    if (!json_end(&writer, &ignored) || document->history.len + out.len > CONFIG_MAX / 2)
        return;
    document->history =
        str_of(arena_printf(arena, "%.*s%s%.*s", (int)document->history.len,
                            document->history.len ? document->history.ptr : "",
                            document->history.len ? "," : "", (int)out.len, out.bytes));
}

void document_add(struct image_document *document, const struct image_layer *layer,
                  const char *created_by, struct arena *arena)
{
    struct image *image = &document->image;

    if (layer) {
        struct image_layer *layers = arena_array(arena, image->n_layers + 1, sizeof *layers);
        if (image->n_layers)
            memcpy(layers, image->layers, image->n_layers * sizeof *layers);
        layers[image->n_layers++] = *layer;
        set_chain(layers, image->n_layers);
        image->layers = layers;
    }
    add_history(document, !layer, created_by, arena);
}
