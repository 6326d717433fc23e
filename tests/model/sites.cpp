/*
 * sites.cpp - a model of containers of another machine: pages that sites cache and homes call
 * back, sessions and leases, commits at one home and at several, snapshots, deadlocks (sites.md,
 * where the rules' labels are). spare.cpp is the model of the hot spare.
 *
 *     model-sites check           every scenario, completely
 *     model-sites teeth [RULE]    each rule switched, alone: some scenario must fail
 *     model-sites trace RULE      a shortest counterexample, step by step
 *
 * One step is what a site does with one message, or one step of a thread. Links keep order; between
 * two steps any other site may act, links may break and sites crash.
 */
#include "site_snapshot.h"

struct Model : Snapshots {
    /* ---- messages ---- */
    void deliver(int i, int j)
    {
        int at = first_of(*now, i, j);
        if (at < 0 || !now->site[j].up) return;
        Msg m = now->m[at];
        bool for_home = m.kind <= GET_OLD;
        if (for_home && !serves(*now, j, i)) return;    /* the last session's end comes first */
        if (m.kind == QUERY && must_wait(*now, j, m)) return;
        bool of_txn = m.kind == COMMIT || m.kind == PREPARE || m.kind == DECIDE ||
                      m.kind == QUERY || m.kind == ASK || m.kind == TOLD ||
                      (m.kind >= DONE && m.kind <= OUTCOME) || m.kind == APPLIED;
        std::string what = std::string(" receives ") + kind_name[m.kind] + " from S";
        step(true, text("S", j, what.c_str(), i, of_txn ? " of " : " page ",
                        of_txn ? m.txn : m.page), [&](State &s) {
            take(s, at);
            if (for_home) at_home(s, j, i, m);
            else if (m.kind == ASK) asked(s, j, i, m);
            else if (m.kind == TOLD) resolve(s, j, m.txn, m.serial, m.value);
            else if (connected(s, j, i)) at_client(s, j, i, m);
        });
    }
    void asked(State &s, int h, int from, const Msg &m)
    {
        if (must_wait(s, h, m)) return;             /* no answer: it is asked again */
        push(s, h, from, {0, TOLD, 0, m.txn, m.serial, outcome(s, h, m.txn, m.serial)});
    }
    void at_home(State &s, int h, int i, const Msg &m)
    {
        Page &g = s.page[m.page];
        switch (m.kind) {
        case GET: return queue_join(s, i, m.page, m.value, m.txn, m.extra);
        case CANCEL: return cancel(s, h, i, m.page);
        case GONE:
            if (m.serial != g.serial[i] && !on(GONE_ANY)) return;
            g.right[i] = std::min(g.right[i], m.value);
            g.called[i] = 0;
            return;
        case COMMIT: return commit_asked(s, h, i, m);
        case PREPARE: return prepare_asked(s, h, i, m);
        case DECIDE:
            resolve(s, h, m.txn, m.serial, m.value);
            if (on(DONE_APPLIED) && m.value) to_client(s, h, i, {0, APPLIED, 0, m.txn, m.serial});
            return;
        case QUERY:
            return to_client(s, h, i, {0, OUTCOME, 0, m.txn, m.serial,
                                       outcome(s, h, m.txn, m.serial)});
        case SNAP: return snap_asked(s, h, m);
        case STILL: return still_asked(s, h, i, m);
        case SNAP_END: s.site[h].held &= (u8)~bit(m.txn); return;
        case GET_OLD:
            return to_client(s, h, i, {0, OLD, m.page, m.txn, m.serial,
                                       (u8)version_at(s, m.page, m.value)});
        }
    }
    /* Whether m answers what its thread has open. */
    bool is_open(const State &s, int t, const Msg &m) const
    {
        const Thread &th = s.thread[t];
        if (m.kind == SNAPPED || m.kind == STOOD || m.kind == OLD)
            return (th.pc == (m.kind == OLD       ? FETCHING
                              : m.kind == SNAPPED ? SNAPPING
                                                  : STANDING) ||
                    (on(STILL_EARLY) && m.kind == STOOD && th.pc == SNAPPING)) &&
                   (on(SNAP_ANY) || th.attempt == m.serial);
        return m.txn && th.pc != END && txn_of(s, t) == m.txn && th.attempt == m.serial;
    }
    void at_client(State &s, int i, int h, const Msg &m)
    {
        Cache &c = s.cache[i][m.page];
        bool of_snapshot = m.kind == SNAPPED || m.kind == STOOD || m.kind == OLD;
        int t = of_snapshot ? m.txn : body[m.txn].owner;
        Thread &th = s.thread[t];
        if (m.kind == GRANT) return granted(s, i, m);
        if (m.kind == DENIED) {
            c.asked = c.asker = 0;
            return;
        }
        if (m.kind == CALL) return called(s, i, h, m);
        if (!is_open(s, t, m)) return;
        switch (m.kind) {
        case VOTED: return vote_came(s, t, h, m);
        case DONE:
            if (th.pc == COMMITTING) answer_came(s, t, true);
            return;
        case REFUSED:
            if (th.pc == COMMITTING) answer_came(s, t, false, m.value);
            return;
        case OUTCOME:
            if (th.pc == ASKING) answer_came(s, t, m.value);
            return;
        case APPLIED:
            if (th.pc != APPLYING) return;
            th.voted |= bit(h);
            if (th.voted == written(m.txn)) told(s, t);
            return;
        case SNAPPED: return snapped(s, t, h, m);
        case STOOD: return stood(s, t, h, m);
        case OLD:
            th.seen[m.page] = (u8)(m.value + 1);
            th.pc = RUN;
            return;
        }
    }
    void called(State &s, int i, int h, const Msg &m)
    {
        Cache &c = s.cache[i][m.page];
        if (!c.right || c.serial != m.serial) {
            to_home(s, i, h, {0, GONE, m.page, 0, m.serial, NO});
            return;
        }
        c.recall = (u8)(m.value + 1);
        if (on(ANSWER_ACTIVE) || !used_at(s, i, m.page, c.recall))
            drop(s, i, m.page, m.value, m.serial);
    }

