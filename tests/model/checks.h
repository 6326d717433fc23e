/*
 * checks.h - what all parts of the model share: the scenario, steps, small operations on the state,
 * and the properties, numbered as in model.md.
 */
#pragma once
#include "engine.h"
#include <utility>
#include "rules.h"
#include "state.h"

struct Scenario {
    const char *name, *what;
    std::vector<std::vector<std::string>> program; /* per view, per transaction: "r0w1", "S..."
                                                      snapshot; a, b: r, w at a second address;
                                                      x: KD_HINT_EXCLUSIVE; g: KD_TXN_RELEASE;
                                                      L, M, E: lock.h */
    int pages = 2;
    bool speculate = false, drop = false, migrate = false, group = false, overlap = false,
         rmw = false, hand = false,
         heavy = false /* view 0 is, and the others are not */,
         loses = false /* a published page that was spilled */,
         escalates = false; /* the container does: L, M and E by policy, too */
    int lazy = 0; /* bit v: view v's commits are answered before they are durable */
    int evictions = 0, kills = 0, deaths = 0, refusals = 0, credits = 0, stales = 0, flushfails = 0,
        spills = 0, timeouts = 0, suspends = 0 /* views 0 and 1 are one thread's */, bound = 3,
        forgets = 0, asks = 0 /* rights are given for one touch (1), for all (2), either way (3) */,
        order = 0 /* its manager answers one question of a page behind the other */,
        recalls = 0, remotes = 0 /* commits of a writer elsewhere */,
        destroys = 0 /* the object of page 0 is; commits are told in two calls of KD_TXN_DIFF */;
    std::vector<int> cpu = {0, 1, 0, 1};
    std::vector<int> lead; /* the search begins where these views went, one after the other and
                              alone: each on to its next operation but one, or asleep */
};

struct Checks {
    const Scenario &sc;
    Rules rules;
    std::string error;
    mutable bool mattered = false; /* a step looked at a rule that is switched */
    bool in_state = false; /* the error is the state itself (a hang), not a step out of it */
    int views, total;
    const State *cur = nullptr;
    std::vector<Successor<State>> *out = nullptr;
    bool names = false;
    int progress = 0;
    const char *what = ""; /* the step */

    Checks(const Scenario &scenario, Rules rules)
        : sc(scenario), rules(rules), views(scenario.program.size())
    {
        total = 0;
        for (auto &p : sc.program) total += p.size();
        total += sc.remotes;
    }

    State start()
    {
        State s;
        memset(&s, 0, sizeof s);
        for (int v = 0; v < views; v++) s.v[v].cpu = sc.cpu[v];
        for (int v = views; v-- > 0;) s.c[sc.cpu[v]].table1 = v + 1;
        for (int p = 0; p < sc.pages; p++) {
            s.f[p].used = 1;
            s.p[p].frame1 = p + 1;
            s.p[p].lacks = sc.asks ? 3 : 0;
        }
        s.recalls = sc.recalls;
        s.remotes = sc.remotes;
        s.evictions = sc.evictions;
        s.kills = sc.kills;
        s.deaths = sc.deaths;
        s.refusals = sc.refusals;
        s.pool = sc.credits;
        s.stales = sc.stales;
        s.flushfails = sc.flushfails;
        s.spills = sc.spills;
        s.timeouts = sc.timeouts;
        s.suspends = sc.suspends;
        s.destroys = sc.destroys;
        s.forgets = sc.forgets;
        return s;
    }

