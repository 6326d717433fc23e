/*
 * stack.cpp - a model of managers that stack: one transaction through several managers, one commit
 * at the store below them all (stack.md, where the rules' labels are).
 *
 *     model-stack check           every scenario, completely
 *     model-stack teeth [RULE]    each rule switched, alone: some scenario must fail
 *     model-stack trace RULE      a shortest counterexample, step by step
 *
 * Layer 0 is the store's. Manager k serves the two pages of layer k and keeps page i of them in
 * page i of layer k - 1; for each transaction it works in a view of its own, the helper. A
 * transaction, its helpers and what they hold are a group. One step is what one lock protects.
 */
#include "stack_rights.h"

struct Model : Rights {
    /* ---- a program ---- */
    void run(int c)
    {
        const Client &x = now->c[c];
        Op op = x.pc < OPS ? sc->program[c].op[x.pc] : Op{};
        enum kind kind = sc->program[c].kind;
        if (kind == SNAPSHOT && !x.seen)
            return step(name(c), "begins a snapshot", [&](State &s) { s.c[c].seen = (u8)(s.number + 1); });
        if (!op.what)
            return step(name(c), "commits", [&](State &s) { commit(s, c); });
        if (kind == SNAPSHOT) return snapshot_read(c, op.page);
        if (!now->resident[op.page]) return;
        int mode = op.what == 'w' ? COPY : SHARED;
        const View &v = x.v[0];
        if (v.want != NOTHING && blockers(*now, c, 0, op.page, mode).any) return;
        step(name(c), op.what == 'w' ? "writes" : "reads", [&](State &s) {
            Client &y = s.c[c];
            if (!touch(s, c, 0, op.page, mode)) return;
            if (op.what == 'r' && !y.v[0].value[op.page]) y.read[op.page] = (u8)(s.current[op.page] + 1);
            if (op.what == 'w') y.items |= bit(item_of(op.page));
            y.pc++;
        });
    }
    void commit(State &s, int c)
    {
        Client &x = s.c[c];
        if (!x.items) {                 /* nothing to write: it is over */
            if (!x.seen) check_reads(s, c);
            ends(s, c, DONE);
        } else {
            go_to(s, c, next_manager(x, LAYERS));
        }
    }
    static void ends(State &s, int c, enum told told)
    {
        Client &x = s.c[c];
        u8 items = x.items, had = x.told;
        memset(&x, 0, sizeof x);
        for (auto &v : x.v) v.want = NOTHING;
        x.items = items;
        x.phase = OVER;
        x.told = had ? had : (u8)told;
    }
    /* The highest manager below `k` one of whose pages the group wrote; 0: the store. */
    static int next_manager(const Client &x, int k)
    {
        while (--k > 0)
            if (written(x, 2 * k) || written(x, 2 * k + 1)) return k;
        return 0;
    }
    void go_to(State &s, int c, int k)
    {
        Client &x = s.c[c];
        x.phase = k ? ASKED : STORE;
        x.at = (u8)k;
        x.pos = x.again = 0;
        x.arrival = 1;
        for (int d = 0; d < CLIENTS; d++) {
            const Client &y = s.c[d];
            if (d != c && y.phase == x.phase && y.at == k && y.arrival >= x.arrival)
                x.arrival = (u8)(y.arrival + 1);
        }
        if (k) find_deadlock(s, c);
    }
    /* What page p held at publication `at`: kept for c, or current, or from the layer below. */
    int value_at(const State &s, int c, int p, int at) const
    {
        int k = layer_of(p);
        if (s.c[c].kept[p]) return s.c[c].kept[p] - 1;
        if (s.resident[p] && s.since[p] <= at) return s.current[p];
        if (!k || !s.alive[k]) return -1;
        if (on(SNAPSHOT_OTHER)) return s.resident[p - 2] ? s.current[p - 2] : -1;
        return value_at(s, c, p - 2, at);
    }
    void snapshot_read(int c, int p)
    {
        int at = now->c[c].seen - 1, value = value_at(*now, c, p, at);
        if (value < 0) return;
        step(name(c), "reads in its snapshot", [&](State &s) {
            if (value != s.history[at][item_of(p)]) wrong("a snapshot sees what is not of its time");
            s.c[c].read[p] = (u8)(value + 1);
            s.c[c].pc++;
        });
    }

