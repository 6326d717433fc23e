/*
 * spare.cpp - a model of a home, its hot spare and the witness (sites.md, NH). Copies A and B have
 * the store each, W keeps the record (term, home, mate).
 *
 *     model-spare check           every scenario, completely
 *     model-spare teeth [RULE]    each rule switched, alone: some scenario must fail
 *     model-spare trace RULE      a shortest counterexample, step by step
 *
 * A log holds numbers of commits. `history` is what clients ever saw, in order: whoever is home
 * must have exactly this. A lease is an order of events, but for a clock that is wrong.
 */
#include <algorithm>
#include "spare_state.h"

struct Model : Steps<State, Scenario> {
    int progress = 0;

    static const char *who(int i) { return i == WITNESS ? "W" : i ? "B" : "A"; }
    template <class F> void step(bool forward, int i, const std::string &what, F change)
    {
        step_of([&] { return std::string(who(i)); }, " " + what, [&](State &s) {
            change(s);
            if (error.empty()) look_at(s);
        });
        progress += forward;
    }
    static int hazard(const Scenario &sc, char what)
    {
        return (int)std::count(sc.hazards, sc.hazards + strlen(sc.hazards), what);
    }

    /* ---- links ---- */
    static bool connected(const State &s, int i, int j)
    {
        const u8 *known = i == WITNESS ? s.witness_known : s.c[i & 1].known;
        return known[j] == s.generation[i][j];
    }
    static bool is_up(const State &s, int i) { return i == WITNESS ? s.witness_up : s.c[i].up; }
    void send(State &s, int i, int j, Msg m)
    {
        Link &l = s.link[i][j];
        if (!connected(s, i, j)) return;
        if (l.count == LINK) return wrong("(5) messages pile up without end");
        l.m[l.count++] = m;
    }
    /* The loss of a link to the witness needs no notice: who asked asks again. */
    static void lose(State &s, int i, int j)
    {
        s.generation[i][j]++;
        s.generation[j][i]++;
        s.link[i][j] = s.link[j][i] = Link{};
        if (i != WITNESS && j != WITNESS) return;
        s.generation[i][j] = s.generation[j][i] = 0;
        s.c[i == WITNESS ? j : i].asked = NOTHING;
    }
    /* Requests are numbered: of what was asked before no answer counts. */
    void ask(State &s, int i, enum wants what)
    {
        Copy &c = s.c[i];
        c.asked = what;
        s.link[WITNESS][i] = Link{};
        for (int k = 0; k < s.link[i][WITNESS].count; k++) s.link[i][WITNESS].m[k].nobody = 1;
        if (what == TO_READ) return send(s, i, WITNESS, {READ_RECORD});
        if (what == TO_VOUCH) return send(s, i, WITNESS, {VOUCHED, c.term, (u8)i, 0});
        u8 mate = what == MATE ? (u8)(2 - i) : 0;
        send(s, i, WITNESS, {WANT_RECORD, c.term, (u8)i, mate});
    }

