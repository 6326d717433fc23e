/*
 * structures-cut.c - the load of structures-cut.sh: the structures of tests/structures, changed
 * step by step until the power goes.
 *
 *     structures-cut SEED STEPS     each step is a transaction, with operations of each structure.
 *                                   `ack N` is printed when the commit of step N has returned.
 *     structures-cut check SEED     compares each structure with its model, which lies beside it.
 */
#include <pstore.h>
#include <stdio.h>
#include <stdlib.h>

#include "subject.h"

struct root { uint64_t step; };
static ps_container *box;
struct work { uint32_t seed; uint64_t step; int abort; };

static int place(const struct subject *s)
{
    void *kept = ps_named(box, s->name, s->bytes);
    if (!kept)
        return -errno;
    s->place(kept, ps_in(box));
    int error = s->set_up();
    return error == -EEXIST ? 0 : error;
}

static int step(void *arg)
{
    const struct work *w = arg;
    struct root *root = ps_root(box);
    subject_seed = w->seed * 2654435761u + (uint32_t)w->step * 40503u;
    for (int i = 0; subjects[i]; i++) {
        int error = place(subjects[i]);
        for (uint32_t n = draw(60); n > 0 && error == 0; n--)
            error = subjects[i]->operation(w->step / 40 % 2 == 0);
        if (error)
            return error;
    }
    root->step = w->step;
    return w->abort ? -ECANCELED : 0;
}

static int check(void *unused)
{
    (void)unused;
    struct root *root = ps_root(box);
    for (int i = 0; subjects[i]; i++) {
        int error = place(subjects[i]);
        if (error)
            return error;
        subjects[i]->compare();
    }
    printf("step %lu: %s\n", root->step, subject_difference ? "DIFFERENT" : "equal, all of them");
    return subject_difference ? -EUCLEAN : 0;
}

int main(int argc, char **argv)
{
    if (argc != 3)
        return 2;
    box = ps_open("structures", PS_CREATE | PS_WRITE, PS_LAYOUT(struct root, 1));
    int error = box ? 0 : -errno;
    if (error == 0 && strcmp(argv[1], "check") == 0)
        error = ps_transaction(check, NULL);
    else if (error == 0)
        for (struct work w = {(uint32_t)atoi(argv[1]), 1, 0}; w.step <= (uint32_t)atoi(argv[2]);) {
            w.abort = !w.abort && w.step % 4 == 0;
            error = ps_transaction(step, &w);
            if (error != (w.abort ? -ECANCELED : 0))
                break;
            error = 0;
            if (w.abort)
                continue;
            printf("ack %lu\n", w.step++);
            fflush(stdout);
        }
    if (error || subject_difference)
        fprintf(stderr, "structures-cut: %s; %s\n", ps_strerror(error),
                subject_difference ? subject_difference : "no difference");
    return error || subject_difference;
}
