/* What a task changed in its workspace: captured, and put into another sandbox. */
#include "guest/park_scenario.h"
#include "protocol/tree.h"
#include "protocol/tree_sum.h"

struct listing {
    struct buf text;
    uint64_t n_bytes;
};

static bool list_entry(void *arg, const struct tree_entry *entry, struct error *err)
{
    struct listing *listing = arg;
    struct str rest = entry->xattrs, name = {0}, value = {0};
    char line[512];

    (void)!tree_xattr_next(&rest, &name, &value);

    snprintf(line, sizeof line, "%d %.*s %o %u %llu>%.*s %llu%s%s%.*s\n", (int)entry->kind,
             (int)entry->path.len, entry->path.ptr, entry->mode, entry->uid,
             (unsigned long long)entry->size, (int)entry->target.len, entry->target.ptr,
             (unsigned long long)entry->link_group, entry->is_linked ? " linked" : "",
             entry->is_opaque ? " opaque" : "", (int)name.len, name.ptr ? name.ptr : "");
    return buf_append(&listing->text, str_of(line), err);
}

static bool list_bytes(void *arg, struct str bytes, bool is_last UNUSED, struct error *err UNUSED)
{
    struct listing *listing = arg;

    listing->n_bytes += bytes.len;
    return true;
}

static bool capture(struct harness *harness)
{
    struct error err;

    harness->has_captured = false;
    harness->tree.len = 0;
    return channel_open_tree(&harness->channel, 21, CHANNEL_RECEIVES, &err) &&
           harness_send(harness, MESSAGE_CAPTURE, &(struct message_capture){60, 21, 7});
}

static const char everything[] = "1 large 644 1000 1000000> 0\n"
                                 "2 made 750 1000 0> 0\n"
                                 "1 made/one 644 1000 6> 1\n"
                                 "1 made/two 644 1000 0> 1 linked\n"
                                 "1 made.txt 644 1000 0> 0user.note\n"
                                 "2 old 700 1000 0> 0 opaque\n"
                                 "3 pointer 777 1000 0>../made 0\n"
                                 "4 queue 600 1000 0> 0\n";

static void check_tree(struct harness *harness)
{
    AUTO(tree_decoder_finish) struct tree_decoder decoder;
    struct listing listing = {.text = {.max = 65536}};
    struct error err = {0};
    uint8_t digest[BLAKE2B_LEN];
    struct tree_sum sum;

    tree_decoder_init(&decoder, list_entry, list_bytes, &listing);
    CHECK(tree_decode(&decoder, buf_str(&harness->tree), &err) && tree_decode_end(&decoder, &err));
    CHECK(buf_append(&listing.text, (struct str){"", 1}, &err));

    /* What the image had is gone: a whiteout, and it comes first. */
    static const char gone[] = "5 from-image 0 0 0> 0\n";
    CHECK(strncmp(listing.text.bytes, gone, strlen(gone)) == 0);
    CHECK_STR(listing.text.bytes + strlen(gone), everything);
    CHECK(listing.n_bytes == 1000006 && harness->captured.bytes == listing.n_bytes);
    CHECK(harness->captured.entries == 9 && harness->captured.skipped == 1);
    buf_finish(&listing.text);

    tree_sum_init(&sum);
    tree_sum_update(&sum, buf_str(&harness->tree));
    tree_sum_final(&sum, digest);
    CHECK(memcmp(digest, harness->capture_digest, sizeof digest) == 0);
}

static void capture_all(struct harness *harness)
{
    CHECK(start_waiting(harness, "park write"));
    CHECK(capture(harness) && is_refused(harness, "invalid_request"));
    CHECK(freeze(harness));

    /* The refused one has left the stream open on this side only. */
    struct error err;
    harness->has_captured = false;
    CHECK(harness_send(harness, MESSAGE_CAPTURE, &(struct message_capture){60, 21, 7}));
    CHECK(harness_until(harness, &harness->has_captured));
    check_tree(harness);
    CHECK(capture(harness));
    CHECK(channel_reset(&harness->channel, 21, 0, &err) && is_refused(harness, "capture_failed"));
    CHECK(thaw(harness));
    CHECK(harness_send(harness, MESSAGE_PING, &(struct message_ping){5, 60000}));
    CHECK(answer(harness));
    CHECK(harness->last_pong == 5);

    /* And once more when nothing of it is left. */
    CHECK(capture(harness) && harness_until(harness, &harness->has_captured));
    check_tree(harness);
}

