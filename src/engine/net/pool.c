#include "engine/net/pool.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/socket.h>

#include "base/file.h"
#include "base/log.h"
#include "base/own.h"
#include "base/time.h"
#include "base/wait.h"
#include "engine/net/dns.h"
#include "engine/net/netns.h"

enum {
    READY_MAX = 4,
    CHECK_MS = 10000,
    BACK_OFF_MS = 5000,
    ANSWER_TRIES = 10,
    ANSWER_MS = 2000,
    QUIET_MS = 300,
    READY_MIN = 2,
    CHECKED_MAX = 256
};

#define FORWARD_FILE "/run/helmr/ip_forward"

struct network_pool {
    struct engine_host *host;
    struct policy policy;
    struct dns_server *dns;
    int forward_fd; /* holds FORWARD_FILE */

    pthread_t keeper;
    bool has_keeper;
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    struct network *ready, *used, *ended;
    size_t n_ready[NETWORK_KIND_COUNT];
    bool is_wanted[NETWORK_KIND_COUNT]; /* ahead of need: one was asked for */
    int64_t failed_ms;                  /* boot time of the last failure to make one, or 0 */
    int64_t taken_ms;                   /* boot time of the last take */
    bool is_stopping;
};

/* Forwarding belongs to the whole host: the first worker notes what it was, and the last to
 * leave puts it back. */
static bool forwarding_take(int *fd, struct error *err)
{
    AUTO_FREE char *before = NULL;
    char noted;
    AUTO_FD int file = open(FORWARD_FILE, O_RDWR | O_CREAT | O_CLOEXEC, 0600);

    if (file < 0 || flock(file, LOCK_SH) < 0)
        return error_errno(err, "lock " FORWARD_FILE);
    if (!file_read("/proc/sys/net/ipv4/ip_forward", 16, &before, err))
        return false;
    if (pread(file, &noted, 1, 0) != 1 && pwrite(file, before, 1, 0) != 1)
        return error_errno(err, "write " FORWARD_FILE);
    if (!sysctl_write("net/ipv4/ip_forward", "1", err))
        return false;
    *fd = take_fd(&file);
    return true;
}

static void forwarding_give_back(int fd)
{
    char noted[2] = "";
    struct error err = {0};

    if (fd < 0)
        return;
    if (flock(fd, LOCK_EX | LOCK_NB) == 0 && pread(fd, noted, 1, 0) == 1) {
        if (!sysctl_write("net/ipv4/ip_forward", noted, &err))
            log_warn("forwarding stays as it is", LOG_ERR(&err));
        (void)unlink(FORWARD_FILE);
    }
    close(fd);
}

static void list_remove(struct network **list, const struct network *network)
{
    while (*list && *list != network)
        list = &(*list)->next;
    if (*list)
        *list = network->next;
}

/* With the mutex held on entry and exit, not during the work. */
static void keeper_make(struct network_pool *pool, enum network_kind kind)
{
    struct network *made = NULL;
    struct error err = {0};

    pthread_mutex_unlock(&pool->mutex);
    bool ok = network_make(pool->host, kind, &pool->policy, pool->dns, &made, &err);
    if (!ok)
        log_error("no network can be prepared", LOG_ERR(&err));
    pthread_mutex_lock(&pool->mutex);
    pool->failed_ms = ok ? 0 : time_boot_ms();
    if (ok) {
        made->next = pool->ready;
        pool->ready = made;
        pool->n_ready[kind]++;
    }
}

static void keeper_bury(struct network_pool *pool)
{
    struct network *network = pool->ended;

    pool->ended = network->next;
    pthread_mutex_unlock(&pool->mutex);
    network_unmake(network);
    pthread_mutex_lock(&pool->mutex);
}

/* Without the mutex: only this thread frees networks, so those seen here stay. */
static void keeper_check(struct network_pool *pool)
{
    struct network *seen[CHECKED_MAX];
    size_t n = 0;

    for (struct network *at = pool->used; at && n < CHECKED_MAX; at = at->next)
        seen[n++] = at;
    pthread_mutex_unlock(&pool->mutex);
    for (size_t i = 0; i < n; i++) {
        if (network_rules_hold(seen[i]))
            continue;
        log_error("network rules were changed, the sandbox is killed",
                  LOG_STR("instance", seen[i]->user));
        network_cut(seen[i]);
        cgroup_kill_once(&pool->host->cgroups, seen[i]->user);
    }
    pthread_mutex_lock(&pool->mutex);
}