    /* ---- losses ---- */
    /* Site i notices that its session with home h has ended. */
    void client_lost(State &s, int i, int h)
    {
        s.site[i].client[h] = s.generation[i][h];
        for (int p = 0; p < pages; p++) {
            if (home(p) != h) continue;
            s.cache[i][p].asked = s.cache[i][p].asker = 0;
            if (!on(KEEP_AT_LOSS)) s.cache[i][p] = Cache{};
        }
        for (int t = 0; t < threads; t++)
            if (where(t) == i && runs(s.thread[t])) thread_lost(s, t, h);
    }
    void thread_lost(State &s, int t, int h)
    {
        Thread &th = s.thread[t];
        int x = txn_of(s, t);
        bool touched = false, decides = body[x].writes && coordinator(x) == h;
        for (int p = 0; p < pages; p++) touched |= th.used[p] && home(p) == h;
        if (body[x].snapshot) {
            if (!has(homes_asked(s, t), h)) return;
            th.round = 0;
            th.pc = NEXT;
            return;
        }
        switch (th.pc) {
        case RUN:
            if (touched && !on(WORK_ON)) undo(s, t);
            else th.asks = 0;
            return;
        case VOTING:
            if (decides || has(participants(x) & ~th.voted, h)) undo(s, t);
            return;
        case ASKING:
            if (decides) th.sent = 0;
            return;
        case APPLYING:
            th.snap[h] = 1;
            return;
        case COMMITTING:
            if (decides) behind_commit(s, t, h);
            return;
        }
    }
    void behind_commit(State &s, int t, int h)
    {
        Thread &th = s.thread[t];
        int x = txn_of(s, t);
        if (on(UNDONE_AT_LOSS)) {
            s.txn[x].undone = 1;
            if (has(s.committed, x)) wrong("(3) what was reported as undone is committed");
            memset(th.used, 0, PAGES);
            give_up_owed(s, where(t));
            next(s, t);
        } else if (on(AGAIN_AT_LOSS)) {
            answer_came(s, t, false);
        } else if (on(OLD_COMMIT)) {
            to_home(s, where(t), h, {0, COMMIT, 0, (u8)x, th.attempt, 0, 1});
        } else {
            th.pc = ASKING;
            th.sent = 0;
        }
    }
    /* What was lazy at home h and never flushed is gone, and what has read it was for nothing. */
    void lose_lazy(State &s, int h)
    {
        Site &g = s.site[h];
        for (int x = 1; x <= total(); x++) {
            if (!has(g.lazy, x)) continue;
            for (int j = 0; j < sites; j++)
                if (j != h && has(s.site[j].done, x)) wrong("(3) a decision is lost");
            s.committed &= (u8)~bit(x);
            g.done &= (u8)~bit(x);
            g.at[x] = 0;
            s.txn[x].lost = 1;
            for (int y = 1; y <= total(); y++)
                for (int p = 0; y != x && p < pages; p++) {
                    if (!has(s.txn[y].reads[p], x)) continue;
                    s.txn[y].lost = 1;
                    if (has(s.committed, y) && !is_still_lazy(s, y))
                        wrong("(2) a durable commit has read what is lost");
                }
        }
        for (int p = 0; p < pages; p++) {
            Page &q = s.page[p];
            while (home(p) == h && has(g.lazy, q.version[q.versions - 1]))
                q.version[--q.versions] = 0;
            if (home(p) == h) q.content = q.version[q.versions - 1];
        }
        g.lazy = 0;
    }
    bool is_still_lazy(const State &s, int x) const
    {
        for (int h = 0; h < sites; h++)
            if (has(s.site[h].lazy, x)) return true;
        return false;
    }
    void crash(State &s, int i)
    {
        Site &g = s.site[i];
        g.up = 0;
        lose_lazy(s, i);
        for (int j = 0; j < sites; j++)
            if (j != i) lose(s, i, j);
        for (int p = 0; p < pages; p++) {
            s.cache[i][p] = Cache{};
            if (home(p) != i) continue;
            Page &q = s.page[p];
            memset(q.right, 0, SITES);
            memset(q.called, 0, SITES);
            memset(q.queue, 0, sizeof q.queue);
            q.waiting = 0;
        }
        for (int k = s.pooled; k-- > 0;)
            if (home(s.pool[k].page) == i) unpool(s, k);
        memset(g.tomb, 0, TXNS);
        memset(g.open, 0, THREADS);
        g.unlogged = g.unanswered = g.came = g.logging = g.held = g.lock = g.drained = 0;
        for (int x = 1; x <= total() && on(DECISION_LOST); x++)
            if (coordinator(x) == i) g.done &= (u8)~bit(x);
        for (int t = 0; t < threads; t++) {
            if (where(t) != i || !runs(s.thread[t])) continue;
            int x = txn_of(s, t);
            if (!has(s.committed, x)) memset(s.txn[x].reads, 0, PAGES);
            next(s, t);
        }
    }
    void starts(State &s, int i)
    {
        Site &g = s.site[i];
        g.up = 1;
        g.orphan = g.prepared;
        for (int j = 0; j < sites; j++) {
            if (j == i) continue;
            g.client[j] = s.generation[i][j];
            if (!on(NO_GRACE)) g.grace |= bit(j);
        }
    }
    void losses_of(int i)
    {
        const State &s0 = *now;
        if (!s0.site[i].up)
            return step(true, text("S", i, " starts"), [&](State &s) { starts(s, i); });
        for (int j = 0; j < sites; j++) {
            if (j == i) continue;
            bool noticed = connected(s0, j, i) || !s0.site[j].up;
            if (!connected(s0, i, j))
                step(true, text("S", i, " notices the loss of home S", j),
                     [&](State &s) { client_lost(s, i, j); });
            if (!serves(s0, i, j) && (noticed || on(FREE_AT_LOSS) || s0.skews))
                step(true, text("S", i, " ends the session of S", j), [&](State &s) {
                    if (!noticed && s.skews) s.skews--;
                    s.site[i].server[j] = s.generation[i][j];
                    s.site[i].grace &= (u8)~bit(j);
                    free_rights(s, i, j);
                });
            if (s0.breaks && j > i)
                step(false, text("link S", i, " - S", j, " is lost"), [&](State &s) {
                    s.breaks--;
                    lose(s, i, j);
                });
        }
        if (s0.crashes)
            step(false, text("S", i, " crashes"), [&](State &s) {
                s.crashes--;
                crash(s, i);
            });
        for (int p = 0; p < pages && s0.drops; p++) {
            const Cache &c = s0.cache[i][p];
            if (!c.right || home(p) == i || used_at(s0, i, p, SHARED)) continue;
            if (c.content != AWAY)
                step(false, text("S", i, " evicts page ", p), [&](State &s) {
                    s.drops--;
                    s.cache[i][p].content = AWAY;
                });
            if (!c.recall)
                step(false, text("S", i, " gives page ", p, " back"), [&](State &s) {
                    s.drops--;
                    drop(s, i, p, NO, c.serial);
                });
        }
    }

