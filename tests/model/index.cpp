/*
 * index.cpp - a model of server-kept indexes (libpstore/index.md): looks at pages while these are
 * published one by one, locks of keys and of the gaps between them, changes that come with commits.
 *
 *     model-index check           every scenario, completely
 *     model-index teeth [RULE]    each rule switched, alone: some scenario must fail
 *     model-index trace RULE      a shortest counterexample, step by step
 *
 * The tree has a head, an end, a branch with one separator, and two leaves; a commit may move the
 * separator, and keys with it. A leaf is copied in two steps. Property: when a transaction commits,
 * each of its look-ups and ranges would find the same in what is committed then, so transactions
 * are serialisable in the order of their commits.
 */
enum { KEYS = 5, END_GAP = KEYS + 1, CLIENTS = 3, OPS = 2, NOBODY = 0xff };
enum { HEAD, BRANCH, LEFT, RIGHT, END, PAGES };

#define RULES(X) \
    X(HEAD_LATE, "the head is published behind the nodes") \
    X(END_EARLY, "the end is published before the nodes") \
    X(END_UNREAD, "a look does not compare the end with the head") \
    X(NO_RECHECK, "a look does not read the head again behind a node") \
    X(RECHECK_EARLY, "a look reads the head again before it has copied all of the node") \
    X(LOOK_BEFORE_LOCK, "a look-up locks its key behind the look") \
    X(INSERT_NO_GAP, "who inserts does not lock the gap") \
    X(REMOVE_NO_GAP, "who removes does not lock the gap before the key") \
    X(RANGE_NO_END, "a range does not lock the gap in which it ends") \
    X(NO_SECOND_LOOK, "who got a gap does not look whether it still is the gap") \
    X(UNLOCK_EARLY, "locks end when the commit is in the log, before it is published") \
    X(PUBLISH_EARLY, "pages are published before the commit is in the log") \
    X(RECOVER_OLD, "a manager that starts again forgets what was logged and not published") \
    X(REFUSED_STAYS, "changes of a commit that is refused are made all the same")
#include "small.h"

struct Op { char what; u8 from, to; };  /* 'L'ook up, 'I'nsert, 'R'emove, 'S'can from..to */
struct Scenario {
    const char *name, *what;
    u8 keys;                            /* committed at first: bits 1 to KEYS */
    Op program[CLIENTS][OPS];
    u8 deaths, refusals;
};

/* Where a client is: it locks, looks (E, H, branch, half a leaf, the other half), and decides. */
enum pc : u8 { NEXT, KEY, LOOK_END, LOOK_HEAD, LOOK_BRANCH, LOOK_LEAF, LOOK_REST, FOUND, GAP,
               RANGE_KEY, COMMIT, LOGGED, DONE };
enum stage : u8 { POINT, NEIGHBOUR, AGAIN, KEY_AGAIN };

struct Client {
    u8 pc, op, stage, cur, next;        /* looks for the first key >= cur; next: what it found */
    u8 stamp, separator, leaf, copied;  /* of the look */
    u8 seen[OPS], is[OPS];              /* keys it knows of, and which of them are there */
    u8 sets, unsets, held, unused;     /* held: whose gap, or key, it has locked last */
};
struct State {
    u8 db;                              /* what is committed */
    u8 page[PAGES], next[PAGES];        /* as published; as the commit in the log wants them */
    u8 publishing, flipped, group, deaths, refusals;
    u8 key_x[KEYS + 2], key_s[KEYS + 2], gap_x[KEYS + 2], gap_s[KEYS + 2];
    Client c[CLIENTS];
    u8 first;                           /* what was committed at first */
};

static u8 bit(unsigned key) { return (u8)(1u << key); }
static u8 bits(unsigned from, unsigned to)
{
    u8 m = 0;
    for (unsigned k = from; k <= to && k <= KEYS; k++) m |= bit(k);
    return m;
}

struct Model : Steps<State, Scenario> {
    template <class F> void step(int client, const char *what, F change)
    {
        step_of([&] { return client >= 0 ? std::string(1, (char)('A' + client)) + " " : ""; },
                what, change);
    }

