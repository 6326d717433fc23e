/*
 * site_pages.h - programs, links, and pages: what sites have cached, the queues of the homes,
 * callbacks, container locks (sites.md, NM and NR).
 */
#pragma once
#include <algorithm>
#include "site_state.h"

struct Pages : Steps<State, Scenario> {
    /* ---- programs ---- */
    struct Body {
        std::string op;
        int owner, number, writes, reads;
        bool snapshot, lazy;
    };
    std::vector<Body> body;             /* of each transaction; [0]: what pages held before */
    int threads = 0, sites = 0, pages = 0, progress = 0, first[THREADS + 1] = {};

    void prepare()
    {
        if (!body.empty()) return;
        body.push_back({"", 0, 0, 0, 0, false, false});
        pages = (int)strlen(sc->home);
        for (int p = 0; p < pages; p++) sites = std::max(sites, home(p) + 1);
        for (; threads < THREADS && sc->program[threads]; threads++) {
            sites = std::max(sites, where(threads) + 1);
            first[threads] = (int)body.size();
            std::string all = sc->program[threads];
            for (size_t at = 0, end; at < all.size(); at = end + 1) {
                end = std::min(all.find(',', at), all.size());
                add(threads, all.substr(at, end - at));
            }
        }
        first[threads] = (int)body.size();
    }
    void add(int t, std::string text)
    {
        Body b = {"", t, (int)body.size() - first[t], 0, 0, text[0] == 'S', text[0] == 'L'};
        b.op = b.snapshot || b.lazy ? text.substr(1) : text;
        for (size_t i = 0; i < b.op.size(); i += 2) {
            if (b.op[i] == 'c') continue;
            b.reads |= bit(b.op[i + 1] - '0');
            if (b.op[i] == 'w') b.writes |= bit(b.op[i + 1] - '0');
        }
        body.push_back(b);
    }
    int total() const { return (int)body.size() - 1; }
    int home(int p) const { return sc->home[p] - '0'; }
    int where(int t) const { return sc->where[t] - '0'; }
    int site_of(int x) const { return where(body[x].owner); }
    int txn_of(const State &s, int t) const { return first[t] + s.thread[t].number; }
    const Body &body_of(const State &s, int t) const { return body[txn_of(s, t)]; }
    int hazard(char what) const
    {
        int n = 0;
        for (const char *p = sc->hazards ? sc->hazards : ""; *p; p++) n += *p == what;
        return n;
    }
    int homes_of(int mask) const
    {
        int h = 0;
        for (int p = 0; p < pages; p++)
            if (has(mask, p)) h |= bit(home(p));
        return h;
    }
    bool writes_at(int x, int h) const { return has(homes_of(body[x].writes), h); }
    /* The next operation: 'r', 'w' or 'c', and its page or home; false: there is none. */
    bool op_of(const State &s, int t, char &what, int &p) const
    {
        const Body &b = body_of(s, t);
        size_t i = 2u * s.thread[t].op;
        if (i >= b.op.size()) return false;
        what = b.op[i];
        p = b.op[i + 1] - '0';
        if (what == 'r' && has(s.thread[t].wantx, p)) what = 'w';
        return true;
    }
    static bool runs(const Thread &th) { return th.pc != NEXT && th.pc != END; }

    /* ---- steps ---- */
    static std::string text(const char *a, int i, const char *b = "", int j = -1,
                            const char *c = "", int k = -1)
    {
        std::string r = a + std::to_string(i) + b;
        if (j >= 0) r += std::to_string(j);
        r += c;
        return k >= 0 ? r + std::to_string(k) : r;
    }
    template <class F> void step(bool forward, const std::string &what, F change)
    {
        step_of([] { return std::string(); }, what, [&](State &s) {
            change(s);
            if (error.empty()) look_at(s);
        });
        progress += forward;
    }
    /* look_at: what holds in every state. */
    void look_at(const State &s)
    {
        for (int p = 0; p < pages && !hazard('s'); p++)
            for (int i = 0; i < sites; i++)
                for (int j = 0; j < sites; j++)
                    if (i != j && s.cache[i][p].right == EXCLUSIVE && s.cache[j][p].right)
                        wrong("(1) an exclusive right beside another one");
        for (int x = 1; x <= total(); x++)
            for (int h = 0; has(s.committed, x) && h < sites; h++) {
                const Site &g = s.site[h];
                if (writes_at(x, h) && !has(g.done | g.prepared | g.unlogged, x) &&
                    !on(DECISION_LOST))
                    wrong("(2) a home of a committed transaction knows nothing of it");
            }
    }

