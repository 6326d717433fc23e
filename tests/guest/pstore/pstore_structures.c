/*
 * pstore_structures.c - the structures of libpstore but the tree in a container.
 *
 * Aim     each equals its model after each commit and each abort, also when two processes change it
 *         by turns, and when the store is full in the middle of an operation. In a container that
 *         wants stores announced (a guard, in both modes; declared ranges) each announces its own.
 * Method  the subjects of tests/structures: structure and model lie in one named object, so a
 *         transaction keeps or undoes both. It is up to 200 operations; a quarter is aborted. Two
 *         processes then do the same at once. At the end all free room of the store is taken by
 *         other objects, and operations go on until one is refused. What the test itself stores
 *         there, the model, it announces, without the head before it. Strict transactions refuse
 *         what was not declared; and in a container with a guard a structure whose announcements
 *         are taken away ends its process, a child.
 */
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "pstore_test.h"
#include "tests/structures/subject.h"

enum { OPERATIONS = 6000, SOME = 500, TURNS = 25 };
struct root { uint64_t unused; };
static ps_container *box;
static int mute;                /* no announcement comes from structures */

struct work { const struct subject *s; unsigned operations; int growing, abort; };

static void place(const struct subject *s)
{
    void *kept = ps_named(box, s->name, s->bytes);
    if (!kept)
        ps_abort(errno);
    struct ps_memory memory = ps_in(box);
    if (ps_declares(box) && !ps_access((char *)kept + s->heads, s->bytes - s->heads, PS_X))
        ps_abort(errno);
    if (mute)
        memory.stores = NULL;
    s->place(kept, memory);
}

static int set_up(void *subject)
{
    const struct subject *s = subject;
    place(s);
    int error = s->set_up();
    return error == -EEXIST ? 0 : error;
}

static int work(void *arg)
{
    struct work *w = arg;
    uint32_t seed = subject_seed;               /* a run after a deadlock does the same again */
    place(w->s);
    for (unsigned n = 0; n < w->operations; n++) {
        int error = w->s->operation(w->growing);
        if (error)
            return error;
    }
    if (draw(8) == 0)
        w->s->compare();
    subject_seed = seed;
    return w->abort ? -ECANCELED : 0;
}

static int compare(void *subject)
{
    const struct subject *s = subject;
    place(s);
    s->compare();
    return 0;
}

/* Transactions until that many operations are done: how many ended in another way than they were
 * to. */
static int transactions(const struct subject *s, unsigned operations)
{
    int bad = 0;
    for (unsigned done = 0; done < operations;) {
        struct work w = {s, 1 + draw(200), done / 2000 % 2 == 0, draw(4) == 0};
        bad += ps_transaction(work, &w) != (w.abort ? -ECANCELED : 0);
        draw(1);
        subject_seed += done += w.operations;
    }
    return bad + (ps_transaction(compare, (void *)(uintptr_t)s) != 0);
}

static void equal(const char *name, const char *what)
{
    tap_ok(!subject_difference, "%s: %s", name, what);
    if (subject_difference)
        printf("# %s\n", subject_difference);
    subject_difference = NULL;
}

/* ---- two processes ---- */

static int child(uint32_t me)
{
    int bad = 0;
    subject_seed = 100 + me;
    for (int turn = 0; turn < (tap_long() ? TURNS : TURNS / 4); turn++)
        for (int i = 0; subjects[i]; i++)
            bad += transactions(subjects[i], 60);
    if (subject_difference)
        printf("# %s\n", subject_difference);
    return bad > 0 || subject_difference;
}

/* ---- a full store ---- */

/* Takes room for up to 16 objects of that size. */
static int fill(void *bytes)
{
    size_t each = *(size_t *)bytes;
    for (size_t total = 0; total < 16 * each; total += each) {
        void *p = ps_alloc(box, each, NULL);
        if (!p)
            return total > 0 ? 0 : -errno;
        memset(p, 1, each);
    }
    return 0;
}

/* Grows until there is no room; the structure must then be what the model is. */
static int grow(void *subject)
{
    const struct subject *s = subject;
    place(s);
    for (int n = 0; n < 20000; n++)
        if (s->operation(1) == -ENOSPC) {
            s->compare();
            return -ENOSPC;
        }
    return 0;
}

static int tear_down(void *subject)
{
    const struct subject *s = subject;
    place(s);
    return s->tear_down();
}

