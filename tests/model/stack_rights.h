/*
 * stack_rights.h - rights to pages in stack.cpp's model: who takes them, who waits for whom, who is
 * undone; and what must be true behind every step.
 */
#pragma once
#include "stack_state.h"

struct Rights : Steps<State, Scenario> {
    template <class F> void step(const std::string &who, const char *what, F change)
    {
        step_of([&] { return who + " "; }, what, [&](State &s) {
            change(s);
            if (!s.off) check(s);
        });
    }
    std::string name(int c) const { return names ? "T" + std::to_string(c + 1) : std::string(); }
    std::string manager(int k) const { return names ? "M" + std::to_string(k) : std::string(); }

    /* ---- what must be true ---- */
    void check_reads(const State &s, int c)
    {
        for (int p = 0; p < PAGES; p++)
            if (s.c[c].read[p] && s.c[c].read[p] - 1 != s.history[s.number][item_of(p)])
                wrong("what was read is no longer so at the commit");
    }
    void check(const State &s)
    {
        for (int p = 0; p < PAGES; p++)
            if (s.resident[p] && s.current[p] != s.history[s.number][item_of(p)])
                wrong(layer_of(p) ? "an upper page is not what was published"
                                  : "a page of the store is not what was published");
    }

    /* ---- rights and waits ---- */
    static bool written(const Client &x, int p)
    {
        for (auto &v : x.v)
            if (v.value[p]) return true;
        return false;
    }
    static bool queued_before(const View &u, const View &me, int p, int mode)
    {
        bool conflict = u.mode == COPY || mode == COPY;
        return u.want == p && conflict && !me.right[p] && (me.want != p || u.turn < me.turn);
    }
    enum { BY_HELPER = 1, BY_REST = 2 };  /* by the helper at work; by others of a group */
    struct Blockers { u8 why[CLIENTS]; bool own, any; };
    /* Who keeps view k of c from page p: other groups, or a copy of its own group (SK6). */
    Blockers blockers(const State &s, int c, int k, int p, int mode) const
    {
        Blockers b = {};
        const View &me = s.c[c].v[k];
        for (int d = 0; d < CLIENTS; d++)
            for (int j = 0; j < LAYERS; j++) {
                const View &u = s.c[d].v[j];
                bool holds = u.right[p] && (mode == COPY || u.right[p] == COPY);
                if (d == c && j != k && u.right[p] == COPY) b.own = true;
                if (d == c) continue;
                if (holds) b.why[d] |= j && u.state == ACTIVE ? BY_HELPER : BY_REST;
                if (queued_before(u, me, p, mode)) b.why[d] |= j ? BY_HELPER : BY_REST;
                b.any |= b.why[d] != 0;
            }
        return b;
    }
    /* A thread of manager k works or waits for it. */
    static bool has_thread(const Client &x, int k)
    {
        return x.phase != RUN && x.phase != OVER && x.v[k].state != IDLE && !x.orphan;
    }
    bool before_in_port(const State &s, int d, int c) const
    {
        const Client &x = s.c[d], &y = s.c[c];
        return !on(ANY_ORDER) && x.phase == y.phase && x.at == y.at && x.arrival < y.arrival;
    }
    void edges(const State &s, int c, u8 why[CLIENTS]) const
    {
        const Client &x = s.c[c];
        memset(why, 0, CLIENTS);
        for (int k = 0; k < LAYERS; k++) {
            const View &v = x.v[k];
            if (v.want == NOTHING || (k && on(OWN_EDGES))) continue;
            Blockers b = blockers(s, c, k, v.want, v.mode);
            for (int d = 0; d < CLIENTS; d++) why[d] |= b.why[d];
        }
        for (int d = 0; d < CLIENTS && x.phase == ASKED && !on(NO_PORT_EDGE); d++)
            if (d != c && (has_thread(s.c[d], x.at) || before_in_port(s, d, c))) why[d] |= BY_REST;
    }
    /* The members of a cycle through c as a mask; by[d]: what they want of group d. */
    u8 cycle(const State &s, int c, u8 by[CLIENTS]) const
    {
        u8 why[CLIENTS][CLIENTS], reach[CLIENTS] = {}, members = 0;
        for (int i = 0; i < CLIENTS; i++) {
            edges(s, i, why[i]);
            for (int j = 0; j < CLIENTS; j++)
                if (why[i][j]) reach[i] |= bit(j);
        }
        for (int r = 0; r < CLIENTS; r++)
            for (int i = 0; i < CLIENTS; i++)
                for (int j = 0; j < CLIENTS; j++)
                    if (reach[i] >> j & 1) reach[i] |= reach[j];
        for (int i = 0; i < CLIENTS && reach[c] >> c & 1; i++)
            if (reach[c] >> i & 1 && reach[i] >> c & 1) members |= bit(i);
        memset(by, 0, CLIENTS);
        for (int i = 0; i < CLIENTS; i++)
            for (int j = 0; j < CLIENTS; j++)
                if (members >> i & 1 && members >> j & 1) by[j] |= why[i][j];
        return members;
    }
    static void clear(View &v)
    {
        memset(&v, 0, sizeof v);
        v.want = NOTHING;
    }
    /* The helper at work is undone alone and begins anew (SK13a). */
    void begin_helper(Client &x)
    {
        clear(x.v[x.at]);
        x.v[x.at].state = ACTIVE;
        x.pos = 0;
        if (x.at == 1 && !on(BATCH_STAYS)) x.batch = 0;
    }
    void find_deadlock(State &s, int c)
    {
        u8 by[CLIENTS], members;
        while (error.empty() && (members = cycle(s, c, by))) {
            int alone = -1, runs = -1, commits = -1;
            for (int i = 0; i < CLIENTS; i++) {
                const Client &x = s.c[i];
                if (!(members >> i & 1)) continue;
                bool helps = x.phase == WORK && (by[i] == BY_HELPER || on(HELPER_FOREVER));
                if (helps && (x.again < AGAIN || on(HELPER_FOREVER))) alone = i;
                if (x.phase == RUN) runs = i;
                if (x.phase == ASKED || x.phase == WORK) commits = i;
            }
            if (alone >= 0) {
                if (s.c[alone].again++ > 2 * AGAIN) wrong("a helper begins anew without end");
                begin_helper(s.c[alone]);
                return;
            }
            if (runs < 0 && commits < 0) wrong("a deadlock without a victim");
            else undo(s, runs >= 0 ? runs : commits, true, true);
        }
    }
    /* The whole group is undone; `again`: its program tries once more, which may be `counted`. */
    void undo(State &s, int c, bool again, bool counted)
    {
        Client &x = s.c[c];
        if (x.phase >= DURABLE) wrong("undone, but it is durable");
        for (int k = 0; k < LAYERS; k++)
            if (!(k && on(REFUSE_KEEPS) && x.v[k].state == FROZEN)) clear(x.v[k]);
        if (counted && ++x.tries > TRIES) wrong("undone without end");
        u8 tries = x.tries, told = x.told;
        View v[LAYERS];
        memcpy(v, x.v, sizeof v);
        memset(&x, 0, sizeof x);
        memcpy(x.v, v, sizeof v);
        x.tries = tries;
        x.told = again ? told : (u8)UNDONE;
        x.phase = again ? RUN : OVER;
    }
    /* A touch of page p; true: granted. Else it waits, or the group is refused. */
    bool touch(State &s, int c, int k, int p, int mode)
    {
        View &v = s.c[c].v[k];
        Blockers b = blockers(s, c, k, p, mode);
        bool own = b.own && !on(SEES_BASE);
        if (own && !on(SELF_WAIT)) {
            undo(s, c, false, false);   /* -EXDEV */
            return false;
        }
        if (b.any || own) {
            if (v.want != p) v.turn = last_turn(s, p);
            v.want = (u8)p;
            v.mode = (u8)mode;
            find_deadlock(s, c);
            return false;
        }
        v.want = NOTHING;
        v.turn = 0;
        for (auto &u : s.c[c].v)
            if (&u != &v && k && mode == COPY && on(TAKE_READ)) u.right[p] = NO_RIGHT;
        if (v.right[p] < mode) v.right[p] = (u8)mode;
        if (mode == COPY) v.value[p] = (u8)(c + 1);
        else if (k && written(s.c[c], p) && !v.value[p])
            wrong("a helper does not see what its transaction wrote");
        return true;
    }
    static u8 last_turn(const State &s, int p)
    {
        u8 turn = 1;
        for (auto &x : s.c)
            for (auto &u : x.v)
                if (u.want == p && u.turn >= turn) turn = (u8)(u.turn + 1);
        return turn;
    }
};
