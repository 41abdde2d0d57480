#include "engine/kvm.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/kvm.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "base/own.h"

/* Where things lie in the guest's 64 KiB. */
enum {
    MEMORY_BYTES = 0x10000,
    CODE_AT = 0x1000,
    TABLES_AT = 0x2000, /* three pages: levels 4, 3, 2 */
    SEGMENTS_AT = 0x5000,
    TASK_AT = 0x6000,
    GATES_AT = 0x7000,
    USER_STACK_AT = 0xa000,
    KERNEL_STACK_AT = 0xb000,
};

enum { RUN_MS = 2000, PORT = 0x3f8, TOLD = 'K', GATE_AT = 0x80 * 16 };

/* The first guest says its letter and halts. The second does what every kernel does first: it goes
 * to user mode, is called back through a gate, and only then says it. */
asm(".pushsection .rodata\n"
    ".code16\n"
    "kvm_real:\n"
    "  mov $0x3f8, %dx\n"
    "  mov $'K', %al\n"
    "  out %al, %dx\n"
    "  hlt\n"
    "kvm_real_end:\n"
    ".code64\n"
    "kvm_long:\n"
    "  pushq $0x1b\n"   /* user data */
    "  pushq $0xa000\n" /* user stack */
    "  pushq $2\n"      /* flags */
    "  pushq $0x23\n"   /* user code */
    "  pushq $(0x1000 + kvm_user - kvm_long)\n"
    "  iretq\n"
    "kvm_user:\n"
    "  int $0x80\n"
    "  hlt\n"
    "kvm_gate:\n"
    "  mov $0x3f8, %edx\n"
    "  mov $'K', %al\n"
    "  out %al, %dx\n"
    "  hlt\n"
    "kvm_long_end:\n"
    "kvm_real_len: .long kvm_real_end - kvm_real\n"
    "kvm_long_len: .long kvm_long_end - kvm_long\n"
    "kvm_gate_at: .long 0x1000 + kvm_gate - kvm_long\n"
    ".popsection\n");
extern const uint8_t kvm_real[], kvm_long[];
extern const uint32_t kvm_real_len, kvm_long_len, kvm_gate_at;

/* Kernel code and data, user data and code, each for 64 bits, and the task's two words. */
static const uint64_t segments[] = {0,
                                    0x00209a0000000000,
                                    0x0000920000000000,
                                    0x0000f20000000000,
                                    0x0020fa0000000000,
                                    0x00008b0000000067 | (uint64_t)TASK_AT << 16,
                                    0};

static _Alignas(4096) uint8_t memory[MEMORY_BYTES]; /* the guest's; a child of ours has its own */

struct machine {
    int vm, vcpu;
    struct kvm_run *run;
};

static bool machine_make(int kvm, struct machine *machine, struct error *err)
{
    machine->vm = ioctl(kvm, KVM_CREATE_VM, 0);
    if (machine->vm < 0)
        return error_errno(err, "no virtual machine can be made");
    struct kvm_userspace_memory_region region = {.memory_size = MEMORY_BYTES,
                                                 .userspace_addr = (uint64_t)(uintptr_t)memory};
    if (ioctl(machine->vm, KVM_SET_USER_MEMORY_REGION, &region) < 0)
        return error_errno(err, "a virtual machine takes no memory");
    machine->vcpu = ioctl(machine->vm, KVM_CREATE_VCPU, 0);
    int size = ioctl(kvm, KVM_GET_VCPU_MMAP_SIZE, 0);
    if (machine->vcpu < 0 || size < (int)sizeof(*machine->run))
        return error_errno(err, "no virtual processor can be made");
    machine->run = mmap(NULL, (size_t)size, PROT_READ | PROT_WRITE, MAP_SHARED, machine->vcpu, 0);
    return machine->run != MAP_FAILED || error_errno(err, "a virtual processor cannot be mapped");
}

/* The first 2 MiB mapped onto themselves, for user mode too. */
static void memory_write(void)
{
    const uint64_t tables[] = {(TABLES_AT + 0x1000) | 7, (TABLES_AT + 0x2000) | 7, 0x87};
    const uint64_t stack = KERNEL_STACK_AT;
    const uint64_t gate = (kvm_gate_at & 0xffff) | 8 << 16 | 0xee00ULL << 32;

    for (size_t i = 0; i < COUNT_OF(tables); i++)
        memcpy(memory + TABLES_AT + i * 0x1000, &tables[i], sizeof(tables[i]));
    memcpy(memory + SEGMENTS_AT, segments, sizeof(segments));
    memcpy(memory + TASK_AT + 4, &stack, sizeof(stack));
    memcpy(memory + GATES_AT + GATE_AT, &gate, sizeof(gate));
}