/* Structure and model are empty again. */
static int begin_anew(void *subject)
{
    const struct subject *s = subject;
    int error = tear_down(subject);
    memset(ps_named(box, s->name, s->bytes), 0, s->bytes);
    return error ? error : set_up(subject);
}

static void full_store(void)
{
    int error = 0;
    for (int i = 0; subjects[i]; i++)
        is(ps_transaction(begin_anew, (void *)(uintptr_t)subjects[i]), 0, "torn down, set up");
    for (size_t bytes = 64 << 10; bytes >= 256; bytes /= 16)
        do
            error = ps_transaction(fill, &bytes);
        while (error == 0);
    is(error, -ENOSPC, "the store is full");
    for (int i = 0; subjects[i]; i++) {
        void *s = (void *)(uintptr_t)subjects[i];
        is(ps_transaction(grow, s), -ENOSPC, "an operation finds no room");
        equal(subjects[i]->name, "there it was the model's");
        ps_transaction(compare, s);
        equal(subjects[i]->name, "and is so when it was undone");
    }
}

/* ---- containers where stores are announced ---- */

enum { FOUND = 42, FEW = 120 };
static const struct form {
    const char *name;
    int locking, protection, encoder;
} forms[] = {
    {"guard", PS_LOCK_PAGES, PS_PROTECT_GUARD, PS_ENCODE_DIFF},
    {"guarded-items", PS_LOCK_ITEMS, PS_PROTECT_GUARD, PS_ENCODE_DIFF},
    {"ranges", PS_LOCK_PAGES, PS_PROTECT_NONE, PS_ENCODE_RANGES},
};
enum { FORMS = sizeof forms / sizeof *forms };

static void found(int number)
{
    (void)number;
    _exit(FOUND);
}

/* How a process ends that stores without a word. */
static int unannounced(const struct subject *s)
{
    int status = -1;
    pid_t pid = fork();
    if (pid == 0) {
        signal(SIGSEGV, found);
        mute = 1;
        _exit(transactions(s, 1000) != 0); /* ends at the first such store */
    }
    return waitpid(pid, &status, 0) == pid && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void form_try(const struct form *f, int count)
{
    box = ps_open(f->name, PS_CREATE | PS_WRITE, PS_LAYOUT(struct root, 1));
    is(!box || ps_locking(box, f->locking) || ps_encoder(box, f->encoder) ||
           ps_protection(box, f->protection), 0, f->name);
    ps_strict(f->encoder == PS_ENCODE_RANGES);
    for (int i = 0; i < count; i++) {
        void *s = (void *)(uintptr_t)subjects[i];
        is(ps_transaction(set_up, s), 0, "set up");
        is(transactions(s, FEW), 0, "every store is announced");
        if (f->protection)
            is(unannounced(s), FOUND, "without that it is found");
        is(ps_transaction(tear_down, s), 0, "torn down");
        equal(subjects[i]->name, f->name);
    }
    ps_strict(0);
    ps_close(box);
    is(WHEN_FREE(ps_delete(f->name)), 0, "deleted");
}

int main(int argc, char **argv)
{
    setvbuf(stdout, NULL, _IOLBF, 0);
    box = ps_open("structures", PS_CREATE | PS_WRITE, PS_LAYOUT(struct root, 1));
    if (!box)
        return 9;
    if (argc == 3)
        return child((uint32_t)atoi(argv[2]));
    int count = 0;
    while (subjects[count])
        count++;
    tap_plan(3 + 9 * count + FORMS * (2 + 4 * count) + 2 * count);
    ps_container *structures = box;
    for (int f = 0; f < FORMS; f++)
        form_try(&forms[f], count);
    box = structures;
    for (int i = 0; i < count; i++) {
        is(ps_transaction(set_up, (void *)(uintptr_t)subjects[i]), 0, "set up");
        is(transactions(subjects[i], tap_long() ? OPERATIONS : SOME), 0,
           "transactions commit and abort");
        equal(subjects[i]->name, "random operations, with aborts, are those of the model");
    }
    int first = child_start(argv[0], "work", "0"), second = child_start(argv[0], "work", "1");
    is(child_wait(first), 0, "one process commits");
    is(child_wait(second), 0, "so does one beside it");
    for (int i = 0; i < count; i++) {
        ps_transaction(compare, (void *)(uintptr_t)subjects[i]);
        equal(subjects[i]->name, "what both left is what the model holds");
    }
    full_store();
    for (int i = 0; i < count; i++)
        is(ps_transaction(tear_down, (void *)(uintptr_t)subjects[i]), 0, "torn down");
    return tap_end();
}
