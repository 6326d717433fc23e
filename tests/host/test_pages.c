/*
 * test_pages.c - the tables by which a home and its clients know who has which page (pages.h).
 *
 * Aim     no page is exclusive beside another right; what a transaction reads is what was committed
 *         last; each wait ends, whatever crosses on the way, and however often links break.
 * Method  two clients and the home's own transactions, as a machine of small steps that a random
 *         number chooses; the home's kernel is a queue for each page. Messages are in order, each
 *         link breaks now and then. When nothing can go on a transaction is undone, as the search
 *         for deadlocks would do; if there is none to be undone, a wait was lost.
 */
#include "pages_world.h"

/* ---- the home's kernel ---- */

static void call(int client, int page, int due)
{
    if (!due) return;
    const struct site_page *e = pages_find(&w.agent[client], ADDRESS(page));
    push(&w.to_client[client], (struct site_message){.kind = SITE_CALL, .page = ADDRESS(page),
                                                     .serial = e->serial,
                                                     .right = (uint8_t)(due - 1)});
    w.calls++;
}

static int releasing; /* client */
static bool release(uint64_t page, int to)
{
    int *right = &w.kernel[releasing][PAGE(page)];
    if (w.taken[releasing][PAGE(page)]) {
        w.passed++;
        return false;
    }
    if (*right > to) *right = to;
    return true;
}

static bool release_beyond(uint64_t page, int to) /* not behind a GONE */
{
    return !w.taken[releasing][PAGE(page)] && release(page, to);
}

static void conflict(int client, int page, int want)
{
    struct site_page *e = pages_find(&w.agent[client], ADDRESS(page));
    int to = want == SITE_EXCLUSIVE ? SITE_NO : SITE_SHARED;
    releasing = client;
    if (!e)
        release(ADDRESS(page), SITE_NO); /* of nothing that it knows of */
    else if (home_wanted(e, to, release_beyond))
        call(client, page, to + 1);
}

static int blocked_by(int site, int thread, int page, int want, int other)
{
    if (other == site && site == HOME) return used_by_others(HOME, thread, page, want);
    int has = other == site ? 0 : kernel_right(other, page);
    return want == SITE_EXCLUSIVE ? has : has == SITE_EXCLUSIVE;
}

static void wait_out(int page, int i)
{
    w.waits[page]--;
    memmove(&w.wait[page][i], &w.wait[page][i + 1],
            (size_t)(w.waits[page] - i) * sizeof w.wait[0][0]);
}

static void wait_in(int site, int thread, int page, int want)
{
    w.wait[page][w.waits[page]++] = (struct wait){site, thread, want};
    for (int c = 0; c < CLIENTS; c++)
        if (blocked_by(site, thread, page, want, c)) conflict(c, page, want);
}

static int op_right(const struct thread *t) { return t->right[t->op]; }

/* The kernel tells of those who wait for this holder from now on, which had `before`; that may be
 * before the worker's end. Of those who wait for it already nothing is told again. */
static void tell_again(int client, int page, int before)
{
    for (int i = 0; i < w.waits[page]; i++) {
        const struct wait *x = &w.wait[page][i];
        if (x->want == SITE_EXCLUSIVE ? before : before == SITE_EXCLUSIVE) continue;
        if (blocked_by(x->site, x->thread, page, x->want, client)) conflict(client, page, x->want);
    }
}

/* The first in the queue gets the page, if it is free; a client's worker from its own holder at
 * once. */
static int queue_step(int page)
{
    for (int i = 0; i < w.waits[page]; i++) {
        struct wait x = w.wait[page][i];
        int has = x.site < CLIENTS ? w.kernel[x.site][page] : 0, blocked = i > 0 && has < x.want;
        for (int s = 0; s < SITES; s++) blocked |= blocked_by(x.site, x.thread, page, x.want, s);
        if (blocked) continue;
        wait_out(page, i);
        if (x.site == HOME) {
            struct thread *t = &w.thread[HOME][x.thread];
            t->used[page] = t->used[page] > x.want ? t->used[page] : x.want;
            t->waits = 0;
            t->op++;
        } else {
            int before = kernel_right(x.site, page);
            w.taken[x.site][page] = x.want;
            w.noted[x.site][page] = 0;
            tell_again(x.site, page, before);
        }
        return 1;
    }
    return 0;
}

