/*
 * guards.cpp - a model of guards (libpstore/protection.md): two threads of a process on one CPU,
 * of which the first may leave a transaction for another one, with two pages of items and a page
 * that is locked as such; signals, aborts, switches, spills and the process's death at any step.
 *
 *     model-guards check           every scenario, completely
 *     model-guards teeth [RULE]    each rule switched, alone: some scenario must fail
 *     model-guards trace RULE      a shortest counterexample, step by step
 *
 * Stores are no steps: in each state in which the running thread is in its program or in a handler,
 * each page is asked whether a store would succeed, at its address and by a window. That is so if
 * and only if it was announced, and in item mode an access to write is open. The library's own
 * stores always do. Who is in no transaction has the key closed, and no copies outlive their end.
 */
enum { ITEMS = 2, PAGE = 2, PAGES = 3, TXS = 3, NONE = TXS, THREADS = 2, FRAMES = 2, CLOSED = 8 };

#define RULES(X) \
    X(STORE_ANY, "a store to any page gets a copy") \
    X(HINT_MEANT, "who has announced a page may store to all") \
    X(BEGIN_MEANT, "a transaction that ended in the library leaves its right to the next") \
    X(SHUT_MEANT, "the library's stores are over, and the kernel is not told") \
    X(COPY_KEY, "a copy of an item page has no key") \
    X(UNSPILL_KEY, "a copy that comes back from the log has no key") \
    X(ALIAS_KEY, "by a window a page has no key") \
    X(SWITCH_KEEPS, "a thread goes on with the key of the one before it") \
    X(NEW_KEYS, "a new thread begins with its maker's key") \
    X(HANDLER_OPEN, "a handler begins with the key of what it interrupts") \
    X(RETURN_SHUT, "a handler's return leaves the key closed") \
    X(JUMP_SHUT, "an access inside of another one does not set the key") \
    X(NESTED, "the first release of two closes") \
    X(RELEASE_ANY, "a release of what is not open to write closes a bracket") \
    X(ADD_OPEN, "an addition leaves its bracket open") \
    X(LIBRARY_BLIND, "the library does not open the key for its own stores") \
    X(LIBRARY_SHUTS, "the end of the library's stores closes the program's brackets") \
    X(SUSPEND_OPEN, "who leaves a transaction for a while leaves the key open") \
    X(RESUME_SHUT, "who comes back does not open the key") \
    X(RESUME_OPEN, "who comes back finds the key open") \
    X(END_OPEN, "the end of a transaction leaves the key open") \
    X(END_COUNTS, "an abort keeps what the library counted") \
    X(END_TOLD, "a page is taken for told in the next transaction, too") \
    X(END_COPIES, "an end leaves private copies")
#include "small.h"

enum { ACCESS = 1, ADD = 2, TOUCH = 4, LIBRARY = 8, OTHER = 16, ALL = 31 };
struct Scenario {
    const char *name, *what;
    u8 ops, kinds;                      /* operations of programs: how many; of which kinds */
    u8 begins, second;                  /* second: 1: transaction; 2: thread; a bit each */
    u8 signals, aborts, spills, switches;
};

enum pc : u8 { USER, TELL, NOTE, COUNT, KEY, RELEASED, MEAN, OPEN, INSIDE, SHUT, END_MEAN, LEFT,
               RESUMED, ENDED };
struct Tx {
    u8 active, meant, copies, keyed, spilled;   /* the kernel's: copies a bit each page */
    u8 used, depth, brackets, told;             /* struct guard */
    u8 open[ITEMS], announced, suspended;       /* what the program did */
};
struct Thread {
    u8 lives, view, current, keys;              /* keys: PKRU, while it does not run */
    u8 pc, at, adds, shut;                      /* shut: it jumped out of a handler */
    u8 frames, frame[FRAMES];
};
struct State {
    u8 running, keys, dead;
    u8 ops, begins, signals, aborts, spills, switches;
    Tx tx[TXS];
    Thread t[THREADS];
};

struct Model : Steps<State, Scenario> {
    template <class F> void step(const char *what, F change)
    {
        int k = now->running;
        step_of([&] { return std::string(1, (char)('A' + k)) + " "; }, what, [&](State &s) {
            change(s, s.t[k]);
        });
    }
    template <class F> void operation(u8 kind, const char *what, F change)
    {
        if (!(sc->kinds & kind) || !now->ops) return;
        step(what, [&](State &s, Thread &t) {
            s.ops--;
            change(s, t, s.tx[t.current]);
        });
    }
    static void key_update(State &s, const Tx &x)
    {
        bool opens = x.brackets || (x.depth && !on(LIBRARY_BLIND));
        s.keys = opens ? 0 : CLOSED;
    }

