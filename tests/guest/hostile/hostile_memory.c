/*
 * hostile_memory.c - wild reads, writes and jumps, and instructions that are not for programs.
 *
 * Aim     each ends its own process, with a status and a line in the log that names the place; a
 *         container is named. The parent goes on, and nothing is lost.
 * Method  a child per case. The log cannot be read from here: tests/system/bad-input.sh looks at
 *         it for the messages.
 */
#include <pthread.h>
#include <sys/syscall.h>

#include "hostile.h"

enum { READ, WRITE, JUMP };

__attribute__((noipa)) static int touch(int how, uintptr_t at)
{
    if (how == READ) (void)*(volatile char *)at;
    if (how == WRITE) *(volatile char *)at = 1;
    if (how == JUMP) ((void (*)(void))at)();
    return 0;
}

static const struct { const char *name; uintptr_t at;
} places[] = {
    { "null", 0 },
    { "null + 8", 8 },
    { "the end of page 0", 4095 },
    { "below the program", 0xf000 },
    { "a hole", 0x123456789000 },
    { "above the stack", 0x7ffff00000 },
    { "the store, nothing there", 0x3f0000000000 },
    { "the end of the store", KD_STORE_END - 1 },
    { "behind the store", KD_STORE_END },
    { "the last user page", 0x7ffffffff000 },
    { "the end of the user half", 0x7fffffffffff },
    { "not canonical", 0x800000000000 },
    { "not canonical, high", 0xffff7fffffffffff },
    { "the direct map", 0xffff800000000000 },
    { "kernel text", 0xffffffff80100000 },
    { "kernel data", 0xffffffff80200000 },
    { "the last byte", ~0ul },
};
enum { PLACES = sizeof places / sizeof places[0] };

/* Instructions: machine code that is run from a page of its own. (With SMAP, QEMU before 9.1 reads
 * the stack of far returns and of iretq as the kernel would: they fault, however good it is.) */
