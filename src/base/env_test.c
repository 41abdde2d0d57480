#include "base/env.h"

#include <stdlib.h>
#include <unistd.h>

#include "base/file.h"
#include "base/test.h"

static struct error err;

static const char *value_in(const char *text, const char *name)
{
    static struct arena arena;
    struct env_pair *pairs;
    size_t n;

    arena_finish(&arena);
    if (!env_parse(str_of(text), &arena, &pairs, &n, &err))
        return err.text;
    for (size_t i = n; i > 0; i--) {
        if (!strcmp(pairs[i - 1].name, name))
            return pairs[i - 1].value;
    }
    return "(none)";
}

TEST(the_forms_of_a_line)
{
    CHECK_STR(value_in("A=1", "A"), "1");
    CHECK_STR(value_in("\n# note\n  export A = two words  \n", "A"), "two words");
    CHECK_STR(value_in("A=value # note", "A"), "value");
    CHECK_STR(value_in("A=value#part", "A"), "value#part");
    CHECK_STR(value_in("A=# note", "A"), "");
    CHECK_STR(value_in("A=", "A"), "");
    CHECK_STR(value_in("A='it is \\n # literal'", "A"), "it is \\n # literal");
    CHECK_STR(value_in("A=\"a\\nb\\t\\\"c\\\"\\\\\" # note", "A"), "a\nb\t\"c\"\\");
    CHECK_STR(value_in("A=1\r\nB=2\r\n", "A"), "1");
    CHECK_STR(value_in("A=1\nA=2", "A"), "2");
    CHECK_STR(value_in("A=b=c", "A"), "b=c");
    CHECK_STR(value_in("exported=1", "exported"), "1");
}

TEST(a_wrong_line_is_named)
{
    CHECK_STR(value_in("A=1\nnonsense", "A"), "line 2 is not KEY=VALUE");
    CHECK_STR(value_in("1A=1", "A"), "line 1 is not KEY=VALUE");
    CHECK_STR(value_in("A-B=1", "A"), "line 1 is not KEY=VALUE");
    CHECK_STR(value_in("=1", "A"), "line 1 is not KEY=VALUE");
    CHECK_STR(value_in("A='open", "A"), "line 1: the quotes of A do not end well");
    CHECK_STR(value_in("A=\"bad \\q\"", "A"), "line 1: the quotes of A do not end well");
    CHECK_STR(value_in("A='x' y", "A"), "line 1: the quotes of A do not end well");
}

/* A file with these lines, loaded and gone again. */
static bool load(struct env *env, const char *lines)
{
    char path[] = "/tmp/env_test.XXXXXX";
    int fd = mkstemp(path);
    bool fine = fd >= 0 && fd_write_all(fd, str_of(lines), &err) && env_load(env, path, &err);

    close(fd);
    unlink(path);
    return fine;
}

TEST(the_process_wins_over_the_file)
{
    AUTO(env_finish) struct env env = {0};

    CHECK(load(&env, "HELMR_T_A=file\nHELMR_T_B=file\nHELMR_T_C=file\n"));
    setenv("HELMR_T_A", "process", 1);
    setenv("HELMR_T_B", "", 1);
    CHECK_STR(env_text(&env, "HELMR_T_A", "x"), "process");
    CHECK_STR(env_text(&env, "HELMR_T_B", "x"), "file");
    CHECK_STR(env_text(&env, "HELMR_T_C", "x"), "file");
    CHECK_STR(env_text(&env, "HELMR_T_D", "x"), "x");
    CHECK(!env_find(&env, "HELMR_T_D"));
    unsetenv("HELMR_T_A");
    unsetenv("HELMR_T_B");
}

TEST(a_missing_file_is_empty_and_a_broken_one_is_an_error)
{
    AUTO(env_finish) struct env env = {0};

    CHECK(env_load(&env, "/no/such/file", &err));
    CHECK(!load(&env, "nonsense"));
    CHECK(strstr(err.text, "line 1 is not KEY=VALUE"));
}

