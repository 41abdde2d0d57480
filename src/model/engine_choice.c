#include "model/engine_choice.h"

#include <stdio.h>
#include <string.h>

#include "base/attr.h"

static const char automatic[] = "auto";

/* Strongest first, and of two equals the one that starts faster. */
static const enum engine_kind order[] = {ENGINE_FIRECRACKER, ENGINE_QEMU, ENGINE_GVISOR};

bool engine_wish_is_valid(const char *wanted)
{
    enum engine_kind ignored;

    return strcmp(wanted, automatic) == 0 || engine_kind_parse(str_of(wanted), &ignored);
}

bool engine_can_build(enum engine_kind engine)
{
    return engine != ENGINE_FIRECRACKER;
}

static const struct engine_finding *finding_of(enum engine_kind engine,
                                               const struct engine_finding *findings, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (findings[i].engine == engine)
            return &findings[i];
    return NULL;
}

static const char *why_not(const struct engine_finding *finding)
{
    if (finding->proved)
        return "it works without KVM only, which is slow: it must be asked for by name";
    return finding->reason && finding->reason[0] ? finding->reason : "no guest could be started";
}

static void reason_add(struct engine_choice *choice, const struct engine_finding *finding)
{
    size_t len = strlen(choice->reason);

    snprintf(choice->reason + len, sizeof choice->reason - len, "%s%s: %s", len > 0 ? "; " : "",
             engine_kind_name(finding->engine), why_not(finding));
}

/* An engine that was named: it is proved, or there is none. */
static void choose_named(enum engine_kind engine, const struct engine_finding *findings, size_t n,
                         struct engine_choice *choice)
{
    const struct engine_finding *finding = finding_of(engine, findings, n);

    *choice = (struct engine_choice){.step = ENGINE_TRY, .engine = engine};
    if (!finding)
        return;
    choice->step = finding->proved ? ENGINE_TAKE : ENGINE_NONE;
    if (finding->proved)
        snprintf(choice->reason, sizeof choice->reason, "it was asked for by name");
    else
        reason_add(choice, finding);
}

static bool auto_takes(const struct engine_finding *finding)
{
    return finding->proved &&
           (grade_of_engine(finding->engine) != GRADE_MICROVM || finding->accelerated);
}

static void choose_first(const struct engine_finding *findings, size_t n,
                         struct engine_choice *choice)
{
    *choice = (struct engine_choice){.step = ENGINE_NONE};
    for (size_t i = 0; i < COUNT_OF(order); i++) {
        const struct engine_finding *finding = finding_of(order[i], findings, n);

        choice->engine = order[i];
        if (!finding || auto_takes(finding)) {
            choice->step = finding ? ENGINE_TAKE : ENGINE_TRY;
            return;
        }
        reason_add(choice, finding);
    }
}

void engine_choose(const char *wanted, const struct engine_finding *findings, size_t n,
                   struct engine_choice *choice)
{
    enum engine_kind named;

    if (strcmp(wanted, automatic) == 0) {
        choose_first(findings, n, choice);
        return;
    }
    if (engine_kind_parse(str_of(wanted), &named)) {
        choose_named(named, findings, n, choice);
        return;
    }
    *choice = (struct engine_choice){.step = ENGINE_NONE};
    snprintf(choice->reason, sizeof choice->reason, "no engine is called %s", wanted);
}

static bool is_machine(enum engine_kind engine)
{
    return grade_meets(grade_of_engine(engine), GRADE_MICROVM);
}

void engine_choose_builder(const char *wanted, enum engine_kind runs, bool is_root,
                           const struct engine_finding *findings, size_t n,
                           struct engine_choice *choice)
{
    enum engine_kind named = is_root && is_machine(runs) ? ENGINE_GVISOR : runs;

    if (strcmp(wanted, automatic) != 0 && !engine_kind_parse(str_of(wanted), &named)) {
        *choice = (struct engine_choice){.step = ENGINE_NONE};
        snprintf(choice->reason, sizeof choice->reason, "no engine is called %s", wanted);
        return;
    }
    if (!engine_can_build(named)) {
        *choice = (struct engine_choice){.step = ENGINE_NONE};
        snprintf(choice->reason, sizeof choice->reason, "%s cannot build images",
                 engine_kind_name(named));
        return;
    }
    choose_named(named, findings, n, choice);
    if (choice->step == ENGINE_TAKE && named != runs)
        snprintf(choice->reason, sizeof choice->reason, "%s",
                 strcmp(wanted, automatic) != 0
                     ? "it was asked for by name"
                     : "runs have a microVM each, in which builds would take longer");
}
