/*
 * small.h - what the small models share: rules of which one is switched at a time, and their
 * commands. A model says its rules as RULES(X), X(name, text), before it includes this; its struct
 * Model has a scenario `sc` and makes the state that it starts from.
 */
#pragma once
#include "engine.h"

typedef uint8_t u8;
#define RULE_NUMBER(name, text) name,
#define RULE_ROW(name, text) {#name, text},
enum rule { RULES(RULE_NUMBER) RULE_COUNT };
static const struct { const char *name, *text; } rules[] = {RULES(RULE_ROW)};
static int broken = -1;                 /* the rule that is switched */
static bool on(enum rule r) { return broken == r; }

/* Steps is what the model of a scenario derives from: the state that it looks at, and the steps
 * that it makes from there. */
template <class State, class Scenario> struct Steps {
    const Scenario *sc;
    std::string error;
    bool in_state = false, names = false;
    const State *now;
    std::vector<Successor<State>> *out;

    void wrong(const char *what) { if (error.empty()) error = what; }
    /* who() says whose step it is, for a trace. */
    template <class Who, class What, class F> void step_of(Who who, const What &what, F change)
    {
        if (!error.empty()) return;
        State s = *now;
        change(s);
        out->push_back({s, names ? who() + what : std::string()});
    }
};

/* Only a model that says what is over() is looked at in that way. */
template <class Model, class Scenario>
auto leads_nowhere(Model &m, const Scenario &sc, int) -> decltype(Model::over(Model::start_of(sc)))
{
    return endless(m, Model::start_of(sc));
}
template <class Model, class Scenario> bool leads_nowhere(Model &, const Scenario &, long)
{
    return false;
}

template <class Model, class Scenario> Verdict run(const Scenario &sc)
{
    Model m;
    m.sc = &sc;
    Verdict v = explore(m, Model::start_of(sc), 20000000);
    if (v.error.empty() && leads_nowhere(m, sc, 0))
        v.error = "steps are made for ever, and lead nowhere";
    return v;
}

template <class Model, class Scenario, size_t N>
int check(const Scenario (&scenarios)[N], const std::string &only)
{
    int bad = 0, known = only.empty();
    for (auto &sc : scenarios) {
        if (!only.empty() && only != sc.name) continue;
        known = 1;
        Verdict v = run<Model>(sc);
        printf("%-8s %8llu states%s  %s\n", sc.name, (unsigned long long)v.states,
               v.complete ? "" : " (not all)", v.error.empty() ? "ok" : v.error.c_str());
        for (auto &line : v.trace) printf("    %s\n", line.c_str());
        bad += !v.error.empty() || !v.complete;
    }
    return !known ? 2 : bad != 0;
}

template <class Model, class Scenario, size_t N>
int teeth(const Scenario (&scenarios)[N], const std::string &only, bool trace)
{
    int bad = 0, known = only.empty();
    for (int r = 0; r < RULE_COUNT; r++) {
        if (!only.empty() && only != rules[r].name) continue;
        known = 1;
        broken = r;
        const Scenario *by = nullptr;
        Verdict v;
        for (auto &sc : scenarios)
            if (!by && !(v = run<Model>(sc)).error.empty()) by = &sc;
        printf("%-16s %s: %s%s%s\n", rules[r].name, rules[r].text, by ? by->name : "NOT NOTICED",
               by ? ": " : "", v.error.c_str());
        if (trace && by)
            for (auto &line : run<Model>(*by).trace) printf("    %s\n", line.c_str());
        bad += !by;
    }
    return !known ? 2 : bad != 0;
}

template <class Model, class Scenario, size_t N>
int commands(const char *program, const Scenario (&scenarios)[N], int argc, char **argv)
{
    std::string mode = argc > 1 ? argv[1] : "", what = argc > 2 ? argv[2] : "";
    if (mode == "check") return check<Model>(scenarios, what);
    if (mode == "teeth" || mode == "trace") return teeth<Model>(scenarios, what, mode == "trace");
    printf("usage: %s check [SCENARIO] | teeth [RULE] | trace RULE\n", program);
    for (auto &sc : scenarios) printf("  %-16s %s\n", sc.name, sc.what);
    for (auto &r : rules) printf("  %-16s %s\n", r.name, r.text);
    return mode == "--help" ? 0 : 2;
}