/* Its thread sees what the kernel has given it ... */
static int worker_notes(int client, int page)
{
    if (!w.taken[client][page] || w.noted[client][page]) return 0;
    w.sent_copy[client][page] = w.version[page];
    home_taken(pages_find(&w.agent[client], ADDRESS(page)));
    return w.noted[client][page] = 1;
}

/* ... or is undone before, in the queue or behind it. What it was given the holder keeps. */
static int worker_denied(int client, int page)
{
    struct site_page *e = pages_find(&w.agent[client], ADDRESS(page));
    int right = w.taken[client][page], at = 0;
    if (!e || !e->asked || w.noted[client][page]) return 0;
    while (!right && w.wait[page][at].site != client) at++;
    if (!right) wait_out(page, at);
    if (w.kernel[client][page] < right) w.kernel[client][page] = right;
    w.taken[client][page] = 0;
    uint64_t number = e->asked;
    releasing = client;
    home_denied(e, release);
    push(&w.to_client[client], (struct site_message){.kind = SITE_DENIED, .answer_to = number,
                                                     .page = ADDRESS(page)});
    pages_settle(&w.agent[client], ADDRESS(page));
    w.denied_late += right != 0;
    return 1;
}

static int worker_ends(int client, int page)
{
    struct site_page *e = pages_find(&w.agent[client], ADDRESS(page));
    int right = w.taken[client][page];
    if (!right || !w.noted[client][page]) return 0;
    if (w.kernel[client][page] < right) w.kernel[client][page] = right;
    w.taken[client][page] = w.noted[client][page] = 0;
    uint64_t number = e->asked;
    int due = home_granted(e, right, ++w.serial[client]);
    push(&w.to_client[client], (struct site_message){
        .kind = SITE_GRANT, .answer_to = number, .page = ADDRESS(page), .right = (uint8_t)right,
        .serial = e->serial, .count = (uint32_t)w.sent_copy[client][page]});
    call(client, page, due);
    w.grants++;
    return 1;
}

static void commit_at_home(int client, const struct site_message *m)
{
    int page = PAGE(m->page), ok = 1;
    struct site_page *e = pages_find(&w.agent[client], m->page);
    ok = e && home_commits(e, m->serial);
    assert_true(ok); /* an honest client has what it commits */
    w.flushing[client][m->number] = 1 + page;
}

/* The store has it: the page is written, and the worker's right is the holder's again. */
static int commit_ends(int client, int thread)
{
    int page = w.flushing[client][thread] - 1;
    if (page < 0) return 0;
    w.flushing[client][thread] = 0;
    w.version[page]++;
    push(&w.to_client[client], (struct site_message){.kind = SITE_DONE, .page = ADDRESS(page),
                                                     .number = (uint64_t)thread,
                                                     .count = (uint32_t)w.version[page]});
    call(client, page, home_committed(pages_find(&w.agent[client], ADDRESS(page))));
    return 1;
}

#include "pages_given.h"

static int at_home(int client)
{
    if (!w.to_home[client].count) return 0;
    struct site_message m = pull(&w.to_home[client]);
    struct site_page *e;
    switch (m.kind) {
    case SITE_GET:
        e = pages_make(&w.agent[client], m.page);
        assert_non_null(e);
        assert_true(home_get(e, m.number, m.right));
        if (!w.at_once || any(2) || !taken_now(client, &m))
            wait_in(client, 0, PAGE(m.page), m.right);
        break;
    case SITE_GONE:
        e = pages_find(&w.agent[client], m.page);
        releasing = client;
        if (e && home_gone(e, m.serial, m.right, release))
            w.gone++;
        else
            w.crossed++;
        pages_settle(&w.agent[client], m.page);
        break;
    case SITE_COMMIT: commit_at_home(client, &m); break;
    default: fail();
    }
    return 1;
}