    /* ---- the log ---- */
    /* show: published and acknowledged; or a home has voted for who read it. */
    void show(State &s, int i, int upto)
    {
        Copy &c = s.c[i];
        for (int k = c.shown; k < upto; k++) {
            if (s.dead & bit(c.log[k])) wrong("(3) what was undone for good is there again");
            if (k == s.histories) s.history[s.histories++] = c.log[k];
            else if (s.history[k] != c.log[k])
                wrong("(2) a commit that was seen is gone, or another stands in its place");
        }
        if (upto > c.shown) c.shown = (u8)upto;
    }
    /* A slot that is written last is the newer one; both: no loss of one brings back the other. */
    static void name_epochs(Copy &c, const u8 of[LOG], int length, int epoch, bool both)
    {
        memcpy(c.slot[1], c.slot[0], LOG);
        for (int k = 0; k < LOG; k++) c.slot[0][k] = k < length ? of[k] : (u8)epoch;
        if (both) memcpy(c.slot[1], c.slot[0], LOG);
    }
    static u8 newest(const Copy &c)
    {
        return std::max(*std::max_element(c.slot[0], c.slot[0] + LOG),
                        *std::max_element(c.of, c.of + c.length));
    }
    void open(State &s, int i)
    {
        Copy &c = s.c[i];
        if (c.length < s.histories || memcmp(c.log, s.history, s.histories))
            return wrong("(2) a home opens without a commit that was acknowledged");
        for (int n = 1; n < s.next; n++)
            if (!std::count(c.log, c.log + c.length, n)) s.dead |= bit(n);
        c.role = HOME;
        c.open = 1;
        c.frozen = c.lost = c.shown = c.question = 0;
        c.epoch = (u8)(newest(c) + !on(TAKE_SAME_EPOCH));
        if (on(TERM_EPOCH)) c.epoch = c.term;
        name_epochs(c, c.of, c.length, c.epoch, !on(TAKE_ONE_SLOT));
        show(s, i, c.length);
    }
    /* What a copy finds on its disk: the groups that its superblock believes. */
    static void find_end(Copy &c)
    {
        u8 least = 0, known = *std::max_element(c.slot[0], c.slot[0] + LOG);
        for (c.length = 0; c.length < LOG && c.log[c.length]; c.length++) {
            u8 of = c.of[c.length];
            bool learns = of > known;           /* the superblock that began it is lost */
            if (of < least || (!learns && of != c.slot[0][c.length])) break;
            if (learns) least = of;
        }
        c.flushed = c.length;
    }
    void alone(State &s, int i)
    {
        Copy &c = s.c[i];
        c.mate = c.named = c.mate_has = c.asked = c.frozen = c.lost = 0;
        if (c.open) show(s, i, c.flushed);
        else open(s, i);
    }
    /* So much may be acknowledged, and written into pages. */
    static int sure_of(const Copy &c)
    {
        if (c.role == SPARE) return std::min(c.sure, c.length);
        return c.mate ? std::min(c.flushed, c.mate_has) : c.flushed;
    }

