/*
 * model.h - the whole: MMU and TLBs, user mode, begin, pages in and out, old versions;
 * successors() is the transition relation.
 *
 * A step() is what one lock protects; between two steps anything else may happen, accesses on the
 * other CPU above all.
 */
#pragma once
#include "death.h"
#include <algorithm>

struct Model : Death {
    using Death::Death;

    /* ---- the hardware ---- */
    bool spinning(int c)
    {
        for (int v = 0; v < views; v++)
            if (cur->v[v].cpu == c && cur->v[v].pc == FAULT && cur->p[cur->v[v].page].lock)
                return true;
        return false;
    }
    void hardware()
    {
        for (int c = 0; c < NC; c++) {
            const Cpu &k = cur->c[c];
            for (int who = 0; who <= IPI_RECALL; who++)
                if (k.ipi >> who & 1 && !(on(BUG_SPIN_DEAF) && spinning(c)))
                    step(true, c ? "CPU1 serves a shootdown" : "CPU0 serves a shootdown", -1,
                         ipi_page(*cur, who), [&](State &s) {
                             flush(s, c, ipi_page(s, who));
                             s.c[c].ipi &= ~(1 << who);
                         });
            if (!k.table1) continue;
            int v = k.table1 - 1, page = -1;
            char kind = 0;
            bool user =
                cur->v[v].pc == USER && cur->v[v].cpu == c && operation(*cur, v, kind, page);
            for (int p = 0; p < sc.pages; p++) {
                const Pte &e = cur->v[v].pte[p];
                bool needed = user && page == p, write = e.right == COPY;
                if (sc.drop && k.tlb[p].frame1)
                    step(false, "TLB drops", v, p, [&](State &s) { flush(s, c, p); });
                if (k.walk1 == p + 1)
                    step(true, "MMU writes A back", v, p, [&](State &s) {
                        Pte &n = s.v[v].pte[p];
                        if (n.right == EMPTY) n.right = s.c[c].walkwrite ? COPY : SHARED;
                        n.frame = s.c[c].walkframe;
                        n.used |= 1;
                        s.c[c].tlb[p].frame1 = n.frame + 1;
                        s.c[c].tlb[p].write = s.c[c].walkwrite;
                        s.c[c].walk1 = s.c[c].walkframe = s.c[c].walkwrite = 0;
                    });
                if (k.walk1 || !(sc.speculate || needed) || !sufficient(e, 0) ||
                    (k.tlb[p].frame1 && k.tlb[p].write >= write))
                    continue;
                if (on(BUG_HW_A_RACE) && !e.used) {
                    step(needed, "MMU reads PTE", v, p, [&](State &s) {
                        s.c[c].walk1 = p + 1;
                        s.c[c].walkframe = e.frame;
                        s.c[c].walkwrite = write;
                    });
                    continue;
                }
                step(needed, "MMU walks, sets A", v, p, [&](State &s) {
                    s.v[v].pte[p].used |= 1;
                    s.c[c].tlb[p].frame1 = e.frame + 1;
                    s.c[c].tlb[p].write = write;
                });
            }
            for (int p = 0, v = k.table1 - 1; p < sc.pages; p++) {
                u8 alias1 = cur->v[v].alias1[p];
                bool write = alias1 & ALIAS_WRITE;
                if (!alias1 || (k.tlb[NP + p].frame1 && k.tlb[NP + p].write >= write)) continue;
                step(true, "MMU walks the second address", v, p, [&](State &s) {
                    s.c[c].tlb[NP + p].frame1 = alias1 & ~ALIAS_WRITE;
                    s.c[c].tlb[NP + p].write = write;
                });
            }
        }
    }

