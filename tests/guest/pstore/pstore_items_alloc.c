/*
 * pstore_items_alloc.c - objects are made and freed by several in a container in item mode: AL5,
 * SL3, SL4.
 *
 * Aim     two transactions that allocate do not wait for each other, nor those that free objects of
 *         one page; what was freed is room when that is committed; processes that allocate and free
 *         at once get objects that overlap nowhere, and pages are sound then, and after the
 *         manager's death; large objects, arenas and other sizes work as ever.
 * Method  two transactions of one thread, one of them suspended; then children of fork with random
 *         work, each with a list of its own. slot_check() is asked for every page.
 */
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "pstore_test.h"

int ps__slot_check(const void *page);   /* as it is called in the library's archive */

enum { PROCESSES = 3, STEPS = 60, OBJECTS = 12, PAGE = 4096 };
struct object { struct object *next; uint64_t bytes, owner, step; unsigned char fill[]; };
struct root { struct object *list[PROCESSES]; };
static ps_container *box;
static unsigned seed;

static unsigned draw(unsigned below)
{
    seed = seed * 1103515245 + 12345;
    return (seed >> 8) % below;
}
static int make_root(void *unused)
{
    (void)unused;
    return ps_write((struct root *)ps_root(box)) ? 0 : -errno;
}
static uint64_t page_of(const void *p) { return (uint64_t)p & ~(uint64_t)(PAGE - 1); }

/* ---- two transactions of one thread ---- */

static void *a, *b;

static int make_two(void *unused)
{
    (void)unused;
    a = ps_alloc(box, 100, NULL);
    b = ps_alloc(box, 100, NULL);
    return a && b ? 0 : -errno;
}
static int check_page(void *page) { return ps__slot_check(page); }
static int make_third(void *out)
{
    *(void **)out = ps_alloc(box, 90, a);
    return *(void **)out ? 0 : -errno;
}

static void test_beside(void)
{
    void *third;
    is(ps_transaction(make_two, NULL), 0, "two objects");
    is(page_of(a) == page_of(b), 1, "in one page");
    ps_begin(NULL);
    void *mine = ps_alloc(box, 100, a);
    is(page_of(mine) == page_of(a), 1, "one more beside them, not committed yet");
    ps_tx *tx = ps_suspend();
    ps_begin(&(struct ps_options){.apart = 1, .timeout_ms = 20000});
    void *other = ps_alloc(box, 100, a);
    is(other && page_of(other) != page_of(a), 1, "another one is given another page, at once");
    is(ps_commit(), 0, "and commits");
    ps_resume(tx);
    is(ps_commit(), 0, "as the first does");

    ps_begin(NULL);
    is(ps_free(a), 0, "one frees an object,");
    tx = ps_suspend();
    ps_begin(&(struct ps_options){.apart = 1, .timeout_ms = 20000});
    is(ps_free(b), 0, "another one its neighbour,");
    is(ps_commit(), 0, "and commits,");
    ps_resume(tx);
    is(ps_commit(), 0, "and so does the first");
    is(ps_transaction(check_page, (void *)page_of(a)), 0, "the page is sound");
    is(ps_transaction(make_third, &third), 0, "one more object");
    is(page_of(third) == page_of(a), 1, "comes into it, for nobody has it any more");
    is(ps_transaction(check_page, (void *)page_of(a)), 0, "and the page is sound");
    ps_begin(NULL);
    ps_free(third), ps_free(mine), ps_free(other);
    ps_commit();
}

/* Entries of the table of locks may be another item's than the page's. */
static int take_names(void *unused)
{
    int error = 0;
    (void)unused;
    for (uint64_t key = 0; key < 1000 && !error; key++) error = ps_key(box, key * key, PS_S);
    return error;
}
static int make_pages(void *unused)
{
    void *last = unused, *object;
    for (int i = 0; i < 40; i++, last = object)
        if (!(object = ps_alloc(box, 4000, i % 2 ? last : NULL))) return errno ? -errno : -EUCLEAN;
    return -ECANCELED;
}
static void test_names(void)
{
    ps_begin(NULL);
    is(take_names(NULL), 0, "one has locked many names, with entries of the same table,");
    ps_tx *tx = ps_suspend();
    struct ps_options o = {.apart = 1, .retries = 1, .timeout_ms = 20000};
    is(ps_transaction_opt(make_pages, NULL, &o), -ECANCELED, "another one takes pages all the "
                                                              "same");
    ps_resume(tx);
    ps_rollback();
}

/* ---- processes ---- */

static void fill(struct object *o, size_t bytes, unsigned owner, unsigned step)
{
    o->bytes = bytes;
    o->owner = owner;
    o->step = step;
    memset(o->fill, (int)(owner * 50 + step), bytes - sizeof *o);
}
static int sound(const struct object *o, unsigned owner)
{
    int good = o->owner == owner;
    for (size_t i = 0; i < o->bytes - sizeof *o; i++)
        good &= o->fill[i] == (unsigned char)(owner * 50 + o->step);
    return good;
}

