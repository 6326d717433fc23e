/*
 * remote_page.c - pages of containers whose home is another site: faults become GETs, a GRANT is
 * supplied, a CALL is a recall of the kernel's.
 *
 * The kernel asks again whenever somebody lacks a right (recall.md), so no question is kept here:
 * a page has one GET at a time (pages.h), and whoever wants more asks behind its GRANT.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "katydid/call.h"
#include "remote.h"

#define ACCESS(right) ((right) == SITE_EXCLUSIVE ? KD_READ | KD_WRITE \
                       : (right) == SITE_SHARED  ? KD_READ : 0)

/* Pages that are called back; those that have a GET open. */
static struct some { uint64_t *page; size_t count, room; } called, asked;

static void some_add(struct some *s, uint64_t page)
{
    for (size_t i = 0; i < s->count; i++)
        if (s->page[i] == page) return;
    if (s->count == s->room) {
        size_t room = s->room ? 2 * s->room : 64;
        uint64_t *more = realloc(s->page, room * sizeof *more);
        if (!more) remote_ends("no memory for pages that are asked for or called back");
        s->page = more;
        s->room = room;
    }
    s->page[s->count++] = page;
}

static void some_take(struct some *s, uint64_t page)
{
    for (size_t i = 0; i < s->count; i++)
        if (s->page[i] == page) s->page[i--] = s->page[--s->count];
}

static void some_close(struct some *of, uint64_t base, uint64_t end)
{
    for (size_t n = of->count; n-- > 0;)
        if (of->page[n] >= base && of->page[n] < end) of->page[n] = of->page[--of->count];
}

static uint64_t number_in(const struct segment *s, uint64_t page)
{
    return (page - s->base) / KD_PAGE_BYTES;
}

static void open_to(const struct segment *s, uint64_t page, int right)
{
    kd_call4(KD_OBJECT_GRANT, s->object, (long)number_in(s, page), 1, ACCESS(right));
}

/* ---- what the kernel asks ---- */

/* Takes the rights back that nobody uses. How many pages are still used, and by whom. */
static long recall(const struct segment *s, const struct site_page *p, uint64_t users[2])
{
    int to = ACCESS(p->called - 1);
    users[0] = users[1] = 0;
    return kd_call6(KD_OBJECT_RECALL, s->object, (long)number_in(s, p->page), 1,
                    to | (to ? 0 : KD_RECALL_DROP), (long)users, 0);
}

/* The page leaves memory, changed or not: the home has what was committed. */
static void drop(const struct segment *s, uint64_t page)
{
    uint8_t bits = 0;
    uint64_t users[2];
    long n = (long)number_in(s, page);
    kd_call4(KD_OBJECT_INFO, s->object, n, 1, (long)&bits);
    if (!(bits & KD_PAGE_RESIDENT)) return;
    kd_call3(KD_OBJECT_CLEANED, s->object, n, (long)KD_CSN_ANY);
    kd_call6(KD_OBJECT_RECALL, s->object, n, 1, KD_RECALL_DROP, (long)users, 0);
    kd_call4(KD_OBJECT_INFO, s->object, n, 1, (long)&bits);
    if (bits & KD_PAGE_RESIDENT) remote_ends("a page that is called back stays in memory");
}

/* Has anybody here used the page since it came? Asked before it leaves memory. */
static void use_note(const struct segment *s, struct site_page *p)
{
    uint8_t bits = 0;
    struct segment *any;
    const struct container *c = container_at(p->page, &any);
    if (p->used || !c->updates) return;
    kd_call6(KD_OBJECT_INFO, s->object, (long)number_in(s, p->page), 1, (long)&bits, KD_INFO_USES,
             0);
    p->used = bits & KD_PAGE_USED;
}

/* What is called back goes when nobody uses it. True: it has gone; else `users` keep it. NU1: what
 * was used is asked for in the same message, as it will be: its home sends it when who called it
 * back has ended. */