/* ---- a client ---- */

static void gone_send(int client, int page, uint64_t serial, int to)
{
    push(&w.to_home[client], (struct site_message){.kind = SITE_GONE, .page = ADDRESS(page),
                                                   .serial = serial, .right = (uint8_t)to});
}

static int recall_step(int client, int page)
{
    struct site_page *e = pages_find(&w.client[client], ADDRESS(page));
    if (!e || !e->called || most_used(client, page) > e->called - 1) return 0;
    int to = client_gone(e);
    if (to == SITE_NO) w.in_memory[client][page] = 0;
    gone_send(client, page, e->serial, to);
    pages_settle(&w.client[client], ADDRESS(page));
    return 1;
}

static void use(int client, struct thread *t)
{
    int page = t->page[t->op], right = op_right(t);
    assert_int_equal(w.copy[client][page], w.version[page]); /* what was committed last */
    if (t->used[page] < right) t->used[page] = right;
    t->op++;
    w.uses++;
}

static int may_use(int client, int thread)
{
    struct thread *t = &w.thread[client][thread];
    int page = t->page[t->op], right = op_right(t);
    const struct site_page *e = pages_find(&w.client[client], ADDRESS(page));
    return e && e->right >= right && w.in_memory[client][page] &&
           (!e->called || t->used[page]) && !used_by_others(client, thread, page, right);
}

static void at_client_granted(int client, const struct site_message *m)
{
    int page = PAGE(m->page);
    struct site_page *e = pages_find(&w.client[client], m->page);
    if (!m->answer_to) { /* it has not asked */
        e = pages_make(&w.client[client], m->page);
        if (client_given(e, m->serial)) {
            w.in_memory[client][page] = 1;
            w.copy[client][page] = (int)m->count;
            w.given++;
        } else {
            if (!e->asked) gone_send(client, page, m->serial, SITE_NO);
            w.given_asked++;
        }
        return;
    }
    assert_true(e && client_granted(e, m->answer_to, m->serial, m->right));
    w.in_memory[client][page] = 1;
    w.copy[client][page] = (int)m->count;
    for (int t = 0; t < THREADS; t++) /* who asked goes first */
        if (w.thread[client][t].op < OPS && w.thread[client][t].page[w.thread[client][t].op] == page
            && may_use(client, t)) {
            use(client, &w.thread[client][t]);
            break;
        }
}

static void next(struct thread *t)
{
    int commits = t->commits;
    memset(t, 0, sizeof *t);
    t->commits = commits;
    for (int i = 0; i < OPS; i++) {
        t->page[i] = (int)any(PAGES);
        t->right[i] = 1 + (any(3) == 0);
    }
}

static int at_client(int client)
{
    if (!w.to_client[client].count) return 0;
    struct site_message m = pull(&w.to_client[client]);
    struct site_page *e = pages_find(&w.client[client], m.page);
    switch (m.kind) {
    case SITE_GRANT: at_client_granted(client, &m); break;
    case SITE_DENIED:
        assert_true(e && client_denied(e, m.answer_to));
        pages_settle(&w.client[client], m.page);
        break;
    case SITE_CALL:
        if (!e || !client_called(e, m.serial, m.right))
            gone_send(client, PAGE(m.page), m.serial, m.right);
        break;
    case SITE_DONE: {
        struct thread *t = &w.thread[client][m.number];
        w.copy[client][PAGE(m.page)] = (int)m.count;
        t->commits++;
        w.commits++;
        next(t);
        break;
    }
    default: fail();
    }
    return 1;
}