TEST(typed_values_are_checked_and_errors_name_the_variable)
{
    AUTO(env_finish) struct env env = {0};
    int64_t number;
    bool yes;

    CHECK(load(&env, "N=12\nBAD=12x\nBIG=99999999999999999999\nYES=On\nNO=0\nS=8MiB\nT=3KB\nM=-1"));
    CHECK(env_int(&env, "N", 1, 20, 5, &number, &err) && number == 12);
    CHECK(env_int(&env, "NONE", 1, 20, 5, &number, &err) && number == 5);
    CHECK(!env_int(&env, "N", 1, 11, 5, &number, &err));
    CHECK_STR(err.text, "N must be a whole number from 1 to 11");
    CHECK(!env_int(&env, "BAD", 1, 20, 5, &number, &err));
    CHECK(!env_int(&env, "BIG", 1, INT64_MAX, 5, &number, &err));
    CHECK(env_bool(&env, "YES", false, &yes, &err) && yes);
    CHECK(env_bool(&env, "NO", true, &yes, &err) && !yes);
    CHECK(env_bool(&env, "NONE", true, &yes, &err) && yes);
    CHECK(!env_bool(&env, "N", true, &yes, &err));
    CHECK(env_size(&env, "S", 0, &number, &err) && number == 8 << 20);
    CHECK(env_size(&env, "N", 0, &number, &err) && number == 12);
    CHECK(!env_size(&env, "T", 0, &number, &err));
    CHECK(!env_size(&env, "M", 0, &number, &err));
    CHECK(!env_size(&env, "BIG", 0, &number, &err));
    CHECK_STR(err.text, "BIG must be a size such as 512MiB");
}

TEST(a_secret_comes_from_the_variable_or_from_its_file_but_not_both)
{
    AUTO(env_finish) struct env env = {0};
    AUTO(secret_finish) struct secret plain = {0};
    AUTO(secret_finish) struct secret from_file = {0};
    AUTO(secret_finish) struct secret none = {0};
    char path[] = "/tmp/env_test.XXXXXX", lines[256];
    int fd = mkstemp(path);

    /* Variables of the process win, and these are short names. */
    unsetenv("A");
    unsetenv("B");
    unsetenv("C");

    CHECK(fd >= 0 && fd_write_all(fd, STR("s3cret\n"), &err));
    close(fd);
    snprintf(lines, sizeof lines, "A=plain\nB_FILE=%s\nC=x\nC_FILE=%s\nD_FILE=/no/such/file", path,
             path);
    CHECK(load(&env, lines));

    bool fine = env_secret(&env, "B", &from_file, &err);

    unlink(path);
    CHECK(fine && secret_equals(&from_file, STR("s3cret")));
    CHECK(env_secret(&env, "A", &plain, &err) && secret_equals(&plain, STR("plain")));
    CHECK(env_secret(&env, "Z", &none, &err) && !secret_is_set(&none));
    CHECK(!env_secret(&env, "C", &none, &err));
    CHECK_STR(err.text, "C and C_FILE are both set");
    CHECK(!env_secret(&env, "D", &none, &err) && !strncmp(err.text, "D_FILE: ", 8));
}

TEST(unknown_variables_are_found_in_both_places)
{
    static const char *const names[] = {"HELMR_T_KNOWN", NULL};
    AUTO(env_finish) struct env env = {0};
    const char *name;
    size_t at = 0, n = 0;
    bool seen_process = false, seen_file = false;

    CHECK(load(&env, "HELMR_T_TYPO=1\nHELMR_T_KNOWN=1\nOTHER=1\nHELMR_T_KNOWN_FILE=x"));
    setenv("HELMR_T_PROCESS", "1", 1);
    for (; env_unknown(&env, "HELMR_T_", names, &at, &name); n++) {
        seen_process = seen_process || !strcmp(name, "HELMR_T_PROCESS");
        seen_file = seen_file || !strcmp(name, "HELMR_T_TYPO");
    }
    unsetenv("HELMR_T_PROCESS");
    CHECK(n == 2 && seen_process && seen_file);
}

TEST_MAIN()
