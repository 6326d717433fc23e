/*
 * volatile.c - a store whose containers are in memory alone (managers.md).
 *
 *     volatile &                      the store "volatile", containers of up to 64 MiB each
 *     volatile --scratch mine 16 &    the store "mine", 16 MiB each; each ends with its last user
 *
 * It is a store of manager_store.h without a policy for its pages: zero at first, and in memory
 * from then on. ps_connect("volatile") or PS_STORE=volatile is all that a program has to say.
 * Transactions are isolated and atomic, snapshots work; a commit writes nothing anywhere.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "manager_store.h"

enum { DEFAULT_MIB = 64, MIB_MAX = 4096, PAGES_A_MIB = 256 };

int main(int argc, char **argv)
{
    int scratch = argc > 1 && strcmp(argv[1], "--scratch") == 0;
    const char *name = argc > 1 + scratch ? argv[1 + scratch] : scratch ? "scratch" : "volatile";
    uint64_t mib = argc > 2 + scratch ? strtoull(argv[2 + scratch], NULL, 10) : DEFAULT_MIB;
    if (argc > 3 + scratch || name[0] == '-' || mib == 0 || mib > MIB_MAX) {
        fprintf(stderr, "usage: volatile [--scratch] [NAME [MIB]]\n"
                        "A store in memory; each of its containers has up to MIB MiB (%d).\n",
                DEFAULT_MIB);
        return 2;
    }
    int e = km_store_serve(&(struct km_store){.name = name, .pages = mib * PAGES_A_MIB,
                                              .scratch = scratch}, 1);
    fprintf(stderr, "volatile: cannot serve %s: %s\n", name, ps_strerror(e));
    return 1;
}