enum { COMMITTING = OPS + 1 };
static int thread_step(int site, int thread, int begins)
{
    struct thread *t = &w.thread[site][thread];
    if (t->op == COMMITTING || t->waits) return 0;
    if (t->op == 0 && !begins) return 0;
    if (t->op == OPS) {
        int page = -1;
        for (int p = 0; p < PAGES; p++)
            if (t->used[p] == SITE_EXCLUSIVE) page = p;
        if (page < 0 || site == HOME) {
            for (int p = 0; p < PAGES && site == HOME; p++)
                w.version[p] += t->used[p] == SITE_EXCLUSIVE;
            next(t);
            return 1;
        }
        for (int p = 0; p < page; p++) /* one page is enough: the others are read */
            if (t->used[p] == SITE_EXCLUSIVE) t->used[p] = SITE_SHARED;
        t->op = COMMITTING;
        push(&w.to_home[site], (struct site_message){
            .kind = SITE_COMMIT, .page = ADDRESS(page), .number = (uint64_t)thread,
            .serial = pages_find(&w.client[site], ADDRESS(page))->serial});
        return 1;
    }
    int page = t->page[t->op], right = op_right(t);
    if (site == HOME) {
        t->waits = 1;
        wait_in(HOME, thread, page, right);
        return 1;
    }
    if (may_use(site, thread)) {
        use(site, t);
        return 1;
    }
    struct site_page *e = pages_make(&w.client[site], ADDRESS(page));
    if (used_by_others(site, thread, page, right) ||
        (e->right >= right && w.in_memory[site][page] && !e->called))
        return 0;
    int ask = client_wants(e, right, t->used[page]);
    if (!ask) return 0;
    client_asked(e, ++w.number[site], ask);
    push(&w.to_home[site], (struct site_message){.kind = SITE_GET, .number = e->asked,
                                                 .page = e->page, .right = (uint8_t)ask});
    return 1;
}

static int undo_one(void)
{
    int first = (int)any(SITES * THREADS);
    for (int i = 0; i < SITES * THREADS; i++) {
        int at = (first + i) % (SITES * THREADS), site = at / THREADS, used = 0;
        struct thread *t = &w.thread[site][at % THREADS];
        for (int p = 0; p < PAGES; p++) used |= t->used[p];
        if (!used || t->op == COMMITTING) continue;
        for (int p = 0; p < PAGES && site == HOME; p++)
            for (int k = w.waits[p]; k-- > 0;)
                if (w.wait[p][k].site == HOME && w.wait[p][k].thread == at % THREADS)
                    wait_out(p, k);
        next(t);
        w.undone++;
        return 1;
    }
    return 0;
}

static void link_breaks(int client)
{
    pages_free(&w.client[client]);
    pages_free(&w.agent[client]);
    w.client[client].most = w.agent[client].most = PAGES;
    w.to_home[client].count = w.to_client[client].count = 0;
    for (int t = 0; t < THREADS; t++) /* what was received for commit ends by the store's word */
        if (w.flushing[client][t]) {
            w.version[w.flushing[client][t] - 1]++;
            w.flushing[client][t] = 0;
        }
    for (int p = 0; p < PAGES; p++) {
        w.in_memory[client][p] = w.kernel[client][p] = 0;
        w.taken[client][p] = w.noted[client][p] = 0;
        for (int k = w.waits[p]; k-- > 0;)
            if (w.wait[p][k].site == client) wait_out(p, k);
    }
    for (int t = 0; t < THREADS; t++) next(&w.thread[client][t]);
    w.breaks++;
}

static int step(unsigned what, int begins)
{
    int client = (int)any(CLIENTS), page = (int)any(PAGES);
    switch (what) {
    case 0: return at_home(client);
    case 1: return at_client(client);
    case 2: return queue_step(page);
    case 3: return worker_ends(client, page);
    case 4: return recall_step(client, page);
    case 5: /* evicted: the right stays */
        if (!begins || any(8) || most_used(client, page)) return 0;
        w.in_memory[client][page] = 0;
        return 0;
    case 6: return commit_ends(client, (int)any(THREADS));
    case 7: return worker_notes(client, page);
    case 8: return begins && any(8) == 0 ? worker_denied(client, page) : 0;
    default: return thread_step((int)any(SITES), (int)any(THREADS), begins);
    }
}

static void begin(void)
{
    memset(&w, 0, sizeof w);
    for (int c = 0; c < CLIENTS; c++) w.client[c].most = w.agent[c].most = PAGES;
}

