/*
 * turns.c - two threads of a client receive (link.h): what came together is heard by one of them,
 * and before what came later. Each frame asks, so nothing is locked if it is its thread's turn.
 */
#include "turns.h"

#include <pthread.h>
#include <stdatomic.h>

static _Atomic uint64_t turn = 1;
static atomic_uint awaited;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;

void turn_await(uint64_t batch)
{
    if (turn == batch) return;
    pthread_mutex_lock(&lock);
    awaited++;
    while (turn != batch) pthread_cond_wait(&changed, &lock);
    awaited--;
    pthread_mutex_unlock(&lock);
}

/* Who waits says so before it looks, and here it is looked for behind the change. */
void turn_ends(void)
{
    turn++;
    if (!awaited) return;
    pthread_mutex_lock(&lock);
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
}