    /* ---- deadlocks: a true cycle stays until it is broken, so the search is one step ---- */
    bool in_the_way(const State &s, int u, int p, int want) const
    {
        return uses(s, u, p) && (want == EXCLUSIVE || s.thread[u].used[p] == EXCLUSIVE);
    }
    bool was_called(const State &s, int u, int p) const
    {
        return where(u) == home(p) || s.cache[where(u)][p].recall || on(PROBE_EARLY);
    }
    int drain_waits_for(const State &s, int t) const
    {
        int h = where(t), lock = s.site[h].lock, mask = 0;
        if (lock != t + 1) return lock && !on(NO_DRAIN_EDGE) ? bit(lock - 1) : 0;
        if (s.site[h].drained) return 0;
        for (int p = 0; p < pages; p++)
            for (int u = 0; home(p) == h && u < threads; u++)
                if (u != t && uses(s, u, p) && was_called(s, u, p)) mask |= bit(u);
        return mask;
    }
    int waits_for(const State &s, int t) const
    {
        char what;
        int p, i = where(t), mask = 0;
        if (s.thread[t].pc != RUN || body_of(s, t).snapshot || !op_of(s, t, what, p)) return 0;
        if (what == 'c') return drain_waits_for(s, t);
        if (may_use(s, t, p, what)) return 0;
        const Cache &c = s.cache[i][p];
        int h = home(p), lock = s.site[h].lock;
        if (i == h && lock && lock != t + 1 && !s.thread[t].used[p])
            return on(NO_DRAIN_EDGE) ? 0 : bit(lock - 1);
        for (int u = 0; u < threads; u++)
            if (u != t && where(u) == i && uses(s, u, p) &&
                (c.recall || in_the_way(s, u, p, mode(what)))) mask |= bit(u);
        if (mask || !c.asked || (h != i && (travels(s, i, h, CANCEL, p) || !connected(s, i, h))))
            return mask;
        return home_waits_for(s, i, p);
    }
    /* What the GET of site i for page p waits for at its home. */
    int home_waits_for(const State &s, int i, int p) const
    {
        const Page &g = s.page[p];
        int h = home(p), lock = s.site[h].lock, mask = 0;
        for (int k = 0; k < s.pooled && !on(NO_WORKER_EDGE); k++) {
            if (s.pool[k].site != i || s.pool[k].page != p) continue;
            for (int q = 0; q < pages; q++)
                for (int n = 0; home(q) == h && n < s.page[q].waiting; n++)
                    if (s.page[q].queue[n].site == i) mask |= asks_for(s, s.page[q].queue[n], q);
            return mask;
        }
        for (int k = 0; k < g.waiting; k++) {
            const Want &w = g.queue[k];
            if (w.site != i) {
                if (w.site == h || !travels(s, w.site, h, CANCEL, p)) mask |= asks_for(s, w, p);
                continue;
            }
            if (lock && !on(NO_DRAIN_EDGE)) mask |= bit(lock - 1);
            for (int u = 0; u < threads; u++)
                if (where(u) != i && conflicts(g, i, where(u), w.want) && was_called(s, u, p) &&
                    in_the_way(s, u, p, w.want)) mask |= bit(u);
            return mask;
        }
        return 0;
    }
    int asks_for(const State &s, const Want &w, int p) const
    {
        char what;
        int q;
        const Thread &th = s.thread[w.thread];
        return th.pc == RUN && !body_of(s, w.thread).snapshot && op_of(s, w.thread, what, q) &&
               what != 'c' && q == p ? bit(w.thread) : 0;
    }
    void search()
    {
        int edge[THREADS] = {}, victim = -1;
        if (on(NO_SEARCH)) return;
        for (int t = 0; t < threads; t++) edge[t] = waits_for(*now, t);
        for (int k = 0; k < threads; k++)
            for (int t = 0; t < threads; t++)
                if (has(edge[t], k)) edge[t] |= edge[k];
        for (int t = 0; t < threads; t++) {
            bool younger = victim < 0 || (txn_of(*now, t) > txn_of(*now, victim)) != on(OLD_VICTIM);
            if (has(edge[t], t) && younger) victim = t;
        }
        if (victim >= 0)
            step(true, text("T", victim, " is the victim of a deadlock"),
                 [&](State &s) { undo(s, victim, true); });
    }