    /* ---- what a copy does by itself ---- */
    void starts(State &s, int i)
    {
        Copy &c = s.c[i];
        c.up = 1;
        c.role = STARTING;
        for (int j = 0; j < 3; j++) c.known[j] = s.generation[i][j];
        find_end(c);
        if (on(START_RECOVERS)) c.applied = c.length;
        if (on(START_HOME) && c.record.home == i) open(s, i);
    }
    void lost_other(State &s, int i)
    {
        Copy &c = s.c[i];
        int o = 1 - i;
        c.known[o] = s.generation[i][o];
        c.joining = 0;
        if (c.role == HOME && c.mate) {
            if (on(ALONE_AT_LOSS)) return alone(s, i);
            lease_ends(c);
        } else if (c.role == SPARE && !c.named) {
            c.role = OUT;
            c.asked = NOTHING;
        } else if (c.role == SPARE) {
            c.role = TAKING;
            c.asked = NOTHING;
            if (on(TAKE_AT_LOSS)) {
                c.term++;
                c.mate = 0;
                open(s, i);
            }
        }
    }
    static void lease_ends(Copy &c)
    {
        c.lost = 1;
        c.frozen = !on(NO_FREEZE);
        c.mate_has = c.asked = c.question = 0;
    }
    void asks(int i)
    {
        const Copy &c = now->c[i], &o = now->c[1 - i];
        bool sees = connected(*now, i, 1 - i), there = o.up && o.role == HOME;
        if (c.role == STARTING && !c.asked)
            step(true, i, "asks for the record", [&](State &s) { ask(s, i, TO_READ); });
        if (c.role == TAKING && !c.asked)
            step(true, i, "asks to take over", [&](State &s) { ask(s, i, ALONE); });
        if (c.role == HOME && c.vouched && !c.asked)
            step(true, i, "tells of a person's word", [&](State &s) { ask(s, i, TO_VOUCH); });
        if (c.role == HOME && c.lost && !c.vouched && !c.asked)
            step(true, i, "asks to go on alone", [&](State &s) { ask(s, i, ALONE); });
        if (c.role == HOME && c.open && !c.lost && c.mate && !c.named && !c.asked &&
            !c.vouched && (on(MATE_BEHIND) || (c.met && c.mate_has >= c.shown)))
            step(true, i, "asks to name its spare", [&](State &s) { ask(s, i, MATE); });
        if (c.role != OUT) return;
        if (sees && !c.joining && there)
            step(true, i, "asks to join", [&](State &s) {
                s.c[i].joining = 1;
                send(s, i, 1 - i, {JOIN});
            });
        if (c.record.home == 1 - i && c.record.mate == i + 1 && (!there || o.frozen))
            step(true, i, "finds no home and is the mate", [&](State &s) {
                Copy &d = s.c[i];
                d.role = TAKING;
                d.asked = d.joining = 0;
                d.term = d.record.term;
            });
        if (c.asked != TO_READ && o.role != HOME)
            step(true, i, "asks for the record again", [&](State &s) { ask(s, i, TO_READ); });
    }
    void works(int i)
    {
        const Copy &c = now->c[i];
        int o = 1 - i, applies = sure_of(c);
        if ((on(SPARE_APPLIES) && c.role == SPARE) || (on(HOME_APPLIES) && c.role == HOME))
            applies = c.flushed;
        if ((c.role == SPARE || (c.role == HOME && c.open && !c.frozen)) && c.applied < applies)
            step(true, i, "writes groups into pages",
                 [&](State &s) { s.c[i].applied = (u8)applies; });
        if (c.role != HOME || !c.open || c.lost) return;
        if (now->next <= sc->commits && c.length < LOG)
            step(true, i, "logs a commit", [&](State &s) {
                Copy &d = s.c[i];
                d.log[d.length] = s.next++;
                d.of[d.length++] = d.epoch;
                if (d.mate) send_group(s, i, d.length - 1);
                if (on(ASYNC_ACK) && d.mate) show(s, i, d.flushed);
            });
        if (c.flushed < c.length)
            step(true, i, "flushes", [&](State &s) {
                Copy &d = s.c[i];
                d.flushed = d.length;
                if (!d.mate || on(ASYNC_ACK) || (on(SYNC_LATE) && !d.named)) show(s, i, d.length);
            });
        if (c.mate && sure_of(c) > c.shown)
            step(true, i, "acknowledges", [&](State &s) { show(s, i, sure_of(s.c[i])); });
        if (now->votes && !c.question)
            step(false, i, "is asked for a vote", [&](State &s) {
                Copy &d = s.c[i];
                const Copy &e = s.c[o];
                s.votes--;
                d.question = (u8)(d.length + 1);
                d.truly = !(e.up && e.role == HOME && e.open && e.term > d.term);
                d.heard = !d.mate;
                if (d.mate) send(s, i, o, {BEAT});
            });
        bool durable = sure_of(c) >= c.question - 1 || on(VOTE_LAZY);
        if (c.question && durable && (c.heard || on(VOTE_ALONE)))
            step(true, i, "votes yes", [&](State &s) {
                Copy &d = s.c[i];
                if (!d.truly) wrong("(1) who is home no more votes for what was read there");
                show(s, i, d.question - 1);
                d.question = d.truly = d.heard = 0;
            });
    }
    void send_group(State &s, int i, int at)
    {
        const Copy &c = s.c[i];
        send(s, i, 1 - i, {GROUP, c.term, 0, 0, (u8)at, c.log[at], c.of[at], c.flushed});
    }
    static bool catching_up(const State &s, int i)
    {
        const Link &l = s.link[i][1 - i];
        for (int k = 0; k < l.count; k++)
            if (l.m[k].kind == CATCH_UP) return true;
        return false;
    }
    void copy(int i)
    {
        const Copy &c = now->c[i], &o = now->c[1 - i];
        bool lost = !connected(*now, i, 1 - i);
        bool stays = (now->off & bit(i)) && !on(VOUCH_UNTOLD);
        if (!c.up && stays) return;
        if (!c.up) return step(true, i, "starts", [&](State &s) { starts(s, i); });
        person(i);
        if (lost)
            step(true, i, "notices the loss of the other", [&](State &s) { lost_other(s, i); });
        bool answers = o.up && (o.role == SPARE || (o.role == TAKING && on(ACK_AFTER_ASK)));
        if (c.role == HOME && c.mate && !c.lost && !lost && !answers && !on(NO_FREEZE) &&
            !catching_up(*now, i))
            step(true, i, "finds its lease over", [&](State &s) { lease_ends(s.c[i]); });
        if (c.role == SPARE && c.named && now->deaths)
            step(false, i, "takes the home for dead", [&](State &s) {
                s.deaths--;
                s.c[i].role = TAKING;
                s.c[i].asked = NOTHING;
            });
        asks(i);
        works(i);
    }
    /* A person knows which of the two has all. */
    void person(int i)
    {
        const Copy &c = now->c[i], &o = now->c[1 - i];
        bool asks = c.role == TAKING || (c.role == HOME && c.lost);
        bool right = now->record.home == i || now->record.mate == i + 1;
        if (!now->persons || !asks || !right || o.up) return;
        step(false, i, "is home by a person's word", [&](State &s) {
            Copy &d = s.c[i];
            s.persons--;
            s.off |= bit(1 - i);
            d.term++;
            alone(s, i);
            d.vouched = 1;
        });
    }
    /* The lease that the former home had from us is over. */
    static bool may_open(const State &s, int i)
    {
        const Copy &o = s.c[1 - i];
        return !(o.up && o.role == HOME && o.open && !o.frozen) || on(NO_FREEZE) ||
               on(ACK_AFTER_ASK) || s.skewed;
    }

