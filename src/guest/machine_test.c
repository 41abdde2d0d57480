/* What the agent of a machine reads: command line, order of modules, disks, ports. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/file.h"
#include "base/test.h"
#include "guest/clock.h"
#include "guest/drives.h"
#include "guest/modules.h"
#include "guest/transport.h"

static char folder[64];

static bool begin(void)
{
    snprintf(folder, sizeof folder, "/tmp/helmr-machine-XXXXXX");
    return mkdtemp(folder) != NULL;
}

static void end(void)
{
    struct error ignored;

    (void)!folder_remove(folder, &ignored);
}

static bool put(const char *directory, const char *name, const char *text)
{
    char path[256];
    struct error err;

    snprintf(path, sizeof path, "%s/%s", folder, directory);
    if (!directory_make(path, 0755, &err))
        return false;
    snprintf(path, sizeof path, "%s/%s/%s", folder, directory, name);
    return file_publish(path, str_of(text), 0644, &err);
}

TEST(a_command_line_says_what_is_ours)
{
    struct kernel_line line;
    struct error err = {0};

    CHECK(kernel_line_parse(STR("quiet panic=-1 helmr.channel=vsock helmr.abi=12 "
                                "helmr.drives=root,scratch,bundle xhelmr.abi=z\n"),
                            &line, &err));
    CHECK(line.transport == TRANSPORT_VSOCK && line.abi == 12 && line.n_drives == 3);
    CHECK(str_equal(line.drives[2], STR("bundle")));
    CHECK(kernel_line_parse(STR("quiet"), &line, &err));
    CHECK(line.transport == TRANSPORT_SERIAL && line.abi == 0 && line.n_drives == 0);
}

TEST(a_command_line_that_is_not_understood_is_refused)
{
    static const char *const bad[] = {
        "helmr.channel=pigeon",
        "helmr.channel=",
        "helmr.abi=",
        "helmr.abi=two",
        "helmr.abi=99999999",
        "helmr.drives=root,,scratch",
        "helmr.drives=a,b,c,d,e,f,g,h,i",
    };
    struct kernel_line line;
    struct error err;

    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        CHECK(!kernel_line_parse(str_of(bad[i]), &line, &err));
}

static char loaded[512];

static bool note(const char *file, struct error *err)
{
    if (strstr(file, "broken"))
        return error_set(err, ERR_INTERNAL, "broken");
    size_t len = strlen(loaded);
    snprintf(loaded + len, sizeof loaded - len, "%s ", strrchr(file, '/') + 1);
    return true;
}

TEST(modules_are_loaded_in_order_and_for_the_channel)
{
    struct error err = {0};

    CHECK(begin() && put("m", "order", "a.ko\nb.ko serial\nc.ko vsock\n\nd.ko\n"));
    char path[128];
    snprintf(path, sizeof path, "%s/m", folder);
    loaded[0] = '\0';
    bool is_serial = modules_each(path, TRANSPORT_SERIAL, note, &err);
    bool is_vsock = modules_each(path, TRANSPORT_VSOCK, note, &err);
    end();
    CHECK(is_serial && is_vsock);
    CHECK_STR(loaded, "a.ko b.ko d.ko a.ko c.ko d.ko ");
}

TEST(the_first_module_that_fails_ends_it)
{
    struct error err = {0};
    char path[128];

    CHECK(begin() && put("m", "order", "a.ko\nbroken.ko\nc.ko\n"));
    snprintf(path, sizeof path, "%s/m", folder);
    loaded[0] = '\0';
    bool is_fine = modules_each(path, TRANSPORT_SERIAL, note, &err);
    end();
    CHECK(!is_fine);
    CHECK_STR(loaded, "a.ko ");
}

static bool finds(const char *line_text, const char *name, const char *wanted)
{
    struct kernel_line line;
    struct error err = {0};
    char device[DRIVE_DEVICE_MAX] = "";

    if (!kernel_line_parse(str_of(line_text), &line, &err))
        return false;
    bool is_found = drive_find(folder, &line, name, device, &err);
    return wanted ? is_found && strcmp(device, wanted) == 0
                  : !is_found && err.code == ERR_NOT_FOUND;
}

TEST(drives_are_found_in_any_order)
{
    CHECK(begin() && put("vda", "serial", "helmr-scratch\n") && put("vdb", "serial", "other\n") &&
          put("vdc", "serial", "helmr-root\n") && put("loop0", "serial", "helmr-bundle"));
    bool is_fine = finds("helmr.drives=root,scratch,bundle", "root", "vdc") &&
                   finds("helmr.drives=root,scratch,bundle", "scratch", "vda") &&
                   finds("helmr.drives=root,scratch,bundle", "bundle", NULL);
    end();
    CHECK(is_fine);
}

TEST(drives_without_serials_are_taken_in_the_order_of_the_command_line)
{
    CHECK(begin());
    char name[8] = "vda";
    for (int letter = 'a'; letter <= 'z'; letter++) {
        name[2] = (char)letter;
        CHECK(put(name, "size", "8"));
    }
    CHECK(put("vdaa", "serial", "\n"));
    bool is_fine = finds("helmr.drives=root,scratch", "scratch", "vdb") &&
                   finds("helmr.drives=root,scratch", "bundle", NULL) &&
                   finds("quiet", "root", NULL);
    end();
    CHECK(is_fine);
}

TEST(a_port_is_found_by_its_name)
{
    struct error err = {0};
    char device[64] = "";

    CHECK(begin() && put("vport0p1", "name", "console\n") &&
          put("vport1p1", "name", "helmr.channel\n"));
    bool is_found = transport_find_port(folder, "helmr.channel", device, &err);
    bool is_other = transport_find_port(folder, "helmr", device, &err);
    end();
    CHECK(is_found && !is_other && err.code == ERR_NOT_FOUND);
    CHECK_STR(device, "/dev/vport1p1");
}

TEST(a_new_connection_replaces_the_old_one)
{
    struct transport transport = {.in = -1, .out = -1, .listener = -1};
    struct error err = {0};
    int first[2], second[2];
    char byte;

    CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, first) == 0 &&
          socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, second) == 0);
    CHECK(!transport_accept(&transport));
    CHECK(transport_take(&transport, first[1], &err) && transport.in != transport.out);
    CHECK(transport_take(&transport, second[1], &err));
    CHECK(read(first[0], &byte, 1) == 0);
    CHECK(write(transport.out, "x", 1) == 1 && read(second[0], &byte, 1) == 1 && byte == 'x');
    close(first[0]);
    close(second[0]);
    close(transport.in);
    close(transport.out);
}

/* Whatever is no vsock connection from the host has no address of its. */
TEST(a_stranger_does_not_become_the_host)
{
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    struct transport transport = {.in = -1, .out = -1};
    char byte;

    CHECK(begin());
    snprintf(name.sun_path, sizeof name.sun_path, "%s/listener", folder);
    transport.listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    int stranger = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK(transport.listener >= 0 && stranger >= 0);
    bool is_there = bind(transport.listener, (const struct sockaddr *)&name, sizeof name) == 0 &&
                    listen(transport.listener, 4) == 0 &&
                    connect(stranger, (const struct sockaddr *)&name, sizeof name) == 0;
    end();
    CHECK(is_there && !transport_accept(&transport) && transport.in == -1);
    CHECK(read(stranger, &byte, 1) == 0);
    close(stranger);
    close(transport.listener);
}

