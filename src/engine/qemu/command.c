#include "engine/qemu/command.h"

#include <stdarg.h>
#include <stdio.h>

#include "engine/net/network.h"
#include "protocol/message.h"

struct writer {
    struct qemu_args *args;
    size_t n, len;
    bool is_full;
};

static void put(struct writer *writer, const char *fmt, ...) PRINTF_LIKE(2, 3);

static void put(struct writer *writer, const char *fmt, ...)
{
    char *at = writer->args->text + writer->len;
    size_t room = QEMU_TEXT_MAX - writer->len;
    va_list values;

    va_start(values, fmt);
    int len = vsnprintf(at, room, fmt, values);
    va_end(values);
    writer->is_full |= len < 0 || (size_t)len >= room || writer->n == QEMU_ARGS_MAX;
    if (writer->is_full)
        return;
    writer->args->argv[writer->n++] = at;
    writer->len += (size_t)len + 1;
}

static void put_all(struct writer *writer, const char *const *words, size_t n)
{
    for (size_t i = 0; i < n; i++)
        put(writer, "%s", words[i]);
}

static void put_machine(struct writer *writer, const struct qemu_command *command)
{
    static const char *const bare[] = {
        "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot", "-name",
    };

    put(writer, "%s", command->binary);
    put_all(writer, bare, COUNT_OF(bare));
    put(writer, "%s", command->name);
    /* Without the second interrupt controller there are places for 8 devices, which is enough,
     * and not for 24, each of which takes memory. */
    put(writer, "-M");
    put(writer,
        "microvm,acpi=on,rtc=on,isa-serial=off,ioapic2=off,suppress-vmdesc=on,memory-backend=m0");
    put(writer, "-accel");
    put(writer, command->is_accelerated ? "kvm" : "tcg,tb-size=128");
    put(writer, "-global");
    put(writer, "migration.send-configuration=off");
    put(writer, "-cpu");
    put(writer, command->is_accelerated ? "host" : "max");
    put(writer, "-smp");
    put(writer, "%d", command->vcpus);
    put(writer, "-m");
    put(writer, "%lld", (long long)command->memory_mib);
    put(writer, "-object");
    put(writer, "memory-backend-file,id=m0,size=%lldM,mem-path=/proc/self/fd/%d,share=%s",
        (long long)command->memory_mib, QEMU_FD_MEMORY, command->is_copy ? "off" : "on");
}

/* Without hardware the guest measures its clock against one that the host may not run for a
 * while, and gives up; and what protects from the processor's guesses only costs. */
static void put_boot(struct writer *writer, const struct qemu_command *command)
{
    char ticks[64] = "", drives[64] = "";
    const char *names[3];
    size_t n = 0, len = 0;

    if (command->has_root)
        names[n++] = "root";
    if (command->has_scratch)
        names[n++] = "scratch";
    if (command->has_bundle)
        names[n++] = "bundle";
    for (size_t i = 0; i < n; i++)
        len += (size_t)snprintf(drives + len, sizeof(drives) - len, "%s%s",
                                i ? "," : " helmr.drives=", names[i]);
    if (command->tsc_khz > 0)
        snprintf(ticks, sizeof(ticks), " tsc_early_khz=%ld", command->tsc_khz);
    put(writer, "-kernel");
    put(writer, "/proc/self/fd/%d", QEMU_FD_KERNEL);
    put(writer, "-initrd");
    put(writer, "/proc/self/fd/%d", QEMU_FD_INITRD);
    put(writer, "-append");
    put(writer,
        "quiet panic=-1 reboot=t no_timer_check tsc=reliable nowatchdog cryptomgr.notests%s%s "
        "helmr.channel=serial helmr.abi=%d%s",
        command->is_accelerated ? "" : " mitigations=off", ticks, (int)MESSAGE_ABI, drives);
}

