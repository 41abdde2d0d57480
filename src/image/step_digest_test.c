#include "image/step_digest.h"

#include "base/own.h"
#include "image/config.h"
#include "image/source.h"
#include "image/testing.h"

static const char base_plan[] = "{\"id\":\"a\",\"steps\":[{\"kind\":\"from\",\"ref\":\"node:24\"},"
                                "{\"kind\":\"run\",\"argv\":[\"npm\",\"install\"],"
                                "\"cache\":[{\"mount_path\":\"/c\",\"cache\":\"npm\"}]}]}";

static const struct {
    const char *what, *step; /* the second step, instead of the one above */
} other_steps[] = {
    {"another command",         "{\"kind\":\"run\",\"argv\":[\"npm\",\"ci\"],\"cache\":[{\"mount_path\":\"/"
                        "c\",\"cache\":\"npm\"}]}"                          },
    {"arguments cut elsewhere", "{\"kind\":\"run\",\"argv\":[\"npminstall\"],\"cache\":[{\"mount_"
                                "path\":\"/c\",\"cache\":\"npm\"}]}"},
    {"one argument more",
     "{\"kind\":\"run\",\"argv\":[\"npm\",\"install\",\"\"],\"cache\":[{\"mount_path\":\"/"
     "c\",\"cache\":\"npm\"}]}"                                                                    },
    {"another cache",
     "{\"kind\":\"run\",\"argv\":[\"npm\",\"install\"],\"cache\":[{\"mount_path\":\"/"
     "c\",\"cache\":\"bun\"}]}"                                                                    },
    {"another mount path",
     "{\"kind\":\"run\",\"argv\":[\"npm\",\"install\"],\"cache\":[{\"mount_path\":\"/"
     "d\",\"cache\":\"npm\"}]}"                                                                    },
    {"no cache",                "{\"kind\":\"run\",\"argv\":[\"npm\",\"install\"]}"                },
    {"a secret instead",
     "{\"kind\":\"run\",\"argv\":[\"npm\",\"install\"],\"secrets\":[{\"mount_path\":\"/"
     "c\",\"secret\":\"npm\"}]}"                                                                   },
    {"another secret",
     "{\"kind\":\"run\",\"argv\":[\"npm\",\"install\"],\"secrets\":[{\"mount_path\":\"/"
     "c\",\"secret\":\"NPM\"}]}"                                                                   },
    {"a secret elsewhere",
     "{\"kind\":\"run\",\"argv\":[\"npm\",\"install\"],\"secrets\":[{\"mount_path\":\"/"
     "d\",\"secret\":\"npm\"}]}"                                                                   },
    {"another kind",            "{\"kind\":\"workdir\",\"path\":\"npm\"}"                          },
};

struct inputs {
    struct step step;
    const char *parent, *content;
    struct image_config config;
};

static bool read_step(const char *text, struct arena *arena, struct inputs *inputs)
{
    const char *wrapped =
        arena_printf(arena, "{\"id\":\"a\",\"steps\":[{\"kind\":\"from\",\"ref\":\"node:24\"},%s]}",
                     text);
    struct plan plan;
    struct error err;

    if (!plan_read(str_of(wrapped), arena, &plan, &err)) {
        printf("# %s\n", err.text);
        return false;
    }
    inputs->step = plan.steps[1];
    return true;
}

static struct inputs start(struct arena *arena)
{
    static const struct str env[] = {
        {"A=1", 3},
        {"B=2", 3}
    };
    struct inputs inputs = {
        .parent = "sha256:00", .content = "", .config = {STR("/work"), STR("node"), env, 2}
    };
    struct plan plan;
    struct error err;

    if (plan_read(str_of(base_plan), arena, &plan, &err))
        inputs.step = plan.steps[1];
    return inputs;
}

