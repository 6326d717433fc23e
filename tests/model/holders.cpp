/*
 * holders.cpp - a model of holders: a kernel whose views share pages, and sites that have rights
 * from it by workers and holders (kernel/store/holders.md, where the rules' labels are).
 *
 *     model-holders check           every scenario, completely
 *     model-holders teeth [RULE]    each rule switched, alone: some scenario must fail
 *     model-holders trace RULE      a shortest counterexample, step by step
 *
 * One step is what one lock of the kernel protects; an agent and its site are one process here,
 * which sends each CALL and GONE at once. Transactions take pages in one order, each in one mode,
 * so nobody may be undone: who waits for ever shows a fault of the protocol.
 */
enum { HOMES = 2, SITES = 2, PAGES = 2, TXNS = 2 };
#define RULES(X) \
    X(NOTHING_NEW, "HO1: a holder counts as idle, and loses its rights to who wants them") \
    X(FORGOTTEN, "HO1: a right is forgotten with its page, as an idle view's is") \
    X(HEIR_LATE, "HO2: the holder gets the right behind its worker's end, not with it") \
    X(KEPT, "HO2: a worker reads by a right of before, which its holder has not") \
    X(MADE_MORE, "HO2: a worker's read is made exclusive, and nobody asked for that") \
    X(ABORT_KEEPS, "HO2: a copy that is undone leaves the page to nobody") \
    X(PUBLISH_KEEPS, "HO2: a publication leaves the page to nobody") \
    X(DEAD_HEIR, "HO2: a worker goes on though its holder has ended") \
    X(QUEUES, "HO3: a worker queues for what its holder has") \
    X(ASKS, "HO3: a worker asks for what its holder has, where that is called back") \
    X(BARGES, "HO3: a worker whose holder has a right takes a greater one before the queue") \
    X(ONE_NOTICE, "HO4: who comes while a notice stands is not told, nor is that said") \
    X(TOLD_EARLY, "HO4: the notice comes before the view stands in the queue") \
    X(SILENT, "HO5: who waits is not woken when a right is released") \
    X(UNTOLD, "HO5: the manager is not told when a right that it calls back is released") \
    X(ANY_RELEASE, "HO5: a right is released that a worker uses") \
    X(TAKES_USED, "HO7: a holder takes a page at once that somebody uses") \
    X(TAKES_QUEUED, "HO7: a holder takes a page at once that somebody waits for")
#include "small.h"
typedef uint16_t u16;

enum mode : u8 { NONE, S, X };
/* views: home programs, then of each site a worker that gets, one that commits, and the holder */
enum { VIEWS = HOMES + 3 * SITES, NOBODY = 0xff };
static int getter(int i) { return HOMES + 3 * i; }
static int committer(int i) { return HOMES + 3 * i + 1; }
static int holder(int i) { return HOMES + 3 * i + 2; }
static bool is_holder(int v) { return v >= HOMES && (v - HOMES) % 3 == 2; }
static int heir(int v) { return v < HOMES ? NOBODY : holder((v - HOMES) / 3); }
static u16 bit(int n) { return (u16)(1u << n); }

/* "r0w1": reads page 0, writes page 1. `recalls`: so often a manager calls page 0 back; `undone`:
 * so many commits are undone halfway; `deaths`: of site 0. */
struct Scenario {
    const char *name, *what;
    const char *home[HOMES][TXNS], *site[SITES][TXNS];
    u8 recalls, undone, deaths;
};

enum pc : u8 { NEXT, OP, JOIN, LOOK, SLEEP, ASK, TOOK, END, LEFT, DONE };
struct View {
    u8 pc, page, mode, txn, op, woken;
    u8 used[PAGES];                     /* by its transaction */
    u8 seen[PAGES];                     /* the versions that it read */
    u16 waits;
};
struct Page {
    u16 has, queue_of;                  /* views with a right; those in the queue */
    u8 writer, version, queue[4], queued, closed, watched, pad; /* closed, watched: called back */
};
/* A site: what it has, what its transaction uses, what it was told. */
struct Site {
    u8 pc, txn, op, dead, gets;
    u8 right[PAGES], used[PAGES], seen[PAGES], called[PAGES]; /* called: what is to be left, + 1 */
    u8 notice, notice_page, notice_to, more;
};
struct State {
    View v[VIEWS];
    Page p[PAGES];
    Site site[SITES];
    u8 recalls, recalled, undone, deaths; /* recalled: the manager was told of an end */
};

