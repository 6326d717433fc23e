/*
 * site_snapshot.h - snapshots of one home and of several (sites.md, NV).
 */
#pragma once
#include "site_commit.h"

struct Snapshots : Commits {
    int patience() const { return sc->patience ? sc->patience : 2; }
    int homes_asked(const State &s, int t) const { return homes_of(body_of(s, t).reads); }

    /* ---- at the client ---- */
    /* ask_homes: one more round. */
    void ask_homes(State &s, int t) override
    {
        Thread &th = s.thread[t];
        int i = where(t), all = homes_asked(s, t);
        if (th.round <= patience() + 1) th.round++;
        if (th.round > patience() + 1 && !on(DONE_APPLIED))
            wrong("(5) a snapshot asks its homes again and again");
        bool hold = th.round > patience() && !on(NO_HOLD);
        memset(th.snap, 0, sizeof th.snap);
        th.attempt = (u8)((th.attempt + 1) & 7);
        th.stood = 0;
        th.pc = SNAPPING;
        for (int h = 0; h < sites; h++)
            if (has(all, h) && h != i)
                to_home(s, i, h, {0, SNAP, 0, (u8)t, th.attempt, hold});
        may_act(s, t);
    }
    void snapped(State &s, int t, int h, const Msg &m)
    {
        Thread &th = s.thread[t];
        th.snap[h] = (u8)(m.value + 1);
        if (on(STILL_EARLY)) ask_still(s, t, h);
        may_act(s, t);
    }
    /* All have answered, and nothing is prepared in the own home. */
    bool can_act(const State &s, int t) const
    {
        int i = where(t), all = homes_asked(s, t);
        for (int h = 0; h < sites; h++)
            if (has(all, h) && h != i && !s.thread[t].snap[h]) return false;
        return s.thread[t].pc == SNAPPING && !(has(all, i) && in_the_way_of_snapshots(s, i));
    }
    void may_act(State &s, int t)
    {
        if (can_act(s, t)) act(s, t);
    }
    /* act: the own kernel's snapshot begins in this moment; it is the own home's part, too. One of
     * several homes is one if the others stood still from SNAPPED until they have heard of it. */
    void act(State &s, int t)
    {
        Thread &th = s.thread[t];
        int i = where(t), all = homes_asked(s, t);
        bool several = all & (all - 1);
        if (has(all, i)) th.snap[i] = (u8)(s.site[i].event + 1);
        for (int h = 0; h < sites; h++)
            if (has(all, h)) look(s, t, h);
        th.pc = STANDING;
        for (int h = 0; h < sites; h++) {
            if (!has(all, h)) continue;
            if (h == i || !several || on(SNAP_STILL)) th.stood |= bit(h);
            else if (!on(STILL_EARLY)) ask_still(s, t, h);
        }
        stands(s, t);
    }
    void ask_still(State &s, int t, int h)
    {
        const Thread &th = s.thread[t];
        to_home(s, where(t), h, {0, STILL, 0, (u8)t, th.attempt, (u8)(th.snap[h] - 1)});
    }
    void stood(State &s, int t, int h, const Msg &m)
    {
        Thread &th = s.thread[t];
        if (!m.value) {
            memset(th.seen, 0, sizeof th.seen);
            return ask_homes(s, t);
        }
        th.stood |= bit(h);
        if (th.pc == STANDING) stands(s, t);
    }
    void stands(State &s, int t)
    {
        Thread &th = s.thread[t];
        if (th.stood != homes_asked(s, t)) return;
        th.round = th.stood = 0;
        th.pc = RUN;
    }
    /* What is cached of home h is seen from the own kernel's versions. */
    void look(State &s, int t, int h)
    {
        for (int p = 0; p < pages; p++) {
            const Cache &c = s.cache[where(t)][p];
            if (home(p) == h && c.right && c.content != AWAY && h != where(t))
                s.thread[t].seen[p] = (u8)(c.content + 1);
        }
    }
    int version_at(const State &s, int p, int event) const
    {
        const Page &g = s.page[p];
        for (int k = g.versions; k-- > 1;)
            if (s.site[home(p)].at[g.version[k]] <= event) return g.version[k];
        return 0;
    }
    void see(State &s, int t, int p, int content)
    {
        Thread &th = s.thread[t];
        if (content != version_at(s, p, th.snap[home(p)] - 1))
            wrong("(4) a snapshot sees another version than its own");
        s.txn[txn_of(s, t)].reads[p] |= bit(content);
        th.op++;
        serialisable(s);
    }
    void run_snapshot(int t)
    {
        char what;
        int p, i = where(t);
        const Thread &th = now->thread[t];
        if (!op_of(*now, t, what, p))
            return step(true, text("T", t, " ends its snapshot"), [&](State &s) { told(s, t); });
        int h = home(p), seen = th.seen[p] - 1;
        const Cache &c = now->cache[i][p];
        if (on(SNAP_LATER) && c.right && c.content != AWAY && h != i) seen = c.content;
        if (h == i) seen = version_at(*now, p, th.snap[h] - 1);
        if (seen >= 0)
            return step(true, text("T", t, " sees page ", p),
                        [&](State &s) { see(s, t, p, seen); });
        step(true, text("T", t, " asks for an old page ", p), [&](State &s) {
            if (to_home(s, i, h, {0, GET_OLD, (u8)p, (u8)t, th.attempt, (u8)(th.snap[h] - 1)}))
                s.thread[t].pc = FETCHING;
        });
    }

