/*
 * overlap.cpp - a model of two objects at the same addresses, in different processes, or one behind
 * the other in one (kernel/store/rights.md): masks that name views, entries that name no object,
 * numbers of views that are given again, page tables that are taken out. The first object's manager
 * may die: programs hear of that, its page is swept, view by view, and then it counts as swept.
 *
 *     model-overlap check           every scenario, completely
 *     model-overlap teeth [RULE]    each rule switched, alone: some scenario must fail
 *     model-overlap trace RULE      a shortest counterexample, step by step
 *
 * Each object has one page, and both pages have one address. A process has one view. Property: who
 * finds a view in an object's mask finds at the address the view's right to that object's page, or
 * none; a view finds there no page of another object than that which its process has attached; and
 * no entry is made in a page table that was taken out.
 */
#define RULES(X) \
    X(DETACH_MASK, "a process that detaches an object leaves bits without an entry in its masks") \
    X(NUMBER_STALE, "a view stands in masks of the one that had its number before") \
    X(MEET_KEEPS, "an object comes to addresses of another one, whose bits stay") \
    X(MEET_FIRST, "bits without an entry are taken before the objects are known to overlap") \
    X(MEET_LATE, "an object can be attached before the other one's bits were taken") \
    X(MEET_ALL, "where an object comes, bits of views that have an entry go, too") \
    X(TABLE_EMPTY, "an empty table is taken out although another object lies there") \
    X(OWED_MASK, "a view that lost its object while it committed stays in the mask behind that") \
    X(DEAD_UNDER, "an object is attached over a dead one that is not swept") \
    X(DEAD_ENTRY, "an entry is made to a page of an object that is dead") \
    X(SWEPT_FIRST, "an object counts as swept before its page is")
#include "small.h"

enum { VIEWS = 2, NO_OBJECT = 2 };
struct Scenario {
    const char *name, *what;
    u8 late, ends, dies;                /* late: the second object is made behind the begin */
};
enum entry : u8 { EMPTY, READ, COPY };
enum made : u8 { AWAY, MARKED, MET, THERE };
enum life : u8 { ALIVE, DEAD, SWEPT };

struct Object { u8 mask, writer, resident; };    /* writer: a view; VIEWS: none */
struct View {
    u8 alive, looked;                   /* looked: begins, and has seen whether objects overlap */
    u8 attached, entry, of;             /* of: whose page the entry names; the kernel cannot tell */
    u8 table, faults;                   /* faults: it found the table, and makes an entry next */
    u8 commits, owes, ended;            /* owes: all rights; ended: its commit, these have gone */
};
struct State {
    Object o[2];
    View v[VIEWS];
    u8 made, overlaps, ends;            /* made: the second object; overlaps: the counter */
    u8 life, dies;                      /* life: the first one's */
};

struct Model : Steps<State, Scenario> {
    template <class F> void step(int v, const char *what, F change)
    {
        step_of([&] { return v >= 0 ? "view " + std::to_string(v) + " " : std::string(); }, what,
                change);
    }
    static u8 bit(int v) { return (u8)(1u << v); }
    /* The entry that is taken for v's right to o's page. */
    u8 right(State &s, int v, int o)
    {
        const View &w = s.v[v];
        if (w.entry != EMPTY && w.of != o) wrong("a right is taken for one to another's page");
        return w.entry;
    }
    static void leave(Object &o, int v)
    {
        o.mask &= (u8)~bit(v);
        if (o.writer == v) o.writer = VIEWS;
    }
    /* Bits without an entry go (unmap_view with `stale`). */
    static void strip(State &s, int o, bool all)
    {
        for (int v = 0; v < VIEWS; v++)
            if (s.v[v].entry == EMPTY || all) leave(s.o[o], v);
    }

