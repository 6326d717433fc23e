/*
 * parts.cpp - a model of one transaction over several bases (kernel/store/parts.md): votes, a
 * decision, what is told behind it, and the bases that ask each other when somebody has died.
 *
 *     model-parts check           every scenario, completely
 *     model-parts teeth [RULE]    each rule switched, alone: some scenario must fail
 *     model-parts trace RULE      a shortest counterexample, step by step
 *
 * The last base decides. A base shows what it had (OLD), the transaction's part (NEW), or nothing:
 * its pages are held for an answer, or were swept. Between its death and the sweep its pages are
 * there, and nobody has locks on them. Property: nobody ever finds NEW in one and OLD in another, by
 * locks or by a snapshot, and what the program was told is so.
 */
#define RULES(X) \
    X(VOTE_UNFLUSHED, "a vote is told before it is durable") \
    X(DECIDE_FIRST, "the last base is asked to decide before all others have voted") \
    X(DECIDE_UNFLUSHED, "who decides publishes and answers before its log is flushed") \
    X(VOTE_SHOWS, "a base publishes its part when it votes") \
    X(NO_MEMORY, "who decides forgets that it called an unknown transaction undone") \
    X(PRESUME_COMMIT, "a transaction of which nothing is known is called committed") \
    X(DEATH_UNDOES, "those that voted undo when who decides has died with the question") \
    X(NOBODY_UNDOES, "a program hears undone when who decides has died, and then all who voted") \
    X(UNLOCK_DOUBT, "locks go when who decides has died, before the outcome is known") \
    X(LEAVE, "who is killed behind the decision leaves, and tells nobody") \
    X(GIVE_HELD, "a base that starts in doubt gives its pages to others") \
    X(SNAP_ANY, "a snapshot begins between two publications") \
    X(SNAP_LATE, "a snapshot that began between two publications shows objects that came later") \
    X(DEAD_GRANTS, "a page of a base that has died is given to the next until it is swept") \
    X(SNAP_DYING, "a snapshot begins while a base that has died is not swept") \
    X(FENCE_REFUSES, "a base whose log does not take an outcome gives the pages of before") \
    X(FENCE_ENDS, "a base whose log takes nothing more says that its part has ended there") \
    X(FORGET_EARLY, "a decision is forgotten as soon as the program was answered") \
    X(FORGET_UNFLUSHED, "what a base says to have ended need not be durable there")
#include "small.h"

enum { BASES = 3 };
struct Scenario {
    const char *name, *what;
    u8 bases, deaths, cuts, kills;
};
enum shown : u8 { OLD, NEW, NOTHING };
enum phase : u8 { VOTING, DECIDING, RECEIVED, TELLING, ANSWERED, GONE };
enum outcome : u8 { NONE, COMMIT, UNDO, ASK };
enum log : u8 { EMPTY, WRITTEN, DURABLE };

struct Base {
    u8 alive, shown, locked;            /* locked: the transaction has its pages */
    u8 dying;                           /* all have heard of its death, and it is not swept yet */
    u8 vote, commit, undo;              /* records, enum log; commit: also of who decides */
    u8 life;                            /* it voted in this one, and has the question's view */
    u8 memory;                          /* who decides: it has called the transaction undone */
    u8 kept;                            /* ... and keeps that it decided */
    u8 fenced;                          /* its log takes nothing more in this life */
};
struct State {
    Base b[BASES];
    u8 phase, at, outcome, told;        /* told: what the program heard; ASK: nobody knows */
    u8 deaths, cuts, kills;
};

struct Model : Steps<State, Scenario> {
    int last() const { return sc->bases - 1; }
    template <class F> void step(int i, const char *what, F change)
    {
        step_of([&] { return i >= 0 ? "base " + std::to_string(i) + " " : std::string(); }, what,
                change);
    }
    static void finish(State &s, u8 told)
    {
        s.phase = ANSWERED;
        s.told = told;
        for (Base &b : s.b) b.locked = 0;
    }
    /* Goes to the next base that has voted and lives still, or to the end. */
    void tell_next(State &s) const
    {
        while (s.at < last() && !s.b[s.at].life) s.at++;
        if (s.at < last()) return;
        bool nobody = s.outcome == ASK; /* nobody is left who might ask: what holds is not known */
        finish(s, nobody && on(NOBODY_UNDOES) ? (u8)UNDO : s.outcome);
    }
    void tell(State &s, u8 outcome) const
    {
        s.phase = TELLING;
        s.outcome = outcome;
        s.at = 0;
        if (outcome == ASK && on(UNLOCK_DOUBT)) return finish(s, ASK);
        tell_next(s);
    }
    static void ends(Base &b, bool commits)
    {
        if (commits) b.commit = WRITTEN;
        else b.undo = WRITTEN;
        b.shown = commits ? NEW : OLD;
        b.locked = b.life = 0;
    }
    /* What who decides says; it remembers that. */
    bool asked(State &s) const
    {
        Base &c = s.b[last()];
        if (c.kept == DURABLE) return true;
        if (!on(NO_MEMORY)) c.memory = 1;
        return on(PRESUME_COMMIT);
    }

