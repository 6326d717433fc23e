/* item_scenarios.h - which programs items.cpp goes through. */
/* Behind the programs: kills, refusals, checkpoints, evictions; copies of a page at most; whole
 * images only; a speculating MMU. */
static const Scenario scenarios[] = {
    {"two", "two items of one page", {{"w0"}, {"w1"}}},
    {"then", "each then reads the other's", {{"w0", "r1w0"}, {"w1r0"}}},
    {"late", "a copy is there before the other commits; then its item is read", {{"w0r1"}, {"w1"}}},
    {"shared", "a reader keeps its entry over others' commits", {{"r0", "r0r1"}, {"w0", "w1"}}},
    {"add", "adders of one word", {{"a0"}, {"a0", "r0"}}},
    {"add3", "three adders, then a reader", {{"a0"}, {"a0"}, {"a0", "r0"}}},
    {"half", "two items in one word", {{"l0"}, {"h0", "r0"}}},
    {"half3", "the same, and a neighbour", {{"l0"}, {"h0"}, {"w1r0"}}},
    {"cross", "a deadlock over two pages", {{"w0w2"}, {"w2w0"}}},
    {"skew", "read and written crosswise", {{"r0w2"}, {"r2w0"}}},
    {"skew1", "the same in one page", {{"r0w1"}, {"r1w0"}}},
    {"snap", "snapshots beside a writer", {{"w0w2"}, {"Sr0r2", "Sr0r2"}}},
    {"snap2", "a snapshot beside two writers of a page", {{"w0"}, {"w1"}, {"Sr0r1"}}},
    {"snapmid", "a snapshot that begins amid a publication", {{"a0a2"}, {"a0"}, {"Sr0r2"}}},
    {"snapidle", "entries that outlive their snapshot", {{"w0", "w0"}, {"Sr0", "Sr0", "Sr0"}}},
    {"snapthen", "a snapshot, then a transaction, of one view", {{"w0", "w1"}, {"Sr0", "w1r0"}}},
    {"stray", "a stray store, and who sees the old version", {{"w0x1"}, {"w1"}, {"Sr1r0"}}},
    {"stray2", "the same, behind a whole image", {{"w0", "w1x0"}, {"Sr0r1", "Sr0"}}},
    {"stray3", "the same, of two in one group", {{"w0", "w0x1"}, {"w1"}, {"Sr1"}}},
    {"stray4", "the same, and the next version goes", {{"w0", "w0x1", "w1"}, {"Sr1"}}},
    {"strayev", "the same, and an eviction", {{"w0", "w1x0"}, {"Sr0"}}, 0, 0, 0, 1},
    {"again", "the pages of the transaction before", {{"w0r0", "r0w0r0"}, {"r1w1"}}},
    {"full", "whole images", {{"w0"}, {"w1"}, {"a2a0"}}, 0, 0, 0, 0, 0, true},
    {"phantom", "a scan locks the gap, which is word 1", {{"r1r0r1"}, {"w1w0"}}},
    {"refuse", "a refusal when all is told", {{"w0"}, {"w1"}, {"w0"}}, 0, 1},
    {"refuse2", "the same with adders", {{"a0"}, {"a0a2"}}, 0, 1},
    {"kill", "deaths anywhere", {{"w0a2"}, {"w1a2"}}, 2},
    {"kill3", "deaths, a page of three", {{"w0"}, {"w1"}, {"a0"}}, 1},
    {"check", "a checkpoint beside commits", {{"w0", "w0"}, {"w1"}}, 0, 0, 1},
    {"check2", "two checkpoints", {{"a0", "a0"}, {"a0"}}, 0, 0, 2},
    {"checkref", "a checkpoint, and a refusal", {{"w0"}, {"w1"}}, 0, 1, 1},
    {"spec", "speculative walks", {{"w0", "r0r1"}, {"w1", "r0"}}, 0, 0, 0, 0, 0, false, true},
    {"specsnap", "the same beside a snapshot", {{"w0"}, {"Sr0r1"}}, 0, 0, 0, 0, 0, false, true},
    {"evict", "a page goes home and out", {{"w0", "r0r1"}, {"w1"}}, 0, 0, 0, 1},
    {"evict2", "the same beside a snapshot", {{"w0"}, {"w1"}, {"Sr0r1"}}, 0, 0, 0, 1},
    {"evictcut", "an eviction and a checkpoint", {{"a0"}, {"a0r0"}}, 0, 0, 1, 1},
    {"evictidle", "an eviction between two snapshots", {{"w0"}, {"Sr0", "Sr0"}}, 0, 0, 0, 1},
    {"both", "a word is read, then added to", {{"r0a0"}, {"a0"}}},
    {"lock", "a container lock beside items", {{"c0w0w2"}, {"r0w1", "r2"}}},
    {"lock3", "two container locks and items", {{"c0w0w1"}, {"c0w1"}, {"r0w1"}}},
    {"locksnap", "a container lock, items, a snapshot", {{"c0w0"}, {"w1r0"}, {"Sr0r1"}}},
    {"lockidle", "a container lock between two snapshots", {{"c0w0", "w0"}, {"Sr0", "Sr0"}}},
    {"lockev", "a container lock and an eviction", {{"c0w0"}, {"r0w2"}}, 0, 0, 0, 1},
    {"lockkill", "the same with deaths", {{"c0w0w2"}, {"r0w2"}}, 1},
    {"locklate", "items first, then the container", {{"w0c0w1w2"}, {"w1", "w0"}}},
    {"limit", "one writer too many", {{"l0"}, {"h0"}, {"w1"}}, 0, 0, 0, 0, 2},
    {"limitrun", "one who waits for an owner to go is waited for", {{"l0w3"}, {"h0"}, {"w3w1"}},
     0, 0, 0, 0, 2},
    {"limitall", "all owners wait for who waits for one to go", {{"l0w3"}, {"h0w3"}, {"w3w1"}},
     0, 0, 0, 0, 2},
    {"retry", "one waits until another has written", {{"t0a2"}, {"w0", "r2"}}},
    {"retrymid", "one waits for the second of two", {{"r2t0"}, {"w1", "w0"}}},
    {"retrylock", "one waits for who has the container", {{"t0w1"}, {"c0w0"}}},
    {"retryev", "one waits, and the page goes out", {{"t0"}, {"w1", "w0"}}, 0, 0, 0, 1},
    {"pipe", "groups of three in two pages", {{"w0a2"}, {"w1a2"}, {"a2w3"}}},
};

