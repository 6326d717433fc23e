/* fire_client.c - what clients of managers under fire do (fire.h). */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "fire.h"
#include "manager.h"
#include "pstore.h"
#include "press.h"
#include "process.h"
#include "system.h"
#include "user/managers/collected.h"

enum { KD_TRACE_DIE = 1000, KD_TRACE_HOLD }; /* tests/bugs/kernel-support.patch */
enum { WORDS = KM_PAGE_BYTES / 8, SOME = 4, COUNTER = 100, PRLIMIT64 = 302, LIST = 3000,
       PRESSED = 200, FAR_PAGE = 400,
       FOUND_FIRST = 0, FOUND_BEFORE, FOUND_THIS };

static const struct fire *f;
static volatile uint64_t *words;        /* of what the manager serves */
static ps_container *box;
static struct collected heap;

long fire_die(long n, const char *program)
{
    uint64_t name = 0;
    memcpy(&name, program, strnlen(program, sizeof name));
    return kd_call3(KD_TRACE, KD_TRACE_DIE, n, (long)name);
}
long fire_hold(int pid) { return kd_call3(KD_TRACE, KD_TRACE_HOLD, pid, 0); }

/* ---- what it serves ---- */

struct root { uint64_t word[(SOME + 1) * WORDS]; };
static int root_find(void *unused)
{
    struct root *root = ps_root(box);
    (void)unused;
    words = root ? root->word : NULL;
    return root ? 0 : -errno;
}

int fire_open(const struct fire *of)
{
    f = of;
    heap.name = f->name;
    if (f->strict) ps_strict(1);
    if (f->is_store) {
        int e = ps_connect(f->name);
        if (e) return e;
        box = ps_open("fire", PS_CREATE | PS_WRITE, PS_LAYOUT(struct root, 1));
        return box ? ps_transaction(root_find, NULL) : -errno;
    }
    if (f->argv[0]) {
        words = km_open(f->name, f->name, f->how == FIRE_READS ? KM_READ : KM_READ | KM_WRITE);
        return words ? 0 : -errno;
    }
    box = ps_open(f->name, PS_WRITE, NULL);
    words = box ? ps_address(box) : NULL;
    return words ? 0 : -errno;
}

static uint64_t initial(uint64_t i) { return f->initial ? f->initial(i) : 0; }

/* Word w of the k-th page, as what was stored to it. */
static uint64_t at(uint64_t k, uint64_t w) { return (f->first + k) * WORDS + w; }
static uint64_t value(uint64_t k, uint64_t w) { return words[at(k, w)] ^ initial(at(k, w)); }
static void store(uint64_t k, uint64_t w, uint64_t to) { words[at(k, w)] = to ^ initial(at(k, w)); }

/* ---- numbers ---- */

static int change(void *number)
{
    for (uint64_t k = 0; k < SOME; k++) store(k, k, *(uint64_t *)number);
    return 0;
}

/* Of one that has no transactions, and was killed, the first words are one further. */
static int look(void *number)
{
    uint64_t first = value(0, 0), last = value(SOME - 1, SOME - 1), now = first;
    for (uint64_t k = 1; k < SOME; k++) {
        if (value(k, k) == now) continue;
        if (f->how != FIRE_PLAIN || now != first || now == last) return -EUCLEAN;
        now = last;
    }
    *(uint64_t *)number = first;
    return 0;
}

static int same_words(void)
{
    for (uint64_t k = 0; k < f->pages; k++)
        if (words[at(k, k % WORDS)] != initial(at(k, k % WORDS))) return -EUCLEAN;
    return 0;
}

