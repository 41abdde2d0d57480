/* Where the audit log ended, outside of the database: <data dir>/keys/audit.head, sealed with the
 * key. Whoever can rewind the database but not this file cannot cut the log unseen.
 *
 * The server renews it some seconds after the last act and when it stops; never to an earlier end.
 */
#pragma once

#include "server/audit_chain.h"
#include "server/context.h"

struct audit_checkpoint {
    char chain_id[ID_TEXT];
    int64_t sequence;
    uint8_t mac[BLAKE2B_LEN];
    bool is_there;
};

void audit_checkpoint_path(const char *data_dir, char *path, size_t size);

/* No file is no error: is_there is false. A seal that is wrong is one. */
bool audit_checkpoint_read(const char *path, const struct keys *keys,
                           struct audit_checkpoint *checkpoint, struct error *err) MUST_USE;

/* Compares the file with the database at a start. When the log has been cut or replaced, that is
 * logged, becomes an entry, and the file stays as it is. */
bool audit_checkpoint_begin(struct server *server, struct error *err) MUST_USE;

/* Of the sweeper's thread: writes it when the log has grown, at most every few seconds. */
void audit_checkpoint_renew(struct server *server, bool is_last);
