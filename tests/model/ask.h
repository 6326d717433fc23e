/*
 * ask.h - rights that the manager gives the kernel, and calls back (kernel/store/recall.md).
 *
 * A page lacks rights that the kernel does not have: who wants one asks, by a question with a
 * number. The manager gives the right for that touch, or for all. It calls a right back in steps:
 * the page is closed to newcomers, idle views lose theirs; where transactions use the page, their
 * ends tell the manager, which calls back again. With the page's right a writer elsewhere
 * (`remotes`) changes the page.
 *
 * A manager with an order (`order`) keeps what it was asked, and answers the first question of a
 * page when its turn has come, which it never does for who has gone. A thread of its receives,
 * keeps, and looks then whether the question stands; another one hears RECALLED, and looks at all
 * that is kept.
 *
 * What is only for the properties: `allowed`, what the manager said yes to in this transaction;
 * `given`, what it gave for the touch;
 * `site`, what it gave for all and did not get back; `back`, what it got back from every view;
 * `late`, pages that were closed when the transaction began.
 */
#pragma once
#include "lock.h"

struct Ask : Lock {
    using Lock::Lock;
    enum { NOTHING, POSTED, RECEIVED, PROMISED, REFUSES }; /* View.asked */
    enum { R = 1, W = 2, ONE = 1, ALL = 2 };               /* rights; Scenario.asks */

    static int access_of(const View &n) { return n.want ? W : R; }
    static bool uses(const Pte &e)
    {
        return e.right == HELD || e.right == COPY || e.right == FROZEN || e.right == SPILLED ||
               (e.right == SHARED && e.used);
    }
    /* Has the view, for this access, the right that is called back? Who read the page since the
     * right to write was called back has none to write. */
    static bool keeps(const Page &g, const View &n, int v, int p, int access)
    {
        return uses(n.pte[p]) && !(access == W && g.recalled == W && g.writer1 != v + 1);
    }
    /* What the manager gave the view for the touch that it is at: it holds to the touch's end. */
    int word(const View &n, int p) const
    {
        if (n.askpage1 != p + 1 || n.asked != PROMISED) return 0;
        return n.word | (on(BUG_ASK_READ) ? W : 0);
    }
    void granted(const State &s, int v, int p, int access)
    {
        if (!sc.asks) return;
        const View &n = s.v[v];
        const Page &g = s.p[p];
        int has = n.allowed[p], called = keeps(g, n, v, p, access) ? 0 : g.recalled;
        if ((has ? has >= access : access == R && uses(n.pte[p])) || g.site & ~called & access ||
            n.given & access)
            return;
        fail(called & access ? "(14) a newcomer gets a right that is called back"
                             : "(11) a right that the manager did not give");
    }
    /* Is the page closed to the view? Then a step asks. */
    bool ask_manager(int v)
    {
        const View &V = cur->v[v];
        const Page &g = cur->p[V.page];
        int p = V.page, access = access_of(V), closed = g.lacks;
        if (!sc.asks || (access == R && uses(V.pte[p]))) return true;
        if (!keeps(g, V, v, p, access) && !on(BUG_RECALL_OPEN)) closed |= g.recalled;
        if (!(access & closed & ~word(V, p)) || (on(BUG_ASK_FAST) && V.allowed[1 - p])) return true;
        step(true, access == W ? "asks, store" : "asks, load", v, p, [&](State &s) {
            View &n = s.v[v];
            n.asknum = n.asknum % 7 + 1;
            n.askpage1 = p + 1;
            n.askaccess = access;
            n.asked = POSTED;
            n.woken = n.word = 0;
            n.pc = ASKWAIT;
        });
        return false;
    }
    void ask_ends(View &n) { n.asked = n.askpage1 = n.askaccess = n.word = n.given = 0; }
    void hand_ends(View &n) { n.handnum = n.handpage = n.handaccess = n.place = n.look = 0; }
    void asks_no_more(State &s, int v)
    { /* page_request: its manager has received the question, and has not answered */
        View &n = s.v[v];
        if (sc.order && n.asked == RECEIVED && !on(BUG_ASK_GONE)) s.p[n.askpage1 - 1].told = 1;
        ask_ends(n);
    }
    void ask_sleeps(int v)
    {
        const View &V = cur->v[v];
        if (V.asked == PROMISED)
            step(true, "is given a right", v, V.page, [&](State &s) { s.v[v].pc = FAULT; });
        else if (V.asked == REFUSES || V.doom || (V.woken && (cur->dead || V.epoch != cur->epoch)))
            step(true, V.doom ? "asks no more, doomed" : "is refused", v, V.page, [&](State &s) {
                View &n = s.v[v];
                if (!n.doom) n.doom = V.asked == REFUSES ? REFUSED : MANAGER_DEAD;
                asks_no_more(s, v);
                n.pc = FAULT;
            });
        else if (cur->timeouts)
            step(false, "asks no more, its time is up", v, V.page, [&](State &s) {
                s.timeouts--;
                s.v[v].doom = REFUSED;
                asks_no_more(s, v);
                s.v[v].pc = FAULT;
            });
    }