    /* ---- messages ---- */
    void deliver(int i, int j)
    {
        const Link &l = now->link[i][j];
        if (!l.count || !is_up(*now, j) || !connected(*now, j, i)) return;
        Msg m = l.m[0];
        bool early = m.kind == GIVEN && now->c[j].role == TAKING && !may_open(*now, j);
        if (early && !now->skews) return;
        step(true, j, std::string("receives ") + kind_name[m.kind], [&](State &s) {
            Link &k = s.link[i][j];
            for (int n = 0; n + 1 < k.count; n++) k.m[n] = k.m[n + 1];
            k.m[--k.count] = Msg{};
            if (early) {
                s.skews--;
                s.skewed = 1;
            }
            if (j == WITNESS) at_witness(s, i, m);
            else at_copy(s, j, m);
        });
    }
    void at_witness(State &s, int i, const Msg &m)
    {
        Record &r = s.record;
        bool given = false;
        if (m.kind == WANT_RECORD) {
            given = (r.home == i || r.mate == i + 1) && m.term == r.term;
            if (on(WITNESS_TWICE) && m.term + 1 == r.term) given = true;
        }
        if (m.kind == VOUCHED) given = true;
        if (given && !(m.kind == VOUCHED && on(VOUCH_REFUSED))) {
            r = {(u8)(std::max(m.term, r.term) + 1), (u8)i, m.mate};
            if (!on(WITNESS_FORGETS)) s.kept = r;
        }
        if (!m.nobody) send(s, WITNESS, i, {(u8)(given ? GIVEN : RECORD), r.term, r.home, r.mate});
    }
    void given(State &s, int i, const Msg &m)
    {
        Copy &c = s.c[i];
        c.record = {m.term, m.home, m.mate};
        bool vouched = c.asked == TO_VOUCH;
        if (!vouched && c.asked != (m.mate ? MATE : ALONE)) return;
        c.asked = NOTHING;
        c.term = m.term;
        if (vouched) {
            c.vouched = 0;
            s.off &= (u8)~bit(1 - i);
            if (!c.lost) return;
        }
        if (c.role == TAKING) {
            c.mate = c.named = 0;
            open(s, i);
        } else if (c.role == HOME && m.mate) {
            c.named = 1;
            send(s, i, 1 - i, {NAMED, c.term});
        } else if (c.role == HOME) {
            alone(s, i);
        }
    }
    void told(State &s, int i, const Msg &m)
    {
        Copy &c = s.c[i];
        if (c.vouched) return;                  /* a person knows better */
        c.record = {m.term, m.home, m.mate};
        c.asked = NOTHING;
        if (c.role == SPARE) return;
        if (m.home != i && m.mate == i + 1 && c.role == TAKING) {
            c.term = m.term;
        } else if (m.home != i) {
            c.role = OUT;
            c.open = c.frozen = c.lost = c.mate = c.named = c.shown = c.question = 0;
        } else if (c.role == HOME) {
            c.term = m.term;
        } else if (c.role == TAKING) {
            c.term = m.term;
            if (!m.mate && may_open(s, i)) alone(s, i);
        } else if (m.mate && on(OPEN_TAIL)) {
            c.term = m.term;
            open(s, i);
            c.mate = m.mate;
            c.named = 1;
        } else if (m.mate) {                    /* recovers nothing before it may */
            c.role = HOME;
            c.term = m.term;
            c.frozen = c.lost = 1;
        } else if (may_open(s, i) || on(OPEN_AT_RECORD)) {
            c.term = m.term;
            c.role = HOME;
            alone(s, i);
        } else {
            c.role = STARTING;
        }
    }
    /* The groups of two logs are the same as far as their epochs are. */
    static int common(const Copy &c, const Copy &d)
    {
        int k = 0;
        while (k < c.length && k < d.length && c.of[k] == d.of[k]) k++;
        return k;
    }
    void joins(State &s, int i, int o)
    {
        Copy &c = s.c[i];
        if (c.role != HOME || !c.open || c.lost || c.mate)
            return send(s, i, o, {CATCH_UP, 0, 0, 0, 0xff});
        c.mate = (u8)(o + 1);
        c.named = c.mate_has = c.met = c.asked = c.question = 0;
        send(s, i, o, {CATCH_UP, c.term, 0, 0, c.length, 0, c.epoch, c.flushed,
                       (u8)common(c, s.c[o])});
    }
    void catches_up(State &s, int i, const Msg &m)
    {
        Copy &c = s.c[i];
        const Copy &h = s.c[1 - i];
        if (c.role != OUT) return;
        c.joining = 0;
        if (m.at == 0xff) return;
        if (c.applied > m.common && !on(KEEP_TAIL))
            return wrong("(2) pages have what is cut from the log");
        int from = on(KEEP_TAIL) ? c.length : m.common;
        for (int k = from; k < m.at; k++) {
            c.log[k] = h.log[k];
            c.of[k] = h.of[k];
        }
        c.length = on(KEEP_TAIL) ? std::max(c.length, m.at) : m.at;
        c.flushed = c.length;
        c.sure = m.durable;
        c.role = SPARE;
        c.named = 0;
        c.term = m.term;
        c.record = {m.term, (u8)(1 - i), 0};
        name_epochs(c, h.of, m.at, m.epoch, !on(CUT_ONE_SLOT));
        send(s, i, 1 - i, {HAVE, c.term, 0, 0, c.length});
    }
    void group(State &s, int i, const Msg &m)
    {
        Copy &c = s.c[i];
        bool takes = c.role == SPARE || (c.role == TAKING && on(ACK_AFTER_ASK)) || on(OLD_TERM);
        if (!takes || m.at != c.length || (m.term < c.term && !on(OLD_TERM))) return;
        c.log[c.length] = m.commit;
        c.of[c.length++] = m.epoch;
        c.flushed = c.length;
        c.sure = std::max(c.sure, m.durable);
        send(s, i, 1 - i, {HAVE, c.term, 0, 0, c.length});
    }
    void at_copy(State &s, int i, const Msg &m)
    {
        Copy &c = s.c[i];
        switch (m.kind) {
        case GIVEN: return given(s, i, m);
        case RECORD: return told(s, i, m);
        case JOIN: return joins(s, i, 1 - i);
        case CATCH_UP: return catches_up(s, i, m);
        case GROUP: return group(s, i, m);
        case HAVE:
            if (c.role != HOME || !c.mate || m.at > c.length) return;
            c.mate_has = std::max(c.mate_has, m.at);
            c.met = 1;
            return;
        case NAMED:
            if (c.role != SPARE) return;
            c.named = 1;
            c.term = m.term;
            c.record = {m.term, (u8)(1 - i), (u8)(i + 1)};
            return;
        case BEAT:
            if (c.role == SPARE) send(s, i, 1 - i, {HEARD});
            return;
        case HEARD:
            if (c.role == HOME && c.question) c.heard = 1;
            return;
        }
    }

