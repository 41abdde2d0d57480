/* What a sandbox may reach, as nft rules (execution.md §11.2).
 *
 * Only numbers we printed ourselves ever enter a rule file. Metadata addresses have no
 * exception. The rules are read back after loading and hashed, so that a later change
 * by anybody is seen.
 */
#pragma once

#include "base/hash.h"
#include "engine/engine.h"
#include "engine/net/cidr.h"

struct policy {
    struct cidr_list metadata, denied, allowed;
};

/* The blocked and allowed lists (NULL: the default, none), our own ranges and the addresses
 * this host has now. */
bool policy_init(struct policy *policy, const char *blocked, const char *allowed,
                 struct error *err) MUST_USE;

/* Whether a sandbox may never reach the address. */
bool policy_blocks(const struct policy *policy, uint32_t address);

/* One transaction with everything of §11.2, in the edge namespace. */
bool policy_load(const struct policy *policy, int edge_fd, struct error *err) MUST_USE;

/* More ranges to deny, for one sandbox. */
bool policy_deny(int edge_fd, const char *const *ranges, size_t n, struct error *err) MUST_USE;

/* Limits what one sandbox moves in all. */
bool policy_limit(int edge_fd, const struct network_quota *quota, struct error *err) MUST_USE;

/* The hash of the rules as the kernel has them; counters left out. */
bool policy_digest(int edge_fd, uint8_t digest[BLAKE2B_LEN], struct error *err) MUST_USE;

/* The table of this worker in the root namespace: no sandbox reaches the host or another. */
bool policy_load_root(const char *tag, struct error *err) MUST_USE;
bool policy_remove_root(const char *tag, struct error *err) MUST_USE;

/* Refuses a host that uses our own range 198.18.0.0/15 for something else. */
bool policy_check_routes(struct error *err) MUST_USE;
