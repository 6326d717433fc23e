/*
 * items.cpp - a model of pages in item mode: several transactions store to one page in copies of
 * their own, which publication brings together (items.md, where the rules' labels are). Locks are
 * one table here; item_locks.cpp is a model of that table.
 *
 *     model-items check           every scenario, completely
 *     model-items teeth [RULE]    each rule switched, alone: some scenario must fail
 *     model-items trace RULE      a shortest counterexample, step by step
 *     model-items sweep N [SEED]  random programs and hazards
 *
 * Two pages of two words. One step is what one lock protects; a power cut comes behind each.
 */
#include <cstdlib>
#include "item_log.h"

struct Model : Log {
    /* ---- a transaction's way ---- */
    void begin(int v)
    {
        const View &x = now->v[v];
        if (x.txn == 3 || !body(x, v))
            return step(name(v), "has done all", [&](State &s) { s.v[v].pc = DONE; });
        step(name(v), "begins", [&](State &s) {
            View &y = s.v[v];
            bool snapshot = *body(y, v) == 'S';
            if (y.stale && !on(SNAP_STALE)) memset(y.tlb, 0, sizeof y.tlb);
            y.stale = 0;
            y.pc = OP;
            if (snapshot) y.snapshot = (u8)(s.published + 1);
            for (int p = 0; p < PAGES && !snapshot; p++)
                if (y.entry[p].kind == SNAP) {
                    y.entry[p] = {};
                    y.tlb[p] = {};
                }
        });
    }
    void aborts(int v, const char *why)
    {
        step(name(v), why, [&](State &s) { s.v[v].pc = ABORTS; });
    }
    void next_op(int v)
    {
        const View &x = now->v[v];
        char o = op(x, v);
        if (!o) return step(name(v), "comes to its end", [&](State &s) { s.v[v].pc = COMMIT; });
        if (o == 'c' && !now->holder)
            return step(name(v), "holds the container", [&](State &s) { s.holder = (u8)(v + 1); });
        if (waits(*now, v)) {
            if (victim(*now, v)) aborts(v, "is a deadlock's victim");
            return;
        }
        if (o == 'c')
            return step(name(v), "has drained the container", [&](State &s) { drained(s, v); });
        step(name(v), std::string("has the lock for ") + o + at(x, v)[1], [&](State &s) {
            View &y = s.v[v];
            for (int h = 0; h < HALVES && wants_item(*now, v); h++)
                if (halves(y, v) >> h & 1)
                    y.lock[h] = (u8)(on(MODE_REPLACED) ? mode_of(o) : y.lock[h] | mode_of(o));
            y.pc = ACCESS;
            int p = page(y, v);
            for (int i = 0; i < 2 && on(PULL) && y.copy[p]; i++)
                s.frame[y.copy[p] - 1].word[i] =
                    own(y, 2 * p + i, s.frame[s.p[p].frame - 1].word[i]);
        });
    }
    void drained(State &s, int v)
    {
        for (int u = 0; u < VIEWS; u++)
            for (int p = 0; p < PAGES && u != v && !in_snapshot(s.v[u], u); p++) {
                if (s.v[u].copy[p]) continue;
                entry_take(s, u, p);
                if (s.v[u].pc != WATCHES) s.v[u].used &= (u8)~bit(p);
            }
        s.drained = 1;
        s.v[v].op++;
    }