static Scenario random_scenario(uint64_t seed, std::string text[VIEWS][2])
{
    uint64_t x = seed * 0x9e3779b97f4a7c15ull + 1;
    auto below = [&](int n) {
        x ^= x << 13, x ^= x >> 7, x ^= x << 17;
        return (int)((x >> 20) % (unsigned)n);
    };
    Scenario sc = {"random", "", {}};
    for (int i = 0; i < 9; i++) below(2);
    int views = 2 + below(2);
    bool halves = below(4) == 0;
    for (int v = 0; v < views; v++) {
        bool snapshot = v == 2 && below(2);
        for (int t = 0, txns = views == 3 && !snapshot ? 1 : 1 + below(2); t < txns; t++) {
            std::string &program = text[v][t];
            program = snapshot ? "S" : below(6) == 0 ? "c0" : "";
            for (int n = 1 + below(views == 3 ? 2 : 3); n > 0; n--) {
                int word = below(3);
                char o = snapshot ? 'r' : halves && !word ? "lh"[v > 0]
                                                          : "rrwwaax"[below(6 + !below(6))];
                if (program.size() == 2 && program[0] == 'r' && below(8) == 0) program += "c0";
                program += {o, (char)('0' + (o == 'x' ? 3 : word))};
            }
            sc.program[v][t] = program.c_str();
        }
    }
    if (views == 3 && below(3) == 0) sc.most = 2;
    for (int i = below(3); i > 0; i--) switch (below(5)) {
        case 0: sc.kills = 1; break;
        case 1: sc.refusals = 1; break;
        case 2: sc.checkpoints = 1; break;
        case 3: sc.evictions = 1; break;
        case 4: (below(2) ? sc.full : sc.speculates) = true;
        }
    return sc;
}
