/*
 * codewords.cpp - a model of codewords (kernel/store/codewords.md): transactions copy a page, tell
 * what they changed, and publish it, where items are locked and where pages are; wild writes hit
 * the page and told copies at any moment; home writes, evictions, repairs.
 *
 *     model-codewords check           every scenario, completely
 *     model-codewords teeth [RULE]    each rule switched, alone: some scenario must fail
 *     model-codewords trace RULE      a shortest counterexample, step by step
 *
 * A page has two regions of one word, so a codeword is the word as it should be. Each transaction
 * adds one to a word, and each hit is of another bit. Properties: what was published is, by the
 * log, what the transactions added; a home write that counts has that; a word that is something
 * else has a codeword that says so; what was mended is right.
 */
enum { WORDS = 2, CLIENTS = 2, HIT = 0x20 };

#define RULES(X) \
    X(FOLLOW_NEW, "a publication makes codewords of the words that are there") \
    X(UNTOLD_NEW, "a copy that becomes the page brings codewords of regions that were not told") \
    X(TELL_BLIND, "what is told is not compared with the page's codewords") \
    X(TELL_ONCE, "a copy is not looked at behind its telling") \
    X(BEHIND_HIT, "what is told behind a copy does not ask whether that is as it was told") \
    X(UNTOLD_WORDS, "what is told holds whatever differs in a copy told before it, told or not") \
    X(TELL_ON, "who is told while another one becomes told is not told anew") \
    X(SOUND_BLIND, "a publication does not ask whether the copy is as it was told") \
    X(TWICE_WRONG, "a second copy that is not as it was told makes codewords right again") \
    X(HOME_BEFORE, "a page is compared before a home write, and not behind it") \
    X(HOME_VERSION, "a home write counts that began before the last publication") \
    X(EVICT_COPIED, "a page with copies is evicted, and comes from its home") \
    X(MEND_WRITING, "a page is mended while it is written home") \
    X(MEND_KEEPS, "who has a copy of a page that is mended commits") \
    X(MEND_HOME, "a page is mended from its home whatever was published since") \
    X(MEND_CODEWORD, "a page that is mended keeps its codewords")
#include "small.h"

struct Scenario {
    const char *name, *what;
    bool items;
    u8 word[CLIENTS];                   /* that it changes; WORDS: it does nothing */
    u8 hits, homes, evictions;
};

enum pc : u8 { BEGIN, CHANGE, TELL, SUMMED, TELLING, TOLD, DONE };
struct Client {
    u8 pc, spoilt, changed, order;      /* changed: words that were told, a bit each */
    u8 from, hit;                       /* from: what State::told was when it began to be told */
    u8 own[WORDS], sum[WORDS], record[WORDS];
};
struct State {
    u8 now[WORDS], codeword[WORDS], resident, version, told;
    u8 home[WORDS], home_version;       /* what counts; the version that it is */
    u8 writing, begun, out[WORDS];      /* a home write: how far, of which version */
    u8 log[WORDS], added[WORDS];        /* as published by the log; as it should be */
    u8 hits, homes, evictions;
    Client c[CLIENTS];
};

struct Model : Steps<State, Scenario> {
    template <class F> void step(int client, const char *what, F change)
    {
        step_of([&] { return client >= 0 ? std::string(1, (char)('A' + client)) + " " : ""; },
                what, change);
    }
    static bool copied(const Client &c) { return c.pc > BEGIN && c.pc < DONE; }
    static bool any_copied(const State &s)
    {
        bool any = false;
        for (const Client &c : s.c) any |= copied(c);
        return any;
    }
    static bool right(const State &s, u8 words)
    {
        for (int w = 0; w < WORDS; w++)
            if (words >> w & 1 && s.codeword[w] != s.now[w]) return false;
        return true;
    }
    /* What a copy changes of a word: a difference, or all of it where it becomes the page. */
    u8 part(const State &s, const Client &c, int w) const
    {
        return (u8)(sc->items ? c.own[w] - s.now[w] : c.own[w]);
    }
    bool sound(const State &s, const Client &c) const
    {
        for (int w = 0; w < WORDS; w++)
            if (c.changed >> w & 1 && part(s, c, w) != c.sum[w]) return false;
        return true;
    }
    static void refuse(Client &c)
    {
        c = Client{};
        c.pc = DONE;
    }

