/*
 * bench-pointers.c - what plain 8-byte pointers cost, and what cold access costs over warm.
 *
 * One search tree is kept twice: its nodes name their children by pointers, and by 4-byte numbers
 * of nodes from the container's start, which any address would do for. `bench-pointers make` makes
 * both; without an argument, best after a reboot, it walks through them: the first walk finds the
 * pages on the disk (cold), the second one has all rights (warm). Then all pointers are rewritten
 * in a transaction that is undone, which is what a store pays that maps at other addresses.
 * Instructions are those of all processes and the kernel, without the idle thread's.
 */
#include <pstore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "katydid/call.h"
#include "tests/bench/measure.h"

enum { NODES = 100000, BLOCK = 1000, BLOCKS = NODES / BLOCK };

struct by_pointer { struct by_pointer *child[2]; uint64_t key, value; };
struct by_number { uint32_t child[2]; uint64_t key, value; };     /* child: number + 1; 0: none */
struct root { struct by_pointer *pointers[BLOCKS]; struct by_number *numbers[BLOCKS]; };

static ps_container *box;

static void need(int error, const char *what)
{
    if (!error)
        return;
    fprintf(stderr, "bench-pointers: %s: %s\n", what, ps_strerror(error < 0 ? -error : error));
    exit(1);
}

/* Each number below NODES once, in no order: the tree is some forty levels deep. */
static uint64_t key_of(uint64_t i) { return (i * 61543 + i / 7 * 7919) % NODES; }

static struct by_pointer *pointer_node(const struct root *root, uint64_t n)
{
    return root->pointers[n / BLOCK] + n % BLOCK;
}

static struct by_number *number_node(const struct root *root, uint32_t n)
{
    return root->numbers[n / BLOCK] + n % BLOCK;
}

static void pointer_insert(struct by_pointer *at, struct by_pointer *node)
{
    struct by_pointer **link;
    while (*(link = &at->child[node->key >= at->key]))
        at = *link;
    *link = node;
}

static void number_insert(const struct root *root, uint32_t number)
{
    uint32_t *link, at = 0;
    while (*(link = &number_node(root, at)->child[number_node(root, number)->key >=
                                                  number_node(root, at)->key]))
        at = *link - 1;
    *link = number + 1;
}

static int make(void *unused)
{
    struct root *root = ps_root(box);
    (void)unused;
    for (int b = 0; b < BLOCKS; b++) {
        root->pointers[b] = ps_alloc(box, BLOCK * sizeof(struct by_pointer), NULL);
        root->numbers[b] = ps_alloc(box, BLOCK * sizeof(struct by_number), NULL);
        if (!root->pointers[b] || !root->numbers[b])
            return -errno;
    }
    for (uint32_t n = 0; n < NODES; n++) {
        *pointer_node(root, n) = (struct by_pointer){.key = key_of(n), .value = n};
        *number_node(root, n) = (struct by_number){.key = key_of(n), .value = n};
        if (n)
            pointer_insert(pointer_node(root, 0), pointer_node(root, n));
        if (n)
            number_insert(root, n);
    }
    return 0;
}

static int there(void *unused)
{
    (void)unused;
    return ((const struct root *)ps_root(box))->pointers[0] ? 0 : -ENOENT;
}

/* ---- walks, in the order of the keys: what they add up */

static uint64_t pointer_sum(const struct by_pointer *n)
{
    uint64_t sum = 0;
    for (; n; n = n->child[1])
        sum = sum + pointer_sum(n->child[0]) + n->value;
    return sum;
}

static uint64_t number_sum(const struct root *root, uint32_t number)
{
    uint64_t sum = 0;
    const struct by_number *n;
    for (; number; number = n->child[1]) {
        n = number_node(root, number - 1);
        sum = sum + number_sum(root, n->child[0]) + n->value;
    }
    return sum;
}

/* ---- what was done meanwhile */

