/*
 * item_locks.cpp - a model of the lock table of item mode: entries with one holder bit for each
 * view and mode, which user mode sets and clears by single instructions, and the kernel's way for
 * who meets another (items.md, where the rules' labels are).
 *
 *     model-item_locks check           every scenario, completely
 *     model-item_locks teeth [RULE]    each rule switched, alone: some scenario must fail
 *     model-item_locks trace RULE      a shortest counterexample, step by step
 *
 * One step is one instruction on shared memory in user mode, or what one lock of the kernel
 * protects. A program may be killed, or undone by order, at each step of user mode.
 */
enum { VIEWS = 3, ENTRIES = 2, ITEMS = 3, TXNS = 3 };
#define RULES(X) \
    X(IDLE_BLOCKS, "IL1: the kernel takes the bit of a view that is not active for a lock") \
    X(STALE_UNLOCKED, "IL1: a stale bit is cleared outside of the section that saw its view idle") \
    X(CHECK_THEN_SET, "IL2: user mode looks at the masks, sets its bit, and does not look again") \
    X(PLAIN_BIT, "IL2: the bit is set by a load and a store") \
    X(BARGE, "IL2: user mode does not look at `waiting`") \
    X(LIST_LATE, "IL2: the entry is noted in the list behind its bit") \
    X(KEEP_EDGES, "IL3: who withdraws a bit leaves others' edges to it, and wakes nobody") \
    X(WAKE_ALWAYS, "IL3: each look takes others' edges to the caller, also between first and last") \
    X(GRANT_KEEPS, "IL3: who gets its mode leaves the edges of those behind it, and wakes nobody") \
    X(WAITING_LATE, "IL3: the kernel sets `waiting` behind its look at the holders") \
    X(EDGE_LATE, "IL3: an edge is made behind the section that saw its holder active") \
    X(TENTATIVE_GRANT, "IL3: the kernel looks first, and sets the bit when nobody is in the way") \
    X(UPGRADE_LAST, "IL3: who has a mode already queues behind who has none") \
    X(NO_SEARCH, "IL3: no search for deadlocks") \
    X(WAKE_FIRST, "IL4: an end wakes who waits, and becomes idle then") \
    X(BEGIN_FIRST, "IL4: the next transaction begins before the bits of the last are cleared") \
    X(RELEASE_BLIND, "IL6: an early release does not look at `waiting`") \
    X(RELEASE_SHARED, "IL6: an early release clears an entry that was asked for twice") \
    X(REUSE, "IL7: a dead view's number is given out before the tables were scanned")
#include "small.h"

enum mode { S, U, X, A, IS, IX, MODES };
static const char letters[] = "suxaij";
static u8 bit(int n) { return (u8)(1 << n); }
/* The modes that each conflicts with. */
static const u8 against[MODES] = {
    [S] = 1 << X | 1 << A | 1 << IX,
    [U] = 1 << U | 1 << X | 1 << A | 1 << IX,
    [X] = 1 << S | 1 << U | 1 << X | 1 << A | 1 << IS | 1 << IX,
    [A] = 1 << S | 1 << U | 1 << X,
    [IS] = 1 << X,
    [IX] = 1 << S | 1 << U | 1 << X,
};

/*
 * s0 takes mode S at item 0, r0 leaves item 0 before the end; i and j are IS and IX. Items 0 and 2
 * share entry 0. `orders`: programs are not killed but undone by order; `calm`: nobody may be
 * undone.
 */
struct Scenario {
    const char *name, *what;
    const char *program[VIEWS][TXNS];
    u8 kills;
    bool orders, calm;
};

enum pc : u8 { NEXT, OP, SET, STORE, LOOK, NOTE, SLOW, MARK, JUDGE, CLEAR, SLEEP, LEFT, WAKES, END,
               ABORT, IDLES, RELEASE, DIES, SCAN, DONE };
enum { IDLE, ACTIVE, DEAD };