struct Model : Steps<State, Scenario> {
    template <class F> void step(int v, const char *what, F change)
    {
        static const char *const kinds[] = {" gets, ", " commits, ", " holds, "};
        step_of([&] {
            return v < HOMES ? "home " + std::to_string(v) + " "
                             : "site " + std::to_string((v - HOMES) / 3) + kinds[(v - HOMES) % 3];
        }, what, change);
    }
    template <class F> void site_step(int i, const char *what, F change)
    {
        step_of([&] { return "site " + std::to_string(i) + " "; }, what, change);
    }
    static u8 mode_of(char c) { return c == 'w' ? X : S; }

    /* ---- what must be true ---- */
    void uses(State &s, int v, int site, int p, u8 mode, u8 *seen)
    {
        for (int u = 0; u < HOMES; u++)
            if (u != v && s.v[u].used[p] && (mode == X || s.v[u].used[p] == X))
                wrong("two use a page at the same time, and one stores");
        for (int i = 0; i < SITES; i++)
            if (i != site && !s.site[i].dead && s.site[i].used[p] &&
                (mode == X || s.site[i].used[p] == X))
                wrong("two use a page at the same time, and one stores");
        seen[p] = s.p[p].version;
    }
    void publishes(State &s, int p, u8 seen)
    {
        if (s.p[p].version != seen) wrong("a commit is of another version than the current one");
        s.p[p].version++;
    }

    /* ---- queues, edges, notices ---- */
    static void wake(State &s, int v)
    {
        for (auto &u : s.v)
            if (u.waits & bit(v)) {
                u.waits &= (u16)~bit(v);
                u.woken = 1;
            }
    }
    static void leave(State &s, int v, int p)
    {
        Page &page = s.p[p];
        if (!(page.queue_of & bit(v))) return;
        u8 n = 0;
        for (u8 i = 0; i < page.queued; i++)
            if (page.queue[i] != v) page.queue[n++] = page.queue[i];
        for (u8 i = n; i < page.queued; i++) page.queue[i] = 0;
        page.queued = n;
        page.queue_of &= (u16)~bit(v);
        for (u8 i = 0; i < n; i++) {
            View &u = s.v[page.queue[i]];
            bool waited = u.waits & bit(v);
            u.waits &= (u16)~bit(v);
            if (i == 0 || (waited && !u.waits)) u.woken = 1;
        }
    }
    static void tell(State &s, int h, int p, u8 mode)
    {
        Site &site = s.site[(h - HOMES) / 3];
        if (site.notice && on(ONE_NOTICE)) return;
        site.more = site.notice;
        site.notice = 1;
        site.notice_page = (u8)p;
        site.notice_to = mode == X ? NONE : S;
    }
    static bool lost_heir(const State &s, int v)
    {
        return v >= HOMES && s.site[(v - HOMES) / 3].dead && !on(DEAD_HEIR);
    }
    static bool heir_has(const State &s, int v, int p, u8 mode)
    {
        int h = heir(v);
        return h != NOBODY && s.p[p].has & bit(h) &&
               (mode == S || s.p[p].writer == h || on(BARGES));
    }
    static bool active(const State &s, int v)
    {
        return is_holder(v) ? !s.site[(v - HOMES) / 3].dead && !on(NOTHING_NEW)
                            : s.v[v].pc > NEXT && s.v[v].pc < LEFT;
    }

