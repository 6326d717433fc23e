/*
 * manager_votes.h - what clients say of transactions of several stores, over manager_rig.h.
 */
#ifndef TESTS_DISK_MANAGER_VOTES_H
#define TESTS_DISK_MANAGER_VOTES_H

#include "manager_rig.h"

static struct store_txn_id id_of(unsigned number)
{
    return (struct store_txn_id){{3, [14] = (uint8_t)(number >> 8), [15] = (uint8_t)number}};
}

static uint64_t said, word1;            /* word0 of the last answer; of the next questions */
static struct wire_doubt doubt;         /* that WIRE_TXN_NEXT told last */

static int txn(enum wire_txn what, unsigned number, uint64_t token)
{
    struct store_txn_id id = id_of(number);
    bool none = what == WIRE_TXN_VOTER || what == WIRE_TXN_NEXT;
    struct kd_message m = {.kind = STORE_TXN, .process = CLIENT, .token = token,
                           .word = {what, word1}, .buffer = &id,
                           .data_bytes = none ? 0 : sizeof(id)};
    struct kd_message reply = {.handle = -1};
    server_lock();
    int r = txn_serve(&m, &reply, &doubt);
    server_unlock();
    said = reply.word[0];
    return r;
}

static struct { struct wire_op op; struct wire_vote vote; } vote_batch;

static void vote_post(unsigned view, unsigned number, uint64_t first, uint64_t count,
                      uint64_t value)
{
    vote_batch.op = (struct wire_op){.kind = WIRE_VOTE,
                                     .op_bytes = sizeof(struct wire_op) + sizeof(struct wire_vote)};
    vote_batch.vote = (struct wire_vote){.id = id_of(number), .coordinator = {7}};
    next_batch = &vote_batch;
    next_batch_bytes = sizeof(vote_batch.op) + sizeof(vote_batch.vote);
    commit_post(view, first, count, value);
}

static bool answered(unsigned i)
{
    pthread_mutex_lock(&kernel);
    bool is = view[i].answered;
    pthread_mutex_unlock(&kernel);
    return is;
}

/* Posts it and waits for the vote, or its refusal. */
static int vote(unsigned i, unsigned number, uint64_t first, uint64_t count, uint64_t value)
{
    vote_post(i, number, first, count, value);
    for (;; usleep(200)) {
        server_lock();
        struct store_txn_id id = id_of(number);
        const struct vote *v = vote_of(&id);
        bool voted = v && v->prepared;
        server_unlock();
        if (voted) return 0;
        if (answered(i)) return commit_wait(i);
    }
}

static void voter_start(void)
{
    client_start();
    CHECK(vote(0, 99, 0, 1, 5) == -EPERM); /* not yet */
    CHECK(txn(WIRE_TXN_VOTER, 0, 1) == 0);
}

#endif
