/*
 * scenarios.h - what is tried in the model: programs for two or three views, and what may happen
 * beside them.
 */
#pragma once
#include "checks.h"

static std::vector<Scenario> scenarios()
{
    std::vector<Scenario> list;
    auto add = [&](const char *name, const char *what,
                   std::vector<std::vector<std::string>> program) -> Scenario & {
        list.push_back({name, what, program});
        return list.back();
    };
    add("skew", "two views read and write crosswise", {{"r0w1"}, {"r1w0"}}).speculate = true;
    add("cache", "rights kept between transactions, called back", {{"r0r1", "r0r1"}, {"w0w1"}});
    {
        auto &s = add("cache1", "the same, one page, speculating MMU, TLB drops",
                      {{"r0", "r0w0"}, {"w0", "r0"}});
        s.pages = 1;
        s.speculate = s.drop = true;
    }
    {
        auto &s = add("upgrade", "both read, then write one page, twice",
                      {{"r0w0", "r0w0"}, {"r0w0", "r0w0"}});
        s.pages = 1;
    }
    {
        auto &s = add("three", "three views, one page", {{"r0w0"}, {"r0w0"}, {"w0"}});
        s.pages = 1;
    }
    add("three2", "three views, two pages, two on one CPU", {{"r0w1"}, {"r1w0"}, {"r0r1"}});
    add("ticket", "a long transaction against a stream of short ones",
        {{"r0w1"}, {"r1w0", "r1w0", "r1w0", "r1w0"}})
        .bound = 1;
    add("snap", "snapshots against writers", {{"w0w1", "w0"}, {"Sr0r1", "Sr1r0"}});
    add("snap3", "snapshot, reader, writer", {{"w0w1"}, {"r0r1"}, {"Sr0r1"}});
    add("order", "reads and writes of others between a commit's steps, seen by a snapshot",
        {{"r0w1"}, {"w0"}, {"Sr0r1"}});
    add("reader", "a reader, then a snapshot, in the middle of a publication",
        {{"w0w1"}, {"r0"}, {"Sr0"}});
    {
        auto &s = add("evict", "pages go out under readers and writers", {{"r0r1r0"}, {"w0w1"}});
        s.evictions = 2;
    }
    {
        auto &s =
            add("evict1", "one page, speculating, three evictions", {{"r0r0", "r0w0"}, {"r0w0"}});
        s.pages = 1;
        s.evictions = 3;
        s.speculate = true;
    }
    {
        auto &s = add("evict3", "eviction, snapshot, commit", {{"r0w1"}, {"w0"}, {"Sr0r1"}});
        s.evictions = 1;
    }
    {
        auto &s = add("kill", "clients die anywhere", {{"r0w1"}, {"r1w0"}});
        s.kills = 2;
    }
    {
        auto &s = add("kill3", "clients die anywhere, three views", {{"w0"}, {"w0"}, {"r0w0"}});
        s.kills = 1;
        s.pages = 1;
    }
    {
        auto &s = add("death", "the manager dies anywhere", {{"r0w1", "r0r1"}, {"r1w0"}});
        s.deaths = 1;
    }
    {
        auto &s = add("death2", "manager and client die, snapshot", {{"w0w1"}, {"Sr0r1", "Sr0"}});
        s.deaths = 1;
        s.kills = 1;
    }
    {
        auto &s = add("refuse", "a commit is refused", {{"w0w1"}, {"r0w1"}});
        s.refusals = 1;
    }
    {
        auto &s = add("credit", "one credit, two writers", {{"w0r1"}, {"r1w1"}});
        s.credits = 1;
    }
    {
        auto &s = add("credit2", "two credits, crossing", {{"w0w1"}, {"w1w0"}});
        s.credits = 2;
        s.kills = 1;
    }
    {
        auto &s = add("group", "group grants", {{"r0w1"}, {"r1w0"}, {"w1"}});
        s.group = true;
    }
    {
        auto &s = add("group2", "group grants, speculating", {{"r0w1"}, {"r1w0"}});
        s.group = s.speculate = true;
    }
    {
        auto &s = add("rmw", "first touches take exclusive rights without a copy",
                      {{"r0w0", "r0"}, {"r0w0", "r0"}});
        s.pages = 1;
        s.rmw = true;
        s.bound = 0;
    }
    {
        auto &s = add("rmw2", "the same, crossing, with a kill", {{"r0r1w0"}, {"r1r0w1"}});
        s.rmw = true;
        s.kills = 1;
    }
    {
        auto &s = add("migrate", "views move between CPUs", {{"r0", "r0w0"}, {"w0", "r0"}});
        s.pages = 1;
        s.migrate = true;
    }
    {
        auto &s = add("migrate2", "views move between CPUs, two pages", {{"r0r1", "r0"}, {"w0w1"}});
        s.migrate = true;
    }
    add("lock", "a container lock against page rights", {{"L0w0r1"}, {"r0w1"}});
    add("lock2", "two container locks and a reader", {{"L0w0"}, {"L0w1"}, {"r0r1"}});
    add("lock3", "shared locks, and a writer", {{"M0r0w1"}, {"M0r1"}, {"w0"}});
    add("lock4", "a shared lock that becomes exclusive, another locker",
        { { "M0L0w0" }, { "r0w1", "w0" } });
    add("lock5", "a container that two use while it is drained",
        { { "L0w0" }, { "r0r1", "r1" }, { "r1r0" } });
    add("lock6", "lockers with rights from before, which nobody used",
        { { "r0", "L0" }, { "r0", "L0" }, { "M0" } })
        .bound = 0;
    add("lock7", "a newcomer while the container is drained", {{"L0"}, {"r0r1"}, {"r0"}}).bound = 0;
    add("lock10", "a lock ends, and its holder waits for who waited for it",
        { { "M0", "w1" }, { "r1w0" } })
        .bound = 0;
    {
        auto &s = add("lock9", "a holder, and who waited in a page's queue before",
                      { { "L0w0" }, { "w0" }, { "w0" } });
        s.bound = 0;
        s.pages = 1;
    }
    {
        auto &s = add("lock8", "escalation: a lock that does not wait; deaths of clients",
                      { { "r0E0w1" }, { "w0" }, { "L0r1" } });
        s.kills = 1;
        s.escalates = true;
    }
    {
        auto &s = add("lock11", "escalation: a lock ends, and its holder begins anew",
                      { { "w0E0", "w0" }, { "w0" } });
        s.escalates = true;
        s.bound = 0;
    }
    {
        auto &s = add("lock12", "escalation: the first fault of who has a shared lock",
                      { { "M0r0" }, { "L0w0" } });
        s.escalates = true;
        s.bound = 0;
    }
    {
        auto &s = add("lock13", "escalation: rights from before, and a first fault",
                      { { "w0E0r1", "r1w0" }, { "w1" } });
        s.escalates = true;
        s.bound = 0;
    }
    {
        auto &s = add("ask", "the manager gives a right for each first touch",
                      { { "r0w0", "r0" }, { "w0r1" } });
        s.asks = 1;
        s.timeouts = s.refusals = 1;
    }
    {
        auto &s = add("ask2", "the same, crossing, with group grants and eviction",
                      { { "r0r1w0" }, { "r1w0" } });
        s.group = true;
        s.asks = s.evictions = 1;
    }
    {
        auto &s = add("ask3", "the same, and the manager dies, or a client", {{"w0w1"}, {"r0w0"}});
        s.asks = s.deaths = s.kills = 1;
    }
    {
        auto &s =
            add("ask4", "questions that end, and answers that come late", { { "r0", "w0", "r0" } });
        s.asks = s.pages = 1;
        s.timeouts = 2;
    }
    {
        auto &s = add("ask5", "a manager that keeps questions in an order, and who asked may go",
                      { { "r0w0" }, { "w0" } });
        s.asks = s.pages = s.timeouts = s.kills = s.order = 1;
    }
    {
        auto &s = add("ask6", "the same, three clients", { { "w0" }, { "r0" }, { "w0" } });
        s.asks = s.pages = s.timeouts = s.order = 1;
    }
    {
        auto &s = add("recall", "rights for all, called back while they are used",
                      { { "r0w0", "r0" }, { "r0" } });
        s.asks = 2;
        s.pages = 1;
        s.recalls = 2;
    }
    {
        auto &s = add("recall2", "the same, two pages, and a writer elsewhere",
                      { { "r0r1" }, { "r1w0" } });
        s.asks = 2;
        s.recalls = 2;
        s.remotes = 1;
    }
    {
        auto &s = add("recall3", "rights for one touch or for all, a writer elsewhere, pages go",
                      { { "r0w0", "r0" } });
        s.asks = 3;
        s.pages = s.evictions = 1;
        s.recalls = s.remotes = 2;
    }
    {
        auto &s = add("recall4", "the manager dies", { { "w0" }, { "r0" } });
        s.asks = 2;
        s.pages = s.deaths = s.recalls = 1;
    }
    {
        auto &s = add("recall5", "commits and questions are refused", { { "w0" }, { "r0", "r0" } });
        s.asks = 2;
        s.pages = s.refusals = s.recalls = 1;
    }
    {
        auto &s = add("recall6", "a client dies", { { "w0" }, { "r0" } });
        s.asks = 2;
        s.pages = s.kills = s.recalls = 1;
    }
    {
        auto &s = add("release", "rights are given up before the end",
                      { { "r0g0" }, { "w0" }, { "x0g0" } });
        s.pages = 1;
    }
    {
        auto &s = add("release2", "who takes a page exclusively that it has read, and a writer",
                      { { "r0x0" }, { "w0" } });
        s.pages = 1;
        s.bound = 0;
    }
    add("exclusive", "pages are taken exclusively, without copies", {{"r0x0w0"}, {"x0r0w1"}})
        .bound = 1;
    {
        auto &s =
            add("lockrw", "container lock with group grants", {{"L0w0w1", "r0"}, {"r0r1", "r1"}});
        s.group = true;
    }
    {
        auto &s = add("lockleaf", "a leaf of two pages, walked in portions",
                      { { "M0", "L0" }, { "r1r0" }, { "w0", "r1" } });
        s.group = true;
    }
    {
        auto &s =
            add("clock", "the replacement clock moves A to USED", {{"r0", "r0w0"}, {"w0", "r0"}});
        s.pages = 1;
        s.hand = s.speculate = true;
    }
    {
        auto &s = add("clock2", "the same with eviction", {{"r0r1", "r0"}, {"w0w1"}});
        s.hand = true;
        s.evictions = 1;
    }
    {
        auto &s = add("snapev", "snapshot, eviction, commits", {{"w0", "w0"}, {"Sr0", "Sr0"}});
        s.pages = 1;
        s.evictions = 2;
    }
    {
        auto &s = add("forget", "leaves are forgotten under snapshots, one over budget",
                      { { "w0" }, { "Sr0", "Sr0" } });
        s.pages = 1;
        s.evictions = s.forgets = 2;
        s.stales = 1;
    }
    {
        auto &s = add("forget2", "leaves are forgotten under readers and writers",
                      { { "r0", "r0r0" }, { "w0", "r0" } });
        s.pages = 1;
        s.evictions = s.forgets = 2;
    }
    {
        auto &s = add("stale", "snapshots over budget", {{"w0w1", "w0"}, {"Sr0r1r0", "Sr1"}});
        s.stales = 1;
    }
    {
        auto &s = add("empty", "stores of equal bytes", {{"z0w1", "r0z0"}, {"r0w0"}});
        s.speculate = true;
    }
    add("kernel", "system calls store into and load from store pages", {{"r0k0r0"}, {"r0q1k0"}});
    {
        auto &s = add("kernel2", "the same with group grants", {{"r0q1"}, {"w1w0"}});
        s.group = true;
    }
    {
        auto &s = add("kernel3", "the same with eviction and the clock", {{"q0k1q0"}, {"k0q1"}});
        s.hand = true;
        s.evictions = 1;
    }
    {
        auto &s = add("credit3", "two credits, three stores", {{"w0w1"}, {"w1"}, {"w1"}});
        s.credits = 2;
    }
    {
        auto &s = add("lockev", "container lock against eviction", {{"L0w0"}, {"r0w1", "w1"}});
        s.evictions = 1;
    }
    {
        auto &s =
            add("credit4", "an aborted writer must not take its credit back before those who wait",
                {{"w0r1"}, {"r1w1"}});
        s.credits = 1;
        s.rmw = true;
    }
    {
        auto &s =
            add("head", "an upgrader with nobody else reading needs no abort", {{"r0w0"}, {"w0"}});
        s.pages = 1;
        s.bound = 0;
    }
    {
        auto &s = add("flush", "a flush fails", {{"w0w1", "r0"}, {"r0w1"}});
        s.flushfails = 1;
    }
    {
        auto &s = add("overlap", "a group is taken while another is flushed",
                      {{"w0", "w0"}, {"w1", "w1"}, {"Sr0r1"}});
        s.overlap = true;
    }
    add("overlap1", "the same, one commit each", {{"w0"}, {"w1"}, {"Sr0"}}).overlap = true;
    {
        auto &s = add("overlap2", "the same, and the flush fails", {{"w0"}, {"w1"}, {"r0r1"}});
        s.overlap = true;
        s.flushfails = 1;
    }
    {
        auto &s = add("lazy", "a strict commit behind lazy ones; pages go home",
                      { { "w0", "w0" }, { "r0w1" } });
        s.lazy = s.evictions = 1;
    }
    {
        auto &s = add("lazy2", "the same in groups that overlap, and a flush fails",
                      { { "w0" }, { "r0w1" }, { "w1" } });
        s.lazy = 1;
        s.overlap = true;
        s.flushfails = 1;
    }
    {
        auto &s = add("lazy3", "the same, and the manager dies", {{"w0", "r1w0"}, {"r0w1"}});
        s.lazy = s.deaths = 1;
    }
    {
        auto &s = add("spill", "copies spill and come back", {{"w0w1r0w0", "r1"}, {"r0w1"}});
        s.spills = 1;
    }
    {
        auto &s = add("spill2", "the same with eviction, credits and a kill", {{"w0w1"}, {"r0"}});
        s.spills = s.evictions = s.kills = 1;
        s.credits = 2;
    }
    {
        auto &s = add("spill3", "a spilled copy is published while its page is read for a snapshot",
                      {{"w0w1"}, {"Sr0", "Sr0"}});
        s.spills = s.evictions = 1;
    }
    {
        auto &s = add("spill4", "the manager loses what it published", {{"w0w1"}, {"r0r1"}});
        s.spills = 1;
        s.loses = true;
    }
    {
        auto &s = add("spill5", "the manager dies", {{"w0w1r0"}, {"r0"}});
        s.spills = s.deaths = 1;
    }
    {
        auto &s = add("spill6", "a copy comes back while its base is evicted",
                      { { "w0w1r0w0" }, { "r0" } });
        s.spills = s.evictions = 1;
    }
    {
        auto &s = add("spill7", "the same, and snapshots have the page mapped",
                      { { "w0w1r0" }, { "Sr0r0", "Sr0" } });
        s.spills = s.evictions = 1;
    }
    {
        auto &s = add("spill8", "the manager asks to be asked again", {{"w0w1r0"}, {"r0"}});
        s.spills = 2;
    }
    {
        auto &s = add("spill9", "the leaf of a page that only the log has is forgotten",
                      { { "w0w1" }, { "Sr0", "r0" } });
        s.spills = s.evictions = s.forgets = 1;
    }
    add("tell", "begin's own words lie in the store", {{"r0", "t0L0r1"}, {"L0w1"}});
    {
        auto &s = add("destroy", "an object is destroyed while a commit is told and published",
                      { { "w0w1" }, { "r1r0w0" }, { "r1" } });
        s.destroys = 1;
    }
    {
        auto &s = add("destroy2", "the same beside a snapshot",
                      { { "w0w1", "w0" }, { "Sr0" } });
        s.destroys = 1;
    }
    {
        auto &s = add("old", "two snapshots of a page that is committed again and again",
                      { { "w0", "w0", "w0" }, { "Sr0" }, { "Sr0" } });
        s.pages = 1;
    }
    {
        auto &s = add("old2", "three snapshots", {{"w0", "w0"}, {"Sr0"}, {"Sr0"}, {"Sr0"}});
        s.pages = 1;
    }
    {
        auto &s = add("old3", "the same of two pages", {{"w0w1", "w0"}, {"Sr0r1"}, {"Sr1"}});
        s.cpu = {0, 1, 1};
    }
    {
        auto &s = add("old4", "pages with old versions go out", {{"w0", "w0"}, {"Sr0r0"}, {"Sr0"}});
        s.pages = 1;
        s.evictions = 2;
    }
    {
        auto &s = add("old5", "the same, and readers", {{"w0", "r0w0"}, {"Sr0r0"}, {"r0r0"}});
        s.pages = 1;
        s.evictions = 1;
    }
    {
        auto &s = add("old6", "a snapshot of two is over its budget",
                      { { "w0", "w0" }, { "Sr0r0" }, { "Sr0r0" } });
        s.pages = s.stales = 1;
    }
    {
        auto &s =
            add("suspend", "a thread with two views, one of them suspended, and another thread",
                { { "r0w0" }, { "w0r1" }, { "w1" } });
        s.suspends = 2;
        s.cpu = {0, 0, 1};
    }
    {
        auto &s = add("suspend2", "the same, crossing, each for each", {{"w0r1"}, {"w1w0"}});
        s.suspends = 1;
        s.cpu = {0, 0, 0};
    }
    {
        auto &s = add("suspend3", "rights go and pages too while a view is suspended",
                      {{"r0r0", "r0"}, {"r1w1"}, {"w0"}});
        s.suspends = s.evictions = 1;
        s.cpu = {0, 0, 1};
    }
    {
        auto &s = add("weight", "two upgraders, the first view is heavier, a client dies",
                      { { "r0w0" }, { "r0w0" } });
        s.heavy = true;
        s.kills = s.pages = 1;
    }
    add("weight2", "the same, crossing", {{"r0w1"}, {"r1w0"}}).heavy = true;
    {
        auto &s =
            add("queue",
                "an upgrader in front of two, of whom the first goes, and a deadlock behind it",
                { { "w1r0" }, { "r0w0" }, { "r0r1" }, { "w0" } });
        s.lead = {2, 1, 0, 3, 0};
    }
    {
        auto &s = add("alias", "a page at two addresses", {{"r0a0w0a0", "a0"}, {"b0", "b0"}});
        s.pages = 1;
    }
    add("alias2", "two pages, crossing", {{"a0b1"}, {"r1b0"}});
    {
        auto &s = add("alias3", "the same, unused rights of a group", {{"r0a1", "a0"}, {"b1"}});
        s.group = true;
    }
    {
        auto &s = add("alias4", "pages go out, and the clock", {{"r0a0r0b0"}, {"a0"}});
        s.pages = 1;
        s.evictions = 2;
        s.hand = true;
    }
    {
        auto &s = add("alias5", "snapshots, and pages go out", {{"w0", "b0"}, {"Sa0r0", "Sa0"}});
        s.pages = s.evictions = 1;
    }
    {
        auto &s = add("alias6", "copies spill, clients die", {{"b0b1r0a0"}, {"a0"}});
        s.spills = s.kills = 1;
    }
    {
        auto &s = add("alias7", "the manager dies", {{"b0a1", "a0"}, {"a0"}});
        s.deaths = 1;
    }
    add("order2", "a snapshot in the middle of a publication of two pages", {{"w0w1"}, {"Sr0r1"}});
    std::stable_partition(list.begin(), list.end(), [](const Scenario &s) {
        return std::string(s.name) != "evict3";
    }); /* the largest last */
    return list;
}
