/* Questions about files to the worker that has a workspace mounted, and their answers.
 *
 * A call asks, parks, and runs again when the answers are there; rows of the database carry them,
 * because the answer may come to another server. Nobody waits longer than FILES_ASK_MS.
 */
#pragma once

#include "protocol/files.h"
#include "server/files.h"

enum { FILES_ASK_MS = 5000, FILES_PARTS_MAX = 17 };

struct files_question {
    enum files_op op;
    struct str path, after;
    uint64_t offset, length;
};

struct files_answer {
    struct str data;
    uint64_t size;
    bool has_more;
};

/* Whether the answers to `n` questions, which are the first ones of this call or further ones, are
 * there; else the response is parked, and the handler returns true. ERR_NOT_MOUNTED when nobody
 * can be asked or answers in time; what the agent refuses is an error of files. */
bool files_ask(struct call *call, const char *workspace_id, const struct files_question *questions,
               size_t n, struct files_answer *answers, bool *is_there, struct response *res,
               struct error *err) MUST_USE;

/* Forgets what was asked. */
bool files_ask_end(struct call *call, struct error *err) MUST_USE;