    /* ---- a manager ---- */
    int work_of(const Client &x, Op list[WORK_OPS]) const
    {
        int k = x.at, n = 0;
        if (k == 1 && sc->work == READS_Q) list[n++] = {'r', Q};
        if (k == 1 && sc->work == WRITES_Q) list[n++] = {'w', Q};
        if (k == 1 && sc->work == NAMES) list[n++] = {'n', Q};
        for (int i = 0; i < 2; i++) {
            if (!written(x, 2 * k + i)) continue;
            list[n++] = {'w', (u8)(2 * (k - 1) + i)};
            if (sc->work == PACKED || sc->work == NAMES) list[n++] = {'r', (u8)(2 * (k - 1) + 1 - i)};
        }
        return n;
    }
    void receive(int c)
    {
        int k = now->c[c].at, busy = 0;
        for (int d = 0; d < CLIENTS; d++) {
            busy += d != c && has_thread(now->c[d], k);
            if (d != c && before_in_port(*now, d, c)) return;
        }
        if (!now->alive[k] || busy >= sc->threads) return;
        step(manager(k), "receives a commit", [&](State &s) {
            s.c[c].phase = WORK;
            s.c[c].arrival = 0;
            begin_helper(s.c[c]);
        });
    }
    void work(int c)
    {
        const Client &x = now->c[c];
        int k = x.at;
        Op list[WORK_OPS];
        if (x.pos == work_of(x, list))
            return step(manager(k), "passes on", [&](State &s) { pass(s, c); });
        Op op = list[x.pos];
        if (op.what == 'n')
            return step(manager(k), "sets a name in its batch", [&](State &s) {
                s.c[c].pos++;
                s.c[c].batch++;
                s.c[c].items |= bit(NAME);
            });
        int mode = op.what == 'w' ? COPY : SHARED;
        Blockers b = blockers(*now, c, k, op.page, mode);
        if (!now->resident[op.page]) return;
        if (x.v[k].want != NOTHING && (b.any || (b.own && on(SELF_WAIT)))) return;
        step(manager(k), op.what == 'w' ? "writes below" : "reads below", [&](State &s) {
            if (!touch(s, c, k, op.page, mode)) return;
            s.c[c].pos++;
            if (op.what == 'w') s.c[c].items |= bit(item_of(op.page));
        });
    }
    void pass(State &s, int c)
    {
        Client &x = s.c[c];
        int k = x.at;
        x.v[k].state = FROZEN;
        if (on(UNLOCK_AT_PASS)) memset(x.v[k].right, 0, PAGES);
        if (on(OWN_COMMIT) && k == 1) log_part(s, c, helpers_items(x));
        if (on(BATCH_OWN) && x.batch) log_part(s, c, bit(NAME));
        if (on(ANSWER_AT_PASS)) x.told = DONE;
        go_to(s, c, next_manager(x, k));
    }