static void put_drive(struct writer *writer, const char *name, enum qemu_fd fd, const char *options)
{
    put(writer, "-drive");
    put(writer, "id=%s,if=none,format=raw,file=/proc/self/fd/%d,file.locking=off,%s", name, fd,
        options);
    put(writer, "-device");
    put(writer, "virtio-blk-device,drive=%s,serial=helmr-%s", name, name);
}

/* The guest's gateway, which it also asks for names, is QEMU's name server; what QEMU calls the
 * host is an address that no guest uses. */
#define USER_NETWORK \
    "user,id=n0,ipv6=off,net=198.18.0.0/24,dns=198.18.0.1,host=198.18.0.254,dhcpstart=198.18.0.2"

/* Of two filters the later comes first: what was let through goes on behind the one that takes. */
static void put_frames(struct writer *writer)
{
    put(writer, "-chardev");
    put(writer, "socket,id=fo,fd=%d", QEMU_FD_FRAMES_OUT);
    put(writer, "-chardev");
    put(writer, "socket,id=fi,fd=%d", QEMU_FD_FRAMES_IN);
    put(writer, "-object");
    put(writer, "filter-redirector,id=back,netdev=n0,queue=rx,indev=fi");
    put(writer, "-object");
    put(writer, "filter-redirector,id=away,netdev=n0,queue=rx,outdev=fo");
}

static void put_network(struct writer *writer, enum qemu_network network)
{
    if (network == QEMU_NETWORK_NONE)
        return;
    put(writer, "-netdev");
    if (network == QEMU_NETWORK_TAP)
        put(writer, "tap,id=n0,fd=%d", QEMU_FD_TAP);
    else
        put(writer, USER_NETWORK "%s", network == QEMU_NETWORK_RESTRICTED ? ",restrict=on" : "");
    if (network == QEMU_NETWORK_USER)
        put_frames(writer);
    put(writer, "-device");
    put(writer, "virtio-net-device,netdev=n0,mac=" NETWORK_GUEST_MAC);
}

static void put_devices(struct writer *writer, const struct qemu_command *command)
{
    static const char *const random[] = {
        "-object",
        "rng-random,id=r0,filename=/dev/urandom",
        "-device",
        "virtio-rng-device,rng=r0",
    };

    if (command->has_root)
        put_drive(writer, "root", QEMU_FD_ROOT, "readonly=on");
    if (command->has_scratch)
        put_drive(writer, "scratch", QEMU_FD_SCRATCH, "cache=unsafe,discard=unmap");
    if (command->has_bundle)
        put_drive(writer, "bundle", QEMU_FD_BUNDLE, "readonly=on");
    put(writer, "-device");
    put(writer, "virtio-serial-device");
    put(writer, "-chardev");
    put(writer, "socket,id=ch,fd=%d", QEMU_FD_CHANNEL);
    put(writer, "-device");
    put(writer, "virtserialport,chardev=ch,name=helmr.channel");
    put_all(writer, random, COUNT_OF(random));
    put_network(writer, command->network);
}

static void put_control(struct writer *writer, const struct qemu_command *command)
{
    put(writer, "-chardev");
    put(writer, "socket,id=mon,fd=%d", QEMU_FD_MONITOR);
    put(writer, "-mon");
    put(writer, "chardev=mon,mode=control");
    put(writer, "-sandbox");
    put(writer, "on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny");
    if (command->is_asleep)
        put(writer, "-S");
    if (command->is_restored) {
        put(writer, "-incoming");
        put(writer, "fd:%d", QEMU_FD_DEVICES);
    }
}

bool qemu_command_make(const struct qemu_command *command, struct qemu_args *args,
                       struct error *err)
{
    struct writer writer = {.args = args};

    if (command->vcpus < 1 || command->memory_mib < 1)
        return error_set(err, ERR_INVALID, "a machine has a processor and memory");
    put_machine(&writer, command);
    if (!command->is_restored)
        put_boot(&writer, command);
    put_devices(&writer, command);
    put_control(&writer, command);
    args->argv[writer.n] = NULL;
    return !writer.is_full || error_set(err, ERR_TOO_LARGE, "the command line is too long");
}
