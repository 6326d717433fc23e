/* log.c - what a manager is told of transactions of one page that are in its log and not published
 * yet, and the order in which it may publish them. */
#include "kernel_items.h"

enum { MOST = 16 };

/* COMMITs wait in `kept` while gather is set, until the test has dealt with them. */
static struct kd_message kept[MOST];
static _Atomic int gather, kept_count;

bool gathers(struct kd_message *m)
{
    if (!gather || m->kind != (uint32_t)KD_MSG_COMMIT)
        return false;
    kept[kept_count] = *m;
    kept_count++;
    return true;
}

static uint8_t buffer[64 << 10];

/* What the last telling said of a word; `whole`: in an image of the page. */
struct told { bool there, whole; uint64_t value, base_csn; };

static struct told told_of(uint64_t bytes, uint64_t page, unsigned i)
{
    struct told t = {0};
    for (uint64_t at = 0; at < bytes;) {
        struct kd_run *r = (struct kd_run *)(buffer + at);
        if (r->page == page && i * 8 - r->offset < r->bytes) {
            t = (struct told){true, r->flags & KD_RUN_FULL, 0, r->base_csn};
            memcpy(&t.value, (uint8_t *)(r + 1) + (i * 8 - r->offset), 8);
        }
        at += sizeof *r + ((r->bytes + 7u) & ~7u);
    }
    return t;
}

static long tell(int n, uint64_t full_below, uint64_t *bytes)
{
    struct kd_diff d = {.view = kept[n].word[0], .token = kept[n].token, .full_below = full_below,
                        .buffer = buffer, .buffer_bytes = sizeof buffer};
    long e = kd_call3(KD_TXN_DIFF, (long)&d, 0, 0);
    *bytes = d.buffer_bytes;
    return e ? e : d.cursor == ~0ull ? 0 : -E2BIG;
}

/* Tells of commit n, and what was said of a word. */
static struct told telling(int n, uint64_t full_below, uint64_t page, unsigned i)
{
    uint64_t bytes;
    long e = tell(n, full_below, &bytes);
    if (e)
        printf("# diff: %ld\n", e);
    return e ? (struct told){0} : told_of(bytes, page, i);
}

static long publish(const int *which, unsigned count)
{
    struct kd_publish p[MOST];
    for (unsigned i = 0; i < count; i++)
        p[i] = (struct kd_publish){kept[which[i]].word[0], kept[which[i]].token, next_csn + i};
    long e = kd_call3(KD_TXN_PUBLISH, (long)p, (long)count, 0);
    next_csn += e ? 0 : count;
    return e;
}

static long refuse(int n)
{
    return kd_call3(KD_TXN_REFUSE, (long)kept[n].word[0], (long)kept[n].token, EIO);
}

/* ---- clients: each adds 1 << 8n to one word, and stores to one of its own ---- */

enum { PAGE = 40, BOTH = 3 };
static pthread_t clients[MOST];
static _Atomic uint64_t page_now;

static int adds(void *n)
{
    unsigned i = (unsigned)(uintptr_t)n;
    add(page_now, BOTH, 1ull << 8 * i);
    put(page_now, 64 + i, i + 1);
    return 0;
}

/* As much as a page can be changed. */
static int adds_to_all(void *unused)
{
    for (unsigned i = 0; i < KD_PAGE_BYTES / 8; i++)
        __atomic_fetch_add(word_of(page_now, i), 1, __ATOMIC_RELAXED);
    return (void)unused, declare(word_of(page_now, 0), KD_PAGE_BYTES) != 0;
}

static int (*work)(void *n) = adds;
static void *client(void *n) { return (void *)(intptr_t)run(work, n, KD_SERIALISABLE, 0); }

/* So many COMMITs of a page of their own wait, the first of client 0, and so on. */
static void gather_commits(int count, uint64_t page)
{
    page_now = page;
    kept_count = 0;
    gather = 1;
    for (int i = 0; i < count; i++) {
        pthread_create(&clients[i], NULL, client, (void *)(intptr_t)i);
        while (kept_count <= i)
            pause_ms(1);
    }
}

/* What commit n returned. */
static int ended(int n)
{
    void *result;
    pthread_join(clients[n], &result);
    return (int)(intptr_t)result;
}

/* What the commits returned; `wanted` of each. */
static bool all_ended(int count, const int *wanted)
{
    bool good = true;
    for (int i = 0; i < count; i++)
        good = ended(i) == wanted[i] && good;
    gather = 0;
    return good;
}

/* ---- tests ---- */

