/*
 * lock.h - the lock of the container (kernel/store/container_lock.c): hold, drain, admit, release.
 *
 * Each page is a leaf of its own (with groups, which stay in a leaf, both are one). What the kernel
 * does under locks_lock is one step; the walk judges with CF2 and CF3 of fault.h, the leaf locked.
 * Operations: L exclusive, M shared, E exclusive without waiting (escalation). L and M in front are
 * the begin's: until then no right was used (`untouched`).
 */
#pragma once
#include "checks.h"

struct Lock : Checks {
    using Checks::Checks;
    enum { QUEUED = 1, WALKING, IN_LEAF, DRAINING }; /* View.clock */

    virtual void search(State &s, int v) = 0;

    static bool is_lock(char kind) { return kind == 'L' || kind == 'M' || kind == 'E'; }
    bool locks() const
    {
        for (auto &v : sc.program)
            for (auto &t : v)
                for (char c : t)
                    if (is_lock(c)) return true;
        return false;
    }
    bool drained(const State &s, int v) const
    {
        return (s.clock1 == v + 1 || s.shared >> v & 1) && s.drainer1 != v + 1;
    }

    /* ---- the queue ---- */
    int clock_at(const State &s, int v) const
    {
        int i = 0;
        while (i < s.clockwaits && s.clockqueue[i] != v) i++;
        return i;
    }
    void lock_wake(State &s)
    { /* queue_wake */
        for (int i = 0; i < s.clockwaits; i++) s.v[s.clockqueue[i]].woken = 1;
    }
    void lock_join(State &s, int v, int before)
    { /* join_locked: edges to the holders and to those before */
        int at = clock_at(s, v);
        if (at == s.clockwaits) s.clockqueue[s.clockwaits++] = v;
        for (int i = 0; i < at; i++) before |= 1 << s.clockqueue[i];
        s.v[v].woken = 0;
        s.v[v].waits = before;
        search(s, v);
    }
    void lock_leave(State &s, int v)
    { /* leave_locked: those behind it do not wait for it any more, and look again */
        int i = clock_at(s, v);
        if (i == s.clockwaits) return;
        for (; i + 1 < s.clockwaits; i++) s.clockqueue[i] = s.clockqueue[i + 1];
        s.clockqueue[--s.clockwaits] = 0;
        for (i = 0; i < s.clockwaits; i++) s.v[s.clockqueue[i]].waits &= ~(1 << v);
        for (auto &n : s.v) n.behind &= ~(1 << v);
        lock_wake(s);
    }
    bool first_in_queue(const State &s, int v) const
    {
        return !s.clockwaits || s.clockqueue[0] == v;
    }
    bool has_turn(const State &s, int v) const
    { /* who waits for its shared lock does not go before it */
        return first_in_queue(s, v) || s.shared >> v & 1;
    }

    /* ---- page faults ---- */
    int against(const State &s, int v, bool strong) const
    {
        return ((strong ? s.shared : 0) | (s.clock1 ? 1 << (s.clock1 - 1) : 0)) & ~(1 << v);
    }
    bool container_admits(State &s, int v)
    {
        View &n = s.v[v];
        int before = against(s, v, n.want != 0);
        bool here = n.faults != 1 || queue_index(s, v, n.page) >= 0 || s.clock1 == v + 1;
        bool turn = here || on(BUG_LOCK_BARGES) ||
                    (on(BUG_LOCK_BEHIND) ? first_in_queue(s, v) : has_turn(s, v));
        bool admitted = (!before && turn) || s.clock1 == v + 1;
        if (admitted && !here && n.behind && !(s.shared >> v & 1))
            fail("(5) who is shut out of a container is overtaken by who began behind it");
        bool waited_for = s.drains >> v & 1;
        /* those that were drained yield to nobody */
        int drainer = s.drainer1 ? 1 << (s.drainer1 - 1) : 0;
        if (!admitted && (!(before & ~drainer) || on(TEXT_LOCK_FIRST_WALK)) &&
            (s.firstwalk || (waited_for && !on(BUG_LOCK_SHUT)) ||
             (s.drainer1 && on(BUG_LOCK_NEWCOMERS)))) {
            if (!s.firstwalk && !waited_for && n.late)
                fail("(10) who began behind the hold is let in");
            s.drains |= 1 << v;
            s.again = !on(BUG_LOCK_AGAIN);
            admitted = true;
        }
        if (admitted) {
            lock_leave(s, v);
        /* out of the page's queue first: else who stands behind it there seems to wait for it */
        } else {
            if (!on(TEXT_CLOCK_IN_PAGE)) queue_leave(s, v, n.page);
            lock_join(s, v, before);
        }
        return admitted;
    }

