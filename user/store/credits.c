/*
 * credits.c - what the kernel may copy for transactions before the log has no room for them.
 *
 * The kernel takes one for each private copy that a transaction makes, and we lend only
 * as many as half of the log has room for, and never more than there is room now; a commit spends
 * those of the pages it logged, and a checkpoint, which releases log, lends them again. When the
 * kernel runs low and all is lent, a grant of nothing says so: it then knows who waits for whom,
 * and ends a transaction that could never be logged with E2BIG.
 */
#include "group.h"

uint64_t credits_target(void)
{
    return server.log_bytes / 2 / CREDIT_BYTES;
}

/* credits_update lends what the log has room for; `all`: also when little is missing. */
void credits_update(bool all)
{
    uint64_t target = credits_target(), log_free = store_log_free(server.store);
    uint64_t reserve = server.log_bytes / 16;
    uint64_t fits = log_free > reserve ? (log_free - reserve) / CREDIT_BYTES : 0;
    uint64_t want = fits < target ? fits : target;
    if (want <= server.credits || (!all && want - server.credits < target / 4)) return;
    if (kd_credit_grant(server.commit_port, want - server.credits) >= 0) server.credits = want;
}
