/*
 * rights.cpp - a model of handles with rights: badges of the kernel, a directory service that keeps
 * grants, messages, deaths and power cuts (rights.md, where the rules' labels are).
 *
 *     model-rights check           every scenario, completely
 *     model-rights teeth [RULE]    each rule switched, alone: some scenario must fail
 *     model-rights trace RULE      a shortest counterexample, step by step
 *
 * Programs are hostile: at any time each may make any call with any handle and any mask. Beside the
 * protocol runs a reference monitor, which knows who granted what to whom and who took it back, and
 * nothing of serials, badges and rows. Whatever the service does for a program the monitor must
 * allow.
 */
enum { PROCESSES = 3, SLOTS = 2, BADGES = 8, ROWS = 7, OBJECTS = 2, NOBODY = 0xff };
enum { A, B, C };                       /* A has all of X, and perhaps of Y */
enum { W = 1, G = 2, M = 4, ALL = 7 };  /* use it; pass it on; take back what came from it */

#define RULES(X) \
    X(GROW, "RT1: a handle that is passed on has the rights asked for") \
    X(NO_GRANT, "RT2: a handle is passed on without the right to grant") \
    X(DEATH_KEEPS, "RT3: what is on its way to a program reaches the next one in its place") \
    X(END_LEAVES, "RT4: a message that was queued before its badge ended is received") \
    X(OTHER_PORT, "RT5: a badge is read whose port is another's") \
    X(CHECK_EARLY, "RT6: a call's grant is looked up when it is received, not when it is done") \
    X(LINK_EARLY, "RT6: what a link is made of is looked up before its transaction") \
    X(WALK_GROWS, "RT7: an entry's rights are not cut down to the directory's") \
    X(LINK_ASKED, "RT7: a link has the rights asked for, not those that the kernel attests") \
    X(SERIAL_AGAIN, "RT8: the serial of a grant that is gone names a new one") \
    X(SERIAL_LOST, "RT8: a power cut sets the next serial back") \
    X(LINK_SPLIT, "RT9: an entry and its grant are two transactions") \
    X(LINK_ANSWERED, "RT9: a link is answered before it is durable") \
    X(REVOKE_ANSWERED, "RT9: a revocation is answered before it is durable") \
    X(REVOKE_ONE, "RT10: what was granted out of a grant outlives it") \
    X(REVOKE_ANY, "RT10: who has any handle takes back any grant") \
    X(INHERIT_LIVE, "RT11: a badge that had ended is inherited as one that has not") \
    X(OPEN_EARLY, "RT12: an open is answered before its grant is durable")
#include "small.h"

enum op : u8 { USE = 1, PASS = 2, TAKE = 4, LINK = 8, OPEN = 16, REVOKE = 32, FORGE = 64 };
enum phase : u8 { IDLE, QUEUED, TAKEN, HALF, DONE };

struct Scenario {
    const char *name, *what;
    u8 objects;                         /* that A has: X, or X and Y */
    u8 ops[PROCESSES], can[PROCESSES];  /* how many calls, and of which kinds */
    u8 directory[2][PROCESSES];         /* the rights of its handles of two directories; 0: none */
    u8 kills, cuts, deaths;             /* of programs; of power; of the service */
    bool inherits;                      /* the next service has the badges of the one that died */
};

struct Slot { u8 badge, rights; };      /* badge + 1; 0: none */
/* own: of the service's port. grant, said: the monitor's; said: serial, and SAID_ENDED, as it was
 * inherited, or 0 */
enum { SAID_ENDED = 128 };
struct Badge { u8 serial, own, ended, grant, said; };
struct Row { u8 used, entry, object, rights, parent, grant; }; /* entry: in directory 1 or 2 */
struct Grant { u8 object, rights, parent, directory, answered, ending, revoked; };
struct Call { u8 kind, phase, badge, rights, directory, serial, made; Row seen; };
struct Process {
    Slot slot[SLOTS], inbox;
    Call call;
    u8 ops, may[ROWS];                  /* may: the monitor's, for each grant */
};
struct State {
    Process p[PROCESSES];
    Badge badge[BADGES];
    Row row[ROWS], disk[ROWS];          /* by serial; 0 is none */
    Grant grant[ROWS];
    u8 next, disk_next, grants, badges, flushed, kills, cuts, deaths;
};

