/*
 * pstore_strict.c - a touch outside a transaction: what is always caught, and what strict mode
 * adds.
 *
 * Method  a child process commits, then touches the container; its end is looked at.
 */
#include "pstore_test.h"

#include <stdlib.h>

struct root { long value; };
static ps_container *c;

static int set_7(void *arg)
{
    (void)arg;
    struct root *r = ps_root(c);
    r->value = 7;
    return 0;
}

static int load(void *arg)
{
    struct root *r = ps_root(c);
    *(struct root **)arg = r;
    return r->value == 7 ? 0 : -EINVAL;
}

/* Reads in a transaction, then outside one. */
static int child(const char *what)
{
    struct root *r = NULL;
    ps_strict(strcmp(what, "load") != 0);
    c = ps_open("strict", PS_WRITE, PS_LAYOUT(struct root, 1));
    if (!c || ps_transaction(load, &r))
        return 99;
    if (strcmp(what, "store") == 0)
        r->value = 8;
    else if (((volatile struct root *)r)->value != 7)
        return 98;
    return 0;
}

int main(int argc, char **argv)
{
    if (argc > 1)
        return child(argv[1]);
    tap_plan(6);
    c = ps_open("strict", PS_CREATE | PS_WRITE, PS_LAYOUT(struct root, 1));
    is(c ? ps_transaction(set_7, NULL) : -errno, 0, "a container with a value");
    is(child_run(argv[0], "store", NULL), 139, "a store outside a transaction ends the program");
    is(child_run(argv[0], "strict", NULL), 139, "in strict mode a load does, too");
    is(child_run(argv[0], "load", NULL), 0, "otherwise a load by a cached right passes");
    struct root *r = NULL;
    is(ps_transaction(load, &r), 0, "nothing was changed");
    is(kd_call3(KD_CHECK, 0, 0, 0), 0, "the kernel's invariants hold");
    return tap_end();
}
