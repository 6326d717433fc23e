/*
 * kernel_mapping.c - windows: a page that lies at two addresses has one right.
 *
 * Aim     what a transaction stores at one address it loads at the other; conflicts, deadlocks,
 *         commits, aborts, snapshots, evictions and the end of an object are the same whichever
 *         address was touched; calls refuse what is wrong; windows nest, end, and cost no more than
 *         is said.
 * Method  own_manager.h, an object of 1 TiB. A second thread works at the container's addresses, or
 *         at those of a window. tests/system/kernel-bugs.py breaks each rule of mapping.md.
 */
enum { LONG_MS = 20000, SHORT_MS = 60, HOME_PAGES = 64, SCAN_PAGES = 3000, ROUNDS = 200 };
#define PAGES (1ull << 28)
#include "own_manager.h"

static uint64_t window, reading;        /* of all pages; of the first 64, read-only */
static int plain;                       /* an object that is not transactional */

static long map(uint64_t at, uint64_t pages, unsigned rights, uint64_t place)
{
    return kd_call4(KD_MAP, (long)at, (long)pages, rights, (long)place);
}
static long unmap(uint64_t place) { return kd_call3(KD_UNMAP, (long)place, 0, 0); }

/* Word 0 of a page, as the window shows it. */
static volatile uint64_t *seen(uint64_t page) { return (uint64_t *)(window + page * 4096); }

/* ---- transactions that are written as words: "r3.b3" ---- */

/* r, w: a page is loaded, and one is added to its word; a, b: through the window; .: stops; x: the
 * transaction is given up. */
struct actor {
    const char *steps;
    unsigned mode, ms;
    volatile int at, go;                /* stops it came to, stops it may leave */
    uint64_t last;                      /* what it loaded last */
    int result;
    long aborts;
    pthread_t thread;
};

static int act(void *arg)
{
    struct actor *a = arg;
    int stops = 0;
    for (const char *s = a->steps; *s;) {
        char what = *s++, *end;
        uint64_t page = strtoul(s, &end, 10);
        s = end;
        volatile uint64_t *word = what == 'a' || what == 'b' ? seen(page) : word_of(page, 0);
        if (what == 'r' || what == 'a') a->last = *word;
        if (what == 'w' || what == 'b') *word += 1;
        if (what == 'x') return ECANCELED;
        if (what == '.')
            for (a->at = ++stops; a->go < stops;) kd_call3(24, 0, 0, 0); /* sched_yield */
    }
    return 0;
}

static int does(const char *steps, unsigned mode, unsigned ms, uint64_t *last)
{
    struct actor a = {.steps = steps, .go = 99};
    int e = run(act, &a, mode, ms);
    if (last) *last = a.last;
    return e;
}
static int tries(const char *steps) { return does(steps, 0, SHORT_MS, NULL); }

/* The word of a page as a transaction of its own loads it, at both addresses; ~0: they differ. */
static uint64_t value(unsigned page)
{
    char steps[16];
    uint64_t here = 0, there = 0;
    snprintf(steps, sizeof steps, "r%u", page);
    int e = does(steps, 0, LONG_MS, &here);
    snprintf(steps, sizeof steps, "a%u", page);
    return e || does(steps, 0, LONG_MS, &there) || here != there ? ~0ull : here;
}

static void *actor_main(void *arg)
{
    struct actor *a = arg;
    a->result = run(act, a, a->mode, a->ms ? a->ms : LONG_MS);
    a->aborts = mine->aborts;
    a->at = 99;
    while (a->go < 9) kd_call3(24, 0, 0, 0); /* still in its view */
    return NULL;
}
static void enters(struct actor *a)
{
    pthread_create(&a->thread, NULL, actor_main, a);
    for (int stops = strchr(a->steps, '.') ? 1 : 99; a->at < stops;) kd_call3(24, 0, 0, 0);
}
static int ends(struct actor *a)
{
    a->go = 99;
    pthread_join(a->thread, NULL);
    return a->result;
}

/* ---- calls ---- */

