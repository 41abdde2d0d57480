#include "engine/guest_files.h"

#include <stdlib.h>

#include "base/file.h"
#include "base/own.h"
#include "base/test.h"

struct folder {
    char path[32];
};

static void folder_finish(struct folder *folder)
{
    struct error err;

    if (folder->path[0] && !folder_remove(folder->path, &err))
        printf("# left behind: %s\n", folder->path);
}

static bool put(const struct folder *folder, const char *name, const char *text)
{
    char path[64];
    struct error err;

    (void)snprintf(path, sizeof path, "%s/%s", folder->path, name);
    return file_publish(path, str_of(text), 0644, &err);
}

/* The list that goes with such files. */
static bool put_list(const struct folder *folder, struct str kernel_text)
{
    char kernel[SHA256_HEX], initrd[SHA256_HEX], unpacked[SHA256_HEX], list[320];

    sha256_of(kernel_text, kernel);
    sha256_of(STR("an initramfs"), initrd);
    sha256_of(STR("the kernel, unpacked"), unpacked);
    (void)snprintf(list, sizeof list, "{\"kernel\":\"%s\",\"initrd\":\"%s\",\"vmlinux\":\"%s\"}",
                   kernel, initrd, unpacked);
    return put(folder, "artefacts.json", list);
}

static bool folder_init(struct folder *folder)
{
    *folder = (struct folder){"/tmp/helmr-guest-files-XXXXXX"};
    return mkdtemp(folder->path) && put(folder, "kernel", "a kernel") &&
           put(folder, "initrd", "an initramfs") &&
           put(folder, "vmlinux", "the kernel, unpacked") && put_list(folder, STR("a kernel"));
}

TEST(files_that_are_what_the_list_says_are_found_with_their_digests)
{
    AUTO(folder_finish) struct folder folder = {0};
    struct guest_files files;
    char digest[SHA256_HEX];
    struct error err;

    CHECK(folder_init(&folder) && guest_files_find(folder.path, &files, &err));
    sha256_of(STR("a kernel"), digest);
    CHECK_STR(files.kernel_digest, digest);
    sha256_of(STR("an initramfs"), digest);
    CHECK_STR(files.initrd_digest, digest);
    CHECK(strstr(files.kernel, folder.path) && strstr(files.initrd, "/initrd"));
}

TEST(a_file_that_was_changed_is_not_booted)
{
    AUTO(folder_finish) struct folder folder = {0};
    struct guest_files files;
    struct error err = {0};

    CHECK(folder_init(&folder) && put(&folder, "initrd", "another initramfs"));
    CHECK(!guest_files_find(folder.path, &files, &err) && err.code == ERR_INVALID);
    CHECK(strstr(err.text, "initrd"));
}

TEST(the_unpacked_kernel_is_what_the_list_says_too)
{
    AUTO(folder_finish) struct folder folder = {0};
    struct guest_files files;
    char path[PATH_MAX];
    struct error err = {0};

    CHECK(folder_init(&folder) && guest_files_find(folder.path, &files, &err));
    CHECK(guest_files_unpacked(&files, path, &err) && strstr(path, "/vmlinux"));
    CHECK(put(&folder, "vmlinux", "another kernel"));
    CHECK(!guest_files_unpacked(&files, path, &err) && err.code == ERR_INVALID);
}

TEST(files_that_are_replaced_while_they_are_used_are_refused)
{
    AUTO(folder_finish) struct folder folder = {0};
    struct guest_files files;
    struct error err = {0};

    CHECK(folder_init(&folder) && guest_files_find(folder.path, &files, &err));
    CHECK(guest_files_find(folder.path, &files, &err));
    CHECK(put(&folder, "kernel", "a newer kernel") && put_list(&folder, STR("a newer kernel")));
    CHECK(!guest_files_find(folder.path, &files, &err) && err.code == ERR_CONFLICT);
    /* The same bytes in another file are the same kernel. */
    CHECK(put(&folder, "kernel", "a kernel") && put_list(&folder, STR("a kernel")));
    CHECK(guest_files_find(folder.path, &files, &err));
}

TEST(a_list_that_names_no_kernel_is_refused)
{
    AUTO(folder_finish) struct folder folder = {0};
    struct guest_files files;
    struct error err = {0};

    CHECK(folder_init(&folder) && put(&folder, "artefacts.json", "{\"initrd\":\"00\"}"));
    CHECK(!guest_files_find(folder.path, &files, &err) && err.code == ERR_INVALID);
    CHECK(strstr(err.text, "kernel"));
}

TEST(a_folder_without_a_list_holds_nothing)
{
    struct guest_files files;
    struct error err = {0};

    CHECK(!guest_files_find("/nowhere", &files, &err) && err.code == ERR_NOT_FOUND);
}

TEST_MAIN()
