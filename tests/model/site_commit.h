/*
 * site_commit.h - transactions: sessions' part in them, commits at one home and at several
 * (sites.md, NC and NS).
 */
#pragma once
#include "site_pages.h"

struct Commits : Pages {
    /* ---- who takes part ---- */
    /* The home whose log decides: the client's own if it writes there, else the lowest. */
    int coordinator(int x) const
    {
        int h = homes_of(body[x].writes), own = site_of(x);
        if (has(h, own)) return own;
        for (int i = 0; i < sites; i++)
            if (has(h, i)) return i;
        return own;
    }
    int participants(int x) const
    {
        int h = homes_of(body[x].writes);
        if (!on(NO_VALIDATE)) h |= homes_of(body[x].reads);
        return h & ~bit(coordinator(x)) & ~bit(site_of(x));
    }
    int written(int x) const { return participants(x) & homes_of(body[x].writes); }
    bool is_lazy(int x) const
    {
        return body[x].lazy && (!written(x) || on(LAZY_PREPARED) || on(LAZY_DECIDED));
    }

    /* ---- a home's log ---- */
    /* publish: x becomes current at home h. It is in the log there, and durable if it is strict. */
    void publish(State &s, int h, int x)
    {
        Site &g = s.site[h];
        bool first_page = true;
        if (has(g.done, x)) wrong("(2) a transaction is logged twice");
        g.done |= bit(x);
        g.at[x] = ++g.event;
        for (int p = 0; p < pages; p++) {
            if (home(p) != h || !has(body[x].writes, p)) continue;
            if (on(HALF_COMMIT) && !first_page) continue;
            first_page = false;
            Page &q = s.page[p];
            q.content = (u8)x;
            q.version[q.versions++] = (u8)x;
            if (s.cache[h][p].right) s.cache[h][p].content = (u8)x;
        }
    }
    void decided(State &s, int h, int x, int attempt)
    {
        publish(s, h, x);
        s.committed |= bit(x);
        s.which[x] = (u8)attempt;
        if (s.txn[x].undone) wrong("(3) what was reported as undone is committed");
        for (int j = 0; j < sites; j++)
            if (has(s.site[j].undone[x], attempt)) wrong("(3) committed here, undone there");
    }
    /* flush: what h has in its log is durable; the point of commit of what waits for it. */
    void flush(State &s, int h)
    {
        Site &g = s.site[h];
        u8 now_durable = g.logging;
        g.logging = g.lazy = 0;
        for (int x = 1; x <= total() && error.empty(); x++) {
            if (!has(now_durable, x)) continue;
            decided(s, h, x, g.attempt[x]);
            if (site_of(x) == h) finished(s, body[x].owner, true);
            else g.unanswered |= bit(x);
        }
    }
    /* A lazy commit is current, and answered, before it is durable. */
    void commit_lazily(State &s, int h, int x, int attempt)
    {
        decided(s, h, x, attempt);
        s.site[h].lazy |= bit(x);
        if (site_of(x) == h) finished(s, body[x].owner, true);
        else s.site[h].unanswered |= bit(x);
    }
    void to_log(State &s, int h, int x, int attempt)
    {
        if (is_lazy(x)) return commit_lazily(s, h, x, attempt);
        s.site[h].attempt[x] = (u8)attempt;
        s.site[h].logging |= bit(x);
    }
    bool rights_stand(const State &s, int h, int i, int x, int attempt) const
    {
        if (has(s.site[h].tomb[x], attempt)) return false;
        for (int p = 0; p < pages; p++) {
            if (home(p) != h) continue;
            int right = s.page[p].right[i];
            if (has(body[x].writes, p) ? right != EXCLUSIVE : has(body[x].reads, p) && !right)
                return false;
        }
        return true;
    }
    /* What home h, which prepared x, is told. */
    void resolve(State &s, int h, int x, int attempt, bool commit)
    {
        Site &g = s.site[h];
        if (!has(g.prepared | g.unlogged, x) || g.attempt[x] != attempt) return;
        bool is_so = has(s.committed, x) && s.which[x] == attempt;
        g.prepared &= (u8)~bit(x);
        g.unlogged &= (u8)~bit(x);
        g.orphan &= (u8)~bit(x);
        if (commit) {
            if (!is_so) wrong("(3) a participant commits what is not decided");
            publish(s, h, x);
        } else {
            if (is_so) wrong("(3) a participant undoes what is committed");
            g.undone[x] |= bit(attempt);
        }
    }
    /* The session of site i at home h has ended. */
    void free_rights(State &s, int h, int i)
    {
        Site &g = s.site[h];
        for (int k = s.pooled; k-- > 0;)
            if (s.pool[k].site == i && home(s.pool[k].page) == h) unpool(s, k);
        for (int p = 0; p < pages; p++) {
            Page &q = s.page[p];
            if (home(p) != h) continue;
            q.right[i] = q.called[i] = 0;
            q.serial[i]++;
            for (int k = q.waiting; k-- > 0;)
                if (q.queue[k].site == i) unqueue(q, k);
        }
        for (int x = 1; x <= total(); x++) {
            if (site_of(x) != i) continue;
            g.came &= (u8)~bit(x);
            if (!has(g.prepared, x)) continue;
            g.orphan |= bit(x);
            if (on(PREPARED_FREED)) g.prepared &= (u8)~bit(x);
        }
        for (int t = 0; t < threads; t++) {
            if (where(t) != i) continue;
            g.open[t] = 0;
            g.held &= (u8)~bit(t);
        }
    }

