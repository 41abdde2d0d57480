#include "image/extract.h"

#include <pthread.h>
#include <signal.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <zstd.h>

#include "base/map.h"
#include "image/image.h"
#include "image/testing.h"

/* Archives written by hand, as no decent tool would. */
struct raw {
    char type;
    const char *name, *link, *content;
    const char *size; /* the field's text, when it is not the truth */
};

enum { BLOCK = 512, ROW_ENTRIES = 4 };

static void put_field(char *field, size_t size, const char *text)
{
    size_t len = strlen(text);

    memcpy(field, text, len < size ? len : size);
}

static void put_header(char header[BLOCK], const struct raw *raw)
{
    char text[32];
    unsigned sum = 0;

    memset(header, 0, BLOCK);
    put_field(header, 100, raw->name);
    put_field(header + 100, 8, "0000644");
    put_field(header + 108, 8, "0000000");
    put_field(header + 116, 8, "0000000");
    (void)snprintf(text, sizeof text, "%011zo", raw->content ? strlen(raw->content) : 0);
    put_field(header + 124, 12, raw->size ? raw->size : text);
    put_field(header + 136, 12, "00000000000");
    memset(header + 148, ' ', 8);
    header[156] = raw->type;
    put_field(header + 157, 100, raw->link ? raw->link : "");
    memcpy(header + 257, "ustar\00000", 8);
    for (size_t i = 0; i < BLOCK; i++)
        sum += (unsigned char)header[i];
    (void)snprintf(text, sizeof text, "%06o", sum);
    put_field(header + 148, 7, text);
    header[154] = '\0';
}

static bool write_archive(int fd, const struct raw *rows, struct error *err)
{
    char block[BLOCK];

    for (size_t i = 0; i < ROW_ENTRIES && rows[i].name; i++) {
        size_t len = rows[i].content ? strlen(rows[i].content) : 0;
        put_header(block, &rows[i]);
        if (!fd_write_all(fd, (struct str){block, BLOCK}, err))
            return false;
        for (size_t at = 0; at < len; at += BLOCK) {
            memset(block, 0, sizeof block);
            memcpy(block, rows[i].content + at, len - at < BLOCK ? len - at : BLOCK);
            if (!fd_write_all(fd, (struct str){block, BLOCK}, err))
                return false;
        }
    }
    memset(block, 0, sizeof block);
    return fd_write_all(fd, (struct str){block, BLOCK}, err) &&
           fd_write_all(fd, (struct str){block, BLOCK}, err) && lseek(fd, 0, SEEK_SET) == 0;
}

#define A25     "aaaaaaaaaaaaaaaaaaaaaaaaa"
#define D25     "d/d/d/d/d/d/d/d/d/d/d/d/d/d/d/d/d/d/d/d/d/d/d/d/d/"
#define DEEP300 D25 D25 D25 D25 D25 D25 D25 D25 D25 D25 D25 D25
#define A300    A25 A25 A25 A25 A25 A25 A25 A25 A25 A25 A25 A25

/* One entry each: a file, a folder, a link, a hard link. */
#define F(name)            {'0', name, NULL, "x", NULL}
#define D(name)            {'5', name, NULL, NULL, NULL}
#define L(name, to)        {'2', name, to, NULL, NULL}
#define H(name, to)        {'1', name, to, NULL, NULL}
#define SIZED(name, field) {'0', name, NULL, "x", field}
#define PAX(text)          {'x', "p", NULL, text, NULL}
#define LONG_NAME(text)    {'L', "././@LongLink", NULL, text, NULL}
#define DEVICE(name)       {'3', name, NULL, NULL, NULL}
#define HUGE(type)         {type, "p", NULL, "x", "00100000000"}
#define OPAQUE             ".wh..wh..opq"
#define TAKEN_OVER                                                                      \
    "test a/b -ef d/e/g && test \"$(stat -c '%a %u %h %Y' a/b)\" = '4640 7 2 1000' && " \
    "test \"$(cat a/b)\" = g && test \"$(stat -c %a d)\" = 1777"