    /* ---- locks ---- */
    static bool take(u8 &exclusive, u8 &shared, int c, bool x)
    {
        u8 me = bit(c);
        if (exclusive != NOBODY && exclusive != c) return false;
        if (x && shared & ~me) return false;
        if (x) exclusive = (u8)c;
        else shared |= me;
        return true;
    }
    static void release(State &s, int c)
    {
        for (int k = 0; k < KEYS + 2; k++) {
            if (s.key_x[k] == c) s.key_x[k] = NOBODY;
            if (s.gap_x[k] == c) s.gap_x[k] = NOBODY;
            s.key_s[k] &= (u8)~bit(c);
            s.gap_s[k] &= (u8)~bit(c);
        }
    }
    void ends(State &s, int c)
    {
        release(s, c);
        s.c[c] = Client{};
        s.c[c].pc = DONE;
    }

    /* ---- what a client does ---- */
    Op op_of(int c) const { return sc->program[c][now->c[c].op]; }

    static void look(Client &c, unsigned from, enum stage stage)
    {
        c.cur = (u8)from;
        c.stage = stage;
        c.pc = LOOK_END;
    }
    static void know(Client &c, u8 keys, u8 are)
    {
        c.seen[c.op] |= keys;
        c.is[c.op] |= are;
    }
    void op_done(Client &c, int i) const
    {
        c.pc = NEXT;
        c.op++;
        c.stage = c.cur = c.next = c.stamp = c.separator = c.leaf = c.copied = c.held = 0;
        if (c.op == OPS || !sc->program[i][c.op].what) c.pc = COMMIT;
    }

    void begin_op(int i)
    {
        Op op = op_of(i);
        step(i, "begins an operation", [&](State &s) {
            Client &c = s.c[i];
            if (op.what == 'S') look(c, op.from, NEIGHBOUR);
            else if (op.what == 'L' && on(LOOK_BEFORE_LOCK)) look(c, op.from, POINT);
            else c.pc = KEY;
        });
    }
    void lock_key(int i)
    {
        Op op = op_of(i);
        u8 k = op.from;
        State s = *now; /* to try it */
        if (!take(s.key_x[k], s.key_s[k], i, op.what != 'L')) return blocked(i);
        step(i, "locks its key", [&](State &n) {
            take(n.key_x[k], n.key_s[k], i, op.what != 'L');
            if (op.what == 'L' && on(LOOK_BEFORE_LOCK)) op_done(n.c[i], i);
            else look(n.c[i], k, POINT);
        });
    }
    /* Perhaps it is in a deadlock. */
    void blocked(int i)
    {
        step(i, "waits, and is the victim of a deadlock", [&](State &s) { ends(s, i); });
    }

    void look_step(int i)
    {
        const Client &c = now->c[i];
        switch (c.pc) {
        case LOOK_END:
            step(i, "reads the end", [&](State &s) {
                s.c[i].stamp = s.page[END];
                s.c[i].pc = LOOK_HEAD;
            });
            return;
        case LOOK_HEAD:
            step(i, "reads the head", [&](State &s) {
                bool same = s.page[HEAD] == s.c[i].stamp;
                if (on(END_UNREAD)) s.c[i].stamp = s.page[HEAD];
                s.c[i].pc = same || on(END_UNREAD) ? LOOK_BRANCH : LOOK_END;
            });
            return;
        case LOOK_BRANCH:
            step(i, "copies the branch", [&](State &s) {
                s.c[i].separator = s.page[BRANCH];
                s.c[i].leaf = s.c[i].cur < s.page[BRANCH] ? LEFT : RIGHT;
                s.c[i].pc = LOOK_LEAF;
                again_if_torn(s, s.c[i]);
            });
            return;
        case LOOK_LEAF:
            step(i, "copies half of a leaf", [&](State &s) {
                s.c[i].copied = s.page[s.c[i].leaf] & 0x2a;
                s.c[i].pc = LOOK_REST;
                if (on(RECHECK_EARLY)) again_if_torn(s, s.c[i]);
            });
            return;
        default:
            step(i, "copies the rest", [&](State &s) { leaf_copied(s, s.c[i]); });
        }
    }
    void again_if_torn(const State &s, Client &c) const
    {
        if (s.page[HEAD] != c.stamp && !on(NO_RECHECK)) c.pc = LOOK_END;
    }
    void leaf_copied(const State &s, Client &c) const
    {
        c.copied |= s.page[c.leaf] & 0x14;
        u8 at = c.copied & bits(c.cur, KEYS);
        c.next = at ? (u8)__builtin_ctz(at) : (u8)END_GAP;
        bool more = !at && c.leaf == LEFT && c.separator <= KEYS;
        c.pc = more ? LOOK_LEAF : FOUND;
        if (more) c.leaf = RIGHT;
        if (!on(RECHECK_EARLY)) again_if_torn(s, c);
        if (c.pc == LOOK_LEAF || c.pc == FOUND) c.copied = 0;
    }

