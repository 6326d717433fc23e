/*
 * freed.cpp - a model of a page that a transaction frees: what the store manager has and says of it
 * (user/store: group.c, pager.c, space.c), what the kernel knows of it (kernel/store: page.c,
 * eviction.md), and a snapshot that is older.
 *
 *     model-freed check           every scenario, completely
 *     model-freed teeth [RULE]    each rule switched, alone: some scenario must fail
 *     model-freed trace RULE      a shortest counterexample, step by step
 *
 * A page that the manager does not have reads as zeros, of version 0. The kernel refuses what is
 * older than the version that it knows, if only the log has that (away). So a page that was freed
 * has a newest version that is older than others. `lock` is the manager's: from a publication until
 * it has told the kernel what that freed. Properties: who has the page finds in it what was written
 * last, or zeros if it is new to him; no page is given up; a snapshot finds what it saw, or is
 * refused, and is not refused a page that has not changed since.
 */
#define RULES(X) \
    X(FREED_UNTOLD, "GL6: the kernel is not told of a page that was freed") \
    X(FREED_ANEW, "GL6: it is told, too, of one that was written again in the same group") \
    X(FREED_READ, "MG3: what was read is supplied although the page was freed meanwhile") \
    X(FREED_LEASED, "a page that was freed is leased while it is still in memory") \
    X(FREED_OLD, "zeros in place of a freed page count for as old as the page was") \
    X(FREED_YOUNG, "all zeros count for newer than each snapshot, of pages that are claimed, too") \
    X(FREED_CLEANED, "LF3: a write home that was under way ends what is known of the free") \
    X(FREED_REMADE, "VS6: an object that is made anew knows nothing of frees before")
#include "small.h"

enum { STALE_MAX = 2 };
struct Scenario {
    const char *name, *what;
    u8 writes, frees, evictions, claims;
};
enum bytes : u8 { NOTHING, ZEROS, FIRST }; /* then what is written, one after the other */
enum owner : u8 { OWNED, NOBODY, LEASED };
enum copy : u8 { NO_COPY, COPY, SPILLED };
enum coming : u8 { NOT, NONE_THERE, READS };

struct State {
    /* The manager: has is NOTHING of a page that is not there, ZEROS of one that is claimed. */
    u8 has, csn, in_log, owner, lock;   /* in_log: as a difference; nobody could read that */
    u8 coming, bytes, of;               /* what a thread of its brings; of: that version */
    /* The kernel: a page, the version that the snapshot keeps, a transaction's copy. */
    u8 frame, known, sequence, dirty, away, freed, stale, asked;
    u8 old, old_from, old_until;
    u8 copy, copied;
    u8 published, next;
    u8 snapshot, at, saw;               /* saw: NOTHING: it has no pointer to the page */
    u8 writes, frees, evictions, claims;
};

struct Model : Steps<State, Scenario> {
    template <class F> void step(const char *what, F change)
    {
        step_of([] { return std::string(); }, what, change);
    }

    /* ---- transactions ---- */

    /* The kernel publishes the copy; what it supersedes stays if the snapshot needs it. */
    static void publish(State &s)
    {
        s.published++;
        if (s.copy == NO_COPY) return;
        if (s.frame && s.snapshot && s.sequence <= s.at && !s.old) {
            s.old = s.frame;
            s.old_from = s.sequence;
            s.old_until = s.published;
        }
        s.frame = s.copy == COPY ? s.copied : (u8)NOTHING;
        s.dirty = s.copy == COPY;
        s.away = s.copy == SPILLED;
        s.known = s.sequence = s.published;
        s.asked = s.freed = 0;
        s.copy = NO_COPY;
    }
    /* The manager has what was logged. */
    static void has_copy(State &s, u8 kind)
    {
        s.has = s.copied;
        s.csn = s.published;
        s.in_log = kind == COPY;
        s.owner = OWNED;
    }
    static void has_nothing(State &s)
    {
        s.has = NOTHING;
        s.csn = s.in_log = 0;
        s.owner = NOBODY;
        s.lock = 1;
        s.frees--;
    }
    void transactions()
    {
        const State &n = *now;
        if (n.owner != NOBODY && !n.frame && !n.asked)
            step("who has the page asks for it", [](State &s) { s.asked = 1; });
        if (n.owner != NOBODY && n.frame && n.copy == NO_COPY && n.writes)
            step("it stores to the page", [](State &s) {
                s.writes--;
                s.copy = COPY;
                s.copied = s.next++;
            });
        if (n.copy == COPY)
            step("its copy goes to the log", [](State &s) { s.copy = SPILLED; });
        if (n.lock) return;
        if (n.copy != NO_COPY)
            step("it commits", [](State &s) {
                u8 kind = s.copy;
                publish(s);
                has_copy(s, kind);
            });
        if (n.owner == OWNED && n.frees) frees();
        if (n.owner == LEASED && n.copy == NO_COPY && n.claims)
            step("it claims the page, as it is", [](State &s) {
                s.claims--;
                s.csn = ++s.published;
                s.has = ZEROS;
                s.owner = OWNED;
            });
    }
    /* What a transaction has stored to a page that it frees is published, and not logged. */
    void frees()
    {
        step("it frees the page, and commits", [](State &s) {
            publish(s);
            has_nothing(s);
        });
        if (now->copy != NO_COPY)
            step("it frees the page, another stores to it, both in one group", [](State &s) {
                u8 kind = s.copy;
                publish(s);
                has_nothing(s);
                has_copy(s, kind);
            });
    }