    /* ---- links ---- */
    void push(State &s, int i, int j, Msg m)
    {
        int at = 0;
        m.way = (u8)(i * SITES + j);
        if (s.messages == MSGS) return wrong("model: too many messages");
        while (at < s.messages && s.m[at].way <= m.way) at++;
        memmove(s.m + at + 1, s.m + at, sizeof(Msg) * (size_t)(s.messages - at));
        s.m[at] = m;
        s.messages++;
    }
    static void take(State &s, int at)
    {
        s.messages--;
        memmove(s.m + at, s.m + at + 1, sizeof(Msg) * (size_t)(s.messages - at));
        s.m[s.messages] = Msg{};
    }
    static int first_of(const State &s, int i, int j)
    {
        for (int k = 0; k < s.messages; k++)
            if (s.m[k].way == i * SITES + j) return k;
        return -1;
    }
    static bool travels(const State &s, int i, int j, int kind, int n)
    {
        for (int k = 0; k < s.messages; k++) {
            const Msg &m = s.m[k];
            if (m.way == i * SITES + j && m.kind == kind &&
                (kind == CANCEL ? m.page : m.txn) == n) return true;
        }
        return false;
    }
    static bool connected(const State &s, int i, int h)     /* as client i sees its home h */
    {
        return s.site[i].client[h] == s.generation[i][h];
    }
    static bool serves(const State &s, int h, int i)        /* as home h sees its client i */
    {
        return s.site[h].server[i] == s.generation[h][i];
    }
    bool to_home(State &s, int i, int h, Msg m)
    {
        if (!connected(s, i, h)) return false;
        push(s, i, h, m);
        return true;
    }
    void to_client(State &s, int h, int i, Msg m)
    {
        if (serves(s, h, i)) push(s, h, i, m);
    }
    static void lose(State &s, int i, int j)
    {
        s.generation[i][j]++;
        s.generation[j][i]++;
        for (int k = s.messages; k-- > 0;)
            if (s.m[k].way == i * SITES + j || s.m[k].way == j * SITES + i) take(s, k);
    }