static bool is_equal(const struct inputs *a, const struct inputs *b)
{
    char first[STEP_DIGEST_TEXT], second[STEP_DIGEST_TEXT];

    step_digest(&a->step, a->parent, &a->config, a->content, first);
    step_digest(&b->step, b->parent, &b->config, b->content, second);
    return strcmp(first, second) == 0;
}

TEST(the_digest_of_a_step_never_changes_by_itself)
{
    AUTO(arena_finish) struct arena arena = {0};
    struct inputs inputs = start(&arena), again = start(&arena);
    char digest[STEP_DIGEST_TEXT];

    CHECK(is_equal(&inputs, &again));
    step_digest(&inputs.step, inputs.parent, &inputs.config, "", digest);
    /* Fixed, so that an accident does not throw every cache away: a change here needs FORMAT. */
    if (strcmp(IMAGE_ARCHITECTURE, "amd64") == 0)
        CHECK_STR(digest, "27ee96391f0d7e4367d58ea5a06a1e1be4ec01ac9d328c7e241a69d4deabb5c1");
}

TEST(every_argument_counts)
{
    AUTO(arena_finish) struct arena arena = {0};
    struct inputs inputs = start(&arena);

    for (size_t i = 0; i < COUNT_OF(other_steps); i++) {
        struct inputs other = inputs;
        CHECK(read_step(other_steps[i].step, &arena, &other));
        if (is_equal(&inputs, &other))
            printf("# %s does not count\n", other_steps[i].what);
        CHECK(!is_equal(&inputs, &other));
        for (size_t j = 0; j < i; j++) {
            struct inputs third = inputs;
            CHECK(read_step(other_steps[j].step, &arena, &third));
            CHECK(!is_equal(&other, &third));
        }
    }
}

TEST(parent_content_and_configuration_count)
{
    static const struct str more[] = {
        {"A=1", 3},
        {"B=3", 3}
    };
    AUTO(arena_finish) struct arena arena = {0};
    struct inputs inputs = start(&arena), other;

    other = inputs;
    other.parent = "sha256:01";
    CHECK(!is_equal(&inputs, &other));
    other = inputs;
    other.content = "x";
    CHECK(!is_equal(&inputs, &other));
    other = inputs;
    other.config.env = more;
    CHECK(!is_equal(&inputs, &other));
    other = inputs;
    other.config.n_env = 1;
    CHECK(!is_equal(&inputs, &other));
    other = inputs;
    other.config.workdir = STR("/");
    CHECK(!is_equal(&inputs, &other));
    other = inputs;
    other.config.user = STR("root");
    CHECK(!is_equal(&inputs, &other));
}