    /* ---- a transaction at its client ---- */
    virtual void ask_homes(State &s, int t) = 0;
    void begin(State &s, int t)
    {
        Thread &th = s.thread[t];
        int x = txn_of(s, t);
        th.op = th.voted = th.sent = th.asks = 0;
        memset(th.used, 0, sizeof th.used);
        memset(th.seen, 0, sizeof th.seen);
        memset(th.snap, 0, sizeof th.snap);
        memset(s.txn[x].reads, 0, PAGES);
        s.txn[x].before = s.txn[x].lost = 0;
        for (int y = 1; y <= total(); y++)
            if (s.txn[y].acked && !s.txn[y].lost) s.txn[x].before |= bit(y);
        th.pc = body[x].snapshot ? SNAPPING : RUN;
        if (th.pc == SNAPPING) ask_homes(s, t);
    }
    void next(State &s, int t)
    {
        Thread &th = s.thread[t];
        Site &g = s.site[where(t)];
        u8 number = (u8)(th.number + 1);
        th = Thread{};
        th.number = number;
        th.pc = first[t] + number < first[t + 1] ? NEXT : END;
        if (g.lock == t + 1) g.lock = g.drained = 0;
    }
    /* undo: t's transaction is undone, and begins again; at once, or when nobody holds. */
    void undo(State &s, int t, bool deadlock = false, bool later = false)
    {
        Thread &th = s.thread[t];
        int i = where(t);
        for (int p = 0; p < pages; p++) {
            Cache &c = s.cache[i][p];
            if (!c.asked || c.asker != t + 1) continue;
            if (deadlock && c.asked == EXCLUSIVE) th.wantx |= bit(p);
            if (home(p) == i) cancel(s, i, i, p);
            else to_home(s, i, home(p), {0, CANCEL, (u8)p, (u8)t});
        }
        if (th.pc == VOTING) tell(s, t, false);
        if (th.sure && !on(SAME_ID) && ++th.attempt == 8)
            wrong("(5) a commit is refused again and again");
        th.sure = 0;
        if (deadlock && ++th.aborts > (sc->bound ? sc->bound : 4))
            wrong("(5) a transaction is undone again and again");
        memset(th.used, 0, sizeof th.used);
        if (s.site[i].lock == t + 1) s.site[i].lock = s.site[i].drained = 0;
        th.pc = RUN;
        give_up_owed(s, i);
        begin(s, t);
        if (later) th.pc = BACKOFF;
    }
    void tell(State &s, int t, bool commit)
    {
        int x = txn_of(s, t);
        for (int h = 0; h < sites; h++)
            if (has(written(x), h))
                to_home(s, where(t), h,
                        {0, DECIDE, 0, (u8)x, s.thread[t].attempt, (u8)commit});
    }
    /* finished: committed; current here, told to the program and to the participants. */
    void finished(State &s, int t, bool tells)
    {
        if (tells) tell(s, t, true);
        if (on(DONE_APPLIED) && tells && written(txn_of(s, t))) {
            s.thread[t].pc = APPLYING;
            s.thread[t].voted = 0;
            return;
        }
        told(s, t);
    }
    void told(State &s, int t)
    {
        int x = txn_of(s, t), i = where(t);
        for (int p = 0; p < pages; p++)
            if (has(body[x].writes, p) && s.cache[i][p].right == EXCLUSIVE && uses(s, t, p))
                s.cache[i][p].content = (u8)x;
        memset(s.thread[t].used, 0, PAGES);
        s.txn[x].acked = 1;
        if (body[x].writes && !has(s.committed, x) && !s.txn[x].lost)
            wrong("(2) acknowledged, but in no log");
        serialisable(s);
        give_up_owed(s, i);
        next(s, t);
    }
    void commit(State &s, int t)
    {
        int x = txn_of(s, t), who = participants(x);
        if (!body[x].writes) return finished(s, t, false);
        if (!who) return decide(s, t, x);
        s.thread[t].pc = VOTING;
        s.thread[t].sure = 1;
        for (int h = 0; h < sites; h++)
            if (has(who, h))
                to_home(s, where(t), h, {0, PREPARE, 0, (u8)x, s.thread[t].attempt});
    }
    /* decide: all have voted, or there is one home. */
    void decide(State &s, int t, int x)
    {
        Thread &th = s.thread[t];
        int c = coordinator(x), i = where(t);
        if (c != i && has(homes_of(body[x].reads), i) && !on(LAZY_LOCAL)) s.site[i].lazy = 0;
        if (c != i) {
            to_home(s, i, c, {0, COMMIT, 0, (u8)x, th.attempt});
        } else if (has(s.site[i].tomb[x], th.attempt)) {
            return undo(s, t);
        } else if (s.site[i].held && !on(HOLD_COMMITS) && written(x)) {
            return undo(s, t, false, true);
        } else {
            s.site[i].came |= bit(x);
            s.site[i].attempt[x] = th.attempt;
        }
        th.pc = COMMITTING;
        th.sure = 1;
        if (on(CLIENT_DECIDES)) tell(s, t, true);
    }
    int who_prepared(int x) const { return written(x); }
    void run(int t)
    {
        char what;
        int p;
        if (!op_of(*now, t, what, p))
            return step(true, text("T", t, " commits"), [&](State &s) { commit(s, t); });
        if (what == 'c') lock_container(t);
        else access(t, what, p);
    }

