#include "engine/probe_cache.h"

#include <stdlib.h>

#include "base/file.h"
#include "base/own.h"
#include "base/test.h"
#include "engine/record.h"

struct rig {
    char folder[40];
    struct engine_host host;
};

static bool rig_init(struct rig *rig)
{
    *rig = (struct rig){.folder = "/tmp/helmr-probe-cache-XXXXXX"};
    rig->host.work_dir = rig->folder;
    return mkdtemp(rig->folder);
}

static void rig_finish(struct rig *rig)
{
    struct error err;

    if (rig->folder[0] && !folder_remove(rig->folder, &err))
        printf("# left behind: %s\n", rig->folder);
}

static struct engine_result proved(const struct engine *engine)
{
    return (struct engine_result){.name = engine->name,
                                  .usable = true,
                                  .saves = engine->save,
                                  .build = "aa"};
}

/* Whether a worker that starts now, with this program and this guest, may believe it. */
static bool finds(struct rig *rig, const struct engine *engine, const char *build,
                  const char *guest)
{
    struct engine_result result = {.name = engine->name};

    (void)snprintf(result.build, sizeof result.build, "%s", build);
    return probe_cache_find(&rig->host, engine, guest, &result) && result.usable &&
           result.saves == (engine->save != NULL);
}

TEST(what_was_proved_counts_for_the_same_program_and_guest_only)
{
    AUTO(rig_finish) struct rig rig = {0};
    struct engine_result result = proved(&engine_gvisor);

    CHECK(rig_init(&rig) && !finds(&rig, &engine_gvisor, "aa", "one"));
    probe_cache_keep(&rig.host, "one", &result);
    CHECK(finds(&rig, &engine_gvisor, "aa", "one"));
    CHECK(!finds(&rig, &engine_gvisor, "bb", "one"));
    CHECK(!finds(&rig, &engine_gvisor, "aa", "two"));
    CHECK(!finds(&rig, &engine_container, "aa", "one"));
}

TEST(whether_it_ran_with_kvm_is_remembered_too)
{
    AUTO(rig_finish) struct rig rig = {0};
    struct engine_result result = proved(&engine_gvisor), found = {.name = "gvisor", .build = "aa"};

    result.accelerated = true;
    CHECK(rig_init(&rig));
    probe_cache_keep(&rig.host, "one", &result);
    CHECK(probe_cache_find(&rig.host, &engine_gvisor, "one", &found) && found.accelerated);
}

TEST(bad_news_is_not_kept_and_takes_good_news_away)
{
    AUTO(rig_finish) struct rig rig = {0};
    struct engine_result result = proved(&engine_gvisor), other = proved(&engine_container);

    CHECK(rig_init(&rig));
    probe_cache_keep(&rig.host, "one", &result);
    probe_cache_keep(&rig.host, "one", &other);
    result.usable = false;
    probe_cache_keep(&rig.host, "one", &result);
    CHECK(!finds(&rig, &engine_gvisor, "aa", "one"));
    CHECK(finds(&rig, &engine_container, "aa", "one"));
}

TEST(an_engine_that_could_not_save_is_tried_again)
{
    AUTO(rig_finish) struct rig rig = {0};
    struct engine_result result = proved(&engine_gvisor);

    result.saves = false;
    CHECK(rig_init(&rig));
    probe_cache_keep(&rig.host, "one", &result);
    CHECK(!finds(&rig, &engine_gvisor, "aa", "one"));
}

TEST(another_boot_of_the_host_begins_anew)
{
    AUTO(rig_finish) struct rig rig = {0};
    AUTO_FREE char *text = NULL;
    struct engine_result result = proved(&engine_gvisor);
    char path[64];
    struct error err;

    CHECK(rig_init(&rig));
    (void)snprintf(path, sizeof path, "%s/probe.json", rig.folder);
    probe_cache_keep(&rig.host, "one", &result);
    CHECK(file_read(path, 4096, &text, &err));
    char *boot = strstr(text, host_boot_id());
    CHECK(boot);
    boot[0] = boot[0] == '0' ? '1' : '0';
    CHECK(file_publish(path, str_of(text), 0600, &err));
    CHECK(!finds(&rig, &engine_gvisor, "aa", "one"));
}

TEST(a_file_that_is_no_json_is_no_proof)
{
    AUTO(rig_finish) struct rig rig = {0};
    char path[64];
    struct error err;

    CHECK(rig_init(&rig));
    (void)snprintf(path, sizeof path, "%s/probe.json", rig.folder);
    CHECK(file_publish(path, STR("{\"gvisor\":{\"usable\":true}"), 0600, &err));
    CHECK(!finds(&rig, &engine_gvisor, "aa", "one"));
}

TEST_MAIN()