static void calls(void)
{
    const struct { uint64_t at, pages, rights, place; long error; const char *what; } bad[] = {
        {base + 8, 1, 1, 0, -EINVAL, "an address within a page"},
        {base, 0, 1, 0, -EINVAL, "no pages"},
        {base, 1ull << 52, 1, 0, -EINVAL, "too many pages"},
        {base, PAGES + 1, 1, 0, -EINVAL, "more than the object has"},
        {base + 4096, PAGES, 1, 0, -EINVAL, "pages behind its end"},
        {base, 1, 0, 0, -EINVAL, "no rights"},
        {base, 1, 2, 0, -EINVAL, "to write only"},
        {base, 1, 17, 0, -EINVAL, "rights that no window has"},
        {base - 4096, 1, 1, 0, -ENOENT, "where nothing lies"},
        {0, 1, 1, 0, -ENOENT, "address 0"},
        {base, 1, 1, 4096, -EINVAL, "a place of the process's own memory"},
        {base, 1, 1, base, -EINVAL, "a place of containers"},
        {base, 1, 1, KD_WINDOW_END - 4095, -EINVAL, "a place within a page"},
        {base, 2, 1, KD_WINDOW_END - 4096, -EINVAL, "a place at the end"},
        {base, 1, 1, ~0ull & ~4095ull, -EINVAL, "a place that no address is"},
        {base, 1, 1, window + 4096, -EEXIST, "a place that another window has"},
        {base, 2, 1, window - 4096, -EEXIST, "a place that ends in one"},
        {window - 4096, 1, 1, 0, -ENOENT, "a window where none is"},
        {window, PAGES + 1, 1, 0, -EINVAL, "more than the window below has"},
        {reading, 1, 3, 0, -EACCES, "to write a window to read"},
        {reading + 64 * 4096, 1, 1, 0, -ENOENT, "pages behind a window"},
    };
    int wrong = 0;
    for (unsigned i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        long e = map(bad[i].at, bad[i].pages, (unsigned)bad[i].rights, bad[i].place);
        if (e == bad[i].error) continue;
        printf("# %s: %ld\n", bad[i].what, e);
        wrong++;
    }
    wrong += unmap(0) != -ENOENT || unmap(base) != -ENOENT || unmap(window + 4096) != -ENOENT;
    is(wrong, 0, "windows that cannot be are refused");
}

static void many(void)
{
    uint64_t places[32];
    unsigned n = 0, gone = 0, adjacent = 0;
    long e;
    while ((e = map(base, 2, 1, 0)) > 0 && n < 32) {
        adjacent += n && places[n - 1] + 2 * 4096 == (uint64_t)e;
        places[n++] = (uint64_t)e;
    }
    for (unsigned i = 0; i < n; i += 2) gone += unmap(places[i]) == 0;
    bool again = map(base, 2, 1, places[0]) == (long)places[0];
    for (unsigned i = 1; i < n; i += 2) gone += unmap(places[i]) == 0;
    tap_ok(e == -EMFILE && n == 30 && gone == n && again && !adjacent && !unmap(places[0]),
           "a process has 32 windows (%u, %ld), with a page between them", n, e);
}

/* ---- one page, two addresses ---- */

static int both_ways(void *arg)
{
    (void)arg;
    int wrong = *seen(1) != *word_of(1, 0);           /* shared at both */
    *word_of(1, 0) = 11;
    wrong += *seen(1) != 11;                          /* the private copy, not the page */
    *seen(1) = 12;
    wrong += *word_of(1, 0) != 12;
    *seen(2) = 21;                                    /* its first touch */
    wrong += *word_of(2, 0) != 21;
    *word_of(2, 0) = 22;
    wrong += *seen(2) != 22 || ((uint64_t *)reading)[2 * 512] != 22;
    return wrong ? EBADMSG : 0;
}

static int stores_then_gives_up(void *arg)
{
    (void)arg;
    *seen(1) = 77;
    *word_of(2, 0) = 78;
    return ECANCELED;
}

static int by_calls(void *arg)
{
    struct kd_system_info *there = (void *)(window + 3 * 4096), *no = (void *)(reading + 3 * 4096);
    long e = kd_call3(KD_SYSTEM_INFO, (long)there, 0, 0);
    *(uint64_t *)arg = ((struct kd_system_info *)word_of(3, 0))->memory_bytes;
    return e || kd_call3(KD_SYSTEM_INFO, (long)no, 0, 0) != -EFAULT ? EBADMSG : ECANCELED;
}