    /* ---- the manager ---- */

    /* KD_ADVISE_FREED. What an older snapshot may still see of it is in its frame:
     * when that goes, the page is as new as the free. */
    void tells()
    {
        step("the manager tells what was freed", [&](State &s) {
            s.lock = 0;
            if (s.has && !on(FREED_ANEW)) return;
            if (!on(FREED_UNTOLD)) s.away = s.dirty = 0;
            s.freed = s.frame && !s.has && !on(FREED_OLD);
            if (!s.frame && !on(FREED_OLD)) s.sequence = s.published;
        });
    }
    /* page_install; `newer`: no snapshot that began before has seen it (KD_SUPPLY_NEWER). */
    void install(State &s, u8 bytes, u8 csn, bool newer)
    {
        s.coming = NOT;
        s.bytes = s.of = 0;
        if (s.frame) return;
        if (s.away && csn < s.known) {
            if (++s.stale == STALE_MAX) wrong("a page is given up, the newest version is too old");
            return;
        }
        s.frame = bytes;
        s.known = csn;
        s.away = s.stale = s.asked = 0;
        if (newer) s.sequence = ++s.published;
    }
    void brings()
    {
        const State &n = *now;
        if (n.asked && !n.coming && !n.lock)
            step("the manager looks the page up", [&](State &s) {
                if (s.in_log) wrong("the newest version is in the log alone, and not to be read");
                s.coming = s.has >= FIRST ? READS : NONE_THERE;
                s.bytes = s.has >= FIRST ? s.has : (u8)ZEROS;
                s.of = s.has >= FIRST ? s.csn : (u8)0;
            });
        if (n.coming == NONE_THERE)
            step("it supplies zeros", [&](State &s) { install(s, ZEROS, 0, on(FREED_YOUNG)); });
        if (n.coming == READS && !n.lock)
            step("it has read the page", [&](State &s) {
                if ((s.has && s.csn == s.of) || on(FREED_READ))
                    return install(s, s.bytes, s.of, false);
                s.coming = NOT; /* it looks again */
                s.bytes = s.of = 0;
            });
    }
    void manager()
    {
        const State &n = *now;
        if (n.lock) tells();
        brings();
        if (n.dirty && n.has && !n.lock)
            step("the page goes home", [](State &s) { s.dirty = s.in_log = 0; });
        if (n.frame && n.freed && on(FREED_CLEANED))
            step("a write home ends, begun before the free", [](State &s) { s.freed = 0; });
        /* container_remake, idle_give_up: who had it detached it, and comes back */
        if (!n.dirty && n.copy == NO_COPY && !n.coming && !n.asked && !n.old && !n.lock && n.evictions)
            step("the object is destroyed, unused, and made anew", [&](State &s) {
                s.evictions--;
                s.sequence = on(FREED_REMADE) ? (u8)0 : s.freed ? s.published : s.sequence;
                s.frame = s.known = s.away = s.stale = s.freed = 0;
            });
        if (n.owner == NOBODY && !n.lock && (!n.frame || on(FREED_LEASED)))
            step("the page is leased", [](State &s) { s.owner = LEASED; });
    }

    /* ---- the kernel ---- */
    void kernel()
    {
        const State &n = *now;
        if (n.frame && !n.dirty && n.copy != COPY && n.evictions)
            step("the page leaves memory", [](State &s) {
                s.evictions--;
                s.frame = NOTHING;
                if (s.freed) s.sequence = s.published;
                s.freed = 0;
            });
        if (!n.snapshot)
            step("a snapshot begins", [](State &s) {
                s.snapshot = 1;
                s.at = s.published;
                s.saw = s.owner == OWNED ? s.has : (u8)NOTHING;
            });
        if (n.snapshot && n.saw && !n.frame && n.sequence <= n.at && !n.asked)
            step("the snapshot asks for the page", [](State &s) { s.asked = 1; });
    }

    /* ---- every state ---- */
    void look(const State &s)
    {
        u8 newest = s.owner == OWNED ? s.has : (u8)ZEROS;
        if (s.owner != NOBODY && s.frame && s.frame != newest)
            wrong("who has the page finds other bytes in it");
        if (!s.snapshot || !s.saw) return;
        bool current = s.sequence <= s.at;
        if (current && s.frame && s.frame != s.saw) wrong("a snapshot finds what it did not see");
        if (!current && s.old && s.at < s.old_until && s.old != s.saw)
            wrong("a snapshot finds a version that it did not see");
        if (!current && s.has == s.saw && s.csn <= s.at)
            wrong("a snapshot is refused a page that has not changed since");
    }
    static State start_of(const Scenario &sc)
    {
        State s;
        memset(&s, 0, sizeof s);
        s.has = FIRST;
        s.csn = s.published = 1;
        s.next = FIRST + 1;
        s.writes = sc.writes;
        s.frees = sc.frees;
        s.evictions = sc.evictions;
        s.claims = sc.claims;
        return s;
    }
    void successors(const State &s, bool want_names, std::vector<Successor<State>> &result)
    {
        now = &s;
        out = &result;
        names = want_names;
        look(s);
        transactions();
        manager();
        kernel();
    }
};

static const Scenario scenarios[] = {
    {"free", "a page is freed, leased and written anew", 2, 1, 2, 0},
    {"claim", "it is claimed as it is, and freed again", 1, 2, 3, 2},
    {"twice", "it is written and freed twice", 3, 2, 3, 1},
};

int main(int argc, char **argv)
{
    return commands<Model>("model-freed", scenarios, argc, argv);
}
