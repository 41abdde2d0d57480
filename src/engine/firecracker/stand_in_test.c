/* The stand-in is only worth what it refuses: every row is one request, in this order, to one
 * process, and what it must say to it. */
#include <grp.h>
#include <limits.h>

#include "base/process.h"
#include "engine/firecracker/api.h"
#include "engine/firecracker/jail_fixture.h"

enum { NOBODY = 65534 };

static const struct row {
    const char *method, *path, *body;
    const char *fault; /* NULL: done */
} rows[] = {
    /* what is no request at all */
    {"PUT",   "/nothing",                 "{}",                                                         "Invalid request method and/or path"},
    {"GET",   "/vsock",                   "{}",                                                         "Invalid request method and/or path"},
    {"PATCH", "/vsock",                   "{}",                                                         "Invalid request method and/or path"},
    {"PUT",   "/drives/",                 "{}",                                                         "Invalid request method and/or path"},
    {"PUT",   "/drives/a/b",              "{}",                                                         "Invalid request method and/or path"},
    {"PUT",   "/vsock",                   "",                                                           "Empty PUT request"                 },
    {"PUT",   "/vsock",                   "{",                                                          "JSON"                              },
    {"PUT",   "/vsock",                   "[]",                                                         ""                                  },

    /* what is needed, what is unknown, what is of another kind */
    {"PUT",   "/vsock",                   "{\"guest_cid\":3}",                                          "uds_path"                          },
    {"PUT",   "/vsock",                   "{\"guest_cid\":3,\"uds_path\":\"/v\",\"x\":1}",              "x"                                 },
    {"PUT",   "/vsock",                   "{\"guest_cid\":\"3\",\"uds_path\":\"/v\"}",                  "guest_cid"                         },
    {"PUT",   "/vsock",                   "{\"guest_cid\":2,\"uds_path\":\"/v\"}",                      "guest_cid"                         },
    {"PUT",   "/machine-config",          "{\"vcpu_count\":1}",                                         "mem_size_mib"                      },
    {"PUT",   "/machine-config",          "{\"vcpu_count\":0,\"mem_size_mib\":16}",                     "vcpu_count"                        },
    {"PUT",   "/machine-config",          "{\"vcpu_count\":33,\"mem_size_mib\":16}",                    "vcpu_count"                        },
    {"PUT",   "/machine-config",          "{\"vcpu_count\":1,\"mem_size_mib\":16,\"smt\":\"no\"}",      "smt"                               },
    {"PUT",   "/boot-source",             "{\"boot_args\":\"quiet\"}",                                  "kernel_image_path"                 },
    {"PUT",   "/boot-source",             "{\"kernel_image_path\":\"/nowhere\"}",                       "cannot be opened"                  },
    {"PUT",   "/entropy",                 "{\"rate\":1}",                                               "rate"                              },
    {"PUT",   "/actions",                 "{\"action_type\":\"Explode\"}",                              "action_type"                       },
    {"PUT",   "/drives/a",
     "{\"drive_id\":\"b\",\"path_on_host\":\"kernel\",\"is_root_device\":false}",                       "does not match"                    },
    {"PUT",   "/drives/a",                "{\"drive_id\":\"a\",\"path_on_host\":\"kernel\"}",           "is_root_device"                    },
    {"PUT",   "/drives/a",
     "{\"drive_id\":\"a\",\"path_on_host\":\"/nowhere\",\"is_root_device\":false}",                     "Unable to open"                    },
    {"PUT",   "/drives/c",
     "{\"drive_id\":\"c\",\"path_on_host\":\"kernel\",\"is_root_device\":false,"
     "\"cache_type\":\"Safe\"}",                                                                        "cache_type"                        },
    {"PUT",   "/network-interfaces/eth0",
     "{\"iface_id\":\"eth0\",\"host_dev_name\":\"nowhere0\",\"guest_mac\":\"zz\"}",                     "guest_mac"                         },
    {"PUT",   "/network-interfaces/eth0", "{\"iface_id\":\"eth0\"}",                                    "host_dev_name"                     },

    /* before a start */
    {"PATCH", "/vm",                      "{\"state\":\"Paused\"}",                                     "before starting"                   },
    {"PUT",   "/snapshot/create",         "{\"snapshot_path\":\"state\",\"mem_file_path\":\"m\"}",
     "before starting"                                                                                                                      },
    {"PUT",   "/snapshot/load",
     "{\"snapshot_path\":\"state\",\"mem_file_path\":\"m\","
     "\"mem_backend\":{\"backend_type\":\"File\",\"backend_path\":\"m\"},\"y\":1}",                     "y"                                 },

    /* a start */
    {"PUT",   "/machine-config",
     "{\"vcpu_count\":1,\"mem_size_mib\":16,\"smt\":false,\"track_dirty_pages\":true}",                 NULL                                },
    {"PUT",   "/boot-source",             "{\"kernel_image_path\":\"kernel\",\"boot_args\":\"quiet\"}", NULL                                },
    {"PUT",   "/vsock",                   "{\"guest_cid\":3,\"uds_path\":\"v.sock\"}",                  NULL                                },
    {"PUT",   "/entropy",                 "{}",                                                         NULL                                },
    {"PUT",   "/actions",                 "{\"action_type\":\"InstanceStart\"}",                        NULL                                },

    /* after it */
    {"PUT",   "/actions",                 "{\"action_type\":\"InstanceStart\"}",                        "after starting"                    },
    {"PUT",   "/machine-config",          "{\"vcpu_count\":1,\"mem_size_mib\":16}",                     "after starting"                    },
    {"PUT",   "/vsock",                   "{\"guest_cid\":3,\"uds_path\":\"/v\"}",                      "after starting"                    },
    {"PUT",   "/snapshot/load",           "{\"snapshot_path\":\"state\",\"mem_file_path\":\"m\"}",
     "after starting"                                                                                                                       },
    {"PUT",   "/snapshot/create",         "{\"snapshot_path\":\"state\",\"mem_file_path\":\"m\"}",
     "not paused"                                                                                                                           },
    {"PATCH", "/vm",                      "{\"state\":\"Sleeping\"}",                                   "state"                             },
    {"PATCH", "/vm",                      "{\"state\":\"Paused\"}",                                     NULL                                },
    {"PATCH", "/vm",                      "{\"state\":\"Paused\"}",                                     NULL                                },
    {"PUT",   "/snapshot/create",
     "{\"snapshot_type\":\"Half\",\"snapshot_path\":\"state\",\"mem_file_path\":\"m\"}",                "snapshot_type"                     },
    {"PUT",   "/snapshot/create",         "{\"snapshot_path\":\"state\"}",                              "mem_file_path"                     },
    {"PUT",   "/snapshot/create",
     "{\"snapshot_type\":\"Diff\",\"snapshot_path\":\"state\",\"mem_file_path\":\"m\"}",                NULL                                },
    {"PATCH", "/vm",                      "{\"state\":\"Resumed\"}",                                    NULL                                },
};