static void together(void)
{
    gather_commits(3, PAGE);
    tap_ok(telling(0, 0, PAGE, BOTH).value == 1, "the first is told with what it did");
    struct told t = telling(1, 0, PAGE, BOTH);
    tap_ok(t.value == 0x101 && t.base_csn == KD_CSN_ANY,
           "the second with what the first has in the log, and no base is known");
    tap_ok(!telling(2, ~0ull >> 1, PAGE, BOTH).whole, "nor an image due where one is before it");
    is(check(), 0, "kcheck with told copies");
    is(publish((int[]){1, 0, 2}, 3), -EINVAL, "they are not published in another order");
    is(publish((int[]){1}, 1), -EINVAL, "nor one before its turn");
    is(publish((int[]){0}, 1), 0, "the first is");
    is(check(), 0, "kcheck with told copies that were brought up to date");
    is(publish((int[]){1, 2}, 2), 0, "and then two in one step");
    tap_ok(all_ended(3, (int[]){0, 0, 0}) && seen(PAGE, BOTH) == 0x10101 && seen(PAGE, 66) == 3,
           "all of them are seen");
}

static void images(void)
{
    uint64_t page = PAGE + 1;
    gather_commits(2, page);
    struct told t = telling(0, ~0ull >> 1, page, BOTH);
    tap_ok(t.whole && t.value == 1, "a page whose base is too old is told whole");
    is(publish((int[]){0}, 1), 0, "published");
    t = telling(1, ~0ull >> 1, page, BOTH);
    tap_ok(t.whole && t.value == 0x101, "so is the next one, with what was published since");
    t = telling(1, ~0ull >> 1, page, 64);
    tap_ok(t.there && t.value == 1, "and with the words of others");
    is(publish((int[]){1}, 1), 0, "published");
    tap_ok(all_ended(2, (int[]){0, 0}) && seen(page, 64) == 1 && seen(page, 65) == 2, "both stand");
}

/* What stood behind a refused one in the log has its words, and is told anew. */
static void refusals(void)
{
    uint64_t page = PAGE + 2;
    gather_commits(3, page);
    bool good = telling(0, 0, page, BOTH).value == 1 && telling(1, 0, page, BOTH).value == 0x101;
    good = good && telling(2, 0, page, BOTH).value == 0x10101 && refuse(1) == 0;
    good = ended(1) == -EIO && good;    /* else it may stand in the log still, in the way */
    clients[1] = clients[2];
    is(publish((int[]){0, 2}, 2), -EINVAL, "one that was told behind a refused one");
    struct told t = telling(2, 0, page, BOTH);
    tap_ok(good && t.value == 0x10001, "is told anew, without it");
    is(check(), 0, "kcheck");
    is(publish((int[]){0, 2}, 2), 0, "then it is published");
    tap_ok(all_ended(2, (int[]){0, 0}) && seen(page, BOTH) == 0x10001 && seen(page, 65) == 0,
           "and nothing of the refused one is seen");
}

/* A commit that is told again, behind one that was told after it. */
static void told_twice(void)
{
    uint64_t page = PAGE + 3;
    gather_commits(2, page);
    bool good = telling(0, 0, page, BOTH).value == 1 && telling(1, 0, page, BOTH).value == 0x101;
    good = good && telling(0, 0, page, BOTH).value == 1;
    is(publish((int[]){0, 1}, 2), -EINVAL, "who was told behind one that is told again");
    good = good && telling(1, 0, page, BOTH).value == 0x101;
    tap_ok(good && publish((int[]){0, 1}, 2) == 0 && all_ended(2, (int[]){0, 0}),
           "is told again, too");
}

/* A telling that fails takes the place in the log, and leaves none. */
static void told_in_vain(void)
{
    uint64_t page = PAGE + 6;
    gather_commits(1, page);
    bool good = telling(0, 0, page, BOTH).value == 1;
    struct kd_diff d = {.view = kept[0].word[0], .token = kept[0].token, .buffer = buffer};
    good = good && kd_call3(KD_TXN_DIFF, (long)&d, 0, 0) == -EINVAL;
    is(publish((int[]){0}, 1), -EINVAL, "who is told again into a buffer without room");
    good = good && telling(0, 0, page, BOTH).value == 1;
    tap_ok(good && publish((int[]){0}, 1) == 0 && all_ended(1, (int[]){0}),
           "is told once more, and published");
}

/* The first stores to a word of the second's, too, and does not declare it. */
static int strays(void *n)
{
    unsigned i = (unsigned)(uintptr_t)n;
    put(page_now, 64 + i, i + 1);
    if (i == 0)
        *word_of(page_now, 65) = *word_of(page_now, 66) = 666;
    return 0;
}

/* The version between two of one publication is seen by nobody; the one before them by a snapshot,
 * with no word of either (stray3 in tests/model/item_scenarios.h). */