#define MINUS_ONE "\377\377\377\377\377\377\377\377\377\377\377\377"

static const struct hostile {
    const char *what, *says;
    struct raw entries[ROW_ENTRIES];
} hostile[] = {
    {"an absolute path",         "absolute",           {F("/evil")}                                  },
    {"a way up",                 "..",                 {F("../evil")}                                },
    {"a way up later",           "..",                 {F("a/../../evil")}                           },
    {"a way up in pax",          "..",                 {PAX("16 path=../evil\n"), F("ok")}           },
    {"a way up in a long name",  "..",                 {LONG_NAME("../evil"), F("ok")}               },
    {"a link up and through",    "symbolic link",      {L("a", ".."), F("a/evil")}                   },
    {"a link out and through",   "symbolic link",      {L("a", "/tmp"), F("a/evil")}                 },
    {"a link inside, through",   "symbolic link",      {D("d"), L("a", "d"), F("a/f")}               },
    {"a link in the middle",     "symbolic link",      {D("d/e"), L("a", "d"), F("a/e/f")}           },
    {"a link up in the middle",  "symbolic link",      {L("a", ".."), F("a/root/f")}                 },
    {"two links",                "symbolic link",      {L("a", "b"), L("b", ".."), F("a/evil")}      },
    {"a folder, a link, used",   "symbolic link",      {F("d/x"), L("d", "/tmp"), F("d/evil")}       },
    {"a folder, a link up",      "symbolic link",      {F("d/x"), L("d", ".."), F("d/evil")}         },
    {"through a linked link",    "symbolic link",      {L("l", ".."), H("h", "l"), F("h/evil")}      },
    {"a link over its target",   "its target",         {F("d/x"), H("d", "d/x")}                     },
    {"a size in base 256",       "",                   {SIZED("a", "\200\1\1\1\7\1\1\1\1\1\1\1")}    },
    {"a negative size in pax",   "",                   {PAX("11 size=-1\n"), F("a")}                 },
    {"a huge size in pax",       "overflow",           {PAX("28 size=9223372036854775807\n"), F("a")}},
    {"a pax record too long",    "",                   {PAX("999999999 path=x\n"), F("a")}           },
    {"a huge pax header",        "",                   {HUGE('x'), F("a")}                           },
    {"a huge long name",         "",                   {HUGE('L'), F("a")}                           },
    {"an impossible owner",      "owner",              {PAX("18 uid=4294967295\n"), F("a")}          },
    {"pax without UTF-8",        "UTF-8",              {PAX("11 path=\377x\n"), F("a")}              },
    {"a path too deep",          "256 folders",        {LONG_NAME(DEEP300), F("a")}                  },
    {"a file below a file",      "folder",             {F("a"), F("a/b")}                            },
    {"a hard link up",           "..",                 {H("a", "../evil")}                           },
    {"an absolute hard link",    "absolute",           {H("a", "/etc/passwd")}                       },
    {"a hard link to nothing",   "not in the archive", {H("a", "b")}                                 },
    {"a hard link through",      "not in the archive", {L("l", "/etc"), H("a", "l/passwd")}          },
    {"a hard link to a folder",  "not in the archive", {D("d"), H("a", "d")}                         },
    {"a whiteout of nothing",    "hides nothing",      {F("a/.wh.")}                                 },
    {"a whiteout of ..",         "hides nothing",      {F(".wh...")}                                 },
    {"a name over 255 bytes",    "255",                {LONG_NAME(A300), F("ok")}                    },
    {"a file that is too large", "too large",          {SIZED("a", "77777777777")}                   },
    {"a negative size",          "",                   {SIZED("a", MINUS_ONE)}                       },
    {"an archive cut short",     "",                   {SIZED("a", "00000010000")}                   },
    {"a root that is a file",    "root",               {F(".")}                                      },
};

struct place {
    struct testing testing;
    int root, archive;
};