    /* ---- the store ---- */
    static u8 items_below(const View &v)
    {
        u8 items = 0;
        for (int p : {(int)S0, (int)S1, (int)Q})
            if (v.value[p]) items |= bit(item_of(p));
        return items;
    }
    static u8 helpers_items(const Client &x)
    {
        u8 batch = x.batch && !on(BATCH_LOST) ? bit(NAME) : (u8)0;
        return items_below(x.v[1]) | items_below(x.v[2]) | batch;
    }
    void log_part(State &s, int c, u8 items)
    {
        if (s.entries == ENTRIES) return wrong("the model's log is too short");
        s.log[s.entries++] = {(u8)c, items, (u8)(s.groups + 1)};
        s.groups++;
    }
    static void put_in_order(State &s, int c)
    {
        for (int i = 0; i < s.ordered; i++)
            if (s.order[i] == c) return;
        s.order[s.ordered++] = (u8)c;
    }
    /* The first `count` of those that wait, in order of arrival, become one log group. */
    void log_groups()
    {
        int waits = 0;
        for (auto &x : now->c) waits += x.phase == STORE;
        for (int count = 1; count <= waits; count++)
            step("the store", "writes a log group", [&](State &s) { log_group(s, count); });
    }
    void log_group(State &s, int count)
    {
        u8 first = s.entries;
        for (; count; count--) {
            int c = -1;
            for (int d = 0; d < CLIENTS; d++)
                if (s.c[d].phase == STORE && (c < 0 || s.c[d].arrival < s.c[c].arrival)) c = d;
            Client &x = s.c[c];
            bool lazy = sc->program[c].kind == LAZY;
            if (x.batch > 1) return wrong("a batch has what an undone run of its helper said");
            if (lazy && on(LAZY_BEHIND)) {
                put_in_order(s, c);
                publish(s, c, -1);
                ends(s, c, DONE);
                continue;               /* cut() and flush() find it in the order, not in the log */
            }
            if (on(GROUP_SPLIT) && helpers_items(x)) log_part(s, c, helpers_items(x));
            u8 helpers = on(GROUP_SPLIT) || (lazy && on(LAZY_PART)) ? (u8)0 : helpers_items(x);
            if (s.entries == ENTRIES) return wrong("the model's log is too short");
            s.log[s.entries++] = {(u8)c, (u8)(items_below(x.v[0]) | helpers), (u8)(s.groups + 1)};
            put_in_order(s, c);
            x.phase = LOGGED;
            x.arrival = s.ordered;
        }
        if (s.entries > first) s.groups++;
    }
    void flush()
    {
        if (now->flushed == now->groups) return;
        step("the store", "has flushed", [&](State &s) {
            s.flushed = s.groups;
            for (auto &x : s.c)
                if (x.phase == LOGGED) x.phase = DURABLE;
        });
    }
    void publications()
    {
        for (int c = 0; c < CLIENTS; c++) {
            const Client &x = now->c[c];
            bool lazy = sc->program[c].kind == LAZY && x.phase == LOGGED, turn = true;
            for (auto &y : now->c)
                if ((y.phase == LOGGED || y.phase == DURABLE) && y.arrival < x.arrival) turn = false;
            if ((x.phase != DURABLE && !lazy) || (!turn && !on(PUBLISH_ANY))) continue;
            step(name(c), "is published", [&](State &s) {
                Client &y = s.c[c];
                if (on(PUBLISH_TWICE) && !y.half) {
                    y.half = 1;
                    next_number(s, helpers_items(y), c);
                    return versions(s, c, 1);
                }
                publish(s, c, on(PUBLISH_TWICE) ? 0 : -1);
                y.phase = PUBLISHED;
            });
        }
    }
    static void next_number(State &s, u8 items, int c)
    {
        if (s.number + 1 < HISTORY) s.number++;
        memcpy(s.history[s.number], s.history[s.number - 1], ITEMS);
        for (int i = 0; i < ITEMS; i++)
            if (items >> i & 1) s.history[s.number][i] = (u8)(c + 1);
    }
    void publish(State &s, int c, int only)
    {
        check_reads(s, c);
        next_number(s, s.c[c].items, c);
        versions(s, c, only);
    }
    /* Copies become current; `only`: -1: of all views, 0: of the transaction, 1: of helpers. */
    void versions(State &s, int c, int only)
    {
        Client &x = s.c[c];
        for (int k = 0; k < LAYERS; k++)
            for (int p = 0; p < PAGES; p++) {
                bool swept = layer_of(p) && !x.v[k].right[p];
                if (!x.v[k].value[p] || swept || (only >= 0 && only != (k > 0))) continue;
                for (auto &y : s.c)     /* the old version is kept for who needs it */
                    if (y.seen && s.resident[p] && s.since[p] < y.seen && !y.kept[p])
                        y.kept[p] = (u8)(s.current[p] + 1);
                s.current[p] = x.v[k].value[p];
                s.since[p] = s.number;
                if (layer_of(p)) s.outdated[p] = 1;
            }
    }
    void refusal(int c)
    {
        step("the store", "refuses", [&](State &s) {
            s.refusals--;
            if (on(REFUSE_PART)) {
                log_part(s, c, helpers_items(s.c[c]));
                versions(s, c, 1);
            }
            undo(s, c, false, false);
        });
    }

    /* ---- eviction and supply ---- */
    void read_to_supply(int p)
    {
        if (now->supply[p] || !now->resident[p - 2]) return;
        step(manager(layer_of(p)), "reads a page in a snapshot", [&](State &s) {
            s.supply[p] = 1;
            s.supplied[p] = s.current[p - 2];
            s.outdated[p] = 0;
        });
    }
    void supplies()
    {
        for (int p = A0; p < 2 * (sc->top + 1); p++) {
            if (p == sc->missing || !now->alive[layer_of(p)]) continue;
            if (!now->resident[p]) read_to_supply(p);
            if (!now->supply[p]) continue;
            step(manager(layer_of(p)), "supplies it", [&](State &s) {
                if (!s.resident[p] && (!s.outdated[p] || on(SUPPLY_LATE))) {
                    s.resident[p] = 1;
                    s.current[p] = s.supplied[p];
                    s.since[p] = s.number;
                }
                s.supply[p] = s.supplied[p] = s.outdated[p] = 0;
            });
        }
    }
    void evictor()
    {
        for (int p = A0; p < 2 * (sc->top + 1); p++) {
            bool copied = false;
            for (auto &x : now->c)
                for (auto &v : x.v) copied |= v.right[p] == COPY;
            if (!now->resident[p]) continue;
            if (!copied)
                step("the evictor", "takes a page", [&](State &s) {
                    s.evictions--;
                    s.resident[p] = 0;
                });
            if (sc->evictions > 1) read_to_supply(p);   /* supplied unasked */
        }
    }

