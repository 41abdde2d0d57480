/* What an environment may have: workspaces that were made on purpose, and bytes of what versions
 * are made of.
 *
 * An object counts once, however many versions share it, so a branch costs nothing. The sums are in
 * one row per environment, which a transaction locks last. A limit that was lowered below what is
 * there takes nothing away: it only refuses more.
 */
#pragma once

#include "base/json.h"
#include "store/store.h"

/* One more workspace. ERR_QUOTA names limit, use and what to do. */
bool quota_take_workspace(struct tx *tx, const char *environment_id, struct error *err) MUST_USE;
bool quota_give_workspace(struct tx *tx, const char *environment_id, struct error *err) MUST_USE;

/* Counts what a new version refers to. With `may_exceed` it is counted and let through. */
bool quota_add_version(struct tx *tx, const char *environment_id, const char *version_id,
                       bool may_exceed, struct error *err) MUST_USE;

/* Before the references of a version are dropped. */
bool quota_drop_version(struct tx *tx, const char *environment_id, const char *version_id,
                        struct error *err) MUST_USE;

/* Whether a version of these objects (struct wire_object) would be let through; *why says what is
 * wrong when not. */
bool quota_has_room(struct tx *tx, const char *environment_id, const struct json_list *objects,
                    bool *fits, struct error *why, struct error *err) MUST_USE;

/* ERR_QUOTA when the storage is used up, for what is going to write. */
bool quota_check_storage(struct tx *tx, const char *environment_id, struct error *err) MUST_USE;