static const struct { const char *name; unsigned char code[16]; unsigned bytes;
} instructions[] = {
    { "sgdt", { 0x0f, 0x01, 0x44, 0x24, 0xf0 }, 5 },
    { "sidt", { 0x0f, 0x01, 0x4c, 0x24, 0xf0 }, 5 },
    /* UMIP */
    { "smsw", { 0x0f, 0x01, 0xe0 }, 3 },
    { "sldt", { 0x0f, 0x00, 0xc0 }, 3 },
    { "str", { 0x0f, 0x00, 0xc8 }, 3 },
    { "cli", { 0xfa }, 1 },
    { "sti", { 0xfb }, 1 },
    { "hlt", { 0xf4 }, 1 },
    { "in", { 0xe4, 0x60 }, 2 },
    { "out", { 0xe6, 0x80 }, 2 },
    { "outsb", { 0x6e }, 1 },
    { "debug exit", { 0xe6, 0xf4 }, 2 },
    { "mov cr0", { 0x0f, 0x20, 0xc0 }, 3 },
    { "mov to cr3", { 0x0f, 0x22, 0xd8 }, 3 },
    { "mov to cr4", { 0x0f, 0x22, 0xe0 }, 3 },
    { "mov dr7", { 0x0f, 0x23, 0xf8 }, 3 },
    { "wrmsr", { 0x0f, 0x30 }, 2 },
    { "rdmsr", { 0x0f, 0x32 }, 2 },
    { "invlpg", { 0x0f, 0x01, 0x38 }, 3 },
    { "lgdt", { 0x0f, 0x01, 0x10 }, 3 },
    { "lidt", { 0x0f, 0x01, 0x18 }, 3 },
    { "ltr", { 0x0f, 0x00, 0xd8 }, 3 },
    { "lldt", { 0x0f, 0x00, 0xd0 }, 3 },
    { "clts", { 0x0f, 0x06 }, 2 },
    { "wbinvd", { 0x0f, 0x09 }, 2 },
    { "swapgs", { 0x0f, 0x01, 0xf8 }, 3 },
    { "sysret", { 0x48, 0x0f, 0x07 }, 3 },
    { "sysexit", { 0x0f, 0x35 }, 2 },
    { "xsetbv", { 0x0f, 0x01, 0xd1 }, 3 },
    { "stac", { 0x0f, 0x01, 0xcb }, 3 },
    { "vmcall", { 0x0f, 0x01, 0xc1 }, 3 },
    { "iretq", { 0x48, 0xcf }, 2 },
    { "far return", { 0x48, 0xcb }, 2 },
    { "iretq, with a stack that is not there", { 0xbc, 0, 0, 0, 0x70, 0x48, 0xcf }, 7 },
    { "ud2", { 0x0f, 0x0b }, 2 },
    { "int 0", { 0xcd, 0x00 }, 2 },
    { "int 2", { 0xcd, 0x02 }, 2 },
    { "int 8", { 0xcd, 0x08 }, 2 },
    { "int 13", { 0xcd, 0x0d }, 2 },
    { "int 14", { 0xcd, 0x0e }, 2 },
    { "int 18", { 0xcd, 0x12 }, 2 },
    { "int 32", { 0xcd, 0x20 }, 2 },
    { "int 128", { 0xcd, 0x80 }, 2 },
    { "int 240", { 0xcd, 0xf0 }, 2 },
    { "int 255", { 0xcd, 0xff }, 2 },
    { "icebp", { 0xf1 }, 1 },
    { "mov ds, a kernel selector", { 0xb8, 0x10, 0, 0, 0, 0x8e, 0xd8, 0x0f, 0x0b }, 9 },
    { "mov ss, a kernel selector", { 0xb8, 0x10, 0, 0, 0, 0x8e, 0xd0 }, 7 },
    { "mov fs, beyond the table", { 0xb8, 0xff, 0xff, 0, 0, 0x8e, 0xe0 }, 7 },
    { "an address that is not canonical on the stack",
      { 0x48, 0xbc, 0, 0, 0, 0, 0, 0, 0, 0x80, 0x50 },
      11 },
    { "trap flag", { 0x9c, 0x81, 0x0c, 0x24, 0, 1, 0, 0, 0x9d, 0x90, 0x90 }, 11 },
    { "trap flag and a call", { 0x9c, 0x81, 0x0c, 0x24, 0, 1, 0, 0, 0x9d, 0x0f, 0x05 }, 11 },
    { "nested task flag and a call",
      { 0x9c, 0x81, 0x0c, 0x24, 0, 0x40, 0, 0, 0x9d, 0x0f, 0x05 },
      11 },
    { "alignment check and a call", { 0x9c, 0x81, 0x0c, 0x24, 0, 0, 4, 0, 0x9d, 0x0f, 0x05 }, 11 },
    { "backwards, and a call", { 0xfd, 0x0f, 0x05 }, 3 },
    { "backwards, and a fault", { 0xfd, 0x31, 0xc0, 0x8a, 0x00 }, 5 },
};
enum { INSTRUCTIONS = sizeof instructions / sizeof instructions[0] };

static int run_code(const unsigned char *code, size_t bytes)
{
    unsigned char *page =
        mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memcpy(page, code, bytes);
    page[bytes] = 0x0f, page[bytes + 1] = 0x0b; /* ud2: whoever comes so far ends, too */
    mprotect(page, 4096, PROT_READ | PROT_EXEC);
    /* the code's calls are KD_CHECK: it looks around, backwards or not */
    __asm__ volatile("call *%1" : : "a"(KD_CHECK), "r"(page) : "memory", "rcx", "r11", "rdx", "cc");
    return 0;
}

static volatile char sink;

__attribute__((noinline)) static int recurse(int n)
{
    char hole[64];
    memset(hole, n, sizeof hole);
    sink = hole[n & 63];
    return n < 0 ? n : recurse(n + 1) + hole[0];
}

static void *recurse_in_thread(void *unused)
{
    recurse(1);
    return unused;
}