static bool give_back(const struct segment *s, struct site_page *p, uint64_t users[2])
{
    uint64_t page = p->page, serial = p->serial, number = 0;
    use_note(s, p);
    if (recall(s, p, users) > 0) return false;
    int to = client_gone(p);
    if (to == SITE_NO) drop(s, page);
    some_take(&called, page);
    if (p->used && to == SITE_NO && !p->asked) /* not among `asked`: nobody need wait for it */
        client_asked(p, number = ++remote.number, SITE_SHARED);
    pages_settle(&remote.pages, page);
    remote_send(&(struct site_message){.kind = SITE_GONE, .page = page, .serial = serial,
                                       .right = (uint8_t)to, .number = number});
    open_to(s, page, SITE_NO); /* who waits for it looks again */
    return true;
}

/* If it stays who waits asks again, as for whom he waits has changed. */
static void give_back_or_ask(const struct segment *s, struct site_page *p)
{
    uint64_t users[2];
    if (!give_back(s, p, users)) open_to(s, p->page, SITE_NO);
}

/* How many pages from this one on a GET to read is for: twice as many as it continues a row of. */
static uint32_t pages_ahead(const struct segment *s, uint64_t page)
{
    uint64_t left = s->pages - number_in(s, page);
    uint32_t n = 1;
    for (uint64_t before = page; n < SITE_GRANT_MAX && n < left && before > s->base; n++) {
        before -= KD_PAGE_BYTES;
        const struct site_page *p = pages_find(&remote.pages, before);
        if (!p || !p->right) break;
    }
    return n;
}

static void get(const struct segment *s, struct site_page *p, int right, bool wants,
                uint64_t ticket)
{
    struct site_message m;
    client_asked(p, ++remote.number, right);
    some_add(&asked, p->page);
    SITE_SHORT(&m, SITE_GET);
    m.number = p->asked;
    m.page = p->page;
    m.right = (uint8_t)right;
    m.wants = wants;
    m.serial = ticket;
    m.count = wants && right == SITE_SHARED ? pages_ahead(s, p->page) : 1;
    remote_send(&m);
}

static void fail(const struct segment *s, uint64_t page, int error)
{
    kd_call6(KD_OBJECT_FAIL, s->object, (long)number_in(s, page), 1, error, 0, 0);
}

static struct kd_view_info views[KD_VIEW_MAX];  /* locked */
static long views_list(void) { return kd_call3(KD_VIEW_LIST, (long)views, KD_VIEW_MAX, 0); }
static uint64_t page_of(const struct kd_view_info *v)
{
    return v->page & ~(uint64_t)(KD_PAGE_BYTES - 1);
}

static bool in(const uint64_t mask[2], uint64_t view) { return mask[view / 64] >> view % 64 & 1; }

/* Is the view among those who use a page that is called back? If not it waits for them, until the
 * page has gone: the kernel is to know for whom. */
static bool uses(const uint64_t users[2], uint64_t view)
{
    if (view >= KD_VIEW_MAX) return false;
    if (in(users, view)) return true;
    kd_call3(KD_VIEW_WAIT, (long)view, (long)users, 0);
    return false;
}

static void wanted(const struct segment *s, uint64_t page, const struct kd_message *m)
{
    struct site_page *p = pages_make(&remote.pages, page);
    bool here = m->word[3] & KD_PAGE_HERE;
    int want = m->word[3] & KD_WRITE ? SITE_EXCLUSIVE : SITE_SHARED;
    uint64_t users[2];
    if (p && p->called && give_back(s, p, users)) p = pages_make(&remote.pages, page);
    if (!p) {
        fail(s, page, ENOMEM);
        return;
    }
    if (here && p->right >= want && !p->called) {
        open_to(s, page, p->right);
        return;
    }
    /* one question stands for all who want a page that is away, so also for those who use it */
    int ask = client_wants(p, want, p->called && (!here || uses(users, m->word[4] - 1)));
    if (ask) get(s, p, ask, !here, m->word[7]);
}

