/*
 * store_death.c - the store manager's death at each step of a commit or checkpoint is a power cut.
 *
 * Aim     up to the point of commit a transaction is lost, from there on it is kept, at every step;
 *         its client gets an error, connects again, and finds all or nothing of it.
 * Method  the option store.die on the kernel's command line (store_death.opts) names the steps at
 *         which the manager ends, one after the other. Two words in different pages stay equal and
 *         count the commits. Which step it was, and so what must be found, is read there, too.
 */
#include <stdbool.h>
#include <time.h>

#include "store_client.h"
#include "two_words.h"

enum { DEATHS_MAX = 8, COMMITS_MAX = 100 };

static struct wire_opened box;
static uint64_t acknowledged;

/* The steps of store.die into `step`; how many. */
static int deaths(char step[DEATHS_MAX][8])
{
    static char line[2048];
    int n = 0;
    if (kd_call3(KD_KERNEL_COMMAND_LINE, (long)line, sizeof(line), 0) < 0) return 0;
    char *at = strstr(line, "store.die=");
    if (!at) return 0;
    at = strtok(at, " ") + strlen("store.die=");
    for (char *word = strtok(at, ","); word && n < DEATHS_MAX; word = strtok(NULL, ","))
        sscanf(word, "%7[^:]", step[n++]);
    return n;
}

/* Is a commit whose manager ended at that step there afterwards? -1: either way. */
static int outlives(const char *step)
{
    if (step[1] == 'K') return -1; /* beside the commit that the client waits for */
    if (strcmp(step, "CM5w") == 0) return -1;
    if (strcmp(step, "CM7") == 0) return -1; /* the client may have its answer already */
    return strcmp(step, "CM4") != 0 && strcmp(step, "CM5") != 0;
}

/* Commits, with a checkpoint now and then, until the manager dies; what the commit said. */
static long until_death(bool checkpoints)
{
    long r = 0;
    for (int i = 0; i < COMMITS_MAX; i++) {
        r = client_run(both, (void *)(acknowledged + 1));
        if (r < 0) return r;
        acknowledged++;
        if (checkpoints) r = client_call(STORE_CHECKPOINT, 0, 0, 0, NULL, 0, NULL, 0);
        if (r < 0) return r;
    }
    return 0;
}

int main(void)
{
    static char step[DEATHS_MAX][8];
    int n = deaths(step);
    tap_plan(n + 2);
    if (n == 0 || client_reopen("box", PS_CREATE | PS_WRITE, &box) < 0) {
        printf("Bail out! there is no store, or no store.die\n");
        return 1;
    }
    uint64_t *pages = client_lease(box.container, 8, NULL), value = 0;
    a = pages;
    b = pages + 7 * 512;
    for (int i = 0; i < n; i++) {
        long e = until_death(step[i][1] == 'K');
        int r = client_reopen("box", PS_CREATE | PS_WRITE, &box), wanted = outlives(step[i]);
        long found = client_run(equal, &value);
        uint64_t more = value - acknowledged;
        tap_ok(e < 0 && r == 0 && found == 0 && (wanted < 0 ? more <= 1 : more == (uint64_t)wanted),
               "death at %s: the client hears %ld; %llu acknowledged, %llu found (%d, %ld)",
               step[i],
               e, (unsigned long long)acknowledged, (unsigned long long)value, r, found);
        acknowledged = value;
    }
    tap_ok(client_run(both, (void *)(acknowledged + 1)) == 0, "work goes on");
    tap_ok(kd_call3(KD_CHECK, 0, 0, 0) == 0, "kcheck");
    return tap_end();
}
