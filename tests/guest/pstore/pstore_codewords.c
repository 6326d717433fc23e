/*
 * pstore_codewords - containers with PS_PROTECT_CODEWORDS and the store: wild writes into committed
 * pages are found and mended before they reach a checkpoint.
 *
 * Aim     the protection is for containers that are logged, and stays. A page that is hit when it
 *         is clean, dirty, copied by transactions, versioned for a snapshot, or while programs
 *         commit, is mended from its home or from the log; who had changed it ends with EIO, others
 *         go on; who reads with PS_CHECK reads what was committed. Where items are locked, and
 *         where pages are.
 * Method  wild writes by the host (wild.h), asked for by the auditor's rounds (STORE_AUDIT), a
 *         checkpoint, or a reader; idle rounds are off (store.audit_kib=0). Each page of one object
 *         has a tag, words that are stored to, and words that are 0 for ever, which are hit.
 *         `crash`: pages are hit and mended, and it waits to be cut off; `check`: all is as it was
 *         committed (tests/system/wild.sh).
 */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#include "pstore_test.h"
#include "store_client.h"
#include "wild.h"

enum { PAGES = 96, WORDS = 512, TAG = 511, MARK = 510, OWN = 8, BITS = 0x8000 };
struct page { uint64_t word[WORDS]; };
struct root { struct page *pages; };
static ps_container *box;
static bool items;                      /* it locks items */

static struct page *page_at(unsigned n)
{
    uintptr_t first = (uintptr_t)((struct root *)ps_root(box))->pages;
    uintptr_t behind = first + sizeof(struct page) - 1;
    return (struct page *)(behind - behind % sizeof(struct page)) + n;
}
static uint64_t tag_of(unsigned n) { return 0x7061676500000000 | (uint64_t)items << 16 | n; }

static int build(void *unused)
{
    struct root *r = ps_write((struct root *)ps_root(box));
    r->pages = ps_alloc(box, (PAGES + 1) * sizeof(struct page), NULL);
    if (!r->pages) return -errno;
    for (unsigned n = 0; n < PAGES; n++) {
        page_at(n)->word[TAG] = tag_of(n);
        page_at(n)->word[0] = 1000 + n;
    }
    return unused != NULL;
}

/* A word of a page of the object becomes this. */
struct put { unsigned page, at; uint64_t value; };
static int put(void *arg)
{
    const struct put *p = arg;
    uint64_t *word = ps_write(&page_at(p->page)->word[p->at]);
    if (!word) return -errno;
    *word = p->value;
    return 0;
}
static int put_in(unsigned page, unsigned at, uint64_t value)
{
    return ps_transaction(put, &(struct put){page, at, value});
}

/* How a word is read, and what it is. */
struct look { unsigned page, at; int mode; uint64_t value; };
static int look(void *arg)
{
    struct look *l = arg;
    const uint64_t *word = ps_access(&page_at(l->page)->word[l->at], 8, l->mode);
    if (!word) return -errno;
    l->value = *word;
    return 0;
}
static uint64_t value_in(unsigned page, unsigned at, int mode)
{
    struct look l = {page, at, mode, 0};
    int error = ps_transaction(look, &l);
    return error ? (uint64_t)error : l.value;
}

/* Of the page's frames that have `mark` in word MARK, a word is hit: its current one, and perhaps
 * some that are free. */
static bool hit(unsigned page, uint64_t mark, unsigned at)
{
    return wild_write((struct wild_page){TAG, tag_of(page), MARK, mark}, at, BITS) > 0;
}

/* The auditor's numbers, behind a round that is made now. */
struct numbers { uint64_t rounds, looked, found, mended; };
static struct numbers audited(int how)
{
    long r = client_call(STORE_AUDIT, (uint64_t)how, 0, 0, NULL, 0, NULL, 0);
    struct numbers n = {client_reply.word[0], client_reply.word[1], client_reply.word[2],
                        client_reply.word[3]};
    if (r) printf("# audit: %ld\n", r);
    return n;
}
static struct numbers before;
static void numbers_begin(void) { before = audited(0); }

/* So many were found since, and all mended. */
static void found(uint64_t wanted, const char *what)
{
    struct numbers now = audited(0);
    if (now.found - before.found != wanted || now.mended - before.mended != wanted)
        printf("# found %ld, mended %ld\n", (long)(now.found - before.found),
               (long)(now.mended - before.mended));
    tap_ok(now.found - before.found == wanted && now.mended - before.mended == wanted, "%s", what);
}

/* ---- tests ---- */

static void the_form(void)
{
    is(ps_protection(box, PS_PROTECT_CODEWORDS), 0, "it has codewords");
    is(ps_durability(box, PS_VOLATILE), -EINVAL, "so it is in the log");
    is(ps_locking(box, items ? PS_LOCK_ITEMS : PS_LOCK_PAGES), 0, "it locks what it is to lock");
    is(ps_transaction(build, NULL), 0, "its pages are made");
}