bool page_bring(uint64_t page)
{
    struct segment *s;
    struct site_page *p = container_at(page, &s) ? pages_make(&remote.pages, page) : NULL;
    if (!p || p->right != SITE_NO || p->called) return false;
    if (!p->asked) get(s, p, SITE_SHARED, true, 0);
    return true;
}

void page_asked(const struct kd_message *m)
{
    remote_lock();
    struct container *c = container_of_id(STORE_COOKIE_CONTAINER(m->word[0]));
    struct segment *s = c && m->word[0] % 16 < c->segments ? &c->segment[m->word[0] % 16] : NULL;
    uint64_t page = s && m->word[1] < s->pages ? s->base + m->word[1] * KD_PAGE_BYTES : 0;
    if (page && m->word[3] & KD_PAGE_OLD)
        snapshot_page_asked(page, m);
    else if (page)
        wanted(s, page, m);
    remote_unlock();
}

void pages_recalled(uint64_t cookie)
{
    struct segment *s;
    remote_lock();
    for (size_t i = called.count; i-- > 0;) {
        struct container *c = i < called.count ? container_at(called.page[i], &s) : NULL;
        if (c && c->id == STORE_COOKIE_CONTAINER(cookie))
            give_back_or_ask(s, pages_find(&remote.pages, called.page[i]));
    }
    remote_unlock();
}

/* GETs that are open for long and for which nobody waits any more are taken back: who has asked may
 * be undone, or killed, or his time is up. Who was woken to ask again waits for nothing at the
 * moment, so a GET goes back when two looks, one behind the other, have found nobody. */
enum { LOOK_MS = 20 };
static uint64_t looked;                 /* locked */

/* All for whom these views wait, and for whom those wait. */
static void reach(long n, uint64_t reached[2])
{
    for (bool more = true; more;) {
        more = false;
        for (long i = 0; i < n; i++)
            for (int k = 0; k < 2 && in(reached, views[i].view); k++) {
                more |= (views[i].waits[k] & ~reached[k]) != 0;
                reached[k] |= views[i].waits[k];
            }
    }
}

/* A circle may lead through two homes, of which none sees the whole: a view keeps what somebody
 * wants, if only since its last transaction, and waits for a page of another home. Who does so for
 * some time runs again, without what it had before; for longer, each time that this was in vain; of
 * two machines not at the same moment. */
enum { WAIT_MS = 20, AGAIN_MOST = 7, APART = 8 };
static struct site_ages since;
static struct { uint64_t ticket; unsigned times; } again[KD_VIEW_MAX];

static bool waits_long(const struct kd_view_info *v)
{
    uint64_t key = v->ticket << 36 ^ v->page / KD_PAGE_BYTES;
    unsigned times = again[v->view].ticket == v->ticket ? again[v->view].times : 0;
    uint64_t most = (WAIT_MS << times) * (APART + (v->ticket + remote.zone) % APART) / APART;
    return age_of(&since, v->view, key, remote_now()) >= most * 1000000;
}

static void runs_again(const struct kd_view_info *v)
{
    unsigned times = again[v->view].ticket == v->ticket ? again[v->view].times : 0;
    again[v->view].ticket = v->ticket;
    again[v->view].times = times + (times < AGAIN_MOST);
    since.of[v->view].ticket = 0;
    kd_call3(KD_VIEW_ABORT, (long)v->view, EDEADLK, 0);
}

/* Does another site wait for this view, of a program here? Its agent's threads do. */
static bool kept_from_site(long n, uint64_t view)
{
    uint64_t reached[2] = {0};
    for (long i = 0; i < n; i++)
        for (long k = 0; k < n && views[i].mode & KD_HOLDER; k++)
            if (views[k].pid == views[i].pid && !(views[k].mode & KD_HOLDER))
                reached[views[k].view / 64] |= 1ull << views[k].view % 64;
    reach(n, reached);
    return in(reached, view);
}

/* The views that wait for a page of this home: does another site wait for one of them? */
static void waits_look(long n)
{
    struct segment *s;
    for (long i = 0; i < n; i++) {
        const struct kd_view_info *v = &views[i];
        if (v->page && container_at(v->page, &s) && waits_long(v) && kept_from_site(n, v->view))
            runs_again(v);
    }
}