    /* ---- a transaction ---- */
    void client(int i)
    {
        const Client &c = now->c[i];
        switch (c.pc) {
        case BEGIN:
            if (sc->word[i] < WORDS && now->resident && (sc->items || !any_copied(*now)))
                step(i, "copies the page", [&](State &s) {
                    memcpy(s.c[i].own, s.now, WORDS);
                    s.c[i].pc = CHANGE;
                });
            return;
        case CHANGE:
            step(i, "adds one to its word", [&](State &s) {
                s.c[i].own[sc->word[i]]++;
                s.c[i].pc = TELL;
            });
            return;
        case TELL:
            if (now->resident) step(i, "is summed up", [&](State &s) { sums(s, s.c[i]); });
            return;
        case SUMMED:
            step(i, "tells what it changed", [&](State &s) { tells(s, s.c[i]); });
            return;
        case TELLING:
            step(i, "is compared behind that", [&](State &s) { told(s, s.c[i]); });
            return;
        case TOLD:
            if (now->resident && first(i))
                step(i, "is published", [&](State &s) { publish(s, i); });
            return;
        default: return;
        }
    }
    bool first(int i) const
    {
        for (const Client &c : now->c)
            if (c.pc == TOLD && c.order < now->c[i].order) return false;
        return true;
    }
    /* Other words of an item copy are put back. */
    void sums(State &s, Client &c)
    {
        c.changed = 0;
        for (int w = 0; w < WORDS; w++) {
            if (sc->items && w != sc->word[&c - s.c]) c.own[w] = s.now[w];
            if (c.own[w] == s.now[w]) continue;
            c.changed |= (u8)(1 << w);
            c.sum[w] = part(s, c, w);
        }
        c.from = s.told;
        c.pc = SUMMED;
    }
    /* Item copies are told with what those before them do to a word. */
    void tells(State &s, Client &c)
    {
        for (int w = 0; w < WORDS; w++) {
            if (!(c.changed >> w & 1)) continue;
            c.record[w] = c.own[w];
            for (const Client &o : s.c)
                if (&o != &c && o.pc == TOLD && sc->items &&
                    (o.changed >> w & 1 || on(UNTOLD_WORDS)))
                    c.record[w] = (u8)(c.record[w] + o.own[w] - s.now[w]);
        }
        c.pc = TELLING;
    }
    void told(State &s, Client &c)
    {
        if (c.from != s.told && !on(TELL_ON)) {
            c.pc = TELL;
            if (c.hit) refuse(c); /* then it is what its transaction did, as far as anybody knows */
            return;
        }
        bool good = on(TELL_BLIND) || right(s, c.changed);
        good = good && (on(TELL_ONCE) || sound(s, c)) && (!c.spoilt || on(MEND_KEEPS));
        for (const Client &o : s.c)
            if (&o != &c && o.pc == TOLD && !on(BEHIND_HIT)) good = good && sound(s, o);
        if (!good) return refuse(c);
        c.pc = TOLD;
        c.order = ++s.told;
    }
    void publish(State &s, int i)
    {
        Client &c = s.c[i];
        bool good = on(SOUND_BLIND) || sound(s, c);
        for (int w = 0; w < WORDS; w++) {
            bool mine = c.changed >> w & 1;
            if (mine) s.log[w] = c.record[w];
            if (sc->items && mine) {
                for (Client &o : s.c)
                    if (&o != &c && copied(o)) o.own[w] = (u8)(o.own[w] + c.own[w] - s.now[w]);
                s.codeword[w] = on(FOLLOW_NEW) ? c.own[w]
                                               : (u8)(s.codeword[w] ^ s.now[w] ^ c.own[w]);
            } else if (!sc->items && (mine || on(UNTOLD_NEW))) {
                s.codeword[w] = c.own[w];
            }
            if (mine || !sc->items) s.now[w] = c.own[w];
            bool hides = on(TWICE_WRONG) || s.codeword[w] == s.now[w];
            if (!good && (mine || sc->items) && hides) s.codeword[w] = (u8)~s.codeword[w];
        }
        s.added[sc->word[i]]++;
        s.version++;
        refuse(c);
        if (memcmp(s.log, s.added, WORDS)) wrong("the log has something else than was added");
    }