    /* ---- a home's tables ---- */
    /* in_doubt: written by what is prepared here, or in the log and not flushed. */
    bool in_doubt(const State &s, int p) const
    {
        const Site &g = s.site[home(p)];
        int mask = g.prepared | g.unlogged;
        if (on(DOUBT_SERVED)) mask &= ~g.orphan;
        if (!on(LOGGED_FREED)) mask |= g.logging;
        for (int x = 1; x <= total(); x++)
            if (has(mask, x) && has(body[x].writes, p)) return true;
        return false;
    }
    bool uses(const State &s, int t, int p) const
    {
        return s.thread[t].used[p] && runs(s.thread[t]);
    }
    bool used_at(const State &s, int i, int p, int least, int but = -1) const
    {
        for (int t = 0; t < threads; t++)
            if (t != but && where(t) == i && uses(s, t, p) && s.thread[t].used[p] >= least)
                return true;
        return false;
    }
    static bool conflicts(const Page &g, int i, int j, int want)
    {
        return i != j && (want == EXCLUSIVE ? g.right[j] : g.right[j] == EXCLUSIVE);
    }
    static void unqueue(Page &g, int k)
    {
        for (; k + 1 < g.waiting; k++) g.queue[k] = g.queue[k + 1];
        g.queue[--g.waiting] = Want{};
    }
    int under_way(const State &s, int h, int i) const       /* GETs of site i that have a worker */
    {
        int n = 0;
        for (int p = 0; p < pages; p++)
            for (int k = 0; home(p) == h && k < s.page[p].waiting; k++)
                n += s.page[p].queue[k].site == i;
        return n;
    }
    void queue_join(State &s, int i, int p, int want, int thread, int again = 0)
    {
        Page &g = s.page[p];
        Want w = {(u8)i, (u8)want, (u8)thread, (u8)p, (u8)again};
        if (i != home(p) && sc->workers && under_way(s, home(p), i) >= sc->workers) {
            if (s.pooled == POOL) return wrong("model: too many wait for workers");
            s.pool[s.pooled++] = w;
            return;
        }
        if (g.waiting == QUEUE) return wrong("model: a queue is full");
        g.queue[g.waiting++] = w;
    }
    static Want unpool(State &s, int k)
    {
        Want w = s.pool[k];
        for (s.pooled--; k < s.pooled; k++) s.pool[k] = s.pool[k + 1];
        s.pool[s.pooled] = Want{};
        return w;
    }
    /* A GET of site i at home h is over: the oldest that waited for its worker is next. */
    void worker_free(State &s, int h, int i)
    {
        for (int k = 0; k < s.pooled; k++) {
            if (s.pool[k].site != i || home(s.pool[k].page) != h) continue;
            Want w = unpool(s, k);
            return queue_join(s, i, w.page, w.want, w.thread, w.again);
        }
    }
    void cancel(State &s, int h, int i, int p)
    {
        Page &g = s.page[p];
        bool found = false;
        for (int k = 0; k < s.pooled && !found; k++)
            if (s.pool[k].site == i && s.pool[k].page == p) {
                unpool(s, k);
                found = true;
            }
        for (int k = 0; k < g.waiting && !found; k++)
            if (g.queue[k].site == i) {
                unqueue(g, k);
                worker_free(s, h, i);
                found = true;
            }
        if (!found) return;                         /* the GRANT crosses it */
        if (i == h) s.cache[h][p].asked = s.cache[h][p].asker = 0;
        else to_client(s, h, i, {0, DENIED, (u8)p, 0, 0, 0});
    }
    void call_back(int p, int j, int to)
    {
        int h = home(p);
        const Page &g = now->page[p];
        if (g.called[j] || !serves(*now, h, j)) return;
        step(true, text("S", h, " calls page ", p, " back from S", j), [&](State &s) {
            s.page[p].called[j] = (u8)(to + 1);
            to_client(s, h, j, {0, CALL, (u8)p, 0, s.page[p].serial[j], (u8)to});
        });
    }
    /* serve: the head of the queue is called back for, or granted. */
    void serve(int p)
    {
        int h = home(p);
        const Page &g = now->page[p];
        const Site &x = now->site[h];
        if (!x.up || !g.waiting || x.grace || in_doubt(*now, p)) return;
        Want w = g.queue[0];
        bool idle_passes = on(DRAIN_PASSED) && w.site != h && !x.drained;
        if (x.lock && x.lock != w.thread + 1 && !idle_passes) return;
        bool is_free = true;
        for (int j = 0; j < sites; j++) {
            int to = w.want == EXCLUSIVE ? NO : SHARED;
            if (!conflicts(g, w.site, j, w.want) || (w.again && on(UPDATE_EARLY))) continue;
            if (on(HOME_TAKES) && w.site == h && !used_at(*now, j, p, SHARED)) continue;
            is_free = false;
            if (j != h) call_back(p, j, to);
            else if (!used_at(*now, h, p, to + 1))
                step(true, text("S", h, " takes its own right to page ", p), [&](State &s) {
                    s.page[p].right[h] = s.cache[h][p].right = (u8)to;
                });
        }
        if (!is_free) return;
        step(true, text("S", h, " grants page ", p, " to S", w.site), [&](State &s) {
            Page &q = s.page[p];
            unqueue(q, 0);
            q.right[w.site] = w.want;
            q.called[w.site] = 0;
            q.serial[w.site]++;
            bool stale = on(STALE_GRANT) && q.versions > 1;
            u8 content = stale ? q.version[q.versions - 2] : q.content;
            Msg m = {0, GRANT, (u8)p, w.thread, q.serial[w.site], w.want, content};
            if (w.site == h) granted(s, h, m);
            else to_client(s, h, w.site, m);
            worker_free(s, h, w.site);
        });
    }
    /* drain: a thread of home h has its container's lock; no other site's right may stand, and no
     * page may be used by other threads here. */
    void drain(int h)
    {
        const Site &x = now->site[h];
        if (!x.up || !x.lock || x.drained || x.grace) return;
        bool all = true;
        for (int p = 0, seen = 0; p < pages; p++) {
            if (home(p) != h) continue;
            if (in_doubt(*now, p)) all = false;
            if (on(DRAIN_ONE) && seen++) {
                for (int j = 0; j < sites; j++) all &= j == h || !now->page[p].right[j];
                continue;
            }
            for (int j = 0; j < sites; j++) {
                if (j == h ? used_at(*now, h, p, SHARED, x.lock - 1) : now->page[p].right[j]) {
                    if (on(DRAIN_IDLE) && !used_at(*now, j, p, SHARED)) continue;
                    all = false;
                    if (j != h) call_back(p, j, NO);
                }
            }
        }
        if (!all) return;
        step(true, text("S", h, " has drained its container"), [&](State &s) {
            s.site[h].drained = 1;
            for (int p = 0; p < pages; p++) {
                if (home(p) != h) continue;
                s.page[p].right[h] = s.cache[h][p].right = EXCLUSIVE;
                s.cache[h][p].content = s.page[p].content;
            }
        });
    }

