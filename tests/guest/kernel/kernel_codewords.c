/*
 * kernel_codewords - codewords of pages (KD_OBJECT_CODEWORDS), without a store.
 *
 * Aim     a word of a committed page that anybody but a transaction changed is found: by an audit,
 *         by who reads it, before it is brought home, before anything of its region is told; also
 *         when it was hit between the telling and the publication. Nothing is found where nothing
 *         was hit, whatever transactions, snapshots and the evictor do. A mended page is as it was,
 *         in its old versions, too, and who had a copy of it does not commit. In item mode and in
 *         page mode.
 * Method  own_manager.h, an object of each mode, one behind the other; wild writes by the host
 *         (wild.h). Word TAG of a page says to the host which one it is; the manager's own copy of
 *         the page has another one meanwhile.
 */
#include "items.h"
#include "wild.h"

enum { PAGES = 1 << 16, HOME_PAGES = 128, TAG = 511, OTHER = 510, REGION = 64, BITS = 0x40 };

static struct context a, b, reader;
static volatile uint64_t *volatile here; /* survives setjmp */

static uint64_t tag_of(uint64_t page) { return 0x7461670000000000 | page; }

/* A page with something in it, and its tag; not home. */
static void page_made(uint64_t page)
{
    begin(&a, KD_SERIALISABLE);
    for (unsigned i = 0; i < 8; i++) put(page, i * REGION, page << 16 | i);
    put(page, TAG, tag_of(page));
    is(commit(&a), 0, "a page is made");
}

/* Of the page's frames that hold `other` in word OTHER, a word is hit; some may be free. */
static void hit(uint64_t page, uint64_t other, unsigned word)
{
    uint64_t *own = (uint64_t *)home[page];
    own[TAG] = 0;
    tap_ok(wild_write((struct wild_page){TAG, tag_of(page), OTHER, other}, word, BITS) > 0,
           "a frame is hit");
    own[TAG] = tag_of(page);
}

/* The regions of the page that an audit finds damaged, or -errno. */
static long audited(uint64_t page, uint64_t count)
{
    struct kd_damage d = {.page = page};
    long e = 0;
    for (uint64_t end = page + count; d.page < end && !e;)
        e = kd_call4(KD_OBJECT_AUDIT, object, (long)d.page, (long)(end - d.page), (long)&d);
    return e == -EUCLEAN ? (long)(d.page << 8 | d.regions) : e;
}

static long mend(uint64_t page, uint64_t csn)
{
    return kd_call4(KD_OBJECT_MEND, object, (long)page, (long)home[page], (long)csn);
}

/* What its manager, which wants to bring the page home, gets. */
static uint8_t bytes[KD_PAGE_BYTES] __attribute__((aligned(4096)));
static bool untouched;                  /* nothing of the page left */
static long brought_home(uint64_t page, uint64_t *csn)
{
    *csn = KD_CSN_ANY;
    memset(bytes, 0x5a, sizeof bytes);
    long e = kd_call4(KD_OBJECT_READ, object, (long)page, (long)bytes, (long)csn);
    untouched = bytes[0] == 0x5a && bytes[TAG * 8] == 0x5a;
    memset(bytes, 0, sizeof bytes); /* or the next wild write finds it */
    return e;
}

static long hint_check(uint64_t page, unsigned i, unsigned words)
{
    return kd_call3(KD_TXN_HINT, (long)word_of(page, i), words * 8, KD_HINT_CHECK);
}

/* ---- tests ---- */

static void what_is_refused(void)
{
    struct kd_object_create o = {.port = port, .commit_port = commit_port, .pages = 1,
                                 .name = "none", .flags = KD_OBJECT_CODEWORDS};
    is(kd_call3(KD_OBJECT_CREATE, (long)&o, 0, 0), -EINVAL, "codewords are for transactions");
    is(audited(PAGES - 1, 2), -EINVAL, "an audit of pages that are not there");
    is(mend(60, KD_CSN_ANY), -ENOENT, "a page that is away is not mended");
}

/* What comes for the first time is not all zeros. */
static void supplied(uint64_t page)
{
    ((uint64_t *)home[page])[5] = 55;
    is((long)seen(page, 5), 55, "a page comes");
    is(audited(page, 1), 0, "and is sound");
}

