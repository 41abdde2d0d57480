#include "base/arena.h"

#include <stdalign.h>
#include <stdint.h>

#include "base/test.h"

TEST(memory_is_zeroed_and_aligned_at_every_size)
{
    AUTO(arena_finish) struct arena arena = {0};

    for (size_t size = 0; size < 10000; size += 97) {
        unsigned char *memory = arena_alloc(&arena, size);

        CHECK((uintptr_t)memory % alignof(max_align_t) == 0);
        for (size_t i = 0; i < size; i++)
            CHECK(memory[i] == 0);
        memset(memory, 0xff, size);
    }
}

TEST(a_copied_text_is_terminated)
{
    AUTO(arena_finish) struct arena arena = {0};
    struct str copy = arena_str(&arena, (struct str){"helmr up", 5});

    CHECK(copy.len == 5);
    CHECK_STR(copy.ptr, "helmr");
    CHECK_STR(arena_text(&arena, (struct str){0}), "");
    CHECK_STR(arena_printf(&arena, "%s-%d", "run", 7), "run-7");
}

TEST(an_arena_that_is_reset_keeps_its_newest_block_and_nothing_of_it)
{
    AUTO(arena_finish) struct arena arena = {0};

    arena_reset(&arena);
    CHECK(!arena.blocks);
    for (int i = 0; i < 3; i++)
        memset(arena_alloc(&arena, 3000), 0xff, 3000);
    struct arena_block *newest = arena.blocks;
    arena_reset(&arena);
    CHECK(arena.blocks == newest);
    const unsigned char *memory = arena_alloc(&arena, 3000);
    CHECK(arena.blocks == newest);
    for (size_t i = 0; i < 3000; i++)
        CHECK(memory[i] == 0);
}

TEST(an_arena_is_ready_again_after_finish)
{
    struct arena arena = {0};

    arena_alloc(&arena, 100000);
    arena_finish(&arena);
    CHECK(!arena.blocks);
    CHECK_STR(arena_text(&arena, STR("again")), "again");
    arena_finish(&arena);
}

TEST_MAIN()
