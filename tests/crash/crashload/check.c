/*
 * check.c - crashload check: CL1 to CL6 and CL8, by plain pointers, in one transaction.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "load.h"

struct wanted {                          /* by the counters */
    uint64_t counter[PROCESSES];
    int64_t amount[ACCOUNTS];
    struct step node[WORKERS][SLOTS];    /* number 0: no node there */
    int nodes;
};

static void wanted_count(struct wanted *w)
{
    for (int i = 0; i < ACCOUNTS; i++)
        w->amount[i] = START;
    for (unsigned p = 0; p < WORKERS; p++) {
        for (unsigned n = 1; n <= w->counter[p]; n++) {
            struct step s = step_of(p, n), *node = &w->node[p][s.slot];
            if (s.transfer) {
                w->amount[s.from] -= s.amount;
                w->amount[s.to] += s.amount;
            } else if (node->number) {
                w->nodes--;
                node->number = 0;
            } else {
                w->nodes++;
                *node = s;
            }
        }
    }
}

static const char *node_wrong(const struct node *node, const struct step *s)
{
    if (node->process != s->process || node->number != s->number || node->bytes != s->bytes ||
        node->slot != s->slot)
        return "a node is not the one that should be there (CL2)";
    for (unsigned i = 0; i < node->bytes; i++)
        if (node->text[i] != text_of(s->process, s->number, i))
            return "the bytes of a node changed (CL2)";
    return NULL;
}

static const char *account_wrong(const struct account *a, int index, const struct wanted *w)
{
    if (a->amount != w->amount[index])
        return "an account does not hold what the transfers left (CL1)";
    if (!a->number)
        return NULL;
    if (a->process >= WORKERS || a->number > w->counter[a->process])
        return "an account remembers a transfer that is not counted (CL4)";
    struct step s = step_of(a->process, a->number);
    return s.transfer && ((int)s.from == index || (int)s.to == index)
               ? NULL : "an account remembers a transfer of others (CL4)";
}

static int node_is_known(const struct load *load, const struct node *node)
{
    return node->process < WORKERS && node->slot < SLOTS &&
           load->process[node->process]->node[node->slot] == node;
}

static const char *ring_wrong(const struct load *load, const struct wanted *w)
{
    const struct node *ring = (const struct node *)&load->ring, *at = ring;
    for (int i = 0; i <= w->nodes; i++, at = at->next) {
        if (at->next->prev != at)
            return "the list's links differ (CL3)";
        if (i > 0 && !node_is_known(load, at))
            return "the list holds a node that nobody has (CL3)";
    }
    return at == ring ? NULL : "the list does not hold as many nodes as it should (CL3)";
}

/* Keys from `low` to below `high`, priorities below `top`; *left nodes are still to come. */
static const char *tree_wrong(const struct load *load, const struct node *node, uint64_t low,
                              uint64_t high, uint64_t top, int *left)
{
    if (!node)
        return NULL;
    if (--*left < 0 || !node_is_known(load, node))
        return "the tree holds a node that nobody has (CL5)";
    uint64_t key = tree_key(node), priority = tree_priority(node);
    if (key < low || key >= high || priority >= top)
        return "the tree is not in order (CL5)";
    const char *wrong = tree_wrong(load, node->left, low, key, priority, left);
    return wrong ? wrong : tree_wrong(load, node->right, key + 1, high, priority, left);
}

static const char *load_wrong(const struct load *load, const struct wanted *w)
{
    const char *wrong = NULL;
    int left = w->nodes;
    for (int i = 0; i < ACCOUNTS && !wrong; i++)
        wrong = account_wrong(load->account[i], i, w);
    for (int i = 0; i < NODES_MAX && !wrong; i++) {
        const struct step *s = &w->node[i / SLOTS][i % SLOTS];
        const struct node *node = load->process[i / SLOTS]->node[i % SLOTS];
        if (!node != !s->number)
            wrong = "a node is missing, or too many (CL2)";
        else if (node)
            wrong = node_wrong(node, s);
    }
    if (!wrong)
        wrong = ring_wrong(load, w);
    if (!wrong)
        wrong = tree_wrong(load, load->tree, 0, ~0ull, ~0ull, &left);
    return wrong || left == 0 ? wrong : "the tree does not hold as many nodes as it should (CL5)";
}

struct check { struct wanted wanted; const char *wrong; };

static int check_all(void *arg)
{
    struct check *check = arg;
    struct load *load = ps_root(container);
    memset(check, 0, sizeof(*check));
    if (!load)
        return -errno;
    if (!load->ready)
        return 0;
    for (int i = 0; i < WORKERS; i++)
        check->wanted.counter[i] = load->process[i]->counter;
    wanted_count(&check->wanted);
    check->wrong = load->seed == seed ? load_wrong(load, &check->wanted) : "it is of another seed";
    return 0;
}

int check(int count, char **least)
{
    static struct check all;
    const char *wrong = NULL;
    int error = ps_transaction(check_all, &all);
    if (!error)
        error = volume_counter(&all.wanted.counter[VOLUMES], &wrong);
    if (!error && !wrong)
        error = large_counter(&all.wanted.counter[LARGE], &wrong);
    if (error)
        return error;
    if (!all.wrong)
        all.wrong = wrong;
    printf("counters");
    for (int i = 0; i < PROCESSES; i++) {
        printf(" %llu", (unsigned long long)all.wanted.counter[i]);
        if (i < count && all.wanted.counter[i] < strtoull(least[i], NULL, 10))
            all.wrong = "an acknowledged transaction is missing";
    }
    printf("\n%s\n", all.wrong ? all.wrong : "sound");
    return all.wrong ? 1 : 0;
}
