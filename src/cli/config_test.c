#include "cli/config.h"

#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/test.h"
#include "cli/testing.h"

static struct error err;
static struct arena arena;

static const char *fresh_directory(void)
{
    static char root[TEMPORARY_TEXT];

    unsetenv("HELMR_API_URL");
    if (!temporary_make(root) || setenv("HELMR_CONFIG_DIR", root, 1) != 0)
        return NULL;
    return root;
}

TEST(the_directory_is_the_first_that_is_named)
{
    const char *path;

    setenv("HOME", "/home/ada", 1);
    unsetenv("HELMR_CONFIG_DIR");
    unsetenv("XDG_CONFIG_HOME");
    CHECK(config_directory(&arena, &path, &err));
    CHECK_STR(path, "/home/ada/.config/helmr");
    setenv("XDG_CONFIG_HOME", "/x", 1);
    CHECK(config_directory(&arena, &path, &err));
    CHECK_STR(path, "/x/helmr");
    setenv("HELMR_CONFIG_DIR", "/own", 1);
    CHECK(config_directory(&arena, &path, &err));
    CHECK_STR(path, "/own");
    setenv("HELMR_CONFIG_DIR", "", 1);
    setenv("XDG_CONFIG_HOME", "", 1);
    unsetenv("HOME");
    CHECK(!config_directory(&arena, &path, &err));
}

TEST(a_login_is_saved_for_its_server_and_makes_it_the_default)
{
    const char *root = fresh_directory(), *url;
    struct secret token = secret_create(STR("hlmr_us_a")), found;

    CHECK(root && config_url(NULL, &arena, &url, &err));
    CHECK_STR(url, CONFIG_DEFAULT_URL);
    CHECK(config_login("http://127.0.0.1:1", &found, &err) && !secret_is_set(&found));
    CHECK(config_save_login("http://127.0.0.1:1", &token, &err));
    CHECK(config_save_login("http://127.0.0.1:2", &token, &err));
    CHECK(config_url(NULL, &arena, &url, &err));
    CHECK_STR(url, "http://127.0.0.1:2");
    CHECK(config_login("http://127.0.0.1:1", &found, &err) &&
          secret_equals(&found, STR("hlmr_us_a")));
    secret_finish(&found);
    secret_finish(&token);

    struct stat info;

    CHECK(stat(arena_printf(&arena, "%s/credentials.toml", root), &info) == 0);
    CHECK((info.st_mode & 0777) == 0600);
    CHECK(temporary_remove(root));
}

TEST(a_flag_wins_over_the_variable_and_that_over_the_file)
{
    const char *root = fresh_directory(), *url;

    CHECK(root && file_publish(arena_printf(&arena, "%s/config.toml", root),
                               STR("default_host = \"https://file\"\n"), 0600, &err));
    CHECK(config_url(NULL, &arena, &url, &err));
    CHECK_STR(url, "https://file");
    setenv("HELMR_API_URL", "https://VARIABLE.example/Base/", 1);
    CHECK(config_url(NULL, &arena, &url, &err));
    CHECK_STR(url, "https://variable.example/Base");
    CHECK(config_url("http://127.0.0.1:9", &arena, &url, &err));
    CHECK_STR(url, "http://127.0.0.1:9");
    unsetenv("HELMR_API_URL");
    CHECK(temporary_remove(root));
}

TEST(one_login_is_forgotten_and_the_others_stay)
{
    const char *root = fresh_directory();
    struct secret token = secret_create(STR("t")), found;

    CHECK(config_save_login("http://a", &token, &err) &&
          config_save_login("http://b", &token, &err));
    secret_finish(&token);
    CHECK(config_forget_login("http://a", &err) && config_forget_login("http://c", &err));
    CHECK(config_login("http://a", &found, &err) && !secret_is_set(&found));
    CHECK(config_login("http://b", &found, &err) && secret_is_set(&found));
    secret_finish(&found);
    CHECK(config_forget_login("http://b", &err));
    CHECK(config_login("http://b", &found, &err) && !secret_is_set(&found));
    CHECK(temporary_remove(root));
}

TEST(an_address_that_cannot_be_one_is_refused)
{
    static const char *const wrong[] = {"",         "localhost:3000", "ftp://x",    "http://",
                                        "http:///", "http://x?y",     "http://x#y", "unix:/tmp/x"};
    const char *url;

    for (size_t i = 0; i < COUNT_OF(wrong); i++)
        CHECK(!config_normalise_url(wrong[i], &arena, &url, &err));
}

TEST(credentials_that_others_may_read_are_refused)
{
    const char *root = fresh_directory(), *path;
    struct secret found;

    path = arena_printf(&arena, "%s/credentials.toml", root);
    CHECK(file_publish(path, STR("\"http://a\" = \"b\"\n"), 0644, &err));
    CHECK(!config_login("http://a", &found, &err));
    CHECK(strstr(err.text, "chmod 600") != NULL);
    CHECK(temporary_remove(root));
}

/* As the program of libsecret behaves: the secret comes by stdin, lookup prints it without a
 * newline and fails when there is none. Without the file `locked` it answers. */