static void clean_page(uint64_t page)
{
    uint64_t csn;
    page_made(page);
    is(audited(page, 1), 0, "it is sound");
    is(brought_home(page, &csn), 0, "it is brought home");
    is(kd_call3(KD_OBJECT_CLEANED, object, (long)page, (long)csn), 0, "and clean");
    hit(page, 0, 130);
    is(audited(0, HOME_PAGES), (long)(page << 8 | 1 << 2), "the audit names page and region");
    begin(&reader, KD_SERIALISABLE);
    is(hint_check(page, 128, 1), -EIO, "who reads there is told");
    is(hint_check(page, 60, 100), -EIO, "or over more");
    is(hint_check(page, 0, 64) | hint_check(page, 192, 320), 0, "elsewhere he is not");
    is(hint_check(page - 1, 0, 512 + 128), 0, "nor is who reads what ends before it");
    is(hint_check(page - 1, 500, 2 * 512), -EIO, "but who reads across the page");
    is(hint_check(PAGES - 1, 511, 1), 0, "the last word of all");
    is(hint_check(PAGES - 1, 511, 2), -EINVAL, "and one that is not there");
    is((long)*word_of(page, 130), BITS, "he would have seen it");
    is(mend(page, csn + 1), -ESTALE, "another version does not mend it");
    is(mend(page, csn), 0, "this one does");
    is((long)*word_of(page, 130), 0, "and he sees that at once");
    is(hint_check(page, 0, 512), 0, "all is as it was");
    is(commit(&reader), 0, "and he goes on");
    is(audited(0, HOME_PAGES), 0, "an audit finds nothing");
    is(check(), 0, "nor does kcheck");
}

static void dirty_page(uint64_t page)
{
    uint64_t csn;
    page_made(page);
    hit(page, 0, 3);
    is(brought_home(page, &csn), -EUCLEAN, "a dirty page that was hit is not brought home");
    tap_ok(untouched, "nothing of it");
    tap_ok(check() == -EIO, "kcheck says so, too");
    is(mend(page, KD_CSN_ANY), 0, "it is mended");
    is(brought_home(page, &csn), 0, "and is brought home");
}

/* Two have copies when the page is hit, in a region that only the first changes. */
static void copies(uint64_t page)
{
    page_made(page);
    begin(&a, KD_SERIALISABLE);
    put(page, 0, 1);
    put(page, OTHER, 77); /* its frame is told by that */
    begin(&b, KD_SERIALISABLE);
    put(page, 2 * REGION, 2);
    put(page, OTHER, 78);
    hit(page, 0, 5);
    is(commit(&a), -EIO, "who changed something in the region does not commit");
    here = word_of(page, 1);
    int reason = setjmp(b.env);
    if (!reason) {
        in_view(&b);
        is(mend(page, KD_CSN_ANY), 0, "the page is mended");
        for (int i = 0; i < 100; i++) (void)kd_call3(KD_TXN_HINT, (long)here, 8, KD_HINT_PREFETCH);
        undo(&b);
    }
    is(reason, EIO, "who had a copy ends");
    tap_ok(seen(page, 0) == page << 16 && seen(page, 2 * REGION) == (page << 16 | 2) &&
               seen(page, 5) == 0, "nothing of either is there");
    is(check(), 0, "kcheck");
}

/* The same of page mode, where nobody else has one. */
static void one_copy(uint64_t page)
{
    page_made(page);
    begin(&a, KD_SERIALISABLE);
    put(page, 0, 1);
    put(page, OTHER, 77);
    hit(page, 0, 5);
    is(commit(&a), -EIO, "who changed something in a region that was hit does not commit");
    is(mend(page, KD_CSN_ANY), 0, "the page is mended");
    begin(&a, KD_SERIALISABLE);
    put(page, 0, 1);
    put(page, OTHER, 77);
    hit(page, 77, 6);
    is(commit(&a), 0, "what hits his copy before he commits is what he did");
    here = word_of(page, 1);
    int reason = setjmp(b.env);
    if (!reason) {
        begin(&b, KD_SERIALISABLE);
        put(page, 2 * REGION, 2);
        hit(page, 77, 200);
        is(mend(page, KD_CSN_ANY), 0, "it is mended again");
        for (int i = 0; i < 100; i++) (void)kd_call3(KD_TXN_HINT, (long)here, 8, KD_HINT_PREFETCH);
        undo(&b);
    }
    is(reason, EIO, "who had a copy ends");
    tap_ok(seen(page, 0) == 1 && seen(page, 2 * REGION) == (page << 16 | 2) &&
               seen(page, 5) == 0 && seen(page, 200) == 0, "nothing of it is there");
    is(check(), 0, "kcheck");
}

