/*
 * pstore_congeries.c - congeries between processes.
 *
 * Aim     random work of two processes on the same congeries equals the model; what is dropped or
 *         released comes back to the store; rules and names of one process are those of the next; a
 *         lock keeps others out; a region is kept whole with each encoder; and what a congeries is
 *         for: a traversal touches its pages and no others. Names that somebody spoilt, who may
 *         write the container, overrun nobody.
 * Method  tests/structures/congeries_model.c in the root: two processes take turns in it at random,
 *         a quarter of the transactions is undone. Pages used are those that the store counts.
 */
#include "pstore_test.h"
#include "store_protocol.h"
#include "tests/structures/congeries_model.h"

#include <stdlib.h>
#include <string.h>
#include <structures/heap.h>

enum { ROUNDS = 60, CHAINS = 8, LINKS = 200 };
static ps_container *c;
static uint32_t seed = 77;

static uint32_t draw(uint32_t below)
{
    seed = seed * 1664525u + 1013904223u;
    return (uint32_t)((uint64_t)seed * below >> 32);
}

/* ---- random work ---- */

static int begin(void *unused)
{
    (void)unused;
    return regions_begin(c, 1);
}

static int work(void *undone)
{
    int error = regions_work(c, 20);
    return error ? error : *(int *)undone ? 77 : 0;
}

static int compare(void *unused)
{
    (void)unused;
    regions_compare(c);
    return regions_wrong ? 1 : 0;
}

static int rounds(void)
{
    int bad = 0;
    for (int i = 0; i < ROUNDS && !bad; i++) {
        int undone = draw(4) == 0;
        bad |= ps_transaction(work, &undone) != (undone ? 77 : 0);
        if (i % 10 == 9)
            bad |= ps_transaction(compare, NULL) != 0;
    }
    return bad;
}

static uint64_t pages_used(const char *name)
{
    struct ps_info info[32];
    int count = ps_list(info, 32);
    for (int i = 0; i < count && i < 32; i++)
        if (strcmp(info[i].name, name) == 0)
            return info[i].pages_used;
    return 0;
}

static int drop_all(void *unused)
{
    struct regions *root = ps_root(c);
    int error = 0;
    (void)unused;
    for (int i = 0; i < REGIONS; i++)
        error |= ps_arena_free(root->region[i]);
    for (uint32_t i = 0; i < root->count; i++)
        if (root->object[i].region == REGIONS)
            error |= ps_free(root->object[i].at);
    memset(root, 0, sizeof *root);
    return error;
}

static void at_random(const char *self)
{
    is(ps_transaction(begin, NULL), 0, "four congeries are made");
    is(rounds() | child_run(self, "work", "5"), 0, "one process after the other works at random");
    int other = child_start(self, "work", "9"), bad = rounds();
    is(bad | child_wait(other), 0, "and two at once");
    is(ps_transaction(compare, NULL), 0, "all is as the model says");
    if (regions_wrong)
        printf("# %s\n", regions_wrong);
    uint64_t full = pages_used("congeries");
    is(ps_transaction(drop_all, NULL), 0, "each is dropped by one call");
    uint64_t after = pages_used("congeries");
    tap_ok(after < full && after < 30, "and its pages come back: %lu, then %lu",
           (unsigned long)full, (unsigned long)after);
}

/* ---- chains that grow at random: what a traversal touches ---- */

struct link { struct link *next; char text[100]; };
struct chains { struct link *plain[CHAINS], *placed[CHAINS]; ps_congeries *of[CHAINS]; };

static int chains_grow(void *unused)
{
    struct chains *chains = ps_named(c, "chains", sizeof *chains);
    char name[16];
    (void)unused;
    for (int i = 0; i < CHAINS; i++) {
        snprintf(name, sizeof name, "chain %d", i);
        if (!chains->of[i] && !(chains->of[i] = ps_congeries_make(c, name, NULL)))
            return -errno;
    }
    for (int n = 0; n < CHAINS * LINKS; n++) {
        int i = n < CHAINS ? n : (int)draw(CHAINS);
        struct link *plain = ps_new(c, struct link, NULL);
        struct link *placed = ps_new_in(chains->of[i], struct link, NULL);
        if (!plain || !placed)
            return -errno;
        plain->next = chains->plain[i];
        placed->next = chains->placed[i];
        chains->plain[i] = plain;
        chains->placed[i] = placed;
    }
    return 0;
}