    /* ---- user mode ---- */
    void user(int v)
    {
        const View &V = cur->v[v];
        char kind;
        int p;
        if (V.doom && V.killed)
            step(true, "is killed in user mode", v, -1, [&](State &s) { s.v[v].pc = ABORT; });
        if (!operation(*cur, v, kind, p)) {
            commit(v);
            return;
        }
        if (is_lock(kind)) {
            hold_try(v, kind);
            return;
        }
        if (kind == 'x' || kind == 'g') {
            hint(v, p, kind);
            return;
        }
        if (kind == 'k' || kind == 'q' || kind == 't') { /* t: begin's own */
            kernel_copy(v, p, kind != 'q');
            return;
        }
        const Cpu &k = cur->c[V.cpu];
        if (k.table1 != v + 1) {
            step(true, "is dispatched", v, -1, [&](State &s) {
                s.c[V.cpu].table1 = v + 1;
                s.c[V.cpu].walk1 = 0;
                flush_all(s, V.cpu);
            });
            return;
        }
        bool write = kind == 'w' || kind == 'z' || kind == 'b';
        int at = kind == 'a' || kind == 'b' ? NP + p : p;
        if (k.tlb[at].frame1 && k.tlb[at].write >= write)
            step(true, write ? "writes" : "reads", v, p, [&](State &s) {
                int f = k.tlb[at].frame1 - 1;
                if (!s.f[f].used) {
                    fail("(4) access to a freed frame");
                    return;
                }
                s.v[v].op++;
                used_now(s, v, p);
                if (!write) {
                    record_read(s, v, p, s.f[f].content);
                    return;
                }
                if (s.v[v].copy1[p] != f + 1 || s.v[v].state != ACTIVE) {
                    fail("(1) a store into a frame that is not the view's private copy");
                    return;
                }
                if (kind == 'z') return; /* the same bytes as before */
                s.f[f].content = token(s, v);
                s.t[token(s, v)].wrote |= 1 << p;
            });
        else if (at != p && (V.late1 || sufficient(V.pte[p], write)))
            alias(v, p, write);
        else if (!sufficient(V.pte[p], write))
            step(true, write ? "faults, write" : "faults, read", v, p, [&](State &s) {
                View &n = s.v[v];
                n.page = p;
                n.pc = FAULT;
                faults(n);
                n.want = write ? 1 : snapshot_view(v) ? 0 : (n.wantx >> p & 1) || n.rmw ? 2 : 0;
            });
    }
    void alias(int v, int p, bool write)
    { /* a fault at the second address, where the first has the right (WI1, WI3) */
        const View &V = cur->v[v];
        if (V.late1)
            step(true, "stores the alias", v, p, [&](State &s) {
                s.v[v].alias1[p] = V.late1;
                s.v[v].late1 = 0;
            });
        else if (!alias_suffices(V.alias1[p], write))
            step(true, "copies its entry to the second address", v, p, [&](State &s) {
                u8 alias1 = alias_of(V.pte[p]) | (on(BUG_ALIAS_GREATER) ? ALIAS_WRITE : 0);
                if (on(TEXT_ALIAS_LATE)) s.v[v].late1 = alias1;
                else s.v[v].alias1[p] = alias1;
                if (!on(BUG_ALIAS_UNUSED)) s.v[v].pte[p].used |= 2;
            });
    }
    void hint(int v, int p, char kind)
    { /* KD_HINT_EXCLUSIVE, KD_TXN_RELEASE */
        const View &V = cur->v[v];
        if (kind == 'x')
            step(true, "KD_HINT_EXCLUSIVE", v, p, [&](State &s) {
                View &n = s.v[v];
                n.op++;
                n.page = p;
                if (n.pte[p].right == COPY || s.p[p].writer1 == v + 1) return;
                n.pc = FAULT;
                faults(n);
                n.want = 2;
                n.exclusive = 1;
            });
        else if (!cur->p[p].lock)
            step(true, "KD_TXN_RELEASE", v, p, [&](State &s) {
                View &n = s.v[v];
                n.op++;
                if (is_private(V.pte[p]) || V.pte[p].right == SPILLED) return;
                set_empty(n.pte[p]);
                s.p[p].mask &= ~(1 << v);
                if (s.p[p].writer1 == v + 1) s.p[p].writer1 = 0;
                if (!on(BUG_RELEASE_TLB)) local_flush(s, v, p);
                if (!on(BUG_RELEASE_WAKES)) wake_waiters(s, v);
            });
    }
    void kernel_copy(int v, int p, bool write)
    { /* a system call reads or writes the page through the kernel's own mapping of the frame */
        const View &V = cur->v[v];
        auto copy = [this, v, p, write](State &s, int f) {
            s.v[v].copying1 = 0;
            s.v[v].op++;
            if (!s.f[f].used) {
                fail("(4) the kernel copies from or to a freed frame");
                return;
            }
            if (!write) {
                record_read(s, v, p, s.f[f].content);
                return;
            }
            if (s.v[v].copy1[p] != f + 1) {
                fail("(1) a store into a frame that is not the view's private copy");
                return;
            }
            s.f[f].content = token(s, v);
            s.t[token(s, v)].wrote |= 1 << p;
        };
        if (V.copying1)
            step(true, "kernel copies", v, p, [&](State &s) { copy(s, V.copying1 - 1); });
        else if (sufficient(V.pte[p], write))
            step(true, "kernel looks at the PTE, sets USED, copies", v, p, [&](State &s) {
                if (!on(BUG_KERNEL_COPY)) s.v[v].pte[p].used |= 2;
                if (on(TEXT_KERNEL_PIN) || on(BUG_KERNEL_COPY))
                    s.v[v].copying1 = V.pte[p].frame + 1;
                else copy(s, V.pte[p].frame);
            }); /* under the view lock, or with the frame pinned */
        else
            step(true, "faults in the kernel", v, p, [&](State &s) {
                s.v[v].page = p;
                s.v[v].want = write;
                s.v[v].pc = FAULT;
                faults(s.v[v]);
            });
    }
    char operation_kind(const State &s, int v) const
    {
        char kind = 0;
        int page;
        operation(s, v, kind, page);
        return kind;
    }
    void enters(int v)
    { /* by its own will, or at its end */
        bool ended = finished(*cur, v);
        if (!sc.suspends || v > 1 || finished(*cur, 1 - v) || !(ended || cur->suspends)) return;
        if (cur->v[v].pc == USER || cur->v[v].pc == NEXT)
            step(ended, "is left for the thread's other view", v, -1, [&](State &s) {
                s.suspends -= !ended;
                enter(s, 1 - v);
            });
    }
    void migrate(int v)
    {
        const View &V = cur->v[v];
        if (!sc.migrate || (V.pc != USER && V.pc != NEXT) || finished(*cur, v)) return;
        int c = 1 - V.cpu;
        step(false, "moves to the other CPU", v, -1, [&](State &s) {
            s.v[v].cpu = c;
            if (s.c[c].table1 != v + 1 || !on(BUG_LAZY_TABLE)) flush_all(s, c);
            s.c[c].table1 = v + 1;
            s.c[c].walk1 = 0;
        });
    }