static void two_addresses(void)
{
    is(run(both_ways, NULL, 0, LONG_MS), 0, "what is stored at one address is at the other");
    tap_ok(value(1) == 12 && value(2) == 22, "and is committed once");
    int e = run(stores_then_gives_up, NULL, 0, LONG_MS);
    tap_ok(e == ECANCELED && value(1) == 12 && value(2) == 22, "an abort undoes it at both");
    e = does("b1x", 0, LONG_MS, NULL);
    e |= does("a1b1x", 0, LONG_MS, NULL);
    tap_ok(e == ECANCELED && value(1) == 12, "also by a window that the last commit stored to");
    uint64_t memory = 0;
    e = run(by_calls, &memory, 0, LONG_MS);
    tap_ok(e == ECANCELED && memory, "calls store to a window, and not to one to read (%d)", e);
    long outside = kd_call3(KD_SYSTEM_INFO, (long)window, 0, 0);
    is(outside, -EFAULT, "outside a transaction a window is as closed as its container");
}

static void asked_by_address(void)
{
    struct kd_space_info info = {0}, same = {0};
    long e = kd_call3(KD_CONTAINER_INFO, (long)seen(5), (long)&info, 0);
    e |= kd_call3(KD_CONTAINER_INFO, (long)word_of(5, 0), (long)&same, 0);
    tap_ok(!e && info.base == base && !memcmp(&info, &same, sizeof info),
           "whose the pages of a window are is told");
}

static int hints(void *arg)
{
    (void)arg;
    long good = kd_call3(KD_TXN_HINT, (long)seen(6), 8192, KD_HINT_WRITE) == 0;
    struct kd_changes c;
    good &= kd_call3(KD_TXN_CHANGES, (long)base, (long)&c, 0) == 0 &&
            c.address == (uint64_t)word_of(6, 0);
    good &= kd_call3(KD_TXN_CHANGES, (long)window, (long)&c, 1) == -ENOENT;
    good &= kd_call3(KD_TXN_HINT, (long)reading, 65 * 4096, KD_HINT_PREFETCH) != 0;
    good &= kd_call3(KD_TXN_HINT, (long)(window + 4096), 4096, KD_HINT_PREFETCH) == 0;
    good &= kd_call3(KD_TXN_LOCK, (long)window, KD_LOCK_SHARED, 0) == 0;
    return good ? ECANCELED : EBADMSG;
}

/* ---- conflicts ---- */

static void conflicts(void)
{
    struct actor a = {.steps = "b10.", .mode = 0}, b = {.steps = "r11."}, c = {.steps = "a11."};
    enters(&a);
    is(tries("w10"), -ETIMEDOUT, "who stores by a window keeps others out of the page");
    is(tries("a10"), -ETIMEDOUT, "at each address");
    tap_ok(ends(&a) == 0 && value(10) == 1, "until the commit");
    enters(&b);
    is(tries("b11"), -ETIMEDOUT, "who has loaded a page keeps a window's stores out");
    tap_ok(ends(&b) == 0 && !does("b11", 0, LONG_MS, NULL) && value(11) == 1, "until its end");
    enters(&c);
    is(tries("w11"), -ETIMEDOUT, "who has loaded it by a window does, too");
    tap_ok(ends(&c) == 0 && !does("w11", 0, LONG_MS, NULL) && value(11) == 2, "until its end");
}

/* A neighbour that came along with page 16 is not used at its first address, but by the window. */
static void unused_neighbour(void)
{
    struct actor a = {.steps = "r16a17."};
    kd_call3(KD_CONTAINER_POLICY, (long)window, KD_POLICY_CLUSTER, 8);
    does("w17", 0, LONG_MS, NULL);
    enters(&a);
    int e = tries("w17");
    kd_call3(KD_CONTAINER_POLICY, (long)base, KD_POLICY_CLUSTER, 0);
    is(e, -ETIMEDOUT, "a touch by a window is a use of the right");
    ends(&a);
}

