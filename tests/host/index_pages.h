/* index_pages.h - pages of a server-kept index in the host's memory, between pages that nobody may
 * touch, and how a disk that lies may have damaged them. */
#ifndef INDEX_PAGES_H
#define INDEX_PAGES_H

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "index_format.h"
#include "structures/tree_private.h"

enum { PAGE = INDEX_NODE_BYTES, PAGES = 96, GUARD = 32, KEYS = 8000 };
static uint8_t *pages;

static uint64_t dice_state;
static unsigned dice(unsigned sides)
{
    dice_state = dice_state * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)((dice_state >> 33) % sides);
}

static int region_make(void)
{
    pages = mmap(NULL, (PAGES + 2 * GUARD) * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (pages == MAP_FAILED)
        return -1;
    pages += GUARD * PAGE;
    return mprotect(pages, PAGES * PAGE, PROT_READ | PROT_WRITE);
}

static struct index_head *head(void)
{
    return (struct index_head *)(void *)pages;
}

static struct ps_node *page(unsigned i)
{
    return (struct ps_node *)(void *)(pages + (size_t)i * PAGE);
}

/* A key of each number. Of strings, the first part makes branches small, and so the tree high; some
 * have little in common with the others. */
struct name { _Alignas(8) char text[INDEX_KEY_MAX + 1]; };
__attribute__((unused)) static unsigned name_make(struct name *n, int strings, unsigned number)
{
    uint64_t spread = number * 1000003ull;
    if (!strings) {
        memcpy(n->text, &spread, sizeof spread);
        return sizeof spread;
    }
    return (unsigned)snprintf(n->text, sizeof n->text, "%0*d%u", number % 1000 < 100 ? 3 : 235,
                              number % 1000 < 100, number);
}

static void *some_address(void)
{
    uint64_t any = (uint64_t)dice(1u << 30) << 20;
    return dice(8) == 0 ? (void *)(uintptr_t)any : page(dice(PAGES + 2)) + (dice(8) == 0);
}

/* Mostly one that is in use. */
static struct ps_node *some_page(void)
{
    uint64_t used = head()->pages;
    return page(used > 2 && used < PAGES && dice(8) ? 2 + dice((unsigned)used - 2) : dice(PAGES));
}

static struct ps_node *some_branch(void)
{
    for (int i = 0; i < 1000; i++) {
        struct ps_node *n = page(dice(PAGES));
        if (n->level > 0 && n->level < 20 && n->count < PAGE / 10)
            return n;
    }
    return some_page();
}

static unsigned odd_number(void)
{
    unsigned limits[] = {0, 1, 2, 8, 24, 32, 255, 256, 512, 528, 1000, 4000, 4064, 4088, 4096,
                         4104, 32768, 65528, 65535};
    return dice(3) ? limits[dice(sizeof limits / sizeof limits[0])] : dice(65536);
}

static void header_damage(struct ps_node *n)
{
    uint16_t *field[] = {&n->level, &n->count, &n->heap, &n->live, &n->prefix};
    *field[dice(5)] = (uint16_t)odd_number();
}

static void child_damage(struct ps_node *n)
{
    unsigned i = n->count < PAGE / 10 ? dice(n->count + 1u) : 0;
    void *child = some_address();
    if (i == 0)
        n->first = child;
    else if (n->slot[i - 1] <= PAGE - sizeof child)
        memcpy((uint8_t *)n + n->slot[i - 1], &child, sizeof child);
}

/* A leaf without entries, whose header is in order, but for how long its prefix is. */
static void prefix_damage(struct ps_node *n)
{
    unsigned prefix = dice(4000) & ~7u;
    *n = (struct ps_node){.heap = (uint16_t)(PAGE - prefix), .live = (uint16_t)prefix,
                          .prefix = (uint16_t)prefix};
}

static void head_damage(void)
{
    struct ps_tree *t = &head()->tree;
    switch (dice(9)) {
    case 0: t->root = some_address(); return;
    case 1: t->height = odd_number() % 32; return;
    case 2: head()->pages = dice(2) ? odd_number() : dice(PAGES + 2); return;
    case 3: t->spare = some_address(); return;
    case 4: t->head.flags = (uint16_t)odd_number(); return;
    case 5: t->head.node_bytes = (uint16_t)odd_number(); return;
    case 6: t->head.fingerprint = dice(2); return;
    default: head()->spare = dice(PAGES + 2);
    }
}

__attribute__((unused)) static void page_damage(void)
{
    struct ps_node *n = some_page();
    uint16_t *words = (uint16_t *)(void *)n;
    switch (dice(9)) {
    case 0: words[dice(PAGE / 2)] = (uint16_t)odd_number(); return;
    case 1: header_damage(n); return;
    case 2: child_damage(some_branch()); return;
    case 3: child_damage(some_branch()); return;
    case 4: head_damage(); return;
    case 5: memcpy(some_page(), n, PAGE); return;
    case 6: prefix_damage(n); return;
    case 7: n->slot[dice(n->count < 1000 ? n->count + 1u : 1)] = (uint16_t)odd_number(); return;
    default: *(uint64_t *)(void *)n = dice(PAGES + 2); /* the next free one, if it is free */
    }
}

#endif
