/*
 * bug.c - the switch and the list of the planted bugs (bug.h); empty in a normal build.
 */
#include "bug.h"
#include "internal.h"

#ifdef KATYDID_BUGS
enum bug bug_on;

const struct bug_entry bug_table[BUG_COUNT] = {
    { "none", "", "" },
#define BUG_ENTRY(name, class, text) { #name, class, text },
    BUGS(BUG_ENTRY)
#undef BUG_ENTRY
};

static int same(const char *a, const char *b)
{
    while (*a && *a == *b)
        a++, b++;
    return *a == *b;
}

enum bug bug_find(const char *name_or_number)
{
    unsigned number = 0;
    for (const char *p = name_or_number; *p >= '0' && *p <= '9' && number < BUG_COUNT; p++)
        number = number * 10 + (unsigned)(*p - '0');
    if (number)
        return number < BUG_COUNT ? (enum bug)number : BUG_NONE;
    for (unsigned i = 1; i < BUG_COUNT; i++)
        if (same(bug_table[i].name, name_or_number))
            return (enum bug)i;
    return BUG_NONE;
}

int bug_home_looks_new(struct store *store, unsigned long long number, const void *image,
                       void *scratch)
{
    uint64_t offset = store->super.data_start + number * STORE_PAGE_BYTES;
    return store_read(store, offset, scratch, STORE_PAGE_BYTES) == 0 &&
           !memcmp(scratch, image, 512);
}
#else
typedef int no_bugs_here;
#endif