/* The other one of two commits, in another region, before the page is mended: that stays wrong. */
static void others_go_on(uint64_t page)
{
    page_made(page);
    hit(page, 0, 70);
    begin(&a, KD_SERIALISABLE);
    put(page, 3 * REGION, 5);
    is(commit(&a), 0, "another region of the page is changed meanwhile");
    is(audited(page, 1), (long)(page << 8 | 1 << 1), "what was hit is still known");
    is(mend(page, KD_CSN_ANY), 0, "it is mended");
    tap_ok(seen(page, 70) == 0 && seen(page, 3 * REGION) == 5, "and both are right");
}

/* A copy is taken from the damaged page, and becomes its old version. */
static void old_version(uint64_t page)
{
    page_made(page);
    begin(&reader, KD_SNAPSHOT);
    hit(page, 0, 70);
    begin(&a, KD_SERIALISABLE);
    put(page, 3 * REGION, 5);
    bool good = commit(&a) == 0 && mend(page, KD_CSN_ANY) == 0;
    in_view(&reader);
    tap_ok(good && *word_of(page, 3 * REGION) == (page << 16 | 3) && *word_of(page, 70) == 0,
           "a snapshot sees its moment, and not the wild word");
    is(commit(&reader), 0, "and ends");
    is(check(), 0, "kcheck");
}

/* Who has locked the container has copies that become the page (IT7). */
static void locked(uint64_t page)
{
    page_made(page);
    begin(&a, KD_SERIALISABLE);
    is(kd_call3(KD_TXN_LOCK, (long)word_of(page, 0), 0, 0), 0, "the container is locked");
    *word_of(page, 3 * REGION) = 5;
    *word_of(page, OTHER) = 79; /* its frame is told by that */
    is(commit(&a), 0, "and a page changed");
    tap_ok(audited(page, 1) == 0 && seen(page, 3 * REGION) == 5, "it is sound");
    hit(page, 79, 70);
    begin(&a, KD_SERIALISABLE);
    is(kd_call3(KD_TXN_LOCK, (long)word_of(page, 0), 0, 0), 0, "locked again");
    *word_of(page, REGION) = 6;
    is(commit(&a), -EIO, "from a region that was hit nothing is committed");
    is(audited(page, 1), (long)(page << 8 | 1 << 1), "what was hit is known");
    is(mend(page, KD_CSN_ANY), 0, "it is mended");
    tap_ok(seen(page, 70) == 0 && seen(page, REGION) == (page << 16 | 1),
           "and as it was committed");
}

/* ---- in the middle of a commit: the test tells and publishes itself ---- */

static struct kd_message kept;
static _Atomic int gather, has_kept;

static bool gathers(struct kd_message *m)
{
    if (!gather || m->kind != (uint32_t)KD_MSG_COMMIT)
        return false;
    kept = *m;
    has_kept = 1;
    return true;
}

static uint64_t page_now;
static int changes(void *unused)
{
    put(page_now, 10, 1000);
    put(page_now, OTHER, 77);
    return unused != NULL;
}
static void *client(void *unused)
{
    return (void *)(intptr_t)run(changes, unused, KD_SERIALISABLE, 0);
}

static pthread_t begun(uint64_t page)
{
    pthread_t t;
    page_made(page);
    page_now = page;
    has_kept = 0;
    gather = 1;
    pthread_create(&t, NULL, client, NULL);
    while (!has_kept) pause_ms(1);
    gather = 0;
    return t;
}

static uint8_t told_of[64 << 10] __attribute__((aligned(16)));
static long told(uint64_t full_below)
{
    struct kd_diff d = {.view = kept.word[0], .token = kept.token, .full_below = full_below,
                        .buffer = told_of, .buffer_bytes = sizeof told_of};
    return kd_call3(KD_TXN_DIFF, (long)&d, 0, 0);
}

