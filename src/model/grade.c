#include "model/grade.h"

#include <stdlib.h>

const char *grade_name(enum grade grade)
{
    switch (grade) {
    case GRADE_SHARED_KERNEL: return "shared-kernel";
    case GRADE_USER_KERNEL: return "user-kernel";
    case GRADE_MICROVM: return "microvm";
    case GRADE_COUNT: break;
    }
    abort();
}

const char *engine_kind_name(enum engine_kind engine)
{
    switch (engine) {
    case ENGINE_CONTAINER: return "container";
    case ENGINE_GVISOR: return "gvisor";
    case ENGINE_QEMU: return "qemu";
    case ENGINE_FIRECRACKER: return "firecracker";
    case ENGINE_KIND_COUNT: break;
    }
    abort();
}

enum grade grade_of_engine(enum engine_kind engine)
{
    switch (engine) {
    case ENGINE_CONTAINER: return GRADE_SHARED_KERNEL;
    case ENGINE_GVISOR: return GRADE_USER_KERNEL;
    case ENGINE_QEMU:
    case ENGINE_FIRECRACKER: return GRADE_MICROVM;
    case ENGINE_KIND_COUNT: break;
    }
    abort();
}

bool grade_parse(struct str text, enum grade *grade)
{
    for (enum grade g = 0; g < GRADE_COUNT; g++) {
        if (str_equal(text, str_of(grade_name(g)))) {
            *grade = g;
            return true;
        }
    }
    return false;
}

bool engine_kind_parse(struct str text, enum engine_kind *engine)
{
    for (enum engine_kind e = 0; e < ENGINE_KIND_COUNT; e++) {
        if (str_equal(text, str_of(engine_kind_name(e)))) {
            *engine = e;
            return true;
        }
    }
    return false;
}