static const char stand_in[] =
    "#!/bin/sh\n"
    "cd \"$(dirname \"$0\")\" || exit 1\n"
    "[ ! -e locked ] || { echo 'secret-tool: Cannot get secret of a locked object' >&2; exit 1; }\n"
    "verb=$1; shift\n"
    "[ \"$1\" != --label ] || shift 2\n"
    "[ \"$1 $2 $3\" = 'service helmr-cli account' ] || exit 2\n"
    "file=kept-$(printf %s \"$4\" | tr -c a-z0-9 _)\n"
    "case $verb in\n"
    "store) cat >\"$file\" ;;\n"
    "lookup) [ -s \"$file\" ] && cat \"$file\" ;;\n"
    "clear) rm -f \"$file\" ;;\n"
    "*) exit 2 ;;\n"
    "esac\n";

static bool has_file(const char *root, const char *name)
{
    struct stat info;

    return stat(arena_printf(&arena, "%s/%s", root, name), &info) == 0;
}

/* Where programs are looked for, as it is now. */
static const char *search_path(void)
{
    const char *path = getenv("PATH");

    return path ? arena_text(&arena, str_of(path)) : "";
}

/* A session with a bus, whose secret-tool is ours; what was set before comes back. */
static const char *session_with_keyring(void)
{
    const char *root = fresh_directory(), *path = search_path();

    unsetenv("HELMR_CONFIG_DIR");
    if (!root ||
        !file_publish(arena_printf(&arena, "%s/secret-tool", root), str_of(stand_in), 0755, &err) ||
        setenv("XDG_CONFIG_HOME", root, 1) != 0 ||
        setenv("DBUS_SESSION_BUS_ADDRESS", "unix:path=/nowhere", 1) != 0 ||
        setenv("PATH", arena_printf(&arena, "%s:%s", root, path), 1) != 0)
        return NULL;
    return root;
}

static void end_session(const char *path)
{
    setenv("PATH", path, 1);
    unsetenv("DBUS_SESSION_BUS_ADDRESS");
    unsetenv("XDG_CONFIG_HOME");
}

static bool finds(const char *url, const char *text)
{
    struct secret found;
    bool is_found = config_login(url, &found, &err) &&
                    (text ? secret_equals(&found, str_of(text)) : !secret_is_set(&found));

    secret_finish(&found);
    return is_found;
}

TEST(a_login_is_in_the_keyring_of_the_session_when_there_is_one)
{
    const char *path = search_path(), *url = "http://a:1";
    const char *root = session_with_keyring(), *file = arena_printf(&arena, "%s/helmr", root);
    struct secret old = secret_create(STR("old")), token = secret_create(STR("hlmr_us_a"));

    /* One that was kept in a file is found, and goes from there when a new one is saved. */
    CHECK(root && file_publish(arena_printf(&arena, "%s/locked", root), STR(""), 0600, &err));
    CHECK(config_save_login(url, &old, &err) && has_file(file, "credentials.toml"));
    CHECK(unlink(arena_printf(&arena, "%s/locked", root)) == 0);
    CHECK(finds(url, "old"));
    CHECK(config_save_login(url, &token, &err) && finds(url, "hlmr_us_a"));
    CHECK(finds("http://b:1", NULL));
    AUTO_FREE char *left = NULL;
    CHECK(file_read(arena_printf(&arena, "%s/credentials.toml", file), 4096, &left, &err));
    CHECK_STR(left, "");

    /* Whoever names a directory has files there and nothing else. */
    setenv("HELMR_CONFIG_DIR", file, 1);
    CHECK(finds(url, NULL));
    unsetenv("HELMR_CONFIG_DIR");
    CHECK(config_forget_login(url, &err) && finds(url, NULL));
    secret_finish(&old);
    secret_finish(&token);
    end_session(path);
    CHECK(temporary_remove(root));
}

TEST(without_a_program_that_asks_it_the_keyring_is_none)
{
    const char *path = search_path(), *url = "http://a:1";
    const char *root = session_with_keyring();
    struct secret token = secret_create(STR("hlmr_us_a"));

    CHECK(root && unlink(arena_printf(&arena, "%s/secret-tool", root)) == 0);
    setenv("PATH", root, 1);
    CHECK(config_save_login(url, &token, &err) && finds(url, "hlmr_us_a"));
    CHECK(has_file(root, "helmr/credentials.toml"));
    secret_finish(&token);
    end_session(path);
    CHECK(temporary_remove(root));
}

TEST(a_file_that_is_not_understood_is_named_and_kept)
{
    const char *root = fresh_directory(), *path, *url;
    struct secret token = secret_create(STR("t"));

    path = arena_printf(&arena, "%s/config.toml", root);
    CHECK(file_publish(path, STR("[table]\n"), 0600, &err));
    CHECK(!config_url(NULL, &arena, &url, &err) && strstr(err.text, path));
    CHECK(!config_save_login("http://a", &token, &err));
    secret_finish(&token);
    CHECK(temporary_remove(root));
}

TEST_MAIN()
