/* How strongly an engine separates a sandbox from the host. A run records the grade it had;
 * an environment names the weakest one it accepts.
 */
#pragma once

#include "base/str.h"

/* From the weakest to the strongest; they compare as numbers. */
enum grade { GRADE_SHARED_KERNEL, GRADE_USER_KERNEL, GRADE_MICROVM, GRADE_COUNT };

enum engine_kind {
    ENGINE_CONTAINER,
    ENGINE_GVISOR,
    ENGINE_QEMU,
    ENGINE_FIRECRACKER,
    ENGINE_KIND_COUNT,
};

const char *grade_name(enum grade grade);
bool grade_parse(struct str text, enum grade *grade);

const char *engine_kind_name(enum engine_kind engine);
bool engine_kind_parse(struct str text, enum engine_kind *engine);
enum grade grade_of_engine(enum engine_kind engine);

static inline bool grade_meets(enum grade grade, enum grade least)
{
    return grade >= least;
}