struct View {
    u8 pc, txn, op, state, undone, tries;
    u8 doomed, woken, waits, late;      /* edges; `late`: those that a switched rule adds later */
    u8 at, loaded;                      /* the mode, view or entry that a loop is at */
    u8 passed, slept;                   /* overtaken in its queue so often; not the first look */
    u8 list[ENTRIES], has[ENTRIES], twice;  /* noted modes; granted ones; entries asked for twice */
    u8 needs[ITEMS];                    /* what the program relies on */
};
struct Entry {
    u8 mask[MODES], waiting, locked;
    u8 queue[VIEWS], queued;
};
struct State {
    View v[VIEWS];
    Entry e[ENTRIES];
    u8 kills;
};

struct Model : Steps<State, Scenario> {
    template <class F> void step(int v, const char *what, F change)
    {
        step_of([&] { return "T" + std::to_string(v + 1) + " "; }, what,
                [&](State &s) { change(s, s.v[v]); });
    }
    static void go(View &x, enum pc pc) { x.pc = pc; }
    void next(int v, const char *what, enum pc pc)
    {
        step(v, what, [&](State &, View &x) { go(x, pc); });
    }

    /* ---- programs ---- */
    const char *at(const View &x, int v) const { return sc->program[v][x.txn] + 2 * x.op; }
    char op(const View &x, int v) const { return *at(x, v); }
    int item(const View &x, int v) const { return at(x, v)[1] - '0'; }
    int entry(const View &x, int v) const { return item(x, v) % ENTRIES; }
    int mode(const View &x, int v) const { return (int)(strchr(letters, op(x, v)) - letters); }
    void op_done(View &x, int v)
    {
        x.op++;
        x.late = x.passed = x.slept = x.at = 0;
        x.pc = op(x, v) ? OP : END;
    }
    static bool conflicts(int mode, u8 modes) { return against[mode] & modes; }

    void granted(State &s, int v)
    {
        View &x = s.v[v];
        int e = entry(x, v), i = item(x, v), m = mode(x, v);
        if (x.has[e]) x.twice |= bit(e);
        x.has[e] |= bit(m);
        x.needs[i] |= bit(m);
        for (int u = 0; u < VIEWS; u++)
            if (u != v && s.v[u].state == ACTIVE && conflicts(m, s.v[u].needs[i]))
                wrong("two transactions hold modes that conflict");
        op_done(x, v);
    }

    /* ---- edges and queues ---- */
    static void wake(State &s, int u, int v)
    {
        s.v[u].waits &= (u8)~bit(v);
        s.v[u].woken = 1;
    }
    static void wake_all(State &s, int v)
    {
        for (int u = 0; u < VIEWS; u++)
            if (s.v[u].waits >> v & 1) wake(s, u, v);
    }
    static void wake_queue(State &s, int e, int v)
    {
        for (int i = 0; i < s.e[e].queued; i++)
            if (s.v[s.e[e].queue[i]].waits >> v & 1) wake(s, s.e[e].queue[i], v);
    }
    static void leave(Entry &e, int v)
    {
        u8 kept = 0;
        for (int i = 0; i < e.queued; i++)
            if (e.queue[i] != v) e.queue[kept++] = e.queue[i];
        for (int i = kept; i < VIEWS; i++) e.queue[i] = 0;
        e.queued = kept;
        if (!kept) e.waiting = 0;
    }
    static void enter(Entry &e, int v, bool first)
    {
        int at = e.queued;
        for (int i = 0; i < e.queued; i++)
            if (e.queue[i] == v) return;
        for (; first && at > 0; at--) e.queue[at] = e.queue[at - 1];
        e.queue[at] = (u8)v;
        e.queued++;
    }
    /* w holds what u wants, or stands before it; who has a mode there stands behind nobody. */
    bool true_edge(const State &s, int u, int w) const
    {
        int e = entry(s.v[u], u);
        if (conflicts(mode(s.v[u], u), s.v[w].has[e])) return true;
        for (int i = 0; i < s.e[e].queued && s.e[e].queue[i] != u && !s.v[u].has[e]; i++)
            if (s.e[e].queue[i] == w) return true;
        return false;
    }
    /* A cycle of two or three through v: the youngest is doomed. */
    void search(State &s, int v)
    {
        for (int a = 0; a < VIEWS; a++)
            for (int b = 0; b < VIEWS; b++) {
                int path[] = {v, a, b}, length = b == v ? 2 : 3, victim = v;
                bool cycle = a != v && a != b && !on(NO_SEARCH);
                for (int i = 0; i < length && cycle; i++)
                    cycle = s.v[path[i]].waits >> path[(i + 1) % length] & 1 &&
                            !s.v[path[i]].doomed;
                if (!cycle) continue;
                for (int i = 0; i < length; i++) {
                    if (path[i] > victim) victim = path[i];
                    if (!true_edge(s, path[i], path[(i + 1) % length]))
                        wrong("undone for a wait that is none");
                }
                s.v[victim].doomed = s.v[victim].woken = 1;
                return;
            }
    }

