/*
 * fake_box.h - a container `box` in an empty store, anew for each test (test_alloc.c, test_txn.c).
 */
#ifndef FAKE_BOX_H
#define FAKE_BOX_H

#include "fake_store.h"
#include "pstore_private.h"

#include <errno.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

struct root { uint64_t count; void *object; };

static ps_container *container;

static int set_up(void **state)
{
    (void)state;
    fake_reset();
    container = ps_open("box", PS_CREATE | PS_WRITE, PS_LAYOUT(struct root, 1));
    return container ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    fake_look(0);
    return ps_close(container);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

#endif