    /* ---- losses ---- */
    void crash(State &s, int i, bool rots)
    {
        for (int j = 0; j < 3; j++)
            if (j != i) lose(s, i, j);
        if (i == WITNESS) {
            s.witness_up = 0;
            s.record = s.kept;
            return;
        }
        Copy &c = s.c[i], old = c;
        c = Copy{};                             /* what is on its disk stays */
        c.term = old.term;
        c.applied = old.applied;
        c.record = old.record;
        memcpy(c.slot, old.slot, sizeof c.slot);
        memcpy(c.log, old.log, LOG);
        memcpy(c.of, old.of, LOG);
        for (int k = old.flushed; k < old.length; k++) c.log[k] = c.of[k] = 0;
        if (rots) memcpy(c.slot[0], c.slot[1], LOG);
    }
    void losses()
    {
        for (int i = 0; i < 3; i++) {
            if (is_up(*now, i) && now->crashes)
                step(false, i, "crashes", [&](State &s) {
                    s.crashes--;
                    crash(s, i, false);
                });
            if (i != WITNESS && is_up(*now, i) && now->rots)
                step(false, i, "crashes, and its newest slot is gone", [&](State &s) {
                    s.rots--;
                    crash(s, i, true);
                });
            for (int j = i + 1; j < 3 && now->breaks; j++)
                step(false, i, std::string("loses its link to ") + who(j), [&](State &s) {
                    s.breaks--;
                    lose(s, i, j);
                });
        }
        if (!now->witness_up)
            step(true, WITNESS, "starts", [&](State &s) { s.witness_up = 1; });
    }