    /* ---- the kernel ---- */
    static void copy(Tx &x, int page)
    {
        x.copies |= (u8)(1 << page);
        x.spilled &= (u8)~(1 << page);
        if (page < ITEMS && !on(COPY_KEY)) x.keyed |= (u8)(1 << page);  /* FT9 */
    }
    static void hint_write(Tx &x, int page)
    {
        copy(x, page);
        if (on(HINT_MEANT)) x.meant = 1;
    }
    static void begin(State &s, Thread &t, int i)
    {
        Tx &x = s.tx[i];
        s.begins--;
        if (!on(BEGIN_MEANT)) x.meant = 0;
        x.active = 1;
        t.view = t.current = (u8)i;
    }
    static void end(Tx &x)
    {
        x.active = 0;
        if (!on(END_COPIES)) x.copies = x.keyed = x.spilled = 0;
    }
    /* A transaction that is aborted goes on at its entry, from wherever it was. */
    void abort_here()
    {
        const Thread &t = now->t[now->running];
        if (!now->aborts || t.view == NONE || !now->tx[t.view].active) return;
        step("is aborted", [&](State &s, Thread &t) {
            s.aborts--;
            end(s.tx[t.view]);
            t.frames = 0;
            t.current = t.view;
            t.pc = ENDED;
        });
    }
    /* Would a store succeed? (FT8, FT9) */
    static bool can(const State &s, const Thread &t, int page, bool window)
    {
        if (t.view == NONE || !s.tx[t.view].active) return false;
        const Tx &x = s.tx[t.view];
        bool here = x.copies >> page & 1, spilled = x.spilled >> page & 1;
        if (!here && !x.meant && !on(STORE_ANY)) return false;
        bool keyed = here && !spilled ? x.keyed >> page & 1
                                      : page < ITEMS && !on(COPY_KEY) &&
                                            !(spilled && on(UNSPILL_KEY));
        return !keyed || (window && on(ALIAS_KEY)) || s.keys != CLOSED;
    }