static void versions_of_one_publication(void)
{
    static struct context early, late;
    uint64_t page = PAGE + 7;
    bool good = begin(&early, KD_SNAPSHOT) == 0 && *word_of(page, 65) == 0;
    good = good && begin(&late, KD_SNAPSHOT) == 0;
    work = strays;
    gather_commits(2, page);
    good = telling(0, 0, page, 64).value == 1 && good;
    good = telling(1, 0, page, 65).value == 2 && good;
    good = publish((int[]){0, 1}, 2) == 0 && all_ended(2, (int[]){0, 0}) && good;
    tap_ok(good && seen(page, 64) == 1 && seen(page, 65) == 2 && seen(page, 66) == 0,
           "two of one publication, and a stray store to the other's word");
    struct context *both[] = {&early, &late};
    for (int i = 0; i < 2; i++) {
        in_view(both[i]);
        good = good && *word_of(page, 64) == 0 && *word_of(page, 65) == 0 &&
               *word_of(page, 66) == 0;
    }
    tap_ok(good && check() == 0, "no snapshot sees it, nor a word of either");
    for (int i = 0; i < 2; i++) {
        good = commit(both[i]) == 0 && good;
        view_anew();
        both[i]->view = 0;
    }
    work = adds;
}

/* The first declares words 80 and 83, the second 81 and 84, so near that one run has what lies
 * between; both store to word 82, and the second to 83, which is the first one's. */
static int strays_between(void *n)
{
    unsigned i = (unsigned)(uintptr_t)n;
    put(page_now, 80 + i, i + 1);
    put(page_now, 83 + i, i + 1);
    *word_of(page_now, 82) = 666;
    if (i == 1)
        *word_of(page_now, 83) = 666;
    return 0;
}

static void between_declared(void)
{
    uint64_t page = PAGE + 8, bytes;
    work = strays_between;
    gather_commits(2, page);
    bool good = tell(0, 0, &bytes) == 0;
    tap_ok(good && told_of(bytes, page, 83).value == 1 && told_of(bytes, page, 82).there &&
               told_of(bytes, page, 82).value == 0,
           "of what is told between declared words none is a stray store");
    good = tell(1, 0, &bytes) == 0;
    tap_ok(good && told_of(bytes, page, 84).value == 2 && told_of(bytes, page, 82).value == 0 &&
               told_of(bytes, page, 83).there && told_of(bytes, page, 83).value == 1,
           "nor behind another one in the log, whose words it is told with");
    good = publish((int[]){0, 1}, 2) == 0 && all_ended(2, (int[]){0, 0});
    tap_ok(good && seen(page, 82) == 0 && seen(page, 83) == 1 && seen(page, 84) == 2,
           "and none is seen");
    work = adds;
}

/* tests/system/stretches.py counts what these keep a CPU in the kernel. */
static void whole_pages(void)
{
    enum { READERS = 40 };
    static struct context readers[READERS];
    const unsigned last = KD_PAGE_BYTES / 8 - 1;
    uint64_t page = PAGE + 5;
    int all[MOST], none[MOST] = {0};
    bool good = true;
    for (int i = 0; i < READERS; i++)
        good = good && begin(&readers[i], KD_SNAPSHOT) == 0 && *word_of(page, 0) == 0;
    work = adds_to_all;
    gather_commits(MOST, page);
    for (int i = 0; i < MOST; i++) {
        good = good && telling(i, 0, page, last).value == (uint64_t)i + 1;
        all[i] = i;
    }
    is(check(), 0, "kcheck with sixteen copies, told, of a page that is changed as a whole");
    good = publish(all, MOST) == 0 && good;
    tap_ok(all_ended(MOST, none) && good && seen(page, 0) == MOST && seen(page, last) == MOST,
           "and all of them are published");
    for (int i = 0; i < READERS; i++) {
        in_view(&readers[i]);
        good = good && *word_of(page, last) == 0 && commit(&readers[i]) == 0;
        view_anew();
        readers[i].view = 0;
    }
    tap_ok(good, "what forty snapshots do not see");
    work = adds;
}

void end_of_the_object(void)
{
    static struct context a, b;
    uint64_t page = PAGE + 4;
    gather_commits(2, page);
    bool good = telling(0, 0, page, BOTH).value == 1;
    good = good && begin(&a, KD_SERIALISABLE) == 0;
    put(page, 70, 1);
    good = good && begin(&b, KD_SERIALISABLE) == 0 && *word_of(page, 70) == 0;
    tap_ok(good && kd_call3(KD_OBJECT_DESTROY, object, 0, 0) == 0,
           "the object ends under copies, told ones and others");
    tap_ok(!telling(1, 0, page, BOTH).there, "nothing of it is told any more");
    good = refuse(0) == 0 && refuse(1) == 0;
    tap_ok(good && all_ended(2, (int[]){-EIO, -EIO}), "who commits waits for its manager's word");
    tap_ok(commit(&a) == -EOWNERDEAD && commit(&b) == -EOWNERDEAD, "who does not is undone");
    is(check(), 0, "kcheck at the end");
}

void order_of_log(void)
{
    together();
    images();
    refusals();
    told_twice();
    told_in_vain();
    versions_of_one_publication();
    between_declared();
    whole_pages();
}
