/*
 * voting.c - see voting.h.
 */
#include "threads/voting.h"

struct store_txn_id id_of(unsigned number)
{
    return (struct store_txn_id){{3, [14] = (uint8_t)(number >> 8), [15] = (uint8_t)number}};
}

static struct { struct wire_op op; struct wire_vote vote; } vote_batch;

void vote_post(unsigned i, unsigned number, uint64_t first, uint64_t count, uint64_t value)
{
    vote_batch.op = (struct wire_op){.kind = WIRE_VOTE,
                                     .op_bytes = sizeof(struct wire_op) + sizeof(struct wire_vote)};
    vote_batch.vote = (struct wire_vote){.id = id_of(number), .coordinator = {7}};
    next_batch = &vote_batch;
    next_batch_bytes = sizeof(vote_batch.op) + sizeof(vote_batch.vote);
    commit_post(i, first, count, value);
}

bool answered(unsigned i)
{
    pthread_mutex_lock(&kernel);
    bool is = view[i].answered;
    pthread_mutex_unlock(&kernel);
    return is;
}

int vote(unsigned i, unsigned number, uint64_t first, uint64_t count, uint64_t value)
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

uint64_t logged(void)
{
    static uint64_t before;
    struct store_stats s;
    server_lock();
    store_stats(server.store, &s);
    server_unlock();
    uint64_t bytes = s.log_bytes_written - before;
    before = s.log_bytes_written;
    return bytes;
}