    /* look is what a fault does in one section. */
    void look(State &s, int v)
    {
        View &x = s.v[v];
        Page &page = s.p[x.page];
        int h = heir(v);
        x.waits = x.woken = 0;
        if (lost_heir(s, v)) return undo(s, v);
        bool own = heir_has(s, v, x.page, x.mode);
        bool mine = page.has & bit(v) && (x.mode == S || page.writer == v);
        if (page.closed && !(own && !on(ASKS)) && !mine) {
            x.pc = ASK;
            return leave(s, v, x.page);
        }
        u16 before = 0, rivals = x.mode == X ? page.has : 0;
        if (x.mode == S && page.writer < VIEWS) rivals = bit(page.writer);
        rivals &= (u16)~(bit(v) | (h != NOBODY ? bit(h) : 0));
        for (u8 i = 0; i < page.queued && page.queue[i] != v; i++) before |= bit(page.queue[i]);
        bool queues = before && (!own || on(QUEUES));
        if (!queues)
            for (int u = 0; u < VIEWS; u++)
                if (rivals & bit(u)) judge(s, v, u);
        if (queues || x.waits) {
            if (!own || on(QUEUES)) x.waits |= before;
            return join(s, v);
        }
        bool takes_back = h != NOBODY && page.has & bit(h) && (x.mode == S || page.writer == h);
        if (before && !takes_back) wrong("a view is overtaken in its queue");
        leave(s, v, x.page);
        given(s, v);
    }
    static void judge(State &s, int v, int u)
    {
        View &x = s.v[v];
        Page &page = s.p[x.page];
        if (active(s, u) && (x.mode == X || page.writer == u)) {
            x.waits |= bit(u);
            return;
        }
        if (x.mode == X) page.has &= (u16)~bit(u);
        if (page.writer == u) page.writer = NOBODY;
    }
    static void notices(State &s, int v)
    {
        for (int i = 0; i < SITES; i++)
            if (s.v[v].waits & bit(holder(i))) tell(s, holder(i), s.v[v].page, s.v[v].mode);
    }
    static void queue(State &s, int v)
    {
        Page &page = s.p[s.v[v].page];
        if (page.queue_of & bit(v)) return;
        page.queue[page.queued++] = (u8)v;
        page.queue_of |= bit(v);
    }
    static void join(State &s, int v)
    {
        notices(s, v);
        if (!on(TOLD_EARLY)) queue(s, v);
        s.v[v].pc = on(TOLD_EARLY) ? JOIN : SLEEP;
    }
    void given(State &s, int v)
    {
        View &x = s.v[v];
        Page &page = s.p[x.page];
        int h = heir(v), site = v < HOMES ? NOBODY : (v - HOMES) / 3;
        bool copy = v < HOMES || v == committer(site);
        page.has |= bit(v);
        if (h != NOBODY && !on(HEIR_LATE) && !s.site[site].dead) page.has |= bit(h);
        if (x.mode == X) page.writer = (u8)(copy ? v : h);
        if (x.mode == S && h != NOBODY && on(MADE_MORE) && page.writer == NOBODY &&
            (page.has & ~(bit(v) | bit(h))) == 0)
            page.writer = (u8)h;
        x.used[x.page] = x.mode;
        if (v < HOMES)
            uses(s, v, NOBODY, x.page, x.mode, x.seen);
        else if (v == committer(site) && s.p[x.page].version != s.site[site].seen[x.page])
            wrong("a worker stores to another version than its site has read");
        x.pc = TOOK;
    }
    /* A worker is undone: its copies go. */
    void undo(State &s, int v)
    {
        for (int p = 0; p < PAGES; p++) {
            leave(s, v, p);
            if (s.p[p].writer == v)
                s.p[p].writer = on(ABORT_KEEPS) || lost_heir(s, v) ? (u8)NOBODY : (u8)heir(v);
        }
        ends(s, v);
        s.v[v].pc = LEFT;
    }
    /* ends gives up all rights, as with KD_STRICT. */
    void ends(State &s, int v)
    {
        View &x = s.v[v];
        for (int p = 0; p < PAGES; p++) {
            if (v < HOMES || !on(KEPT) || v != getter((v - HOMES) / 3))
                s.p[p].has &= (u16)~bit(v);
            x.used[p] = x.seen[p] = 0;
        }
        x.waits = x.woken = 0;
        wake(s, v);
        s.recalled |= s.p[0].watched >> 1;
    }