struct Model : Steps<State, Scenario> {
    template <class F> void step(int p, const char *what, F change)
    {
        step_of([&] { return p == NOBODY ? "" : std::string(1, (char)('A' + p)) + " "; }, what,
                change);
    }

    /* ---- the monitor ---- */
    static bool live(const State &s, int g)
    {
        for (; g; g = s.grant[g].parent)
            if (s.grant[g].revoked) return false;
        return true;
    }
    void done(const State &s, int p, int object, int rights)
    {
        u8 may = 0;
        for (int g = 1; g < s.grants; g++)
            if (s.grant[g].object == object && live(s, g)) may |= s.p[p].may[g];
        if (rights & ~may) wrong("done for a program that nobody gave the right");
    }
    /* A program passes its right to grant g on: as much as it has. */
    static u8 passed(const State &s, int p, int g, int rights)
    {
        return s.p[p].may[g] & G ? (u8)(s.p[p].may[g] & rights) : 0;
    }

    /* ---- the kernel ---- */
    static void give(Process &p, Slot h)
    {
        for (auto &slot : p.slot)
            if (!slot.badge) {
                slot = h;
                return;
            }
    }
    static bool has_room(const Process &p) { return !p.slot[SLOTS - 1].badge; }
    u8 badge_of(State &s, int serial, bool own, int grant)
    {
        for (int b = 0; b < s.badges; b++)
            if (s.badge[b].serial == serial && s.badge[b].own == own && !s.badge[b].ended)
                return (u8)(b + 1);
        if (s.badges == BADGES) return wrong("the model has too few badges"), (u8)0;
        s.badge[s.badges] = {(u8)serial, own, 0, (u8)grant, 0};
        return ++s.badges;
    }
    static bool lifted(const Slot &h, int rights)
    {
        return h.badge && (on(GROW) || !(rights & ~h.rights)) && (on(NO_GRANT) || h.rights & G);
    }
    /* A call by handle h, or with it as an argument; `rights` of it go along. */
    static void send(State &s, int p, enum op kind, Slot h, int serial, int directory = 0)
    {
        s.p[p].ops--;
        s.p[p].call = {kind, QUEUED, h.badge, h.rights, (u8)directory, (u8)serial, 0, {}};
    }
    u8 reach(int p, int directory) const { return directory ? sc->directory[directory - 1][p] : 0; }

    /* ---- programs ---- */
    void runs(int p)
    {
        const Process &me = now->p[p];
        if (me.inbox.badge && has_room(me))
            step(p, "takes a handle", [&](State &s) {
                give(s.p[p], me.inbox);
                s.p[p].inbox = {};
            });
        if (!me.ops || me.call.kind) return;
        u8 can = sc->can[p];
        for (int i = 0; i < SLOTS; i++) {
            const Slot h = me.slot[i];
            if (!h.badge || now->badge[h.badge - 1].ended) continue; /* the kernel says so */
            bool own = now->badge[h.badge - 1].own;
            if (can & USE && own)
                step(p, "uses a handle", [&](State &s) { send(s, p, USE, h, 0); });
            for (int rights : {(int)ALL, (int)G, (int)W}) {
                if (!lifted(h, rights)) continue;
                for (int d = 1; d <= 2; d++)
                    if (can & LINK && reach(p, d) & W)
                        step(p, "links a handle", [&](State &s) {
                            send(s, p, LINK, {h.badge, (u8)rights}, 0, d);
                        });
                for (int q = 0; q < PROCESSES && can & PASS; q++)
                    if (q != p && !now->p[q].inbox.badge) pass(p, q, h, rights);
            }
            for (int serial = 1; serial < now->next && can & REVOKE && own; serial++)
                step(p, "revokes", [&](State &s) { send(s, p, REVOKE, h, serial); });
        }
        for (int serial = 1; serial < now->next && can & OPEN && has_room(me); serial++)
            for (int d = 1; d <= 2; d++)
                if (reach(p, d))
                    step(p, "opens", [&](State &s) { send(s, p, OPEN, {}, serial, d); });
        if (can & FORGE && has_room(me) && !me.slot[0].badge)
            step(p, "makes a badge of its own port", [&](State &s) {
                s.p[p].ops--;
                give(s.p[p], {badge_of(s, 1, false, 0), ALL});
            });
    }
    void pass(int p, int q, Slot h, int rights)
    {
        step(p, "passes a handle on", [&](State &s) {
            int g = s.badge[h.badge - 1].grant;
            s.p[p].ops--;
            s.p[q].inbox = {h.badge, (u8)rights};
            s.p[q].may[g] |= passed(s, p, g, rights);
        });
    }