static long published(void)
{
    struct kd_publish p = {kept.word[0], kept.token, next_csn++};
    return kd_call3(KD_TXN_PUBLISH, (long)&p, 1, 0);
}

static long ended(pthread_t t)
{
    void *result;
    pthread_join(t, &result);
    return (long)(intptr_t)result;
}

/* `other`: of the frame that is hit: 77, the copy; 0, the page. */
static void in_the_commit(uint64_t page, uint64_t other, unsigned word, long wrong)
{
    pthread_t t = begun(page);
    uint64_t *own = (uint64_t *)home[page];
    is(told(0), 0, "told");
    hit(page, other, word);
    is(mend(page, KD_CSN_ANY), -EBUSY, "no page is mended of which a copy is told");
    is(published(), 0, "published, as the log has it");
    is(ended(t), 0, "committed");
    is(audited(page, 1), wrong ? (long)(page << 8 | (uint64_t)wrong) : 0,
       "what the audit finds");
    own[10] = 1000;
    own[OTHER] = 77;
    is(mend(page, KD_CSN_ANY), 0, "mended by what was told");
    tap_ok(seen(page, 10) == 1000 && seen(page, OTHER) == 77 && seen(page, 0) == page << 16 &&
               audited(page, 1) == 0, "and it is right");
}

/* Another one, that changes another region. */
static int changes_too(void *unused)
{
    put(page_now, 70, 2000);
    return unused != NULL;
}
static void *client_too(void *unused)
{
    return (void *)(intptr_t)run(changes_too, unused, KD_SERIALISABLE, 0);
}
static pthread_t begun_too(struct kd_message *m)
{
    pthread_t t;
    has_kept = 0;
    gather = 1;
    pthread_create(&t, NULL, client_too, NULL);
    while (!has_kept) pause_ms(1);
    gather = 0;
    *m = kept;
    return t;
}

/* Two copies are told, one behind the other. What the first was hit with where it had changed
 * nothing is not told of the second; and both may be hit. */
static void both_hit(uint64_t page)
{
    pthread_t t = begun(page);
    struct kd_message first = kept, second;
    pthread_t u = begun_too(&second);
    uint64_t *own = (uint64_t *)home[page];
    const struct kd_run *r = (const struct kd_run *)told_of;
    kept = first;
    is(told(0), 0, "one is told");
    hit(page, 77, 70);
    kept = second;
    is(told(0), 0, "one behind it");
    tap_ok(r->offset == 70 * 8 && *(const uint64_t *)(r + 1) == 2000, "of what it did alone");
    hit(page, 77, 10);
    kept = first;
    is(published(), 0, "the first one, which was hit, is published");
    own[TAG] = 0;
    tap_ok(wild_write((struct wild_page){TAG, tag_of(page), 70, 2000}, 70, BITS) > 0,
           "the second is hit, too");
    own[TAG] = tag_of(page);
    kept = second;
    is(published(), 0, "and published");
    is(ended(t) | ended(u), 0, "both commit");
    is(audited(page, 1), (long)(page << 8 | 0xff), "the page is known to be damaged");
    own[10] = 1000;
    own[OTHER] = 77;
    own[70] = 2000;
    is(mend(page, KD_CSN_ANY), 0, "and mended");
    tap_ok(seen(page, 10) == 1000 && seen(page, 70) == 2000 && audited(page, 1) == 0, "all of it");
}

/* A page that is told whole is told if all of it holds. */
static void told_whole(uint64_t page)
{
    pthread_t t = begun(page);
    hit(page, 0, 200);
    is(told(~0ull >> 1), -EIO, "a page that was hit anywhere is not told whole");
    is(mend(page, KD_CSN_ANY), 0, "it is mended");
    is(told(~0ull >> 1), -EIO, "and the copy is not told then, either");
    is(kd_call3(KD_TXN_REFUSE, (long)kept.word[0], (long)kept.token, EIO), 0, "it is refused");
    is(ended(t), -EIO, "and ends");
}

/* ---- load, memory ---- */

enum { CLIENTS = 3, ROUNDS = 60, FIRST = 80, SPAN = 4 };
static _Atomic int over, wrong;

