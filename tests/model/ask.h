/*
 * ask.h - objects whose manager is asked for each first touch (KD_OBJECT_ASK; ask_manager,
 * lock_answer).
 *
 * A question has a number, the kernel's token. The manager may hold one that it received while the
 * view has gone, and asks another; View.hand* is what it holds of this view. `allowed` is what it
 * said yes to in this transaction: what the property is about, nothing that the kernel knows.
 */
#pragma once
#include "lock.h"

struct Ask : Lock {
    using Lock::Lock;
    enum { NOTHING, POSTED, RECEIVED, AGREED, REFUSES }; /* View.asked */

    static int access_of(const View &n) { return n.want == 1 ? 2 : 1; }
    void granted(const State &s, int v, int p, int access)
    {
        if (sc.asks && s.v[v].allowed[p] < access)
            fail("(11) a right that the manager did not agree to");
    }
    /* Does the fault go on? Else a step asks. */
    bool ask_manager(int v)
    {
        const View &V = cur->v[v];
        int p = V.page, access = access_of(V);
        bool agreed =
            V.asked == AGREED && V.askpage1 == p + 1 && (V.askaccess >= access || on(BUG_ASK_READ));
        if (!sc.asks || agreed || (on(BUG_ASK_FAST) && V.allowed[1 - p])) return true;
        step(true, access == 2 ? "ask_manager, store" : "ask_manager, load", v, p, [&](State &s) {
            View &n = s.v[v];
            n.asknum = n.asknum % 7 + 1;
            n.askpage1 = p + 1;
            n.askaccess = access;
            n.asked = POSTED;
            n.woken = 0;
            n.pc = ASKWAIT;
        });
        return false;
    }
    void ask_ends(View &n)
    {
        n.asked = n.askpage1 = n.askaccess = 0;
        n.pc = FAULT;
    }
    void ask_sleeps(int v)
    {
        const View &V = cur->v[v];
        if (V.asked == AGREED)
            step(true, "ask_manager: agreed", v, V.page, [&](State &s) { s.v[v].pc = FAULT; });
        else if (V.asked == REFUSES || V.doom || (V.woken && (cur->dead || V.epoch != cur->epoch)))
            step(true, V.doom ? "ask_manager: leaves, doomed" : "ask_manager: refused", v, V.page,
                 [&](State &s) {
                     View &n = s.v[v];
                     if (!n.doom)
                         n.doom = V.asked == REFUSES ? REFUSED : MANAGER_DEAD;
                     ask_ends(n);
                 });
        else if (cur->timeouts)
            step(false, "ask_manager: its time is up", v, V.page, [&](State &s) {
                s.timeouts--;
                s.v[v].doom = REFUSED;
                ask_ends(s.v[v]);
            });
    }
    void answers(int v)
    {
        const View &V = cur->v[v];
        if (cur->dead) return;
        if (V.asked == POSTED && !V.handnum)
            step(true, "the manager receives LOCK", v, V.askpage1 - 1, [&](State &s) {
                View &n = s.v[v];
                n.asked = RECEIVED;
                n.handnum = n.asknum;
                n.handpage = n.askpage1 - 1;
            });
        if (!V.handnum) return;
        for (int no = 0; no <= (cur->refusals != 0); no++)
            step(!no, no ? "KD_LOCK_ANSWER: no" : "KD_LOCK_ANSWER: yes", v, V.handpage,
                 [&](State &s) {
                     View &n = s.v[v];
                     bool open = n.asked == POSTED || n.asked == RECEIVED,
                          now = n.handnum == n.asknum;
                     s.refusals -= no;
                     if (open && (now || (on(BUG_ASK_ANY) && n.askpage1 == n.handpage + 1))) {
                         n.asked = no ? REFUSES : AGREED;
                         if (now && !no)
                             n.allowed[n.handpage] = n.askaccess;
                     }
                     n.handnum = n.handpage = 0;
                 });
    }
    void asks_over(View &n)
    { /* view_idle */
        if (!on(BUG_ASK_KEPT)) n.asked = n.askpage1 = n.askaccess = 0;
        memset(n.allowed, 0, sizeof n.allowed);
    }
};
