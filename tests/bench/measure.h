/* measure.h - what the bench programs share: the counter, and how each says how it is used. */
#ifndef MEASURE_H
#define MEASURE_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* With QEMU's -icount: instructions of all processes and the kernel. */
static inline uint64_t counter(void)
{
    uint32_t low, high;
    __asm__ volatile("rdtsc" : "=a"(low), "=d"(high)::"memory");
    return (uint64_t)high << 32 | low;
}

/* The first line of a program's main: --help, or words that are none of the program's (`good` is
 * 0), end it with this text, before anything is measured. */
static inline void usage(int argc, char **argv, int good, const char *text)
{
    int asked = argc == 2 && strcmp(argv[1], "--help") == 0;
    if (good && !asked)
        return;
    fputs(text, asked ? stdout : stderr);
    exit(asked ? 0 : 2);
}

#endif
