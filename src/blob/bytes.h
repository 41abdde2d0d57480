/* Little-endian numbers in bytes of any alignment, as every format of the store has them. */
#pragma once

#include <endian.h>
#include <stdint.h>
#include <string.h>

static inline void put_u32(uint8_t *to, uint32_t value)
{
    value = htole32(value);
    memcpy(to, &value, sizeof value);
}

static inline void put_u64(uint8_t *to, uint64_t value)
{
    value = htole64(value);
    memcpy(to, &value, sizeof value);
}

static inline uint32_t get_u32(const uint8_t *from)
{
    uint32_t value;

    memcpy(&value, from, sizeof value);
    return le32toh(value);
}

static inline uint64_t get_u64(const uint8_t *from)
{
    uint64_t value;

    memcpy(&value, from, sizeof value);
    return le64toh(value);
}
