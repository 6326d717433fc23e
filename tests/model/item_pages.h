/*
 * item_pages.h - pages in items.cpp's model: frames, entries, locks and who waits for whom, and
 * publication.
 */
#pragma once
#include "item_state.h"

struct Pages : Steps<State, Scenario> {
    template <class F> void step(const std::string &who, const std::string &what, F change)
    {
        step_of([&] { return who + " "; }, what, [&](State &s) { change(s), check(s); });
    }
    std::string name(int v) const { return names ? "T" + std::to_string(v + 1) : std::string(); }
    std::string of(const char *text, int n) const { return names ? text + std::to_string(n) : ""; }

    /* ---- programs ---- */
    const char *body(const View &x, int v) const { return sc->program[v][x.txn]; }
    bool in_snapshot(const View &x, int v) const { return open(x) && *body(x, v) == 'S'; }
    const char *at(const View &x, int v) const
    {
        return body(x, v) + (*body(x, v) == 'S') + 2 * x.op;
    }
    char op(const View &x, int v) const { return *at(x, v); }
    int word(const View &x, int v) const { return at(x, v)[1] - '0'; }
    int page(const View &x, int v) const { return word(x, v) / 2; }
    static bool stores(char o) { return o != 'r' && o != 't'; }

    /* ---- what must be true ---- */
    u8 own(const View &x, int w, u8 base) const
    {
        return (u8)(((base & ~x.set_mask[w]) | x.set[w]) + x.add[w]);
    }
    void check(const State &s)
    {
        for (int p = 0; p < PAGES; p++) {
            const Page &g = s.p[p];
            u8 copies = 0, writer = 0;
            for (int v = 0; v < VIEWS; v++) {
                const View &x = s.v[v];
                if (!x.copy[p]) continue;
                if (x.paged >> p & 1) writer = (u8)(v + 1);
                else copies++;
                for (int i = 0; i < 2 && g.frame && !on(PULL) && !x.stray; i++)
                    if (s.frame[x.copy[p] - 1].word[i] !=
                        own(x, 2 * p + i, s.frame[g.frame - 1].word[i]))
                        wrong("a copy is not the current version with what its owner did");
            }
            if (copies != g.copies || writer != g.writer)
                wrong("a page's copies are counted wrong");
            if (copies > most()) wrong("a page has too many copies");
            if (writer && copies) wrong("a page has item copies beside one of page mode");
        }
    }
    int most() const { return sc->most ? sc->most : (int)VIEWS; }

    /* ---- frames ---- */
    u8 frame_make(State &s, const u8 *words)
    {
        for (u8 f = 0; f < FRAMES; f++)
            if (!s.frame[f].used) {
                s.frame[f] = {1, {words[0], words[1]}};
                return (u8)(f + 1);
            }
        wrong("no frame is left");
        return 1;
    }
    void frame_free(State &s, u8 frame)
    {
        for (auto &x : s.v)
            for (int p = 0; p < PAGES; p++) {
                if (x.entry[p].frame == frame) wrong("a freed frame is in a page table");
                if (runs(x) && x.tlb[p].frame == frame) wrong("a freed frame is in a live TLB");
            }
        s.frame[frame - 1] = {0, {0xdd, 0xdd}};
    }
    /* The entry goes; from the TLB now, or when the view begins again. */
    void entry_take(State &s, int v, int p)
    {
        View &x = s.v[v];
        x.entry[p] = {};
        if (runs(x)) x.tlb[p] = {};
        else x.stale = 1;
    }