struct walk { int placed; uint64_t pages, others; int links; };

static int walk(void *arg)
{
    struct walk *w = arg;
    struct ps_touched touched[16];
    const struct chains *chains = ps_named(c, "chains", 0);
    w->links = 0;
    for (const struct link *l = w->placed ? chains->placed[3] : chains->plain[3]; l; l = l->next)
        w->links++;
    int entries = ps_touched(touched, 16);
    w->pages = w->others = 0;
    for (int i = 0; i < entries; i++)
        *(touched[i].congeries == (w->placed ? chains->of[3] : NULL) ? &w->pages : &w->others) +=
            touched[i].pages;
    return entries < 0 ? entries : 0;
}

/* In a process of its own, for rights stay with a view: the pages touched. */
static int walk_alone(int placed)
{
    struct walk w = {.placed = placed};
    int error = ps_transaction(walk, &w);
    printf("# %d links, %s: %lu pages, and %lu others\n", w.links,
           placed ? "in a congeries" : "as they were created", (unsigned long)w.pages,
           (unsigned long)w.others);
    return error || w.links < 100 || w.pages > 250 || w.others > 3 ? 255 : (int)w.pages;
}

static void traversals(const char *self)
{
    is(ps_policy(c, PS_GROUP, 1), 0, "pages come alone");
    is(ps_transaction(chains_grow, NULL), 0,
       "chains grow at random, each in a congeries and in none");
    int plain = child_run(self, "walk", "0"), placed = child_run(self, "walk", "1");
    tap_ok(plain != 255 && placed > 0 && plain >= 5 * placed,
           "a walk along one touches %d pages in its congeries, %d elsewhere", placed, plain);
}

/* ---- locks ---- */

static int add_link(void *unused)
{
    struct chains *chains = ps_named(c, "chains", 0);
    (void)unused;
    struct link *l = ps_new_in(chains->of[0], struct link, NULL);
    return l ? (l->next = chains->placed[0], 0) : -errno;
}

/* Within so many ms. */
static int add_soon(int ms)
{
    struct ps_options soon = {.timeout_ms = (unsigned)ms, .retries = 1};
    return -ps_transaction_opt(add_link, NULL, &soon);
}

static int read_link(void *unused)
{
    const struct chains *chains = ps_named(c, "chains", 0);
    (void)unused;
    return chains->placed[0]->text[0];
}

static int read_soon(int ms)
{
    struct ps_options soon = {.timeout_ms = (unsigned)ms, .retries = 1};
    return -ps_transaction_opt(read_link, NULL, &soon);
}

struct locking { const char *self; int how, refused, read, others; };

static int lock_and_see(void *arg)
{
    struct locking *l = arg;
    const struct chains *chains = ps_named(c, "chains", 0);
    int error = ps_congeries_lock(chains->of[0], l->how);
    ps_tx *tx = ps_suspend();
    l->refused = child_run(l->self, "add", "100");
    l->read = child_run(l->self, "read", l->how ? "20000" : "100");
    l->others = child_run(l->self, "walk", "1");
    ps_resume(tx);
    return error;
}

static void locks(const char *self)
{
    for (int how = 0; how <= PS_LOCK_SHARED; how++) {
        struct locking l = {self, how, 0, 0, 0};
        is(ps_transaction(lock_and_see, &l), 0,
           how ? "one is locked against changes" : "against all");
        is(l.refused, ETIMEDOUT, "others add nothing to it meanwhile");
        is(l.read, how ? 0 : ETIMEDOUT, how ? "but read it" : "and read nothing of it");
        tap_ok(l.others != 255, "and go through another one");
    }
    is(child_run(self, "add", "20000"), 0, "then they do");
}

/* ---- knobs; a structure's nodes in a congeries, and on volatile memory ---- */

PS_DYNAMIC(items);
struct kept { struct items_head head; ps_congeries *of; };

/* The same function for both memories: how many bytes were moved, or -errno. */
static int64_t fill_and_pack(struct items_head *head, struct ps_memory memory, const void **last)
{
    struct items items = {.head = head, .memory = memory};
    int error = items_set_up(&items);
    PS_ACCESS(items_items, a, &items, PS_CHANGE);
    for (int i = 0; i < 200 && error >= 0; i++)
        error = (int)items_take(&a, 100 + (size_t)i);
    for (uint64_t i = 0; i < 200 && error >= 0; i += 2)
        error = items_give(&a, i);
    *last = items_at(&a, 199, NULL);
    return error < 0 ? error : items_compact(&a, 1 << 20);
}