static const int64_t millisecond = 1000000;

TEST(a_clock_that_is_behind_is_set_at_once)
{
    struct clock_watch watch = {0};

    CHECK(clock_correction(&watch, -5 * millisecond) == 0);
    CHECK(clock_correction(&watch, -40 * millisecond) == 40 * millisecond);
    CHECK(clock_correction(&watch, -3600000 * millisecond) == 3600000 * millisecond);
}

TEST(a_clock_that_only_looks_early_is_left_alone)
{
    struct clock_watch watch = {0};

    /* One message that came quickly tells that the others were late. */
    for (int round = 0; round < 3; round++) {
        CHECK(clock_correction(&watch, 900 * millisecond) == 0);
        CHECK(clock_correction(&watch, 2 * millisecond) == 0);
        CHECK(clock_correction(&watch, 700 * millisecond) == 0);
        CHECK(clock_correction(&watch, 5000 * millisecond) == 0);
    }
}

TEST(a_clock_that_is_early_again_and_again_goes_back_by_the_least)
{
    struct clock_watch watch = {0};

    for (int i = 0; i < CLOCK_LOOKS - 1; i++)
        CHECK(clock_correction(&watch, 900 * millisecond) == 0);
    CHECK(clock_correction(&watch, 300 * millisecond) == -300 * millisecond);
    CHECK(watch.n == 0);
}

TEST_MAIN()