static bool hash_of(struct testing *t, const char *step, char hash[SOURCE_HASH_TEXT])
{
    AUTO(arena_finish) struct arena arena = {0};
    AUTO(source_finish) struct source source = {0};
    AUTO_FD int project = open(t->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    struct inputs inputs;

    return read_step(step, &arena, &inputs) &&
           source_collect(project, &inputs.step, &arena, &source, &t->err) &&
           source_hash(&source, hash, &t->err);
}

static const struct {
    const char *change;
    bool counts;
} source_changes[] = {
    {"touch -d @1 p/a p/sub p",                                                         false},
    {"chown 5:6 p/a 2>/dev/null || true",                                               false},
    {"chmod 0600 p/a",                                                                  false},
    {"chmod 0711 p/sub",                                                                false},
    {"mkdir -p p/node_modules/x p/.git p/sub/.helmr && : > p/.env && : > p/.env.local", false},
    {": > p/sub/notes.md",                                                              false},
    {"mkdir p/skipped && : > p/skipped/any",                                            false},
    {": > outside",                                                                     false},
    {"chmod 0700 p/a",                                                                  true },
    {"printf B > p/a",                                                                  true },
    {"mv p/a p/b",                                                                      true },
    {": > p/.environment",                                                              true },
    {"mkdir p/empty",                                                                   true },
    {"rm p/sub/c",                                                                      true },
    {"rm p/sub/c && mkdir p/sub/c",                                                     true },
};

TEST(copied_files_count_by_path_type_bits_and_content)
{
    static const char step[] = "{\"kind\":\"copy\",\"dest\":\"/d\",\"source\":{\"directory\":\"p\","
                               "\"ignore\":[\"**/*.md\",\"skipped\"]}}";

    for (size_t i = 0; i < COUNT_OF(source_changes); i++) {
        TESTING(t);
        char before[SOURCE_HASH_TEXT], after[SOURCE_HASH_TEXT];
        CHECK(testing_sh(&t, "mkdir -p p/sub && printf A > p/a && printf C > p/sub/c"));
        CHECK(hash_of(&t, step, before));
        CHECK(testing_sh(&t, source_changes[i].change));
        CHECK(hash_of(&t, step, after));
        if ((strcmp(before, after) != 0) != source_changes[i].counts)
            printf("# %s\n", source_changes[i].change);
        CHECK((strcmp(before, after) != 0) == source_changes[i].counts);
    }
}

static const struct {
    const char *source, *says;
} bad_sources[] = {
    {"{\"file\":\"missing\"}",          "not in the project"},
    {"{\"file\":\"p\"}",                "not a file"        },
    {"{\"directory\":\"p/a\"}",         "not a directory"   },
    {"{\"file\":\"link\"}",             "symbolic link"     },
    {"{\"file\":\"folder-link/a\"}",    "symbolic link"     },
    {"{\"directory\":\"folder-link\"}", "symbolic link"     },
    {"{\"directory\":\"with-link\"}",   "symbolic link"     },
    {"{\"directory\":\"with-fifo\"}",   "special file"      },
};

TEST(sources_that_cannot_be_copied_say_why)
{
    TESTING(t);

    CHECK(testing_sh(&t, "mkdir p with-link with-fifo && : > p/a && ln -s p/a link && "
                         "ln -s p folder-link && ln -s /etc/passwd with-link/l && "
                         "mkfifo with-fifo/f"));
    for (size_t i = 0; i < COUNT_OF(bad_sources); i++) {
        char hash[SOURCE_HASH_TEXT], step[256];
        (void)snprintf(step, sizeof step, "{\"kind\":\"copy\",\"dest\":\"/d\",\"source\":%s}",
                       bad_sources[i].source);
        CHECK(!hash_of(&t, step, hash));
        if (!strstr(t.err.text, bad_sources[i].says))
            printf("# %s: %s\n", bad_sources[i].source, t.err.text);
        CHECK(t.err.code == ERR_UNPROCESSABLE && strstr(t.err.text, bad_sources[i].says));
    }
}

static const char *const bad_steps[] = {
    "{\"kind\":\"run\",\"argv\":[]}",
    "{\"kind\":\"run\"}",
    "{\"kind\":\"run\",\"argv\":[\"a\"],\"cache\":[{\"mount_path\":\"c\",\"cache\":\"x\"}]}",
    "{\"kind\":\"run\",\"argv\":[\"a\"],\"cache\":[{\"mount_path\":\"/c\",\"cache\":\"../x\"}]}",
    "{\"kind\":\"run\",\"argv\":[\"a\"],\"cache\":[{\"mount_path\":\"/\",\"cache\":\"x\"}]}",
    "{\"kind\":\"run\",\"argv\":[\"a\"],\"cache\":[{\"mount_path\":\"/a/../b\",\"cache\":\"x\"}]}",
    "{\"kind\":\"run\",\"argv\":[\"a\"],\"cache\":[{\"mount_path\":\"/a//b\",\"cache\":\"x\"}]}",
    ("{\"kind\":\"run\",\"argv\":[\"a\"],"
     "\"cache\":[{\"mount_path\":\"/opt/helmr\",\"cache\":\"x\"}]}"),
    ("{\"kind\":\"run\",\"argv\":[\"a\"],"
     "\"secrets\":[{\"mount_path\":\"/dev/s\",\"secret\":\"x\"}]}"),
    ("{\"kind\":\"run\",\"argv\":[\"a\"],\"secrets\":[{\"mount_path\":\"/s\",\"secret\":\"x\"},"
     "{\"mount_path\":\"/s\",\"secret\":\"y\"}]}"),
    ("{\"kind\":\"run\",\"argv\":[\"a\"],\"cache\":[{\"mount_path\":\"/c\",\"cache\":\"x\"}],"
     "\"secrets\":[{\"mount_path\":\"/s\",\"secret\":\"x\"}]}"),
    "{\"kind\":\"copy\",\"dest\":\"/d\"}",
    "{\"kind\":\"copy\",\"source\":{\"file\":\"a\"}}",
    "{\"kind\":\"copy\",\"dest\":\"/d\",\"source\":{\"file\":\"a\",\"directory\":\"b\"}}",
    "{\"kind\":\"copy\",\"dest\":\"/d\",\"source\":{\"file\":\"/etc/passwd\"}}",
    "{\"kind\":\"copy\",\"dest\":\"/d\",\"source\":{\"file\":\"../a\"}}",
    "{\"kind\":\"copy\",\"dest\":\"/d\",\"source\":{\"file\":\"a/.env\"}}",
    "{\"kind\":\"copy\",\"dest\":\"/d\",\"source\":{\"directory\":\"node_modules/x\"}}",
    "{\"kind\":\"copyFrom\",\"dest\":\"/d\",\"image\":\"b\"}",
    "{\"kind\":\"env\",\"key\":\"A=B\",\"value\":\"\"}",
    "{\"kind\":\"env\",\"value\":\"x\"}",
    "{\"kind\":\"user\"}",
    "{\"kind\":\"from\",\"ref\":\"node:24\"}",
    "{\"kind\":\"expose\",\"path\":\"80\"}",
    "{\"kind\":\"workdir\",\"path\":\"/a\",\"surprise\":1}",
};

TEST(plans_that_break_a_rule_are_refused)
{
    for (size_t i = 0; i < COUNT_OF(bad_steps); i++) {
        AUTO(arena_finish) struct arena arena = {0};
        const char *text =
            arena_printf(&arena,
                         "{\"id\":\"a\",\"steps\":[{\"kind\":\"from\",\"ref\":\"node:24\"},%s]}",
                         bad_steps[i]);
        struct plan plan;
        struct error err;
        bool ok = plan_read(str_of(text), &arena, &plan, &err);
        if (ok)
            printf("# accepted: %s\n", bad_steps[i]);
        CHECK(!ok && (err.code == ERR_INVALID || err.code == ERR_UNKNOWN_FIELD));
    }
}

TEST(a_step_is_one_short_line)
{
    AUTO(arena_finish) struct arena arena = {0};
    struct inputs inputs;
    char text[STEP_TEXT];

    CHECK(read_step("{\"kind\":\"run\",\"argv\":[\"sh\",\"-c\",\"a\\nb\"]}", &arena, &inputs));
    step_text(&inputs.step, text);
    CHECK_STR(text, "RUN sh -c a b");
    CHECK(read_step("{\"kind\":\"env\",\"key\":\"TOKEN\",\"value\":\"hidden\"}", &arena, &inputs));
    step_text(&inputs.step, text);
    CHECK_STR(text, "ENV TOKEN");
    char *many = arena_alloc(&arena, 1024);
    for (size_t i = 0; i < 300; i++)
        memcpy(many + 2 * i, "\xc3\xa9", sizeof "\xc3\xa9");
    CHECK(read_step(arena_printf(&arena, "{\"kind\":\"workdir\",\"path\":\"%s\"}", many), &arena,
                    &inputs));
    step_text(&inputs.step, text);
    size_t len = strlen(text);
    CHECK(len < STEP_TEXT && strcmp(text + len - 3, "…") == 0);
    CHECK(((unsigned char)text[len - 4] & 0xc0) == 0x80);
}

TEST_MAIN()