    /* ---- small things ---- */
    bool on(Rule r) const { return rules == r && (mattered = true); }
    void fail(const std::string &text)
    {
        if (error.empty()) error = text;
    }
    void faults(View &n) const { n.faults += sc.escalates && n.faults < 2; }
    int all() const { return (1 << views) - 1; }
    bool snapshots() const
    {
        for (int v = 0; v < views; v++)
            if (snapshot_view(v)) return true;
        return false;
    }
    bool snapshot_view(int v) const { return sc.program[v][0][0] == 'S'; }
    bool finished(const State &s, int v) const
    {
        return s.v[v].pc == DONE || (s.v[v].pc == NEXT && s.v[v].number >= sc.program[v].size());
    }
    bool suspended(const State &s, int v) const { return sc.suspends && v < 2 && s.entered != v; }
    void enter(State &s, int v)
    { /* KD_VIEW_ENTER: another table, so nothing stays in the TLB */
        int c = s.v[v].cpu;
        s.entered = v;
        s.c[c].table1 = v + 1;
        s.c[c].walk1 = 0;
        if (!on(BUG_ENTER_NO_FLUSH)) flush_all(s, c);
    }
    int token(const State &s, int v) const
    {
        int t = 1;
        for (int u = 0; u < v; u++) t += sc.program[u].size();
        return t + s.v[v].number;
    }
    const std::string &body(const State &s, int v) const { return sc.program[v][s.v[v].number]; }
    bool operation(const State &s, int v, char &kind, int &page) const
    {
        size_t i = (body(s, v)[0] == 'S') + 2 * s.v[v].op;
        if (i >= body(s, v).size()) return false;
        kind = body(s, v)[i];
        page = body(s, v)[i + 1] - '0';
        return true;
    }
    template <class F> void step(bool forward, const char *text, int v, int p, F change)
    {
        if (!error.empty()) return;
        std::string label;
        if (names) {
            label = text;
            if (v >= 0) label = "V" + std::to_string(v) + " " + label;
            if (p >= 0) label += " p" + std::to_string(p);
        }
        out->push_back({*cur, label});
        State &s = out->back().s;
        what = text;
        change(s);
        aliases_follow(s);
        if (error.empty()) invariants(s);
        progress += forward;
    }

    /* ---- aliases: entries for a page's second address (kernel/store/mapping.md) ---- */
    static u8 alias_of(const Pte &e) { return (e.frame + 1) | (e.right == COPY ? ALIAS_WRITE : 0); }
    static bool alias_suffices(u8 alias1, bool write)
    {
        return alias1 && (!write || alias1 & ALIAS_WRITE);
    }
    static bool is_private(const Pte &e) { return e.right == COPY || e.right == FROZEN; }
    /* Does a switched rule leave the alias where the entry became `is`? */
    bool alias_stays(const State &s, int v, const Pte &was, const Pte &is) const
    {
        bool evicted = !strncmp(what, "EV3", 3);
        return is.right == COPY ? on(BUG_ALIAS_COPY)
               : is.right == FROZEN || (was.right == FROZEN && is.right == SHARED)
                   ? on(BUG_ALIAS_PUBLISH)
               : is.right == SPILLED ? on(BUG_ALIAS_SPILL)
               : is.right == HELD || evicted ? on(BUG_ALIAS_EVICT)
               : s.death.pc || s.dead ? on(BUG_ALIAS_DEATH)
               : is_private(was) && is.right == EMPTY ? on(BUG_ALIAS_ABORT)
               : is.right == EMPTY && snapshot_view(v) ? on(BUG_ALIAS_VERSION)
               : is.right == EMPTY && on(BUG_ALIAS_TAKE);
    }
    /* WI2: what changes an entry takes its aliases in the same section. What the owner does to its
     * own it flushes at each address; others have a shootdown due. */
    void aliases_follow(State &s)
    {
        for (int v = 0; v < views; v++)
            for (int p = 0; p < sc.pages; p++) {
                const Pte &was = cur->v[v].pte[p], &is = s.v[v].pte[p];
                bool same = was.right == is.right && was.frame == is.frame &&
                            !(was.used & ~is.used & 1);
                if (!cur->v[v].alias1[p] || same || alias_stays(s, v, was, is)) continue;
                s.v[v].alias1[p] = 0;
                bool own = is.right == COPY || is.right == FROZEN || is_private(was);
                if (own && is.right != SPILLED && s.c[s.v[v].cpu].table1 == v + 1 &&
                    !on(BUG_ALIAS_INVLPG))
                    flush_at(s, s.v[v].cpu, NP + p);
            }
    }