    /* ---- the manager gives rights ---- */
    void answers(int v)
    {
        const View &V = cur->v[v];
        if (cur->dead) return;
        if (V.asked == POSTED && !V.handnum)
            step(true, "the manager receives PAGE", v, V.askpage1 - 1, [&](State &s) {
                View &n = s.v[v];
                n.asked = RECEIVED;
                n.handnum = n.asknum;
                n.handpage = n.askpage1 - 1;
                n.handaccess = n.askaccess;
            });
        if (!V.handnum || cur->p[V.handpage].lock) return;
        if (sc.order && !in_order(v)) return;
        if (sc.asks & ONE)
            step(true, "the manager gives the right for this touch", v, V.handpage,
                 [&](State &s) { give(s, v, ONE); });
        if (sc.asks & ALL)
            step(true, "the manager gives the right for all", v, V.handpage,
                 [&](State &s) { give(s, v, ALL); });
        if (cur->refusals)
            step(false, "the manager gives no right", v, V.handpage, [&](State &s) {
                View &n = s.v[v];
                s.refusals--;
                if (open(n, n)) n.asked = REFUSES;
                hand_ends(n);
            });
    }
    /* What the manager does with its order; true: it answers this one now. */
    bool in_order(int v)
    {
        const View &V = cur->v[v];
        bool first = true, stands = open(V, V);
        if (V.look)
            step(true, "the manager looks whether the question stands", v, V.handpage,
                 [&](State &s) {
                     s.v[v].look = 0;
                     if (!stands) hand_ends(s.v[v]);
                 });
        if (!V.place)
            step(true, "the manager keeps the question", v, V.handpage, [&](State &s) {
                View &n = s.v[v];
                for (int u = 0; u < views; u++)
                    if (s.v[u].place > n.place) n.place = s.v[u].place;
                n.place++;
                n.look = !on(TEXT_KEPT_UNSEEN);
            });
        for (int u = 0; u < views; u++) {
            const View &o = cur->v[u];
            first &= !o.place || o.handpage != V.handpage || o.place >= V.place;
        }
        return V.place && !V.look && first && stands;
    }
    void hears(State &s, int p)
    {
        s.p[p].told = 0;
        for (int v = 0; v < views; v++)
            if (s.v[v].place && s.v[v].handpage == p && !open(s.v[v], s.v[v])) hand_ends(s.v[v]);
    }
    void order_holds(State &s)
    {
        for (int v = 0; v < views && sc.order && !s.dead; v++) {
            const View &n = s.v[v];
            if (n.place && !n.look && !open(n, n) && !s.p[n.handpage].told)
                fail("(16) the manager keeps a question that nobody asks any more");
        }
    }
    /* Does the view wait for the question that the manager has in hand of `of`? */
    bool open(const View &n, const View &of) const
    {
        return (n.asked == POSTED || n.asked == RECEIVED) && n.askpage1 == of.handpage + 1 &&
               (n.asknum == of.handnum || on(BUG_ASK_ANY));
    }
    void give(State &s, int v, int whom)
    {
        View &n = s.v[v];
        int p = n.handpage, rights = n.handaccess == W ? R | W : R;
        Page &g = s.p[p];
        g.back &= ~rights;
        if (open(n, n)) {
            n.asked = PROMISED;
            n.word = rights;
            if (n.asknum == n.handnum) n.allowed[p] |= n.given = rights;
        }
        for (int u = 0; u < views && whom == ALL; u++) {
            View &o = s.v[u];
            o.closed &= ~(1 << p);
            if ((o.asked != POSTED && o.asked != RECEIVED) || o.askpage1 != p + 1) continue;
            o.asked = PROMISED;
            o.word = o.given = rights;
        }
        if (whom == ALL) {
            g.lacks &= ~rights;
            g.recalled &= ~rights;
            g.site |= rights;
        }
        hand_ends(n);
    }
    void asks_over(State &s, int v)
    { /* view_idle */
        View &n = s.v[v];
        if (!on(BUG_ASK_KEPT)) ask_ends(n);
        memset(n.allowed, 0, sizeof n.allowed);
        n.closed = n.given = 0;
        int free = 0, used = 0;
        for (int p = 0; p < sc.pages; p++) {
            Page &g = s.p[p];
            if (g.users == 1 << v) free |= 1 << p;
            g.users &= ~(1 << v);
            used |= g.users;
        }
        for (int p = 0; p < sc.pages; p++) {
            if (!(free >> p & 1)) continue;
            s.p[p].told = !on(BUG_RECALL_TOLD) && !(on(BUG_RECALL_LAST) && used);
            if (!s.p[p].told) fail("(15) nobody tells that the last user of a page has ended");
        }
    }

