/*
 * agent_page.c - pages for the site: who takes them, who wants them back.
 *
 * A GET waits for a thread, and the thread in the kernel's queue of the page, as any transaction.
 * Its rights are the holder's from the moment it has them (KD_HEIR). Who then waits for the holder
 * is told of by KD_MSG_WANTED, and the site hears a CALL.
 *
 * A GET says the ticket of the transaction that asks. Its thread here begins with a ticket of this
 * machine's that stands for it, each time the same: so who is undone here for a deadlock is the
 * youngest of all that have asked, of whichever site they are.
 */
#include "agent.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "katydid/call.h"
#include "site.h"

enum { ANEW_MAX = GETTERS / 2 };

/* A GET; request: 1, if it came with a GONE. tid: of the thread that works on it; ticket: of its
 * transaction, 0: a new one; undone: 0, or -errno: it is to end without the page. */
struct job {
    struct site_message get;
    int tid, undone;
    uint64_t ticket;
    bool used, taken;
    uint8_t contents[SITE_PAGE_BYTES];
};
static struct job working[GETTERS];
static struct { struct site_message get[JOBS_MAX]; unsigned first, count; } waiting;
static struct site_tickets tickets;
static struct site_message *waiting_at(unsigned i)
{
    return &waiting.get[(waiting.first + i) % JOBS_MAX];
}

void page_call(struct site_page *p, int due)
{
    if (due)
        agent_send(&(struct site_message){.kind = SITE_CALL, .page = p->page, .serial = p->serial,
                                          .right = (uint8_t)(due - 1)});
}

/* False: not what a thread of this process has of it at the moment. */
static bool release(uint64_t page, uint64_t pages, int to)
{
    return kd_call4(KD_TXN_RELEASE, agent.holder, (long)page, (long)pages,
                    to == SITE_SHARED ? KD_READ : 0) <= 0;
}

static bool release_one(uint64_t page, int to) { return release(page, 1, to); }

void pages_release(const struct site_segment *s)
{
    release(s->base, s->pages, SITE_NO);
    pages_forget(&agent.pages, s->base, s->base + s->pages * KD_PAGE_BYTES);
}

static void denied(const struct site_message *get, int error)
{
    agent_send(&(struct site_message){.kind = SITE_DENIED, .answer_to = get->number,
                                      .page = get->page, .error = error});
}

/* ---- GET ---- */

/* How many pages from the one of the GET on may go in its GRANT, as far as this process knows. */
static unsigned pages_given(const struct site_message *get, const struct container *c)
{
    unsigned n = 1;
    for (uint64_t page = get->page; n < get->count; n++) {
        page += KD_PAGE_BYTES;
        if (container_at(page) != c || !home_may_give(pages_find(&agent.pages, page))) break;
    }
    return n;
}

/* Notes pages that the kernel has given behind the first one; how many there is room for. */
static unsigned pages_gave(uint64_t first, unsigned taken)
{
    unsigned n = 1;
    for (struct site_page *p; n < taken; n++) {
        p = pages_make(&agent.pages, first + n * KD_PAGE_BYTES);
        if (!p) break;
        home_gave(p, agent.serial + 1 + n);
    }
    if (n < taken) release(first + n * KD_PAGE_BYTES, taken - n, SITE_NO);
    return n;
}

/* What nobody keeps from the site it has at once, and no thread waits. False: somebody does, or the
 * page is not in memory, or the site wants it converted. */
static bool take_now(const struct site_message *get, const struct container *c)
{
    uint64_t serial = agent.serial + 1;
    if (c->types) return false;
    struct fields_out o = message_grant(agent_room(), AGENT_ROOM, get, serial);
    unsigned n = get->wants ? pages_given(get, c) : 1;
    int access = get->right == SITE_EXCLUSIVE ? KD_READ | KD_WRITE : KD_READ;
    long taken = kd_call6(KD_TXN_TAKE, agent.holder, (long)get->page, n, access,
                          get->wants ? (long)o.at : 0, 0);
    if (taken < 1) return false;
    n = pages_gave(get->page, (unsigned)taken);
    struct site_page *p = pages_find(&agent.pages, get->page);
    home_taken(p);
    int due = home_granted(p, get->right, serial);
    agent.serial += n;
    if (get->wants) put_room(&o, n * KD_PAGE_BYTES);
    agent_send_later(frame_end(&o, SITE_GRANT, 0, get->number));
    page_call(p, due);
    return true;
}