    /* ---- loads, stores, faults ---- */
    void access(int v)
    {
        const View &x = now->v[v];
        char o = op(x, v);
        int p = page(x, v);
        if (waits(*now, v)) {
            if (victim(*now, v)) aborts(v, "is a deadlock's victim at the container");
            return;
        }
        if (x.tlb[p].frame && (x.tlb[p].writes || !stores(o)))
            return step(name(v), std::string("does ") + o + at(x, v)[1],
                        [&](State &s) { touches(s, v); });
        if (x.entry[p].frame && (x.entry[p].kind == COPY || !stores(o)))
            return step(name(v), "walks its table", [&](State &s) { walks(s.v[v], p); });
        if (!x.entry[p].frame && !now->p[p].frame)
            return step(name(v), "faults: the page is supplied", [&](State &s) { supply(s, p); });
        if (!stores(o)) return step(name(v), "faults to read", [&](State &s) { maps(s, v, p); });
        step(name(v), "faults to write: copies the page, no lock held", [&](State &s) {
            View &y = s.v[v];
            memcpy(y.seen, s.frame[s.p[p].frame - 1].word, 2);
            y.seen_changes = s.p[p].changes;
            y.pc = GRANT;
        });
    }
    static void walks(View &x, int p)
    {
        x.tlb[p] = {x.entry[p].frame, (u8)(x.entry[p].kind == COPY)};
        x.used |= bit(p);
    }
    void maps(State &s, int v, int p)
    {
        View &x = s.v[v];
        Page &g = s.p[p];
        u8 frame = g.frame;
        if (x.snapshot && g.sequence >= x.snapshot) {
            frame = 0;
            for (int n = 0; n < OLD && !frame; n++)
                if (g.old[n].frame && g.old[n].sequence < x.snapshot &&
                    x.snapshot <= g.old[n].superseded) {
                    if (!on(ROUGH_SEEN)) settle(s, g, n);
                    frame = g.old[n].frame;
                }
            if (!frame) return wrong("a snapshot's version is gone");
        }
        x.entry[p] = {frame, x.snapshot ? SNAP : SHARED};
        x.used |= bit(p);
    }
    void touches(State &s, int v)
    {
        View &x = s.v[v];
        char o = op(x, v);
        int w = word(x, v), p = w / 2;
        if (!s.frame[x.tlb[p].frame - 1].used) return wrong("a freed frame is used");
        u8 &here = s.frame[x.tlb[p].frame - 1].word[w % 2];
        if (!stores(o)) {
            u8 want = x.snapshot ? s.history[x.snapshot - 1][w] : own(x, w, s.truth[w]);
            if (here != want && !x.stray)
                wrong(x.snapshot ? "a snapshot sees another state"
                                 : "a locked read sees another state");
            if (!x.snapshot && !x.set_mask[w] && !x.add[w]) {
                x.reads |= bit(w);
                x.read[w] = here;
            }
            if (o == 't' && !here) {
                x.pc = on(WATCH_LATE) ? LETS_GO : WATCHES;
                return give_up(s, v);
            }
        } else if (o == 'x') {
            here = 0xee;
            x.stray = 1;
        } else if (o == 'a' && on(ADD_PLAIN) && !x.loaded) {
            x.loaded = 1;
            x.sum = here;
            return;
        } else {
            if (x.loaded) here = x.sum;
            x.loaded = x.sum = 0;
            stored(x, v, w, o, here);
            x.declared[p] |= bit(w % 2);
        }
        x.op++;
        x.pc = OP;
    }
    static void stored(View &x, int v, int w, char o, u8 &here)
    {
        if (o == 'a') {
            here = (u8)(here + bit(v));
            x.add[w] = (u8)(x.add[w] + bit(v));
            return;
        }
        u8 mask = o == 'w' ? 0xff : o == 'l' ? 0x0f : 0xf0;
        u8 value = (u8)(((v + 1) * 0x11 + (x.txn ? 0x44 : 0)) & mask);
        here = (u8)((here & ~mask) | value);
        x.set_mask[w] |= mask;
        x.set[w] = (u8)((x.set[w] & ~mask) | value);
        if (o == 'w') x.add[w] = 0;
    }
    void grant(int v)
    {
        const View &x = now->v[v];
        int p = page(x, v);
        if ((waits(*now, v) && !on(LOCK_FAULT)) || too_many(*now, v)) {
            if (victim(*now, v)) aborts(v, "is a deadlock's victim in a fault");
            for (u8 u = 0; u < VIEWS && on(LIMIT_PARTLY); u++)
                if (x.noted < bit(u)) {
                    step(name(v), "notes one more owner", [&](State &s) {
                        s.v[v].noted = (u8)(s.v[v].noted | bit(u));
                    });
                    break;
                }
            return;
        }
        if (!now->p[p].frame)
            return step(name(v), "faults: the page is supplied", [&](State &s) { supply(s, p); });
        step(name(v), "is granted a copy", [&](State &s) {
            View &y = s.v[v];
            Page &g = s.p[p];
            bool again = y.seen_changes != g.changes && !on(NO_RECHECK);
            if (s.holder == v + 1 && s.drained) {
                y.paged |= bit(p);
                g.writer = (u8)(v + 1);
            } else {
                g.copies++;
            }
            y.copy[p] = frame_make(s, again ? s.frame[g.frame - 1].word : y.seen);
            y.entry[p] = {y.copy[p], COPY};
            y.tlb[p] = {};
            y.used |= bit(p);
            y.seen[0] = y.seen[1] = y.seen_changes = y.noted = 0;
            y.pc = ACCESS;
        });
    }

