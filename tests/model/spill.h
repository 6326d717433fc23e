/*
 * spill.h - copies that go to their manager's log and come back (kernel/store/spill.c; SP1, SP2),
 * and pages that are supplied in two steps, so that a newer version may be published between them.
 *
 * p.log1 is what the manager's log holds of the one transaction that has the page; a spilled copy
 * has a PTE (SPILLED) and `writer`, and neither frame nor credit.
 */
#pragma once
#include "fault.h"

struct Spill : Fault {
    using Fault::Fault;

    virtual void add(State &s, int p, int until) = 0; /* version.h */

    /* The owner's side: at a write fault with copies, and at a touch of what is spilled. */
    void spill_asks(int v)
    {
        const View &V = cur->v[v];
        int other = 1 - V.page;
        if (V.want == 1 && cur->spills && V.copy1[other])
            step(false, "SP asks its manager to take copies", v, -1, [&](State &s) {
                s.spills--;
                if (!on(BUG_SPILL_TOLD)) s.v[v].told = 0;
                s.v[v].woken = s.v[v].waits = 0;
                s.v[v].pc = SPILLASK;
            });
    }
    void bring_asks(int v)
    {
        if (sc.credits && !cur->pool) return; /* it waits for the next checkpoint */
        step(true, "SP asks for its spilled copy", v, cur->v[v].page, [&](State &s) {
            if (sc.credits) {
                s.pool--;
                s.v[v].credits++; /* in hand */
            }
            s.v[v].waits = 0;
            s.v[v].pc = BRING;
        });
    }
    void spill_sleeps(int v)
    {
        const View &V = cur->v[v];
        if (V.doom)
            step(true, "SP3 leaves, doomed", v, -1, [&](State &s) {
                if (V.pc == BRING && sc.credits) {
                    s.v[v].credits--;
                    s.pool++;
                }
                s.v[v].pc = FAULT;
            });
        else if (!cur->dead && V.pc == BRING)
            step(true, "KD_TXN_UNSPILL", v, V.page, [&](State &s) { bring(s, v, s.v[v].page); });
        else if (!cur->dead)
            take_copies(v);
    }

    /* The manager's side. */
    void take_copies(int v)
    {
        const View &V = cur->v[v];
        int p = 1 - V.page;
        if (!(V.told >> p & 1) || !cur->p[p].log1)
            step(true, "KD_TXN_DIFF tells a copy whole", v, p, [&](State &s) {
                s.p[p].log1 = s.f[s.v[v].copy1[p] - 1].content + 1;
                s.v[v].told |= 1 << p;
            });
        step(true, "KD_TXN_SPILLED", v, p, [&](State &s) { /* it may say more than it told */
            if (s.v[v].told >> p & 1) away(s, v, p);
            s.v[v].told = 0;
            s.v[v].pc = FAULT;
        });
        if (cur->spills) /* what it read is not in its log; it is asked again */
            step(false, "KD_TXN_REFUSE: EAGAIN", v, p, [&](State &s) {
                s.p[p].log1 = 0;
                s.v[v].pc = FAULT;
            });
    }
    void away(State &s, int v, int p)
    { /* SP2, the shootdown with the view lock held; then the frame */
        View &n = s.v[v];
        if (!s.p[p].log1) {
            fail("(6) a copy is spilled that is not in the log");
            return;
        }
        int f = n.copy1[p] - 1;
        n.pte[p] = {SPILLED, 0, 0};
        n.copy1[p] = 0;
        if (!on(BUG_SPILL_NO_IPI)) flush(s, n.cpu, p);
        frame_free(s, f);
        s.p[p].log1 = token(s, v) + 1; /* logged whole: it counts as changed */
        s.t[token(s, v)].wrote |= 1 << p;
        if (sc.credits) {
            n.credits -= !on(BUG_SPILL_CREDITS);
            s.consumed++;
        }
    }
    void bring(State &s, int v, int p)
    {
        View &n = s.v[v];
        int f = frame_new(s);
        s.f[f].content = on(BUG_UNSPILL_OLD) ? s.p[p].home : s.p[p].log1 - 1;
        n.pte[p] = {COPY, (u8)f, 1};
        n.copy1[p] = f + 1;
        s.p[p].log1 = 0;
        n.pc = USER;
    }

    /* CM7 of a spilled copy: its page is not resident, and nothing older may come (PAGE_AWAY). Who
     * asked for it asks again; what was read for it may be on its way. */
    void publish_spilled(State &s, int v, int p)
    {
        Page &g = s.p[p];
        int csn = s.t[token(s, v)].csn;
        if (g.frame1 && snapshots()) {
            add(s, p, csn);
        } else if (g.frame1) {
            frame_free(s, g.frame1 - 1);
        } else {
            g.lost = snapshots();
        }
        g.frame1 = g.dirty = 0;
        g.csn = csn;
        g.away = !on(BUG_SPILL_AWAY);
        if (g.asked) wake_for_page(s, p, false);
        g.asked = 0;
        if (!sc.loses) {
            g.home = g.log1 - 1;
            g.homecsn = csn;
        }
        g.log1 = 0;
        use(s, p, v);
        if (!on(BUG_SPILL_HELD)) s.v[v].pte[p] = {HELD, 0, 0};
    }

    /* ---- pages in ---- */
    enum { STALE_MAX = 2 };

    void reads(int p)
    { /* again and again what is too old is no step forward */
        step(cur->p[p].stale < STALE_MAX, "the manager reads", -1, p, [&](State &s) {
            s.p[p].read1 = s.p[p].home + 1;
            s.p[p].readcsn = s.p[p].homecsn;
            s.p[p].since = s.published;
        });
    }
    void supplies(int p)
    {
        const Page &g = cur->p[p];
        bool old = g.away && g.readcsn < g.csn;
        step(!old || g.stale < STALE_MAX, old ? "its version is refused" : "the manager supplies",
             -1, p, [&](State &s) {
                 Page &n = s.p[p];
                 if (old) {
                     n.read1 = n.readcsn = n.since = 0;
                     n.stale += n.stale < STALE_MAX;
                     if (n.stale < STALE_MAX || on(BUG_STALE_FOR_EVER))
                         return;
                     n.asked = n.stale = 0;
                     wake_for_page(s, p, true); /* EIO */
                     return;
                 }
                 int f = frame_new(s);
                 s.f[f].content = n.read1 - 1;
                 n.frame1 = f + 1;
                 n.csn = n.readcsn;
                 n.asked = n.away = n.stale = n.read1 = n.readcsn = n.since = 0;
                 wake_for_page(s, p, false);
             });
    }
    void settles()
    { /* SP4: a later publication says of which versions nothing older is on its way */
        int settled = cur->published;
        for (auto &g : cur->p)
            if (g.read1 && g.since < settled && !on(BUG_SETTLED_EARLY)) settled = g.since;
        if (sc.spills && sc.forgets && settled > cur->settled)
            step(false, "its manager says what is settled", -1, -1,
                 [&](State &s) { s.settled = settled; });
    }
    void wake_for_page(State &s, int p, bool error)
    {
        for (int v = 0; v < views; v++)
            if (s.v[v].pc == PAGEWAIT && s.v[v].page == p) {
                s.v[v].woken = 1;
                if (error && !s.v[v].doom) s.v[v].doom = REFUSED;
            }
    }
};
