/*
 * commit.h - commit (CM1..CM8, both sides) and abort (AB1..AB5), and the manager.
 */
#pragma once
#include "version.h"

struct Commit : Versions {
    using Versions::Versions;

    void commit(int v)
    {
        if (cur->v[v].doom && !on(BUG_DOOM_COMMITS)) {
            step(true, "CM1 finds its doom", v, -1, [&](State &s) { s.v[v].pc = ABORT; });
            return;
        }
        step(true, "CM1 freezes", v, -1, [&](State &s) {
            View &n = s.v[v];
            bool copies = false;
            n.state = COMMITTING;
            for (int p = 0; p < sc.pages; p++)
                if (n.pte[p].right == COPY) {
                    n.pte[p].right = FROZEN;
                    copies = true;
                    if (!on(BUG_NO_FREEZE_FLUSH)) local_flush(s, v, p);
                } else if (n.pte[p].right == SPILLED) {
                    copies = true;
                }
            if (!copies) s.t[token(s, v)].state = READONLY;
            n.pc = copies ? CM3 : CM8;
            if (!copies) serialisable(s);
        });
    }
    void committing(int v)
    {
        const View &V = cur->v[v];
        if (V.pc == CM3)
            step(true, "CM3 enqueues", v, -1, [&](State &s) {
                View &n = s.v[v];
                n.pc = CSLEEP;
                if (n.answer || (on(TEXT_C3_DEAD) && s.dead)) return;
                s.queue[s.queued++] = v;
            });
        if (V.pc == CSLEEP && V.answer == 1)
            step(true, "CM8 wakes", v, -1, [&](State &s) {
                s.v[v].pc = CM8;
                s.v[v].answer = 0;
            });
        if (V.pc == CSLEEP && V.answer > 1)
            step(true, "wakes, refused", v, -1, [&](State &s) {
                s.v[v].doom = V.answer == 2 ? REFUSED : MANAGER_DEAD;
                s.v[v].pc = ABORT;
                s.v[v].answer = 0;
            });
        if (V.pc == CM8)
            for (int p = 0; p < sc.pages; p++)
                if (V.copy1[p]) {
                    drop_copy(v, p, "CM8 drops an unchanged copy");
                    return;
                }
        if (V.pc == CM8 && snapshot_ended(v))
            step(true, "CM8 ends", v, -1, [&](State &s) {
                View &n = s.v[v];
                Txn &t = s.t[token(s, v)];
                if (t.state != PUBLISHED && t.state != READONLY) {
                    fail("(6) acknowledged before publication");
                    return;
                }
                if (on(TEXT_C8_CREDITS))
                    for (int p = 0; p < sc.pages; p++)
                        if (t.wrote >> p & 1) s.pool++;
                if (n.owed || locks_wanted(s, v)) give_up_rights(s, v);
                n.owed = 0;
                n.snap1 = n.left = 0;
                if (on(TEXT_C8_ORDER)) {
                    wake_waiters(s, v);
                    n.pc = CM8IDLE;
                    return;
                }
                end(s, v);
            });
        if (V.pc == CM8IDLE) step(true, "CM8 idle", v, -1, [&](State &s) { end(s, v); });
    }
    void end(State &s, int v)
    { /* one section under the view lock: rights given up, IDLE, OWED read; then the wake-ups */
        View &n = s.v[v];
        s.t[token(s, v)].state = ACKED;
        asks_over(s, v);
        n.state = IDLE;
        n.doom = n.ticket = n.wantx = n.aborts = n.page = n.want = n.cand = n.block = n.op =
            n.woken = n.copying1 = 0;
        n.waits = 0;
        n.number++;
        n.pc = NEXT;
        n.late = n.untouched = n.cursor = n.logged = 0;
        if (n.killed) vanish(s, v);
        if (!on(TEXT_C8_ORDER)) idle(s, v);
    }
    void vanish(State &s, int v)
    {
        give_up_rights(s, v);
        s.v[v].pc = DONE;
        s.v[v].stale = 0;
    }
    void drop_copy(int v, int p, const char *text)
    {
        if (cur->p[p].lock) return;
        step(true, text, v, p, [&](State &s) {
            View &n = s.v[v];
            set_empty(n.pte[p]);
            if (!on(BUG_ABORT_INVLPG)) local_flush(s, v, p);
            s.p[p].writer1 = 0;
            frame_free(s, n.copy1[p] - 1);
            n.copy1[p] = 0;
            if (sc.credits && !on(BUG_ABORT_CREDITS)) {
                s.pool++;
                wake_credit(s);
            }
            if (sc.credits) n.credits--;
        });
    }
    void abort(int v)
    {
        const View &V = cur->v[v];
        for (int p = 0; p < sc.pages; p++)
            if (V.copy1[p]) {
                drop_copy(v, p, "AB2 drops its copy");
                return;
            } else if (V.pte[p].right == SPILLED) {
                if (!cur->p[p].lock)
                    step(true, "AB2 drops its record", v, p, [&](State &s) {
                        set_empty(s.v[v].pte[p]);
                        s.p[p].writer1 = s.p[p].log1 = 0;
                    });
                return;
            }
        if (!snapshot_ended(v)) return;
        step(true, "AB4 idle, wakes", v, -1, [&](State &s) {
            View &n = s.v[v];
            Txn &t = s.t[token(s, v)];
            bool retry = n.doom == DEADLOCK || n.doom == CONVERSION;
            if ((n.owed || retry || locks_wanted(s, v)) && !on(TEXT_ABORT_KEEPS) &&
                !on(BUG_NO_WANTX))
                give_up_rights(s, v);
            if (retry && ++n.aborts > sc.bound) {
                fail("(5) a transaction is aborted again and again");
                return;
            }
            if (on(BUG_NO_WANTX)) n.wantx = 0;
            bool unknown = n.doom == MANAGER_DEAD && t.state != RUNNING;
            if (!unknown) {
                memset(&t, 0, sizeof t);
                t.state = ABORTED;
            }
            if (n.doom == REFUSED || n.doom == STALE || unknown) {
                n.number++;
                n.ticket = n.wantx = n.aborts = 0;
            }
            lock_leave(s, v);
            credit_leave(s, v);
            asks_over(s, v);
            n.state = IDLE;
            n.owed = n.waits = n.doom = n.snap1 = n.page = n.want = n.cand = n.block = n.op =
                n.woken = n.upgrade = n.late = n.untouched = n.clock = n.cursor = n.logged =
                    n.left = 0;
            n.pc = NEXT;
            if (n.killed) { vanish(s, v); }
            if (retry && sc.suspends && v < 2 && !finished(s, 1 - v))
                enter(s, 1 - v); /* a victim's thread goes on with its other transaction */
            idle(s, v);
        });
    }