TEST(a_capture_holds_what_a_task_changed_on_linux)
{
    run_scenario(capture_all, ON_LINUX, SETUP_LAYOUT_AGENT);
}

TEST(a_capture_holds_what_a_task_changed_on_gvisor)
{
    run_scenario(capture_all, ON_GVISOR, SETUP_LAYOUT_AGENT);
}

TEST(a_capture_holds_what_a_task_changed_in_a_machine)
{
    run_scenario(capture_all, ON_MACHINE, SETUP_LAYOUT_AGENT);
}

static void leave_out_secrets(struct harness *harness)
{
    struct message_secret secret = {.id = 30,
                                    .program = 1,
                                    .placement = SECRET_IN_FILE,
                                    .target = STR("/workspace/conf/deep/key"),
                                    .mode = 0400,
                                    .value = STR("k3y-in-a-file")};

    CHECK(launch(harness));
    CHECK(harness_send(harness, MESSAGE_SECRET, &secret));
    CHECK(harness_send(harness, MESSAGE_SECRETS_END, &(struct message_secrets_end){31, 1, 1}));
    CHECK(harness_until(harness, &harness->has_secrets));
    CHECK(release(harness, "park write") && harness_until(harness, &harness->has_op));
    CHECK(freeze(harness) && capture(harness) && harness_until(harness, &harness->has_captured));
    check_tree(harness);
}

TEST(secrets_are_in_no_capture_on_linux)
{
    run_scenario(leave_out_secrets, ON_LINUX, SETUP_LAYOUT_AGENT);
}

TEST(secrets_are_in_no_capture_on_gvisor)
{
    run_scenario(leave_out_secrets, ON_GVISOR, SETUP_LAYOUT_AGENT);
}

/* The tree comes in pieces, as credit allows. */
static bool place_as(struct harness *harness, struct str tree, struct str mark)
{
    const struct message_place message = {70, 1, 7, mark};
    struct error err;

    harness->has_placed = false;
    if (!channel_open_tree(&harness->channel, 1, CHANNEL_SENDS, &err) ||
        !harness_send(harness, MESSAGE_PLACE, &message))
        return false;
    while (tree.len > 0) {
        size_t room = channel_send_room(&harness->channel, 1),
               n = tree.len < room ? tree.len : room;

        if (n > 0 && !channel_send_data(&harness->channel, 1, (struct str){tree.ptr, n},
                                        n == tree.len, &err))
            return false;
        tree = (struct str){tree.ptr + n, tree.len - n};
        if (!harness_step(harness) || harness->has_error)
            return harness->has_error;
    }
    return true;
}

static bool place(struct harness *harness, struct str tree)
{
    return place_as(harness, tree, (struct str){0});
}

/* What another sandbox had, deletions and covered folders too, is found here again. */
static void place_all(struct harness *harness)
{
    AUTO(harness_finish) struct harness other = {.fd = -1, .process = {.pidfd = -1}};
    struct error err = {0};

    CHECK(start_waiting(harness, "park write") && freeze(harness));
    CHECK(capture(harness) && harness_until(harness, &harness->has_captured));
    CHECK(harness_prepare(&other, harness->engine, harness->layout, &err));
    CHECK(harness_start(&other, &err) && launch(&other));
    CHECK(place(&other, STR("HLMRTR01 is no tree")) && is_refused(&other, "mount_failed"));
    CHECK(place(&other, buf_str(&harness->tree)) && harness_until(&other, &other.has_placed));
    CHECK(other.placed.bytes == 1000006 && other.placed.entries == 9);
    CHECK(release(&other, "park") && harness_until(&other, &other.has_op) && freeze(&other));
    CHECK(harness_send(&other, MESSAGE_PLACE, &(struct message_place){71, 1, 7}));
    CHECK(is_refused(&other, "invalid_request"));
    CHECK(capture(&other) && harness_until(&other, &other.has_captured));
    CHECK(str_equal(buf_str(&other.tree), buf_str(&harness->tree)));
}

TEST(a_placed_tree_is_captured_again_as_it_was_on_linux)
{
    run_scenario(place_all, ON_LINUX, SETUP_LAYOUT_AGENT);
}

TEST(a_placed_tree_is_captured_again_as_it_was_on_gvisor)
{
    run_scenario(place_all, ON_GVISOR, SETUP_LAYOUT_AGENT);
}