/* Locked. */
static void get(const struct site_message *m)
{
    struct container *c = container_at(m->page);
    struct site_page *p = NULL;
    int error = !c || (m->right == SITE_EXCLUSIVE && !c->writes) ? EACCES
                : waiting.count == JOBS_MAX                      ? EAGAIN
                : (p = pages_make(&agent.pages, m->page))        ? 0 : ENOMEM;
    if (!error && !home_get(p, m->number, m->right)) agent_ends("the site asks twice for a page");
    if (!error && (m->request || !take_now(m, c))) { /* NU2: not past who stands in the queue */
        c->busy++;
        *waiting_at(waiting.count++) = *m;
        agent_changed(AGENT_GETS);
    } else if (error) {
        denied(m, error);
    }
}

void page_get(const struct site_message *m)
{
    agent_lock();
    get(m);
    agent_unlock();
}

static int take(void *arg)
{
    struct job *j = arg;
    agent_lock();
    if (!j->ticket && j->get.serial) tickets_note(&tickets, j->get.serial, ps_site_ticket());
    int undone = j->undone;
    agent_unlock();
    if (undone) return undone;
    if (j->get.right == SITE_EXCLUSIVE) {
        long r = kd_call3(KD_TXN_HINT, (long)j->get.page, KD_PAGE_BYTES, KD_HINT_EXCLUSIVE);
        if (r < 0) return (int)r;
    }
    memcpy(j->contents, (const void *)j->get.page, KD_PAGE_BYTES);
    int error = convert_page(j->get.page, j->contents);
    if (error) return error;
    agent_lock();
    if (!j->taken) home_taken(pages_find(&agent.pages, j->get.page));
    j->taken = true;
    agent_unlock();
    return 0;
}

/* The holder has what was taken, however the transaction ended. */
static void granted(struct job *j)
{
    struct site_page *p = pages_find(&agent.pages, j->get.page);
    int due = home_granted(p, j->get.right, ++agent.serial);
    convert_granted(p, j->get.wants);
    agent_send(&(struct site_message){
        .kind = SITE_GRANT, .answer_to = j->get.number, .page = p->page, .right = j->get.right,
        .serial = p->serial, .data = j->get.wants ? j->contents : NULL,
        .bytes = j->get.wants ? KD_PAGE_BYTES : 0});
    page_call(p, due);
}

static void refused(const struct site_message *get, int error)
{
    home_denied(pages_find(&agent.pages, get->page), release_one);
    pages_settle(&agent.pages, get->page);
    denied(get, error < 0 ? -error : EIO);
}

static struct site_message waiting_take(unsigned at)
{
    struct site_message get = *waiting_at(at);
    for (unsigned i = at; i > 0; i--) *waiting_at(i) = *waiting_at(i - 1);
    waiting.first = (waiting.first + 1) % JOBS_MAX;
    waiting.count--;
    return get;
}

/* The first that may have a thread; -1: none. Pages that are to be sent anew wait for a writer's
 * end, and nobody may wait for them: so they leave threads for those that somebody waits for. */
static int waiting_next(void)
{
    unsigned anew = 0, i = 0;
    for (struct job *j = working; j < working + GETTERS; j++) anew += j->used && j->get.request;
    while (i < waiting.count && waiting_at(i)->request && anew >= ANEW_MAX) i++;
    return i < waiting.count ? (int)i : -1;
}

static struct job *job_take(void)
{
    struct job *j = working;
    int at;
    while ((at = waiting_next()) < 0) agent_wait(AGENT_GETS);
    while (j->used) j++;
    j->get = waiting_take((unsigned)at);
    j->used = true;
    j->taken = false;
    j->undone = 0;
    j->ticket = j->get.serial ? tickets_ours(&tickets, j->get.serial) : 0;
    j->tid = (int)gettid();
    return j;
}

static void job_ends(struct job *j, int error)
{
    struct container *c = container_at(j->get.page);
    if (j->taken)
        granted(j);
    else
        refused(&j->get, j->undone ? j->undone : error == -EBUSY ? -EDEADLK : error);
    j->used = false;
    container_let(c);
}

void *page_work(void *unused)
{
    agent_lock();
    for (;;) {
        struct job *j = job_take();
        agent_unlock();
        int error = ps_site_transaction(take, j, agent.holder, j->ticket, (struct ps_options){0});
        agent_lock();
        job_ends(j, error);
    }
    return unused;
}

/* ---- GONE ---- */