    void found(int i)
    {
        Op op = op_of(i);
        step(i, "has found the place", [&](State &s) {
            Client &c = s.c[i];
            u8 k = op.from;
            if (c.stage == POINT) {
                bool is = c.next == k;
                know(c, bit(k), is ? bit(k) : 0);
                if (op.what == 'L' && on(LOOK_BEFORE_LOCK)) c.pc = KEY;
                else if (op.what == 'I' && !is && !on(INSERT_NO_GAP)) look(c, k + 1u, NEIGHBOUR);
                else if (op.what == 'I' && !is) c.sets |= bit(k), op_done(c, i);
                else if (op.what == 'R' && is && on(REMOVE_NO_GAP)) c.unsets |= bit(k), op_done(c, i);
                else if (op.what == 'R' && is) c.pc = GAP;
                else op_done(c, i);
            } else if (c.stage == NEIGHBOUR) {
                bool over = op.what == 'S' && c.next > op.to && on(RANGE_NO_END);
                if (over) range_over(c, op, i);
                else c.pc = GAP;
            } else if (c.next != c.held) { /* another gap by now */
                c.pc = GAP;
            } else if (c.stage == KEY_AGAIN) {
                range_passes(c);
            } else {
                gap_had(c, op, i);
            }
            c.leaf = c.stamp = 0;
        });
    }
    void lock_gap(int i)
    {
        Op op = op_of(i);
        u8 n = op.what == 'R' ? op.from : now->c[i].next;
        State s = *now;
        if (!take(s.gap_x[n], s.gap_s[n], i, op.what != 'S')) return blocked(i);
        step(i, "locks a gap", [&](State &t) {
            Client &c = t.c[i];
            take(t.gap_x[n], t.gap_s[n], i, op.what != 'S');
            if (op.what == 'R') c.unsets |= bit(op.from), op_done(c, i);
            else if (on(NO_SECOND_LOOK)) gap_had(c, op, i);
            else look(c, c.cur, AGAIN), c.held = n;
        });
    }
    void gap_had(Client &c, Op op, int i)
    {
        if (op.what == 'I') {
            c.sets |= bit(op.from);
            op_done(c, i);
        } else if (c.next > op.to) {
            range_over(c, op, i);
        } else {
            c.pc = RANGE_KEY;
        }
    }
    void range_over(Client &c, Op op, int i)
    {
        know(c, bits(c.cur, op.to), 0);
        op_done(c, i);
    }
    void range_passes(Client &c)
    {
        u8 n = c.next;
        know(c, bits(c.cur, n), bit(n));
        look(c, n + 1u, NEIGHBOUR);
    }
    void range_key(int i)
    {
        u8 n = now->c[i].next;
        State s = *now;
        if (!take(s.key_x[n], s.key_s[n], i, false)) return blocked(i);
        step(i, "locks a key that it passes", [&](State &t) {
            take(t.key_x[n], t.key_s[n], i, false);
            if (on(NO_SECOND_LOOK)) range_passes(t.c[i]);
            else look(t.c[i], t.c[i].cur, KEY_AGAIN), t.c[i].held = n;
        });
    }