static int container_write(void *p) { *(volatile char *)p = 1; return 0; }
static int container_jump(void *p) { ((void (*)(void))p)(); return 0; }
static int container_far(void *p) /* with a private copy, and its credit, in hand */
{
    *(volatile char *)p = 1;
    return ((volatile char *)p)[1ul << 42];
}

static int container_role(const char *what)
{
    int writes = strcmp(what, "read-only") != 0;
    ps_container *c = ps_open("hostile", PS_CREATE | (writes ? PS_WRITE : 0), NULL);
    struct ps_info list[16];
    int n = ps_list(list, 16);
    char *base = NULL;
    for (int i = 0; i < n; i++)
        if (strcmp(list[i].name, "hostile") == 0) base = (char *)list[i].base;
    if (!c || !base) return 0;
    if (strcmp(what, "outside-read") == 0) return touch(READ, (uintptr_t)base);
    if (strcmp(what, "outside-write") == 0) return touch(WRITE, (uintptr_t)base);
    if (strcmp(what, "outside-jump") == 0) return touch(JUMP, (uintptr_t)base);
    if (strcmp(what, "read-only") == 0) return ps_transaction(container_write, base) & 0;
    if (strcmp(what, "jump") == 0) return ps_transaction(container_jump, base) & 0;
    if (strcmp(what, "far") == 0) return ps_transaction(container_far, base) & 0;
    ps_close(c);
    if (strcmp(what, "closed") == 0) return touch(READ, (uintptr_t)base);
    return ps_transaction(container_write, base) & 0; /* closed-transaction */
}

static const char *const containers[] = { "outside-read", "outside-write",
                                          "outside-jump", "read-only",
                                          "jump",         "far",
                                          "closed",       "closed-transaction" };

static void aborted(long reason) { _exit(100 + (int)(reason & 63)); }

/* Transactions whose way out leads nowhere, and thread-local data that lies nowhere. */
static int other_role(const char *what)
{
    static char heap[4096] __attribute__((aligned(4096)));
    if (strcmp(what, "stack-jump") == 0) {
        char code[16] = "\xc3";
        return touch(JUMP, (uintptr_t)code);
    }
    if (strcmp(what, "heap-jump") == 0) return touch(JUMP, (uintptr_t)heap);
    if (strcmp(what, "text-write") == 0) return touch(WRITE, (uintptr_t)touch);
    if (strcmp(what, "constant-write") == 0) return touch(WRITE, (uintptr_t)what);
    if (strcmp(what, "overflow") == 0) return recurse(1);
    if (strcmp(what, "overflow-thread") == 0) {
        pthread_t thread;
        pthread_create(&thread, NULL, recurse_in_thread, NULL);
        pthread_join(thread, NULL);
    }
    if (strcmp(what, "no-stack") == 0) {
        __asm__ volatile("mov $0xffffffff80000000, %%rsp; push %%rax" : : : "memory");
    }
    if (strcmp(what, "no-stack-call") == 0) {
        __asm__ volatile("mov $0x8000000000000000, %%rsp; mov $39, %%eax; syscall; push %%rax"
                         : : : "memory", "rcx", "r11", "rax");
    }
    if (strcmp(what, "clone") == 0) {
        CALL(SYS_clone, 0x10f00, 0xffffffff80000000, 0, 0, 0);
        for (;;) usleep(1000);
    }
    if (strcmp(what, "clone-tls") == 0) {
        static char stack[4096] __attribute__((aligned(16)));
        CALL(SYS_clone, 0x90f00, stack + 2048, 0, 0, 0x8000000000000000);
        for (int i = 0; i < 100; i++) usleep(1000);
        return 7; /* or the thread was well, on whatever it found */
    }
    if (strcmp(what, "fs") == 0) {
        CALL(SYS_arch_prctl, 0x1002, 0x123456789000);
        return errno;
    }
    return 0;
}

static const char *const others[] = {"stack-jump", "heap-jump", "text-write", "constant-write",
                                     "overflow", "no-stack", "no-stack-call", "clone", "clone-tls",
                                     "fs",
                                     "overflow-thread"};