static void clean_page(void)
{
    is(ps_checkpoint(), 0, "all is at home");
    numbers_begin();
    is(hit(1, 0, 200), 1, "a clean page is hit");
    is((long)value_in(1, 200, PS_S), BITS, "who reads it sees that");
    is((long)audited(1).rounds, (long)before.rounds + 1, "a round is made");
    found(1, "and it is found");
    is((long)value_in(1, 200, PS_S), 0, "nobody sees it any more");
    is((long)value_in(1, 0, PS_S), 1001, "the rest is as it was");
}

static void dirty_page(void)
{
    for (unsigned i = 0; i < 20; i++) (void)put_in(2, OWN + i * 16, i + 1);
    is(put_in(3, OWN, 33), 0, "pages are changed");
    numbers_begin();
    is(hit(2, 0, 7) + hit(3, 0, 400), 2, "dirty pages are hit");
    is(ps_checkpoint(), 0, "a checkpoint is made");
    found(2, "they are found before they are at home");
    bool good = true;
    for (unsigned i = 0; i < 20; i++) good = good && value_in(2, OWN + i * 16, PS_S) == i + 1;
    tap_ok(good && value_in(2, 7, PS_S) == 0 && value_in(3, OWN, PS_S) == 33 && value_in(3, 400,
                                                                                         PS_S) == 0,
           "and are as they were committed");
    numbers_begin();
    is(hit(2, 0, 7), 1, "one is hit again, clean now");
    (void)audited(1);
    found(1, "and mended from its home");
}

/* A reader that asks for it. */
static void reader(void)
{
    is(put_in(4, OWN, 44), 0, "a page is changed");
    numbers_begin();
    is(hit(4, 0, 10), 1, "and hit");
    is((long)value_in(4, 100, PS_S | PS_CHECK), 0,
       "who reads elsewhere with PS_CHECK sees nothing of it");
    found(0, "nor does anybody else");
    is((long)value_in(4, 10, PS_S | PS_CHECK), 0, "who reads there reads what was committed");
    found(1, "it was mended first");
    is((long)value_in(4, OWN, PS_S | PS_CHECK), 44, "all of it");
}

/* The first try stores to the page, which is hit then; the mark tells the copy. */
static int tries;
static int hit_within(void *arg)
{
    const struct put *p = arg;
    uint64_t *word = ps_write(&page_at(p->page)->word[p->at]),
                          *mark = ps_write(&page_at(p->page)->word[MARK]);
    if (!word || !mark) return -errno;
    *mark = 99;
    *word = p->value;
    if (tries++ == 0 && !hit(p->page, 0, 70)) return -1;
    *mark = 0;
    return 0;
}
static void copies(void)
{
    numbers_begin();
    tries = 0;
    is(ps_transaction(hit_within, &(struct put){5, 71, 5}), -EIO,
       "who changed something beside what was hit meanwhile ends");
    (void)audited(1);
    found(1, "the page is found");
    is(ps_transaction(hit_within, &(struct put){5, 71, 6}), 0, "the next one commits");
    is(put_in(6, OWN, 1), 0, "a page is in the log as a whole");
    tries = 0;
    is(ps_transaction(hit_within, &(struct put){6, 200, 7}), items ? 0 : -EIO,
       "who changed another region does, too, if what he copied is not what is told");
    (void)audited(1);
    found(2, "what was hit is found behind that");
    tap_ok(value_in(5, 71, PS_S) == 6 && value_in(6, 200, PS_S) == (items ? 7 : 0) &&
               value_in(6, 70, PS_S) == 0 && value_in(5, 70, PS_S) == 0,
           "all is as it was committed");
}

/* A page is mended while a transaction has a copy of it. */
static int mended_within(void *arg)
{
    const struct put *p = arg;
    int error = hit_within(arg);
    if (!error && tries == 1) (void)audited(1);
    return error ? error : page_at(p->page)->word[0] == 0;
}
static void mended_beside(void)
{
    numbers_begin();
    tries = 0;
    is(ps_transaction(mended_within, &(struct put){7, 300, 7}), -EIO,
       "who has a copy when a page is mended");
    found(1, "which it is");
    is((long)value_in(7, 300, PS_S), 0, "nothing of it is there");
}

/* A snapshot reads the page; then it is hit, and a copy of it becomes the snapshot's version. */
static void *changer(void *unused)
{
    return (void *)(intptr_t)(!hit(8, 0, 70) || put_in(8, OWN, 88) || (audited(1), 0) || unused);
}
static int reads_old(void *out)
{
    pthread_t t;
    void *failed;
    uint64_t *seen = out;
    const volatile struct page *p = page_at(8);
    seen[0] = p->word[OWN];
    pthread_create(&t, NULL, changer, NULL);
    pthread_join(t, &failed);
    seen[1] = p->word[OWN];
    seen[2] = p->word[70];
    return failed != NULL;
}
static void old_version(void)
{
    uint64_t seen[3] = {1, 1, 1};
    is(put_in(8, OWN, 80), 0, "another one is");
    numbers_begin();
    is(ps_transaction_opt(reads_old, seen, &(struct ps_options){.isolation = PS_SNAPSHOT}), 0,
       "a snapshot reads on while the page is hit, changed and mended");
    tap_ok(seen[0] == 80 && seen[1] == 80 && seen[2] == 0 && value_in(8, OWN, PS_S) == 88,
           "it sees its moment");
    found(1, "which was found");
}

