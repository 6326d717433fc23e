/*
 * congeries-cut.c - the load of congeries-cut.sh: congeries beside their model, changed at random
 * until the power goes.
 *
 *     congeries-cut SEED STEPS     each step is a transaction; `ack N`: its commit has returned.
 *     congeries-cut check SEED     compares with the model, which lies in the root.
 */
#include "congeries_model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static ps_container *box;

static int step(void *seed)
{
    struct regions *root = ps_root(box);
    int error = root->region[0] ? 0 : regions_begin(box, *(uint32_t *)seed);
    if (error == 0)
        error = regions_work(box, 40);
    root->step++;
    return error;
}

static int check(void *unused)
{
    const struct regions *root = ps_root(box);
    (void)unused;
    if (root->region[0])
        regions_compare(box);
    printf("step %u: %s\n", root->step, regions_wrong ? regions_wrong : "equal, all of it");
    return 0;
}

int main(int argc, char **argv)
{
    if (argc != 3)
        return 2;
    box = ps_open("congeries", PS_CREATE | PS_WRITE, PS_LAYOUT(struct regions, 1));
    int error = box ? 0 : -errno;
    uint32_t seed = (uint32_t)atoi(argv[1]);
    if (error == 0 && strcmp(argv[1], "check") == 0)
        error = ps_transaction(check, NULL);
    else
        for (int i = 1; i <= atoi(argv[2]) && error == 0; i++)
            if ((error = ps_transaction(step, &seed)) == 0) {
                printf("ack %d\n", i);
                fflush(stdout);
            }
    if (error)
        fprintf(stderr, "congeries-cut: %s\n", ps_strerror(error));
    return error || regions_wrong;
}