    /* ---- deaths ---- */
    /* Manager k dies; those above stand on it and die, too. */
    void dies(State &s, int k)
    {
        for (int j = k; j <= sc->top; j++) {
            s.alive[j] = 0;
            for (int p : {2 * j, 2 * j + 1})
                s.resident[p] = s.supply[p] = s.supplied[p] = s.outdated[p] = s.since[p] = 0;
        }
        for (int c = 0; c < CLIENTS; c++) client_of_dead(s, c, k);
    }
    static bool upper(int p, int k) { return p != Q && layer_of(p) >= k; }
    void client_of_dead(State &s, int c, int k)
    {
        Client &x = s.c[c];
        bool used = false, passed = false;
        if (x.phase == OVER) return;
        for (int j = 0; j < LAYERS; j++) {
            passed |= j >= k && x.v[j].state == FROZEN;
            for (int p = 0; p < PAGES; p++)
                used |= upper(p, k) && (x.v[j].right[p] || x.v[j].want == p);
        }
        for (int p = 0; p < PAGES; p++)
            if (upper(p, k)) x.kept[p] = 0;
        if (x.phase == RUN) {
            if (used) undo(s, c, true, false);
            return;
        }
        bool at_it = (x.phase == ASKED || x.phase == WORK) && x.at >= k;
        bool taken = x.phase >= LOGGED; /* the store has received it */
        if (at_it && on(DEATH_SKIPS)) {
            clear(x.v[x.at]);
            go_to(s, c, next_manager(x, k));
        } else if (at_it || (!taken && ((passed && !on(DEATH_GOES_ON)) ||
                                        (used && !passed && !on(SWEPT_READER))))) {
            return undo(s, c, false, false);
        }
        if (passed && on(DEATH_UNDOES) && x.phase < PUBLISHED) {
            x.told = UNDONE;
            if (x.phase == DURABLE) wrong("told undone, but it is durable");
        }
        for (auto &v : x.v)
            for (int p = 0; p < PAGES; p++)
                if (upper(p, k)) v.right[p] = NO_RIGHT;
        x.orphan |= passed;
    }
    void successor(int k)
    {
        bool orphans = false;
        for (auto &x : now->c) orphans |= x.orphan;
        if (!now->alive[k] && now->alive[k - 1] && (!orphans || on(HEIR_EARLY)))
            step(manager(k), "starts again", [&](State &s) { s.alive[k] = 1; });
    }
    /* What recovery finds if the first `groups` log groups reached the disk. */
    void recovered(const State &s, int groups, u8 items[ITEMS], u8 *clients) const
    {
        memcpy(items, s.disk, ITEMS);
        *clients = 0;
        for (int i = 0; i < s.entries; i++)
            for (int n = 0; n < ITEMS && s.log[i].group <= groups; n++)
                if (s.log[i].items >> n & 1) {
                    items[n] = (u8)(s.log[i].client + 1);
                    *clients |= bit(s.log[i].client);
                }
    }
    /* A whole number of transactions, in order; with all strict ones that were answered. */
    void check_disk(const State &s, int groups)
    {
        u8 found[ITEMS], want[ITEMS], clients;
        int least = 0;
        recovered(s, groups, found, &clients);
        memcpy(want, s.disk, ITEMS);
        for (int i = 0; i < s.ordered; i++)
            if (s.c[s.order[i]].told == DONE && sc->program[s.order[i]].kind != LAZY) least = i + 1;
        bool same = !least && !memcmp(found, want, ITEMS);
        for (int i = 0; i < s.ordered; i++) {
            for (int n = 0; n < ITEMS; n++)
                if (s.c[s.order[i]].items >> n & 1) want[n] = (u8)(s.order[i] + 1);
            same |= i + 1 >= least && !memcmp(found, want, ITEMS);
        }
        if (!same) wrong("the disk holds a part of a transaction, or one without an earlier one");
        for (int c = 0; c < CLIENTS; c++)
            if (clients >> c & 1 && s.c[c].told == UNDONE) wrong("undone, but it is on the disk");
            else if (s.c[c].told == DONE && s.c[c].items && sc->program[c].kind == STRICT &&
                     !in_order(s, c)) wrong("acknowledged, and nowhere in the log");
    }
    static bool in_order(const State &s, int c)
    {
        for (int i = 0; i < s.ordered; i++)
            if (s.order[i] == c) return true;
        return false;
    }
    void cut()
    {
        for (int groups = now->flushed; groups <= now->groups; groups++) {
            step("", "THE POWER IS CUT", [&](State &s) { check_disk(s, groups); s.off = 1; });
            step("the store", "DIES, and another recovers", [&](State &s) { restart(s, groups); });
        }
    }
    void restart(State &s, int groups)
    {
        u8 items[ITEMS], clients;
        check_disk(s, groups);
        s.cuts--;
        recovered(s, groups, items, &clients);
        for (int c = 0; c < CLIENTS; c++) {
            Client &x = s.c[c];
            bool lost = x.phase == OVER && !(clients >> c & 1); /* a lazy one; it is over all the same */
            if (x.phase >= STORE && x.phase < OVER) ends(s, c, UNKNOWN);
            else if (x.phase < STORE) undo(s, c, x.phase == RUN, false);
            if (lost) x.items = 0;
        }
        memcpy(s.disk, items, ITEMS);
        memset(s.log, 0, sizeof s.log);
        memset(s.order, 0, sizeof s.order);
        s.entries = s.groups = s.flushed = s.ordered = 0;
        next_number(s, 0, 0);
        memcpy(s.history[s.number], items, ITEMS);
        for (int p : {(int)S0, (int)S1, (int)Q}) s.current[p] = items[item_of(p)], s.since[p] = s.number;
        for (auto &x : s.c)             /* what was answered stays on the disk from now on */
            if (x.told == DONE) x.items = 0;
        if (!on(UPPER_SURVIVES)) dies(s, 1);
    }