    /* ---- a program, and the library ---- */
    void program()
    {
        const Thread &t = now->t[now->running];
        int first = now->running ? 2 : 0, last = now->running ? 2 : sc->second & 1;
        if (t.current == NONE) {
            for (int i = first; i <= last && now->begins; i++)
                if (!now->tx[i].active)
                    step(i == 1 ? "begins another transaction" : "begins a transaction",
                         [&](State &s, Thread &t) { begin(s, t, i); });
            for (int i = first; i <= last; i++)
                if (now->tx[i].suspended)
                    step("resumes a transaction", [&](State &s, Thread &t) {
                        s.tx[i].suspended = 0;
                        t.view = t.current = (u8)i;
                        t.pc = RESUMED;
                    });
            return;
        }
        for (int p = 0; p < ITEMS; p++) items(p);
        operation(OTHER, "releases what it has only read", [&](State &s, Thread &t, Tx &x) {
            if (on(RELEASE_ANY)) released(s, t, x);
        });
        operation(TOUCH, "touches the page", [&](State &, Thread &, Tx &x) {
            hint_write(x, PAGE);
            x.announced |= 1 << PAGE;
        });
        operation(LIBRARY, "lets the library store", [&](State &, Thread &t, Tx &x) {
            x.used = 1;
            t.pc = x.depth++ ? INSIDE : MEAN;
        });
        if (sc->second & 1)
            step("leaves its transaction for a while", [&](State &s, Thread &t) {
                s.tx[t.view].suspended = 1;
                t.view = NONE;
                t.pc = LEFT;
            });
        step("ends its transaction", [&](State &s, Thread &t) {
            end(s.tx[t.view]);
            t.pc = ENDED;
        });
        abort_here();
    }
    void items(int p)
    {
        auto access = [&](Thread &t, Tx &x, bool adds) {
            x.used = 1;
            t.at = (u8)p;
            t.adds = adds;
            t.pc = x.told >> p & 1 ? COUNT : TELL;
        };
        operation(ACCESS, p ? "accesses item 1" : "accesses item 0",
                  [&](State &, Thread &t, Tx &x) { access(t, x, false); });
        operation(ADD, p ? "adds to item 1" : "adds to item 0",
                  [&](State &, Thread &t, Tx &x) { access(t, x, true); });
        if (now->tx[now->t[now->running].current].open[p])
            step(p ? "releases item 1" : "releases item 0", [&](State &s, Thread &t) {
                Tx &x = s.tx[t.current];
                x.open[p]--;
                released(s, t, x);
            });
    }
    void released(State &s, Thread &t, Tx &x)
    {
        if (!x.brackets) return;
        if (--x.brackets == 0) t.pc = RELEASED;
        else if (on(NESTED)) s.keys = CLOSED;
    }
    void library()
    {
        switch (now->t[now->running].pc) {
        case USER: return program();
        case TELL:
            abort_here();
            step("tells the kernel of it", [&](State &s, Thread &t) {
                hint_write(s.tx[t.current], t.at);
                t.pc = NOTE;
            });
            return;
        case NOTE:
            step("notes that", [&](State &s, Thread &t) {
                s.tx[t.current].told |= (u8)(1 << t.at);
                t.pc = COUNT;
            });
            return;
        case COUNT:
            step("counts a bracket", [&](State &s, Thread &t) {
                bool inner = s.tx[t.current].brackets++;
                t.pc = KEY;
                if (inner && on(JUMP_SHUT)) accessed(s, t);
            });
            return;
        case KEY:
            step("opens the key", [&](State &s, Thread &t) {
                key_update(s, s.tx[t.current]);
                accessed(s, t);
            });
            return;
        case RESUMED:
            abort_here();
            return set_key();
        case MEAN:
            step("tells the kernel that all is meant", [&](State &s, Thread &t) {
                s.tx[t.current].meant = 1;
                t.pc = OPEN;
            });
            return;
        case RELEASED:
        case OPEN:
        case SHUT: return set_key();
        case INSIDE:
            abort_here();
            for (int p = 0; p < PAGES; p++)
                step(p == PAGE ? "stores to the page" : "stores to an item's page",
                     [&](State &s, Thread &t) {
                    Tx &x = s.tx[t.current];
                    copy(x, p);
                    x.announced |= (u8)(1 << p);
                    t.pc = --x.depth ? USER : SHUT;
                });
            return;
        case END_MEAN:
            step("tells the kernel that it is over", [&](State &s, Thread &t) {
                if (!on(SHUT_MEANT)) s.tx[t.current].meant = 0;
                t.pc = USER;
            });
            return;
        case LEFT:
            step("closes the key", [&](State &s, Thread &t) {
                if (s.tx[t.current].used && !on(SUSPEND_OPEN)) s.keys = CLOSED;
                t.current = NONE;
                t.shut = 0;
                t.pc = USER;
            });
            return;
        case ENDED:
            step("forgets its brackets", [&](State &s, Thread &t) { ended(s, t); });
            return;
        }
    }
    void accessed(State &s, Thread &t)
    {
        Tx &x = s.tx[t.current];
        x.announced |= (u8)(1 << t.at);
        t.shut = 0;
        t.pc = USER;
        if (!t.adds) x.open[t.at]++;
        else if (!on(ADD_OPEN)) released(s, t, x);
    }
    void set_key()
    {
        step("sets the key", [&](State &s, Thread &t) {
            u8 was = t.pc;
            Tx &x = s.tx[t.current];
            bool stays = was == RESUMED && (on(RESUME_SHUT) || !x.used);
            if (!stays) key_update(s, x);
            if (was == SHUT && on(LIBRARY_SHUTS)) s.keys = CLOSED;
            if (was == RESUMED && on(RESUME_OPEN)) s.keys = 0;
            if (was != RELEASED) t.shut = 0;
            t.pc = was == OPEN ? INSIDE : was == SHUT ? END_MEAN : USER;
        });
    }
    void ended(State &s, Thread &t)
    {
        Tx &x = s.tx[t.current];
        if (x.used && !on(END_COUNTS)) x.depth = x.brackets = 0;
        if (x.used && !on(END_TOLD)) x.told = 0;
        if (x.used && !on(END_OPEN)) key_update(s, x);
        x.used = 0;
        x.announced = x.open[0] = x.open[1] = 0;
        t.current = NONE;
        t.view = NONE;
        t.shut = 0;
        t.pc = USER;
    }

