/* Prints the state machines as the marked blocks that ARCHITECTURE.md carries. */
#include <stdio.h>

#include "model/machines.h"

int main(void)
{
    for (size_t i = 0; i < n_machines; i++) {
        printf("<!-- diagram:%s -->\n```mermaid\n", machines[i]->name);
        machine_print_diagram(machines[i], stdout);
        printf("```\n<!-- /diagram -->\n\n");
    }
    return 0;
}