    /* ---- the service ---- */
    void serves(int p)
    {
        const Call &c = now->p[p].call;
        switch (c.phase) {
        case QUEUED: receives(p); break;
        case TAKEN: step(p, "is served", [&](State &s) { serve(s, p); }); break;
        case HALF: step(p, "has its entry linked", [&](State &s) {
            s.row[s.p[p].call.made].entry = s.p[p].call.directory;
            s.p[p].call.phase = DONE;
            s.flushed = 0;
        }); break;
        case DONE:
            if (durable(*now, c)) step(p, "is answered", [&](State &s) { answer(s, p); });
        }
    }
    static bool durable(const State &s, const Call &c)
    {
        if (c.kind == OPEN) return !c.badge || s.disk[c.serial].used || on(OPEN_EARLY);
        return s.flushed || (c.kind == LINK && on(LINK_ANSWERED)) ||
               (c.kind == REVOKE && on(REVOKE_ANSWERED)) || c.kind == USE;
    }
    void receives(int p)
    {
        const Call &c = now->p[p].call;
        bool by = c.kind == USE || c.kind == REVOKE, has = c.badge != 0;
        bool ended = has && now->badge[c.badge - 1].ended;
        if (ended && by && !on(END_LEAVES))
            return step(p, "hears that its badge ended", [&](State &s) { s.p[p].call = {}; });
        step(p, "is received", [&](State &s) {
            Call &d = s.p[p].call;
            if (by && ended) wrong("a message of an ended badge is received");
            const Badge *b = has ? &s.badge[d.badge - 1] : nullptr;
            if (b && b->said && (b->said % SAID_ENDED != b->serial || (b->said > SAID_ENDED && !b->ended)))
                wrong("an inherited badge says what it did not say");
            if (b && d.kind != REVOKE) d.serial = b->own || on(OTHER_PORT) ? b->serial : 0;
            if (b && d.kind == LINK && ended) d.serial = 0;
            d.seen = s.row[d.serial];
            d.phase = TAKEN;
        });
    }
    static bool descends(const State &s, int serial, int from)
    {
        for (; serial; serial = s.row[serial].parent)
            if (serial == from) return true;
        return false;
    }
    void serve(State &s, int p)
    {
        Call &c = s.p[p].call;
        bool early = (c.kind == USE && on(CHECK_EARLY)) || (c.kind == LINK && on(LINK_EARLY));
        const Row row = early ? c.seen : s.row[c.serial];
        if (c.kind == REVOKE) return revoke(s, p);
        if (!row.used) {
            c = {};                     /* -ENOENT */
            return;
        }
        if (c.kind == USE) {
            if (c.rights & row.rights & W) done(s, p, row.object, W);
            c = {};
        } else if (c.kind == OPEN) {
            bool found = row.entry == c.directory;
            c.rights = on(WALK_GROWS) ? row.rights : (u8)(row.rights & reach(p, c.directory));
            c.badge = found && c.rights ? badge_of(s, c.serial, true, row.grant) : (u8)0;
            c.phase = DONE;
        } else {
            link(s, p, row);
        }
    }
    void link(State &s, int p, Row from)
    {
        Call &c = s.p[p].call;
        u8 rights = on(LINK_ASKED) ? from.rights : (u8)(from.rights & c.rights), serial = s.next;
        for (u8 i = 1; i < s.next && on(SERIAL_AGAIN); i++)
            if (!s.row[i].used && i < serial) serial = i;
        if (serial == ROWS || s.grants == ROWS) {
            c = {};                     /* -ENOSPC */
            return;
        }
        int g = s.badge[c.badge - 1].grant, made = s.grants++;
        u8 granted = g && live(s, g) ? passed(s, p, g, c.rights) : (u8)0;
        s.grant[made] = {s.grant[g].object, granted, (u8)g, c.directory, 0, 0, 0};
        for (int q = 0; q < PROCESSES; q++)
            s.p[q].may[made] = (u8)(granted & reach(q, c.directory));
        u8 entry = on(LINK_SPLIT) ? (u8)0 : c.directory;
        s.row[serial] = {1, entry, from.object, rights, c.serial, (u8)made};
        if (serial == s.next) s.next++;
        c.made = serial;
        c.phase = on(LINK_SPLIT) ? HALF : DONE;
        s.flushed = 0;
    }
    void revoke(State &s, int p)
    {
        Call &c = s.p[p].call;
        const Badge &b = s.badge[c.badge - 1];
        u8 grant = s.row[c.serial].grant, from = s.badge[c.badge - 1].grant;
        bool may = s.row[c.serial].used && s.row[b.serial].used && c.serial != b.serial &&
                   c.rights & M && descends(s, c.serial, b.serial);
        if (on(REVOKE_ANY) && s.row[c.serial].used && s.row[c.serial].parent) may = true;
        if (!may) {
            c = {};                     /* -EACCES */
            return;
        }
        if (!(s.p[p].may[from] & M) || !below(s, grant, from)) wrong("revoked without the right");
        u8 gone[ROWS] = {};
        for (int i = 1; i < s.next; i++)
            gone[i] = s.row[i].used && (on(REVOKE_ONE) ? i == c.serial : descends(s, i, c.serial));
        for (int i = 1; i < s.next; i++)
            if (gone[i]) s.row[i] = {};
        s.grant[grant].ending = 1;
        c.made = grant;
        c.phase = DONE;
        s.flushed = 0;
    }
    static bool below(const State &s, int g, int from)
    {
        for (g = s.grant[g].parent; g; g = s.grant[g].parent)
            if (g == from) return true;
        return false;
    }
    void answer(State &s, int p)
    {
        Call &c = s.p[p].call;
        if (c.kind == OPEN && c.badge) give(s.p[p], {c.badge, c.rights});
        if (c.kind == LINK) s.grant[s.row[c.made].grant].answered = 1;
        if (c.kind == REVOKE) {
            s.grant[c.made].revoked = 1;
            for (int i = 0; i < s.badges; i++)
                if (s.badge[i].own && !s.row[s.badge[i].serial].used) s.badge[i].ended = 1;
        }
        c = {};
    }

