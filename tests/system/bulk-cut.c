/*
 * bulk-cut.c - loads past the log under power cuts (bulk-cut.sh).
 *
 *     bulk-cut N      N steps more: each is a load of TUPLES tuples, and a commit that changes some
 *                     of those that earlier steps have loaded; `ack STEP` when both are answered
 *     bulk-cut check  `step N`: N loads are there, each as a whole, and the changes of each but
 *                     perhaps the last; or what is wrong
 */
#include <errno.h>
#include <pstore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TUPLES = 400 };
struct tuple { struct tuple *next; uint64_t number, changed; char text[200]; };
struct root { struct tuple *last; uint64_t loads, changes; };
static ps_container *c;

static int load(void *unused)
{
    (void)unused;
    struct root *root = ps_root(c);
    for (uint64_t i = 0; i < TUPLES; i++) {
        struct tuple *t = ps_new(c, struct tuple, NULL);
        if (!t) return -errno;
        t->number = root->loads * TUPLES + i;
        snprintf(t->text, sizeof t->text, "tuple %lu", (unsigned long)t->number);
        t->next = root->last;
        root->last = t;
    }
    root->loads++;
    return 0;
}

/* Each tuple whose number leaves the same rest as the step. */
static int change(void *unused)
{
    (void)unused;
    struct root *root = ps_root(c);
    root->changes++;
    for (struct tuple *t = root->last; t; t = t->next)
        if (t->number % 50 == root->changes % 50) t->changed = root->changes;
    return 0;
}

static uint64_t changed_last(uint64_t number, uint64_t loads, uint64_t changes)
{
    for (uint64_t k = changes; k > 0 && number < (k < loads ? k : loads) * TUPLES; k--)
        if (number % 50 == k % 50) return k;
    return 0;
}

static int check(void *unused)
{
    (void)unused;
    const struct root *root = ps_root(c);
    uint64_t left = root->loads * TUPLES;
    char text[200];
    if (root->changes + 1 < root->loads || root->changes > root->loads) {
        printf("%lu loads, %lu changes\n", (unsigned long)root->loads,
               (unsigned long)root->changes);
        return 1;
    }
    for (const struct tuple *t = root->last; t; t = t->next) {
        snprintf(text, sizeof text, "tuple %lu", (unsigned long)t->number);
        if (!left || t->number != --left || strcmp(t->text, text) ||
            t->changed != changed_last(t->number, root->loads, root->changes)) {
            printf("tuple %lu is wrong: %s, changed by %lu\n", (unsigned long)t->number, t->text,
                   (unsigned long)t->changed);
            return 1;
        }
    }
    if (left) printf("%lu tuples are missing\n", (unsigned long)left);
    else printf("step %lu\n", (unsigned long)root->loads);
    return left != 0;
}

int main(int argc, char **argv)
{
    c = ps_open("bulk", PS_CREATE | PS_WRITE, PS_LAYOUT(struct root, 1));
    if (!c || argc < 2) {
        fprintf(stderr, "bulk-cut: %s\n", c ? "N, or check" : ps_strerror(errno));
        return 1;
    }
    if (!strcmp(argv[1], "check")) return ps_transaction(check, NULL) != 0;
    for (int i = 0; i < atoi(argv[1]); i++) {
        int r = ps_bulk(c, load, NULL);
        if (!r) r = ps_transaction(change, NULL);
        if (r) {
            fprintf(stderr, "bulk-cut: %s\n", ps_strerror(-r));
            return 1;
        }
        printf("ack %d\n", i + 1);
        fflush(stdout);
    }
    return 0;
}