    /* ---- the owner thread ---- */
    void vote(int i)
    {
        step(i, "votes", [&](State &s) {
            s.b[i].vote = on(VOTE_UNFLUSHED) ? WRITTEN : DURABLE;
            s.b[i].life = 1;
            if (on(VOTE_SHOWS)) s.b[i].shown = NEW, s.b[i].locked = 0;
            if (++s.at == last()) s.phase = DECIDING;
        });
        step(i, "refuses its vote", [&](State &s) { tell(s, UNDO); });
    }
    void decide()
    {
        const Base &c = now->b[last()];
        if (now->phase != RECEIVED)
            return step(last(), "receives DECIDE", [&](State &s) { s.phase = RECEIVED; });
        step(last(), "refuses to decide", [&](State &s) { tell(s, UNDO); });
        if (c.memory) return;
        step(last(), "decides, publishes", [&](State &s) {
            Base &b = s.b[last()];
            b.commit = b.kept = on(DECIDE_UNFLUSHED) ? WRITTEN : DURABLE;
            b.shown = NEW;
            b.locked = 0;
            tell(s, COMMIT);
        });
    }
    void telling(int i)
    {
        if (now->outcome == COMMIT)
            step(i, "is fenced, and publishes all the same", [&](State &s) {
                ends(s.b[i], true);
                s.b[i].commit = EMPTY;
                s.b[i].fenced = 1;
                if (on(FENCE_REFUSES)) s.b[i].shown = OLD;
                tell_next(s);
            });
        if (now->outcome != ASK)
            return step(i, now->outcome == COMMIT ? "publishes" : "undoes", [&](State &s) {
                ends(s.b[i], s.outcome == COMMIT);
                tell_next(s);
            });
        if (now->b[last()].alive)
            step(i, "asks who decides", [&](State &s) {
                s.outcome = asked(s) ? COMMIT : UNDO;
                ends(s.b[i], s.outcome == COMMIT);
                tell_next(s);
            });
    }
    void owner()
    {
        /* what dies takes its part along, and the port that would be asked */
        bool lost = false, here = now->b[now->phase == VOTING ? now->at : last()].locked;
        for (int i = 0; i < sc->bases; i++) lost |= !now->b[i].locked && !on(VOTE_SHOWS);
        if (now->phase == VOTING && here) vote(now->at);
        if (now->phase == VOTING && on(DECIDE_FIRST))
            step(-1, "does not wait for votes", [&](State &s) { s.phase = DECIDING; });
        if (now->phase <= DECIDING && lost)
            step(-1, "a base has died", [&](State &s) { tell(s, UNDO); });
        if (now->phase == RECEIVED || (now->phase == DECIDING && here)) decide();
        if (now->phase == TELLING) telling(now->at);
        if (now->phase <= DECIDING && now->kills)
            step(-1, "the program is killed", [&](State &s) { s.kills--, tell(s, UNDO); });
        if (now->phase == TELLING && now->kills && on(LEAVE))
            step(-1, "the program is killed, and leaves", [&](State &s) {
                s.kills--;
                finish(s, ASK);
                for (Base &b : s.b) b.life = 0;
            });
    }

