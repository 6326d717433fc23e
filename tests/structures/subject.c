/* subject.c - the list of structures under test, and what they share. */
#include "subject.h"

#include <stdio.h>

extern const struct subject subject_bitmap, subject_graph, subject_hash, subject_queue;
extern const struct subject subject_items, subject_large, subject_nested;
extern const struct subject subject_records, subject_rope, subject_rtree, subject_vector;
const struct subject *const subjects[] = {&subject_vector, &subject_bitmap, &subject_queue,
                                          &subject_hash,   &subject_rope,   &subject_rtree,
                                          &subject_records, &subject_graph,  &subject_nested,
                                          &subject_items,  &subject_large,  NULL};

uint32_t subject_seed = 1;
const char *subject_difference;

uint32_t draw(uint32_t below)
{
    subject_seed = subject_seed * 1664525u + 1013904223u;
    return (uint32_t)((uint64_t)subject_seed * below >> 32);
}

void subject_stores(const struct ps_memory *memory, const void *p, size_t bytes)
{
    if (memory->stores)
        memory->stores(memory->arg, p, bytes);
}

void subject_differs(const char *file, int line, const char *what)
{
    static char text[256];
    if (subject_difference)
        return;
    snprintf(text, sizeof text, "%s:%d: %s", file, line, what);
    subject_difference = text;
}