    /* ---- what comes at any moment ---- */
    void signals()
    {
        const Thread &t = now->t[now->running];
        if (now->signals && t.frames < FRAMES)
            step("IS INTERRUPTED BY A SIGNAL", [&](State &s, Thread &t) {
                s.signals--;
                t.frame[t.frames++] = s.keys;
                if (!on(HANDLER_OPEN)) s.keys = CLOSED;
            });
        if (!t.frames) return;
        step("returns from its handler", [&](State &s, Thread &t) {
            u8 was = t.frame[--t.frames];
            t.frame[t.frames] = 0;
            s.keys = on(RETURN_SHUT) ? (u8)CLOSED : was;
        });
        if (t.pc == USER)
            step("jumps out of its handlers", [&](State &, Thread &t) {
                t.shut = 1;
                t.frames = t.frame[0] = t.frame[1] = 0;
            });
        abort_here();
    }
    void others()
    {
        int other = 1 - now->running;
        if (sc->second & 2 && !now->t[1].lives)
            step("makes a thread", [&](State &s, Thread &) {
                s.t[1].lives = 1;
                s.t[1].keys = on(NEW_KEYS) ? s.keys : (u8)CLOSED;
            });
        if (now->t[other].lives && now->switches)
            step("leaves the CPU to the other one", [&](State &s, Thread &t) {
                s.switches--;
                t.keys = s.keys;
                s.running = (u8)other;
                if (!on(SWITCH_KEEPS)) s.keys = s.t[other].keys;
                s.t[other].keys = 0;
            });
        for (int i = 0; i < TXS && now->spills; i++)
            for (int p = 0; p < PAGES; p++)
                if ((now->tx[i].copies & ~now->tx[i].spilled) >> p & 1)
                    step("has a copy go to the log", [&](State &s, Thread &) {
                        s.spills--;
                        s.tx[i].spilled |= (u8)(1 << p);
                        s.tx[i].keyed &= (u8)~(1 << p);
                    });
        step("DIES, WITH ITS PROCESS", [&](State &s, Thread &) {
            for (Tx &x : s.tx) end(x);
            s.dead = 1;
        });
    }

    /* ---- every state ---- */
    static bool may(const State &s, const Thread &t, int page)
    {
        const Tx *x = t.view == NONE || !s.tx[t.view].active ? nullptr : &s.tx[t.view];
        if (!x || !(x->announced >> page & 1)) return false;
        return page == PAGE || (!t.frames && !t.shut && (x->open[0] || x->open[1]));
    }
    void look(const State &s)
    {
        const Thread &t = s.t[s.running];
        bool inside = t.pc == INSIDE && !t.frames, user = t.pc == USER || t.frames;
        for (const Tx &x : s.tx)
            if (!x.active && x.copies) wrong("a transaction has ended, and has private copies");
        if (s.dead || (!inside && !user)) return;
        if (user && t.current == NONE && s.keys != CLOSED)
            wrong("who is in no transaction has the key open");
        for (int page = 0; page < PAGES; page++)
            for (int window = 0; window < 2; window++) {
                bool does = can(s, t, page, window), meant = inside || may(s, t, page);
                bool known = t.frames && t.pc >= MEAN && t.pc <= END_MEAN && page == PAGE;
                if (does && !meant && !known) wrong("a store succeeds that was not meant");
                if (!does && meant) wrong("a store fails that was meant");
            }
    }

    static State start_of(const Scenario &sc)
    {
        State s;
        memset(&s, 0, sizeof s);
        s.keys = CLOSED;
        s.ops = sc.ops;
        s.begins = sc.begins;
        s.signals = sc.signals;
        s.aborts = sc.aborts;
        s.spills = sc.spills;
        s.switches = sc.switches;
        for (Thread &t : s.t) t.view = t.current = NONE;
        s.t[0].lives = 1;
        return s;
    }
    void successors(const State &s, bool want_names, std::vector<Successor<State>> &result)
    {
        now = &s;
        out = &result;
        names = want_names;
        look(s);
        if (s.dead) return;
        if (!s.t[s.running].frames) library();
        signals();
        others();
    }
};

static const Scenario scenarios[] = {
    {"bracket", "brackets in each other", 4, ACCESS | ADD | OTHER, 2, 0, 0, 1, 0, 0},
    {"page", "a page that is touched, the library's stores", 4, TOUCH | LIBRARY, 2, 0, 0, 1, 1, 0},
    {"library", "the library's stores, and brackets", 3, ACCESS | LIBRARY, 2, 0, 0, 1, 1, 0},
    {"signals", "signals in brackets, handlers in handlers", 3, ALL, 2, 0, 2, 1, 0, 0},
    {"suspend", "two transactions of a thread", 3, ACCESS | LIBRARY | TOUCH, 3, 1, 1, 1, 0, 0},
    {"threads", "two threads", 3, ACCESS | LIBRARY, 2, 2, 0, 1, 0, 3},
    {"spill", "copies in the log", 3, ACCESS | ADD | TOUCH, 2, 0, 1, 0, 2, 0},
};

int main(int argc, char **argv)
{
    return commands<Model>("model-guards", scenarios, argc, argv);
}