    /* ---- what comes from outside ---- */
    void wild()
    {
        for (int w = 0; w < WORDS && now->hits; w++) {
            if (now->resident)
                step(-1, w ? "WORD 1 OF THE PAGE IS HIT" : "WORD 0 OF THE PAGE IS HIT",
                     [&](State &s) {
                    s.now[w] ^= (u8)(HIT << s.hits);
                    s.hits--;
                });
            for (int i = 0; i < CLIENTS; i++)
                if (now->c[i].pc >= SUMMED && now->c[i].pc <= TOLD)
                    step(i, w ? "HAS WORD 1 OF ITS COPY HIT" : "HAS WORD 0 OF ITS COPY HIT",
                         [&](State &s) {
                        s.c[i].own[w] ^= (u8)(HIT << s.hits);
                        s.c[i].hit = 1;
                        s.hits--;
                    });
        }
    }

    /* ---- the manager ---- */
    void home_write()
    {
        if (!now->writing && now->homes && now->resident && right(*now, 3))
            step(-1, "a home write begins, with word 0", [&](State &s) {
                s.homes--;
                s.writing = 1;
                s.begun = s.version;
                s.out[0] = s.now[0];
            });
        if (now->writing == 1)
            step(-1, "word 1 goes home", [&](State &s) {
                s.writing = 2;
                s.out[1] = s.now[1];
            });
        if (now->writing == 2)
            step(-1, "the home write ends", [&](State &s) {
                bool counts = on(HOME_BEFORE) || right(s, 3);
                counts = counts && (s.begun == s.version || on(HOME_VERSION));
                s.writing = 0;
                if (!counts) return;
                memcpy(s.home, s.out, WORDS);
                s.home_version = s.version;
                if (memcmp(s.home, s.log, WORDS)) wrong("what is home was never committed");
            });
    }
    void eviction()
    {
        bool clean = now->home_version == now->version && !now->writing;
        if (now->resident && clean && now->evictions && (!any_copied(*now) || on(EVICT_COPIED)))
            step(-1, "the page is evicted", [&](State &s) {
                s.evictions--;
                s.resident = 0;
            });
        if (!now->resident)
            step(-1, "the page comes from its home", [&](State &s) {
                s.resident = 1;
                memcpy(s.now, s.home, WORDS);
                memcpy(s.codeword, s.now, WORDS);
            });
    }
    void repair()
    {
        bool busy = now->writing && !on(MEND_WRITING);
        for (const Client &c : now->c) busy |= c.pc == TOLD;
        if (!now->resident || right(*now, 3) || busy) return;
        step(-1, "an audit finds it, and it is mended", [&](State &s) {
            memcpy(s.now, on(MEND_HOME) ? s.home : s.log, WORDS);
            if (!on(MEND_CODEWORD)) memcpy(s.codeword, s.now, WORDS);
            for (Client &c : s.c) c.spoilt = copied(c);
            if (!right(s, 3)) wrong("a page that was mended is damaged");
        });
    }

    /* ---- every state ---- */
    void look(const State &s)
    {
        for (int w = 0; w < WORDS && s.resident; w++)
            if (s.now[w] != s.log[w] && s.codeword[w] == s.now[w])
                wrong("a word is not what was committed, and its codeword does not say so");
    }

    static State start_of(const Scenario &sc)
    {
        State s;
        memset(&s, 0, sizeof s);
        s.resident = 1;
        s.hits = sc.hits;
        s.homes = sc.homes;
        s.evictions = sc.evictions;
        return s;
    }
    void successors(const State &s, bool want_names, std::vector<Successor<State>> &result)
    {
        now = &s;
        out = &result;
        names = want_names;
        look(s);
        for (int i = 0; i < CLIENTS && error.empty(); i++) client(i);
        wild();
        home_write();
        eviction();
        repair();
    }
};

static const Scenario scenarios[] = {
    {"item", "items are locked: one transaction", true, {0, WORDS}, 2, 1, 0},
    {"two", "two of them, in two regions", true, {0, 1}, 2, 1, 1},
    {"same", "two in one region", true, {0, 0}, 2, 1, 1},
    {"page", "pages are locked: one transaction", false, {0, WORDS}, 2, 1, 0},
    {"turns", "two of them, one behind the other", false, {0, 1}, 2, 2, 1},
    {"region", "two in one region, one behind the other", false, {1, 1}, 2, 2, 1},
    {"home", "home writes, evictions", true, {0, 1}, 1, 3, 2},
};

int main(int argc, char **argv)
{
    return commands<Model>("model-codewords", scenarios, argc, argv);
}
