/* PAUSE, and meeting the host again: the agent may be saved in between and wake up elsewhere.
 *
 * From PAUSED on the agent says nothing and believes nothing until the nonce of the pause has
 * come. It then watches its descriptors anew, because a restored gVisor tells an old watch of a
 * replaced descriptor nothing, and begins again with HELLO. The dead-man rests meanwhile.
 */
#pragma once

#include "protocol/channel.h"

struct agent;

struct resync {
    bool is_wanted; /* PAUSE came; PAUSED is sent once everything else has been */
    bool is_paused;
    uint64_t id;
    uint8_t nonce[CHANNEL_NONCE_LEN];
};

void resync_pause(struct agent *agent, const struct message_pause *pause);

/* Sends PAUSED when it can; while paused, looks whether the host is there again. */
void resync_settle(struct agent *agent);