TEST(a_placed_tree_is_captured_again_as_it_was_in_a_machine)
{
    run_scenario(place_all, ON_MACHINE, SETUP_LAYOUT_AGENT);
}

static bool capture_since(struct harness *harness, struct str since, struct str mark)
{
    struct error err;

    harness->has_captured = false;
    harness->tree.len = 0;
    return channel_open_tree(&harness->channel, 21, CHANNEL_RECEIVES, &err) &&
           harness_send(harness, MESSAGE_CAPTURE,
                        &(struct message_capture){60, 21, 7, since, mark}) &&
           harness_until(harness, &harness->has_captured);
}

static bool is_difference(const struct harness *harness)
{
    return harness->tree.len > TREE_MAGIC_LEN &&
           memcmp(harness->tree.bytes, "HLMRTR02", TREE_MAGIC_LEN) == 0;
}

/* What was placed and not touched is the same; asked since anything else everything is told. */
static void tell_differences(struct harness *harness)
{
    AUTO(harness_finish) struct harness other = {.fd = -1, .process = {.pidfd = -1}};
    struct error err = {0};

    CHECK(start_waiting(harness, "park write") && freeze(harness));
    CHECK(capture(harness) && harness_until(harness, &harness->has_captured));
    CHECK(harness->captured.files_read == 3 && harness->captured.bytes_read == 1000006);
    CHECK(harness_prepare(&other, harness->engine, harness->layout, &err));
    CHECK(harness_start(&other, &err) && launch(&other));
    CHECK(place_as(&other, buf_str(&harness->tree), STR("first")));
    CHECK(harness_until(&other, &other.has_placed));
    CHECK(release(&other, "park") && harness_until(&other, &other.has_op) && freeze(&other));
    CHECK(capture_since(&other, STR("first"), STR("second")) && is_difference(&other));
    CHECK(other.captured.files_read == 0 && other.captured.bytes_read == 0);
    CHECK(other.tree.len < 1000 && other.captured.lack.len == 0);
    CHECK(capture_since(&other, STR("second"), (struct str){0}) && is_difference(&other));
    CHECK(other.captured.files_read == 0);
    CHECK(capture_since(&other, STR("first"), (struct str){0}) && !is_difference(&other));
    CHECK(other.captured.lack.len > 0);
    CHECK(str_equal(buf_str(&other.tree), buf_str(&harness->tree)));
}

TEST(what_was_placed_and_not_touched_is_not_told_again_on_linux)
{
    run_scenario(tell_differences, ON_LINUX, SETUP_LAYOUT_AGENT);
}

TEST(what_was_placed_and_not_touched_is_not_told_again_on_gvisor)
{
    run_scenario(tell_differences, ON_GVISOR, SETUP_LAYOUT_AGENT);
}

/* The task overwrites what was placed. */
static void tell_what_changed(struct harness *harness)
{
    AUTO(harness_finish) struct harness other = {.fd = -1, .process = {.pidfd = -1}};
    struct error err = {0};

    CHECK(start_waiting(harness, "park write") && freeze(harness));
    CHECK(capture(harness) && harness_until(harness, &harness->has_captured));
    CHECK(harness_prepare(&other, harness->engine, harness->layout, &err));
    CHECK(harness_start(&other, &err) && launch(&other));
    CHECK(place_as(&other,
                   STR("HLMRTR01\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0"
                       "\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0"),
                   STR("empty")));
    CHECK(harness_until(&other, &other.has_placed));
    CHECK(release(&other, "park write") && harness_until(&other, &other.has_op));
    CHECK(freeze(&other) && capture_since(&other, STR("empty"), (struct str){0}));
    CHECK(is_difference(&other) && other.captured.lack.len == 0);
    CHECK(other.captured.files_read == 3 && other.captured.entries == 9);
    CHECK(capture_since(&other, (struct str){0}, (struct str){0}));
    check_tree(&other);
}

TEST(what_a_task_made_after_an_empty_tree_is_told_on_linux)
{
    run_scenario(tell_what_changed, ON_LINUX, SETUP_LAYOUT_AGENT);
}

TEST(what_a_task_made_after_an_empty_tree_is_told_on_gvisor)
{
    run_scenario(tell_what_changed, ON_GVISOR, SETUP_LAYOUT_AGENT);
}

TEST_MAIN()