static int steps(void *arg)
{
    uint64_t *seed = arg;
    for (int i = 0; i < 4; i++) {
        *seed = *seed * 6364136223846793005u + 1442695040888963407u;
        add(FIRST + (*seed >> 33) % SPAN, (unsigned)(*seed >> 40) % 500, 1);
    }
    return (*seed >> 50) % 8 == 0;
}

static void *stepper(void *arg)
{
    uint64_t seed = (uintptr_t)arg;
    for (int i = 0; i < ROUNDS; i++) {
        int e = run(steps, &seed, KD_SERIALISABLE, 0);
        if (e && e != 1) wrong = e;
    }
    return NULL;
}

static void *auditor(void *arg)
{
    uint64_t csn;
    while (!over) {
        long e = audited(0, PAGES);
        if (e) wrong = (int)e;
        for (uint64_t page = FIRST; page < FIRST + SPAN; page++) {
            e = brought_home(page, &csn);
            if (e && e != -ENOENT) wrong = (int)e;
            if (!e) kd_call3(KD_OBJECT_CLEANED, object, (long)page, (long)csn);
        }
        kd_call4(KD_OBJECT_ADVISE, object, FIRST, SPAN, KD_ADVISE_EVICT);
        if (check()) wrong = 1;
    }
    return arg;
}

static void load(void)
{
    pthread_t threads[CLIENTS], audits;
    over = 0;
    pthread_create(&audits, NULL, auditor, NULL);
    for (uintptr_t i = 0; i < CLIENTS; i++)
        pthread_create(&threads[i], NULL, stepper, (void *)(i + 1));
    for (int i = 0; i < CLIENTS; i++) pthread_join(threads[i], NULL);
    over = 1;
    pthread_join(audits, NULL);
    is(wrong, 0, "many writers, audits, home writes and evictions: all is sound, all the time");
}

/* Pages of many leaves are read, as far as memory goes, and go again. */
static int reads_all(void *unused)
{
    uint64_t sum = 0;
    for (uint64_t page = 0; page < PAGES; page += 8) sum += *word_of(page, 1);
    return unused != NULL && sum;
}

static void memory_at_its_end(void)
{
    is(run(reads_all, NULL, KD_SNAPSHOT, 0), 0, "more pages are read than there is memory for");
    is(audited(0, PAGES), 0, "and all are sound");
    is(kd_call3(KD_CHECK, 1, 0, 0), 0, "what leaves and codewords take is what is charged");
    uint64_t before = process_self().used[KD_LIMIT_MEMORY];
    is(kd_call3(KD_OBJECT_DESTROY, object, 0, 0), 0, "the object ends");
    tap_ok(process_self().used[KD_LIMIT_MEMORY] < before,
           "and its leaves and codewords are given back");
    is(check(), 0, "kcheck at the end");
}

/* What hits the page that a told copy takes the place of is gone with it. */
static void in_page_mode(void)
{
    what_is_refused();
    supplied(20);
    clean_page(1);
    dirty_page(2);
    one_copy(3);
    others_go_on(4);
    old_version(5);
    locked(10);
    in_the_commit(6, 77, 10, 1 << 0 | 1 << 7);
    in_the_commit(11, 77, 70, 1 << 1);
    in_the_commit(7, 0, 10, 0);
    in_the_commit(8, 0, 70, 0);
    told_whole(9);
    load();
    memory_at_its_end();
}

int main(void)
{
    setvbuf(stdout, NULL, _IONBF, 0);
    tap_plan(232);
    struct own_manager how = {.pages = PAGES, .home_pages = HOME_PAGES,
                              .flags = KD_OBJECT_ITEMS | KD_OBJECT_CODEWORDS, .messages = gathers};
    tap_ok(start_manager(how), "a manager of pages with codewords, in item mode");
    what_is_refused();
    supplied(20);
    clean_page(1);
    dirty_page(2);
    copies(3);
    others_go_on(4);
    old_version(5);
    locked(10);
    in_the_commit(6, 77, 10, 0xff);
    in_the_commit(7, 0, 10, 0xff);
    in_the_commit(8, 0, 70, 1 << 1);
    told_whole(9);
    both_hit(12);
    load();
    memory_at_its_end();
    how.flags = KD_OBJECT_CODEWORDS;
    tap_ok(start_manager(how), "another one, in page mode");
    in_page_mode();
    return tap_end();
}