static int items_in_congeries(void *moved)
{
    struct kept *kept = ps_named(c, "items", sizeof *kept);
    const void *last;
    kept->of = ps_congeries_make(c, "items", NULL);
    *(int64_t *)moved = fill_and_pack(&kept->head, ps_in_arena(kept->of), &last);
    struct ps_congeries_info info;
    int error = ps_congeries_count(kept->of, &info);
    return error ? error : last && info.objects > 2 ? 0 : -EXDEV;
}

static int advise(void *unused)
{
    ps_congeries *items = ps_congeries_named(c, "items");
    (void)unused;
    return ps_congeries_advise(items, PS_DONT_NEED) | ps_congeries_advise(items, PS_WILL_NEED) |
           (ps_congeries_advise(items, PS_RANDOM) + EINVAL);
}

static void knobs(void)
{
    static struct items_head head;
    const void *last;
    int64_t moved = 0, volatile_moved = fill_and_pack(&head, ps_volatile(), &last);
    is(ps_transaction(items_in_congeries, &moved), 0, "a heap's nodes lie in a congeries");
    tap_ok(moved > 0 && moved == volatile_moved,
           "one object file does the same on volatile memory: %ld and %ld bytes moved",
           (long)moved, (long)volatile_moved);
    is(ps_transaction(advise, NULL), 0, "it is let go, and brought in");
}

/* ---- each encoder; collected and released ---- */

struct pile { ps_congeries *of; struct link *kept; };

static int pile_make(void *unused)
{
    struct pile *pile = ps_named(c, "pile", sizeof *pile);
    (void)unused;
    ps_touch(pile, sizeof *pile);
    pile->of = ps_congeries_make(c, "pile", NULL);
    return pile->of ? ps_congeries_rule(c, "struct piled", pile->of) : -errno;
}

static int pile_fill(void *unused)
{
    struct pile *pile = ps_named(c, "pile", sizeof *pile);
    (void)unused;
    ps_touch(pile, sizeof *pile);
    for (int i = 0; i < 200; i++) {
        struct link *l = ps_alloc_as(c, sizeof *l, NULL, "struct piled");
        if (!l)
            return -errno;
        ps_touch(l, sizeof *l);
        if (i % 50 == 0) {
            l->next = pile->kept;
            pile->kept = l;
        }
    }
    return 0;
}

static int pile_grow(void *unused)
{
    (void)unused;
    return ps_congeries_grow(ps_congeries_named(c, "pile"), 2);
}

static int pile_count(void *info)
{
    return ps_congeries_count(ps_congeries_named(c, "pile"), info);
}

static int pile_shrink(void *given)
{
    ps_congeries *pile = ps_congeries_named(c, "pile");
    int64_t freed = ps_congeries_collect(pile, NULL, 0);
    *(int64_t *)given = ps_congeries_release(pile);
    return freed == 3 * 200 - 12 ? 0 : freed < 0 ? (int)freed : 1;
}

static int pile_drop(void *unused)
{
    (void)unused;
    return ps_arena_free(ps_congeries_named(c, "pile"));
}

static void encoders(void)
{
    static const int all[] = {PS_ENCODE_DIFF, PS_ENCODE_FULL, PS_ENCODE_RANGES, PS_ENCODE_ADAPTIVE};
    for (int i = 0; i < 4; i++) {
        struct ps_congeries_info info = {.pages = 0}, after = {.pages = 0};
        int64_t given = 0;
        ps_close(c);
        ps_delete("piles");
        c = ps_open("piles", PS_CREATE | PS_WRITE, NULL);
        uint64_t begun = pages_used("piles");
        int bad = ps_encoder(c, all[i]) | ps_transaction(pile_make, NULL) |
                  ps_transaction(pile_fill, NULL) | ps_transaction(pile_fill, NULL) |
                  ps_transaction(pile_grow, NULL) | ps_transaction(pile_fill, NULL) |
                  ps_transaction(pile_grow, NULL);
        bad |= ps_transaction(pile_count, &info);
        tap_ok(bad == 0 && info.objects == 600 && info.spare_blocks > 0 &&
                   info.pages == info.blocks * info.block_pages,
               "encoder %d keeps a congeries: %lu objects in %lu blocks, %lu pages", all[i],
               (unsigned long)info.objects, (unsigned long)info.blocks, (unsigned long)info.pages);
        uint64_t full = pages_used("piles");
        bad = ps_transaction(pile_shrink, &given) | ps_transaction(pile_count, &after);
        tap_ok(bad == 0 && after.objects == 12 && given > 0 &&
                   info.pages - after.pages == (uint64_t)given &&
                   pages_used("piles") + (uint64_t)given == full,
               "what nothing leads to is collected, %ld pages are released", (long)given);
        bad = ps_transaction(pile_drop, NULL);
        tap_ok(bad == 0 && pages_used("piles") <= begun + 3, "and dropped: %lu, %lu pages used",
               (unsigned long)begun, (unsigned long)pages_used("piles"));
    }
}