    /* ---- messages of commits ---- */
    /* What the coordinator's log says. What it does not know is undone from now on. */
    u8 outcome(State &s, int h, int x, int attempt)
    {
        bool done = has(s.site[h].done, x) && s.which[x] == attempt;
        if (!done && !on(UNDONE_FORGOT)) s.site[h].tomb[x] |= bit(attempt);
        return done;
    }
    /* A COMMIT has come and is not answered: nobody can say yet. */
    bool must_wait(const State &s, int h, const Msg &m) const
    {
        const Site &g = s.site[h];
        return (m.kind == ASK || m.kind == QUERY) && !on(ASK_PASSES) &&
               (has(g.came | g.logging, m.txn) || (has(g.lazy, m.txn) && !on(LAZY_DECIDED)));
    }
    void prepare_asked(State &s, int h, int i, const Msg &m)
    {
        Site &g = s.site[h];
        int x = m.txn;
        bool yes = rights_stand(s, h, i, x, m.serial), again = false;
        if (yes && writes_at(x, h) && g.held && !on(HOLD_COMMITS)) {
            yes = false;
            again = true;
        }
        if (yes && writes_at(x, h)) {
            g.attempt[x] = m.serial;
            if (on(VOTE_EARLY) || (on(LAZY_PREPARED) && body[x].lazy)) g.unlogged |= bit(x);
            else g.prepared |= bit(x);
        }
        /* All that it has shown is flushed. */
        if (yes && !on(LAZY_READ) && !(on(LAZY_PREPARED) && body[x].lazy)) g.lazy = 0;
        to_client(s, h, i, {0, VOTED, 0, (u8)x, m.serial, (u8)(again ? 2 : yes)});
    }
    void commit_asked(State &s, int h, int i, const Msg &m)
    {
        Site &g = s.site[h];
        int x = m.txn;
        bool stands = rights_stand(s, h, i, x, m.serial), again = false;
        if (m.extra && !has(g.tomb[x], m.serial)) stands = true;     /* OLD_COMMIT */
        if (stands && g.held && written(x) && !on(HOLD_COMMITS)) {
            g.tomb[x] |= bit(m.serial);
            stands = false;
            again = true;
        }
        if (!stands)
            return to_client(s, h, i, {0, REFUSED, 0, (u8)x, m.serial, again});
        g.attempt[x] = m.serial;
        g.came |= bit(x);
    }
    bool snapshot_open(const State &s, int h, int i) const
    {
        for (int t = 0; t < threads; t++)
            if (where(t) == i && s.site[h].open[t]) return true;
        return false;
    }
    /* What a home does by itself about commits. */
    void commits_go_on(int h)
    {
        const Site &g = now->site[h];
        for (int x = 1; x <= total(); x++) {
            int i = site_of(x), c = coordinator(x);
            bool waits = (i != h && !written(x) && snapshot_open(*now, h, i) &&
                          !on(SNAP_CROSSES)) ||
                         (g.held && (!written(x) || on(HOLD_COMMITS)));
            if (has(g.came, x) && !waits && !g.logging)
                step(true, text("S", h, " logs ", x), [&](State &s) {
                    s.site[h].came &= (u8)~bit(x);
                    to_log(s, h, x, s.site[h].attempt[x]);
                });
            if (has(g.unanswered, x))
                step(true, text("S", h, " answers DONE of ", x), [&](State &s) {
                    s.site[h].unanswered &= (u8)~bit(x);
                    to_client(s, h, i, {0, DONE, 0, (u8)x, s.which[x]});
                });
            if (!has(g.prepared, x)) continue;
            bool late = has(g.orphan, x);
            Msg ask = {0, ASK, 0, (u8)x, g.attempt[x]};
            if (must_wait(*now, c, ask)) continue;
            if ((late || now->earlies) && !travels(*now, h, c, ASK, x) &&
                !travels(*now, c, h, TOLD, x))
                step(late, text("S", h, " asks S", c, " about ", x), [&](State &s) {
                    if (!late) s.earlies--;
                    push(s, h, c, ask);
                });
            if (on(VOTE_SHIFT) && late)
                step(true, text("S", h, " undoes ", x), [&](State &s) {
                    resolve(s, h, x, s.site[h].attempt[x], false);
                });
        }
        if (g.logging || g.lazy)
            step(true, text("S", h, " flushes its log"), [&](State &s) { flush(s, h); });
    }
    void vote_came(State &s, int t, int h, const Msg &m)
    {
        int x = m.txn;
        Thread &th = s.thread[t];
        if (th.pc != VOTING) return;
        if (m.value != 1) return undo(s, t, false, m.value == 2);
        th.voted |= bit(h);
        if (th.voted == participants(x)) decide(s, t, x);
    }
    /* The end of a commit whose answer is OUTCOME, DONE or REFUSED. */
    void answer_came(State &s, int t, bool commit, bool later = false)
    {
        if (commit) return finished(s, t, true);
        s.thread[t].pc = VOTING;
        undo(s, t, false, later);
    }
};
