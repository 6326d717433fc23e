/*
 * version.h - old versions and the snapshots that keep them (kernel/store/version.c).
 *
 * A version is attached to one keeper: to the publication that superseded it, then to the youngest
 * registered snapshot that needs it. When a keeper ends, each version goes to the next older
 * snapshot that needs it, or is unmapped and freed; a step for each, in which its page is locked (a
 * portion).
 */
#pragma once
#include "spill.h"

struct Versions : Spill {
    using Spill::Spill;
    enum { PUBLISHER = NV + 1 }; /* Version.keeper1 */

    bool registered(const State &s, int v) const { return s.v[v].snap1 && s.v[v].pc != SNAP2; }
    bool needs(const State &s, int v, const Version &o) const
    {
        int sequence = s.v[v].snap1 - 1;
        return registered(s, v) && !s.v[v].expired && o.csn <= sequence && sequence < o.until;
    }
    bool keeps(const State &s, int keeper1) const
    {
        for (int p = 0; p < sc.pages; p++)
            for (auto &o : s.p[p].old)
                if (o.frame1 && o.keeper1 == keeper1) return true;
        return false;
    }
    void add(State &s, int p, int until)
    { /* version_add: the current version ends */
        Page &g = s.p[p];
        Version *o = g.old;
        while (o < g.old + NOLD && o->frame1) o++;
        if (o == g.old + NOLD) {
            fail("model: too many old versions");
            return;
        }
        *o = {g.frame1, g.csn, (u8)until, (u8)(on(TEXT_GC_FIFO) ? 0 : PUBLISHER)};
    }
    /* The snapshot before the keeper in the list, which is ordered by sequence, if that needs the
     * version; one that ends or has expired may be given it, and gives it on. */
    int heir(const State &s, const Version &o) const
    {
        int best = -1, below = o.keeper1 == PUBLISHER ? o.until : s.v[o.keeper1 - 1].snap1;
        for (int u = 0; u < views; u++)
            if (u + 1 != o.keeper1 && registered(s, u) && s.v[u].snap1 <= below &&
                (o.csn <= s.v[u].snap1 - 1 || on(BUG_GC_KEEPS)) &&
                (best < 0 || s.v[u].snap1 > s.v[best].snap1))
                best = u;
        return on(BUG_GC_SNAPSHOT) ? -1 : best;
    }
    void hand_on(State &s, int p, int i)
    { /* version_settle, the leaf locked */
        Version &o = s.p[p].old[i];
        int u = heir(s, o);
        if (u >= 0) o.keeper1 = u + 1;
        else unmap(s, p, i);
    }
    void unmap(State &s, int p, int i)
    {
        Version &o = s.p[p].old[i];
        s.p[p].lock = LOCK_GC;
        s.gc = {1, (u8)p, 0, 0, (u8)i};
        for (int v = 0; v < views; v++) {
            Pte &t = s.v[v].pte[p];
            if (!(s.p[p].mask >> v & 1) || !snapshot_view(v)) continue;
            if (t.right != SHARED || t.frame != o.frame1 - 1) continue;
            set_empty(t);
            s.gc.shoot |= 1 << s.v[v].cpu;
            s.v[v].stale = 1;
        }
        if (!on(BUG_GC_NO_IPI)) send(s, IPI_GC, s.gc.shoot);
    }
    /* One portion: a version of this keeper whose page is not locked. */
    void portion(int keeper1, const char *text)
    {
        for (int p = 0; p < sc.pages && !cur->gc.pc; p++)
            for (int i = 0; i < NOLD && !cur->p[p].lock; i++)
                if (cur->p[p].old[i].frame1 && cur->p[p].old[i].keeper1 == keeper1) {
                    step(true, text, keeper1 <= NV ? keeper1 - 1 : -1, p,
                         [&](State &s) { hand_on(s, p, i); });
                    return;
                }
    }
    /* The end of a snapshot: true when nothing is attached to it; in the same section it leaves the
     * list. */
    bool snapshot_ended(int v)
    {
        if (!cur->v[v].snap1 || on(TEXT_GC_FIFO) || cur->v[v].left) return true;
        if (keeps(*cur, v + 1)) {
            portion(v + 1, "hands a version on");
            return false;
        }
        if (!on(TEXT_GC_TWO_STEPS)) return true;
        step(true, "has no version any more", v, -1, [&](State &s) { s.v[v].left = 1; });
        return false;
    }
    bool fifo_head(const State &s, int &p, int &i) const
    {
        bool found = false;
        for (int q = 0; q < sc.pages; q++)
            for (int k = 0; k < NOLD; k++) {
                const Version &o = s.p[q].old[k];
                if (!o.frame1 || (found && s.p[p].old[i].until <= o.until)) continue;
                found = true;
                p = q;
                i = k;
            }
        return found;
    }
    bool needed(const State &s, const Version &o) const
    {
        bool is = false;
        for (int v = 0; v < views; v++) is |= needs(s, v, o);
        return is;
    }
    /* Frees what was unmapped; takes what snapshots kept that were over their budget. */
    void collector()
    {
        const State &S = *cur;
        const Sweep &e = S.gc;
        int p = 0, i = 0;
        for (int v = 0; v < views; v++)
            if (S.v[v].snap1 && S.v[v].expired) portion(v + 1, "CM7 sheds a version");
        if (e.pc == 0 && on(TEXT_GC_FIFO) && fifo_head(S, p, i) && !S.p[p].lock &&
            S.p[p].old[i].until <= S.published && !needed(S, S.p[p].old[i]))
            step(true, "GC unmaps a version", -1, p, [&](State &s) { unmap(s, p, i); });
        if (e.pc == 1 && !awaited(S, IPI_GC))
            step(true, "frees a version", -1, e.page, [&](State &s) {
                Page &g = s.p[e.page];
                frame_free(s, g.old[e.index].frame1 - 1);
                for (int i = e.index; i < NOLD; i++)
                    g.old[i] = i + 1 < NOLD ? g.old[i + 1] : Version{};
                g.lock = 0;
                s.gc = {};
            });
    }
    int find_version(const State &s, int v, int p) const
    {
        const Page &g = s.p[p];
        int csn = s.v[v].snap1 - 1;
        if (g.csn <= csn) return g.frame1 - 1;
        for (auto &o : g.old)
            if (o.frame1 && o.csn <= csn && csn < o.until) return o.frame1 - 1;
        return -1;
    }

    /* (12) Is its keeper about to give it on or free it? */
    bool on_its_way(const State &s, int p, int i) const
    {
        const Version &o = s.p[p].old[i];
        int q = 0, k = 0;
        if (s.gc.pc && s.gc.page == p && s.gc.index == i) return true;
        if (on(TEXT_GC_FIFO))
            return o.until > s.published || !fifo_head(s, q, k) || !needed(s, s.p[q].old[k]);
        if (o.keeper1 == PUBLISHER) return s.mpc >= 2;
        const View &k1 = s.v[o.keeper1 - 1];
        return k1.snap1 && (k1.expired || k1.pc == CM8 || k1.pc == CM8IDLE || k1.pc == ABORT);
    }
    void versions_kept(State &s)
    {
        for (int p = 0; p < sc.pages && !s.dead; p++)
            for (int i = 0; i < NOLD; i++) {
                const Version &o = s.p[p].old[i];
                if (!o.frame1 || on_its_way(s, p, i)) continue;
                if (!needed(s, o)) fail("(12) a version is kept that no snapshot needs");
                else if (!on(TEXT_GC_FIFO) && !needs(s, o.keeper1 - 1, o))
                    fail("(12) a version is attached to a snapshot that does not need it");
            }
    }
};
