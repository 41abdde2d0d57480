#include "worker/host_open.h"

#include <string.h>

static const char *text_or_null(const char *text)
{
    return text[0] ? text : NULL;
}

bool host_open(const struct worker_settings *settings, const char *work_dir, int slots,
               struct engine_host **host, struct error *err)
{
    const struct engine_settings engine = {
        .work_dir = work_dir,
        .cgroup_parent = settings->cgroup_parent,
        .slots = slots,
        .runsc_path = text_or_null(settings->runsc_path),
        .runc_path = text_or_null(settings->runc_path),
        .qemu_path = text_or_null(settings->qemu_path),
        .firecracker_path = text_or_null(settings->firecracker_path),
        .jailer_path = text_or_null(settings->jailer_path),
        .qemu_accel = settings->qemu_accel,
        .guest_dir = text_or_null(settings->guest_dir),
        .jail_id_base = (int)settings->jail_id_base,
        .network_enabled = settings->network_enabled,
        .is_user_network_open = settings->is_user_network_open,
        .dns = text_or_null(settings->dns),
        .blocked_cidrs = text_or_null(settings->blocked_cidrs),
        .allowed_cidrs = text_or_null(settings->allowed_cidrs),
    };

    return engine_host_open(&engine, host, err);
}