/* ---- programs commit, pages are hit, audits and checkpoints run, pages come and go ---- */

enum { CLIENTS = 3, ROUNDS = 40, FIRST = 20, SPAN = 64, HITS = 12 };
static _Atomic int over;
static uint64_t shadow[SPAN][CLIENTS];
static _Atomic long refused, bad;

static void *client(void *arg)
{
    unsigned who = (unsigned)(uintptr_t)arg, seed = who + 1;
    for (int i = 0; i < ROUNDS; i++) {
        seed = seed * 1103515245 + 12345;
        unsigned n = (seed >> 12) % SPAN;
        int error = put_in(FIRST + n, OWN + who, (uint64_t)i + 1);
        if (error == 0) shadow[n][who] = (uint64_t)i + 1;
        else if (error == -EIO) refused++;
        else bad++;
    }
    return NULL;
}
static void *checkpoints(void *arg)
{
    while (!over) bad += ps_checkpoint() != 0;
    return arg;
}
static void load(void)
{
    pthread_t t[CLIENTS], c;
    long hits = 0;
    numbers_begin();
    is(ps_policy(box, PS_MEMORY, 48), 0, "not all pages fit into memory");
    pthread_create(&c, NULL, checkpoints, NULL);
    for (uintptr_t i = 0; i < CLIENTS; i++) pthread_create(&t[i], NULL, client, (void *)i);
    for (unsigned i = 0; i < HITS; i++) hits += hit(FIRST + i * 5, 0, 300 + i);
    for (int i = 0; i < CLIENTS; i++) pthread_join(t[i], NULL);
    over = 1;
    pthread_join(c, NULL);
    (void)audited(1);
    bool good = bad == 0;
    for (unsigned n = 0; n < SPAN; n++) {
        for (unsigned who = 0; who < CLIENTS; who++)
            good = good && value_in(FIRST + n, OWN + who, PS_S) == shadow[n][who];
        for (unsigned i = 0; i < HITS; i++) good = good && value_in(FIRST + n, 300 + i, PS_S) == 0;
    }
    tap_ok(good, "%d clients, checkpoints and %ld wild writes beside: all is as it was committed",
           CLIENTS, hits);
    struct numbers now = audited(0);
    tap_ok(now.found == now.mended,
           "what was found was mended: %ld pages; %ld transactions ended with EIO",
           (long)(now.found - before.found), refused);
    is(ps_policy(box, PS_MEMORY, 0), 0, "memory for all again");
}

/* ---- a crash behind repairs ---- */

static int open_box(void)
{
    box = ps_open(items ? "codewords" : "codewords of pages", PS_CREATE | PS_WRITE,
                  PS_LAYOUT(struct root, 1));
    return box && client_connect() == 0;
}

static _Noreturn void crash(void)
{
    the_form();
    long hits = 0;
    for (unsigned n = 0; n < PAGES; n++) (void)put_in(n, OWN, n + 1);
    for (unsigned n = 0; n < PAGES; n += 16) hits += hit(n, 0, 100);
    (void)ps_checkpoint(); /* those are mended from the log ... */
    for (unsigned n = 0; n < PAGES; n++) (void)put_in(n, OWN + 1, n + 2);
    for (unsigned n = 3; n < PAGES; n += 16) hits += hit(n, 0, 100);
    struct numbers now = audited(1);
    for (unsigned n = 0; n < PAGES; n++)
        (void)put_in(n, OWN + 2, n + 3); /* ... and changed further */
    for (unsigned n = 5; n < PAGES; n += 16) hits += hit(n, 0, 100); /* nobody finds these */
    printf("hit %ld mended %ld\ncut\n", hits, (long)now.mended);
    for (;;) pause_ms(1000);
}

static int checks(void)
{
    long wrong = 0;
    for (unsigned n = 0; n < PAGES; n++) {
        for (unsigned i = 0; i < 3; i++)
            wrong += value_in(n, OWN + i, PS_S | PS_CHECK) != n + 1 + i;
        wrong += value_in(n, 100, PS_S) != 0 || value_in(n, 0, PS_S) != 1000 + n;
    }
    printf("wrong %ld\n", wrong);
    return wrong != 0;
}

static void all(bool of_items)
{
    items = of_items;
    over = bad = refused = 0;
    memset(shadow, 0, sizeof shadow);
    tap_ok(open_box(), "a container that locks %s", items ? "items" : "pages");
    the_form();
    clean_page();
    dirty_page();
    reader();
    copies();
    mended_beside();
    old_version();
    load();
}

/* crash, check: "items" or "pages". */
int main(int argc, char **argv)
{
    setvbuf(stdout, NULL, _IONBF, 0);
    items = argc > 2 && strcmp(argv[2], "items") == 0;
    if (argc > 2 && !open_box()) return 1;
    if (argc > 2 && strcmp(argv[1], "crash") == 0) crash();
    if (argc > 2) return checks();
    tap_plan(88);
    all(true);
    all(false);
    return tap_end();
}