    /* ---- what holds ---- */
    bool is_committed(const State &s, int x) const
    {
        return has(s.committed, x) || (s.txn[x].acked && !body[x].writes && !s.txn[x].lost);
    }
    int next_writer(const State &s, int p, int after) const
    {
        const Page &g = s.page[p];
        const u8 *end = g.version + g.versions, *at = std::find(g.version, end, after);
        if (at != end && at + 1 != end) return at[1];
        for (int x = 1; x <= total(); x++)
            if (x != after && has(s.committed, x) && has(body[x].writes, p) &&
                std::find(g.version, end, x) == end) return x;
        return 0;
    }
    /* A serial order that keeps what was over before another began. */
    void serialisable(const State &s) override
    {
        bool skewed = hazard('s');
        int nodes = 0;
        for (int x = 1; x <= total(); x++)
            if (is_committed(s, x) && !(skewed && !body[x].writes)) nodes |= bit(x);
        for (int extra = 0; extra <= total(); extra++) {
            if (extra && (skewed || has(nodes, extra) || body[extra].snapshot ||
                          s.txn[extra].lost)) continue;
            if (!is_acyclic(s, nodes | (extra ? bit(extra) : 0)))
                return wrong(extra ? "(4) a running transaction sees no serial order"
                                   : "(4) the committed history is not serialisable");
        }
    }
    bool is_acyclic(const State &s, int nodes) const
    {
        int edge[TXNS] = {};
        for (int x = 1; x <= total(); x++) {
            if (!has(nodes, x)) continue;
            for (int y = 1; y <= total(); y++)
                if (has(s.txn[x].before & nodes, y)) edge[y] |= bit(x);
            for (int p = 0; p < pages; p++)
                for (int y = 0; y <= total(); y++) {
                    if (!has(s.txn[x].reads[p], y)) continue;
                    int n = next_writer(s, p, y);
                    if (y && y != x) edge[y] |= bit(x);
                    if (n && n != x) edge[x] |= bit(n);
                    if (n && y) edge[y] |= bit(n);
                }
        }
        for (int k = 1; k <= total(); k++)
            for (int i = 1; i <= total(); i++)
                if (has(edge[i], k)) edge[i] |= edge[k];
        for (int i = 1; i <= total(); i++)
            if (has(edge[i], i)) return false;
        return true;
    }
    void at_rest(const State &s)
    {
        in_state = true;
        for (int t = 0; t < threads; t++)
            if (s.thread[t].pc != END) return wrong("(5) somebody waits for ever");
        for (auto &g : s.site)
            if (g.prepared) return wrong("(5) a prepared transaction is in doubt for ever");
        in_state = false;
    }