static bool place_init(struct place *place)
{
    testing_init(&place->testing);
    place->archive = -1;
    place->root = -1;
    if (!testing_sh(&place->testing, "mkdir root && : > archive"))
        return false;
    place->root = open(testing_path(&place->testing, "root"), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    place->archive = open(testing_path(&place->testing, "archive"), O_RDWR | O_CLOEXEC);
    return place->root >= 0 && place->archive >= 0;
}

static void place_finish(struct place *place)
{
    auto_close(&place->root);
    auto_close(&place->archive);
    testing_finish(&place->testing);
}

static bool extract_within(struct place *place, enum extract_kind kind, struct tar_budget *budget,
                           int64_t max_bytes, struct error *err)
{
    TAR_UTF8_SCOPE;
    AUTO(tar_reader_finish) struct tar_reader reader = {0};
    struct extract_spec spec = {kind, place->root, NULL, budget};
    char blob[DIGEST_TEXT], diff[DIGEST_TEXT];

    return tar_reader_open(&reader, place->archive, TAR_MAY_BE_COMPRESSED, max_bytes, err) &&
           extract_archive(&spec, &reader, err) && tar_reader_end(&reader, blob, diff, err);
}

static bool extract(struct place *place, enum extract_kind kind, struct tar_budget budget,
                    struct error *err)
{
    return extract_within(place, kind, &budget, (int64_t)1 << 30, err);
}

TEST(hostile_archives_are_refused_and_write_nothing_outside)
{
    for (size_t i = 0; i < COUNT_OF(hostile); i++) {
        for (enum extract_kind kind = EXTRACT_LAYER; kind <= EXTRACT_PROJECT; kind++) {
            bool is_of_layers =
                strstr(hostile[i].what, "whiteout") || strstr(hostile[i].what, "owner");
            if (kind == EXTRACT_PROJECT && is_of_layers)
                continue;
            AUTO(place_finish) struct place place = {.root = -1, .archive = -1};
            struct error err = {0};
            CHECK(place_init(&place));
            CHECK(write_archive(place.archive, hostile[i].entries, &err));
            bool ok = extract(&place, kind, (struct tar_budget){1 << 20, 100}, &err);
            /* A project refuses links out and hard links for what they are. */
            bool is_said = strstr(err.text, hostile[i].says) ||
                           (kind == EXTRACT_PROJECT &&
                            (strstr(err.text, "leads out") || strstr(err.text, "hard link") ||
                             strstr(err.text, "twice")));
            if (ok || !is_said)
                printf("# %s: %s\n", hostile[i].what, ok ? "accepted" : err.text);
            CHECK(!ok && is_said);
            CHECK(err.code == ERR_ARCHIVE_INVALID || err.code == ERR_ARCHIVE_TOO_LARGE);
            CHECK(testing_sh(&place.testing, "test \"$(ls)\" = \"$(printf 'archive\\nroot')\""));
        }
    }
}

/* What skopeo, podman and umoci make of two entries for one place. */
static const struct repeated {
    const char *what, *then; /* true of the root afterwards */
    struct raw entries[ROW_ENTRIES];
} repeated[] = {
    {"a file twice",                      "test \"$(cat a)\" = second",         {F("a"), {'0', "a", NULL, "second", NULL}}             },
    {"a file over a link",                "test -f a && test ! -L a",           {L("a", "../evil"), F("a")}                            },
    {"a file over a folder",              "test -f a",                          {D("a"), F("a/x"), F("a")}                             },
    {"a folder over a file",              "test -f a/x",                        {F("a"), D("a"), F("a/x")}                             },
    {"a folder over a link",
     "test -d a && test ! -L a && test -f a/x",                                 {L("a", ".."), D("a"), F("a/x")}                       },
    {"a link over a folder",              "test -L a && test \"$(ls -A)\" = a", {F("a/x"), L("a", "..")}                               },
    {"a file over a hard link to a link",
     "test -f h && test ! -L h && test -L l",                                   {L("l", "../evil"), H("h", "l"), F("h")}               },
    {"a file over one name of two",
     "test \"$(cat a)\" = second && test \"$(cat b)\" = x",                     {F("a"), H("b", "a"), {'0', "a", NULL, "second", NULL}}},
    {"a hard link to itself",             "test \"$(cat a)\" = x",              {F("a"), H("a", "a")}                                  },
    {"a device over a file",              "test -z \"$(ls -A)\"",               {F("a"), {'3', "a", NULL, NULL, NULL}}                 },
};

TEST(in_a_layer_the_last_entry_counts)
{
    for (size_t i = 0; i < COUNT_OF(repeated); i++) {
        AUTO(place_finish) struct place place = {.root = -1, .archive = -1};
        struct error err = {0};
        char script[256];
        CHECK(place_init(&place) && write_archive(place.archive, repeated[i].entries, &err));
        bool ok = extract(&place, EXTRACT_LAYER, (struct tar_budget){1 << 20, 100}, &err);
        if (!ok)
            printf("# %s: %s\n", repeated[i].what, err.text);
        CHECK(ok);
        (void)snprintf(script, sizeof script, "cd root && %s", repeated[i].then);
        if (!testing_sh(&place.testing, script)) {
            printf("# %s\n", repeated[i].what);
            CHECK(false);
        }
        CHECK(testing_sh(&place.testing, "test \"$(ls)\" = \"$(printf 'archive\\nroot')\""));
    }
}

TEST(a_project_has_no_path_twice)
{
    for (size_t i = 0; i < COUNT_OF(repeated); i++) {
        AUTO(place_finish) struct place place = {.root = -1, .archive = -1};
        struct error err = {0};
        CHECK(place_init(&place) && write_archive(place.archive, repeated[i].entries, &err));
        CHECK(!extract(&place, EXTRACT_PROJECT, (struct tar_budget){1 << 20, 100}, &err));
        CHECK(err.code == ERR_ARCHIVE_INVALID);
    }
}

/* Layers over one that has: d/f, d/e/g, file, link -> d, out -> /tmp. */
static const char lower_tree[] =
    "mkdir -p lower/d/e && cd lower && printf f > d/f && printf g > d/e/g && : > file && "
    "ln -s d link && ln -s /tmp out && chown 7 d/e/g && chmod 4640 d/e/g && chmod 1777 d && "
    "touch -d @1000 d/e/g";

static const struct misplaced {
    const char *what, *says;
    struct raw entries[ROW_ENTRIES];
} misplaced[] = {
    {"through a link below",             "lower layer",        {F("link/x")}                  },
    {"through a link out of here",       "lower layer",        {F("out/evil")}                },
    {"below a file below",               "lower layer",        {F("file/x")}                  },
    {"a hard link through a link below", "not in the archive", {H("a", "out/passwd")}         },
    {"a hard link to a folder below",    "not in the archive", {H("a", "d")}                  },
    {"a hard link to what is hidden",    "not in the archive", {F(".wh.file"), H("a", "file")}},
    {"a hard link into an opaque one",   "not in the archive", {F("d/" OPAQUE), H("a", "d/f")}},
};

/* `then` is true of the layer's folder afterwards; `opaque` hides what is below it. */
static const struct stacked {
    const char *what, *then, *opaque;
    struct raw entries[ROW_ENTRIES];
} stacked[] = {
    {"a hard link to a file below",         TAKEN_OVER,       NULL,   {H("a/b", "d/e/g")}              },
    {"a hard link to a link below",         "test -L a",      NULL,   {H("a", "out")}                  },
    {"a whiteout, then such a folder",      "test -f d/x",    "d",    {F(".wh.d"), F("d/x")}           },
    {"a whiteout of a file, then a folder", "test -f file/x", "file", {F(".wh.file"), F("file/x")}     },
    {"a file, then a folder",               "test -d d",      "d",    {F("d"), D("d")}                 },
    {"a device over a file",                "test -c file",   NULL,   {DEVICE("file")}                 },
    {"an opaque root",                      "test -c link",   "d",    {F(OPAQUE), F("d/x")}            },
    {"a whiteout below a file",             "test -f d",      NULL,   {F("d"), F("d/.wh.f")}           },
    {"a whiteout below a link",
     "test -L d && test ! -e ../lower/.wh.f",                 NULL,
     {L("d", "file"), F("d/.wh.f")}                                                                    },
    {"a whiteout through a link below",     "test ! -e link", NULL,   {F("link/.wh.f"), F("out/.wh.x")}},
    {"an opaque folder",                    "test -d d",      "d",    {F("d/" OPAQUE)}                 },
    {"a whiteout of nothing below",         "test ! -e n/x",  NULL,   {D("n"), F("n/.wh.x")}           },
    {"a whiteout of nothing in the root",   "test ! -e x",    NULL,   {F(".wh.x")}                     },
    {"a whiteout in an opaque folder",      "test ! -e d/f",  "d",    {F("d/" OPAQUE), F("d/.wh.f")}   },
    {"a device over nothing",               "test ! -e x",    NULL,   {DEVICE("x")}                    },
    {"a folder, then its whiteout",         "test -f d/x",    "d",    {F("d/x"), F(".wh.d")}           },
    {"a file, then its whiteout",           "test -f file",   NULL,   {F("file"), F(".wh.file")}       },
};

static bool extract_over(struct place *place, const struct view *below, struct error *err)
{
    TAR_UTF8_SCOPE;
    AUTO(tar_reader_finish) struct tar_reader reader = {0};
    struct tar_budget budget = {1 << 20, 100};
    struct extract_spec spec = {EXTRACT_LAYER, place->root, below, &budget};

    return tar_reader_open(&reader, place->archive, TAR_MAY_BE_COMPRESSED, 1 << 30, err) &&
           extract_archive(&spec, &reader, err);
}

/* Applies the entries over lower_tree, in a place of its own. */
static bool stack(struct place *place, const struct raw *entries, struct error *err)
{
    AUTO(view_finish) struct view below = {0};

    if (!place_init(place) || !testing_sh(&place->testing, lower_tree))
        return error_set(err, ERR_INTERNAL, "no place to test in");
    const char *folder = testing_path(&place->testing, "lower");
    bool ok = view_open(&folder, 1, &below, err) && write_archive(place->archive, entries, err) &&
              extract_over(place, &below, err);
    if (!testing_sh(&place->testing, "test \"$(ls lower lower/d | xargs)\" = "
                                     "'lower: d file link out lower/d: e f' && "
                                     "test ! -e /tmp/evil && test \"$(stat -c %h lower/d/f)\" = 1"))
        return error_set(err, ERR_INTERNAL, "something outside was touched");
    return ok;
}

TEST(a_layer_does_not_pass_through_what_lies_below)
{
    for (size_t i = 0; i < COUNT_OF(misplaced); i++) {
        AUTO(place_finish) struct place place = {.root = -1, .archive = -1};
        struct error err = {0};
        if (geteuid() != 0)
            SKIP("whiteouts need root");
        bool ok = stack(&place, misplaced[i].entries, &err);
        bool is_right =
            !ok && err.code == ERR_ARCHIVE_INVALID && strstr(err.text, misplaced[i].says);
        if (!is_right)
            printf("# %s: %s\n", misplaced[i].what, ok ? "accepted" : err.text);
        CHECK(is_right);
    }
}

TEST(a_layer_hides_and_takes_over_what_lies_below)
{
    for (size_t i = 0; i < COUNT_OF(stacked); i++) {
        AUTO(place_finish) struct place place = {.root = -1, .archive = -1};
        struct error err = {0};
        char script[512], mark;
        if (geteuid() != 0)
            SKIP("whiteouts need root");
        (void)snprintf(script, sizeof script, "cd root && %s", stacked[i].then);
        bool is_right =
            stack(&place, stacked[i].entries, &err) && testing_sh(&place.testing, script);
        if (is_right && stacked[i].opaque)
            is_right = getxattr(testing_path(&place.testing, "root/%s", stacked[i].opaque),
                                OVERLAY_OPAQUE, &mark, 1) == 1;
        if (!is_right)
            printf("# %s: %s\n", stacked[i].what, err.text);
        CHECK(is_right);
    }
}

TEST(a_project_takes_only_plain_entries)
{
    static const struct raw rows[][ROW_ENTRIES] = {
        {{'3', "device", NULL, NULL, NULL}},
        {{'6', "fifo", NULL, NULL, NULL}},
        {{'0', "a", NULL, "x", NULL}, {'1', "b", "a", NULL, NULL}},
        {{'2', "link", "/etc/passwd", NULL, NULL}},
        {{'2', "d/link", "../../x", NULL, NULL}},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        AUTO(place_finish) struct place place = {.root = -1, .archive = -1};
        struct error err;
        CHECK(place_init(&place) && write_archive(place.archive, rows[i], &err));
        CHECK(!extract(&place, EXTRACT_PROJECT, (struct tar_budget){1 << 20, 100}, &err));
        CHECK(err.code == ERR_ARCHIVE_INVALID);
    }
}

TEST(odd_but_honest_archives_are_taken)
{
    static const struct raw rows[ROW_ENTRIES] = {
        {'5', "./",       NULL,     NULL, NULL},
        {'0', ".//d/./f", NULL,     "x",  NULL},
        {'2', "d/l",      "../d/f", NULL, NULL},
        {'5', "d/",       NULL,     NULL, NULL},
    };
    AUTO(place_finish) struct place place = {.root = -1, .archive = -1};
    struct error err;

    CHECK(place_init(&place) && write_archive(place.archive, rows, &err));
    CHECK(extract(&place, EXTRACT_PROJECT, (struct tar_budget){1, 4}, &err));
    CHECK(testing_reads(testing_path(&place.testing, "root/d/l"), "x"));
}

TEST(entries_are_counted)
{
    static const struct raw rows[ROW_ENTRIES] = {
        {'0', "a", NULL, "x", NULL},
        {'0', "b", NULL, "x", NULL},
        {'0', "c", NULL, "x", NULL}
    };
    AUTO(place_finish) struct place place = {.root = -1, .archive = -1};
    struct error err;

    CHECK(place_init(&place) && write_archive(place.archive, rows, &err));
    CHECK(!extract(&place, EXTRACT_PROJECT, (struct tar_budget){100, 2}, &err));
    CHECK(err.code == ERR_ARCHIVE_TOO_LARGE);
}

/* 96 MiB of zeros in a few KiB. */
TEST(a_bomb_is_refused_before_it_fills_the_disk)
{
    enum { PIECE = 1 << 20, PIECES = 96 };
    AUTO(place_finish) struct place place = {.root = -1, .archive = -1};
    AUTO_FREE char *zeros = calloc(1, PIECE), *packed = alloc(ZSTD_compressBound(PIECE));
    struct raw row = {'0', "zeros", NULL, NULL, "00600000000"};
    char header[BLOCK];
    struct error err;

    CHECK(place_init(&place) && zeros);
    put_header(header, &row);
    for (int i = -1; i < PIECES; i++) {
        size_t len = i < 0 ? ZSTD_compress(packed, PIECE, header, BLOCK, 3)
                           : ZSTD_compress(packed, PIECE, zeros, PIECE, 3);
        CHECK(!ZSTD_isError(len));
        CHECK(fd_write_all(place.archive, (struct str){packed, len}, &err));
    }
    CHECK(lseek(place.archive, 0, SEEK_SET) == 0);
    CHECK(!extract(&place, EXTRACT_LAYER, (struct tar_budget){(int64_t)1 << 30, 100}, &err));
    CHECK(err.code == ERR_ARCHIVE_TOO_LARGE && strstr(err.text, "200 times"));
}

/* Each script leaves a layer in `archive` made from the tar `t` of 1.5 MiB, in folder `root`'s
 * place; `says` NULL: taken. */
static const struct coded {
    const char *what, *says, *script;
} coded[] = {
    {"gzip",                            NULL,             "gzip -c t > archive"                               },
    {"zstd",                            NULL,             "zstd -qc t > archive"                              },
    {"two gzip members",                NULL,
     "head -c 777777 t | gzip -c > archive; "
     "tail -c +777778 t | gzip -c >> archive"                                                                 },
    {"two zstd frames",                 NULL,
     "head -c 777777 t | zstd -qc > archive; "
     "tail -c +777778 t | zstd -qc >> archive"                                                                },
    {"bytes behind the end of the tar", NULL,             "cp t archive; head -c 9999 /dev/urandom >> archive"},
    {"a tar without its last padding",  NULL,             "head -c $((512 + 1500000)) t > archive"            },
    {"a tar without its last byte",     "Truncated",      "head -c $((511 + 1500000)) t > archive"            },
    {"gzip cut short",                  "",               "gzip -c t | head -c 300000 > archive"              },
    {"gzip without its last byte",      "",               "gzip -c t | head -c -1 > archive"                  },
    {"zstd cut short",                  "",               "zstd -qc t | head -c 300000 > archive"             },
    {"zstd without its last byte",      "",               "zstd -qc t | head -c -1 > archive"                 },
    {"garbage behind gzip",             "behind its end", "gzip -c t > archive; printf garbage >> archive"    },
    {"much garbage behind gzip",        "behind its end",
     "gzip -c t > archive; head -c 999999 /dev/zero >> archive"                                               },
    {"garbage behind zstd",             "",               "zstd -qc t > archive; printf garbage >> archive"   },
    {"a bomb in gzip",                  "200 times",
     "head -c 100M /dev/zero > zero; tar -cf - zero | gzip -9 > "
     "archive; rm zero"                                                                                       },
    {"a bomb in gzip members",          "200 times",
     "head -c 100M /dev/zero > zero; tar -cf - zero | split -b 20M --filter='gzip -9' > archive; "
     "rm zero"                                                                                                },
    {"a tar cut short",                 "",               "head -c 700000 t > archive"                        },
};

TEST(a_compressed_stream_is_whole_or_refused)
{
    for (size_t i = 0; i < COUNT_OF(coded); i++) {
        AUTO(place_finish) struct place place = {.root = -1, .archive = -1};
        struct error err = {0};
        CHECK(place_init(&place));
        CHECK(testing_sh(&place.testing,
                         "head -c 1500000 /dev/urandom > f && tar --format=ustar -cf t f"));
        CHECK(testing_sh(&place.testing, coded[i].script));
        auto_close(&place.archive);
        place.archive = open(testing_path(&place.testing, "archive"), O_RDONLY | O_CLOEXEC);
        bool ok = extract(&place, EXTRACT_LAYER, (struct tar_budget){1 << 30, 100}, &err);
        bool is_right = coded[i].says ? !ok && strstr(err.text, coded[i].says)
                                      : ok && testing_sh(&place.testing, "cmp f root/f");
        if (!is_right)
            printf("# %s: %s\n", coded[i].what, ok ? "accepted" : err.text);
        CHECK(is_right);
    }
}

enum { HEADERS = 2048 };

/* Ten million entries, or until nobody reads any more. */
static void *write_many(void *arg)
{
    AUTO_FD int fd = *(int *)arg;
    AUTO_FREE char *headers = alloc((size_t)HEADERS * BLOCK);
    const struct raw row = {'0', "d/.wh..wh.mark", NULL, NULL, NULL};
    struct error err;

    for (size_t i = 0; i < HEADERS; i++)
        put_header(headers + i * BLOCK, &row);
    for (size_t n = 0; n < 10000000; n += HEADERS)
        if (!fd_write_all(fd, (struct str){headers, (size_t)HEADERS * BLOCK}, &err))
            break;
    return NULL;
}

/* They are of a kind that leaves nothing, so what is counted is not what was written. */
TEST(ten_million_entries_are_too_many)
{
    AUTO(place_finish) struct place place = {.root = -1, .archive = -1};
    struct error err = {0};
    pthread_t thread;
    int ends[2];

    CHECK(signal(SIGPIPE, SIG_IGN) != SIG_ERR);
    CHECK(place_init(&place) && pipe2(ends, O_CLOEXEC) == 0);
    CHECK(pthread_create(&thread, NULL, write_many, &ends[1]) == 0);
    auto_close(&place.archive);
    place.archive = ends[0];
    struct tar_budget budget = {TAR_BYTES_MAX, TAR_ENTRIES_MAX};
    CHECK(!extract_within(&place, EXTRACT_LAYER, &budget, TAR_BYTES_MAX, &err));
    CHECK(err.code == ERR_ARCHIVE_TOO_LARGE && strstr(err.text, "entries"));
    CHECK(budget.entries == 0);
    auto_close(&place.archive);
    place.archive = -1;
    CHECK(pthread_join(thread, NULL) == 0);
    CHECK(testing_sh(&place.testing, "test -z \"$(ls -A root)\""));
}

/* libarchive follows a header of headers by calling itself. */
TEST(headers_of_headers_end)
{
    AUTO(place_finish) struct place place = {.root = -1, .archive = -1};
    const struct raw row = PAX("9 atime=1\n");
    struct error err = {0};
    char blocks[2 * BLOCK] = {0};

    CHECK(place_init(&place));
    put_header(blocks, &row);
    put_field(blocks + BLOCK, BLOCK, row.content);
    for (int i = 0; i < 100000; i++)
        CHECK(fd_write_all(place.archive, (struct str){blocks, sizeof blocks}, &err));
    CHECK(lseek(place.archive, 0, SEEK_SET) == 0);
    CHECK(!extract(&place, EXTRACT_LAYER, (struct tar_budget){1 << 20, 100}, &err));
    CHECK(err.code == ERR_ARCHIVE_INVALID);
}

TEST(a_packed_folder_unpacks_to_itself_and_is_always_the_same)
{
    TESTING(t);
    char before[DIGEST_TEXT], after[DIGEST_TEXT];

    CHECK(testing_sh(&t, "mkdir -p a/b/c a/z && printf 1 > a/b/f && printf 2 > a/run && "
                         "chmod 0700 a/run && ln -s b/f a/l && mkfifo a/fifo && ln a/b/f a/hard"));
    AUTO_FD int tar = open(testing_path(&t, "tar"), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    CHECK(archive_pack(testing_path(&t, "a"), tar, &t.err));
    CHECK(lseek(tar, 0, SEEK_SET) == 0);
    CHECK(archive_unpack(tar, testing_path(&t, "out/b"), 1 << 20, 100, &t.err));
    CHECK(testing_hash(testing_path(&t, "a"), LAYER_OF_PROJECT, before, &t.err));
    CHECK(testing_hash(testing_path(&t, "out/b"), LAYER_OF_PROJECT, after, &t.err));
    CHECK_STR(after, before);
    CHECK(testing_sh(&t, "test -x out/b/run && test ! -e out/b/fifo && test ! -x out/b/hard && "
                         "touch a/b/f && chmod 0711 a/run"));
    CHECK(testing_hash(testing_path(&t, "a"), LAYER_OF_PROJECT, after, &t.err));
    CHECK_STR(after, before);
    CHECK(lseek(tar, 0, SEEK_SET) == 0);
    CHECK(!archive_unpack(tar, testing_path(&t, "small"), 2, 100, &t.err));
    CHECK(t.err.code == ERR_ARCHIVE_TOO_LARGE);
}

TEST_MAIN()
