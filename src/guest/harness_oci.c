/* The agent in an OCI runtime, and in gVisor also saved and restored. */
#include <fcntl.h>
#include <sys/socket.h>

#include "base/own.h"
#include "guest/harness.h"

static const char capabilities[] =
    "[\"CAP_SYS_ADMIN\",\"CAP_CHOWN\",\"CAP_DAC_OVERRIDE\",\"CAP_FOWNER\",\"CAP_FSETID\","
    "\"CAP_KILL\",\"CAP_MKNOD\",\"CAP_SETUID\",\"CAP_SETGID\",\"CAP_SETPCAP\",\"CAP_SETFCAP\","
    "\"CAP_SYS_CHROOT\",\"CAP_NET_BIND_SERVICE\",\"CAP_NET_RAW\",\"CAP_AUDIT_WRITE\"]";

/* Containers get a user namespace; their image belongs to its root. */
static const char id_maps[] =
    ",\"uidMappings\":[{\"containerID\":0,\"hostID\":1000000,\"size\":65536}],"
    "\"gidMappings\":[{\"containerID\":0,\"hostID\":1000000,\"size\":65536}]";

static bool shift_image(struct harness *harness, struct error *err)
{
    char image[512];

    if (harness->engine != ON_RUNC)
        return true;
    snprintf(image, sizeof image, "%s/image", harness->folder);
    const char *const argv[] = {"chown", "-hR", "1000000:1000000", image, NULL};
    return process_must(argv, (struct str){0}, 20000, NULL, err);
}

static bool write_bundle(struct harness *harness, struct error *err)
{
    bool is_direct = harness->layout == SETUP_LAYOUT_DIRECT, is_runc = harness->engine == ON_RUNC;
    char config[8192];

    snprintf(
        config, sizeof config,
        "{\"ociVersion\":\"1.0.2\",\"process\":{\"terminal\":false,\"user\":{\"uid\":0,\"gid\":0},"
        "\"args\":[\"/helmr-guest\",\"--channel\",\"%s\"%s],\"env\":[\"PATH=/\"],\"cwd\":\"/\","
        "\"capabilities\":{\"bounding\":%s,\"effective\":%s,\"permitted\":%s}},"
        "\"root\":{\"path\":\"%s/platform\",\"readonly\":true},\"hostname\":\"helmr-sandbox\","
        "\"mounts\":["
        "{\"destination\":\"/proc\",\"type\":\"proc\",\"source\":\"proc\"},"
        "{\"destination\":\"/dev\",\"type\":\"tmpfs\",\"source\":\"tmpfs\"},"
        "{\"destination\":\"/dev/pts\",\"type\":\"devpts\",\"source\":\"devpts\",\"options\":"
        "[\"newinstance\",\"ptmxmode=0666\",\"mode=0620\"]},"
        "{\"destination\":\"/sys\",\"type\":\"sysfs\",\"source\":\"sysfs\",\"options\":[\"ro\"]},"
        "{\"destination\":\"/run\",\"type\":\"tmpfs\",\"source\":\"tmpfs\"},"
        "{\"destination\":\"/bundle\",\"type\":\"bind\",\"source\":\"%s/bundle\",\"options\":"
        "[\"rbind\",\"ro\"]},"
        "{\"destination\":\"/scratch\",\"type\":\"tmpfs\",\"source\":\"tmpfs\"},"
        "{\"destination\":\"%s\",\"type\":\"bind\",\"source\":\"%s/image\",\"options\":"
        "[\"rbind\",\"%s\"]}],"
        "\"linux\":{\"namespaces\":[{\"type\":\"pid\"},{\"type\":\"ipc\"},{\"type\":\"uts\"},"
        "{\"type\":\"mount\"},{\"type\":\"network\"}%s]%s}}",
        is_runc ? "fd:3" : "stdio", is_runc ? ",\"--mask-proc\"" : "", capabilities, capabilities,
        capabilities, harness->folder, harness->folder, is_direct ? "/newroot" : "/image",
        harness->folder, is_direct ? "rw" : "ro", is_runc ? ",{\"type\":\"user\"}" : "",
        is_runc ? id_maps : "");
    return harness_write(harness, "oci/config.json", config, err);
}

/* Where runsc and runc keep what; its name is the folder's. */
struct places {
    char state[512], bundle[512], saved[512];
    const char *name;
};

static struct places places_of(const struct harness *harness)
{
    struct places places = {.name = strrchr(harness->folder, '/') + 1};

    snprintf(places.state, sizeof places.state, "%s/state", harness->folder);
    snprintf(places.bundle, sizeof places.bundle, "%s/oci", harness->folder);
    snprintf(places.saved, sizeof places.saved, "%s/saved", harness->folder);
    return places;
}

#define RUNSC(places)                                                                             \
    "runsc", "--root", (places).state, "--platform=ptrace", "--ignore-cgroups", "--network=none", \
        "--file-access=exclusive"

bool harness_start_oci(struct harness *harness, int fd, struct error *err)
{
    const struct places places = places_of(harness);
    bool is_runc = harness->engine == ON_RUNC;
    const char *const runsc[] = {RUNSC(places), "run", "-bundle", places.bundle, places.name, NULL};
    const char *const runc[] = {"runc", "--root", places.state,  "run",       "--preserve-fds",
                                "1",    "-b",     places.bundle, places.name, NULL};
    struct process_spec spec = {
        .argv = is_runc ? runc : runsc,
        .fds = {{2, 2}, {fd, is_runc ? 3 : 0}, {fd, 1}},
        .n_fds = is_runc ? 2 : 3,
    };
    return shift_image(harness, err) && write_bundle(harness, err) &&
           process_start(&spec, &harness->process, err);
}

static bool runsc_must(const char *const *argv, struct error *err)
{
    return process_must(argv, (struct str){0}, 60000, NULL, err);
}

bool harness_save(struct harness *harness, struct error *err)
{
    const struct places places = places_of(harness);
    const char *const save[] = {RUNSC(places), "checkpoint", "-image-path",
                                places.saved,  places.name,  NULL};
    const char *const forget[] = {RUNSC(places), "delete", "--force", places.name, NULL};
    int status;

    if (!runsc_must(save, err) || !process_wait(&harness->process, 20000, &status, err) ||
        !runsc_must(forget, err))
        return false;
    process_finish(&harness->process);
    channel_finish(&harness->channel);
    close(take_fd(&harness->fd));
    return true;
}

bool harness_restore(struct harness *harness, struct error *err)
{
    const struct places places = places_of(harness);
    const char *const restore[] = {RUNSC(places), "restore",     "-image-path", places.saved,
                                   "-bundle",     places.bundle, places.name,   NULL};
    AUTO_FD int theirs = -1;

    if (!harness_connect(harness, &theirs, err))
        return false;
    struct process_spec spec = {
        .argv = restore,
        .fds = {{2, 2}, {theirs, 0}, {theirs, 1}},
        .n_fds = 3,
    };
    return process_start(&spec, &harness->process, err);
}