    /* ---- a view's accesses ---- */
    void fault(int v, int o)
    {
        const View &w = now->v[v];
        if (o == 0 && now->life != ALIVE && !on(DEAD_ENTRY)) {
            if (w.faults) step(v, "hears that A is dead", [&](State &s) { s.v[v].faults = 0; });
            return;
        }
        if (!w.faults)
            return step(v, "finds the table", [&](State &s) { s.v[v].faults = s.v[v].table = 1; });
        step(v, "reads", [&](State &s) { grant(s, v, o, READ); });
        step(v, "writes", [&](State &s) { grant(s, v, o, COPY); });
    }
    void grant(State &s, int v, int o, u8 kind)
    {
        Object &p = s.o[o];
        s.v[v].faults = 0;
        if (!s.v[v].table) wrong("an entry is made in a table that was taken out");
        for (int w = 0; w < VIEWS; w++) {
            bool has = w != v && p.mask & bit(w) && right(s, w, o) != EMPTY;
            if (has && (kind == COPY || p.writer == w)) s.v[w].entry = EMPTY; /* called back */
        }
        p.resident = 1;
        p.mask = kind == COPY ? bit(v) : (u8)(p.mask | bit(v));
        p.writer = (u8)(kind == COPY ? v : VIEWS);
        s.v[v].entry = kind;
        s.v[v].of = (u8)o;
    }
    /* Its manager publishes; what it owes goes, with the table, and the masks name it still. */
    void commit(int v)
    {
        const View &w = now->v[v];
        if (w.ended)
            step(v, "leaves the masks", [&](State &s) {
                for (int o = 0; o < 2 && s.overlaps && !on(OWED_MASK); o++) leave(s.o[o], v);
                s.v[v].ended = 0;
            });
        else if (w.commits)
            step(v, "ends its commit", [&](State &s) {
                View &x = s.v[v];
                if (x.entry == COPY) s.o[x.of].writer = VIEWS;
                if (x.entry == COPY) x.entry = READ;
                if (x.owes) x.entry = EMPTY;
                if (x.owes) x.table = 0;
                x.ended = x.owes;
                x.commits = x.owes = 0;
            });
        else if (w.entry != EMPTY)
            step(v, "commits", [&](State &s) { s.v[v].commits = 1; });
    }
    void detach(int v)
    {
        step(v, "'s process detaches", [&](State &s) {
            View &w = s.v[v];
            int o = w.attached;
            bool had = s.o[o].mask & bit(v) && right(s, v, o) != EMPTY;
            w.attached = NO_OBJECT;
            w.owes |= had && w.commits;
            if (had && w.commits) return; /* at the commit's end */
            if (had) w.entry = EMPTY;
            if (had || !on(DETACH_MASK)) leave(s.o[o], v);
        });
    }
    /* A process attaches an object where it has none; B also over A, if that is dead. */
    void attach(int v)
    {
        u8 has = now->v[v].attached;
        bool over = has == 0 && (now->life == SWEPT || (on(DEAD_UNDER) && now->life == DEAD));
        if (has == NO_OBJECT && now->life == ALIVE)
            step(v, "'s process attaches A", [&](State &s) { s.v[v].attached = 0; });
        if ((has == NO_OBJECT || over) && now->made == THERE)
            step(v, over ? "'s process attaches B over A" : "'s process attaches B",
                 [&](State &s) { s.v[v].attached = 1; });
    }
    void view(int v)
    {
        const View &w = now->v[v];
        bool waits = w.commits || w.ended;
        commit(v);
        if (w.faults || (!waits && w.attached != NO_OBJECT && w.entry == EMPTY))
            fault(v, w.attached);
        if (w.faults) return;
        if (w.attached != NO_OBJECT) detach(v);
        attach(v);
        if (now->ends && !waits)
            step(v, "ends with its table", [&](State &s) {
                s.ends--;
                s.v[v] = View{};
                s.v[v].attached = NO_OBJECT;
            });
    }
    void begin(int v)
    {
        if (!now->v[v].looked)
            return step(v, "has a number again, looks whether objects overlap", [&](State &s) {
                s.v[v].looked = s.overlaps ? 2 : 1;
            });
        step(v, "begins", [&](State &s) {
            for (int o = 0; o < 2 && s.v[v].looked == 2 && !on(NUMBER_STALE); o++)
                leave(s.o[o], v);
            s.v[v].alive = 1;
            s.v[v].looked = 0;
        });
    }

