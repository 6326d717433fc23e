/*
 * stretch.c - a plugin of QEMU: how long a CPU stays in the kernel between two points that serve
 * shootdowns and can yield (kernel/thread/threads.md).
 *
 * A stretch begins where user mode is left, and at each point; it ends at the next point, or where
 * user mode goes on. Instructions are counted as QEMU runs them, so the kernel is the one that
 * ships, and knows nothing of it. One CPU; QEMU must count instructions, or clocks would differ.
 *
 *   -plugin stretch.so,limit=N,out=FILE,counts=FILE,entry=ADDRESS,point=ADDRESS,mark=ADDRESS
 *
 * entry, point: code addresses, several of each. limit: a longer stretch ends QEMU; 0: none does.
 * out: each time that the code at `mark` runs, the longest since the last time goes there as a
 * line. counts: at the same times, how often each instruction of the kernel ran since, and an
 * empty line. scripts/run --stretch makes these words.
 */
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- what QEMU offers to plugins, version 1; its header is not in Debian's package ---- */

typedef uint64_t qemu_plugin_id_t;
struct qemu_plugin_tb;
struct qemu_plugin_insn;
enum qemu_plugin_cb_flags { QEMU_PLUGIN_CB_NO_REGS };
enum qemu_plugin_op { QEMU_PLUGIN_INLINE_ADD_U64 };
void qemu_plugin_register_vcpu_tb_trans_cb(qemu_plugin_id_t id,
                                           void (*cb)(qemu_plugin_id_t, struct qemu_plugin_tb *));
void qemu_plugin_register_vcpu_tb_exec_inline(struct qemu_plugin_tb *tb, enum qemu_plugin_op op,
                                              void *word, uint64_t value);
void qemu_plugin_register_vcpu_insn_exec_cb(struct qemu_plugin_insn *insn,
                                            void (*cb)(unsigned cpu, void *arg),
                                            enum qemu_plugin_cb_flags flags, void *arg);
size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *tb);
uint64_t qemu_plugin_tb_vaddr(const struct qemu_plugin_tb *tb);
void qemu_plugin_register_vcpu_insn_exec_inline(struct qemu_plugin_insn *insn,
                                                enum qemu_plugin_op op, void *word, uint64_t value);
struct qemu_plugin_insn *qemu_plugin_tb_get_insn(const struct qemu_plugin_tb *tb, size_t i);
uint64_t qemu_plugin_insn_vaddr(const struct qemu_plugin_insn *insn);

int qemu_plugin_version = 1;
int qemu_plugin_install(qemu_plugin_id_t id, const void *info, int argc, char **argv);

/* ---- measuring ---- */

enum { ADDRESSES_MAX = 16 };
struct addresses { uint64_t of[ADDRESSES_MAX]; int count; };

static struct addresses entries, points, marks;
static uint64_t limit;
static FILE *out, *counts;
enum { CODE_BYTES = 1 << 22 };          /* the kernel has less code than this, in one piece */
static uint64_t ran[CODE_BYTES];        /* by the lower bits of the address */
static uint64_t kernel, user;           /* instructions so far */
static uint64_t last, user_then;        /* `kernel` where the stretch began; `user` at an entry */
static uint64_t begun;                  /* where the stretch began; 0: no program ran yet */
static struct { uint64_t count, from, to; } longest;

static void measure(uint64_t at)
{
    uint64_t count = kernel - last;
    last = kernel;
    if (begun && count > longest.count) {
        longest.count = count;
        longest.from = begun;
        longest.to = at;
    }
    if (begun && limit && count > limit) {
        /* + 1: scripts/run looks up what is in front of an address, as in a back trace */
        fprintf(stderr,
                "PANIC: %" PRIu64 " instructions without a point that serves shootdowns and "
                "yields, limit %" PRIu64 "\nfrom %" PRIx64 "\nto %" PRIx64 "\n",
                count, limit, begun + 1, at + 1);
        _exit(1);
    }
}