    /* ---- commits ---- */
    bool reads_hold(const State &s, const Client &c) const
    {
        for (int o = 0; o < OPS; o++)
            if ((s.db & c.seen[o]) != c.is[o]) return false;
        return true;
    }
    void commit(int i)
    {
        const Client &c = now->c[i];
        step(i, "aborts", [&](State &s) { ends(s, i); });
        if (!(c.sets | c.unsets))
            step(i, "commits, and changed nothing", [&](State &s) {
                if (!reads_hold(s, s.c[i])) error = "a look-up or range is not of the commit's time";
                ends(s, i);
            });
    }
    bool joins(const State &s, int i) const
    {
        return s.c[i].pc == COMMIT && (s.c[i].sets | s.c[i].unsets);
    }
    void pages_of(State &s, u8 separator, u8 keys) const
    {
        s.next[HEAD] = s.next[END] = (u8)(s.page[HEAD] + 1);
        s.next[BRANCH] = separator;
        s.next[LEFT] = keys & bits(1, separator - 1u);
        s.next[RIGHT] = keys & bits(separator, KEYS);
    }
    void log(State &s, u8 members)
    {
        for (int i = 0; i < CLIENTS; i++) {
            if (!(members >> i & 1)) continue;
            if (!reads_hold(s, s.c[i])) error = "a look-up or range is not of the commit's time";
            s.db = (u8)((s.db | s.c[i].sets) & ~s.c[i].unsets);
            if (on(UNLOCK_EARLY)) release(s, i);
            s.c[i].pc = LOGGED;
        }
    }
    void manager()
    {
        const State &s = *now;
        u8 ready = 0;
        for (int i = 0; i < CLIENTS; i++) ready |= joins(s, i) ? bit(i) : 0;
        for (u8 members = 1; !s.publishing && members < 1 << CLIENTS; members++)
            for (u8 separator : {(u8)3, (u8)END_GAP})
                if ((members & ready) == members) group(members, separator);
        for (int i = 0; i < CLIENTS && s.refusals; i++)
            if (joins(s, i))
                step(-1, "the manager refuses a commit", [&](State &n) {
                    n.refusals--;
                    if (on(REFUSED_STAYS)) { /* what another commit publishes has it */
                        for (int p : {LEFT, RIGHT})
                            n.page[p] |= n.c[i].sets & (p == LEFT ? bits(1, n.page[BRANCH] - 1u)
                                                                  : bits(n.page[BRANCH], KEYS));
                    }
                    ends(n, i);
                });
        if (s.publishing) publish();
        if (s.deaths) death();
    }
    void group(u8 members, u8 separator)
    {
        step(-1, "the manager logs a group", [&](State &s) {
            u8 keys = s.db;
            for (int i = 0; i < CLIENTS; i++)
                if (members >> i & 1) keys = (u8)((keys | s.c[i].sets) & ~s.c[i].unsets);
            s.publishing = 1;
            s.flipped = 0;
            s.group = members;
            pages_of(s, separator, keys);
            if (!on(PUBLISH_EARLY)) log(s, members);
        });
    }
    bool may_flip(const State &s, int p) const
    {
        u8 nodes = bit(BRANCH) | bit(LEFT) | bit(RIGHT), done = s.flipped;
        if (done >> p & 1) return false;
        if (p == HEAD) return !on(HEAD_LATE) || (done & nodes) == nodes;
        if (p == END) return on(END_EARLY) || (done & (nodes | bit(HEAD))) == (nodes | bit(HEAD));
        return on(HEAD_LATE) || (done & bit(HEAD) && (!on(END_EARLY) || done & bit(END)));
    }
    void publish()
    {
        for (int p = 0; p < PAGES; p++)
            if (may_flip(*now, p))
                step(-1, "the kernel publishes a page", [&](State &s) {
                    s.page[p] = s.next[p];
                    s.flipped |= bit(p);
                });
        if (now->flipped == bit(PAGES) - 1)
            step(-1, "the commits are answered", [&](State &s) {
                if (on(PUBLISH_EARLY)) log(s, s.group);
                for (int i = 0; i < CLIENTS; i++)
                    if (s.c[i].pc == LOGGED) ends(s, i);
                s.publishing = s.flipped = s.group = 0;
                memset(s.next, 0, sizeof s.next);
            });
    }
    /* Who was not in the log is aborted; what was is in the pages of the next manager. */
    void death()
    {
        step(-1, "THE MANAGER DIES, and another recovers", [&](State &s) {
            bool logged = s.publishing && !on(PUBLISH_EARLY);
            s.deaths--;
            if (logged && !on(RECOVER_OLD)) memcpy(s.page, s.next, sizeof s.page);
            if (logged && on(RECOVER_OLD)) {
                State old = s;
                pages_of(old, 3, s.first);
                memcpy(s.page, old.next, sizeof s.page);
            }
            if (s.publishing && !logged) {
                State old = s;
                pages_of(old, 3, s.db);
                memcpy(s.page, old.next, sizeof s.page);
            }
            for (int i = 0; i < CLIENTS; i++)
                if (s.c[i].pc != DONE) ends(s, i);
            for (int i = 0; i < CLIENTS; i++)
                if (sc->program[i][0].what == 'S' || sc->program[i][0].what == 'L')
                    s.c[i] = Client{};  /* looks once more, at the next manager */
            s.publishing = s.flipped = s.group = 0;
            memset(s.next, 0, sizeof s.next);
        });
    }