    /* ---- user mode ---- */
    void asks(int v)
    {
        const View &x = now->v[v];
        char o = op(x, v);
        if (on(BEGIN_FIRST))
            for (int e = 0; e < ENTRIES; e++)
                if (x.list[e])
                    return step(v, "clears bits of its last transaction",
                                [&](State &s, View &y) { clear(s, y, v, e); });
        if (o == 'r') return leaves(v);
        int e = entry(x, v);
        if (x.has[e] >> mode(x, v) & 1)
            return step(v, "has the mode", [&](State &s, View &) { granted(s, v); });
        if (now->e[e].waiting && !x.has[e] && !on(STALE_UNLOCKED) && !on(BARGE))
            return next(v, "sees that somebody waits: calls", SLOW);
        step(v, "notes the entry", [&](State &, View &y) {
            if (!on(LIST_LATE)) y.list[e] |= bit(mode(y, v));
            go(y, on(CHECK_THEN_SET) ? LOOK : SET);
        });
    }
    static void clear(State &s, View &x, int v, int e)
    {
        for (auto &m : s.e[e].mask) m &= (u8)~bit(v);
        x.list[e] = 0;
    }
    void leaves(int v)
    {
        step(v, "leaves an item", [&](State &s, View &y) {
            int e = entry(y, v);
            y.needs[item(y, v)] = 0;
            if (y.twice >> e & 1 && !on(RELEASE_SHARED)) return op_done(y, v);
            clear(s, y, v, e);
            y.has[e] = 0;
            if (on(RELEASE_BLIND)) op_done(y, v);
            else go(y, LEFT);
        });
    }
    void sets(int v)
    {
        step(v, "sets its bit", [&](State &s, View &y) {
            u8 &mask = s.e[entry(y, v)].mask[mode(y, v)];
            if (on(PLAIN_BIT) && y.pc == SET) {
                y.loaded = mask;
                return go(y, STORE);
            }
            mask = (u8)((y.pc == STORE ? y.loaded : mask) | bit(v));
            y.loaded = y.at = 0;
            if (on(CHECK_THEN_SET)) granted(s, v);
            else go(y, LOOK);
        });
    }
    void looks(int v)
    {
        const View &x = now->v[v];
        int e = entry(x, v), m = mode(x, v), k = x.at;
        while (k < MODES && !(against[m] >> k & 1)) k++;
        if (k < MODES) {
            if (now->e[e].mask[k] & ~bit(v)) return next(v, "meets somebody: calls", SLOW);
            return step(v, "looks at a mask", [&](State &, View &y) { y.at = (u8)(k + 1); });
        }
        if (on(CHECK_THEN_SET)) return next(v, "has met nobody", SET);
        if (on(LIST_LATE)) return next(v, "has met nobody", NOTE);
        step(v, "has it, without a call", [&](State &s, View &y) {
            Entry &q = s.e[e];
            for (int i = 0; i < q.queued && !y.has[e] && !on(STALE_UNLOCKED); i++) {
                View &w = s.v[q.queue[i]];      /* who began before it queued may pass, once */
                if (conflicts(m, bit(mode(w, q.queue[i]))) && ++w.passed >= VIEWS)
                    wrong("one who waits is overtaken again and again");
            }
            granted(s, v);
        });
    }