    /* ---- programs at home ---- */
    void home(int v)
    {
        const View &x = now->v[v];
        const char *program = x.txn < TXNS ? sc->home[v][x.txn] : nullptr;
        if (x.pc == NEXT && program)
            step(v, "begins", [&](State &s) { s.v[v].pc = OP; });
        if (x.pc == OP) {
            const char *op = program + 2 * x.op;
            if (!*op) return step(v, "ends", [&](State &s) { home_end(s, v); });
            step(v, "touches a page", [&](State &s) {
                s.v[v].page = (u8)(op[1] - '0');
                s.v[v].mode = mode_of(*op);
                look(s, v);
            });
        }
        if (x.pc == TOOK) step(v, "goes on", [&](State &s) { s.v[v].op++; s.v[v].pc = OP; });
    }
    void home_end(State &s, int v)
    {
        View &x = s.v[v];
        for (int p = 0; p < PAGES; p++) {
            if (x.used[p] == X) publishes(s, p, x.seen[p]);
            if (s.p[p].writer == v) s.p[p].writer = NOBODY;
        }
        ends(s, v);
        x.op = 0;
        x.txn++;
        x.pc = x.txn < TXNS && sc->home[v][x.txn] ? NEXT : DONE;
    }
    void faults(int v)
    {
        const View &x = now->v[v];
        if (x.pc == JOIN)
            step(v, "stands in the queue", [&](State &s) { queue(s, v); s.v[v].pc = SLEEP; });
        if ((x.pc == SLEEP && x.woken) || x.pc == LOOK || (x.pc == ASK && !now->p[x.page].closed))
            step(v, "looks again", [&](State &s) { look(s, v); });
        if (on(HEIR_LATE) && x.pc == LEFT && v == getter((v - HOMES) / 3) && v >= HOMES)
            step(v, "passes the right on", [&](State &s) {
                s.p[s.v[v].page].has |= bit(heir(v));
                if (s.v[v].mode == X) s.p[s.v[v].page].writer = (u8)heir(v);
                s.v[v].pc = NEXT;
            });
    }

