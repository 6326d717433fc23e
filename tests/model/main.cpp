/* main.cpp - the driver: the correct model must pass all scenarios; each rule switched must fail in
 * one. */
#include "model.h"
#include "scenarios.h"
#include <algorithm>
#include <cstdlib>

static const char *rule_name[] = {
#define X(name, text) #name,
    RULES(X)
#undef X
};
static const char *rule_text[] = {
#define X(name, text) text,
    RULES(X)
#undef X
};

/* The view alone, until it has done its next operation or sleeps. */
static void leads(Model &m, State &s, int v)
{
    std::string who = "V" + std::to_string(v);
    std::vector<Successor<State>> out;
    for (int op = s.v[v].op; s.v[v].op == op && s.v[v].pc != SLEEP;) {
        out.clear();
        m.successors(s, true, out);
        s = std::find_if(out.begin(), out.end(), [&](const Successor<State> &n) {
                return n.label.find(who) == 0 && n.label.find("is killed") == std::string::npos;
            })->s;
    }
}

static Verdict run(const Scenario &sc, Rules rules, uint64_t limit, bool *mattered = nullptr)
{
    Model m(sc, rules);
    State s = m.start();
    if (sc.rmw)
        for (auto &v : s.v) v.rmw = 1;
    for (int v : sc.lead) leads(m, s, v);
    Verdict v = explore(m, s, limit);
    if (mattered) *mattered = m.mattered;
    return v;
}

/* A random scenario: 2 or 3 views, 1 or 2 transactions each of 1 to 3 operations, and a few of the
 * hazards. */
static Scenario random_scenario(uint64_t seed, std::string &text)
{
    uint64_t x = seed * 0x9E3779B97F4A7C15ull + 1;
    auto rnd = [&](int n) {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        return (int)((x >> 20) % n);
    };
    for (int i = 0; i < 9; i++) rnd(2);
    Scenario sc{"random", "", {}};
    int views = 2 + (rnd(3) == 0), snapshots = rnd(3) == 0, locks = rnd(5) == 0;
    for (int v = 0; v < views; v++) {
        bool snap = snapshots && v == views - 1;
        sc.program.push_back({});
        for (int t = views == 3 ? 1 : 1 + rnd(2); t-- > 0;) {
            std::string b = snap ? "S" : locks && rnd(2) ? "L0" : "";
            for (int n = 1 + rnd(views == 3 ? 2 : 3); n-- > 0;) {
                b += snap ? 'r' : "rrrwwwzkq"[rnd(9)];
                b += '0' + rnd(2);
            }
            sc.program.back().push_back(b);
        }
    }
    sc.escalates = locks && seed % 2;
    int hazards = rnd(3) + 1;
    std::string flags;
    for (int i = 0; i < hazards; i++) switch (rnd(12)) {
        case 0:
            sc.speculate = true;
            flags += " speculate";
            break;
        case 1:
            sc.drop = true;
            flags += " drop";
            break;
        case 2:
            sc.migrate = true;
            flags += " migrate";
            break;
        case 3:
            sc.spills = 1;
            flags += " spill";
            break;
        case 4:
            sc.group = true;
            flags += " group";
            break;
        case 5:
            sc.rmw = true;
            flags += " rmw";
            break;
        case 6:
            sc.hand = true;
            flags += " hand";
            break;
        case 7:
        case 8:
            sc.evictions = 1;
            flags += " evict";
            break;
        case 9:
            sc.kills = 1;
            flags += " kill";
            break;
        case 10:
            sc.deaths = 1;
            flags += " death";
            break;
        case 11:
            if (rnd(3) == 0) {
                sc.overlap = true;
                sc.flushfails = rnd(2);
                flags += " overlap";
            } else if (rnd(2)) {
                sc.refusals = 1;
                flags += " refuse";
            } else if (snapshots) {
                sc.stales = 1;
                flags += " stale";
            } else {
                sc.credits = 2;
                flags += " credits=2";
            }
            break;
        }
    if (seed % 4 == 0) {
        sc.lazy = 1;
        flags += " lazy";
    }
    for (auto &t : sc.program[0]) /* some touches at a second address */
        for (size_t i = 0; seed % 5 == 0 && i < t.size(); i++)
            if ((t[i] == 'r' || t[i] == 'w') && rnd(2)) t[i] = t[i] == 'r' ? 'a' : 'b';
    if (views == 3 && rnd(2)) sc.cpu = {0, 1, 1};
    sc.bound = 2 + (int)sc.program.size() * 2;
    for (auto &v : sc.program) {
        for (auto &t : v) text += t + " ";
        text += "| ";
    }
    if (sc.escalates) flags += " escalates";
    text += flags;
    return sc;
}