    /* ---- all steps ---- */
    static State start_of(const Scenario &sc)
    {
        State s;
        memset(&s, 0, sizeof s);
        for (int p = 0; p < PAGES; p++)
            s.resident[p] = layer_of(p) <= sc.top && (!sc.missing || p != sc.missing);
        for (int k = 0; k <= sc.top; k++) s.alive[k] = 1;
        for (int c = 0; c < CLIENTS; c++) {
            for (auto &v : s.c[c].v) v.want = NOTHING;
            if (!sc.program[c].op[0].what) s.c[c].phase = OVER;
        }
        s.cuts = sc.cuts;
        s.deaths = sc.deaths;
        s.refusals = sc.refusals;
        s.kills = sc.kills;
        s.evictions = sc.evictions;
        return s;
    }

    void successors(const State &s, bool want_names, std::vector<Successor<State>> &result)
    {
        now = &s;
        out = &result;
        names = want_names;
        bool over = true;
        for (auto &x : s.c) over &= x.phase == OVER;
        if (s.off) return;
        goes_on();
        if (!over && result.empty()) {
            wrong("nobody can go on");
            in_state = true;
        }
        hazards();
    }
    void goes_on()
    {
        for (int c = 0; c < CLIENTS; c++)
            switch (now->c[c].phase) {
            case RUN: run(c); break;
            case ASKED: receive(c); break;
            case WORK: work(c); break;
            case PUBLISHED:
                step(name(c), "is answered", [&](State &s) { ends(s, c, DONE); });
            }
        log_groups();
        flush();
        publications();
        supplies();
        for (int k = 1; k <= sc->top; k++) successor(k);
    }
    void hazards()
    {
        for (int c = 0; c < CLIENTS; c++) {
            u8 phase = now->c[c].phase;
            if (phase == STORE && now->refusals) refusal(c);
            if (phase == WORK && now->refusals)
                step(manager(now->c[c].at), "refuses", [&](State &s) {
                    s.refusals--;
                    undo(s, c, false, false);
                });
            if (phase >= ASKED && phase <= STORE && now->kills) taken_back(c);
        }
        if (now->evictions) evictor();
        for (int k = 1; k <= sc->top && now->deaths; k++)
            if (now->alive[k])
                step(manager(k), "DIES", [&](State &s) {
                    s.deaths--;
                    dies(s, k);
                });
        if (now->cuts) cut();
    }
    /* Its program is killed, or its time is up, before the store has the group. */
    void taken_back(int c)
    {
        const Client &x = now->c[c];
        Op list[WORK_OPS];
        bool passing = x.phase == WORK && x.pos == work_of(x, list);
        if (!passing || !on(PASS_UNCLAIMED))
            return step(name(c), "is taken back", [&](State &s) { s.kills--; undo(s, c, false, false); });
        step(name(c), "is taken back while its manager passes it on", [&](State &s) {
            s.kills--;
            pass(s, c);
            s.c[c].told = UNDONE;
            clear(s.c[c].v[0]);
        });
    }
};

#include "stack_scenarios.h"

int main(int argc, char **argv)
{
    return commands<Model>("model-stack", scenarios, argc, argv);
}