/* A list of the numbers that begin with this one, twice, with garbage between. */
static int cells(uint64_t number)
{
    int e = collected_flip(&heap);
    for (int round = 0; round < 2 && !e; round++) {
        heap.call.root[0] = 0;
        for (int i = 0; i < LIST; i++) {
            uint64_t *root = heap.call.root;
            root[1] = collected_cons(&heap, collected_number((int64_t)number + i), root[0]);
            if (!root[1]) return (e = collected_say(&heap, COLLECTED_COUNTS)) ? e : -ENOSPC;
            root[0] = root[1];
        }
        e = collected_flip(&heap);
        uint64_t at = heap.call.root[0];
        for (int i = LIST; i-- > 0 && !e; at = collected_at(at)->cdr)
            if (!at || collected_value(collected_at(at)->car) != (int64_t)number + i) e = -EUCLEAN;
    }
    return e;
}

/* 0 or -errno; when it returns 0 the number is there. */
static int do_change(uint64_t number)
{
    int e = f->how == FIRE_READS     ? same_words()
            : f->how == FIRE_CELLS   ? cells(number)
            : f->how == FIRE_COMMITS ? ps_transaction(change, &number)
                                     : change(&number);
    return e || !f->after ? e : f->after();
}

static int do_look(uint64_t *number)
{
    if (f->how == FIRE_READS) return same_words();
    if (f->how == FIRE_CELLS) return 0;
    return f->how == FIRE_COMMITS ? ps_transaction(look, number) : look(number);
}

/* ---- roles ---- */

/* What a client hears when its manager has died, or does not begin. */
static bool is_end(int e)
{
    return e == -ECANCELED || e == -EOWNERDEAD || e == -EIO || e == -ENOENT || e == -ECHILD ||
           e == -ENOTCONN;
}

static int status_of(int e)
{
    if (e && !is_end(e)) printf("# %s, a client: %d\n", f->program, e);
    return !e ? FIRE_END : is_end(e) ? FIRE_UNDONE : FIRE_WRONG;
}

static int works(uint64_t number, long event)
{
    if (event) die_at_event(event);
    int e = fire_open(f);
    if (!e) e = do_change(number);
    if (event) die_at_event(0);
    return status_of(e);
}

/* A death may be heard once more by who opened while the first was still dying. */
static int open_surely(void)
{
    int e = fire_open(f);
    for (int i = 0; i < 2000 && is_end(e); i++) {
        pause_ms(10);
        e = fire_open(f);
    }
    return e;
}

/* Who comes next: finds the number or the one before, and stores the one behind it. */
static int successor(uint64_t number)
{
    uint64_t now = number;
    int e = open_surely();
    if (!e) e = do_look(&now);
    for (int i = 0; i < 3 && e && is_end(e) && box; i++) e = do_look(&now);
    int found = now == number ? FOUND_THIS : now == number - 1 ? FOUND_BEFORE : FOUND_FIRST;
    bool known = now == number || now == number - 1 || now == 0;
    if (!e) e = do_change(number + 1);
    uint64_t then = number + 1;
    if (!e) e = do_look(&then);
    if (e || !known || then != number + 1) {
        printf("# %s, successor: %d; %lu, %lu of %lu\n", f->program, e, now, then, number);
        return FIRE_WRONG;
    }
    return FIRE_FOUND + found;
}

/* A word that nobody has touched: who wants it waits for the manager, as long as he likes. A commit
 * that it has got is waited for in any case. */
static volatile uint64_t *untouched(void)
{
    return f->is_store ? (volatile uint64_t *)ps_address(box) + FAR_PAGE * WORDS
                       : &words[at(f->pages, 0)];
}
static int touch(void *unused)
{
    (void)unused;
    return (int)(*untouched() & 1);
}

