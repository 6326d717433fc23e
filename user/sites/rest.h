/*
 * rest.h - a peer that has not answered is left alone for a while: who asks several peers, one
 * after the other, waits for each, and one that is silent would delay all that he asks.
 *
 * Its rest doubles with each silence, whatever it answers between, so it takes a thirtieth of the
 * time at most; who has its port anew (another session) is asked sooner, but a fifth of the time at
 * most. Pure: no calls.
 */
#ifndef USER_SITES_REST_H
#define USER_SITES_REST_H

#include <stdbool.h>
#include <stdint.h>

enum { REST_FIRST_MS = 4000, REST_MOST_MS = 64000, REST_FORGET_MS = 600000, REST_NEW = 8 };
struct rest { uint64_t owner, silent_us; uint32_t ms; };        /* ms 0: it was never silent */

/* rest_over: may the peer, whose port this process has, be asked now? */
static inline bool rest_over(const struct rest *r, uint64_t owner, uint64_t now_us)
{
    uint64_t ms = owner == r->owner ? r->ms : r->ms / REST_NEW;
    return now_us - r->silent_us >= ms * 1000;
}

/* rest_begin: it has not answered. */
static inline void rest_begin(struct rest *r, uint64_t owner, uint64_t now_us)
{
    bool again = r->ms && now_us - r->silent_us < REST_FORGET_MS * 1000ull;
    r->ms = !again ? REST_FIRST_MS : r->ms >= REST_MOST_MS / 2 ? REST_MOST_MS : 2 * r->ms;
    r->owner = owner;
    r->silent_us = now_us;
}

#endif
