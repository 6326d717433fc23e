/*
 * squares.c - a manager in fifteen lines: an array of squares that is computed where it is touched.
 *
 *     squares &            serves the object "squares": word i of it is i * i
 *     store manager squares squares       makes it the manager of a container, for good: then the
 *                          store starts it whenever somebody opens that
 *     squares 1000000      prints one of them, as a client of either
 *
 * No page of it exists before somebody looks, and the kernel may forget any of them at any time:
 * it asks again. So 64 GiB of squares need only the memory of what is in use.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "manager.h"
#include "pstore.h"

#define WORDS 512ull                    /* of a page */
#define PAGES (16ull << 20)             /* 64 GiB */

/* The policy. */
static void page(struct km_request *r)
{
    uint64_t words[WORDS];
    for (uint64_t i = 0; i < WORDS; i++) {
        uint64_t n = r->page * WORDS + i;
        words[i] = n * n;
    }
    if (km_supply(r, words, 1)) km_fail(r, ENOMEM);
}

static int serve(void)
{
    static const struct km_ops ops = {.page = page};
    struct km_object *object;
    int error = km_container(KM_READ, &ops, NULL, &object);
    if (error == -ENOTCONN) error = km_create("squares", PAGES, KM_READ, &ops, NULL, &object);
    if (!error) error = km_serve(2);
    fprintf(stderr, "squares: cannot serve: %s\n", ps_strerror(error));
    return 1;
}

int main(int argc, char **argv)
{
    if (argc < 2 || km_container_name()) return serve();
    char *end;
    uint64_t n = strtoull(argv[1], &end, 0);
    if (*end) {
        fprintf(stderr, "usage: squares & (serves), squares NUMBER (asks)\n");
        return 2;
    }
    uint64_t words = PAGES * WORDS;
    const uint64_t *squares = km_open("squares", "squares", KM_READ);
    if (!squares) { /* nobody has started it: is it a container's manager? */
        squares = ps_address(ps_open("squares", 0, NULL));
        words = 1ull << 27; /* a GiB of them */
    }
    if (!squares || n >= words) {
        fprintf(stderr, squares ? "squares: that is beyond its end\n"
                                : "squares: nobody serves them; start `squares &`\n");
        return 1;
    }
    printf("%llu\n", (unsigned long long)squares[n]);
    return 0;
}