static void state_long(struct kvm_sregs *state)
{
    struct kvm_segment segment = {.limit = UINT32_MAX, .present = 1, .s = 1, .g = 1};

    state->cr3 = TABLES_AT;
    state->cr4 = 1 << 5;                /* PAE */
    state->cr0 = 1U << 31 | 1 << 4 | 1; /* PG, ET, PE */
    state->efer = 1 << 8 | 1 << 10;     /* LME, LMA */
    segment.selector = 16;
    segment.type = 3;
    state->ds = state->es = state->fs = state->gs = state->ss = segment;
    segment.selector = 8;
    segment.type = 11;
    segment.l = 1;
    state->cs = segment;
    state->tr = (struct kvm_segment){
        .base = TASK_AT, .limit = 103, .selector = 0x28, .type = 11, .present = 1};
    state->gdt = (struct kvm_dtable){.base = SEGMENTS_AT, .limit = sizeof(segments) - 1};
    state->idt = (struct kvm_dtable){.base = GATES_AT, .limit = 0xfff};
}

static bool state_set(struct machine *machine, bool is_long, struct error *err)
{
    struct kvm_sregs state;
    struct kvm_regs registers = {.rip = CODE_AT, .rflags = 2, .rsp = KERNEL_STACK_AT};

    if (ioctl(machine->vcpu, KVM_GET_SREGS, &state) < 0)
        return error_errno(err, "a virtual processor hides its state");
    state.cs.base = 0;
    state.cs.selector = 0;
    if (is_long) {
        memory_write();
        memcpy(memory + CODE_AT, kvm_long, kvm_long_len);
        state_long(&state);
    } else {
        memcpy(memory + CODE_AT, kvm_real, kvm_real_len);
    }
    return (ioctl(machine->vcpu, KVM_SET_SREGS, &state) == 0 &&
            ioctl(machine->vcpu, KVM_SET_REGS, &registers) == 0) ||
           error_errno(err, "a virtual processor refuses its state");
}

static bool machine_run(struct machine *machine, struct error *err)
{
    bool told = false;

    if (!machine->run)
        return error_set(err, ERR_INTERNAL, "there is no processor");
    for (int exits = 0; exits < 16; exits++) {
        struct kvm_run *run = machine->run;
        if (ioctl(machine->vcpu, KVM_RUN, 0) < 0)
            return error_errno(err, "it does not run");
        if (run->exit_reason == KVM_EXIT_HLT)
            return told || error_set(err, ERR_INTERNAL, "it stopped without having run");
        if (run->exit_reason != KVM_EXIT_IO || run->io.port != PORT ||
            *((uint8_t *)run + run->io.data_offset) != TOLD)
            return error_set(err, ERR_INTERNAL, "it ended with KVM exit %u", run->exit_reason);
        told = true;
    }
    return error_set(err, ERR_INTERNAL, "it never halts");
}

static bool guest_try(bool is_long, struct error *err)
{
    AUTO_FD int kvm = open("/dev/kvm", O_RDWR | O_CLOEXEC);
    struct machine machine = {.vm = -1, .vcpu = -1};

    if (kvm < 0)
        return error_errno(err, "/dev/kvm cannot be opened");
    return machine_make(kvm, &machine, err) && state_set(&machine, is_long, err) &&
           machine_run(&machine, err);
}

/* In a child of its own: a guest that spins cannot be called back. */
static bool guest_run(bool is_long, struct error *err)
{
    int report[2];
    struct error result = {.text = "it does not come back"};

    if (pipe2(report, O_CLOEXEC) < 0)
        return error_errno(err, "make a pipe");
    AUTO_FD int reader = report[0];
    AUTO_FD int writer = report[1];
    pid_t pid = fork();
    if (pid < 0)
        return error_errno(err, "fork");
    if (pid == 0) {
        struct error found = {0};
        if (guest_try(is_long, &found))
            found.text[0] = '\0';
        (void)!write(writer, &found, sizeof(found));
        _exit(0);
    }

    struct pollfd ready = {.fd = reader, .events = POLLIN};
    if (poll(&ready, 1, RUN_MS) == 1)
        (void)!read(reader, &result, sizeof(result));
    (void)kill(pid, SIGKILL);
    (void)waitpid(pid, NULL, 0);
    if (result.text[0])
        *err = result;
    return !result.text[0];
}

static bool device_opens(char *reason, size_t room)
{
    AUTO_FD int kvm = open("/dev/kvm", O_RDWR | O_CLOEXEC);

    if (kvm >= 0 && ioctl(kvm, KVM_GET_API_VERSION, 0) == KVM_API_VERSION)
        return true;
    if (kvm >= 0)
        snprintf(reason, room, "/dev/kvm speaks another version");
    else if (errno == ENOENT)
        snprintf(reason, room, "no /dev/kvm on this machine");
    else
        snprintf(reason, room, "/dev/kvm cannot be opened: %s", strerror(errno));
    return false;
}

bool kvm_probe(char *reason, size_t room)
{
    struct error err = {0};

    if (!device_opens(reason, room))
        return false;
    if (!guest_run(false, &err)) {
        snprintf(reason, room, "/dev/kvm opens but no guest runs: %.120s", err.text);
        return false;
    }
    if (!guest_run(true, &err)) {
        snprintf(reason, room,
                 "/dev/kvm opens but no kernel can boot: a guest that calls its kernel from user "
                 "mode fails, %.80s",
                 err.text);
        return false;
    }
    snprintf(reason, room, "/dev/kvm runs a small guest");
    return true;
}
