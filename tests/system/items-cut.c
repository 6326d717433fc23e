/*
 * items-cut.c - the load of items-cut.sh: processes that store to the same pages at the same time,
 * each to items of its own, and add to one number, until the power goes.
 *
 *     items-cut STEPS     WRITERS processes, STEPS transactions each; `ack` behind each
 *     items-cut check     each process's items all say the same step, and the sum is theirs
 *
 * Each fifth transaction is undone first. Numbers lie side by side, two of them in a 64-bit word.
 */
#include <errno.h>
#include <pstore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { WRITERS = 3, PAGES = 4, WORDS = 480 };
struct part { uint32_t number[WRITERS]; char gap[64 - WRITERS * 4]; };
struct page { struct part part[WORDS / 8]; };
struct root { struct page *of[PAGES]; int64_t sum; };
static ps_container *box;

static int build(void *unused)
{
    (void)unused;
    struct root *r = ps_write((struct root *)ps_root(box));
    for (int i = 0; r && i < PAGES; i++)
        if (!r->of[i] && !(r->of[i] = ps_new(box, struct page, NULL)))
            return -errno;
    return r ? 0 : -errno;
}

struct work { unsigned writer; uint32_t step; int abort; };
static int step(void *arg)
{
    const struct work *w = arg;
    struct root *r = ps_root(box);
    for (int i = 0; i < PAGES; i++)
        for (unsigned k = 0; k < WORDS / 8; k += 7) {
            uint32_t *number = ps_write(&r->of[i]->part[k].number[w->writer]);
            if (!number)
                return -errno;
            *number = w->step;
        }
    int error = ps_add(&r->sum, 1);
    return error ? error : w->abort ? -ECANCELED : 0;
}

static int work(unsigned writer, uint32_t steps)
{
    struct work w = {.writer = writer};
    for (w.step = 1; w.step <= steps; w.step++) {
        w.abort = w.step % 5 == 0;
        if (w.abort && ps_transaction(step, &w) != -ECANCELED)
            return 1;
        w.abort = 0;
        if (ps_transaction(step, &w) != 0)
            return 1;
        if (write(1, "ack\n", 4) != 4)
            return 1;
    }
    return 0;
}

static int check(void *unused)
{
    (void)unused;
    const struct root *r = ps_root(box);
    int64_t sum = 0;
    int wrong = 0;
    for (unsigned n = 0; r->of[0] && n < WRITERS; n++) {
        uint32_t step = r->of[0]->part[0].number[n];
        for (int i = 0; i < PAGES; i++)
            for (unsigned k = 0; k < WORDS / 8; k++)
                wrong += r->of[i]->part[k].number[n] != (k % 7 ? 0 : step);
        sum += step;
    }
    printf("step %ld: %s\n", (long)r->sum, wrong || sum != r->sum ? "DIFFERENT" : "equal");
    return wrong || sum != r->sum ? -EUCLEAN : 0;
}

int main(int argc, char **argv)
{
    int bad = 0, status;
    setvbuf(stdout, NULL, _IOLBF, 0);
    box = ps_open("items-cut", PS_CREATE | PS_WRITE, PS_LAYOUT(struct root, 1));
    if (argc != 2 || !box || ps_locking(box, PS_LOCK_ITEMS) || ps_transaction(build, NULL))
        return 2;
    if (strcmp(argv[1], "check") == 0)
        return ps_transaction(check, NULL) != 0;
    for (unsigned n = 0; n < WRITERS; n++)
        if (fork() == 0)
            _exit(work(n, (uint32_t)atoi(argv[1])));
    while (wait(&status) > 0)
        bad |= status;
    return bad != 0;
}
