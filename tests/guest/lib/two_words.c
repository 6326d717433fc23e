/* two_words.c - two words that stay equal. */
#include "two_words.h"

volatile uint64_t *a, *b;

long both(void *value)
{
    *a = (uint64_t)value;
    *b = (uint64_t)value;
    return 0;
}

long equal(void *out)
{
    *(uint64_t *)out = *a;
    return *a == *b ? 0 : -EBADMSG;
}
