#include "engine/holders.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"
#include "base/own.h"
#include "base/test.h"

enum { PATIENCE_MS = 60000 };

struct scene {
    char path[64], below[80], beside[80];
};

static void scene_close(struct scene *scene)
{
    struct error err;

    if (!folder_remove(scene->path, &err) || !folder_remove(scene->beside, &err))
        printf("# left: %s\n", err.text);
}

static bool scene_open(struct scene *scene)
{
    memcpy(scene->path, "/tmp/helmr-holders-XXXXXX", sizeof "/tmp/helmr-holders-XXXXXX");
    if (!mkdtemp(scene->path))
        return false;
    snprintf(scene->below, sizeof(scene->below), "%s/instance", scene->path);
    snprintf(scene->beside, sizeof(scene->beside), "%s-not", scene->path);
    return mkdir(scene->below, 0700) == 0 && mkdir(scene->beside, 0700) == 0;
}

/* A process that has something of the folder open, and says when. */
static pid_t holder_start_at(const char *folder, const char *name)
{
    const bool is_folder = strcmp(name, ".") == 0;
    char path[128], byte;
    int pair[2];

    snprintf(path, sizeof(path), "%s/%s", folder, name);
    if (pipe(pair) < 0)
        return -1;
    pid_t pid = fork();
    if (pid == 0) {
        int fd = open(path, is_folder ? O_RDONLY | O_DIRECTORY : O_RDWR | O_CREAT, 0600);
        if (fd < 0 || write(pair[1], "", 1) != 1)
            _exit(1);
        for (;;)
            pause();
    }
    bool is_there = pid > 0 && read(pair[0], &byte, 1) == 1;
    close(pair[0]);
    close(pair[1]);
    return is_there ? pid : -1;
}

static pid_t holder_start(const char *folder)
{
    return holder_start_at(folder, "file");
}

TEST(who_has_a_file_of_the_folder_open_is_killed_and_nobody_else)
{
    AUTO(scene_close) struct scene scene = {0};
    struct error err = {0};
    int status = 0;

    CHECK(scene_open(&scene));
    pid_t one = holder_start(scene.path), two = holder_start(scene.below);
    pid_t other = holder_start(scene.beside), next = holder_start_at(scene.path, ".");
    CHECK(one > 0 && two > 0 && other > 0 && next > 0);

    /* This process holds it, too, and goes on. */
    AUTO_FD int mine = open(scene.below, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    /* Nobody reaps them meanwhile: what is dead has nothing open any more. */
    CHECK(holders_kill(scene.path, PATIENCE_MS, &err));
    CHECK(waitpid(one, &status, 0) == one && WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    CHECK(waitpid(two, &status, 0) == two && WIFSIGNALED(status));
    CHECK(waitpid(other, &status, WNOHANG) == 0 && waitpid(next, &status, WNOHANG) == 0);
    CHECK(mine >= 0 && fcntl(mine, F_GETFD) >= 0);
    kill(other, SIGKILL);
    kill(next, SIGKILL);
    CHECK(waitpid(other, &status, 0) == other && waitpid(next, &status, 0) == next);
    CHECK(holders_kill(scene.path, 0, &err));
}

TEST_MAIN()