/* ---- who may write the container writes what he likes ---- */

static ps_congeries *spoilt;
static int spoilt_make(void *unused)
{
    (void)unused;
    spoilt = ps_congeries_make(c, "spoilt", NULL);
    return spoilt ? 0 : -errno;
}

/* The object that has the names of congeries, by its own name. */
static char *names_object(void)
{
    static char name[STORE_NAME_BYTES] = "\2congeries";
    struct kd_space_info info;
    struct kd_message m = {.kind = STORE_NAMED, .handle = -1, .data = name,
                           .data_bytes = sizeof name};
    long port = kd_call3(KD_NAME_FIND, (long)"store", 0, 0);
    if (kd_call3(KD_CONTAINER_INFO, (long)ps_address(c), (long)&info, 0) != 0)
        return NULL;
    m.word[0] = STORE_COOKIE_CONTAINER(info.cookie);
    long r = kd_call3(KD_PORT_CALL, port, (long)&m, 0);
    kd_call3(KD_HANDLE_CLOSE, port, 0, 0);
    return r == 0 && m.status == 0 ? (char *)m.word[0] : NULL;
}

/* Names without an end; and more of them than there can be. */
static int spoil(void *where)
{
    char *at = where, *name = memmem(at, 200, "spoilt", 7);
    if (!name)
        return -ENOENT;
    memset(name, 'A', 1500);
    memset(at, 0xff, 8);
    return 0;
}

static struct { struct ps_congeries_info info[2]; char behind[4096]; } seen;

static int spoilt_look(void *unused)
{
    (void)unused;
    int r = ps_congeries_count(spoilt, &seen.info[0]);
    int n = ps_congeries_list(c, &seen.info[1], 1);
    return r ? r : n < 0 ? n : 0;
}

static void hostile(void)
{
    c = ps_open("hostile", PS_CREATE | PS_WRITE, PS_LAYOUT(struct regions, 1));
    int r = c ? ps_transaction(spoilt_make, NULL) : -errno;
    char *at = r ? NULL : names_object();
    is(r | !at, 0, "a congeries with a name");
    is(at ? ps_transaction(spoil, at) : -1, 0, "whose name has no end any more");
    is(ps_transaction(spoilt_look, NULL), 0, "is looked at");
    size_t whole = 0, most = sizeof seen.info[0].name;
    while (whole < sizeof seen.behind && !seen.behind[whole])
        whole++;
    tap_ok(whole == sizeof seen.behind && strnlen(seen.info[0].name, most) < most &&
               strnlen(seen.info[1].name, most) < most,
           "and its name is no longer than a name");
    is(ps_close(c) | ps_delete("hostile"), 0, "(deleted)");
}

int main(int argc, char **argv)
{
    if (argc > 1) {
        c = ps_open("congeries", PS_WRITE, NULL);
        if (!c)
            return 255;
        if (strcmp(argv[1], "walk") == 0)
            return walk_alone(atoi(argv[2]));
        if (strcmp(argv[1], "add") == 0)
            return add_soon(atoi(argv[2]));
        if (strcmp(argv[1], "read") == 0)
            return read_soon(atoi(argv[2]));
        seed = (uint32_t)atoi(argv[2]);
        return rounds();
    }
    tap_plan(39);
    ps_delete("congeries");
    c = ps_open("congeries", PS_CREATE | PS_WRITE, PS_LAYOUT(struct regions, 1));
    is(c != NULL, 1, "a container is created");
    at_random(argv[0]);
    traversals(argv[0]);
    locks(argv[0]);
    knobs();
    encoders();
    hostile();
    return tap_end();
}