    /* ---- all steps ---- */
    void thread(int t)
    {
        const Thread &th = now->thread[t];
        int i = where(t), x, c, waiting = 0;
        if (th.pc == END || !now->site[i].up) return;
        x = txn_of(*now, t);
        c = coordinator(x);
        if (th.pc == NEXT)
            step(true, text("T", t, " begins"), [&](State &s) { begin(s, t); });
        if (th.pc == RUN && body[x].snapshot) return run_snapshot(t);
        if (can_act(*now, t))
            step(true, text("T", t, "'s snapshot begins"), [&](State &s) { act(s, t); });
        if (th.pc == RUN) run(t);
        if (th.pc == RUN && now->dooms)
            step(false, text("T", t, " is undone by itself"), [&](State &s) {
                s.dooms--;
                undo(s, t);
            });
        for (auto &g : now->site) waiting |= g.held;
        if (th.pc == BACKOFF && !waiting)
            step(true, text("T", t, " runs again"), [&](State &s) { s.thread[t].pc = RUN; });
        if (th.pc == ASKING && !th.sent && connected(*now, i, c))
            step(true, text("T", t, " asks what became of it"), [&](State &s) {
                s.thread[t].sent = 1;
                to_home(s, i, c, {0, QUERY, 0, (u8)x, s.thread[t].attempt});
            });
        bool over = th.pc == APPLYING;
        for (int h = 0; over && h < sites; h++) {
            const Site &g = now->site[h];
            if (has(written(x) & ~th.voted, h))
                over = th.snap[h] && (!g.up || !has(g.prepared, x) || has(g.orphan, x));
        }
        if (over) step(true, text("T", t, " waited for 2 L"), [&](State &s) { told(s, t); });
    }
    static State start_of(const Scenario &sc)
    {
        State s;
        Model m;
        m.sc = &sc;
        memset(&s, 0, sizeof s);
        for (auto &x : s.site) x.up = 1;
        for (auto &g : s.page) g.versions = 1;
        s.breaks = (u8)m.hazard('b');
        s.crashes = (u8)m.hazard('c');
        s.drops = (u8)m.hazard('d');
        s.dooms = (u8)m.hazard('u');
        s.earlies = (u8)m.hazard('e');
        s.skews = (u8)m.hazard('s');
        return s;
    }
    void successors(const State &s, bool want_names, std::vector<Successor<State>> &result)
    {
        prepare();
        now = &s;
        out = &result;
        names = want_names;
        progress = 0;
        in_state = false;
        for (int i = 0; i < sites; i++)
            for (int j = 0; j < sites; j++)
                if (i != j) deliver(i, j);
        for (int p = 0; p < pages; p++) serve(p);
        for (int h = 0; h < sites; h++) {
            if (!s.site[h].up) continue;
            drain(h);
            commits_go_on(h);
            snapshots_begin(h);
        }
        for (int t = 0; t < threads; t++) thread(t);
        search();
        for (int i = 0; i < sites; i++) losses_of(i);
        if (!progress && error.empty()) at_rest(s);
    }
};

#include "site_scenarios.h"

int main(int argc, char **argv) { return commands<Model>("model-sites", scenarios, argc, argv); }