/* check: the protocol; every scenario must pass. */
static int check(const std::vector<Scenario> &list, const std::string &only, uint64_t limit)
{
    uint64_t sum = 0;
    int bad = 0, done = 0;
    for (auto &sc : list) {
        if (!only.empty() && only != sc.name) continue;
        Verdict v = run(sc, -1, limit);
        sum += v.states;
        bad += !v.error.empty();
        printf("%s %d - %s: %s: %llu states, depth %u%s%s\n", v.error.empty() ? "ok" : "not ok",
               ++done, sc.name, sc.what, (unsigned long long)v.states, v.depth,
               v.complete ? "" : " (bounded)", v.error.empty() ? "" : (": " + v.error).c_str());
        for (auto &l : v.trace) printf("#     %s\n", l.c_str());
        if (!v.error.empty()) printf("# again: build/tests/model check %s\n", sc.name);
        fflush(stdout);
    }
    printf("1..%d\n# %llu states\n", done, (unsigned long long)sum);
    return bad || !done;
}

/* The first scenario that a rule breaks; deeper and deeper, as most are broken soon, and first
 * where a step looked at the rule. */
static Verdict broken(const std::vector<Scenario> &list, const std::string &only, int rule,
                      uint64_t limit, std::string &where)
{
    struct {
        uint64_t bound;
        bool all;
    } pass[] = {
        { 700, true }, { 5000, true }, { 50000, false }, { 500000, false }, { 500000, true }, { limit, true }
    };
    std::vector<char> complete(list.size()), mattered(list.size());
    for (auto &now : pass)
        for (size_t i = 0; i < list.size(); i++) {
            auto &sc = list[i];
            bool looked;
            if ((!only.empty() && only != sc.name) || complete[i] || !(now.all || mattered[i]))
                continue;
            Verdict v = run(sc, rule, now.bound, &looked);
            where = sc.name;
            if (!v.error.empty()) return v;
            complete[i] = v.complete;
            mattered[i] = looked;
        }
    where = "";
    return {};
}

/* teeth: each rule switched, alone: some scenario must fail. trace: with the steps that lead there.
 */
static int teeth(const std::vector<Scenario> &list, const std::string &only,
                 const std::string &rule, uint64_t limit, bool trace)
{
    int bad = 0, done = 0;
    for (int r = 0; r < RULE_COUNT; r++) {
        std::string where;
        if (!rule.empty() && rule != rule_name[r]) continue;
        Verdict v = broken(list, only, r, limit, where);
        bad += v.error.empty();
        printf("%s %d - %s: %s [%s: %s]\n", v.error.empty() ? "not ok" : "ok", ++done, rule_name[r],
               rule_text[r], where.c_str(), v.error.empty() ? "not noticed" : v.error.c_str());
        if (trace)
            for (auto &l : v.trace) printf("#     %s\n", l.c_str());
        fflush(stdout);
    }
    printf("1..%d\n", done);
    return bad || !done;
}

/* sweep: random scenarios, the protocol. */
static int sweep(uint64_t seed, uint64_t count, uint64_t limit)
{
    uint64_t whole = 0, sum = 0;
    int bad = 0;
    for (uint64_t i = seed; i < seed + count && bad < 3; i++) {
        std::string text;
        Scenario sc = random_scenario(i, text);
        Verdict v = run(sc, -1, limit);
        sum += v.states;
        whole += v.complete;
        if (v.error.empty()) continue;
        bad++;
        printf("# seed %llu: %s: %s; again: build/tests/model sweep %llu 1\n",
               (unsigned long long)i, text.c_str(), v.error.c_str(), (unsigned long long)i);
        for (auto &l : v.trace) printf("#     %s\n", l.c_str());
    }
    printf("%s 1 - %llu random scenarios from seed %llu, %llu explored completely, %llu "
           "states\n1..1\n",
           bad ? "not ok" : "ok", (unsigned long long)count, (unsigned long long)seed,
           (unsigned long long)whole, (unsigned long long)sum);
    return bad != 0;
}

int main(int argc, char **argv)
{
    std::string mode = argc > 1 ? argv[1] : "help", a = argc > 2 ? argv[2] : "",
                b = argc > 3 ? argv[3] : "";
    uint64_t limit = getenv("LIMIT") ? strtoull(getenv("LIMIT"), 0, 10) : 20000000;
    auto list = scenarios();
    if (mode == "check") return check(list, a, limit);
    if (mode == "teeth") return teeth(list, "", a, limit, false);
    if (mode == "trace") return teeth(list, b, a, limit, true);
    if (mode == "sweep")
        return sweep(a.empty() ? 1 : strtoull(a.c_str(), 0, 10),
                     b.empty() ? 1000 : strtoull(b.c_str(), 0, 10), limit);
    printf("usage: model check [SCENARIO] | teeth [RULE] | trace RULE [SCENARIO] | sweep SEED "
           "[COUNT]\n");
    for (auto &sc : list) printf("  %-9s %s\n", sc.name, sc.what);
    for (int r = 0; r < RULE_COUNT; r++) printf("  %-22s %s\n", rule_name[r], rule_text[r]);
    return 2;
}
