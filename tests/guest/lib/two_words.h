/* two_words.h - two words in different pages that every transaction leaves equal. */
#ifndef TWO_WORDS_H
#define TWO_WORDS_H

#include <errno.h>
#include <stdint.h>

static volatile uint64_t *a, *b;

static long both(void *value)
{
    *a = (uint64_t)value;
    *b = (uint64_t)value;
    return 0;
}

static long equal(void *out)
{
    *(uint64_t *)out = *a;
    return *a == *b ? 0 : -EBADMSG;
}

#endif