static size_t ready_wanted(const struct network_pool *pool)
{
    return pool->host->slots < READY_MAX ? (size_t)pool->host->slots : READY_MAX;
}

/* NETWORK_KIND_COUNT: none. */
static enum network_kind kind_below(const struct network_pool *pool, size_t wanted)
{
    enum network_kind kind = 0;

    while (kind < NETWORK_KIND_COUNT && (!pool->is_wanted[kind] || pool->n_ready[kind] >= wanted))
        kind++;
    return kind;
}

/* A sandbox that just got its network is booting now: unless the next one would have to wait, it
 * has the processors to itself. */
static bool is_quiet(const struct network_pool *pool)
{
    return pool->is_stopping || kind_below(pool, READY_MIN) < NETWORK_KIND_COUNT ||
           time_boot_ms() - pool->taken_ms >= QUIET_MS;
}

static bool may_make(const struct network_pool *pool)
{
    return !pool->is_stopping && kind_below(pool, ready_wanted(pool)) < NETWORK_KIND_COUNT &&
           (!pool->failed_ms || time_boot_ms() - pool->failed_ms >= BACK_OFF_MS);
}

static void *keeper_main(void *arg)
{
    struct network_pool *pool = arg;
    int64_t checked_ms = time_boot_ms();

    pthread_mutex_lock(&pool->mutex);
    while (!pool->is_stopping || pool->ended) {
        bool has_work = may_make(pool) || pool->ended;
        if (has_work && !is_quiet(pool)) {
            wait_ms(&pool->changed, &pool->mutex, QUIET_MS);
        } else if (may_make(pool)) {
            keeper_make(pool, kind_below(pool, ready_wanted(pool)));
        } else if (pool->ended) {
            keeper_bury(pool);
        } else if (time_boot_ms() - checked_ms >= CHECK_MS) {
            keeper_check(pool);
            checked_ms = time_boot_ms();
        } else {
            wait_ms(&pool->changed, &pool->mutex, pool->failed_ms ? BACK_OFF_MS : CHECK_MS);
        }
    }
    pthread_mutex_unlock(&pool->mutex);
    return NULL;
}

static bool keeper_start(struct network_pool *pool, struct error *err)
{
    sigset_t all, before;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int failed = pthread_create(&pool->keeper, NULL, keeper_main, pool);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pool->has_keeper = failed == 0;
    return pool->has_keeper ||
           error_set(err, ERR_INTERNAL, "start the network thread: error %d", failed);
}

bool network_pool_create(struct engine_host *host, struct network_pool **pool, struct error *err)
{
    struct network_pool *made = alloc(sizeof(*made));

    *made = (struct network_pool){.host = host,
                                  .forward_fd = -1,
                                  .is_wanted = {[NETWORK_INNER] = true},
                                  .mutex = PTHREAD_MUTEX_INITIALIZER,
                                  .changed = PTHREAD_COND_INITIALIZER};
    if (policy_check_routes(err) &&
        policy_init(&made->policy, host->blocked_cidrs, host->allowed_cidrs, err) &&
        dns_server_create(host->service, host->dns, &made->policy, &made->dns, err) &&
        policy_load_root(host->tag, err) && forwarding_take(&made->forward_fd, err) &&
        keeper_start(made, err)) {
        *pool = made;
        return true;
    }
    network_pool_destroy(made);
    return error_wrap(err, "network");
}

void network_pool_destroy(struct network_pool *pool)
{
    struct error err = {0};

    if (!pool)
        return;
    pthread_mutex_lock(&pool->mutex);
    pool->is_stopping = true;
    pthread_cond_signal(&pool->changed);
    pthread_mutex_unlock(&pool->mutex);
    if (pool->has_keeper)
        pthread_join(pool->keeper, NULL);
    while (pool->ready) {
        struct network *next = pool->ready->next;
        network_unmake(pool->ready);
        pool->ready = next;
    }
    if (!pool->host->quarantined && !policy_remove_root(pool->host->tag, &err))
        log_warn("the root table stays", LOG_ERR(&err));
    forwarding_give_back(pool->forward_fd);
    dns_server_destroy(pool->dns);
    free(pool);
}