    static bool sufficient(const Pte &e, int want)
    {
        return want == 1 ? e.right == COPY
                         : e.right == SHARED || e.right == COPY || e.right == FROZEN;
    }
    int frame_new(State &s)
    {
        for (int f = 0; f < NF; f++)
            if (!s.f[f].used) {
                s.f[f].used = 1;
                return f;
            }
        fail("model: out of frames");
        return 0;
    }
    void frame_free(State &s, int f)
    {
        aliases_follow(s); /* the entry has changed */
        for (int v = 0; v < views; v++)
            for (int p = 0; p < sc.pages; p++) {
                Pte &e = s.v[v].pte[p];
                if (e.frame == f && (e.right == SHARED || e.right == COPY || e.right == FROZEN))
                    fail("(4) a frame is freed that a page table maps");
                if ((s.v[v].alias1[p] & ~ALIAS_WRITE) == f + 1)
                    fail("(4) a frame is freed that an alias maps");
            }
        for (int c = 0; c < NC; c++)
            for (auto &t : s.c[c].tlb)
                if (t.frame1 == f + 1 && s.c[c].table1 && s.v[s.c[c].table1 - 1].cpu == c)
                    fail("(4) a frame is freed that a TLB holds");
        s.f[f].used = 0;
        s.f[f].content = 0;
    }
    void flush_at(State &s, int c, int at) { s.c[c].tlb[at].frame1 = s.c[c].tlb[at].write = 0; }
    void flush(State &s, int c, int p)
    { /* a shootdown: all of the TLB in the kernel, so both addresses */
        flush_at(s, c, p);
        flush_at(s, c, NP + p);
    }
    void flush_all(State &s, int c)
    {
        for (int p = 0; p < sc.pages; p++) flush(s, c, p);
    }
    void local_flush(State &s, int v, int p)
    {
        int c = s.v[v].cpu;
        if (s.c[c].table1 == v + 1) {
            if (p < 0) flush_all(s, c);
            else flush_at(s, c, p); /* invlpg */
        }
    }
    void set_empty(Pte &e)
    {
        e.right = EMPTY;
        e.frame = e.used = 0;
    }
    void wake_waiters(State &s, int v)
    {
        if (on(BUG_WAKE_LOST)) return;
        for (int u = 0; u < views; u++)
            if (s.v[u].waits >> v & 1) {
                s.v[u].woken = 1;
                if (!on(TEXT_WAIT_STALE)) s.v[u].waits &= ~(1 << v);
            }
    }
    void wake_credit(State &s)
    {
        for (int u = 0; u < views; u++)
            if (s.v[u].pc == CREDITWAIT) s.v[u].woken = 1;
    }
    int queue_index(const State &s, int v, int p) const
    {
        for (int i = 0; i < s.p[p].queued; i++)
            if (s.p[p].queue[i] == v) return i;
        return -1;
    }
    void queue_leave(State &s, int v, int p)
    {
        Page &g = s.p[p];
        int i = queue_index(s, v, p);
        if (i < 0) return;
        for (; i + 1 < g.queued; i++) g.queue[i] = g.queue[i + 1];
        g.queue[--g.queued] = 0;
        for (i = 0; i < g.queued; i++) {
            View &u = s.v[g.queue[i]];
            bool waited = u.waits >> v & 1;
            if (!on(TEXT_QUEUE_EDGES)) u.waits &= ~(1 << v);
            if (!on(TEXT_NO_WAKE_NEXT) && (!i || (waited && !u.waits && !on(TEXT_QUEUE_NO_WAKE))))
                u.woken = 1;
        }
    }
    void queue_join(State &s, int v, int p, bool front)
    {
        Page &g = s.p[p];
        int at = front ? 0 : g.queued;
        for (int i = g.queued++; i > at; i--) g.queue[i] = g.queue[i - 1];
        g.queue[at] = v;
    }
    void give_up_rights(State &s, int v)
    {
        for (int p = 0; p < sc.pages; p++)
            if (s.v[v].pte[p].right == SHARED || s.v[v].pte[p].right == HELD)
                set_empty(s.v[v].pte[p]);
        local_flush(s, v, -1);
    }
    bool in_tlb(const Pte &e) const
    {
        return on(TEXT_SHOOT_A) ? e.used & 1 : e.used;
    } /* may a TLB hold it? */