    /* ---- the kernel, with the entry's lock ---- */
    void marks(int v)
    {
        step(v, "is in the kernel: edges to it go, its bit is set", [&](State &s, View &y) {
            int e = entry(y, v), m = mode(y, v);
            u8 &mask = s.e[e].mask[m];
            y.waits = y.woken = 0;
            if (y.doomed) {
                if (!(y.has[e] >> m & 1)) mask &= (u8)~bit(v);
                wake_queue(s, e, v);
                leave(s.e[e], v);
                s.e[e].locked = 0;
                return go(y, ABORT);
            }
            if (!on(KEEP_EDGES) && (!y.slept || on(WAKE_ALWAYS))) wake_queue(s, e, v);
            if (!on(WAITING_LATE)) s.e[e].waiting = 1;
            if (on(TENTATIVE_GRANT)) mask &= (u8)~bit(v);
            else mask |= bit(v);
            y.list[e] |= bit(m);
            y.at = 0;
            go(y, JUDGE);
        });
    }
    /* The next holder in the way: one section of that view's lock. */
    void judges(int v)
    {
        const View &x = now->v[v];
        int e = entry(x, v), w = x.at;
        u8 holds = 0;
        for (; w < VIEWS; w++) {
            for (int k = holds = 0; k < MODES; k++)
                holds |= (u8)((now->e[e].mask[k] >> w & 1) << k);
            if (w != v && conflicts(mode(x, v), holds)) break;
        }
        if (w == VIEWS) {
            if (x.late)
                return step(v, "makes its late edges", [&](State &, View &y) {
                    y.waits |= y.late;
                    y.late = 0;
                    y.at = VIEWS;
                });
            return decides(v);
        }
        step(v, "judges a holder", [&](State &s, View &y) {
            y.at = (u8)(w + 1);
            if (s.v[w].state == ACTIVE || on(IDLE_BLOCKS))
                (on(EDGE_LATE) ? y.late : y.waits) |= bit(w);
            else if (on(STALE_UNLOCKED)) go(y, CLEAR);
            else for (auto &k : s.e[e].mask) k &= (u8)~bit(w);
        });
    }
    void decides(int v)
    {
        step(v, "decides", [&](State &s, View &y) {
            int e = entry(y, v), m = mode(y, v);
            Entry &q = s.e[e];
            bool first = y.has[e] && !on(UPGRADE_LAST);
            for (int i = 0; i < q.queued && q.queue[i] != v && !first; i++)
                y.waits |= bit(q.queue[i]);
            y.at = 0;
            y.slept = 1;
            if (!y.waits) {
                q.mask[m] |= bit(v);
                if (!on(GRANT_KEEPS)) wake_queue(s, e, v);
                leave(q, v);
                q.locked = 0;
                return granted(s, v);
            }
            if (!(y.has[e] >> m & 1)) q.mask[m] &= (u8)~bit(v);
            q.waiting = 1;
            enter(q, v, first);
            search(s, v);
            q.locked = 0;
            go(y, SLEEP);
        });
    }