/* The clock takes the alias on another CPU, whose TLB is not that of the view. */
static void looked_at(void)
{
    int wrong = 0;
    does("w60", 0, LONG_MS, NULL);
    for (int i = 0; i < 20; i++) {
        uint64_t before = value(60);
        struct actor a = {.steps = "a60.w60a60"};
        enters(&a);
        kd_call4(KD_OBJECT_ADVISE, object, 60, 1, KD_ADVISE_DONT_NEED);
        wrong += ends(&a) != 0 || a.last != before + 1;
    }
    is(wrong, 0, "behind a look of the clock a window shows what is stored");
}

/* A view that ended keeps its rights, at both addresses; they are called back. */
static void called_back(void)
{
    struct actor a = {.steps = "a18r18"};
    enters(&a);
    int e = does("w18", 0, LONG_MS, NULL);
    a.at = 0;
    int first = ends(&a);
    tap_ok(e == 0 && first == 0, "a right that an idle view has at two addresses is taken");
    struct actor b = {.steps = "a18."};
    view_anew();
    uint64_t one = 0, two = 0;
    e = does("a18", 0, LONG_MS, &one);
    enters(&b);
    ends(&b);
    pthread_t t;
    struct actor w = {.steps = "b18", .go = 99};
    pthread_create(&t, NULL, actor_main, &w);
    pthread_join(t, NULL);
    e |= does("a18", 0, LONG_MS, &two);
    tap_ok(e == 0 && two == one + 1, "and the next transaction sees what is new");
}

static void *crosswise(void *arg)
{
    struct actor *a = arg;
    for (int i = 0; i < ROUNDS && !a->result; i++) a->result = run(act, a, 0, LONG_MS);
    a->aborts = mine ? mine->aborts : 0;
    return NULL;
}

static void deadlocks(void)
{
    struct actor a = {.steps = "r20b20a21w21", .go = 99}, b = {.steps = "a21b21r20w20", .go = 99};
    pthread_create(&a.thread, NULL, crosswise, &a);
    pthread_create(&b.thread, NULL, crosswise, &b);
    pthread_join(a.thread, NULL);
    pthread_join(b.thread, NULL);
    printf("# %ld and %ld aborts\n", a.aborts, b.aborts);
    tap_ok(!a.result && !b.result && value(20) == 2 * ROUNDS && value(21) == 2 * ROUNDS,
           "crosswise, by windows and not, no store is lost, and nobody waits for ever");
}

/* ---- snapshots, evictions ---- */

static int scan(void *from)
{
    for (uint64_t i = 0; i < SCAN_PAGES; i++)
        (void)*word_of((uint64_t)(uintptr_t)from + i, 0);
    return 0;
}

static bool goes_out(unsigned page)
{
    for (uint64_t i = 0; page_resident(page) && i < 60; i++) {
        kd_call4(KD_OBJECT_CLEANED, object, page, (long)KD_CSN_ANY, 0);
        kd_call4(KD_OBJECT_ADVISE, object, page, 1, KD_ADVISE_DONT_NEED);
        run(scan, (void *)(uintptr_t)(HOME_PAGES + i % 8 * SCAN_PAGES), 0, LONG_MS);
    }
    return !page_resident(page);
}

static void snapshots(void)
{
    does("w30", 0, LONG_MS, NULL);
    struct actor a = {.steps = "a30.a30r31.a30a31", .mode = KD_SNAPSHOT};
    enters(&a);
    int e = does("w30w31", 0, LONG_MS, NULL);
    for (a.go = 1; a.at < 2;) kd_call3(24, 0, 0, 0);
    tap_ok(e == 0 && a.last == 0, "a snapshot has its versions at both addresses");
    e |= does("b30b31", 0, LONG_MS, NULL);
    tap_ok(ends(&a) == 0 && a.last == 0 && e == 0, "to its end");
    struct actor b = {.steps = "a30", .mode = KD_SNAPSHOT, .go = 99};
    pthread_create(&b.thread, NULL, crosswise, &b); /* one snapshot after the other */
    for (int i = 0; i < ROUNDS && !e; i++) e = does("w30", 0, LONG_MS, NULL);
    pthread_join(b.thread, NULL);
    view_anew();
    uint64_t last = 0, now = value(30);
    e |= does("a30", KD_SNAPSHOT, LONG_MS, &last);
    e |= does("b30", 0, LONG_MS, NULL);
    uint64_t next = 0;
    e |= does("a30", KD_SNAPSHOT, LONG_MS, &next);
    tap_ok(e == 0 && b.result == 0 && last == now && next == now + 1,
           "and the next one of the same view has what was published");
}