    static State start_of(const Scenario &sc)
    {
        State s;
        memset(&s, 0, sizeof s);
        s.db = sc.keys;
        s.page[HEAD] = s.page[END] = 1;
        s.page[BRANCH] = 3;
        s.page[LEFT] = sc.keys & bits(1, 2);
        s.page[RIGHT] = sc.keys & bits(3, KEYS);
        s.deaths = sc.deaths;
        s.refusals = sc.refusals;
        s.first = sc.keys;
        memset(s.key_x, NOBODY, sizeof s.key_x);
        memset(s.gap_x, NOBODY, sizeof s.gap_x);
        return s;
    }

    void successors(const State &s, bool want_names, std::vector<Successor<State>> &result)
    {
        now = &s;
        out = &result;
        names = want_names;
        for (int i = 0; i < CLIENTS; i++) {
            switch (s.c[i].pc) {
            case NEXT:
                if (sc->program[i][0].what) begin_op(i);
                break;
            case KEY: lock_key(i); break;
            case FOUND: found(i); break;
            case GAP: lock_gap(i); break;
            case RANGE_KEY: range_key(i); break;
            case COMMIT: commit(i); break;
            case LOGGED:
            case DONE: break;
            default: look_step(i);
            }
            if (!error.empty()) return;
        }
        manager();
    }
};

static const Scenario scenarios[] = {
    {"lookup", "look-ups beside a commit", 0x2a, {{{'I', 4, 0}}, {{'L', 4, 0}, {'L', 3, 0}}}, 0, 0},
    {"gone", "a look-up beside a removal", 0x2a, {{{'R', 3, 0}}, {{'L', 3, 0}, {'L', 5, 0}}}, 0, 0},
    {"leaf", "two insert into one leaf", 0x2a,
     {{{'I', 2, 0}}, {{'I', 4, 0}}, {{'L', 1, 0}}}, 0, 0},
    {"gap", "two insert into one gap, and a range", 0x22,
     {{{'I', 3, 0}}, {{'I', 2, 0}}, {{'S', 1, 3}}}, 0, 0},
    {"range", "a range twice beside an insertion", 0x2a,
     {{{'S', 1, 3}, {'S', 1, 3}}, {{'I', 2, 0}}}, 0, 0},
    {"last", "a range to the end beside an insertion", 0x0a,
     {{{'S', 2, 5}, {'S', 4, 5}}, {{'I', 5, 0}}}, 0, 0},
    {"fence", "the key behind a range is removed, then one comes", 0x12,
     {{{'S', 1, 2}, {'S', 1, 3}}, {{'R', 4, 0}}, {{'I', 2, 0}}}, 0, 0},
    {"passed", "a key that a range has passed is removed", 0x2a,
     {{{'S', 1, 3}, {'L', 3, 0}}, {{'R', 3, 0}}}, 0, 0},
    {"two", "two indexes' worth of changes in each", 0x0a,
     {{{'I', 4, 0}, {'R', 1, 0}}, {{'L', 4, 0}, {'L', 1, 0}}}, 0, 0},
    {"refused", "one of two commits is refused", 0x2a,
     {{{'I', 2, 0}}, {{'I', 4, 0}}, {{'S', 1, 5}}}, 0, 1},
    {"death", "the manager dies", 0x2a, {{{'I', 2, 0}, {'R', 5, 0}}, {{'S', 1, 5}}}, 1, 0},
    {"death2", "the manager dies beside look-ups", 0x2a,
     {{{'I', 4, 0}}, {{'L', 4, 0}, {'L', 3, 0}}}, 1, 0},
};

int main(int argc, char **argv)
{
    return commands<Model>("model-index", scenarios, argc, argv);
}