    /* ---- ends ---- */
    void commit(int v)
    {
        const View &x = now->v[v];
        if (x.snapshot)
            return step(name(v), "ends its snapshot", [&](State &s) { snapshot_ends(s, v); });
        if (!x.copy[0] && !x.copy[1])
            return step(name(v), "has stored nothing", [&](State &s) { s.v[v].pc = ENDING; });
        step(name(v), "is frozen, asks for its commit", [&](State &s) {
            View &y = s.v[v];
            for (int p = 0; p < PAGES; p++)
                if (y.copy[p]) {
                    y.entry[p].kind = FROZEN;
                    y.tlb[p] = {};
                }
            s.queue[s.queued++] = (u8)v;
            y.pc = ASKED;
            if (on(RELEASE_ASK)) unlock(y);
        });
    }
    /* Entries on current frames stay for the next one. */
    void snapshot_ends(State &s, int v)
    {
        View &x = s.v[v];
        for (int p = 0; p < PAGES; p++)
            if (x.entry[p].frame != s.p[p].frame) {
                x.entry[p] = {};
                x.tlb[p] = {};
            }
        x.snapshot = x.op = x.used = 0;
        x.txn++;
        x.pc = NEXT;
        collect(s, false);
    }
    /* Copies go, and what the transaction did; locks are given up. */
    void give_up(State &s, int v)
    {
        View &x = s.v[v];
        memset(x.tlb, 0, sizeof x.tlb);
        for (int p = 0; p < PAGES; p++) {
            u8 frame = x.copy[p];
            if (!frame) continue;
            if (x.paged >> p & 1) s.p[p].writer = 0;
            else s.p[p].copies--;
            copy_forget(x, p);
            x.entry[p] = {};
            frame_free(s, frame);
        }
        memset(x.read, 0, WORDS);
        x.reads = x.stray = x.loaded = x.sum = x.in_log = x.op = 0;
        x.seen[0] = x.seen[1] = x.seen_changes = 0;
        unlock(x);
        if (s.holder == v + 1) s.holder = s.drained = 0;
    }
    void ends(State &s, int v)
    {
        View &x = s.v[v];
        bool aborted = x.pc == ABORTS, keeps = on(NO_END_FLUSH) && !aborted;
        u8 before[sizeof x.tlb];
        memcpy(before, x.tlb, sizeof before);
        give_up(s, v);
        if (keeps) memcpy(x.tlb, before, sizeof before);
        if (x.snapshot) {
            memset(x.entry, 0, sizeof x.entry);
            x.snapshot = 0;
            collect(s, false);
        }
        x.used = 0;
        x.txn++;
        x.pc = NEXT;
    }