static void evictions(void)
{
    struct actor a = {.steps = "a40.a40"};
    does("w40", 0, LONG_MS, NULL);
    enters(&a);
    tap_ok(goes_out(40), "a page that a transaction loaded by a window goes out");
    is(tries("w40"), -ETIMEDOUT, "its right stays");
    tap_ok(ends(&a) == 0 && a.last == 1 && value(40) == 1, "and it comes back at both addresses");
}

/* One loads pages by the window that another one sends out of memory all the time, at once or when
 * the clock comes to them. */
static _Atomic int evicting;
static void *evicts(void *arg)
{
    for (evicting = 1; evicting;)
        for (unsigned page = 48; page < 56; page++)
            kd_call4(KD_OBJECT_ADVISE, object, page, 1,
                     page % 2 ? KD_ADVISE_EVICT : KD_ADVISE_DONT_NEED);
    return arg;
}

static int loads_all(void *arg)
{
    unsigned i = (unsigned)(uintptr_t)arg;
    uint64_t sum = 0;
    for (unsigned page = 48; page < 56; page++)
        sum += *seen(page) + *seen(1000 + (i * 64 + page) % 9000);
    return sum ? EBADMSG : 0;
}

static void evictions_beside(void)
{
    pthread_t t;
    int e = 0;
    pthread_create(&t, NULL, evicts, NULL);
    while (!evicting) kd_call3(24, 0, 0, 0);
    for (unsigned i = 0; i < ROUNDS * 4 && !e; i++)
        e = run(loads_all, (void *)(uintptr_t)i, 0, LONG_MS);
    evicting = 0;
    pthread_join(t, NULL);
    is(e, 0, "pages go out while others load them by a window");
}

/* ---- how windows begin and end ---- */

static int ends_of_it(void *arg)
{
    *seen(PAGES - 1) = 5;
    *seen(0) = 6;
    *(uint64_t *)arg = *word_of(PAGES - 1, 0) + *word_of(0, 0);
    return ECANCELED;
}

/* The word as a call of the kernel loads it; -errno. */
static int loads(void *at)
{
    static int ends[2];
    uint64_t word = 0;
    if (!ends[1] && pipe(ends)) return -EMFILE;
    if (write(ends[1], at, sizeof word) != sizeof word) return -errno;
    return read(ends[0], &word, sizeof word) == sizeof word ? (int)word : -EIO;
}

static void nested(void)
{
    long inner = map(window + 8 * 4096, 8, 1, 0), innermost = map((uint64_t)inner + 4096, 2, 1, 0);
    does("w9", 0, LONG_MS, NULL);
    int a = run(loads, (void *)innermost, 0, LONG_MS);
    bool out = run(loads, (void *)inner, 0, LONG_MS) == 0 && unmap((uint64_t)inner) == 0;
    int b = run(loads, (void *)innermost, 0, LONG_MS);
    int c = run(loads, (void *)inner, 0, LONG_MS);
    tap_ok(inner > 0 && innermost > 0 && a == 1 && b == 1 && out && c == -EFAULT,
           "a window in a window shows the container, also when that ends (%d, %d, %d)", a, b, c);
    is(unmap((uint64_t)innermost), 0, "and ends itself");
}

static _Atomic int mapping;
static void *maps_and_unmaps(void *arg)
{
    long bad = 0;
    for (mapping = 1; mapping;) {
        long place = map(base, 4, 3, window - (16 << 20));
        for (int i = 0; i < 50; i++) kd_call3(24, 0, 0, 0);
        bad += place < 0 || unmap((uint64_t)place);
        for (int i = 0; i < 50; i++) kd_call3(24, 0, 0, 0);
    }
    *(long *)arg = bad;
    return NULL;
}