    /* ---- at a home ---- */
    static bool in_the_way_of_snapshots(const State &s, int h)
    {
        const Site &g = s.site[h];
        int doubt = g.prepared | g.unlogged;
        if (on(SNAP_ORPHANS) || on(DONE_APPLIED)) doubt &= g.orphan;
        return doubt && !on(SNAP_DOUBT);
    }
    void snap_asked(State &s, int h, const Msg &m)
    {
        Site &g = s.site[h];
        g.open[m.txn] = (u8)(m.serial + 1);
        if (m.value) g.held |= bit(m.txn);
        else g.held &= (u8)~bit(m.txn);
    }
    /* Has it shown nothing since the snapshot began, and nothing that it is to show? What it held
     * goes on. */
    void still_asked(State &s, int h, int i, const Msg &m)
    {
        bool same = s.site[h].event == m.value || on(STILL_SHOWS);
        bool none = !in_the_way_of_snapshots(s, h) || on(STILL_VOTES);
        s.site[h].held &= (u8)~bit(m.txn);
        to_client(s, h, i, {0, STOOD, 0, m.txn, m.serial, same && none});
    }
    /* The snapshots that home h was asked for begin when nothing is in their way. */
    void snapshots_begin(int h)
    {
        const Site &g = now->site[h];
        for (int t = 0; t < threads; t++) {
            int i = where(t), own = g.unanswered | (i == h ? 0 : g.logging);
            bool crossing = false;
            for (int x = 1; x <= total(); x++) {
                crossing |= has(own, x) && site_of(x) == i;
                if (has(g.held, t) && !on(HOLD_LOGGING))
                    crossing |= has(g.logging, x) ||
                                (has(g.came, x) && written(x));
            }
            if (!g.open[t] || in_the_way_of_snapshots(*now, h) ||
                (crossing && !on(SNAP_CROSSES))) continue;
            step(true, text("S", h, " begins the snapshot of T", t), [&](State &s) {
                Msg m = {0, SNAPPED, 0, (u8)t, (u8)(g.open[t] - 1), s.site[h].event};
                s.site[h].open[t] = 0;
                if (on(HOLD_SNAPPED)) s.site[h].held &= (u8)~bit(t);
                to_client(s, h, i, m);
            });
        }
    }
};