    /* ---- begin ---- */
    void begin(int v)
    {
        if (finished(*cur, v)) return;
        if (cur->v[v].killed) {
            step(true, "dies idle", v, -1, [&](State &s) {
                s.v[v].pc = ABORT;
                s.v[v].doom = KILLED;
            });
            return;
        }
        if (cur->dead && !on(TEXT_DOOM_ONCE))
            return; /* no transaction begins with rights to a dead manager's pages */
        bool snap = snapshot_view(v), tells_store = body(*cur, v)[0] == 't';
        if (tells_store && !on(TEXT_TICKET_LATE)) {
            step(true, "begin is refused: its words lie in the store", v, -1,
                 [&](State &s) { s.v[v].number++; });
            return;
        }
        step(true, snap ? "begins a snapshot" : "begins", v, -1, [&](State &s) {
            View &n = s.v[v];
            Txn &t = s.t[token(s, v)];
            memset(&t, 0, sizeof t);
            t.state = RUNNING;
            for (int u = 1; u <= total; u++)
                if (s.t[u].state == ACKED) t.before |= 1 << u;
            if (s.drains >> v & 1) fail("(10) a transaction begins as one that is waited for");
            n.op = n.copying1 = n.late1 = n.faults = n.behind = 0;
            for (int i = 0; i < s.clockwaits && sc.escalates; i++) n.behind |= 1 << s.clockqueue[i];
            n.late = s.drainer1 && !s.firstwalk;
            n.untouched = tells_store || body(s, v)[0] == 'L' || body(s, v)[0] == 'M';
            n.state = ACTIVE;
            n.pc = USER;
            n.epoch = s.epoch;
            begins_late(s, v);
            if (!n.ticket || on(BUG_NEW_TICKET)) n.ticket = ++s.tick;
            if (n.stale && !on(TEXT_BEGIN_STALE)) local_flush(s, v, -1);
            n.stale = 0;
            if (on(BUG_CLEAR_A))
                for (auto &e : n.pte)
                    if (e.right != COPY) e.used = 0;
            if (!snap) return;
            n.snap1 = s.published + 1;
            n.expired = 0;
            if (on(TEXT_SNAP_BEGIN)) {
                n.pc = SNAP2;
                return;
            }
            snapshot_ready(s, v);
        });
    }
    void snapshot_ready(State &s, int v)
    {
        View &n = s.v[v];
        if (n.snap1 != n.lastsnap1 && !on(BUG_SNAP_KEEPS)) give_up_rights(s, v);
        n.lastsnap1 = n.snap1;
        n.pc = USER;
    }