    /* ---- hazards ---- */
    /* A program dies; another one begins in its place, with what its parent gives it. */
    void dies(int p)
    {
        step(p, "DIES", [&](State &s) {
            s.kills--;
            Process &x = s.p[p];
            Slot inbox = on(DEATH_KEEPS) ? x.inbox : Slot{};
            memset(x.slot, 0, sizeof x.slot);
            x.inbox = inbox;
            if (x.call.phase <= TAKEN) x.call = {};
            begins(s, p);
        });
    }
    void begins(State &s, int p)
    {
        for (int g = 1; g < s.grants; g++) {
            bool first = g <= sc->objects;
            s.p[p].may[g] = first ? (u8)(p == A ? ALL : 0)
                                  : (u8)(s.grant[g].rights & reach(p, s.grant[g].directory));
        }
        for (int i = 1; p == A && i <= sc->objects; i++)
            give(s.p[p], {badge_of(s, i, true, i), ALL});
    }
    /* The service ends, and begins again from the disk; with `all` everything else ends, too. */
    void ends(State &s, bool all)
    {
        memcpy(s.row, s.disk, sizeof s.row);
        s.next = on(SERIAL_LOST) ? (u8)(sc->objects + 1) : s.disk_next;
        s.flushed = 1;
        for (int g = sc->objects + 1; g < s.grants; g++) check_after(s, g);
        for (auto &r : s.row)
            if (r.parent && !r.entry) wrong("half a grant is there after a power cut");
        bool inherits = sc->inherits && !all;
        for (auto &b : s.badge) {
            if (b.own && inherits) b.said = b.serial | (b.ended ? SAID_ENDED : 0);
            b.ended = b.own && inherits ? b.ended && !on(INHERIT_LIVE) : 1;
        }
        for (int p = 0; p < PROCESSES; p++) {
            Process &x = s.p[p];
            x.call = {};
            if (inherits) continue;
            memset(x.slot, 0, sizeof x.slot);
            if (all) x.inbox = {};
            begins(s, p);
        }
    }
    void check_after(State &s, int g)
    {
        bool there = false, ending = false;
        for (auto &r : s.row) there |= r.used && r.grant == g;
        for (int h = g; h; h = s.grant[h].parent) ending |= s.grant[h].ending;
        if (!live(s, g) && there) wrong("a grant that was taken back is there again");
        if (s.grant[g].answered && !ending && !there) wrong("an answered grant is lost");
        if (there) return;
        s.grant[g].revoked = 1;         /* nobody heard of it, or it is over */
    }

