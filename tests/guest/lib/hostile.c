/* hostile.c - counts of all that could leak, and bad pointers. */
#include "hostile.h"

int is_errno(long r) { return r < 0 && r > -4096; }

/* Credits of the process's ports that transactions hold. */
static long credits_held(int pid)
{
    static char text[16384];
    long n = CALL(KD_LOOK, KD_LOOK_HANDLES, pid, text, sizeof text - 1), held = 0;
    text[n < 0 ? 0 : n] = 0;
    for (const char *at = text; (at = strstr(at, " credits, "));)
        held += strtol(at += 10, NULL, 10);
    return held;
}

struct counts counts_now(void)
{
    static struct kd_process_info p[64];
    const struct kd_system_info s = system_info();
    struct counts c = {(long)(s.free_bytes / KD_PAGE_BYTES), (long)s.objects, (long)s.processes,
                       CALL(KD_VIEW_LIST, NULL, 0), 0, 0};
    long n = CALL(KD_PROCESS_LIST, p, 64);
    for (long i = 0; i < n && i < 64; i++) {
        c.handles += (long)p[i].used[KD_LIMIT_HANDLES];
        c.credits += credits_held(p[i].pid);
    }
    return c;
}

/* A leak is more than before. Less is no fault of the test: the shell that began it may close its
 * own handles of the new process only after `before` was taken. */
int counts_good(struct counts before, struct counts now, long frames_allowed)
{
    return now.frames + frames_allowed >= before.frames && now.objects <= before.objects
           && now.processes <= before.processes && now.views <= before.views
           && now.handles <= before.handles && now.credits <= before.credits;
}

static void counts_print(struct counts before, struct counts now)
{
    struct kd_view_info views[KD_VIEW_MAX];
    for (long i = 0; now.views > before.views && i < CALL(KD_VIEW_LIST, views, KD_VIEW_MAX); i++)
        printf("# view %d of process %d, state %d\n", (int)views[i].view, views[i].pid,
               (int)views[i].state);
    printf("# frames %+ld, objects %+ld, processes %+ld, views %+ld, handles %+ld, credits held "
           "%+ld\n",
           now.frames - before.frames, now.objects - before.objects,
           now.processes - before.processes, now.views - before.views, now.handles - before.handles,
           now.credits - before.credits);
}

/* What ends in the background gets its time: others work on the host, too. */
int counts_back(struct counts before, long frames_allowed)
{
    struct counts now = counts_now();
    for (int i = 0; i < CHILD_ENDS_S * 100 && !counts_good(before, now, frames_allowed); i++) {
        pause_ms(10);
        now = counts_now();
    }
    counts_print(before, now);
    return counts_good(before, now, frames_allowed);
}

int check_clean(void) { return CALL(KD_CHECK, 0) == 0; }

enum { AREA_PAGES = 4 };
char *area, *writable_end, *read_only, *read_only_end;

void area_make(void)
{
    area = mmap(NULL, AREA_PAGES * KD_PAGE_BYTES, PROT_READ | PROT_WRITE,
                MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memset(area, 'a', AREA_PAGES * KD_PAGE_BYTES);
    munmap(area + KD_PAGE_BYTES, KD_PAGE_BYTES);
    munmap(area + 3 * KD_PAGE_BYTES, KD_PAGE_BYTES);
    mprotect(area + 2 * KD_PAGE_BYTES, KD_PAGE_BYTES, PROT_READ);
    writable_end = area + KD_PAGE_BYTES;
    read_only = area + 2 * KD_PAGE_BYTES;
    read_only_end = read_only + KD_PAGE_BYTES;
}

const unsigned long bad_pointers[BAD_POINTERS] = {
    0, 1, 8, 4095, 0x1000, 0x123456789000, 0x7fffffffe000, 0x7fffffffffff, 0x800000000000,
    0xffff7fffffffffff, 0xffff800000000000, 0xffffffff80000000, 0xffffffff80100001,
    0x8000000000000000, 0xdeadbeefdeadbeef, ~0ul, ~0ul - 7, ~0ul - 4095,
    0x3f0000000000, 0x3f0000003039, KD_STORE_END - 8, KD_STORE_END,
};