/* Its manager stands still from here on: a limit helps, and all goes on after. */
static int stalled(uint64_t number, int pid)
{
    uint64_t both[2] = {FIRE_LIMIT_MS, ~0ull};
    char message[KM_MESSAGE_BYTES] = {0};
    int e = fire_open(f);
    if (e || fire_hold(pid)) return FIRE_WRONG;
    if (f->how == FIRE_COMMITS) {
        struct ps_options o = {.timeout_ms = FIRE_LIMIT_MS};
        int late = ps_transaction_opt(touch, NULL, &o);
        fire_hold(0);
        if (late != -ETIMEDOUT) printf("# %s, stalled: %d\n", f->program, late);
        return late == -ETIMEDOUT ? status_of(do_change(number)) : FIRE_WRONG;
    }
    kd_call4(PRLIMIT64, 0, KD_RLIMIT + KD_LIMIT_ANSWER, (long)both, 0);
    e = km_call(f->name, f->name, message, f->message_bytes);
    if (e != -ETIMEDOUT) {
        printf("# %s, stalled: a call: %d\n", f->program, e);
        return FIRE_WRONG;
    }
    return touch(NULL); /* this ends it */
}

static int add(void *unused)
{
    (void)unused;
    for (uint64_t k = 0; k < SOME; k++) {
        volatile uint64_t *at_it = &words[at(k, COUNTER + k)];
        if (f->how == FIRE_PLAIN)
            __atomic_fetch_add(at_it, 1, __ATOMIC_SEQ_CST);
        else
            ++*at_it;
    }
    return 0;
}
static int fights(void)
{
    int e = fire_open(f);
    for (int i = 0; i < FIRE_ROUNDS && !e; i++)
        e = f->how == FIRE_READS     ? same_words()
            : f->how == FIRE_CELLS   ? cells((uint64_t)i)
            : f->how == FIRE_COMMITS ? ps_transaction(add, NULL)
                                     : add(NULL);
    return status_of(e);
}

/* The counters are as many as at the begin, and this; -EUCLEAN. */
static int sum(void *more)
{
    for (uint64_t k = 0; k < SOME; k++)
        if (words[at(k, COUNTER + k)] - initial(at(k, COUNTER + k)) != *(uint64_t *)more)
            return -EUCLEAN;
    return 0;
}
static int zero(void *unused)
{
    (void)unused;
    for (uint64_t k = 0; k < SOME; k++)
        words[at(k, COUNTER + k)] = initial(at(k, COUNTER + k));
    return 0;
}
static int summed(uint64_t more, bool set)
{
    int e = fire_open(f);
    if (e || f->how == FIRE_READS || f->how == FIRE_CELLS) return status_of(e);
    int (*body)(void *) = set ? zero : sum;
    return status_of(f->how == FIRE_COMMITS ? ps_transaction(body, &more) : body(&more));
}

/* Calls with as much data as may be: the answer is as long, and takes a frame. */
static int asks(void)
{
    static char message[KM_MESSAGE_BYTES];
    if (f->is_store) {
        struct ps_info list[4];
        int e = ps_connect(f->name);
        if (!e) e = ps_list(list, 4);
        return e >= 0 || e == -ENOMEM ? FIRE_END : status_of(e);
    }
    int e = f->argv[0] ? km_call(f->name, f->name, message, sizeof message) : 0;
    return e == -ENOSYS || e == -ENOMEM ? FIRE_END : status_of(e);
}

/* Fills what memory it gets, and stays. */
static int hog(void)
{
    enum { PIECE = 1 << 20 };
    char *p;
    while ((p = mmap(NULL, PIECE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)) !=
           MAP_FAILED)
        memset(p, 1, PIECE);
    while (!p || p == MAP_FAILED) pause_ms(10);
    return FIRE_WRONG;
}

int fire_role(const struct fire *of, const char *role, uint64_t number, long argument)
{
    f = of;
    switch (role[0]) {
    case 'w': return works(number, argument);
    case 'n': return successor(number);
    case 's': return stalled(number, (int)argument);
    case 'f': return fights();
    case 'a': return asks();
    case 'z': return summed(0, true);
    case '+': return summed(number, false);
    case 'p': return press_memory(PRESSED) ? FIRE_END : FIRE_WRONG;
    case 'h': return hog();
    case 'l': return fire_lies(f);
    default: return FIRE_WRONG;
    }
}
