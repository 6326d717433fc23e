/*
 * main.c - replacement: a read-only container over a file or a disk, of which so many pages are in
 * memory as the manager says, and its policy says which (managers.md).
 *
 *     replacement arc 200 /import/parts &   at most 200 pages, replaced by ARC
 *     replacement                           what the manager has counted so far
 *
 * Policies: fifo, clock, lru2, arc; kernel: none of the manager's own, the kernel has a limit.
 * Clients open the object "replacement" of the manager "replacement". One thread answers: a policy
 * is told what happens in one order.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../source.h"
#include "manager.h"
#include "policy.h"

enum { OUT, FRESH, HERE }; /* FRESH: its last use told is that by which it came */

static struct km_object *object;
static struct source source;
static const struct policy *policy;  /* NULL: the kernel's */
static unsigned frames, in_memory;
static uint8_t *state, *bits;        /* of each page */
static struct replacement_counts counts;

static const struct policy *policy_named(const char *name)
{
    for (const struct policy *const *p = policies(); *p; p++)
        if (strcmp((*p)->name, name) == 0) return *p;
    return NULL;
}

/* Tells the policy what was used since the last time. */
static void uses_tell(void)
{
    counts.looks++;
    if (km_used(object, 0, source.pages, bits) < 0) return;
    for (unsigned page = 0; page < source.pages; page++) {
        if (!(bits[page] & KD_PAGE_USED) || state[page] == OUT) continue;
        if (state[page] == HERE) policy->used(page);
        state[page] = HERE;
    }
}

/* Makes room for a page. One that the policy holds for present was taken by the kernel, which was
 * short of frames: it comes back in its own place. */
static void make_room(unsigned page)
{
    if (state[page] != OUT) {
        counts.again++;
        return;
    }
    if (in_memory == frames) {
        if (counts.requests % (frames / REPLACEMENT_LOOKS + 1) == 0) uses_tell();
        unsigned victim = policy->victim(page);
        state[victim] = OUT;
        counts.evicted += (uint64_t)(km_advise(object, victim, 1, KD_ADVISE_EVICT) == 1);
    } else {
        in_memory++;
    }
    policy->came(page);
    state[page] = FRESH;
}

static void page(struct km_request *r)
{
    static uint8_t bytes[KD_PAGE_BYTES];
    counts.requests++;
    int error = source_read(&source, r->page, bytes);
    if (!error && policy) make_room((unsigned)r->page);
    if (!error) error = km_supply(r, bytes, 1);
    if (error) km_fail(r, error);
}

static void call(struct km_object *o, void *message, int size)
{
    (void)o;
    if (size == sizeof counts) memcpy(message, &counts, sizeof counts);
}

static int serve(const char *policy_name, const char *source_name)
{
    static const struct km_ops ops = {.page = page, .call = call};
    int error = source_open(&source, source_name);
    if (error) return error;
    state = calloc(source.pages, 1);
    bits = malloc(source.pages);
    if (!state || !bits || source.pages > UINT32_MAX) return -ENOMEM;
    policy = policy_named(policy_name);
    error = policy ? policy->start((unsigned)source.pages, frames) : 0;
    if (!error) error = km_create("replacement", source.pages, KM_READ, &ops, NULL, &object);
    if (!error) error = km_advise(object, 0, 1, KD_ADVISE_RANDOM); /* a page each time */
    if (frames < source.pages && !error && !policy)
        error = km_advise(object, 0, frames, KD_ADVISE_MEMORY);
    return error ? error : km_serve(1);
}

static int show(void)
{
    struct replacement_counts c;
    int error = km_call("replacement", "replacement", &c, sizeof c);
    if (error) {
        fprintf(stderr, "replacement: %s\n", ps_strerror(error));
        return 1;
    }
    printf("%lu pages asked for, %lu sent out, %lu looks at uses\n", c.requests, c.evicted,
           c.looks);
    return 0;
}

int main(int argc, char **argv)
{
    if (argc == 1) return show();
    frames = argc == 4 ? (unsigned)strtoul(argv[2], NULL, 10) : 0;
    if (frames < KD_MEMORY_LEAST || (!policy_named(argv[1]) && strcmp(argv[1], "kernel") != 0)) {
        fprintf(stderr, "usage: replacement fifo|clock|lru2|arc|kernel FRAMES FILE-OR-DISK\n"
                        "At least %d frames. Without arguments: what was counted.\n",
                KD_MEMORY_LEAST);
        return 2;
    }
    int error = serve(argv[1], argv[3]);
    fprintf(stderr, "replacement: cannot serve %s: %s\n", argv[3], ps_strerror(error));
    return 1;
}