    /* ---- ends ---- */
    void ends(int v)
    {
        step(v, "is over: idle", [&](State &s, View &y) {
            y.undone = y.pc == ABORT;
            if (on(WAKE_FIRST)) wake_all(s, v);
            else idle(y);
            go(y, IDLES);
        });
    }
    static void idle(View &x)
    {
        x.state = IDLE;
        x.twice = 0;
        memset(x.has, 0, sizeof x.has);
        memset(x.needs, 0, sizeof x.needs);
    }
    void wakes(int v)
    {
        step(v, "wakes who waits for it", [&](State &s, View &y) {
            if (on(WAKE_FIRST)) idle(y);
            else wake_all(s, v);
            y.doomed = y.op = y.passed = y.slept = y.at = y.late = 0;
            if (y.undone && sc->calm) wrong("undone, with update locks");
            if (y.undone && ++y.tries > 3) wrong("undone four times");
            if (!y.undone) y.tries = 0;
            y.txn = (u8)(y.txn + !y.undone);
            y.undone = 0;
            go(y, on(BEGIN_FIRST) ? NEXT : RELEASE);
        });
    }
    void releases(int v)
    {
        for (int e = 0; e < ENTRIES; e++)
            if (now->v[v].list[e])
                return step(v, "clears its bits", [&](State &s, View &y) { clear(s, y, v, e); });
        step(v, "has cleared all", [&](State &s, View &y) {
            for (auto &e : s.e)
                for (auto m : e.mask)
                    if (m >> v & 1) wrong("a bit is left behind");
            go(y, NEXT);
        });
    }
    void dies(int v)
    {
        step(v, "is dead: who waits for it is woken", [&](State &s, View &y) {
            wake_all(s, v);
            y.at = 0;
            if (on(REUSE)) successor(y);
            else go(y, SCAN);
        });
    }
    void scans(int v)
    {
        step(v, "is dead: an entry is scanned", [&](State &s, View &y) {
            for (auto &m : s.e[y.at].mask) m &= (u8)~bit(v);
            if (++y.at == ENTRIES) successor(y);
        });
    }
    static void successor(View &x)      /* another program has the number */
    {
        u8 txn = (u8)(x.txn + 1);
        x = {};
        x.txn = txn;
    }

    /* ---- all steps ---- */
    void hazards(int v)
    {
        const View &x = now->v[v];
        bool user = (x.pc >= OP && x.pc <= NOTE) || x.pc == LEFT || x.pc == END;
        if (!now->kills || !user) return;
        step(v, sc->orders ? "is undone by order" : "is KILLED", [&](State &s, View &y) {
            s.kills--;
            if (sc->orders) return go(y, ABORT);
            idle(y);
            y.state = DEAD;
            go(y, DIES);
        });
    }
    void view(int v)
    {
        const View &x = now->v[v];
        hazards(v);
        switch (x.pc) {
        case NEXT:
            if (x.txn == TXNS || !sc->program[v][x.txn]) return next(v, "has done all", DONE);
            return step(v, "begins", [&](State &, View &y) {
                y.state = ACTIVE;
                go(y, OP);
            });
        case OP: return asks(v);
        case SET: case STORE: return sets(v);
        case LOOK: return looks(v);
        case NOTE:
            return step(v, "notes the entry", [&](State &s, View &y) {
                y.list[entry(y, v)] |= bit(mode(y, v));
                granted(s, v);
            });
        case SLOW:
            if (!now->e[entry(x, v)].locked)
                step(v, "locks the entry", [&](State &s, View &y) {
                    s.e[entry(y, v)].locked = (u8)(v + 1);
                    go(y, MARK);
                });
            return;
        case MARK: return marks(v);
        case JUDGE: return judges(v);
        case CLEAR:
            return step(v, "clears a bit that was stale", [&](State &s, View &y) {
                for (auto &m : s.e[entry(y, v)].mask) m &= (u8)~bit(y.at - 1);
                go(y, JUDGE);
            });
        case SLEEP: if (x.woken) next(v, "is awake", SLOW); return;
        case LEFT:
            if (now->e[entry(x, v)].waiting) return next(v, "sees that somebody waits", WAKES);
            return step(v, "sees nobody wait", [&](State &, View &y) { op_done(y, v); });
        case WAKES:
            if (!now->e[entry(x, v)].locked)
                step(v, "wakes the entry's queue", [&](State &s, View &y) {
                    wake_queue(s, entry(y, v), v);
                    op_done(y, v);
                });
            return;
        case END: case ABORT: return ends(v);
        case IDLES: return wakes(v);
        case RELEASE: return releases(v);
        case DIES: return dies(v);
        case SCAN: return scans(v);
        }
    }
    /* Who sleeps has an edge to one that is in its way, or is about to wake it. */
    bool has_reason(const State &s, int v) const
    {
        for (int w = 0; w < VIEWS; w++) {
            u8 pc = s.v[w].pc, bits = 0;
            for (int k = 0; k < MODES; k++)
                bits |= (u8)((s.e[entry(s.v[v], v)].mask[k] >> w & 1) << k);
            bool soon = pc == LEFT || pc == WAKES || (pc >= END && pc <= IDLES) || pc == DIES;
            if (s.v[v].waits >> w & 1 &&
                (true_edge(s, v, w) || conflicts(mode(s.v[v], v), bits) || soon))
                return true;
        }
        return false;
    }
    static bool over(const State &s)
    {
        bool all = true;
        for (auto &x : s.v) all &= x.pc == DONE;
        return all;
    }
    static State start_of(const Scenario &sc)
    {
        State s = {};
        s.kills = sc.kills;
        for (int v = 0; v < VIEWS; v++)
            if (!sc.program[v][0]) s.v[v].pc = DONE;
        return s;
    }
    void successors(const State &s, bool want_names, std::vector<Successor<State>> &result)
    {
        now = &s;
        out = &result;
        names = want_names;
        in_state = false;
        for (int v = 0; v < VIEWS; v++) view(v);
        if (!error.empty()) return;
        in_state = true;
        bool all = true;
        for (int v = 0; v < VIEWS; v++) {
            const View &x = s.v[v];
            all &= x.pc == DONE;
            if (x.pc == SLEEP && !x.woken && !s.e[entry(x, v)].locked && !has_reason(s, v))
                return wrong("somebody sleeps for no reason");
        }
        if (result.empty() && !all) wrong("somebody waits for ever");
    }
};