    /* ---- the manager ---- */
    void manager()
    {
        const State &S = *cur;
        if (S.dead) return;
        if (S.mpc && S.queued && !S.grouped2 && !S.failed && sc.overlap)
            step(true, "CM4 takes the next group", -1, -1,
                 [&](State &s) { take_group(s, s.group2, s.grouped2); });
        lazy_flush();
        switch (S.mpc) {
        case 0:
            if (!S.queued) break;
            if (S.failed && !on(BUG_FAILED_ONCE)) {
                step(true, "refused: the log is read-only", -1, -1,
                     [&](State &s) { refuse(s, s.queue, s.queued); });
                break;
            }
            if (S.refusals)
                step(false, "CM4 refuses the first", -1, -1, [&](State &s) {
                    s.refusals--;
                    s.v[s.queue[0]].answer = 2;
                    s.queued--;
                    for (int i = 0; i < NV; i++) s.queue[i] = i < s.queued ? s.queue[i + 1] : 0;
                });
            step(true, "CM4 takes the group", -1, -1, [&](State &s) {
                take_group(s, s.group, s.grouped);
                s.mpc = on(BUG_PUBLISH_EARLY) ? 2 : 1;
            });
            break;
        case 1:
            if (sc.destroys && tells()) break;
            if (S.failed && sc.lazy && !on(BUG_LAZY_FAILED)) {
                step(true, "refused: the lazy flush failed", -1, -1, [&](State &s) {
                    refuse(s, s.group, s.grouped);
                    refuse(s, s.group2, s.grouped2);
                    s.mpc = 0;
                });
                break;
            }
            if (lazy_group()) {
                step(true, "CM5 written, lazily", -1, -1, [&](State &s) {
                    if (s.failed) fail("(6) logged behind a failed flush");
                    for (int i = 0; i < s.grouped; i++)
                        s.t[token(s, s.group[i])].state = LOGGED;
                    s.written |= bit_of(s, s.group[0]);
                    s.mpc = 2;
                    serialisable(s);
                });
                break;
            }
            if (S.flushfails)
                step(false, "CM5 the flush fails", -1, -1, [&](State &s) {
                    s.flushfails--;
                    s.failed = 1;
                    if (on(BUG_FLUSH_LIES)) {
                        s.mpc = 2;
                        return;
                    }
                    refuse(s, s.group, s.grouped);
                    refuse(s, s.group2, s.grouped2);
                    s.mpc = 0;
                });
            step(true, "CM5 flush", -1, -1, [&](State &s) {
                if (s.failed) {
                    fail("(6) a flush counts after a failed one");
                    return;
                }
                for (int i = 0; i < s.grouped; i++) s.t[token(s, s.group[i])].state = LOGGED;
                for (int i = 0; i < s.grouped2; i++) s.t[token(s, s.group2[i])].state = LOGGED;
                s.flushed2 = s.grouped2 != 0;
                int own = bit_of(s, s.group[0]) | (s.grouped2 ? bit_of(s, s.group2[0]) : 0);
                s.written |= own;
                s.durable |= on(BUG_LAZY_ORDER) ? own : s.written;
                if (s.flushed2 && on(BUG_GROUP_ORDER)) swap_groups(s);
                if (on(TEXT_PUBLISHED_FIRST)) s.published = s.t[token(s, s.group[0])].csn;
                s.mpc = on(BUG_PUBLISH_EARLY) ? 3 : 2;
                if (on(BUG_ACK_EARLY))
                    for (int i = 0; i < s.grouped; i++) s.v[s.group[i]].answer = 1;
                serialisable(s);
            });
            break;
        case 2: publish_page(); break;
        case 3:
            step(true, "CM7 published = csn", -1, -1, [&](State &s) {
                for (int i = 0; i < s.grouped; i++)
                    if (s.t[token(s, s.group[i])].state != LOGGED)
                        fail("(6) published, not logged");
                s.published = s.t[token(s, s.group[s.grouped - 1])].csn;
                for (int i = 0; i < s.grouped; i++) s.t[token(s, s.group[i])].state = PUBLISHED;
                s.mpc = 4;
            });
            break;
        case 4:
            if (releases()) break;
            for (int i = 0; i < S.grouped; i++)
                for (int p = 0; p < sc.pages; p++)
                    if (S.p[p].writer1 == S.group[i] + 1 &&
                        S.t[token(S, S.group[i])].wrote >> p & 1) {
                        if (!S.p[p].lock)
                            step(true, "CM7 writer = none", -1, p,
                                 [&](State &s) { s.p[p].writer1 = 0; });
                        return;
                    }
            step(true, "CM7 answers", -1, -1, [&](State &s) {
                for (int i = 0; i < s.grouped; i++) {
                    s.v[s.group[i]].answer = 1;
                    if (!lazy_view(s.group[i]) && !survives(s, s.t[token(s, s.group[i])].csn))
                        fail("(13) a strict commit is answered, and it or one before it may be "
                             "lost");
                }
                s.grouped = 0;
                memset(s.group, 0, NV);
                swap_groups(s);
                s.mpc = !s.grouped ? 0 : s.flushed2 ? 2 : 1;
                s.flushed2 = 0;
            });
        }
    }
    /* ---- lazy commits: the log takes them in order, a flush comes later ---- */
    bool lazy_view(int v) const { return sc.lazy >> v & 1; }
    bool lazy_group() const
    {
        int lazy = 0;
        for (int i = 0; i < cur->grouped; i++) lazy += lazy_view(cur->group[i]);
        return lazy && (lazy == cur->grouped || on(BUG_LAZY_SHARED));
    }
    int bit_of(const State &s, int v) const { return 1 << (s.t[token(s, v)].csn - 1); }
    /* By the clock, or because somebody asks. */
    void lazy_flush()
    {
        const State &S = *cur;
        if (!(S.written & ~S.durable) || S.failed) return;
        step(true, "the lazy commits are flushed", -1, -1,
             [&](State &s) { s.durable |= s.written; });
        if (S.flushfails)
            step(false, "the flush of the lazy commits fails", -1, -1, [&](State &s) {
                s.flushfails--;
                s.failed = 1;
            });
    }
    /* A copy is in its view's list until a sweep takes its entry; its frame is freed later. */
    static bool listed(const View &v, int p) { return v.copy1[p] && v.pte[p].right; }
    /* KD_TXN_DIFF, a copy for each call, in the order of the list of copies: that of their first
     * stores. */
    bool tells()
    {
        for (int i = 0; i < cur->grouped; i++) {
            int v = cur->group[i], place = 0;
            const View &V = cur->v[v];
            const std::string &b = body(*cur, v);
            for (size_t k = 0; k + 1 < b.size(); k += 2) {
                int p = b[k + 1] - '0';
                if (b[k] != 'w' || !listed(V, p) || (b.find(b.substr(k, 2)) != k)) continue;
                bool next = on(TEXT_DIFF_PLACE) ? place == V.cursor : !(V.logged >> p & 1);
                place++;
                if (!next) continue;
                step(true, "CM4 KD_TXN_DIFF tells a copy", v, p, [&](State &s) {
                    s.v[v].logged |= 1 << p;
                    s.v[v].cursor += on(TEXT_DIFF_PLACE);
                });
                return true;
            }
        }
        return false;
    }
    /* CM7, pass 2: for each page in one section `writer` goes, and the version is handed on. */
    bool releases()
    {
        const State &S = *cur;
        for (int p = 0; p < sc.pages; p++)
            for (int i = 0; i < NOLD; i++) {
                if (!S.p[p].old[i].frame1 || S.p[p].old[i].keeper1 != PUBLISHER) continue;
                if (!S.p[p].lock && !S.gc.pc)
                    step(true, "CM7 writer = none, hands a version on", -1, p, [&](State &s) {
                        for (int k = 0; k < s.grouped; k++)
                            if (s.p[p].writer1 == s.group[k] + 1 &&
                                s.t[token(s, s.group[k])].wrote >> p & 1)
                                s.p[p].writer1 = 0;
                        hand_on(s, p, i);
                    });
                return true;
            }
        return false;
    }
    /* One number for a group: the kernel publishes it in one step. */
    void take_group(State &s, u8 *group, u8 &n)
    {
        memcpy(group, s.queue, NV);
        memset(s.queue, 0, NV);
        n = s.queued;
        s.queued = 0;
        s.csn++;
        for (int i = 0; i < n; i++) s.t[token(s, group[i])].csn = s.csn;
    }
    void swap_groups(State &s)
    {
        for (int i = 0; i < NV; i++) std::swap(s.group[i], s.group2[i]);
        std::swap(s.grouped, s.grouped2);
    }
    void refuse(State &s, u8 *group, u8 &n)
    {
        for (int i = 0; i < n; i++) s.v[group[i]].answer = 2;
        memset(group, 0, NV);
        n = 0;
    }
    void publish_page()
    {
        const State &S = *cur;
        for (int i = 0; i < S.grouped; i++)
            for (int p = 0, v = S.group[i]; p < sc.pages; p++) {
                if (S.v[v].pte[p].right == SPILLED && S.p[p].log1) {
                    if (!S.p[p].lock)
                        step(true, "CM7 flips a spilled one", v, p,
                             [&](State &s) { publish_spilled(s, v, p); });
                    return;
                }
                if (!listed(S.v[v], p) ||
                    (!(S.t[token(S, v)].wrote >> p & 1) && !on(TEXT_EMPTY_DIFF)) ||
                    (sc.destroys && !(S.v[v].logged >> p & 1)))
                    continue;
                if (!S.p[p].lock) step(true, "CM7 flips", v, p, [&](State &s) { flip(s, v, p); });
                return;
            }
        step(true, on(BUG_PUBLISH_EARLY) ? "CM7 all flipped, flush next" : "CM7 all flipped", -1,
             -1, [&](State &s) {
                 s.mpc = on(BUG_PUBLISH_EARLY) ? 1 : 3;
                 for (int i = 0; i < s.grouped; i++)
                     for (int p = 0; p < sc.pages; p++)
                         if (listed(s.v[s.group[i]], p) &&
                             s.t[token(s, s.group[i])].wrote >> p & 1)
                             fail("(6) a part of a committed transaction is lost");
             });
    }
    void flip(State &s, int v, int p)
    {
        Page &g = s.p[p];
        View &n = s.v[v];
        int csn = s.t[token(s, v)].csn;
        if (!(s.t[token(s, v)].wrote >> p & 1)) {
            n.pte[p] = {SHARED, (u8)(g.frame1 - 1), 1};
            g.writer1 = 0;
            frame_free(s, n.copy1[p] - 1);
            n.copy1[p] = 0;
            return;
        }
        bool keep = snapshots();
        if (on(TEXT_FREE_AT_FLIP)) {
            keep = false;
            for (int u = 0; u < views; u++)
                if (snapshot_view(u) && s.v[u].snap1 && s.v[u].pc != SNAP2 &&
                    g.csn <= s.v[u].snap1 - 1 && s.v[u].snap1 - 1 < csn)
                    keep = true;
        }
        if (!g.frame1) g.lost |= keep; /* its base went while it was spilled */
        else if (keep) add(s, p, csn);
        if (g.asked) { /* the manager may find it here, and not answer */
            g.asked = g.read1 = g.readcsn = g.since = 0;
            wake_for_page(s, p, false);
        }
        int old = g.frame1 - 1;
        g.frame1 = n.copy1[p];
        g.csn = csn;
        g.dirty = 1;
        n.copy1[p] = 0;
        n.pte[p].right = SHARED;
        use(s, p, v);
        if (on(TEXT_WRITER_AT_FLIP)) g.writer1 = 0;
        if (sc.credits) {
            n.credits--;
            s.consumed++;
        }
        if (!keep && old >= 0) {
            for (int u = 0; u < views; u++)
                if (snapshot_view(u) && s.v[u].pte[p].right && s.v[u].pte[p].frame == old) {
                    set_empty(s.v[u].pte[p]);
                    flush(s, s.v[u].cpu, p);
                }
            frame_free(s, old);
        }
    }
};