static void ended_beside(void)
{
    pthread_t t;
    long bad = -1;
    uint64_t at = window - (16 << 20);
    pthread_create(&t, NULL, maps_and_unmaps, &bad);
    while (!mapping) kd_call3(24, 0, 0, 0);
    int there = 0, gone = 0, other = 0;
    for (int i = 0; i < ROUNDS || ((!there || !gone) && i < 1000 * ROUNDS); i++) {
        int e = run(loads, (void *)(at + 4096), 0, LONG_MS);
        there += e == 12;
        gone += e == -EFAULT;
        other += e != 12 && e != -EFAULT;
    }
    mapping = 0;
    pthread_join(t, NULL);
    printf("# it was there %d times, and %d times not\n", there, gone);
    tap_ok(bad == 0 && other == 0 && there && gone,
           "a window ends while others load from it (%ld, %d)", bad, other);
}

static bool plain_messages(struct kd_message *m)
{
    if (m->kind != (uint32_t)KD_MSG_PAGE || m->word[0] != 9) return false;
    struct kd_supply s = {.object = plain, .source = KD_SUPPLY_ZERO, .rights = KD_READ | KD_WRITE,
                          .page = m->word[1], .count = 1};
    kd_call3(KD_OBJECT_SUPPLY, (long)&s, 0, 0);
    return true;
}

static void not_transactional(void)
{
    struct kd_object_create c = {.port = port, .commit_port = commit_port, .cookie = 9,
                                 .pages = 16, .name = "plain"};
    plain = (int)kd_call3(KD_OBJECT_CREATE, (long)&c, 0, 0);
    long e = kd_call3(KD_SPACE_ATTACH, getpid(), plain, KD_RIGHT_READ | KD_RIGHT_WRITE);
    long place = map(c.base, 16, 3, 0);
    volatile uint64_t *here = (uint64_t *)c.base, *there = (uint64_t *)place;
    there[512] = 7;
    bool good = plain >= 0 && !e && place > 0 && here[512] == 7 && there[513] == 0;
    here[1024] = 8;
    good &= there[1024] == 8 && kd_call4(KD_OBJECT_RECALL, plain, 0, 16, 0) == 0;
    tap_ok(good && there[512] == 7 && here[1024] == 8,
           "pages that no transaction guards lie at two addresses, too");
    good = kd_call3(KD_SPACE_DETACH, getpid(), plain, 0) == 0 && unmap((uint64_t)place) == -ENOENT;
    tap_ok(good && map(c.base, 1, 1, 0) == -ENOENT, "the end of an attachment ends its windows");
}

static void dies(void)
{
    struct actor a = {.steps = "b50.a50"};
    enters(&a);
    is(kd_call3(KD_OBJECT_DESTROY, object, 0, 0), 0, "an object dies under a window");
    is(ends(&a), -EOWNERDEAD, "and its transaction ends");
    is(run(loads, (void *)window, 0, LONG_MS), -EOWNERDEAD, "nobody loads from it any more");
}

int main(void)
{
    tap_plan(42);
    if (!tap_ok(start_manager((struct own_manager){.pages = PAGES, .home_pages = HOME_PAGES,
                                                   .messages = plain_messages}), "a manager"))
        return tap_end();
    uint64_t before = process_self().used[KD_LIMIT_MEMORY];
    window = (uint64_t)map(base, PAGES, KD_RIGHT_READ | KD_RIGHT_WRITE, KD_WINDOW_BASE + (1 << 30));
    reading = (uint64_t)map(base, 64, KD_RIGHT_READ, 0);
    tap_ok(window == KD_WINDOW_BASE + (1 << 30) && reading == KD_WINDOW_BASE + 4096 &&
           process_self().used[KD_LIMIT_MEMORY] == before, "a window of 1 TiB, and a small one");
    calls();
    many();
    two_addresses();
    asked_by_address();
    is(run(hints, NULL, 0, LONG_MS), ECANCELED, "hints and locks by a window's address");
    conflicts();
    unused_neighbour();
    looked_at();
    called_back();
    deadlocks();
    snapshots();
    evictions();
    evictions_beside();
    uint64_t sum = 0;
    is(run(ends_of_it, &sum, 0, LONG_MS) == ECANCELED ? (long)sum : -1, 11,
       "its first page and its last one");
    is(check(), 0, "the kernel finds itself in order");
    nested();
    ended_beside();
    not_transactional();
    dies();
    tap_ok(unmap(window) == 0 && unmap(reading) == 0, "windows end");
    return tap_end();
}