    /* ---- what holds ---- */
    void look_at(const State &s)
    {
        if (s.record.term > 12) wrong("model: terms without end");
        for (auto &c : s.c) {
            bool serves = c.up && c.role == HOME && c.open && !c.frozen;
            if (serves && !s.skewed &&
                (c.shown != s.histories || memcmp(c.log, s.history, s.histories)))
                wrong("(1) a home serves what is not the newest state: there are two");
        }
    }
    void at_rest(const State &s)
    {
        bool serves = false;
        for (auto &c : s.c)
            serves |= c.up && c.role == HOME && c.open && !c.lost && c.shown == c.length;
        in_state = true;
        if (!serves) return wrong("(5) there is no home for ever");
        if (s.next <= sc->commits) return wrong("(5) commits are never made");
        in_state = false;
    }
    static State start_of(const Scenario &sc)
    {
        State s;
        memset(&s, 0, sizeof s);
        s.witness_up = s.next = 1;
        s.breaks = (u8)hazard(sc, 'b');
        s.crashes = (u8)hazard(sc, 'c');
        s.rots = (u8)hazard(sc, 'r');
        s.deaths = (u8)hazard(sc, 'd');
        s.skews = (u8)hazard(sc, 's');
        s.persons = (u8)hazard(sc, 'p');
        s.votes = sc.votes;
        s.record = s.kept = {1, 0, (u8)(sc.joined ? 2 : 0)};
        for (auto &c : s.c) {
            c.up = c.term = 1;
            c.record = s.record;
            memset(c.slot, 1, sizeof c.slot);
            if (on(TAKE_ONE_SLOT)) memset(c.slot[1], 0, LOG);
        }
        s.c[0].role = HOME;
        s.c[0].open = 1;
        s.c[0].mate = s.record.mate;
        s.c[0].named = sc.joined;
        s.c[0].epoch = s.c[0].met = 1;
        s.c[1].role = sc.joined ? SPARE : OUT;
        s.c[1].named = sc.joined;
        return s;
    }
    void successors(const State &s, bool want_names, std::vector<Successor<State>> &result)
    {
        now = &s;
        out = &result;
        names = want_names;
        progress = 0;
        in_state = false;
        for (int i = 0; i < 3; i++)
            for (int j = 0; j < 3; j++)
                if (i != j) deliver(i, j);
        for (int i = 0; i < 2; i++) copy(i);
        losses();
        if (!progress && error.empty()) at_rest(s);
    }
};

#include "spare_scenarios.h"

int main(int argc, char **argv) { return commands<Model>("model-spare", scenarios, argc, argv); }