    /* ---- sites ---- */
    bool usable(const Site &x, int p, u8 mode) const
    {
        return x.right[p] >= mode && (!x.called[p] || x.used[p] >= mode);
    }
    void site(int i)
    {
        const Site &x = now->site[i];
        if (x.dead) return;
        const char *program = x.txn < TXNS ? sc->site[i][x.txn] : nullptr;
        if (program && x.pc == NEXT) runs(i, x, program + 2 * x.op);
        gets(i);
        commits(i);
        if (x.notice) site_step(i, "hears what is wanted", [&](State &s) { hears(s, i); });
        for (int p = 0; p < PAGES; p++) gives(i, x, p);
        if (now->deaths && i == 0)
            site_step(i, "DIES", [&](State &s) { dies(s); });
    }
    void runs(int i, const Site &x, const char *op)
    {
        if (!*op)
            return site_step(i, "commits", [&](State &s) {
                s.site[i].pc = OP;
                s.v[committer(i)].pc = OP;
                s.v[committer(i)].page = 0;
            });
        int p = op[1] - '0';
        u8 mode = mode_of(*op);
        bool takes_now = !usable(x, p, mode) && !x.called[p] && !x.gets && is_free(i, p, mode);
        if (takes_now && now->v[getter(i)].pc == NEXT)
            site_step(i, "takes a page at once", [&](State &s) { takes(s, i, p, mode); });
        if (usable(x, p, mode))
            site_step(i, "uses a page", [&](State &s) { used(s, i, p, mode); });
        else if (!x.called[p] && !x.gets && now->v[getter(i)].pc == NEXT)
            site_step(i, "asks for a page", [&](State &s) {
                s.site[i].gets = mode;
                View &w = s.v[getter(i)];
                w.page = (u8)p;
                w.mode = mode;
                w.pc = on(KEPT) && s.p[p].has & bit(getter(i)) && mode == S ? TOOK : LOOK;
            });
    }
    /* HO7: without a worker, in one section. */
    bool is_free(int i, int p, u8 mode) const
    {
        const Page &page = now->p[p];
        u16 rivals = mode == X ? page.has : page.writer < VIEWS ? bit(page.writer) : (u16)0;
        bool use = false;
        for (int u = 0; u < VIEWS; u++) use |= u != holder(i) && rivals & bit(u) && active(*now, u);
        return !page.closed && (!use || on(TAKES_USED)) && (!page.queued || on(TAKES_QUEUED));
    }
    void takes(State &s, int i, int p, u8 mode)
    {
        Page &page = s.p[p];
        if (page.queued) wrong("a view is overtaken in its queue");
        u8 &right = s.site[i].right[p];
        for (int u = 0; u < VIEWS && mode == X; u++)
            if (u != holder(i) && !active(s, u)) page.has &= (u16)~bit(u);
        if (mode == X) page.writer = (u8)holder(i);
        else if (page.writer != holder(i)) page.writer = NOBODY;
        page.has |= bit(holder(i));
        right = mode > right ? mode : right;
        used(s, i, p, mode);
    }
    void used(State &s, int i, int p, u8 mode)
    {
        Site &x = s.site[i];
        uses(s, NOBODY, i, p, mode, x.seen);
        x.used[p] = mode;
        x.op++;
    }
    void gets(int i)
    {
        int v = getter(i);
        if (now->v[v].pc == TOOK)
            step(v, "ends, and what it has is granted", [&](State &s) {
                View &w = s.v[v];
                Site &y = s.site[i];
                y.right[w.page] = w.mode > y.right[w.page] ? w.mode : y.right[w.page];
                y.gets = 0;
                ends(s, v);
                w.pc = on(HEIR_LATE) ? LEFT : NEXT;
                used(s, i, w.page, w.mode); /* before any call is looked at */
            });
    }
    void commits(int i)
    {
        int v = committer(i);
        const View &w = now->v[v];
        if (w.pc == OP)
            step(v, w.page < PAGES ? "comes to a page" : "publishes", [&](State &s) {
                View &y = s.v[v];
                if (y.page == PAGES) return publish(s, i);
                y.mode = X;
                if (s.site[i].used[y.page] == X) look(s, v);
                else y.page++;
            });
        if (w.pc == TOOK) {
            step(v, "goes on", [&](State &s) { s.v[v].page++; s.v[v].pc = OP; });
            if (now->undone)
                step(v, "is undone", [&](State &s) { s.undone--; undo(s, v); });
        }
        if (w.pc == LEFT) step(v, "has ended", [&](State &s) { over_at(s, i); });
    }
    void publish(State &s, int i)
    {
        int v = committer(i);
        for (int p = 0; p < PAGES; p++)
            if (s.v[v].used[p] == X) {
                publishes(s, p, s.site[i].seen[p]);
                s.p[p].writer = on(PUBLISH_KEEPS) || lost_heir(s, v) ? (u8)NOBODY : (u8)heir(v);
            }
        ends(s, v);
        s.v[v].pc = LEFT;
    }
    /* The site's transaction is over, committed or undone. */
    void over_at(State &s, int i)
    {
        Site &x = s.site[i];
        memset(x.used, 0, sizeof x.used);
        memset(x.seen, 0, sizeof x.seen);
        x.op = 0;
        x.txn++;
        x.pc = x.txn < TXNS && sc->site[i][x.txn] ? NEXT : DONE;
        s.v[committer(i)] = {};
    }
    static void call(Site &x, int p, u8 to, bool in_transit)
    {
        if (x.right[p] > to || in_transit)
            if (!x.called[p] || x.called[p] > to + 1) x.called[p] = (u8)(to + 1);
    }
    void hears(State &s, int i)
    {
        Site &x = s.site[i];
        const View &w = s.v[getter(i)];
        call(x, x.notice_page, x.notice_to, x.gets && w.page == x.notice_page && w.pc == TOOK);
        for (int v = 0; v < VIEWS && x.more; v++)
            if (s.v[v].waits & bit(holder(i)) && s.p[s.v[v].page].queue_of & bit(v))
                call(x, s.v[v].page, s.v[v].mode == X ? NONE : S,
                     x.gets && w.page == s.v[v].page && w.pc == TOOK);
        x.notice = x.more = x.notice_page = x.notice_to = 0;
    }
    void gives(int i, const Site &x, int p)
    {
        bool worked = false;
        for (int v : {getter(i), committer(i)})
            worked |= now->p[p].has & bit(v) && now->v[v].pc != NEXT;
        u8 to = x.called[p] ? (u8)(x.called[p] - 1) : (u8)NONE;
        if (!x.called[p] || x.right[p] <= NONE) return;
        if ((worked || x.used[p] > to) && !on(ANY_RELEASE)) return;
        if (on(ANY_RELEASE) && !(worked && x.used[p] > to) && x.used[p] > to) return;
        site_step(i, "gives a page back", [&](State &s) { released(s, i, p, to); });
    }
    void released(State &s, int i, int p, u8 to)
    {
        int h = holder(i);
        s.site[i].right[p] = to < s.site[i].right[p] ? to : s.site[i].right[p];
        s.site[i].called[p] = 0;
        if (to == NONE) s.p[p].has &= (u16)~bit(h);
        if (s.p[p].writer == h) s.p[p].writer = NOBODY;
        if (!on(SILENT)) wake(s, h);
        if (!on(UNTOLD)) s.recalled |= s.p[0].watched >> 1;
    }
    void dies(State &s)
    {
        int h = holder(0);
        s.deaths--;
        Site empty = {};
        s.site[0] = empty;
        s.site[0].dead = 1;
        for (auto &page : s.p) {
            page.has &= (u16)~bit(h);
            if (page.writer == h) page.writer = NOBODY;
        }
        View &get = s.v[getter(0)];
        for (int p = 0; p < PAGES; p++) leave(s, getter(0), p);
        ends(s, getter(0));
        get = {};
        if (s.v[committer(0)].pc == LEFT) s.v[committer(0)].pc = NEXT;
        wake(s, h);
        s.recalled |= s.p[0].watched >> 1;
    }
    /* A commit of a site that has died goes on by itself. */
    void orphan()
    {
        int v = committer(0);
        const View &w = now->v[v];
        if (!now->site[0].dead || !on(DEAD_HEIR)) {
            if (now->site[0].dead && w.pc != NEXT && w.pc != DONE)
                step(v, "is undone with its holder", [&](State &s) {
                    undo(s, v);
                    s.v[v] = {};
                });
            return;
        }
        if (w.pc == OP || w.pc == TOOK)
            step(v, "goes on", [&](State &s) {
                View &y = s.v[v];
                if (y.pc == TOOK) y.page++;
                y.pc = OP;
                y.mode = X;
                if (y.page < PAGES) return look(s, v);
                undo(s, v);
                y = {};
            });
    }