    /* ---- all steps ---- */
    void view(int v)
    {
        const View &x = now->v[v];
        if (runs(x) && now->kills)
            step(name(v), "is killed", [&](State &s) {
                s.kills--;
                s.v[v].pc = ABORTS;
            });
        for (int p = 0; p < PAGES && sc->speculates && (runs(x) || x.pc == ASKED); p++)
            if (x.entry[p].frame && !x.tlb[p].frame)
                step(name(v), "has a speculative walk", [&](State &s) { walks(s.v[v], p); });
        switch (x.pc) {
        case NEXT: return begin(v);
        case OP: return next_op(v);
        case ACCESS: return access(v);
        case GRANT: return grant(v);
        case COMMIT: return commit(v);
        case ENDING: return step(name(v), "is over", [&](State &s) { ends(s, v); });
        case ABORTS: return step(name(v), "is undone", [&](State &s) { ends(s, v); });
        case LETS_GO: return step(name(v), "watches", [&](State &s) { s.v[v].pc = WATCHES; });
        }
    }
    static State start_of(const Scenario &sc)
    {
        State s;
        memset(&s, 0, sizeof s);
        for (int p = 0; p < PAGES; p++) {
            s.frame[p].used = s.p[p].clean = 1;
            s.p[p].frame = (u8)(p + 1);
        }
        s.kills = sc.kills;
        s.refusals = sc.refusals;
        s.checkpoints = sc.checkpoints;
        s.evictions = sc.evictions;
        return s;
    }
    void at_rest(const State &s)
    {
        int used = 0, wanted = 0;
        for (auto &x : s.v)
            if (x.pc != DONE) return wrong("somebody waits for ever");
        for (auto &f : s.frame) used += f.used;
        for (auto &g : s.p) {
            wanted += g.frame != 0;
            for (auto &o : g.old) wanted += o.frame != 0;
        }
        if (used != wanted) wrong("a frame is lost");
        if (memcmp(s.truth, s.log_truth, WORDS)) wrong("not all that was logged is published");
    }
    void successors(const State &s, bool want_names, std::vector<Successor<State>> &result)
    {
        now = &s;
        out = &result;
        names = want_names;
        in_state = true;
        recover(s.durable, s.disk_truth);
        if (s.air_state == LAUNCHED) recover(s.air_end, s.air_truth);
        if (!error.empty()) return;
        in_state = false;
        for (int v = 0; v < VIEWS; v++) view(v);
        tells();
        group();
        checkpoints();
        if (error.empty() && result.empty()) {
            in_state = true;
            at_rest(s);
        }
    }
};

#include "item_scenarios.h"

/* Random programs, each with a hazard or two; COUNT of them from SEED on. */
static int sweep(uint64_t count, uint64_t seed)
{
    uint64_t states = 0, whole = 0;
    int bad = 0;
    for (uint64_t i = seed; i < seed + count; i++) {
        std::string text[VIEWS][2];
        Scenario sc = random_scenario(i, text);
        Model m;
        m.sc = &sc;
        Verdict v = explore(m, Model::start_of(sc), 3000000);
        states += v.states;
        whole += v.complete;
        if (v.error.empty()) continue;
        bad++;
        printf("seed %llu: %s\n", (unsigned long long)i, v.error.c_str());
        for (auto &x : text) printf("    program %s, %s\n", x[0].c_str(), x[1].c_str());
        for (auto &line : v.trace) printf("    %s\n", line.c_str());
    }
    printf("%llu programs, %llu complete, %llu states, %d errors\n", (unsigned long long)count,
           (unsigned long long)whole, (unsigned long long)states, bad);
    return bad != 0;
}

int main(int argc, char **argv)
{
    if (argc > 2 && !strcmp(argv[1], "sweep"))
        return sweep(strtoull(argv[2], nullptr, 10), argc > 3 ? strtoull(argv[3], nullptr, 10) : 1);
    return commands<Model>("model-items", scenarios, argc, argv);
}
