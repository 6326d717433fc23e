/*
 * engine.h - a small explicit-state model checker: breadth first, so every counterexample is a
 * shortest one.
 *
 * A model gives a plain struct State (no padding that is not zeroed) and successors(). Visited
 * states are kept as 64-bit fingerprints (hash compaction); the path to an error is rebuilt by
 * replaying successor numbers from the start.
 */
#pragma once
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string>
#include <unordered_map>
#include <vector>

struct Visited { /* open addressing; 0 marks a free slot */
    std::vector<uint64_t> slot;
    size_t used = 0;
    Visited() : slot(1 << 16) {}
    bool add(uint64_t key)
    {
        if (!key) key = 1;
        if (used * 2 > slot.size()) grow();
        if (!put(key)) return false;
        used++;
        return true;
    }
    bool put(uint64_t key)
    {
        size_t mask = slot.size() - 1, i = key & mask;
        for (; slot[i]; i = (i + 1) & mask)
            if (slot[i] == key) return false;
        slot[i] = key;
        return true;
    }
    void grow()
    {
        std::vector<uint64_t> old(slot.size() * 2);
        old.swap(slot);
        for (uint64_t key : old)
            if (key) put(key);
    }
};

inline uint64_t fingerprint(const void *data, size_t bytes)
{
    const uint8_t *p = (const uint8_t *)data;
    uint64_t h = 0x9E3779B97F4A7C15ull, w;
    for (size_t i = 0; i < bytes; i += 8) {
        w = 0;
        memcpy(&w, p + i, bytes - i < 8 ? bytes - i : 8);
        h = (h ^ w) * 0xFF51AFD7ED558CCDull;
        h ^= h >> 32;
    }
    return h * 0xC4CEB9FE1A85EC53ull ^ h >> 29;
}

template <class State> struct Successor {
    State s;
    std::string label;
};

struct Verdict {
    std::string error;
    uint64_t states = 0;
    unsigned depth = 0;
    double seconds = 0;
    bool complete = true;
    std::vector<std::string> trace;
};

/*
 * Model: void successors(const State &, bool names, std::vector<Successor<State>> &out)  - sets
 * model.error on a violation; the successor in which it happened is the last one in out. error
 * survives until cleared.
 */
template <class Model, class State>
Verdict explore(Model &model, const State &start, uint64_t limit)
{
    struct Node {
        uint32_t parent;
        uint16_t number;
    };
    auto t0 = std::chrono::steady_clock::now();
    Verdict v;
    Visited seen;
    std::vector<Node> nodes{{0, 0}};
    std::vector<std::pair<State, uint32_t>> now{{start, 0}}, next;
    std::vector<Successor<State>> out;
    uint32_t bad = 0;
    int bad_number = -1;
    seen.add(fingerprint(&start, sizeof start));
    while (!now.empty() && v.error.empty()) {
        for (auto &[s, id] : now) {
            out.clear();
            model.successors(s, false, out);
            if (!model.error.empty()) {
                v.error = model.error;
                bad = id;
                bad_number = model.in_state ? -1 : (int)out.size() - 1;
                break;
            }
            for (size_t i = 0; i < out.size(); i++)
                if (seen.add(fingerprint(&out[i].s, sizeof(State)))) {
                    next.push_back({out[i].s, (uint32_t)nodes.size()});
                    nodes.push_back({id, (uint16_t)i});
                }
            if (nodes.size() > limit) {
                v.complete = false;
                break;
            }
        }
        if (!v.complete) break;
        v.depth++;
        now.swap(next);
        next.clear();
    }
    if (!v.error.empty()) { /* replay for the trace */
        std::vector<int> path;
        if (bad_number >= 0) path.push_back(bad_number);
        for (uint32_t id = bad; id; id = nodes[id].parent) path.push_back(nodes[id].number);
        State s = start;
        model.error.clear();
        for (size_t i = path.size(); i-- > 0;) {
            out.clear();
            model.successors(s, true, out);
            v.trace.push_back(out[path[i]].label);
            s = out[path[i]].s;
        }
        model.error.clear();
    }
    v.states = nodes.size();
    v.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - t0).count();
    return v;
}

/*
 * endless tells whether there is a state from which no step leads to an end any more, though steps
 * are made for ever. Model: static bool over(const State &), whether all is done. After explore()
 * of the same, without an error.
 */
template <class Model, class State> bool endless(Model &model, const State &start)
{
    std::unordered_map<uint64_t, uint32_t> number{{fingerprint(&start, sizeof start), 0}};
    std::vector<State> states{start};
    std::vector<std::vector<uint32_t>> before(1);
    std::vector<Successor<State>> out;
    std::vector<uint32_t> ends;
    for (uint32_t i = 0; i < states.size(); i++) {
        out.clear();
        State s = states[i];
        model.successors(s, false, out);
        if (Model::over(s)) ends.push_back(i);
        for (auto &to : out) {
            auto [at, is_new] = number.emplace(fingerprint(&to.s, sizeof(State)), states.size());
            if (is_new) {
                states.push_back(to.s);
                before.emplace_back();
            }
            before[at->second].push_back(i);
        }
    }
    std::vector<bool> comes(states.size());
    size_t count = 0;
    while (!ends.empty()) {
        uint32_t i = ends.back();
        ends.pop_back();
        if (comes[i]) continue;
        comes[i] = true;
        count++;
        ends.insert(ends.end(), before[i].begin(), before[i].end());
    }
    return count < states.size();
}