    /* ---- a site's cache ---- */
    void drop(State &s, int i, int p, int to, int serial)
    {
        Cache &c = s.cache[i][p];
        bool again = hazard('f') && c.recall == NO + 1 && !c.asked;
        bool keeps = again && on(UPDATE_KEEPS) && c.right == SHARED;
        c.recall = 0;
        if ((!on(RECALL_SHARED) || to != SHARED) && !keeps) {
            c.right = (u8)to;
            if (to == NO) c.content = 0;
        }
        to_home(s, i, home(p), {0, GONE, (u8)p, 0, (u8)serial, (u8)to});
        if (again) ask_again(s, i, p);
    }
    /* In the same message the site asks for the page as it will be; no thread of its waits. */
    void ask_again(State &s, int i, int p)
    {
        int t = 0;
        while (where(t) != i) t++;
        s.cache[i][p].asked = SHARED;
        s.cache[i][p].asker = 0;
        to_home(s, i, home(p), {0, GET, (u8)p, (u8)t, 0, SHARED, 1});
    }
    /* Pages that others want and nobody uses any more are given up in the section that ended
     * their use; those of the own kernel, too. */
    void give_up_owed(State &s, int i)
    {
        for (int p = 0; p < pages; p++) {
            Cache &c = s.cache[i][p];
            Page &g = s.page[p];
            if (c.recall && !used_at(s, i, p, c.recall)) drop(s, i, p, c.recall - 1, c.serial);
            if (home(p) != i || !g.waiting || on(KEEP_OWED) ||
                !conflicts(g, g.queue[0].site, i, g.queue[0].want)) continue;
            int to = g.queue[0].want == EXCLUSIVE ? NO : SHARED;
            if (!used_at(s, i, p, to + 1)) g.right[i] = c.right = (u8)to;
        }
    }
    void granted(State &s, int i, Msg m)
    {
        char what;
        int p, t = m.txn;
        s.cache[i][m.page] = {m.value, m.extra, m.serial, 0, 0, 0};
        if (on(NO_FIRST_USE) || s.thread[t].pc != RUN || body_of(s, t).snapshot ||
            !op_of(s, t, what, p) || p != m.page) return;
        if (may_use(s, t, p, what)) use(s, t, p, what);
    }
    static int mode(char what) { return what == 'w' ? EXCLUSIVE : SHARED; }
    bool local_conflict(const State &s, int t, int p, char what) const
    {
        int h = where(t), lock = s.site[h].lock;
        if (home(p) == h && lock && lock != t + 1 && !s.thread[t].used[p]) return true;
        return used_at(s, h, p, what == 'w' ? SHARED : EXCLUSIVE, t);
    }
    bool may_use(const State &s, int t, int p, char what) const
    {
        const Cache &c = s.cache[where(t)][p];
        int used = on(RECALL_STOPS) ? mode(what) : SHARED;
        return c.right >= mode(what) && c.content != AWAY &&
               (!c.recall || s.thread[t].used[p] >= used) && !local_conflict(s, t, p, what);
    }
    bool wrote(const State &s, int t, int p) const
    {
        const Body &b = body_of(s, t);
        for (size_t k = 0; k < s.thread[t].op; k++)
            if (b.op[2 * k] == 'w' && b.op[2 * k + 1] - '0' == p) return true;
        return false;
    }
    void use(State &s, int t, int p, char what)
    {
        Thread &th = s.thread[t];
        if (!wrote(s, t, p)) s.txn[txn_of(s, t)].reads[p] |= bit(s.cache[where(t)][p].content);
        if (th.used[p] < mode(what)) th.used[p] = (u8)mode(what);
        th.op++;
        th.asks = 0;
        serialisable(s);
    }
    virtual void serialisable(const State &s) = 0;
    virtual ~Pages() = default;

    /* ---- a thread's next operation ---- */
    void lock_container(int t)
    {
        int h = where(t);
        const Site &g = now->site[h];
        if (!g.lock)
            step(true, text("T", t, " asks for the lock of its home's container"), [&](State &s) {
                s.site[h].lock = (u8)(t + 1);
            });
        if (g.lock == t + 1 && g.drained)
            step(true, text("T", t, " has the container"), [&](State &s) {
                s.thread[t].op++;
            });
    }
    void access(int t, char what, int p)
    {
        int i = where(t);
        const Cache &c = now->cache[i][p];
        if (may_use(*now, t, p, what))
            return step(true, text("T", t, what == 'w' ? " writes page " : " reads page ", p),
                        [&](State &s) { use(s, t, p, what); });
        bool again = on(TWO_ASKS) && c.asker != t + 1 && now->thread[t].asks < 1;
        if (local_conflict(*now, t, p, what) || (c.right >= mode(what) && c.content != AWAY) ||
            (c.recall && !now->thread[t].used[p]) || (c.asked && !again)) return;
        step(true, text("T", t, " asks for page ", p), [&](State &s) {
            Cache &d = s.cache[i][p];
            int want = std::max(mode(what), (int)d.right);      /* NR9: what is kept, at least */
            d.asked = (u8)want;
            d.asker = (u8)(t + 1);
            if (++s.thread[t].asks > 2) wrong("(5) a fault asks for its page again and again");
            if (home(p) == i) queue_join(s, i, p, want, t);
            else to_home(s, i, home(p), {0, GET, (u8)p, (u8)t, 0, (u8)want});
        });
    }
};