void page_gone(const struct site_message *m)
{
    agent_lock();
    struct site_page *p = pages_find(&agent.pages, m->page);
    if (p && home_gone(p, m->serial, m->right, release_one))
        pages_settle(&agent.pages, m->page);
    if (m->number) /* NU2: behind who called it back, in the same queue */
        get(&(struct site_message){.kind = SITE_GET, .number = m->number, .page = m->page,
                                   .right = SITE_SHARED, .wants = 1, .request = 1});
    agent_unlock();
}

/* ---- who wants pages back ---- */

static void wanted(uint64_t page, int to)
{
    struct site_page *p = pages_find(&agent.pages, page);
    if (!p)
        release_one(page, SITE_NO); /* what the site has not, nobody waits for */
    else if (home_wanted(p, to, release_one))
        page_call(p, to + 1);
}

static void wanted_all(uint64_t base, uint64_t pages, int to)
{
    for (size_t i = 0; i < agent.pages.room; i++) {
        uint64_t page = agent.pages.at[i].page;
        if (page >= base && (page - base) / KD_PAGE_BYTES < pages) wanted(page, to);
    }
}

static struct kd_view_info views[KD_VIEW_MAX];  /* locked */
static long views_list(void) { return kd_call3(KD_VIEW_LIST, (long)views, KD_VIEW_MAX, 0); }
static bool in(const uint64_t mask[2], uint64_t view) { return mask[view / 64] >> view % 64 & 1; }

static void wanted_others(void)
{
    long n = views_list();
    for (long i = 0; i < n; i++) {
        const struct kd_view_info *v = &views[i];
        int to = v->want == 0 ? SITE_SHARED : SITE_NO;
        if (!in(v->waits, agent.view)) continue;
        if (v->page) wanted(v->page & ~(uint64_t)(KD_PAGE_BYTES - 1), to);
        for (struct container *c = agent.containers; c < agent.containers + CONTAINERS_MAX; c++)
            for (unsigned k = 0; v->container && c->id && k < c->segments; k++)
                if (c->segment[k].base == v->container)
                    wanted_all(c->segment[k].base, c->segment[k].pages, to);
    }
}

/* ---- deadlocks over the link ---- */

enum { PROBE_MS = 20, PROBES_MAX = 16 };

/* Asks the site of pages that are called back and have not come: for what do those wait that keep
 * them? Some each time, in turn. True: there are such pages, or there will be. */
static bool probe(void)
{
    struct site_pages *t = &agent.pages;
    unsigned sent = 0;
    bool any = false;
    size_t from = t->hand;
    for (size_t i = 0; i < t->room && sent < PROBES_MAX; i++) {
        const struct site_page *p = &t->at[(from + i) & (t->room - 1)];
        if (!p->page || !p->wanted) continue;
        any = true; /* one that is on its way will be called */
        if (!p->called) continue;
        sent++;
        t->hand = (from + i + 1) & (t->room - 1);
        agent_send(&(struct site_message){.kind = SITE_PROBE, .number = p->serial,
                                          .page = p->page, .serial = p->serial});
    }
    return any;
}

/* All for whom these views wait, and for whom those wait. A holder that is waited for waits, as far
 * as can be seen here, for what its own process's threads wait for. Who is to be undone waits for
 * nobody: his circle needs no second victim. */
static void reach(long n, uint64_t reached[2])
{
    for (bool more = true; more;) {
        more = false;
        for (long i = 0; i < n; i++) {
            if (!in(reached, views[i].view) || views[i].doom) continue;
            uint64_t next[2] = {views[i].waits[0], views[i].waits[1]};
            for (long k = 0; k < n && views[i].mode & KD_HOLDER; k++)
                if (views[k].pid == views[i].pid && views[i].view != agent.view && !views[k].doom)
                    next[views[k].view / 64] |= 1ull << views[k].view % 64;
            for (int k = 0; k < 2; k++) {
                more |= (next[k] & ~reached[k]) != 0;
                reached[k] |= next[k];
            }
        }
    }
}

/* The place in the queue of a GET that no thread has taken yet, counted from its first; -1. */
static int waiting_find(uint64_t number)
{
    for (unsigned i = 0; i < waiting.count; i++)
        if (waiting_at(i)->number == number) return (int)i;
    return -1;
}

static bool worked_by(const struct kd_view_info *v, const struct job *j)
{
    return v->pid == getpid() && v->tid == j->tid && !(v->mode & KD_HOLDER);
}

/* The views of the threads that wait for the page of this GET; of all, if it waits for a thread. */
static void views_of(long n, uint64_t number, uint64_t of[2])
{
    bool all = waiting_find(number) >= 0;
    for (struct job *j = working; j < working + GETTERS; j++)
        for (long i = 0; j->used && (all || j->get.number == number) && i < n; i++)
            if (worked_by(&views[i], j))
                of[views[i].view / 64] |= 1ull << views[i].view % 64;
}

