#include "engine/engine.h"

#include <string.h>

enum { START_MS = 30 * 1000, MACHINE_START_MS = 180 * 1000 };

/* Strongest first, as people are told of them; which one is taken is not decided here. */
const struct engine *const engines[] = {&engine_firecracker, &engine_qemu, &engine_gvisor,
                                        &engine_container};
const size_t n_engines = COUNT_OF(engines);

const struct engine *engine_find(const char *name)
{
    for (size_t i = 0; i < n_engines; i++) {
        if (strcmp(engines[i]->name, name) == 0)
            return engines[i];
    }
    return NULL;
}

/* A machine has a kernel to boot, which takes seconds where the processor does not help, and more
 * when everything is busy. */
int engine_start_ms(const struct engine *engine)
{
    return engine->has_drives ? MACHINE_START_MS : START_MS;
}

const char *engine_grade_name(enum engine_grade grade)
{
    switch (grade) {
    case ENGINE_GRADE_NONE: return "none";
    case ENGINE_GRADE_SHARED_KERNEL: return "shared-kernel";
    case ENGINE_GRADE_USER_KERNEL: return "user-kernel";
    case ENGINE_GRADE_MICROVM: return "microvm";
    }
    return "none";
}
