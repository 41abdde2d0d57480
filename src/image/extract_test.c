#include "image/extract.h"

#include <sys/sysmacros.h>
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

#define A25  "aaaaaaaaaaaaaaaaaaaaaaaaa"
#define A300 A25 A25 A25 A25 A25 A25 A25 A25 A25 A25 A25 A25

/* One entry each: a file, a folder, a link, a hard link. */
#define F(name)            {'0', name, NULL, "x", NULL}
#define D(name)            {'5', name, NULL, NULL, NULL}
#define L(name, to)        {'2', name, to, NULL, NULL}
#define H(name, to)        {'1', name, to, NULL, NULL}
#define SIZED(name, field) {'0', name, NULL, "x", field}
#define PAX(text)          {'x', "p", NULL, text, NULL}
#define LONG_NAME(text)    {'L', "././@LongLink", NULL, text, NULL}
#define MINUS_ONE          "\377\377\377\377\377\377\377\377\377\377\377\377"

static const struct hostile {
    const char *what, *says;
    struct raw entries[ROW_ENTRIES];
} hostile[] = {
    {"an absolute path",         "absolute",           {F("/evil")}                            },
    {"a way up",                 "..",                 {F("../evil")}                          },
    {"a way up later",           "..",                 {F("a/../../evil")}                     },
    {"a way up in pax",          "..",                 {PAX("16 path=../evil\n"), F("ok")}     },
    {"a way up in a long name",  "..",                 {LONG_NAME("../evil"), F("ok")}         },
    {"a link up and through",    "symbolic link",      {L("a", ".."), F("a/evil")}             },
    {"a link out and through",   "symbolic link",      {L("a", "/tmp"), F("a/evil")}           },
    {"a link inside, through",   "symbolic link",      {D("d"), L("a", "d"), F("a/f")}         },
    {"a link in the middle",     "symbolic link",      {D("d/e"), L("a", "d"), F("a/e/f")}     },
    {"a link up in the middle",  "symbolic link",      {L("a", ".."), F("a/root/f")}           },
    {"two links",                "symbolic link",      {L("a", "b"), L("b", ".."), F("a/evil")}},
    {"a folder over a link",     "symbolic link",      {L("a", ".."), D("a")}                  },
    {"a file twice",             "twice",              {F("a"), F("a")}                        },
    {"a file over a link",       "twice",              {L("a", "../evil"), F("a")}             },
    {"a file over a folder",     "twice",              {D("a"), F("a")}                        },
    {"a file below a file",      "folder",             {F("a"), F("a/b")}                      },
    {"a hard link up",           "..",                 {H("a", "../evil")}                     },
    {"an absolute hard link",    "absolute",           {H("a", "/etc/passwd")}                 },
    {"a hard link to nothing",   "not in the archive", {H("a", "b")}                           },
    {"a hard link through",      "not in the archive", {L("l", "/etc"), H("a", "l/passwd")}    },
    {"a hard link to a folder",  "not in the archive", {D("d"), H("a", "d")}                   },
    {"a whiteout of nothing",    "hides nothing",      {F("a/.wh.")}                           },
    {"a whiteout of ..",         "hides nothing",      {F(".wh...")}                           },
    {"a name over 255 bytes",    "255",                {LONG_NAME(A300), F("ok")}              },
    {"a file that is too large", "too large",          {SIZED("a", "77777777777")}             },
    {"a negative size",          "",                   {SIZED("a", MINUS_ONE)}                 },
    {"an archive cut short",     "",                   {SIZED("a", "00000010000")}             },
    {"a root that is a file",    "root",               {F(".")}                                },
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

static bool extract(struct place *place, enum extract_kind kind, struct tar_budget budget,
                    struct error *err)
{
    TAR_UTF8_SCOPE;
    AUTO(tar_reader_finish) struct tar_reader reader = {0};
    struct extract_spec spec = {kind, place->root, NULL, &budget};
    char blob[DIGEST_TEXT], diff[DIGEST_TEXT];

    return tar_reader_open(&reader, place->archive, TAR_MAY_BE_COMPRESSED, (int64_t)1 << 30, err) &&
           extract_archive(&spec, &reader, err) && tar_reader_end(&reader, blob, diff, err);
}

TEST(hostile_archives_are_refused_and_write_nothing_outside)
{
    for (size_t i = 0; i < COUNT_OF(hostile); i++) {
        for (enum extract_kind kind = EXTRACT_LAYER; kind <= EXTRACT_PROJECT; kind++) {
            bool is_marker = strstr(hostile[i].what, "whiteout") != NULL;
            if (kind == EXTRACT_PROJECT && is_marker)
                continue;
            AUTO(place_finish) struct place place = {.root = -1, .archive = -1};
            struct error err = {0};
            CHECK(place_init(&place));
            CHECK(write_archive(place.archive, hostile[i].entries, &err));
            bool ok = extract(&place, kind, (struct tar_budget){1 << 20, 100}, &err);
            /* A project refuses links out and hard links for what they are. */
            bool is_said = strstr(err.text, hostile[i].says) ||
                           (kind == EXTRACT_PROJECT &&
                            (strstr(err.text, "leads out") || strstr(err.text, "hard link")));
            if (ok || !is_said)
                printf("# %s: %s\n", hostile[i].what, ok ? "accepted" : err.text);
            CHECK(!ok && is_said);
            CHECK(err.code == ERR_ARCHIVE_INVALID || err.code == ERR_ARCHIVE_TOO_LARGE);
            CHECK(testing_sh(&place.testing, "test \"$(ls)\" = \"$(printf 'archive\\nroot')\""));
        }
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