/* Its thread may be on its way to the kernel, where nobody sees it yet: `undone` is for that. */
static void working_undo(uint64_t number, int why)
{
    for (struct job *j = working; j < working + GETTERS; j++) {
        long n = j->used && j->get.number == number ? views_list() : -1;
        if (n >= 0) j->undone = why;
        for (long i = 0; i < n; i++)
            if (worked_by(&views[i], j)) kd_call3(KD_VIEW_ABORT, (long)views[i].view, EBUSY, 0);
    }
}

/* The GET of this number, if it has not got its page, is denied. */
static void get_undo(uint64_t number, int why)
{
    int at = waiting_find(number);
    working_undo(number, why);
    if (at < 0) return;
    struct site_message get = waiting_take((unsigned)at);
    container_let(container_at(get.page));
    refused(&get, why);
}

/* Who is younger, the site's transaction or who waits here? One that nobody knows is the youngest.
 * A site that wins again and again and commits nothing may lie about its tickets: it loses some
 * times then. */
enum { WON_MOST = 64, OWES = 4 };
static unsigned won, owes;
void page_site_commits(void) { won = 0; }

static bool site_loses(const struct site_wait *w, const struct kd_view_info *waiter)
{
    uint64_t ticket = tickets_ours(&tickets, w->ticket);
    if (!ticket || ticket >= waiter->ticket || owes) {
        owes -= owes != 0;
        return true;
    }
    if (++won == WON_MOST) {
        won = 0;
        owes = OWES;
    }
    return false;
}

/* The victim of a circle: the site's GET, or who waits here for the site. Of an agent that is one
 * of its GETs, which it then denies; a program runs again. */
static void resolve(long n, const struct site_wait *w, const struct kd_view_info *waiter)
{
    bool agents = false;
    for (long i = 0; i < n; i++)
        agents |= views[i].pid == waiter->pid && views[i].mode == KD_HOLDER;
    if (site_loses(w, waiter))
        get_undo(w->number, -EDEADLK);
    else
        kd_call3(KD_VIEW_ABORT, (long)waiter->view, agents ? EBUSY : EDEADLK, 0);
}

/* Does it wait for the site to give up this page, or all of the container? */
static bool waits_for(const struct kd_view_info *v, uint64_t page)
{
    return in(v->waits, agent.view) &&
           ((v->page & ~(uint64_t)(KD_PAGE_BYTES - 1)) == page ||
            (v->container && container_at(v->container) == container_at(page)));
}

/* Who keeps `page` at the site waits for these GETs. If one of them waits, here, for somebody who
 * waits for the page, that is a circle. */
void page_probed(const struct site_message *m)
{
    agent_lock();
    const struct site_page *p = pages_find(&agent.pages, m->page);
    long n = p && p->called && p->serial == m->answer_to ? views_list() : 0;
    for (uint32_t i = 0; i < m->count && n > 0; i++) {
        uint64_t of[2] = {0}, reached[2];
        views_of(n, m->waits[i].number, of);
        memcpy(reached, of, sizeof reached);
        reach(n, reached);
        for (long k = 0; k < n; k++) {
            if (!in(reached, views[k].view) || views[k].doom || !waits_for(&views[k], m->page))
                continue;
            resolve(n, &m->waits[i], &views[k]);
            n = views_list(); /* another GET may be in a circle without this victim */
            break;
        }
    }
    agent_unlock();
}

void page_cancel(const struct site_message *m)
{
    agent_lock();
    get_undo(m->number, -ECANCELED);
    agent_unlock();
}

void *page_hear(void *unused)
{
    bool calls = false;
    for (;;) {
        struct kd_message m = {.handle = -1};
        long r = kd_call3(KD_PORT_RECEIVE, agent.port, (long)&m, calls ? PROBE_MS : -1);
        agent_lock();
        if (r == -EAGAIN || r == -ETIMEDOUT) {
            calls = probe();
        } else if (r < 0) {
            agent_ends("its port ended");
        } else if (m.kind == (uint32_t)KD_MSG_WANTED) {
            int to = m.word[3] == KD_READ ? SITE_SHARED : SITE_NO;
            if (m.word[7]) agent_ends("the store has ended");
            if (m.word[2] == 1)
                wanted(m.word[1], to);
            else
                wanted_all(m.word[1], m.word[2], to);
            if (m.word[6]) wanted_others();
            calls = true;
        }
        agent_unlock();
    }
    return unused;
}