static void cancel(const struct site_page *p)
{
    remote_send(&(struct site_message){.kind = SITE_CANCEL, .number = p->asked, .page = p->page});
}

static void gets_look(void)
{
    long n = views_list();
    waits_look(n);
    for (size_t i = 0; i < asked.count; i++) {
        struct site_page *p = pages_find(&remote.pages, asked.page[i]);
        bool waits = false;
        for (long k = 0; k < n && !waits; k++) waits = page_of(&views[k]) == p->page;
        if (client_cancels(p, waits)) cancel(p);
    }
}

/* Was one of the GETs open at the last look? Mostly each is younger, and nothing is looked at. */
static bool gets_old(void)
{
    static uint64_t seen;               /* the last number, at the last look */
    bool old = false;
    for (size_t i = 0; i < asked.count && !old; i++)
        old = pages_find(&remote.pages, asked.page[i])->asked <= seen;
    seen = remote.number;
    return old;
}

int pages_look(bool now)
{
    if (!__atomic_load_n(&asked.count, __ATOMIC_RELAXED)) return -1;
    if (!now) return LOOK_MS;
    remote_lock();
    uint64_t at = remote_now();
    if (at - looked >= LOOK_MS * 1000000) {
        looked = at;
        if (gets_old()) gets_look();
    }
    remote_unlock();
    return LOOK_MS;
}

/* The home closes it when its GETs have ended (AK1). */
void pages_closed(const struct container *c)
{
    for (unsigned i = 0; i < c->segments; i++) {
        const struct segment *s = &c->segment[i];
        uint64_t end = s->base + s->pages * KD_PAGE_BYTES;
        for (size_t n = 0; n < asked.count; n++)
            if (asked.page[n] >= s->base && asked.page[n] < end)
                cancel(pages_find(&remote.pages, asked.page[n]));
        some_close(&called, s->base, end);
        some_close(&asked, s->base, end);
        pages_forget(&remote.pages, s->base, end);
    }
}

/* ---- what the home says; locked ---- */

/* Pages are as the home has them now: so no snapshot sees them that began before. */
static long supply(const struct segment *s, const struct site_message *m, uint32_t count)
{
    struct kd_supply supply = {.object = s->object, .source = KD_SUPPLY_MEMORY | KD_SUPPLY_NEWER,
                               .rights = ACCESS(m->right), .page = number_in(s, m->page),
                               .count = count, .memory = m->data};
    remote.came += count;
    return kd_call3(KD_OBJECT_SUPPLY, (long)&supply, 0, 0);
}

/* A page that came with another one, and is not taken: the home need not keep it for us, but if a
 * GET of it is open, whose answer says it anew. */
static void refused(uint64_t page, uint64_t serial)
{
    const struct site_page *p = pages_find(&remote.pages, page);
    if (!p || !p->asked)
        remote_send(&(struct site_message){.kind = SITE_GONE, .page = page, .serial = serial});
}

/* Is a page that came with another one taken? */
static bool given(const struct segment *s, uint64_t page, uint64_t serial)
{
    bool inside = number_in(s, page) < s->pages;
    struct site_page *p = inside ? pages_make(&remote.pages, page) : NULL;
    if (p && client_given(p, serial)) return true;
    refused(page, serial);
    return false;
}

void page_granted(const struct site_message *m)
{
    struct segment *s;
    struct site_page *p = pages_find(&remote.pages, m->page);
    if (!p || !container_at(m->page, &s)) return; /* closed meanwhile */
    if (!client_granted(p, m->answer_to, m->serial, m->right)) remote_ends("a GRANT of no GET");
    some_take(&called, m->page);
    some_take(&asked, m->page);
    if (m->bytes == 0) {
        open_to(s, m->page, m->right);
        return;
    }
    uint32_t n = 1;
    while (n < m->count && given(s, m->page + n * KD_PAGE_BYTES, m->serial + n)) n++;
    for (uint32_t i = n + 1; i < m->count; i++) /* behind one that was not taken */
        refused(m->page + i * KD_PAGE_BYTES, m->serial + i);
    long r = supply(s, m, n);
    if (r < 0 && r != -ESTALE && n > 1) r = supply(s, m, 1);
    if (r < 0) fail(s, m->page, (int)-r);
    snapshot_page_came(m->page);
}