    /* ---- pages in and out, old versions ---- */
    void pages_in_and_out()
    {
        const State &S = *cur;
        for (int p = 0; p < sc.pages && !S.dead; p++) {
            const Page &g = S.p[p];
            if (sc.spills && (g.asked || g.read1) && !g.frame1 && !g.lock) {
                if (g.read1) supplies(p);
                else reads(p);
            } else if (g.asked && !g.frame1 && !g.lock)
                step(true, "the manager supplies", -1, p, [&](State &s) {
                    int f = frame_new(s);
                    s.f[f].content = g.home;
                    s.p[p].frame1 = f + 1;
                    s.p[p].csn = on(TEXT_SUPPLY_SEQUENCE) ? 0 : g.homecsn;
                    s.p[p].asked = 0;
                    for (int v = 0; v < views; v++)
                        if (s.v[v].pc == PAGEWAIT && s.v[v].page == p) s.v[v].woken = 1;
                });
            bool waits = sc.lazy && g.csn && !survives(S, g.csn) && !on(BUG_LAZY_HOME);
            if ((sc.evictions || sc.recalls) && g.dirty && g.frame1 && !g.lock && !waits)
                step(true, "EV2 cleans", -1, p, [&](State &s) {
                    if (sc.lazy && g.csn && !survives(s, g.csn))
                        fail("(13) a home holds what a power cut would undo");
                    s.p[p].home = s.f[g.frame1 - 1].content;
                    s.p[p].homecsn = g.csn;
                    s.p[p].dirty = 0;
                });
        }
        if (S.consumed && !S.dead)
            step(true, "checkpoint", -1, -1, [&](State &s) {
                s.pool += s.consumed;
                s.consumed = 0;
                wake_credit(s);
            });
    }
    void evictor()
    {
        const State &S = *cur;
        const Sweep &e = S.evict;
        int w = 0;
        while (e.cand && !(e.cand >> w & 1)) w++;
        if (e.pc == 0 && S.evictions)
            for (int p = 0; p < sc.pages; p++) {
                const Page &g = S.p[p];
                bool in_use = g.writer1 && S.v[g.writer1 - 1].pte[p].right != SPILLED;
                if (!g.frame1 || g.dirty || in_use || g.lock) continue;
                step(false, "EV1 picks", -1, p, [&](State &s) {
                    s.evictions--;
                    s.p[p].lock = LOCK_EVICT;
                    s.evict = {1, (u8)p, (u8)all(), 0, 0};
                });
            }
        const Pte *probed = e.pc == 1 && e.cand ? &S.v[w].pte[e.page] : nullptr;
        if (probed && probed->right == SHARED && probed->used &&
            probed->frame == S.p[e.page].frame1 - 1)
            step(true, "EV3 finds it used", w, e.page, [&](State &s) {
                s.evict.cand &= ~(1 << w);
                s.evict.index = 1; /* the page stays; entries that were probed before have gone */
            });
        if (probed)
            step(true, "EV3 probes", w, e.page, [&](State &s) {
                View &o = s.v[w];
                Pte &t = o.pte[e.page];
                s.evict.cand &= ~(1 << w);
                if (t.right == COPY || t.right == FROZEN) {
                    /* it came back since EV1: the page stays */
                    s.evict.index = !on(TEXT_EVICT_COPY);
                    if (s.evict.index) return;
                } else if (t.right != SHARED || t.frame != s.p[e.page].frame1 - 1 ||
                           (snapshot_view(w) && on(TEXT_EVICT_SNAPSHOT))) {
                    return; /* nothing, or a snapshot's entry for an old version */
                }
                if (in_tlb(t)) {
                    s.evict.shoot |= 1 << o.cpu;
                    o.stale = 1;
                }
                bool keep =
                    !snapshot_view(w) && t.used && !on(BUG_HELD_FORGOTTEN) &&
                    (o.state == ACTIVE || (o.state == COMMITTING && !on(TEXT_EVICT_COMMITTING)));
                if (keep) {
                    t.right = HELD;
                    s.p[e.page].held = s.tick;
                } else {
                    set_empty(t);
                }
            });
        if (e.pc == 1 && !e.cand)
            step(true, "EV3 shootdown", -1, e.page, [&](State &s) {
                if (!on(BUG_EVICT_NO_IPI) && !(e.index && on(TEXT_EVICT_STAYS)))
                    send(s, IPI_EVICT, e.shoot);
                s.evict.pc = 2;
            });
        if (e.pc == 2 && !awaited(S, IPI_EVICT))
            step(true, e.index ? "EV4 the page stays" : "EV4 frees", -1, e.page, [&](State &s) {
                Page &g = s.p[e.page];
                bool stays = e.index;
                if (stays) {
                    g.lock = 0;
                    s.evict = {};
                    return;
                }
                int f = g.frame1 - 1;
                g.frame1 = 0;
                g.lock = 0;
                frame_free(s, f);
                for (int v = 0; v < views; v++)
                    if (s.v[v].pte[e.page].right == HELD)
                        s.v[v].pte[e.page].frame = on(TEXT_HELD_MAP) ? f : 0;
                s.evict = {};
            });
    }
    /* A leaf of one page of which nothing is in use: what is left of it is the object's floor. */
    bool forgettable(const State &s, int p) const
    {
        const Page &g = s.p[p];
        bool is = !g.frame1 && !g.lock && !g.dirty && !g.asked && !g.writer1 && !g.queued &&
                  !g.log1 && (!g.away || g.csn <= s.settled);
        for (auto &o : g.old) is &= !o.frame1;
        for (int v = 0; v < views; v++) {
            bool over = s.v[v].state == IDLE || (s.v[v].state == ACTIVE && s.v[v].ticket > g.held);
            is &= s.v[v].pte[p].right == EMPTY ||
                  (s.v[v].pte[p].right == HELD && (over || on(TEXT_LEAF_HELD)));
            is &= !registered(s, v) || s.v[v].expired || g.csn <= s.v[v].snap1 - 1; /* LF1 */
        }
        return is;
    }
    void forget()
    {
        for (int p = 0; p < sc.pages && cur->forgets && !cur->dead; p++)
            if (forgettable(*cur, p))
                step(false, "LF2 forgets the leaf", -1, p, [&](State &s) {
                    Page &g = s.p[p];
                    s.forgets--;
                    for (int v = 0; v < views; v++)
                        if (g.mask >> v & 1) set_empty(s.v[v].pte[p]);
                    g.mask = 0;
                    s.floor = std::max(s.floor, g.csn);
                    int csn = on(TEXT_LEAF_FLOOR) ? 0 : s.floor;
                    if (g.read1 && g.readcsn == g.homecsn) g.readcsn = csn; /* it is the newest */
                    g.csn = g.homecsn = csn;
                    g.away = 0;
                });
    }