    /* ---- the kernel, by itself ---- */
    void evict(int o)
    {
        bool copied = now->o[o].writer < VIEWS && now->v[now->o[o].writer].entry == COPY &&
                      now->v[now->o[o].writer].of == o;
        if (now->o[o].resident && !copied)
            step(-1, o ? "B's page goes" : "A's page goes", [&](State &s) {
                for (int v = 0; v < VIEWS; v++)
                    if (s.o[o].mask & bit(v) && right(s, v, o) != EMPTY) s.v[v].entry = EMPTY;
                s.o[o].resident = 0;
                s.o[o].writer = VIEWS;
            });
    }
    /* A fault needs a leaf, and holds it (LF2): none of the object's is under way. */
    void forget(int o)
    {
        bool may = (o == 0 ? now->life != SWEPT : now->made == THERE) && !now->o[o].resident &&
                   (!now->overlaps || on(TABLE_EMPTY));
        for (const View &w : now->v) may &= !(w.faults && w.attached == o);
        if (may)
            step(-1, o ? "B's leaf goes" : "A's leaf goes", [&](State &s) {
                for (View &w : s.v)
                    if (w.entry == EMPTY) w.table = 0;
            });
    }
    /* Nothing of A is granted when its death was heard, so its mask only shrinks. */
    void sweep()
    {
        if (now->life == ALIVE && now->dies)
            step(-1, "A's manager dies", [&](State &s) { s.life = DEAD; });
        for (int v = 0; v < VIEWS && now->life != ALIVE; v++)
            if (now->o[0].mask & bit(v))
                step(v, "loses A's page to the sweep", [&](State &s) {
                    if (right(s, v, 0) != EMPTY) s.v[v].entry = EMPTY;
                    leave(s.o[0], v);
                    s.o[0].resident = s.o[0].mask != 0;
                });
        if (now->life == DEAD && (!now->o[0].mask || on(SWEPT_FIRST)))
            step(-1, "A is swept", [&](State &s) { s.life = SWEPT; });
    }
    void make()
    {
        if (now->made == AWAY && now->life == SWEPT)
            return step(-1, "B is made", [&](State &s) { s.made = THERE; });
        if (now->made == AWAY)
            step(-1, "B is marked", [&](State &s) {
                s.made = on(MEET_LATE) ? (u8)THERE : (u8)MARKED;
                if (!on(MEET_FIRST)) s.overlaps = 1;
                else strip(s, 0, false);
            });
        if (now->made == MARKED || (now->made == THERE && on(MEET_LATE) && now->overlaps < 2))
            step(-1, "B meets A", [&](State &s) {
                s.overlaps = on(MEET_LATE) ? 2 : 1;
                if (!on(MEET_KEEPS) && !on(MEET_FIRST)) strip(s, 0, on(MEET_ALL));
                s.made = THERE;
            });
    }

    /* ---- every state ---- */
    void look(const State &s)
    {
        for (int v = 0; v < VIEWS; v++)
            if (s.v[v].entry != EMPTY && !(s.o[s.v[v].of].mask & bit(v)))
                wrong("a view has a right to a page whose mask does not name it");
        for (const View &w : s.v)
            if (w.entry != EMPTY && w.of != w.attached && !w.owes)
                wrong("a view finds a page of an object that its process has not attached");
    }
    static State start_of(const Scenario &sc)
    {
        State s;
        memset(&s, 0, sizeof s);
        for (Object &o : s.o) o.writer = VIEWS;
        for (View &w : s.v) w.alive = 1, w.attached = NO_OBJECT;
        s.made = sc.late ? AWAY : THERE;
        s.overlaps = !sc.late;
        s.ends = sc.ends;
        s.dies = sc.dies;
        return s;
    }
    void successors(const State &s, bool want_names, std::vector<Successor<State>> &result)
    {
        now = &s;
        out = &result;
        names = want_names;
        look(s);
        for (int v = 0; v < VIEWS; v++)
            if (s.v[v].alive) view(v);
            else begin(v);
        for (int o = 0; o < 2; o++) {
            evict(o);
            forget(o);
        }
        sweep();
        make();
    }
};

static const Scenario scenarios[] = {
    {"both", "two objects, views that end", 0, 2, 0},
    {"late", "one object, and another one that comes; views that end", 1, 2, 0},
    {"next", "two objects, and the manager of the first dies", 0, 0, 1},
    {"dies", "one object whose manager dies, and another that comes; a view that ends", 1, 1, 1},
};

int main(int argc, char **argv)
{
    return commands<Model>("model-overlap", scenarios, argc, argv);
}