struct spent { uint64_t instructions, reads, bytes; };

static struct spent so_far(void)
{
    struct kd_system_info s;
    kd_call3(KD_SYSTEM_INFO, (long)&s, 0, 0);
    return (struct spent){counter() - s.idle_cycles, s.block_reads, s.block_read_bytes};
}

static struct spent since(struct spent from)
{
    struct spent now = so_far();
    return (struct spent){now.instructions - from.instructions, now.reads - from.reads,
                          now.bytes - from.bytes};
}

enum { BY_POINTER, BY_NUMBER };
struct walks { int kind; struct spent cold, warm; };

static int walk(void *arg)
{
    struct walks *w = arg;
    const struct root *root = ps_root(box);
    for (int pass = 0; pass < 2; pass++) {
        struct spent from = so_far();
        uint64_t sum = w->kind == BY_POINTER ? pointer_sum(pointer_node(root, 0))
                                             : number_sum(root, 1);
        *(pass ? &w->warm : &w->cold) = since(from);
        if (sum != (uint64_t)NODES * (NODES - 1) / 2)
            return -EUCLEAN;
    }
    return 0;
}

/* Every pointer is read, changed and written back. */
static int relocate(void *arg)
{
    const struct root *root = ps_root(box);
    struct spent from = so_far();
    for (uint32_t n = 0; n < NODES; n++)
        for (int i = 0; i < 2; i++)
            if (pointer_node(root, n)->child[i])
                pointer_node(root, n)->child[i] =
                    (void *)((uintptr_t)pointer_node(root, n)->child[i] ^ 16);
    *(struct spent *)arg = since(from);
    return -ECANCELED;
}

static void row(const char *what, const char *which, const char *unit, double value)
{
    printf("%s%s\t%s\t%.*f\t-\n", what, which, unit, value < 10 ? 2 : 0, value);
}

static void rows(const char *which, const struct walks *w, size_t node_bytes)
{
    row("a node, ", which, "bytes", (double)node_bytes);
    row("warm walk, each node, ", which, "instructions", (double)w->warm.instructions / NODES);
    row("cold walk, each node, ", which, "instructions", (double)w->cold.instructions / NODES);
    row("cold walk, read, ", which, "KiB", (double)w->cold.bytes / 1024);
    row("cold walk, requests to the disk, ", which, "requests", (double)w->cold.reads);
    row("cold over warm, ", which, "ratio",
        (double)w->cold.instructions / (double)w->warm.instructions);
}

int main(int count, char **words)
{
    struct walks pointers = {.kind = BY_POINTER}, numbers = {.kind = BY_NUMBER};
    struct spent moved;
    usage(count, words, count == 1 || (count == 2 && strcmp(words[1], "make") == 0),
          "usage: bench-pointers [make]\nMakes two trees, or walks through them; counts "
          "instructions under `make bench ONLY=pointers`.\n");
    box = ps_open("bench-pointers", PS_CREATE | PS_WRITE, PS_LAYOUT(struct root, 1));
    need(box ? 0 : errno, "the container");
    if (count > 1 && strcmp(words[1], "make") == 0) {
        need(ps_transaction(make, NULL), "make");
        return 0;
    }
    if (ps_transaction(there, NULL) != 0) {
        fputs("bench-pointers: nothing is there yet: bench-pointers make\n", stderr);
        return 2;
    }
    need(ps_transaction(walk, &pointers), "walk by pointers");
    need(ps_transaction(walk, &numbers), "walk by numbers");
    int error = ps_transaction(relocate, &moved);
    need(error == -ECANCELED ? 0 : error, "rewrite");
    rows("8-byte pointers", &pointers, sizeof(struct by_pointer));
    rows("4-byte numbers", &numbers, sizeof(struct by_number));
    row("rewriting all pointers, each node", "", "instructions",
        (double)moved.instructions / NODES);
    return 0;
}
