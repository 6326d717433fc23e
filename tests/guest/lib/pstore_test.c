/* pstore_test.c - commits beside reads of a disk that is slow. */
#include "pstore_test.h"

void disk_slow(void)
{
    puts("ready");
    fflush(stdout);
    (void)!getchar();
}

void disk_slow_end(void)
{
    puts("committed");
    fflush(stdout);
}

int commits_beside(int (*change)(void *), volatile int *reads, int last, int *bad)
{
    int beside = 0;
    for (int now = *reads; beside < BESIDE && now < last; beside++) {
        *bad += ps_transaction(change, NULL) != 0;
        if (*reads != now)
            beside = -1;
        now = *reads;
    }
    return beside;
}
