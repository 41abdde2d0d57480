#include "base/log.h"

#include <fcntl.h>
#include <pthread.h>

#include "base/own.h"
#include "base/test.h"

/* What one call writes, with the time cut off. */
static const char *captured(void (*write_line)(void))
{
    static char text[128 * 1024];
    int ends[2], saved = dup(STDERR_FILENO);

    if (saved < 0 || pipe2(ends, O_CLOEXEC) < 0 || fcntl(ends[1], F_SETPIPE_SZ, 1 << 20) < 0)
        return "no pipe";
    dup2(ends[1], STDERR_FILENO);
    write_line();
    dup2(saved, STDERR_FILENO);
    close(saved);
    close(ends[1]);

    size_t len = 0;
    for (ssize_t n; (n = read(ends[0], text + len, sizeof text - 1 - len)) > 0;)
        len += (size_t)n;
    close(ends[0]);
    text[len] = '\0';

    char *level = strstr(text, "level");
    return level ? level : text;
}

static void plain(void)
{
    log_info("run leased", LOG_STR("run", "abc"), LOG_INT("attempt", -2));
}

static void hostile(void)
{
    log_warn("x", LOG_STR("name", "a\nlevel=error event=\"forged\""), LOG_STR("empty", ""));
}

static void too_quiet(void)
{
    log_debug("nobody sees this");
}

static void enormous(void)
{
    static char huge[100000];
    struct log_field fields[200];

    memset(huge, 'y', sizeof huge - 1);
    for (size_t i = 0; i < COUNT_OF(fields); i++)
        fields[i] = LOG_STR("field", huge);
    log_write(LOG_ERROR, "big", fields, COUNT_OF(fields));
}

TEST(text_lines_are_keys_and_values)
{
    log_setup(LOG_INFO, LOG_TEXT, "server");
    CHECK_STR(captured(plain), "level=info role=server event=\"run leased\" run=abc attempt=-2\n");
}

TEST(json_lines_are_objects)
{
    log_setup(LOG_INFO, LOG_JSON, "worker");
    CHECK_STR(captured(plain), "level\":\"info\",\"role\":\"worker\",\"event\":\"run leased\","
                               "\"run\":\"abc\",\"attempt\":-2}\n");
}

TEST(a_value_cannot_forge_a_line)
{
    log_setup(LOG_INFO, LOG_TEXT, NULL);
    CHECK_STR(captured(hostile),
              "level=warn event=x name=\"a\\nlevel=error event=\\\"forged\\\"\" empty=\"\"\n");
}

TEST(below_the_level_nothing_is_written)
{
    log_setup(LOG_INFO, LOG_TEXT, NULL);
    CHECK_STR(captured(too_quiet), "");
    log_setup(LOG_DEBUG, LOG_TEXT, NULL);
    CHECK_STR(captured(too_quiet), "level=debug event=\"nobody sees this\"\n");
}

TEST(a_line_is_bounded_and_still_whole)
{
    log_setup(LOG_INFO, LOG_JSON, NULL);

    const char *line = captured(enormous);
    size_t len = strlen(line);

    CHECK(len > 1024 && len <= 65536);
    CHECK_STR(line + len - 4, "y\"}\n");
}

static void *write_some(void *arg UNUSED)
{
    for (int i = 0; i < 100; i++)
        log_info("tick", LOG_INT("n", 7));
    return NULL;
}

static void from_threads(void)
{
    pthread_t threads[4];

    for (size_t i = 0; i < COUNT_OF(threads); i++)
        pthread_create(&threads[i], NULL, write_some, NULL);
    for (size_t i = 0; i < COUNT_OF(threads); i++)
        pthread_join(threads[i], NULL);
}

TEST(lines_of_several_threads_never_mix)
{
    log_setup(LOG_INFO, LOG_TEXT, NULL);

    struct str rest = str_of(captured(from_threads)), line;
    int n = 0;

    while (str_split(&rest, '\n', &line)) {
        static const char end[] = "level=info event=tick n=7";

        if (!line.len)
            continue;
        n++;
        CHECK(line.len >= sizeof end - 1);
        CHECK(!memcmp(line.ptr + line.len - (sizeof end - 1), end, sizeof end - 1));
    }
    CHECK(n == 400);
}

TEST(levels_and_formats_have_names)
{
    enum log_level level;
    enum log_format format;

    CHECK(log_level_parse(STR("warn"), &level) && level == LOG_WARN);
    CHECK(!log_level_parse(STR("WARN"), &level));
    CHECK(log_format_parse(STR("json"), &format) && format == LOG_JSON);
    CHECK(!log_format_parse(STR("xml"), &format));
}

TEST_MAIN()