static const Scenario scenarios[] = {
    {"x", "two writers of one item", {{"x0", "x0"}, {"x0", "x0"}}},
    {"sx", "readers and a writer", {{"s0", "s0"}, {"x0"}, {"s0"}}},
    {"cross", "two items crosswise", {{"x0x1"}, {"x1x0"}}},
    {"cross3", "the same beside a reader", {{"x0x1"}, {"x1x0"}, {"s0"}}},
    {"ring", "three in a circle", {{"x0x1"}, {"x1s0"}, {"s0x1"}}},
    {"upgrade", "both read, then write", {{"s0x0"}, {"s0x0"}}},
    {"upgrade3", "an upgrader, a reader, one who waits", {{"s0x0"}, {"x0"}, {"s0"}}},
    {"add", "adders and a reader", {{"a0"}, {"a0"}, {"s0", "a0"}}},
    {"early", "an item that is left before the end", {{"x0r0x1"}, {"x0"}, {"s0"}}},
    {"early2", "the same crosswise", {{"x0r0x1"}, {"x1x0"}}},
    {"share", "two items of one transaction in one entry", {{"x0x2r0x1"}, {"x2"}}},
    {"share2", "the same between two who read", {{"s0s2r2"}, {"x0"}, {"x2"}}},
    {"again", "one item that is asked for twice", {{"s0s0r0x1"}, {"x0"}}},
    {"whole", "parts and a whole", {{"j0x1"}, {"s0"}, {"i0s1"}}},
    {"six", "a whole is read, a part written", {{"s0j0x1"}, {"i0s1"}, {"j0"}}},
    {"kill", "deaths", {{"x0", "x0"}, {"x0", "s0"}}, 2},
    {"kill3", "deaths among three", {{"x0"}, {"x0"}, {"x0"}}, 1},
    {"killx", "deaths in a deadlock", {{"x0x1", "x0"}, {"x1x0"}}, 1},
    {"order", "undone by order", {{"x0x1", "x0"}, {"x0"}}, 2, true},
    {"queue3", "readers behind a writer", {{"x0"}, {"s0"}, {"s0", "x0"}}},
    {"stream", "short transactions beside one who waits", {{"x0", "x0", "x0"}, {"x0"}}},
    {"stream3", "readers beside a writer who waits", {{"s0", "s0"}, {"s0", "s0"}, {"x0"}}},
    {"update", "update locks", {{"u0x0"}, {"u0x0"}, {"s0"}}, 0, false, true},
    {"mixed", "several modes", {{"s0a1"}, {"a0s1"}, {"x0"}}},
};

int main(int argc, char **argv)
{
    return commands<Model>("model-item_locks", scenarios, argc, argv);
}
