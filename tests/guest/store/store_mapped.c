/*
 * store_mapped.c - the store with its metadata in an object that it maps and serves itself
 * (store.metadata=mapped, user/store/mapped.c).
 *
 * Aim     transactions, names and recovery are as with metadata in memory of the manager's own.
 * Method  objects are made, changed and freed; the manager is killed in between, and starts again
 *         with the same word on the kernel's command line.
 */
#include <errno.h>
#include <pstore.h>
#include <signal.h>
#include <string.h>

#include "process.h"
#include "system.h"
#include "tap.h"

enum { OBJECTS = 300, LIVES = 3 };
struct object { uint64_t number, life; char other[3000]; };
struct root { struct object *object[OBJECTS]; };
static ps_container *c;
static uint64_t life;

/* Each third one is freed, each second one changed; those that are not there are made. */
static int change(void *number)
{
    uint64_t i = *(uint64_t *)number;
    struct root *root = ps_root(c);
    struct object **at = root ? &root->object[i] : NULL;
    if (!root) return -errno;
    if (*at && i % 3 == 0) {
        ps_free(*at);
        *at = NULL;
    }
    if (!*at && !(*at = ps_new(c, struct object, NULL))) return -errno;
    (*at)->number = i;
    if (i % 2 == 0) (*at)->life = life;
    return i % 10 != 9 || ps_named(c, i % 20 == 9 ? "odd" : "even", 64) ? 0 : -errno;
}

static int look(void *wrong)
{
    struct root *root = ps_root(c);
    int n = 0;
    for (uint64_t i = 0; i < OBJECTS; i++) {
        const struct object *o = root->object[i];
        n += !o || o->number != i || (i % 2 == 0 && o->life != life);
    }
    *(int *)wrong = n;
    return 0;
}

static int one_life(void)
{
    int bad = 0, wrong = -1;
    for (uint64_t i = 0; i < OBJECTS && !bad; i++) bad = ps_transaction(change, &i);
    if (!bad) bad = ps_transaction(look, &wrong);
    return bad ? bad : wrong;
}

/* Ends the manager; init starts another. */
static int manager_anew(void)
{
    int before = store_pid(), wrong = -1;
    kill(before, SIGKILL);
    for (int i = 0; i < 60000 && (store_pid() == before || store_pid() == 0); i++) pause_ms(1);
    ps_close(c);
    for (int i = 0; i < 60000; i++) {
        if ((c = ps_open("mapped", PS_WRITE, PS_LAYOUT(struct root, 1)))) break;
        pause_ms(1);
    }
    int e = c ? ps_transaction(look, &wrong) : -errno;
    return e ? e : wrong;
}

int main(void)
{
    char line[2048] = {0};
    tap_plan(3 + 2 * LIVES);
    kd_call3(KD_KERNEL_COMMAND_LINE, (long)line, sizeof line - 1, 0);
    tap_ok(strstr(line, "store.metadata=mapped") != NULL, "the metadata are mapped");
    c = ps_open("mapped", PS_CREATE | PS_WRITE, PS_LAYOUT(struct root, 1));
    tap_ok(c != NULL, "a container");
    for (life = 1; c && life <= LIVES; life++) {
        is(one_life(), 0, "objects are made, changed and freed");
        is(manager_anew(), 0, "the manager is killed, and another one has them all");
    }
    life = LIVES + 1;
    is(c ? one_life() : -1, 0, "and goes on");
    return tap_end();
}