static void at_point(unsigned cpu, void *at)
{
    (void)cpu;
    measure((uint64_t)(uintptr_t)at);
    begun = begun ? (uint64_t)(uintptr_t)at : 0;
}

/* A fault of the kernel's own, in a copy, does not begin a stretch. */
static void at_entry(unsigned cpu, void *at)
{
    (void)cpu;
    if (user == user_then)
        return;
    measure(0); /* the stretch that ended where user mode went on */
    user_then = user;
    begun = (uint64_t)(uintptr_t)at;
}

static void counts_write(void)
{
    if (!counts)
        return;
    for (int i = 0; i < CODE_BYTES; i++)
        if (ran[i])
            fprintf(counts, "%x %" PRIu64 "\n", i, ran[i]);
    memset(ran, 0, sizeof ran);
    fprintf(counts, "\n");
    fflush(counts);
}

static void at_mark(unsigned cpu, void *at)
{
    (void)cpu, (void)at;
    counts_write();
    if (out)
        fprintf(out, "%" PRIu64 " from %" PRIx64 " to %" PRIx64 "\n", longest.count, longest.from,
                longest.to);
    if (out)
        fflush(out);
    longest.count = 0;
}

static bool among(const struct addresses *a, uint64_t address)
{
    for (int i = 0; i < a->count; i++)
        if (a->of[i] == address)
            return true;
    return false;
}

static void watch(struct qemu_plugin_insn *insn)
{
    uint64_t at = qemu_plugin_insn_vaddr(insn);
    void (*cb)(unsigned cpu, void *arg) = among(&points, at) ? at_point
                                          : among(&entries, at) ? at_entry
                                          : among(&marks, at)   ? at_mark : NULL;
    if (counts)
        qemu_plugin_register_vcpu_insn_exec_inline(insn, QEMU_PLUGIN_INLINE_ADD_U64,
                                                   &ran[at % CODE_BYTES], 1);
    if (cb)
        qemu_plugin_register_vcpu_insn_exec_cb(insn, cb, QEMU_PLUGIN_CB_NO_REGS,
                                               (void *)(uintptr_t)at);
}

static void translated(qemu_plugin_id_t id, struct qemu_plugin_tb *tb)
{
    (void)id;
    size_t n = qemu_plugin_tb_n_insns(tb);
    bool of_kernel = qemu_plugin_tb_vaddr(tb) >> 63;
    for (size_t i = 0; of_kernel && i < n; i++)
        watch(qemu_plugin_tb_get_insn(tb, i));
    qemu_plugin_register_vcpu_tb_exec_inline(tb, QEMU_PLUGIN_INLINE_ADD_U64,
                                             of_kernel ? &kernel : &user, n);
}

static bool word_take(char *word)
{
    char *value = strchr(word, '=');
    if (!value)
        return false;
    *value++ = 0;
    struct addresses *a = !strcmp(word, "point")   ? &points
                          : !strcmp(word, "entry") ? &entries
                          : !strcmp(word, "mark")  ? &marks : NULL;
    if (a && a->count < ADDRESSES_MAX)
        a->of[a->count++] = strtoull(value, NULL, 16);
    else if (!strcmp(word, "limit"))
        limit = strtoull(value, NULL, 10);
    else if (!strcmp(word, "out"))
        return (out = fopen(value, "w")) != NULL;
    else if (!strcmp(word, "counts"))
        return (counts = fopen(value, "w")) != NULL;
    else
        return false;
    return true;
}

int qemu_plugin_install(qemu_plugin_id_t id, const void *info, int argc, char **argv)
{
    (void)info;
    for (int i = 0; i < argc; i++)
        if (!word_take(argv[i])) {
            fprintf(stderr, "stretch: %s: cannot be used\n", argv[i]);
            return 1;
        }
    qemu_plugin_register_vcpu_tb_trans_cb(id, translated);
    return 0;
}