static bool become_nobody(void *arg, struct error *err)
{
    (void)arg;
    return (setgroups(0, NULL) == 0 && setgid(NOBODY) == 0 && setuid(NOBODY) == 0) ||
           error_errno(err, "become nobody");
}

/* In a folder of its own, as the first of its process numbers. */
static bool stand_in_start(const struct jail_fixture *fixture, const char *program,
                           struct process *process, struct error *err)
{
    const char *const argv[] = {program, "--id", "test", "--api-sock", "api.sock", NULL};
    const struct process_spec spec = {.argv = argv,
                                      .cwd = fixture->folder,
                                      .new_pids = true,
                                      .prepare = become_nobody};
    AUTO_FD int kernel = openat(fixture->root, "kernel", O_WRONLY | O_CREAT | O_CLOEXEC, 0644);

    return fd_write_all(kernel, STR("\177ELF"), err) &&
           fchownat(fixture->root, "", NOBODY, NOBODY, AT_EMPTY_PATH) == 0 &&
           process_start(&spec, process, err);
}

static bool row_holds(struct machine_api *api, const struct row *row)
{
    struct error err = {0};
    bool ok = machine_api_send(api, row->method, row->path, str_of(row->body),
                               time_boot_ms() + PATIENCE_MS, &err);
    bool is_right =
        row->fault ? !ok && err.code == ERR_INVALID && strstr(err.text, row->fault) : ok;

    if (!is_right)
        printf("# %s %s %s: %d %s\n", row->method, row->path, row->body, ok, err.text);
    return is_right;
}

TEST(the_stand_in_refuses_what_firecracker_refuses)
{
    AUTO(jail_fixture_close) struct jail_fixture fixture;
    AUTO(process_finish) struct process process = {.pidfd = -1};
    const char *build = getenv("HELMR_BUILD_ROOT");
    struct machine_api *api = NULL;
    struct error err = {0};
    char program[PATH_MAX];
    bool ok = true;

    CHECK(jail_fixture_open(&fixture));
    snprintf(program, sizeof program, "%s/tests/firecracker/firecracker", build ? build : ".");
    if (geteuid() != 0)
        SKIP("needs root");
    if (access(program, X_OK) != 0)
        SKIP("the stand-in is not built");
    CHECK(stand_in_start(&fixture, program, &process, &err));
    CHECK(machine_api_open(fixture.root, "api.sock", NOBODY, process.pidfd,
                           time_boot_ms() + PATIENCE_MS, &api, &err));
    for (size_t i = 0; i < COUNT_OF(rows); i++)
        ok = row_holds(api, &rows[i]) && ok;
    machine_api_close(api);
    CHECK(ok);
}

TEST_MAIN()