static void end(void)
{
    for (int c = 0; c < CLIENTS; c++) {
        pages_free(&w.client[c]);
        pages_free(&w.agent[c]);
    }
}

#include "pages_crossed.h"

/* ---- all, at random ---- */

static void run(unsigned steps, unsigned breaks)
{
    begin();
    w.at_once = 1;
    for (int s = 0; s < SITES; s++)
        for (int t = 0; t < THREADS; t++) next(&w.thread[s][t]);
    int idle = 0;
    for (unsigned i = 0; i < steps || idle < IDLE; i++) {
        assert_true(i < 8 * steps);
        int went = step(any(13), i < steps);
        exclusive_alone();
        idle = went ? 0 : idle + 1;
        if (breaks && i < steps && any(breaks) == 0) link_breaks((int)any(CLIENTS));
        if (idle >= (i < steps ? IDLE / 9 : IDLE) && undo_one()) idle = 0;
    }
    for (int p = 0; p < PAGES; p++) assert_int_equal(w.waits[p], 0); /* each wait has ended */
    for (int c = 0; c < CLIENTS; c++)
        for (int p = 0; p < PAGES; p++) {
            const struct site_page *e = pages_find(&w.client[c], ADDRESS(p));
            assert_true(!e || (!e->asked && !e->called));
            assert_int_equal(e ? e->right : 0, w.kernel[c][p]);
        }
    end();
}

static void rights(void **state)
{
    unsigned runs = getenv("TEST_TIER") && strcmp(getenv("TEST_TIER"), "long") == 0 ? 2000 : 100;
    unsigned long crossed = 0, undone = 0, commits = 0, breaks = 0, late = 0, passed = 0;
    unsigned long given = 0, given_asked = 0;
    (void)state;
    for (unsigned i = 0; i < runs; i++) {
        seed = i + 1;
        run(4000, i % 2 ? 300 : 0);
        crossed += w.crossed;
        undone += w.undone;
        commits += w.commits;
        breaks += w.breaks;
        late += w.denied_late;
        passed += w.passed;
        given += w.given;
        given_asked += w.given_asked;
    }
    print_message("%lu pages that came with others, %lu that were asked for at the moment\n", given,
                  given_asked);
    assert_true(given && given_asked);
    print_message("%u runs: %lu commits, %lu breaks, %lu undone, %lu GONE of an older grant, "
                  "%lu that a GET had passed, %lu GETs undone behind the kernel's word\n",
                  runs, commits, breaks, undone, crossed, passed, late);
    assert_true(crossed && undone && commits && breaks && late && passed); /* what it is about */
}

/* The table against an array, with so few addresses that entries lie behind each other. */
static void table(void **state)
{
    enum { MANY = 700 };
    struct site_pages t = {.most = 500};
    uint8_t there[MANY] = {0};
    unsigned count = 0;
    (void)state;
    seed = 7;
    for (unsigned i = 0; i < 200000; i++) {
        unsigned n = any(MANY);
        uint64_t page = ADDRESS(n * 977ull);
        struct site_page *p = any(2) ? pages_make(&t, page) : pages_find(&t, page);
        if (p && !there[n]) {
            p->right = 1;
            there[n] = 1;
            count++;
        } else if (p && any(2)) {
            p->right = 0;
            pages_settle(&t, page);
            there[n] = 0;
            count--;
        } else if (!p) {
            assert_true(!there[n] && count <= t.most);
        }
        assert_int_equal(t.count, count);
        if (i % 20000 == 0) {
            pages_forget(&t, ADDRESS(0), ADDRESS(350 * 977ull));
            for (unsigned k = 0; k < 350; k++) count -= there[k], there[k] = 0;
            for (unsigned k = 0; k < MANY; k++)
                assert_int_equal(pages_find(&t, ADDRESS(k * 977ull)) != NULL, there[k]);
        }
    }
    pages_free(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(table), cmocka_unit_test(passed_by_get),
                                       cmocka_unit_test(gone_of_older),
                                       cmocka_unit_test(undone_behind),
                                       cmocka_unit_test(beyond_right), cmocka_unit_test(rights)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