    /* ---- the bases, by themselves ---- */
    static void stops(Base &b)
    {
        b.alive = b.life = b.memory = b.locked = b.fenced = 0;
        b.dying = b.shown != NOTHING;
    }
    static void swept(Base &b)
    {
        b.dying = 0;
        b.shown = NOTHING;
    }
    void death(int i)
    {
        step(i, "dies", [&](State &s) {
            bool answered = i == last() && s.phase == RECEIVED;
            s.deaths--;
            stops(s.b[i]);
            if (answered) tell(s, on(DEATH_UNDOES) ? UNDO : ASK);
            else if (s.phase == TELLING && i < last()) tell_next(s);
        });
        /* it had written all, and the answer was on its way */
        if (i == last() && now->phase == RECEIVED && !now->b[i].memory)
            step(i, "decides, and dies before it answers", [&](State &s) {
                s.deaths--;
                s.b[i].commit = s.b[i].kept = DURABLE;
                stops(s.b[i]);
                tell(s, on(DEATH_UNDOES) ? UNDO : ASK);
            });
    }
    static bool doubts(const Base &b)
    {
        return b.vote && !b.commit && !b.undo && !b.life && !b.fenced;
    }
    void start(int i)
    {
        step(i, "starts", [&](State &s) {
            Base &b = s.b[i];
            b.alive = 1;
            b.shown = b.commit ? NEW : doubts(b) && !on(GIVE_HELD) ? NOTHING : OLD;
        });
    }
    void base(int i)
    {
        const Base &b = now->b[i];
        if (b.dying) return step(i, "is swept", [&](State &s) { swept(s.b[i]); });
        if (!b.alive) return start(i);
        if (now->deaths) death(i);
        if (i < last() && doubts(b) && now->b[last()].alive && now->phase != RECEIVED)
            step(i, "asks, for it is in doubt", [&](State &s) { ends(s.b[i], asked(s)); });
        if (b.commit == WRITTEN)
            step(i, "flushes", [&](State &s) { s.b[i].commit = s.b[i].kept ? s.b[i].kept = DURABLE
                                                                           : (u8)DURABLE; });
    }
    bool fence_says(int i) const { return on(FENCE_ENDS) && now->b[i].fenced; }
    void forget()
    {
        bool may = now->b[last()].alive && now->b[last()].kept == DURABLE;
        for (int i = 0; i < last(); i++)
            may &= on(FORGET_EARLY) ? now->told == COMMIT || now->phase == TELLING
                                    : now->b[i].alive && (now->b[i].commit || fence_says(i));
        if (may)
            step(last(), "forgets its decision", [&](State &s) {
                for (int i = 0; i < last() && !on(FORGET_UNFLUSHED) && !on(FORGET_EARLY); i++)
                    s.b[i].commit = fence_says(i) ? s.b[i].commit : (u8)DURABLE;
                s.b[last()].kept = EMPTY;
            });
    }
    void power_cut()
    {
        step(-1, "the power goes", [&](State &s) {
            s.cuts--;
            for (Base &b : s.b) {
                for (u8 *record : {&b.vote, &b.commit, &b.undo, &b.kept})
                    if (*record == WRITTEN) *record = EMPTY;
                stops(b);
                swept(b);
            }
            if (s.phase < ANSWERED) s.told = ASK;
            s.phase = GONE;
        });
    }

    /* ---- every state ---- */
    void look(const State &s)
    {
        bool old = false, young = false, old_here = false, young_here = false, dying = false;
        for (int i = 0; i < sc->bases; i++) {
            const Base &b = s.b[i];
            if (b.shown == NOTHING) continue;
            if (!b.locked && (!b.dying || on(DEAD_GRANTS))) (b.shown == NEW ? young : old) = true;
            dying |= b.dying && !on(SNAP_DYING);
            (b.shown == NEW ? young_here : old_here) = true;
        }
        if (old && young) wrong("one base has all of it, another one nothing");
        bool owes = s.phase == RECEIVED || (s.phase == TELLING && s.outcome != UNDO);
        if ((!owes || on(SNAP_ANY)) && !dying && old_here && young_here)
            wrong("a snapshot that begins sees a half");
        if (owes && on(SNAP_LATE) && old_here && young_here)
            wrong("a snapshot comes to see a half, by an object that it had not when it began");
        if (s.told == COMMIT && old) wrong("the program was told that it is committed");
        if (s.told == UNDO && young) wrong("the program was told that it is undone");
    }
    static State start_of(const Scenario &sc)
    {
        State s;
        memset(&s, 0, sizeof s);
        for (int i = 0; i < sc.bases; i++) s.b[i].alive = s.b[i].locked = 1;
        for (int i = sc.bases; i < BASES; i++) s.b[i].shown = NOTHING;
        s.deaths = sc.deaths;
        s.cuts = sc.cuts;
        s.kills = sc.kills;
        return s;
    }
    void successors(const State &s, bool want_names, std::vector<Successor<State>> &result)
    {
        now = &s;
        out = &result;
        names = want_names;
        look(s);
        if (s.phase < ANSWERED) owner();
        for (int i = 0; i < sc->bases; i++) base(i);
        forget();
        if (s.cuts) power_cut();
    }
};

static const Scenario scenarios[] = {
    {"two", "two bases, deaths and a kill", 2, 2, 0, 1},
    {"cut", "two bases, a power cut, then a death", 2, 1, 1, 0},
    {"three", "three bases, deaths, a kill and a power cut", 3, 2, 1, 1},
    {"cuts", "three bases, the power goes twice", 3, 0, 2, 0},
};

int main(int argc, char **argv)
{
    return commands<Model>("model-parts", scenarios, argc, argv);
}