    /* ---- and calls them back: KD_OBJECT_RECALL of a page, its leaf locked ---- */
    void recall_begins(State &s, int p, int take, bool leaves)
    {
        Page &g = s.p[p];
        g.lock = LOCK_RECALL;
        g.recalled |= take;
        g.told = 0;
        s.recall = {1, (u8)p, (u8)all(), 0, 0};
        s.taking = take;
        s.leaves = leaves;
    }
    void recalls()
    {
        const State &S = *cur;
        const Sweep &r = S.recall;
        for (int p = 0; p < sc.pages && !r.pc && !S.dead; p++) {
            const Page &g = S.p[p];
            if (g.lock) continue;
            if (g.told && sc.order)
                step(true, "RECALLED: the manager looks at what it keeps", -1, p,
                     [&](State &s) { hears(s, p); });
            else if (g.told && g.recalled)
                step(true, "RECALLED: the manager calls back again", -1, p, [&](State &s) {
                    recall_begins(s, p, g.recalled, true);
                });
            if (S.recalls && !g.told) {
                step(false, "KD_OBJECT_RECALL, to read", -1, p, [&](State &s) {
                    s.recalls--;
                    recall_begins(s, p, W, false);
                });
                step(false, "KD_OBJECT_RECALL, to none", -1, p, [&](State &s) {
                    s.recalls--;
                    recall_begins(s, p, R | W, true);
                });
            }
        }
        int w = 0;
        while (r.cand && !(r.cand >> w & 1)) w++;
        if (r.pc == 1 && r.cand)
            step(true, "KD_OBJECT_RECALL looks", w, r.page, [&](State &s) { recall_looks(s, w); });
        if (r.pc == 1 && !r.cand)
            step(true, "KD_OBJECT_RECALL: shootdown", -1, r.page, [&](State &s) {
                if (!on(BUG_RECALL_TLB)) send(s, IPI_RECALL, r.shoot);
                s.recall.pc = 2;
            });
        if (r.pc == 2 && !awaited(S, IPI_RECALL))
            step(true, r.index ? "KD_OBJECT_RECALL: it is used" : "KD_OBJECT_RECALL: it is back",
                 -1, r.page, [&](State &s) { recall_ends(s); });
    }
    void recall_looks(State &s, int w)
    {
        View &o = s.v[w];
        Pte &e = o.pte[s.recall.page];
        Page &g = s.p[s.recall.page];
        s.recall.cand &= ~(1 << w);
        bool none = s.taking & R, writes = g.writer1 == w + 1;
        bool idle = o.state == IDLE || o.untouched;
        bool used = uses(e) && !idle && !(on(BUG_RECALL_COMMITS) && o.state == COMMITTING);
        bool promised = word(o, s.recall.page) & s.taking && !on(BUG_RECALL_FIRST);
        if (snapshot_view(w)) return;
        if ((used && (none || (writes && !on(BUG_RECALL_WRITER)))) || promised) {
            s.recall.index |= 1 << w;
            if (!on(TEXT_RECALL_LATE)) g.users |= 1 << w;
            o.owed |= !on(BUG_RECALL_OWED);
        } else if (none && e.right != EMPTY && !(idle && on(BUG_RECALL_IDLE))) {
            if (e.used) { /* in_tlb */
                s.recall.shoot |= 1 << o.cpu;
                o.stale = 1;
            }
            set_empty(e);
            g.mask &= ~(1 << w);
            if (writes) g.writer1 = 0;
        } else if (writes && e.right != COPY && e.right != FROZEN && e.right != SPILLED) {
            g.writer1 = 0; /* it keeps a shared right */
        }
    }
    void recall_ends(State &s)
    {
        Page &g = s.p[s.recall.page];
        int p = s.recall.page, users = s.recall.index;
        g.lock = 0;
        if (on(TEXT_RECALL_LATE)) g.users |= users;
        if (!users) {
            g.lacks |= s.taking;
            g.recalled &= ~s.taking;
            g.site &= ~s.taking;
            g.back |= s.taking;
            for (int v = 0; v < views; v++)
                if (s.v[v].asked == PROMISED && s.v[v].askpage1 == p + 1 && s.v[v].word & s.taking)
                    fail("(15) a right goes before its first use");
            bool old = false;
            for (auto &o : g.old) old |= o.frame1 != 0;
            if (s.leaves && s.taking & R && g.frame1 && !g.dirty && !old && !g.writer1) {
                int f = g.frame1 - 1;
                g.frame1 = 0;
                frame_free(s, f);
            }
        }
        if (g.queued) s.v[g.queue[0]].woken = 1; /* waiters_wake */
        s.recall = {};
        s.taking = s.leaves = 0;
    }
    /* A writer elsewhere: it has the right to the page that was called back. */
    void remote()
    {
        const State &S = *cur;
        for (int p = 0; p < sc.pages && S.remotes && !S.dead && !S.recall.pc; p++) {
            const Page &g = S.p[p];
            if (g.back != (R | W) || g.frame1 || g.dirty || g.lock) continue;
            step(false, "A WRITER ELSEWHERE COMMITS", -1, p, [&](State &s) {
                int me = total + 1 - s.remotes--;
                Txn &t = s.t[me];
                t.csn = ++s.csn;
                s.written |= 1 << (t.csn - 1);
                s.durable |= 1 << (t.csn - 1);
                t.wrote = 1 << p;
                t.reads[p] = 1 << g.home;
                for (int u = 1; u <= total; u++)
                    if (s.t[u].state == ACKED) t.before |= 1 << u;
                t.state = ACKED;
                s.p[p].home = me;
                s.p[p].homecsn = t.csn;
                serialisable(s);
            });
        }
    }
    void rights_hold(State &s) override
    { /* (14) What the manager got back no view has. */
        order_holds(s);
        for (int p = 0; p < sc.pages && sc.asks && !s.dead; p++) {
            const Page &g = s.p[p];
            for (int v = 0; v < views; v++) {
                const Pte &e = s.v[v].pte[p];
                if (snapshot_view(v)) continue;
                if (g.back & R && (e.right != EMPTY || (s.c[s.v[v].cpu].table1 == v + 1 &&
                                                        s.c[s.v[v].cpu].tlb[p].frame1)))
                    fail("(14) a right that was called back");
                if (g.back & W && (e.right == COPY || e.right == FROZEN || e.right == SPILLED))
                    fail("(14) a copy, and its right was called back");
            }
        }
    }
    void used_now(const State &s, int v, int p)
    { /* (14) A load or store of a transaction that began behind the recall. */
        const View &n = s.v[v];
        if (sc.asks && n.closed >> p & 1 && s.p[p].recalled & R && !n.allowed[p])
            fail("(14) a later transaction uses a page that is called back");
    }
    void begins_late(State &s, int v)
    {
        for (int p = 0; p < sc.pages; p++)
            if (s.p[p].recalled & R && s.p[p].lock != LOCK_RECALL) s.v[v].closed |= 1 << p;
    }
    void recalls_over(const State &s)
    {
        for (int p = 0; p < sc.pages; p++)
            if (s.p[p].recalled && !s.p[p].told) fail("(15) nobody tells that the last user ended");
    }
};