struct work { unsigned owner, step; };
/* An object more, of the oldest ones one less, and one of another size. */
static int step(void *arg)
{
    const struct work *w = arg;
    struct root *root = ps_root(box);
    struct object **list = ps_write(&root->list[w->owner]), **link = list;
    if (!list) return -errno;
    seed = w->owner * 1000 + w->step;
    size_t bytes = sizeof **list + (draw(12) ? draw(500) : 5000);
    struct object *o = ps_alloc(box, bytes, draw(2) ? *list : NULL), *gone = NULL;
    if (!o) return -errno;
    fill(o, bytes, w->owner, w->step);
    o->next = *list;
    *list = o;
    for (unsigned n = 0; *link; n++, link = &(*link)->next)
        if (n == OBJECTS) {
            gone = *link;
            if (!ps_write(link)) return -errno;
            *link = gone->next;
            break;
        }
    int error = ps_free(gone);
    if (!error && o->next && draw(3) == 0) {
        struct object *next = o->next, *moved;
        size_t size = sizeof *next + draw(700);
        unsigned made = (unsigned)next->step;
        moved = ps_realloc(next, size);
        if (!moved || !ps_access(moved, size, PS_X)) return -errno;
        fill(moved, size, w->owner, made);
        o->next = moved;
    }
    return error ? error : w->step % 7 == 6 && draw(2) ? -ECANCELED : 0;
}
static int child(unsigned owner)
{
    struct work w = {owner, 0};
    int bad = 0;
    for (; w.step < STEPS; w.step++) {
        int error = ps_transaction(step, &w);
        if (error && error != -ECANCELED && bad++ < 3)
            fprintf(stderr, "# process %u, step %u: %d\n", owner, w.step, error);
    }
    return bad;
}

static int verify(void *wrong)
{
    const struct root *root = ps_root(box);
    uint64_t listed = 1, seen = 0; /* 1: the root */
    int bad = ps_lock(box, PS_LOCK_SHARED) != 0;
    for (unsigned i = 0; i < PROCESSES; i++)
        for (struct object *o = root->list[i]; o; o = o->next) {
            listed++;
            bad += !sound(o, i);
        }
    for (void *p = NULL; (p = ps_each(box, NULL, p));) {
        uint64_t page = page_of(p) - ((uint64_t)p % PAGE ? 0 : PAGE);
        if (ps__slot_check((void *)page)) printf("# page %lx is not sound\n", page), bad++;
        seen++;
    }
    if (seen != listed) printf("# %lu objects, %lu listed\n", seen, listed);
    *(int *)wrong = bad + (seen != listed);
    return 0;
}
static int wrong_now(void)
{
    int wrong = -1, error = ps_transaction(verify, &wrong);
    return error ? error : wrong;
}

static void test_processes(void)
{
    pid_t pid[PROCESSES];
    int status, bad = 0;
    for (unsigned i = 0; i < PROCESSES; i++)
        if ((pid[i] = fork()) == 0) _exit(child(i) != 0);
    for (unsigned i = 0; i < PROCESSES; i++) bad += waitpid(pid[i], &status, 0) != pid[i] || status;
    is(bad, 0, "processes allocate, free and change sizes at once");
    is(wrong_now(), 0, "all objects are there, pages sound, and nothing is lost");
    int store = store_pid();
    kd_call3(KD_PROCESS_KILL, store, 9, 0);
    while (store_pid() == store) pause_ms(1);
    int wrong = -EOWNERDEAD;
    for (int i = 0; i < 20000 && (wrong == -EOWNERDEAD || wrong == -ENOTCONN); i++)
        if ((wrong = wrong_now()) < 0) pause_ms(10);
    is(wrong, 0, "as after the manager's death");
    is(child(0), 0, "and one goes on");
    is(wrong_now(), 0, "as before");
}

/* ---- what takes the container ---- */

static int in_arena(void *unused)
{
    (void)unused;
    ps_arena *arena = ps_arena_make(box);
    void *one = arena ? ps_alloc_in(arena, 200, NULL, NULL) : NULL;
    if (!one || ps_arena_of(one) != arena) return -errno;
    memset(one, 7, 200);
    return ps_arena_free(arena);
}

/* The container grows by a segment after it was locked as a whole: what is stored there is in no
 * lock that it has. */
static uint64_t *in_new_segment;
static int grow_locked(void *unused)
{
    enum { SEGMENT = 1 << 30, MIB = 1 << 20 };
    int e = ps_lock(box, 0);
    if (e || !ps_alloc(box, SEGMENT - MIB, NULL)) return e ? e : -errno;
    in_new_segment = ps_alloc(box, 2 * MIB, unused);
    if (!in_new_segment) return -errno;
    for (int i = 0; i < 300; i++) in_new_segment[i * 512] = (uint64_t)i + 1;
    return 0;
}
static int is_there(void *unused)
{
    (void)unused;
    for (int i = 0; i < 300; i++)
        if (in_new_segment[i * 512] != (uint64_t)i + 1) return 1 + i;
    return 0;
}

int main(void)
{
    tap_plan(28);
    box = ps_open("items-alloc", PS_CREATE | PS_WRITE, PS_LAYOUT(struct root, 1));
    is(box ? ps_locking(box, PS_LOCK_ITEMS) : -errno, 0, "a container in item mode");
    is(ps_transaction(make_root, NULL), 0, "and its root");
    test_beside();
    test_names();
    is(wrong_now(), 0, "only the root is left");
    test_processes();
    is(ps_transaction(in_arena, NULL), 0, "an arena comes and goes");
    is(wrong_now(), 0, "and leaves nothing");
    is(ps_transaction(grow_locked, NULL), 0, "a container that is locked grows by a segment");
    is(ps_transaction(is_there, NULL), 0, "and what was stored there is there");
    return tap_end();
}