    /* ---- locks; who waits for whom ---- */
    static bool clash(u8 held, u8 asked)
    {
        return held & MODE_X || (held && asked == MODE_X) || (held & MODE_A && asked == MODE_S) ||
               (held & MODE_S && asked == MODE_A);
    }
    static u8 mode_of(char o) { return o == 'r' || o == 't' ? MODE_S : o == 'a' ? MODE_A : MODE_X; }
    u8 halves(const View &x, int v) const
    {
        char o = op(x, v);
        return (u8)((o == 'h' ? 2 : o == 'l' ? 1 : 3) << 2 * word(x, v));
    }
    bool wants_item(const State &s, int v) const
    {
        const View &x = s.v[v];
        char o = x.pc == OP && !in_snapshot(x, v) ? op(x, v) : 0;
        return o && o != 'x' && o != 'c' && s.holder != v + 1;
    }
    u8 item_holders(const State &s, int v) const
    {
        u8 who = 0;
        for (int u = 0; u < VIEWS; u++)
            for (int h = 0; h < HALVES; h++)
                if (u != v && halves(s.v[v], v) >> h & 1 &&
                    clash(s.v[u].lock[h], mode_of(op(s.v[v], v))))
                    who |= bit(u);
        return who;
    }
    /* Those for whom the lock's drain waits (IK1). */
    u8 users(const State &s, int v) const
    {
        u8 who = 0;
        for (int u = 0; u < VIEWS; u++) {
            const View &x = s.v[u];
            u8 uses = on(LOCK_COPIES) ? (u8)(x.copy[0] | x.copy[1]) : x.used;
            if (u != v && open(x) && !in_snapshot(x, u) && uses) who |= bit(u);
        }
        return who;
    }
    bool shut_out(const State &s, int v) const
    {
        const View &x = s.v[v];
        return s.holder && s.holder != v + 1 && !in_snapshot(x, v) && (s.drained || !x.used);
    }
    bool faults(const View &x, int v) const
    {
        int p = page(x, v);
        bool store = stores(op(x, v));
        return !(x.tlb[p].frame && (x.tlb[p].writes || !store)) &&
               !(x.entry[p].frame && (x.entry[p].kind == COPY || !store));
    }
    bool too_many(const State &s, int v) const
    {
        return s.v[v].pc == GRANT && !on(LIMIT_NONE) && s.holder != v + 1 &&
               s.p[page(s.v[v], v)].copies >= most();
    }
    /* Those for whom v waits but for a copy to go: items, the container. */
    u8 waits(const State &s, int v) const
    {
        const View &x = s.v[v];
        u8 holder = s.holder ? bit(s.holder - 1) : (u8)0;
        if (x.pc == OP && op(x, v) == 'c')
            return !s.holder ? (u8)0 : s.holder == v + 1 ? users(s, v) : holder;
        if (wants_item(s, v)) return item_holders(s, v);
        bool fault = x.pc == GRANT || (x.pc == ACCESS && faults(x, v));
        return fault && shut_out(s, v) ? holder : (u8)0;
    }
    /* And with owners of copies, if none of them runs (IP9). */
    u8 edges(const State &s, int v) const
    {
        u8 who = waits(s, v), owners = 0;
        bool all_wait = true;
        if (!too_many(s, v) || on(LIMIT_BLIND)) return who;
        for (int u = 0; u < VIEWS; u++)
            if (s.v[u].copy[page(s.v[v], v)] && (!on(LIMIT_PARTLY) || s.v[v].noted >> u & 1)) {
                owners |= bit(u);
                all_wait &= waits(s, u) || too_many(s, u);
            }
        return who | (all_wait || on(LIMIT_EDGES) ? owners : (u8)0);
    }
    /* Is it the youngest of a cycle, so that it aborts? */
    bool victim(const State &s, int v)
    {
        u8 reach = edges(s, v);
        for (int i = 0; i < VIEWS; i++)
            for (int u = 0; u < v; u++)
                if (reach >> u & 1) reach |= edges(s, u);
        if (!(reach >> v & 1) || on(NO_CYCLES)) return false;
        for (int u = 0; u < VIEWS; u++)
            for (int o = 0; o < VIEWS; o++)
                if ((u == v || reach >> u & 1) && too_many(s, u) && !waits(s, u) &&
                    s.v[o].copy[page(s.v[u], u)] && !waits(s, o) && !too_many(s, o))
                    wrong("aborted for a wait that would have ended");
        return true;
    }

