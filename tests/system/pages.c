/* pages.c - fills an object of 600 pages, reads it in no order, and prints the most pages that were
 * in memory, and how many bytes were wrong (pages.sh). */
#include <pstore.h>
#include <stdio.h>
#include <string.h>

#include "katydid/call.h"

enum { PAGES = 600, BYTES = 4096 };
static ps_container *c;
static unsigned char *object;

static int make(void *unused)
{
    (void)unused;
    object = ps_named(c, "pages", PAGES * BYTES);
    return object ? 0 : -errno;
}

static int fill(void *first)
{
    for (int i = *(int *)first; i < *(int *)first + 50; i++)
        memset(object + i * BYTES, i % 251, BYTES);
    return 0;
}

static unsigned long most, wrong;
static int look(void *unused)
{
    struct kd_system_info s;
    (void)unused;
    for (int i = 0; i < 3 * PAGES; i++) {
        int page = i * 37 % PAGES;
        wrong += object[page * BYTES + i % BYTES] != page % 251;
        kd_call3(KD_SYSTEM_INFO, (long)&s, 0, 0);
        if (i >= PAGES && s.resident_pages > most)
            most = s.resident_pages;
    }
    return 0;
}

int main(void)
{
    c = ps_open("pages", PS_CREATE | PS_WRITE, NULL);
    int error = c ? ps_transaction(make, NULL) : -errno;
    for (int i = 0; !error && i < PAGES; i += 50)
        error = ps_transaction(fill, &i);
    if (!error)
        error = ps_transaction(look, NULL);
    if (error)
        fprintf(stderr, "pages: %s\n", ps_strerror(error));
    else
        printf("at most %lu pages, %lu wrong\n", most, wrong);
    return error != 0;
}
