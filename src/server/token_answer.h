/* Completing a token, whoever does it: read the data, complete, say how it went. */
#pragma once

#include "http/call.h"
#include "server/audit.h"
#include "server/token_store.h"

struct token_answer {
    const char *token_id;
    struct str data;                       /* canonical */
    const char *by_type, *by_id, *by_name; /* name NULL: none */
    struct audit_entry entry;
    /* In the transaction, after the token was completed now; NULL: nothing. */
    bool (*also)(struct tx *tx, void *arg, bool already, struct error *err);
    void *arg;
};

/* Data as it is kept: canonical, at most 256 KiB; absent (ptr NULL) is null. */
bool token_data(struct str raw, struct arena *arena, struct str *data, struct error *err) MUST_USE;

/* {status: "completed" | "already_completed", token}. */
bool token_answer(struct call *call, const char *environment_id, const struct token_answer *answer,
                  struct response *res, struct error *err) MUST_USE;