    void use(State &s, int p, int v) const
    {
        s.p[p].mask |= 1 << v;
        if (sc.group) s.users |= 1 << v;
    }

    /* ---- shootdowns ---- */
    int ipi_page(const State &s, int who)
    {
        return who == IPI_EVICT   ? s.evict.page
               : who == IPI_GC    ? s.gc.page
               : who == IPI_DEATH ? s.death.page
               : who == IPI_RECALL ? s.recall.page
                                  : s.v[who].page;
    }
    void send(State &s, int who, int cpus)
    {
        for (int c = 0; c < NC; c++)
            if (cpus >> c & 1 && !on(BUG_NO_SHOOTDOWN)) s.c[c].ipi |= 1 << who;
    }
    static bool awaited(const State &s, int who)
    {
        for (auto &c : s.c)
            if (c.ipi >> who & 1) return true;
        return false;
    }

    /* ---- properties ---- */
    virtual void versions_kept(State &s) = 0;
    virtual void rights_hold(State &s) = 0;
    virtual void recalls_over(const State &s) = 0;
    void invariants(State &s)
    {
        versions_kept(s);
        rights_hold(s);
        int credits = s.pool + s.consumed;
        for (int v = 0; v < views; v++) {
            credits += s.v[v].credits;
            if (snapshot_view(v)) continue;
            for (int p = 0; p < sc.pages; p++) {
                const Pte &e = s.v[v].pte[p];
                if (e.right != EMPTY && s.p[p].frame1 && !(s.p[p].mask >> v & 1))
                    fail("a right is not in the mask");
                if (e.right != COPY && e.right != FROZEN && e.right != SPILLED) continue;
                if (s.p[p].writer1 != v + 1) fail("`writer` is not exact");
                if (!s.v[v].copy1[p] && e.right != SPILLED) fail("a COPY without its copy");
                for (int u = 0; u < views; u++) {
                    if (u == v || snapshot_view(u)) continue;
                    if (s.v[u].pte[p].right != EMPTY)
                        fail("(1) a COPY and a right of another view");
                    for (int at = p; at < 2 * NP; at += NP)
                        if (s.c[s.v[u].cpu].table1 == u + 1 && s.c[s.v[u].cpu].tlb[at].frame1)
                            fail("(1) a COPY and a TLB entry of another view");
                }
            }
        }
        for (int p = 0; p < sc.pages; p++) {
            const Page &g = s.p[p];
            if (!g.queued || g.lock || s.dead) continue;
            const View &n = s.v[g.queue[0]];
            bool blocked = n.pc != SLEEP || n.woken || n.doom;
            for (int u = 0; u < views; u++)
                if (n.waits >> u & 1 &&
                    (s.v[u].doom || s.v[u].pc == ABORT || s.v[u].state == COMMITTING ||
                     s.clock1 == u + 1 || (s.v[u].pc >= END1 && s.v[u].pc <= END3) ||
                     (n.want ? s.v[u].pte[p].right != EMPTY : g.writer1 == u + 1)))
                    blocked = true;
            if (!blocked) fail("(5) the head of a queue sleeps though nothing blocks it");
        }
        for (int v = 0; v < views; v++) { /* (10), of a lock that was drained */
            bool exclusive = s.clock1 == v + 1;
            if (!(exclusive || s.shared >> v & 1) || s.drainer1 == v + 1) continue;
            for (int u = 0; u < views; u++)
                for (int p = 0; p < sc.pages && u != v && !snapshot_view(u); p++) {
                    const Pte &e = s.v[u].pte[p];
                    if (exclusive ? e.right != EMPTY
                                  : e.right == COPY || e.right == FROZEN || e.right == SPILLED)
                        fail("(10) a right of another view in a locked container");
                }
        }
        if (sc.credits && credits != sc.credits) fail("(7) credits are not conserved");
    }
    /* (13) Would a power cut keep the group with this csn, and so all before it? */
    static bool survives(const State &s, int csn)
    {
        int upto = (1 << csn) - 1;
        return (s.durable & upto) == upto;
    }
    static bool committed(const Txn &t) { return t.state >= LOGGED && t.state <= ACKED; }
    int next_writer(const State &s, int p, int after)
    { /* the transaction that made the version after `after` of page p */
        int best = 0, base = after ? s.t[after].csn : 0;
        for (int t = 1; t <= total; t++)
            if (committed(s.t[t]) && (s.t[t].wrote >> p & 1) && s.t[t].csn > base &&
                (!best || s.t[t].csn < s.t[best].csn))
                best = t;
        return best;
    }
    void serialisable(State &s)
    { /* (2), strict: real-time order counts; running transactions one at a time */
        int done = 0;
        for (int t = 1; t <= total; t++)
            if (committed(s.t[t])) done |= 1 << t;
        for (int extra = 0; extra <= total; extra++) {
            if (extra && s.t[extra].state != RUNNING) continue;
            int nodes = done | (extra ? 1 << extra : 0), edge[NT + 1] = {};
            for (int t = 1; t <= total; t++) {
                if (!(nodes >> t & 1)) continue;
                for (int u = 1; u <= total; u++)
                    if (s.t[t].before >> u & 1 & nodes >> u) edge[u] |= 1 << t;
                for (int p = 0; p < sc.pages; p++)
                    for (int x = 0; x <= total; x++) {
                        if (!(s.t[t].reads[p] >> x & 1)) continue;
                        if (x && x != t) edge[x] |= 1 << t;
                        int n = next_writer(s, p, x);
                        if (n && n != t) edge[t] |= 1 << n;
                        if (n && x) edge[x] |= 1 << n;
                    }
            }
            for (int k = 1; k <= total; k++)
                for (int i = 1; i <= total; i++)
                    if (edge[i] >> k & 1) edge[i] |= edge[k];
            for (int i = 1; i <= total; i++)
                if (edge[i] >> i & 1) {
                    fail(extra ? "(2) a running transaction sees no serial order"
                               : "(2) the committed history is not strictly serialisable");
                    return;
                }
        }
    }
    void record_read(State &s, int v, int p, int content)
    {
        int me = token(s, v);
        if (content == me) return;
        if (s.t[me].wrote >> p & 1) {
            fail("(2) a transaction does not see its own store");
            return;
        }
        if (content && !committed(s.t[content])) {
            fail("(6) a read saw bytes of a transaction that is not logged");
            return;
        }
        if (snapshot_view(v)) {
            int right_one = 0, csn = s.v[v].snap1 - 1;
            for (int t = 1; t <= total; t++)
                if (committed(s.t[t]) && (s.t[t].wrote >> p & 1) && s.t[t].csn <= csn &&
                    (!right_one || s.t[t].csn > s.t[right_one].csn))
                    right_one = t;
            if (content != right_one) fail("(3) a snapshot read the wrong version");
        }
        s.t[me].reads[p] |= 1 << content;
        serialisable(s);
    }
    void finish(const State &s)
    { /* no step leads forward any more */
        for (int v = 0; v < views; v++)
            if (!finished(s, v)) {
                fail("(5) V" + std::to_string(v) + " is blocked for ever");
                in_state = true;
                return;
            }
        int used = 0, owed = 0;
        for (int f = 0; f < NF; f++) used += s.f[f].used;
        for (int p = 0; p < sc.pages; p++) {
            owed += s.p[p].frame1 != 0;
            for (auto &o : s.p[p].old) owed += o.frame1 != 0;
            if (s.p[p].queued || s.p[p].lock) fail("(7) a queue or a lock is left over");
        }
        if (used != owed) fail("(7) frames are not conserved");
        recalls_over(s);
        in_state = !error.empty();
    }
};
