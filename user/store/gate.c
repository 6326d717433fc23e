/*
 * gate.c - who is the committer, and waiting: for checkpoints, and for a while.
 *
 * One thread at a time is inside the gate: the committer for a group, a request's thread for a
 * transaction of the manager's own, or the cleaner for the beginning of a checkpoint. The cleaner
 * goes first, or a busy committer would keep it out until the log is full.
 */
#include "server.h"

void gate_enter(bool cleaner)
{
    uint64_t room = cleaner ? 0 : 1; /* groups that may be in the air: GL2 (group.c) */
    if (cleaner) server.gate_wanted = true;
    while (server.gate_taken || (server.gate_wanted && !cleaner)
           || server.launched - server.landed > room)
        pthread_cond_wait(&server.changed, &server.lock);
    server.gate_taken = true;
    if (cleaner) server.gate_wanted = false;
}

void gate_leave(void)
{
    server.gate_taken = false;
    pthread_cond_broadcast(&server.changed);
}

int checkpoint_wait(void)
{
    uint64_t mine = ++server.checkpoints.wanted;
    pthread_cond_signal(&server.work);
    while (server.checkpoints.done < mine && server.checkpoints.failed < mine && !server.fenced)
        pthread_cond_wait(&server.changed, &server.lock);
    if (server.fenced) return server.fenced;
    return server.checkpoints.done < mine ? -ENOMEM : 0;
}

int server_wait(pthread_cond_t *condition, uint64_t us)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    us += (uint64_t)until.tv_nsec / 1000;
    until.tv_sec += (time_t)(us / 1000000);
    until.tv_nsec = (long)(us % 1000000 * 1000);
    return pthread_cond_timedwait(condition, &server.lock, &until);
}

void server_pause(long ms)
{
    struct timespec time = {.tv_nsec = ms * 1000000};
    server_unlock();
    nanosleep(&time, NULL);
    server_lock();
}
