/* The diagrams of ARCHITECTURE.md are printed from the tables; this says when one is stale. */
#include <stdlib.h>

#include "base/file.h"
#include "base/own.h"
#include "base/test.h"
#include "model/machines.h"

static const char *block_of(const struct machine *machine)
{
    static char text[16384];
    FILE *out = fmemopen(text, sizeof text, "w");

    fprintf(out, "<!-- diagram:%s -->\n```mermaid\n", machine->name);
    machine_print_diagram(machine, out);
    fprintf(out, "```\n<!-- /diagram -->");
    fclose(out);
    return text;
}

TEST(a_diagram_shows_every_move)
{
    for (size_t i = 0; i < n_machines; i++) {
        const char *text = block_of(machines[i]);
        size_t arrows = 0;

        for (const char *at = text; (at = strstr(at, " --> ")); at += 5)
            arrows++;
        CHECK(arrows > machines[i]->n_moves);
    }
}

TEST(the_diagrams_of_the_architecture_page_are_fresh)
{
    const char *root = getenv("HELMR_SOURCE_ROOT");
    AUTO_FREE char *page = NULL;
    char path[4096];
    struct error err;

    snprintf(path, sizeof path, "%s/ARCHITECTURE.md", root ? root : ".");
    if (!file_read(path, 1 << 20, &page, &err))
        SKIP("there is no ARCHITECTURE.md");
    if (!strstr(page, "<!-- diagram:run -->"))
        SKIP("ARCHITECTURE.md has no diagram blocks");
    for (size_t i = 0; i < n_machines; i++)
        CHECK(strstr(page, block_of(machines[i])));
}

TEST_MAIN()