    void successors(const State &s, bool want_names, std::vector<Successor<State>> &result)
    {
        cur = &s;
        out = &result;
        names = want_names;
        progress = 0;
        in_state = false;
        hardware();
        for (int v = 0; v < views; v++) {
            if (suspended(s, v)) continue;
            enters(v);
            switch (s.v[v].pc) {
            case NEXT: begin(v); break;
            case SNAP2:
                step(true, "registers the snapshot", v, -1,
                     [&](State &n) { snapshot_ready(n, v); });
                break;
            case USER: user(v); break;
            case FAULT: fault(v); break;
            case SLEEP:
            case PAGEWAIT:
            case CREDITWAIT:
            case SHUTOUT: sleepers(v); break;
            case ASKWAIT: ask_sleeps(v); break;
            case F5ADMITTED:
                if (!s.p[s.v[v].page].lock)
                    step(true, "FT5 looks at the queue", v, s.v[v].page, [&](State &n) {
                        n.v[v].pc = FAULT;
                        if (!n.p[n.v[v].page].frame1 || n.v[v].doom) return;
                        n.p[n.v[v].page].lock = v + 1;
                        look_at_queue(n, v, n.v[v].page);
                    });
                break;
            case END1:
            case END2:
            case END3: ends(v); break;
            case SPILLASK:
            case BRING: spill_sleeps(v); break;
            case CLOCK: clock(v, operation_kind(s, v)); break;
            case ABORT: abort(v); break;
            case CM3:
            case CSLEEP:
            case CM8:
            case CM8IDLE: committing(v); break;
            case F3MAP:
                step(true, "FT3 maps what it saw", v, s.v[v].page, [&](State &n) {
                    int p = n.v[v].page, f = n.v[v].cand;
                    if (!n.f[f].used) {
                        fail("(4) FT3 maps a freed frame");
                        return;
                    }
                    n.v[v].pte[p] = {SHARED, (u8)f, 1};
                    use(n, p, v);
                    n.v[v].pc = USER;
                    n.v[v].cand = 0;
                });
                break;
            case DONE: break;
            default: conflict(v);
            }
            migrate(v);
        }
        for (int v = 0; v < views && sc.asks; v++) answers(v);
        manager();
        pages_in_and_out();
        evictor();
        recalls();
        remote();
        forget();
        settles();
        collector();
        kill();
        stale();
        clock_hand();
        manager_death();
        destroys();
        if (error.empty() && !progress) finish(s);
    }
};