    /* ---- the manager, the evictor ---- */
    void manager()
    {
        const Page &page = now->p[0];
        if (now->recalls && !page.closed)
            step_of([] { return std::string("manager "); }, "calls a page back", [&](State &s) {
                s.recalls--;
                s.p[0].closed = 1;
                recall(s);
            });
        if (page.closed && (now->recalled || !(page.watched >> 1)))
            step_of([] { return std::string("manager "); }, "calls it back again", [&](State &s) {
                s.recalled = 0;
                recall(s);
                if (s.p[0].watched >> 1) return;
                s.p[0].closed = s.p[0].watched = 0;
            });
        if (on(FORGOTTEN))
            for (int p = 0; p < PAGES; p++)
                if (now->p[p].has && now->p[p].writer == NOBODY)
                    step_of([] { return std::string("evictor "); }, "forgets a page",
                            [&](State &s) {
                        for (int i = 0; i < SITES; i++) s.p[p].has &= (u16)~bit(holder(i));
                    });
    }
    /* watched: 2 if somebody uses page 0, who is told of */
    void recall(State &s)
    {
        Page &page = s.p[0];
        page.watched = 0;
        for (int v = 0; v < VIEWS; v++) {
            if (!(page.has & bit(v))) continue;
            if (active(s, v)) page.watched = 2;
            else page.has &= (u16)~bit(v);
            if (!active(s, v) && page.writer == v) page.writer = NOBODY;
            if (active(s, v) && is_holder(v)) tell(s, v, 0, X);
        }
    }

    /* ---- all steps ---- */
    static bool over(const State &s)
    {
        bool all = true;
        for (int v = 0; v < HOMES; v++) all &= s.v[v].pc == DONE;
        for (auto &x : s.site) all &= x.pc == DONE || x.dead;
        return all;
    }
    static State start_of(const Scenario &sc)
    {
        State s = {};
        s.recalls = sc.recalls;
        s.undone = sc.undone;
        s.deaths = sc.deaths;
        for (auto &page : s.p) page.writer = NOBODY;
        for (int v = 0; v < HOMES; v++)
            if (!sc.home[v][0]) s.v[v].pc = DONE;
        for (int i = 0; i < SITES; i++)
            if (!sc.site[i][0]) s.site[i].pc = DONE;
        return s;
    }
    void successors(const State &s, bool want_names, std::vector<Successor<State>> &result)
    {
        now = &s;
        out = &result;
        names = want_names;
        in_state = false;
        for (int v = 0; v < VIEWS && error.empty(); v++) {
            if (v < HOMES) home(v);
            if (!is_holder(v)) faults(v);
        }
        for (int i = 0; i < SITES && error.empty(); i++) site(i);
        if (error.empty()) orphan();
        if (error.empty()) manager();
        in_state = true;
        if (error.empty() && result.empty() && !over(s)) wrong("somebody waits for ever");
    }
};

#include "site_holders.h"
int main(int argc, char **argv)
{
    return commands<Model>("model-holders", scenarios, argc, argv);
}
