/*
 * fault.h - fault (FT1..FT7), conflict and callback (CF1..CF6), the deadlock search, and credits.
 *
 * Locks   p.lock is the leaf lock, held across steps; a view lock is held inside one step only;
 * search() has the graph's lock to itself.
 */
#pragma once
#include "ask.h"

struct Fault : Ask {
    using Ask::Ask;

    virtual void spill_asks(int v) = 0; /* spill.h */
    virtual void bring_asks(int v) = 0;
    virtual int find_version(const State &s, int v, int p) const = 0; /* version.h */

    void fault(int v)
    {
        const View &V = cur->v[v];
        int p = V.page;
        const Page &g = cur->p[p];
        if (g.lock) return;
        if (V.doom) {
            step(true, "FT1 doomed", v, p, [&](State &s) {
                queue_leave(s, v, p);
                lock_leave(s, v);
                s.v[v].waits = 0;
                s.v[v].pc = ABORT;
            });
            return;
        }
        if (sufficient(V.pte[p], V.want) && !(V.exclusive && g.writer1 != v + 1)) {
            step(true, "FT1 nothing to do", v, p, [&](State &s) {
                queue_leave(s, v, p);
                lock_leave(s, v);
                ask_ends(s.v[v]);
                s.v[v].exclusive = 0;
                s.v[v].pc = USER;
            });
            return;
        }
        if (cur->dead || (V.epoch != cur->epoch && !on(TEXT_DOOM_ONCE))) {
            step(true, "FT1 manager is dead", v, p, [&](State &s) { s.v[v].doom = MANAGER_DEAD; });
            return;
        }
        if (cur->gone >> p & 1) {
            step(true, "FT1 its object is destroyed", v, p,
                 [&](State &s) { s.v[v].doom = REFUSED; });
            return;
        }
        if (V.pte[p].right == SPILLED) {
            bring_asks(v);
            return;
        }
        if (!ask_manager(v)) return;
        spill_asks(v);
        bool held = V.pte[p].right == HELD && V.want != 1;
        if (held && on(TEXT_HELD_MAP)) {
            step(true, "FT4 maps HELD", v, p, [&](State &s) {
                s.v[v].pte[p].right = SHARED;
                s.v[v].pc = USER;
            });
            return;
        }
        /* it needs an old version, resident or not */
        bool old = snapshot_view(v) && g.csn > V.snap1 - 1;
        if (!g.frame1 && !old) {
            step(true, "FT2 asks for the page", v, p, [&](State &s) {
                s.p[p].asked = 1;
                ask_ends(s.v[v]);
                s.v[v].woken = 0;
                s.v[v].pc = PAGEWAIT;
            });
            return;
        }
        if (snapshot_view(v) && on(TEXT_F3_UNLOCKED)) {
            step(true, "FT3 looks", v, p, [&](State &s) {
                s.v[v].cand = find_version(s, v, p);
                s.v[v].pc = F3MAP;
            });
            return;
        }
        if (snapshot_view(v)) {
            step(true, "FT3 maps a version", v, p, [&](State &s) { map_version(s, v, p); });
            return;
        }
        if (held) {
            step(true, "FT4 maps HELD", v, p, [&](State &s) {
                Pte &e = s.v[v].pte[p];
                granted(s, v, p, 1);
                e = {SHARED, (u8)(g.frame1 - 1), (u8)(on(TEXT_HELD_UNUSED) ? 0 : 2)};
                s.v[v].pc = USER;
            });
            return;
        }
        if (on(TEXT_CLOCK_EARLY)) {
            step(true, "FT5 looks at the container", v, p, [&](State &s) {
                if (container_admits(s, v)) s.v[v].pc = F5ADMITTED;
                else shut_out(s, v, p);
            });
            return;
        }
        step(true, "FT5 looks at the container and the queue", v, p, [&](State &s) {
            if (!container_admits(s, v)) {
                shut_out(s, v, p);
                return;
            }
            s.p[p].lock = v + 1;
            look_at_queue(s, v, p);
        });
    }
    void shut_out(State &s, int v, int p)
    { /* fault_waits: in the container's queue, not in the page's */
        s.v[v].upgrade = 0;
        if (on(TEXT_CLOCK_IN_PAGE) && queue_index(s, v, p) < 0) queue_join(s, v, p, false);
        s.v[v].pc = SHUTOUT;
    }
    void map_version(State &s, int v, int p)
    {
        int frame = find_version(s, v, p);
        if (frame < 0 && (s.v[v].expired || s.p[p].lost)) {
            s.v[v].doom = STALE;
            s.v[v].pc = ABORT;
            return;
        }
        if (frame < 0) {
            fail("(3) the version a snapshot needs is gone");
            return;
        }
        granted(s, v, p, 1);
        s.v[v].pte[p] = {SHARED, (u8)frame, 1};
        if (!on(TEXT_SNAP_NO_MASK)) use(s, p, v);
        s.v[v].pc = USER;
        s.v[v].cand = 0;
    }
    enum { WEIGHTED_ABORTS = 4 };
    int weight_now(const State &s, int v) const
    {
        return s.v[v].aborts < WEIGHTED_ABORTS ? sc.heavy && v == 0 : 2;
    }
    bool better_victim(const State &s, int a, int b) const
    {
        int difference = weight_now(s, a) - weight_now(s, b);
        return difference && !on(TEXT_WEIGHT_SEARCH) ? difference < 0
                                                     : s.v[a].ticket > s.v[b].ticket;
    }
    bool can_be_victim(const State &s, int v) const
    {
        return s.v[v].state != COMMITTING && (!suspended(s, v) || on(TEXT_SUSPENDED_VICTIM));
    }
    void doom_victim(State &s, int v, int deadlock, Doom doom, int p)
    { /* p: the page that its retry takes exclusively, or -1 */
        bool needed = false;
        for (int u = 0; u < views; u++) {
            if (!(deadlock >> u & 1) || u == v || s.v[u].doom) continue;
            needed = true;
            if (can_be_victim(s, u) && weight_now(s, u) < weight_now(s, v))
                fail("(5) the victim is not the lightest");
        }
        if (!needed && !s.v[v].doom) fail("(5) a victim, though the others end anyway");
        if (p >= 0) s.v[v].wantx |= 1 << p;
        if (!s.v[v].doom) s.v[v].doom = doom;
        s.v[v].woken = 1;
    }
    int other_upgrader(const State &s, int v, int p) const
    {
        for (int i = 0; i < s.p[p].queued; i++) {
            int u = s.p[p].queue[i];
            if (u != v && s.v[u].upgrade && (!s.v[u].doom || on(TEXT_UPGRADER_DOOMED))) return u;
        }
        return -1;
    }
    void look_at_queue(State &s, int v, int p)
    {
        View &n = s.v[v];
        Page &g = s.p[p];
        n.upgrade = (n.want == 1 || (n.exclusive && !on(BUG_EXCLUSIVE_UPGRADE))) &&
                    (n.pte[p].right == SHARED || n.pte[p].right == HELD) &&
                    g.writer1 != v + 1;
        n.block = n.shoot = n.woken = n.waits = 0;
        int first = n.upgrade ? other_upgrader(s, v, p) : -1;
        if (first >= 0) { /* a second upgrader */
            bool lighter = weight_now(s, first) < weight_now(s, v) && !on(TEXT_WEIGHT_UPGRADE);
            doom_victim(s, lighter ? first : v, 1 << first | 1 << v, CONVERSION, p);
            if (!lighter) {
                n.upgrade = 0;
                n.pc = ABORT;
                g.lock = 0;
                queue_leave(s, v, p);
                return;
            }
        }
        if (g.queued && g.queue[0] != v &&
            (g.writer1 != v + 1 || n.pte[p].right == EMPTY || on(TEXT_XRO_QUEUE))) {
            if (queue_index(s, v, p) < 0) queue_join(s, v, p, n.upgrade && !on(BUG_UPGRADE_TAIL));
            int at = queue_index(s, v, p);
            if (at > 0) {
                for (int i = 0; i < at; i++)
                    if (!on(TEXT_WAIT_EARLIER)) n.waits |= 1 << g.queue[i];
                n.pc = CF5;
                return;
            }
        }
        n.cand = candidates(s, v, p);
        n.pc = n.cand ? CF2 : CF4;
    }
    void take(State &s, int v, int w, int p, bool shoot)
    {
        if (shoot) {
            s.v[v].shoot |= 1 << s.v[w].cpu;
            s.v[w].stale = 1;
        }
        set_empty(s.v[w].pte[p]);
        s.p[p].mask &= ~(1 << w);
        if (s.p[p].writer1 == w + 1 && !on(TEXT_XRO_WRITER)) s.p[p].writer1 = 0;
    }
    bool stealable(const Pte &e) const
    {
        if (e.right == HELD) return on(TEXT_HELD_TAKEN);
        return !e.used && (e.right == SHARED || (e.right == COPY && on(BUG_TAKE_COPY)));
    }
    void next_candidate(State &s, int v, int w)
    {
        View &n = s.v[v];
        n.cand &= ~(1 << w);
        n.pc = n.cand ? CF2 : n.shoot ? CF3 : CF4;
        if (n.pc == CF3 && n.clock == IN_LEAF && on(TEXT_CLOCK_TLB)) s.p[n.page].lock = 0;
    }
    bool idle_for(const View &w, int p) const
    {
        return w.state == IDLE || (w.untouched && !on(BUG_LOCK_UNTOUCHED)) ||
               (w.state == COMMITTING && on(TEXT_COMMITTING_IDLE) &&
                                   (w.pte[p].right == SHARED || w.pte[p].right == HELD));
    }
    void judge(State &s, int v, int w, int p)
    { /* CF2, under w's view lock */
        View &n = s.v[v], &o = s.v[w];
        Pte &e = o.pte[p];
        if (snapshot_view(w) && !on(TEXT_SNAP_RIGHT))
            ;
        else if (e.right == EMPTY) {
            s.p[p].mask &= ~(1 << w);
            if (s.p[p].writer1 == w + 1 && !on(TEXT_XRO_WRITER)) s.p[p].writer1 = 0;
        } else if (idle_for(o, p)) {
            if (n.want) take(s, v, w, p, in_tlb(e));
            else if (!on(TEXT_XRO_WRITER))
                s.p[p].writer1 = 0; /* an S request: w keeps a shared right */
        } else if (stealable(e)) {
            if (on(BUG_PLAIN_STORE)) {
                n.pc = R2STORE;
                return;
            }
            take(s, v, w, p, false);
        } else if (!(n.clock == IN_LEAF && on(BUG_LOCK_IGNORES))) {
            n.block |= 1 << w;
            if (snapshot_view(w)) fail("(3) a writer waits for a snapshot");
            if (s.clock1 == v + 1 && drained(s, v))
                fail("(10) the holder of the container lock waits for a page");
            if (!on(TEXT_OWED_LATE) || n.clock == IN_LEAF) {
                n.waits |= 1 << w;
                o.owed = 1;
            }
        }
        next_candidate(s, v, w);
    }
    void conflict(int v)
    {
        static const char *const judges[NV] = { "CF2 judges V0", "CF2 judges V1", "CF2 judges V2",
                                                "CF2 judges V3" };
        const View &V = cur->v[v];
        int p = V.page, w = 0;
        while (V.cand && !(V.cand >> w & 1)) w++;
        switch (V.pc) {
        case CF2:
            step(true, judges[w], v, p, [&](State &s) { judge(s, v, w, p); });
            break;
        case R2STORE:
            step(true, "CF2 stores EMPTY", v, p, [&](State &s) {
                take(s, v, w, p, false);
                next_candidate(s, v, w);
            });
            break;
        case CF3:
            step(true, "CF3 sends the shootdown", v, p, [&](State &s) {
                send(s, v, V.shoot);
                s.v[v].shoot = 0;
                s.v[v].pc = on(BUG_SHOOT_AFTER) ? CF4 : CF3WAIT;
            });
            break;
        case CF3WAIT:
            if (!awaited(*cur, v)) step(true, "CF3 done", v, p, [&](State &s) { s.v[v].pc = CF4; });
            break;
        case CF4:
            if (V.clock == IN_LEAF) leaf_walked(v);
            else if (V.block)
                step(true, "CF5 has blockers", v, p,
                     [&](State &s) { s.v[v].pc = on(TEXT_OWED_LATE) ? CF5MARK : CF5; });
            else step(true, "FT7 grants", v, p, [&](State &s) { grant(s, v, p); });
            break;
        case CF5MARK:
            step(true, "CF5 marks OWED", v, p, [&](State &s) {
                for (int u = 0; u < views; u++)
                    if (V.block >> u & 1) s.v[u].owed = 1;
                s.v[v].waits |= V.block;
                s.v[v].pc = CF5;
            });
            break;
        case CF5:
            step(true, "CF5 searches, sleeps", v, p, [&](State &s) {
                if (queue_index(s, v, p) < 0) queue_join(s, v, p, false);
                s.p[p].lock = 0;
                s.v[v].pc = SLEEP;
                search(s, v);
            });
            break;
        case INVLPG:
            step(true, "FT7 invlpg", v, p, [&](State &s) {
                local_flush(s, v, p);
                s.v[v].pc = USER;
            });
            break;
        }
    }
    int credit_at(const State &s, int v) const
    {
        int i = 0;
        while (i < s.creditwaits && s.creditqueue[i] != v) i++;
        return i;
    }
    void credit_leave(State &s, int v)
    {
        int i = credit_at(s, v);
        if (i == s.creditwaits) return;
        for (; i + 1 < s.creditwaits; i++) s.creditqueue[i] = s.creditqueue[i + 1];
        s.creditqueue[--s.creditwaits] = 0;
        wake_credit(s);
    }
    void leave_fault(State &s, int v, int p)
    {
        s.p[p].lock = 0;
        s.v[v].upgrade = 0;
        queue_leave(s, v, p);
        s.v[v].waits = 0;
    }
    void grant(State &s, int v, int p)
    {
        View &n = s.v[v];
        Page &g = s.p[p];
        if (sc.credits && n.want == 1 && s.pool <= (on(TEXT_CREDIT_UNFAIR) ? 0 : credit_at(s, v))) {
            if (on(TEXT_CREDIT_LATE)) g.writer1 = v + 1;
            leave_fault(s, v, p);
            n.woken = 0;
            n.pc = CREDITWAIT;
            for (int i = 0, at = credit_at(s, v); i < at; i++) n.waits |= 1 << s.creditqueue[i];
            if (credit_at(s, v) == s.creditwaits) s.creditqueue[s.creditwaits++] = v;
            for (int u = 0; u < views && !s.consumed; u++)
                if (u != v && s.v[u].credits) n.waits |= 1 << u;
            search(s, v);
            return;
        }
        if (g.writer1 && g.writer1 != v + 1) {
            fail("FT7 grants while another view is `writer`");
            return;
        }
        bool a = !on(TEXT_FAULT_A0);
        granted(s, v, p, access_of(n));
        ask_ends(n);
        n.exclusive = 0;
        if (!on(BUG_MASK_LOST)) use(s, p, v);
        n.pc = USER;
        if (n.want != 1) {
            if (!g.frame1) {
                fail("(4) FT7 maps a page that is not resident");
                return;
            }
            n.pte[p] = {SHARED, (u8)(g.frame1 - 1), (u8)a};
            if (n.want == 2) g.writer1 = v + 1;
            else if (sc.group && (!((s.p[1 - p].lacks | s.p[1 - p].recalled) & R) ||
                                  on(BUG_ASK_GROUP)))
                cluster_grant(s, v, 1 - p);
        } else {
            if (!g.frame1) {
                fail("(4) FT7 copies a page that is not resident");
                return;
            }
            if (sc.credits) {
                s.pool--;
                n.credits++;
                credit_leave(s, v);
            }
            n.told &= ~(1 << p);
            s.p[p].log1 = 0;
            int f = frame_new(s);
            s.f[f].content = s.f[g.frame1 - 1].content;
            record_read(
                s, v, p,
                s.f[f].content); /* the rest of the page is carried over: a write reads its base */
            n.pte[p] = {COPY, (u8)f, (u8)(a && !on(BUG_TAKE_COPY))};
            n.copy1[p] = f + 1;
            g.writer1 = v + 1;
            if (!on(BUG_NO_INVLPG)) n.pc = INVLPG;
        }
        leave_fault(s, v, p);
    }
    void cluster_grant(State &s, int v, int p)
    {
        Page &g = s.p[p];
        if (g.lock || !g.frame1 || g.writer1 || s.v[v].pte[p].right != EMPTY ||
            (g.queued && !on(TEXT_GROUP_QUEUE)) || s.dead)
            return;
        if (g.queued) fail("(5) a waiter is overtaken");
        granted(s, v, p, 1);
        s.v[v].pte[p] = {SHARED, (u8)(g.frame1 - 1), 0};
        use(s, p, v);
    }
    bool reach(const State &s, int from, int to, int &seen)
    { /* leaves exactly one path in `seen` when it succeeds */
        int waits = s.v[from].waits;
        if (suspended(s, from) && s.v[from].state == ACTIVE && !on(TEXT_SUSPENDED_EDGE))
            waits |= 1 << s.entered; /* it waits for what its thread runs */
        for (int u = 0; u < views; u++) {
            if (!(waits >> u & 1) || s.v[u].doom) continue;
            if (u == to) return true;
            if (seen >> u & 1) continue;
            seen |= 1 << u;
            if (reach(s, u, to, seen)) return true;
            seen &= ~(1 << u);
        }
        return false;
    }
    void search(State &s, int v) override
    { /* under the graph lock; again until no cycle through v is left */
        while (!s.v[v].doom && !on(BUG_NO_SEARCH)) {
            int on_path = 1 << v, victim = -1;
            if (!reach(s, v, v, on_path)) return;
            for (int u = 0; u < views; u++)
                if (on_path >> u & 1 && can_be_victim(s, u) &&
                    (victim < 0 || better_victim(s, u, victim)))
                    victim = u;
            if (victim < 0) return;
            doom_victim(s, victim, on_path, DEADLOCK, s.v[victim].want ? s.v[victim].page : -1);
        }
    }
    void sleepers(int v)
    {
        const View &V = cur->v[v];
        int p = V.page;
        bool locked = cur->p[p].lock;
        if (V.pc == SLEEP && (V.woken || V.doom) && !locked)
            step(true, "CF6 wakes", v, p, [&](State &s) {
                if (!on(TEXT_R6_FROM_F5) || V.doom) s.v[v].pc = FAULT;
                else {
                    s.p[p].lock = v + 1;
                    look_at_queue(s, v, p);
                }
            });
        if (V.pc == CREDITWAIT && (V.woken || V.doom) && !locked)
            step(true, "wakes, credits", v, p, [&](State &s) {
                s.v[v].waits = 0;
                s.v[v].pc = FAULT;
            });
        if (V.pc == SHUTOUT && (V.woken || V.doom) && !locked)
            step(true, "wakes, container", v, p, [&](State &s) { s.v[v].pc = FAULT; });
        if (V.pc == PAGEWAIT && (V.woken || V.doom))
            step(true, "FT2 wakes", v, p, [&](State &s) { s.v[v].pc = FAULT; });
    }
};
