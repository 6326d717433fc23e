/*
 * death.h - what ends while others go on: clients, snapshots over their budget, an object, the
 * manager; and the clock's hand, which may pass at any moment, too.
 */
#pragma once
#include "commit.h"

struct Death : Commit {
    using Commit::Commit;

    void clock_hand()
    { /* the replacement clock: A into USED, no flush */
        for (int v = 0; v < views && sc.hand; v++)
            for (int p = 0; p < sc.pages; p++)
                if (cur->v[v].pte[p].used & 1 && !cur->p[p].lock)
                    step(false, "clock moves A to USED", v, p,
                         [&](State &s) { s.v[v].pte[p].used = 2; });
    }
    void stale()
    { /* a snapshot over its budget */
        for (int v = 0; v < views && cur->stales; v++)
            if (cur->v[v].snap1 && !cur->v[v].expired)
                step(false, "snapshot is over budget", v, -1, [&](State &s) {
                    s.stales--;
                    s.v[v].expired = 1;
                });
    }
    void kill()
    {
        for (int v = 0; v < views && cur->kills; v++)
            if (!finished(*cur, v) && !cur->v[v].killed)
                step(false, "is killed", v, -1, [&](State &s) {
                    View &n = s.v[v];
                    s.kills--;
                    n.killed = 1;
                    if (n.state == ACTIVE) {
                        if (!n.doom) n.doom = KILLED;
                        n.woken = 1;
                    }
                });
    }
    void doom_for_death(State &s, int v, Doom doom)
    {
        if (s.v[v].state == ACTIVE && !s.v[v].doom) {
            s.v[v].doom = doom;
            s.v[v].woken = 1;
        }
    }
    void sweep_unmaps(State &s, int p, Doom doom)
    {
        s.p[p].lock = LOCK_DEATH;
        s.death.shoot = 0;
        for (int v = 0; v < views; v++) {
            Pte &t = s.v[v].pte[p];
            if (t.right == EMPTY || on(BUG_DEATH_KEEPS)) continue;
            if (in_tlb(t)) {
                s.death.shoot |= 1 << s.v[v].cpu;
                s.v[v].stale = 1;
            }
            set_empty(t);
            if (!on(TEXT_DOOM_ONCE)) doom_for_death(s, v, doom);
        }
        if (on(TEXT_SWEEP_FREES)) {
            sweep_frees(s, p);
            s.p[p].lock = LOCK_DEATH;
        }
        send(s, IPI_DEATH, s.death.shoot);
    }
    void sweep_frees(State &s, int p)
    {
        Page &g = s.p[p];
        if (g.frame1) frame_free(s, g.frame1 - 1);
        for (auto &o : g.old)
            if (o.frame1) frame_free(s, o.frame1 - 1);
        for (int v = 0; v < views; v++)
            if (s.v[v].copy1[p]) {
                frame_free(s, s.v[v].copy1[p] - 1);
                s.v[v].copy1[p] = 0;
                if (sc.credits) {
                    s.v[v].credits--;
                    s.pool++;
                    wake_credit(s);
                }
            }
        memset(g.old, 0, sizeof g.old);
        g.frame1 = g.writer1 = g.mask = g.lock = g.dirty = g.asked = g.csn = 0;
        g.log1 = g.away = g.read1 = g.readcsn = g.since = g.stale = 0;
        g.recalled = g.users = g.told = g.site = g.back = 0;
        g.lacks = sc.asks ? R | W : 0;
    }
    /* A call publishes, and has claimed the views of its group: of one that has a right to the page
     * a sweep takes nothing (QU3). A call that tells is one step. */
    bool claimed(int p) const
    {
        bool is = false;
        for (int i = 0; i < cur->grouped; i++)
            is |= cur->mpc >= 2 && cur->v[cur->group[i]].pte[p].right;
        return is;
    }
    /* in_hand: that call walks over a copy of the page, or is to release it. */
    bool in_hand(int p) const
    {
        bool is = false;
        for (int i = 0; i < NOLD; i++)
            is |= cur->p[p].old[i].frame1 && cur->p[p].old[i].keeper1 == PUBLISHER;
        for (int i = 0; i < cur->grouped; i++)
            is |= listed(cur->v[cur->group[i]], p) || cur->p[p].writer1 == cur->group[i] + 1;
        return is && cur->mpc >= 2;
    }
    /* The manager destroys the object of page 0, at any moment; the history is about the other one
     * then. */
    void destroys()
    {
        const State &S = *cur;
        if (S.destroys && !S.death.pc && !S.p[0].lock && (!claimed(0) || on(BUG_SWEEP_CLAIMED)))
            step(false, "KD_OBJECT_DESTROY unmaps", -1, 0, [&](State &s) {
                if (in_hand(0)) fail("(17) a sweep frees what a manager's call has in hand");
                s.destroys--;
                s.gone = 1;
                s.death.pc = 4;
                sweep_unmaps(s, 0, REFUSED);
            });
        if (S.death.pc == 4 && !awaited(S, IPI_DEATH))
            step(true, "KD_OBJECT_DESTROY frees", -1, 0, [&](State &s) {
                sweep_frees(s, 0);
                s.death = {};
                for (auto &t : s.t) t.wrote &= ~1, t.reads[0] = 0;
                for (int v = 0; v < views; v++) s.v[v].woken = 1;
            });
    }
    void manager_death()
    {
        const State &S = *cur;
        const Sweep &d = S.death;
        if (!S.dead) {
            if (S.deaths)
                step(false, "THE MANAGER DIES", -1, -1, [&](State &s) {
                    s.deaths--;
                    s.dead = 1;
                    s.death = {1, 0, 0, 0, 0};
                    s.mpc = s.grouped = s.queued = s.grouped2 = s.flushed2 = 0;
                    memset(s.group2, 0, NV);
                    memset(s.queue, 0, NV);
                    memset(s.group, 0, NV);
                    lock_wake(s); /* container_lock_dead */
                    for (int v = 0; v < views; v++) {
                        hand_ends(s.v[v]);
                        if (s.v[v].pc != ASKWAIT) doom_for_death(s, v, MANAGER_DEAD);
                        else s.v[v].woken = !on(BUG_ASK_DEAD); /* waits_end */
                        if (s.v[v].state == COMMITTING &&
                            (s.v[v].pc == CSLEEP || (s.v[v].pc == CM3 && !on(TEXT_C3_DEAD))) &&
                            !s.v[v].answer)
                            s.v[v].answer = 3;
                    }
                });
            return;
        }
        if (d.pc == 1 && !S.p[d.page].lock)
            step(true, "death: unmaps", -1, d.page, [&](State &s) {
                sweep_unmaps(s, d.page, MANAGER_DEAD);
                s.death.pc = 2;
            });
        if (d.pc == 2 && !awaited(S, IPI_DEATH))
            step(true, "death: frees", -1, d.page, [&](State &s) {
                sweep_frees(s, d.page);
                s.death.page++;
                s.death.pc = s.death.page < sc.pages ? 1 : 3;
                if (s.death.pc == 3) s.death.page = 0;
            });
        if (d.pc == 3)
            step(true, "the manager recovers", -1, -1, [&](State &s) {
                for (int p = 0; p < sc.pages; p++) {
                    int last = 0;
                    for (int t = 1; t <= total; t++)
                        if (committed(s.t[t]) && s.t[t].wrote >> p & 1 &&
                            (!last || s.t[t].csn > s.t[last].csn))
                            last = t;
                    s.p[p].home = last;
                    s.p[p].homecsn = s.t[last].csn;
                }
                s.dead = 0;
                s.death = {};
                s.epoch++;
                s.published = s.csn;
                s.durable = s.written = (1 << s.csn) - 1; /* recovery has flushed what it found */
            });
    }
};