    static State start_of(const Scenario &sc)
    {
        State s;
        memset(&s, 0, sizeof s);
        s.next = s.disk_next = s.grants = (u8)(sc.objects + 1);
        for (u8 i = 1; i <= sc.objects; i++) {
            s.row[i] = {1, 0, i, ALL, 0, i};
            s.grant[i] = {i, ALL, 0, 0, 1, 0, 0};
            s.p[A].may[i] = ALL;
            s.badge[s.badges++] = {i, 1, 0, i, 0};
            give(s.p[A], {s.badges, ALL});
        }
        memcpy(s.disk, s.row, sizeof s.row);
        for (int p = 0; p < PROCESSES; p++) s.p[p].ops = sc.ops[p];
        s.flushed = 1;
        s.kills = sc.kills;
        s.cuts = sc.cuts;
        s.deaths = sc.deaths;
        return s;
    }

    void successors(const State &s, bool want_names, std::vector<Successor<State>> &result)
    {
        now = &s;
        out = &result;
        names = want_names;
        for (int p = 0; p < PROCESSES; p++) {
            runs(p);
            serves(p);
            if (s.kills && (s.p[p].slot[0].badge || s.p[p].inbox.badge)) dies(p);
        }
        if (!s.flushed)
            step(NOBODY, "the log is flushed", [&](State &t) {
                memcpy(t.disk, t.row, sizeof t.row);
                t.disk_next = t.next;
                t.flushed = 1;
            });
        if (s.deaths)
            step(NOBODY, "the service dies", [&](State &t) { t.deaths--; ends(t, false); });
        if (s.cuts)
            step(NOBODY, "a POWER CUT", [&](State &t) { t.cuts--; ends(t, true); });
    }
};

/* Behind the objects: calls, kinds of calls, rights to two directories; kills, cuts, deaths; does
 * the next service inherit? */
static const Scenario scenarios[] = {
    {"revoke", "a grant is taken back", 1, {2, 3, 1}, {LINK | REVOKE, USE | OPEN | PASS, USE},
     {{ALL, ALL}, {}}, 0, 1, 0, false},
    {"forge", "badges of a port of their own", 1, {1, 2, 3},
     {LINK | PASS, USE | OPEN, FORGE | LINK | USE | OPEN}, {{ALL, ALL, ALL}, {}}, 0, 0, 0, false},
    {"restart", "the service dies while handles are held", 1, {2, 3, 0},
     {LINK | PASS, REVOKE | OPEN | USE, 0}, {{ALL, ALL}, {}}, 0, 0, 1, false},
    {"reopen", "a grant behind one that a power cut spared", 2, {2, 2, 0}, {LINK, USE | OPEN, 0},
     {{ALL, ALL}, {}}, 0, 2, 0, false},
    {"pass", "handles go from one to another", 1, {2, 2, 2}, {USE | PASS, USE | PASS, USE | PASS},
     {{}, {}}, 1, 0, 0, false},
    {"chain", "what came from a grant", 1, {2, 2, 2}, {LINK | REVOKE, LINK | OPEN, OPEN | USE},
     {{ALL, ALL, ALL}, {}}, 0, 0, 0, false},
    {"open", "a directory of two, one of whom may not write", 1, {2, 2, 2},
     {LINK, USE | OPEN, USE | OPEN}, {{ALL, ALL, G}, {}}, 1, 0, 0, false},
    {"again", "a grant behind one that is gone", 2, {3, 2, 0}, {LINK | REVOKE, USE | OPEN, 0},
     {{ALL, ALL}, {ALL}}, 0, 0, 0, false},
    {"inherit", "the next service has the badges of the one that died", 2, {2, 2, 0},
     {LINK | REVOKE, USE | OPEN, 0}, {{ALL, ALL}, {ALL}}, 0, 0, 1, true},
};

int main(int argc, char **argv)
{
    return commands<Model>("model-rights", scenarios, argc, argv);
}