    /* ---- hold, drain ---- */
    void hold_try(int v, char kind)
    {
        const View &V = cur->v[v];
        if (V.doom) {
            step(true, "KD_TXN_LOCK finds the doom", v, -1, [&](State &s) {
                lock_leave(s, v);
                s.v[v].pc = ABORT;
            });
            return;
        }
        step(true, "hold_try", v, -1, [&](State &s) {
            View &n = s.v[v];
            bool exclusive = kind != 'M';
            n.woken = n.waits = n.block = n.shoot = 0;
            if (s.dead || n.epoch != s.epoch) {
                lock_leave(s, v);
                n.doom = MANAGER_DEAD;
                n.pc = ABORT;
                return;
            }
            if (s.clock1 == v + 1 || (!exclusive && s.shared >> v & 1)) {
                n.op++;
                return;
            }
            int before = against(s, v, exclusive) | (s.drainer1 ? 1 << (s.drainer1 - 1) : 0);
            bool turn = has_turn(s, v) || on(TEXT_CLOCK_UNFAIR);
            if (turn && !before) { /* hold_locked */
                lock_leave(s, v);
                if (exclusive) s.clock1 = v + 1;
                else s.shared |= 1 << v;
                s.drainer1 = v + 1;
                s.firstwalk = 1;
                s.again = 0;
                n.want = exclusive;
                walk_begins(n);
            } else if (kind == 'E') {
                n.op++;
            } else {
                n.pc = CLOCK;
                n.clock = QUEUED;
                lock_join(s, v, before);
            }
        });
    }
    void walk_begins(View &n)
    {
        n.pc = CLOCK;
        n.clock = WALKING;
        n.page = n.block = n.waits = n.woken = n.shoot = 0;
    }
    void clock(int v, char kind)
    {
        const View &V = cur->v[v];
        int p = V.page;
        if (V.clock == QUEUED && V.doom)
            step(true, "hold_wait: doomed", v, -1, [&](State &s) {
                lock_leave(s, v);
                s.v[v].waits = s.v[v].clock = 0;
                s.v[v].pc = ABORT;
            });
        else if (V.clock == QUEUED && V.woken)
            step(true, "hold_wait: again", v, -1, [&](State &s) {
                s.v[v].waits = s.v[v].clock = 0;
                s.v[v].pc = USER;
            });
        else if (V.clock == WALKING && p == sc.pages)
            step(true, "walk_end", v, -1, [&](State &s) { walk_end(s, v, kind); });
        else if (V.clock == WALKING && !cur->p[p].lock && !(sc.group && cur->p[1 - p].lock))
            step(true, "walk_leaf", v, p, [&](State &s) {
                View &n = s.v[v];
                n.cand = candidates(s, v, p);
                if (sc.group && !(s.users & ~(1 << v))) {
                    n.page = sc.pages;
                    return;
                }
                if (!n.cand) {
                    portion_walked(s, n);
                    return;
                }
                s.p[p].lock = v + 1;
                n.clock = IN_LEAF;
                n.pc = CF2;
            });
        else if (V.clock == DRAINING && V.doom)
            step(true, "drain: doomed", v, -1, [&](State &s) {
                release(s, v, kind != 'M' && s.shared >> v & 1);
                s.v[v].waits = s.v[v].clock = 0;
                s.v[v].pc = ABORT;
            });
        else if (V.clock == DRAINING && V.woken)
            step(true, "drain: walks again", v, -1, [&](State &s) { walk_begins(s.v[v]); });
    }
    int candidates(const State &s, int v, int p) const
    {
        const Page &g = s.p[p];
        return (s.v[v].want ? g.mask & all() : g.writer1 ? 1 << (g.writer1 - 1) : 0) & ~(1 << v);
    }
    void portion_walked(State &s, View &n)
    { /* with groups the leaf has both pages, and is walked in two portions */
        if (sc.group)
            s.users = s.p[n.page].mask | (on(BUG_USERS_PORTION) ? 0 : s.p[1 - n.page].mask);
        n.page++;
    }
    void leaf_walked(int v)
    {
        step(true, "walk_leaf: unlocks", v, cur->v[v].page, [&](State &s) {
            View &n = s.v[v];
            if (s.p[n.page].lock == v + 1) s.p[n.page].lock = 0;
            portion_walked(s, n);
            n.clock = WALKING;
            n.pc = CLOCK;
        });
    }
    void walk_end(State &s, int v, char kind)
    {
        View &n = s.v[v];
        bool more = n.block || s.again;
        s.firstwalk = s.again = 0;
        s.drains |= n.waits;
        n.page = 0;
        if (!more) {
            drain_over(s);
            n.clock = n.untouched = n.waits = n.want = 0;
            n.op++;
            n.pc = USER;
        } else if (n.block && kind == 'E') {
            release(s, v, s.shared >> v & 1);
            n.clock = n.waits = n.want = 0;
            n.op++;
            n.pc = USER;
        } else {
            n.clock = DRAINING;
            if (n.block) search(s, v); /* the walk added the edges */
            else n.woken = 1;
        }
    }
    void drain_over(State &s)
    {
        s.drainer1 = s.drains = s.firstwalk = s.again = 0;
        lock_wake(s);
    }
    void release(State &s, int v, bool exclusive_only)
    {
        if (s.drainer1 == v + 1) drain_over(s);
        if (s.clock1 == v + 1) s.clock1 = 0;
        if (!exclusive_only) s.shared &= ~(1 << v);
        lock_wake(s);
    }

    /* ---- a transaction's end, behind IDLE ---- */
    bool locks_wanted(const State &s, int v) const { return drained(s, v) && s.clockwaits; }
    void idle(State &s, int v)
    {
        if (!locks()) {
            wake_waiters(s, v);
            return;
        }
        s.v[v].then = s.v[v].pc;
        s.v[v].pc = END1;
    }
    void ends(int v)
    {
        int pc = cur->v[v].pc, what = pc - END1; /* locks, edges, drains */
        if (on(TEXT_LOCK_EDGES_FIRST) && what < 2) what = 1 - what;
        if (on(TEXT_LOCK_DRAINS_FIRST) && what) what = 3 - what;
        step(true,
             what == 0   ? "container_locks_end"
             : what == 1 ? "view_wake_waiters"
                         : "container_drains_leave",
             v, -1, [&](State &s) {
                 if (what == 0)
                     release(s, v, false);
                 if (what == 1)
                     wake_waiters(s, v);
                 if (what == 2 && !on(BUG_LOCK_DRAINS))
                     s.drains &= ~(1 << v);
                 s.v[v].pc = pc == END3 ? s.v[v].then : pc + 1;
                 if (pc == END3)
                     s.v[v].then = 0;
             });
    }
};