void network_pool_tick(struct network_pool *pool)
{
    if (!pool)
        return;
    pthread_mutex_lock(&pool->mutex);
    pthread_cond_signal(&pool->changed);
    pthread_mutex_unlock(&pool->mutex);
}

static struct network *ready_pop(struct network_pool *pool, enum network_kind kind)
{
    pthread_mutex_lock(&pool->mutex);
    struct network *found = pool->ready;
    while (found && found->kind != kind)
        found = found->next;
    if (found) {
        list_remove(&pool->ready, found);
        pool->n_ready[kind]--;
    }
    pool->is_wanted[kind] = true;
    pool->taken_ms = time_boot_ms();
    pthread_cond_signal(&pool->changed);
    pthread_mutex_unlock(&pool->mutex);
    return found;
}

/* What this sandbox alone is denied or limited to. */
static bool narrow(struct network *network, const struct sandbox_spec *spec, struct error *err)
{
    bool has_quota = spec->quota.receive_bytes > 0;

    if (spec->n_deny == 0 && !has_quota)
        return true;
    return (spec->n_deny == 0 || policy_deny(network->edge_fd, spec->deny, spec->n_deny, err)) &&
           (!has_quota || policy_limit(network->edge_fd, &spec->quota, err)) &&
           policy_digest(network->edge_fd, network->rules, err);
}

bool network_take(struct network_pool *pool, const struct sandbox_spec *spec,
                  enum network_kind kind, struct network **network, struct error *err)
{
    struct network *taken = ready_pop(pool, kind);

    if (!taken && !network_make(pool->host, kind, &pool->policy, pool->dns, &taken, err))
        return false;
    if (!narrow(taken, spec, err)) {
        network_unmake(taken);
        return false;
    }
    snprintf(taken->user, sizeof(taken->user), "%s", id_short(spec->id));
    pthread_mutex_lock(&pool->mutex);
    taken->next = pool->used;
    pool->used = taken;
    pthread_mutex_unlock(&pool->mutex);
    *network = taken;
    return true;
}

void network_release(struct network *network)
{
    struct network_pool *pool = network->host->networks;

    pthread_mutex_lock(&pool->mutex);
    list_remove(&pool->used, network);
    network->next = pool->ended;
    pool->ended = network;
    pthread_cond_signal(&pool->changed);
    pthread_mutex_unlock(&pool->mutex);
}

/* Asks for an IPv6 address, which the forwarder answers itself: no server above is needed. A
 * datagram may get lost while the links come up, and a busy machine be late: it is asked again. */
static bool ask_gateway(void *arg, struct error *err)
{
    static const char question[] =
        "\x12\x34\x01\x00\0\x01\0\0\0\0\0\0\5helmr\7invalid\0\0\x1c\0\x01";
    struct sockaddr_in gateway = {.sin_family = AF_INET, .sin_port = htons(53)};
    char answer[512];
    AUTO_FD int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    struct pollfd ready = {.fd = fd, .events = POLLIN};

    (void)arg;
    gateway.sin_addr.s_addr = htonl(0xc6120001);
    for (int tries = 0; tries < ANSWER_TRIES; tries++) {
        if (fd < 0 || sendto(fd, question, sizeof(question) - 1, 0, (struct sockaddr *)&gateway,
                             sizeof(gateway)) < 0)
            return error_errno(err, "ask the DNS forwarder");
        if (poll(&ready, 1, ANSWER_MS) != 1)
            continue;
        ssize_t got = recv(fd, answer, sizeof(answer), 0);
        return (got >= DNS_HEADER_LEN && memcmp(answer, question, 2) == 0) ||
               error_set(err, ERR_INTERNAL, "the DNS forwarder answered nonsense");
    }
    return error_set(err, ERR_TIMEOUT, "the DNS forwarder does not answer");
}

bool network_preflight(struct network_pool *pool, struct error *err)
{
    struct network *network;

    if (!policy_check_routes(err) ||
        !network_make(pool->host, NETWORK_INNER, &pool->policy, pool->dns, &network, err))
        return false;

    bool ok =
        netns_run(network->inner_fd, ask_gateway, NULL, err) &&
        (network_rules_hold(network) || error_set(err, ERR_INTERNAL, "network rules do not hold"));
    network_unmake(network);
    return ok;
}

void network_reclaim(struct engine_host *host)
{
    struct error ignored;

    (void)!policy_remove_root(host->tag, &ignored);
}