enum { OTHERS = sizeof others / sizeof others[0] };

static int role(char **argv)
{
    const char *what = argv[1];
    long n = argv[2] ? strtol(argv[2], NULL, 10) : 0;
    if (strcmp(what, "read") == 0) return touch(READ, places[n % PLACES].at);
    if (strcmp(what, "write") == 0) return touch(WRITE, places[n % PLACES].at);
    if (strcmp(what, "jump") == 0) return touch(JUMP, places[n % PLACES].at);
    if (strcmp(what, "code") == 0)
        return run_code(instructions[n % INSTRUCTIONS].code, instructions[n % INSTRUCTIONS].bytes);
    if (strcmp(what, "container") == 0) return container_role(containers[n % 8]);
    if (strcmp(what, "none") == 0) aborted(0);
    return other_role(others[n % OTHERS]);
}

static long map_at(uintptr_t at, size_t bytes, int how)
{
    return CALL(SYS_mmap, at, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | how, -1,
                0);
}

/* The page below the first thread's stack stays nobody's, however it is asked for. Where the stack
 * has not grown to, the program may map something, as in Linux; the stack then ends there. */
static void stack_guarded(void)
{
    const uintptr_t stack = 0x7ffff00000 - (8 << 20), guard = stack - KD_PAGE_BYTES,
                    below = guard - KD_PAGE_BYTES;
    long there = map_at(stack, KD_PAGE_BYTES, MAP_FIXED_NOREPLACE);
    long fixed = map_at(guard, KD_PAGE_BYTES, MAP_FIXED),
         free = map_at(guard, KD_PAGE_BYTES, MAP_FIXED_NOREPLACE);
    long hint = map_at(guard, KD_PAGE_BYTES, 0), over = map_at(below, 2 * KD_PAGE_BYTES, MAP_FIXED);
    long next = map_at(below, KD_PAGE_BYTES, MAP_FIXED);
    if (!tap_ok(there == (long)stack && fixed == -ENOMEM && free == -ENOMEM && is_errno(over) &&
                    hint > 0 && (uintptr_t)hint != guard && (uintptr_t)next == below,
                "below the stack there is a page that cannot be mapped"))
        printf("# %lx %lx %lx %lx %lx %lx\n", there, fixed, free, hint, over, next);
    munmap((void *)stack, KD_PAGE_BYTES);
    munmap((void *)next, KD_PAGE_BYTES);
    munmap((void *)hint, KD_PAGE_BYTES);
}

/* Cases 0..count-1 of a kind; all of them must end with a status that is not 0. */
static void cases(const char *self, const char *kind, int count, const char *what)
{
    int good = 1;
    for (int i = 0; i < count; i++) {
        char n[8];
        snprintf(n, sizeof n, "%d", i);
        int status = child_wait_for(child_start(self, kind, n), CHILD_ENDS_S);
        if (status <= 0)
            printf("# %s %d%s%s: status %d\n", kind, i, count == INSTRUCTIONS ? ", " : "",
                   count == INSTRUCTIONS ? instructions[i].name : "", status), good = 0;
    }
    tap_ok(good, "%s: %d cases end their process, and no other", what, count);
}

int main(int argc, char **argv)
{
    if (argc > 1) return role(argv);
    tap_plan(10);
    cases(argv[0], "read", 1, "one of them"); /* what is kept for the next time is kept now */
    cases(argv[0], "container", 1, "one of them");
    struct counts before = counts_now();
    cases(argv[0], "read", PLACES, "wild loads");
    cases(argv[0], "write", PLACES, "wild stores");
    cases(argv[0], "jump", PLACES, "wild jumps");
    cases(argv[0], "code", INSTRUCTIONS, "instructions");
    cases(argv[0], "container", 8, "containers");
    cases(argv[0], "other", OTHERS, "code, stacks, thread-local data");
    stack_guarded();
    tap_ok(counts_back(before, 64) && check_clean(), "nothing is lost, kcheck");
    return tap_end();
}
