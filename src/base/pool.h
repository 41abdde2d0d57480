/* A fixed set of threads that run jobs in the order they were given. */
#pragma once

#include "base/error.h"

struct pool;
typedef void pool_job(void *arg);

bool pool_create(size_t n_threads, struct pool **pool, struct error *err) MUST_USE;

/* Waits for every job given so far, then ends the threads. */
void pool_destroy(struct pool *pool);

void pool_give(struct pool *pool, pool_job *job, void *arg);