void page_denied(const struct site_message *m)
{
    struct segment *s;
    struct site_page *p = pages_find(&remote.pages, m->page);
    bool cancelled = p && p->held == GET_CANCELLED;
    if (!p || !container_at(m->page, &s) || !client_denied(p, m->answer_to)) return;
    some_take(&asked, m->page);
    if (cancelled && m->error == ECANCELED)
        open_to(s, m->page, SITE_NO); /* who wants it since asks anew */
    else
        fail(s, m->page, m->error);
    snapshot_page_came(m->page);
    pages_settle(&remote.pages, m->page);
}

void page_called(const struct site_message *m)
{
    struct segment *s = NULL;
    struct site_page *p = container_at(m->page, &s) ? pages_find(&remote.pages, m->page) : NULL;
    if (!p || !client_called(p, m->serial, m->right)) {
        remote_send(&(struct site_message){.kind = SITE_GONE, .page = m->page,
                                           .serial = m->serial, .right = m->right});
    } else {
        uint64_t users[2];
        some_add(&called, m->page);
        (void)give_back(s, p, users);
    }
}

/* ---- for which GETs do those wait that keep a page? ---- */

/* Of several who wait for one GET the oldest counts. */
static void wait_add(struct site_message *answer, uint64_t number, uint64_t ticket)
{
    uint32_t i = 0;
    while (i < answer->count && answer->waits[i].number != number) i++;
    if (i == answer->count) answer->waits[answer->count++] = (struct site_wait){number, ticket};
    if (ticket < answer->waits[i].ticket) answer->waits[i].ticket = ticket;
}

/* Who waits for a page that is called back waits for those who use it now, whatever its kernel was
 * told when it asked. It is not woken to ask again: awake it would be seen to wait for nothing, by
 * this probe and by those of other pages that came with it. */
static void waits_learn(struct kd_view_info *v)
{
    struct segment *s;
    uint64_t users[2], page = page_of(v);
    struct site_page *p = page && container_at(page, &s) ? pages_find(&remote.pages, page) : NULL;
    if (!p || !p->called || give_back(s, p, users) || uses(users, v->view)) return;
    v->waits[0] |= users[0];
    v->waits[1] |= users[1];
}

/* It uses pages of this home, if only since its last transaction, and one is called back. */
static void waits_elsewhere(const struct kd_view_info *v)
{
    struct segment *s;
    if (v->page && !container_at(v->page, &s) && waits_long(v)) runs_again(v);
}

void page_probed(const struct site_message *m)
{
    struct site_message answer = {.kind = SITE_PROBED, .answer_to = m->number, .page = m->page};
    struct segment *s = NULL;
    struct site_page *p = container_at(m->page, &s) ? pages_find(&remote.pages, m->page) : NULL;
    uint64_t reached[2] = {0};
    /* who was given a right and has not used it is a user, and may be none any more without end */
    bool kept = p && p->called && p->serial == m->serial && !give_back(s, p, reached);
    long n = kept ? views_list() : 0;
    for (long i = 0; i < n; i++) waits_learn(&views[i]);
    reach(n, reached);
    for (long i = 0; i < n && answer.count < SITE_PROBED_MAX; i++) {
        const struct kd_view_info *v = &views[i];
        uint64_t page = page_of(v);
        const struct site_page *q = page ? pages_find(&remote.pages, page) : NULL;
        if (in(reached, v->view)) waits_elsewhere(v);
        if (q && q->asked && in(reached, v->view))
            wait_add(&answer, q->asked, v->ticket);
    }
    remote_send(&answer);
}