    /* ---- versions ---- */
    /* A rough version has its own words only where its transaction declared them; all others are
     * those of the next one, the current in the end, and so from the newest rough one on (IP12). */
    void settle(State &s, Page &g, int n)
    {
        if (!g.old[n].rough) return;
        bool last = n + 1 == OLD || !g.old[n + 1].frame || on(ROUGH_NEWEST);
        if (!last) settle(s, g, n + 1);
        u8 from = last ? g.frame : g.old[n + 1].frame;
        if (!from) return wrong("there is no version to put an older one right by");
        for (int i = 0; i < 2; i++)
            if (!(g.old[n].words >> i & 1))
                s.frame[g.old[n].frame - 1].word[i] = s.frame[from - 1].word[i];
        g.old[n].rough = g.old[n].words = 0;
    }
    bool needed(const State &s, const Page &g, int n)
    {
        bool is = g.old[n].superseded > s.published && !on(COLLECT_EARLY);
        for (auto &x : s.v)
            is |= x.snapshot && g.old[n].sequence < x.snapshot &&
                  x.snapshot <= g.old[n].superseded;
        return is;
    }
    /* `released`: those of a publication, too, the oldest first. */
    void collect(State &s, bool released)
    {
        for (auto &g : s.p)
            for (int i = 0; i < OLD; i++) {
                int n = on(ROUGH_ORDER) ? OLD - 1 - i : i;
                auto &o = g.old[n];
                if (!o.frame || (o.rough && !released)) continue;
                bool kept = needed(s, g, n);
                if (kept && o.superseded <= s.published && !on(ROUGH_KEPT)) settle(s, g, n);
                if (kept) continue;
                u8 frame = o.frame;
                for (int k = n; k < OLD; k++) g.old[k] = k + 1 < OLD ? g.old[k + 1] : Page::Old{};
                i -= !on(ROUGH_ORDER);
                frame_free(s, frame);
            }
    }
    void keep_old(State &s, int p, u8 frame, u8 sequence, u8 rough, u8 words)
    {
        Page &g = s.p[p];
        bool registered = false;
        for (auto &x : s.v) registered |= x.snapshot != 0;
        if (on(NO_PRESERVE) && !registered) return frame_free(s, frame);
        for (auto &o : g.old)
            if (!o.frame) {
                o = {frame, g.sequence, sequence, rough, words};
                return;
            }
        wrong("too many versions for this model");
    }
    /* Entries of snapshots, running or between two, on the current frame (IP3, step 1). */
    void snapshots_away(State &s, int p, bool running)
    {
        for (int v = 0; v < VIEWS; v++) {
            View &x = s.v[v];
            if (x.entry[p].kind != SNAP || x.entry[p].frame != s.p[p].frame) continue;
            if (x.snapshot ? !running || on(SNAP_KEEPS) : on(SNAP_IDLE)) continue;
            if (!x.snapshot || !on(SHOOT_AFTER)) entry_take(s, v, p);
            else {
                x.entry[p] = {};
                s.shoot |= bit(v);
                s.shoot_page = (u8)p;
            }
        }
    }
    void watchers_wake(State &s, int u, int p)
    {
        if (on(WATCH_SKIPPED) && s.p[p].copies == 1) return;
        for (int v = 0; v < VIEWS; v++)
            if (v != u && s.v[v].pc == WATCHES && s.v[v].used >> p & 1) {
                s.v[v].pc = NEXT;
                s.v[v].used = 0;
            }
    }
    /* Differences go into others' copies, the words into the current frame (IP3, steps 2, 3). */
    void exchange(State &s, int u, int p)
    {
        View &x = s.v[u];
        auto &copy = s.frame[x.copy[p] - 1], &current = s.frame[s.p[p].frame - 1];
        for (int i = 0; i < 2; i++) {
            if (!(x.declared[p] >> i & 1)) continue;
            u8 difference = (u8)(copy.word[i] - current.word[i]);
            for (int v = 0; v < VIEWS; v++) {
                const View &y = s.v[v];
                if (v == u || !y.copy[p] || on(NO_PATCH) || on(PULL)) continue;
                if (on(PATCH_ACTIVE) && y.entry[p].kind == FROZEN) continue;
                u8 &word = s.frame[y.copy[p] - 1].word[i];
                word = on(PATCH_WORDS) ? copy.word[i] : (u8)(word + difference);
            }
            if (!on(FLIP)) std::swap(copy.word[i], current.word[i]);
        }
    }
    void publish(State &s, int u, int p)
    {
        View &x = s.v[u];
        Page &g = s.p[p];
        u8 sequence = (u8)(s.published + 1);
        bool paged = on(KIND_LATE) ? s.holder == u + 1 : x.paged >> p & 1;
        if (!g.frame) return wrong("there is no current version to publish into");
        watchers_wake(s, u, p);
        if (!on(FLIP)) snapshots_away(s, p, !paged);
        u8 old = x.copy[p];
        if (!paged) exchange(s, u, p);
        if (paged || on(FLIP)) std::swap(old, g.frame);
        for (int i = 0; i < 2; i++)
            if (x.declared[p] >> i & 1) {
                int w = 2 * p + i;
                s.truth[w] = own(x, w, s.truth[w]);
                if (s.frame[g.frame - 1].word[i] != s.log[x.logged[p] - 1].value[i])
                    wrong("published words are not the logged ones");
            }
        u8 rough = x.rough >> p & 1 & !paged, words = rough ? x.declared[p] : (u8)0;
        if (paged) g.writer = 0;
        else g.copies--;
        g.csn = x.logged[p];
        g.changes++;
        g.clean = 0;
        x.entry[p] = {on(KEEP_ENTRY) ? old : g.frame, SHARED};
        copy_forget(x, p);
        keep_old(s, p, old, sequence, rough, words);
        g.sequence = sequence;
        for (int i = 0; i < 2; i++)
            if (s.frame[g.frame - 1].word[i] != s.truth[2 * p + i])
                wrong("the current version is not the serial state");
    }
    static void copy_forget(View &x, int p)
    {
        x.copy[p] = x.declared[p] = x.logged[p] = 0;
        x.paged &= (u8)~bit(p);
        x.rough &= (u8)~bit(p);
        for (int w = 2 * p; w < 2 * p + 2; w++) x.set_mask[w] = x.set[w] = x.add[w] = 0;
    }
    void supply(State &s, int p)
    {
        s.p[p].frame = frame_make(s, s.p[p].home);
        s.p[p].changes++;
    }
};
