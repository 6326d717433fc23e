/*
 * pstore_many.c - more containers than any table on the way has places.
 *
 * Aim     every container is listed, once, however many there are, by as many requests as it takes;
 *         and the array that the caller gave is filled no further than it said. Any number of
 *         containers can be opened one after the other, and each has what was stored in it; only
 *         how many a process has open at a time has a limit, and an open that fails at it leaves no
 *         container behind.
 * Method  70 containers, more than four times what one answer holds, each with its number in its
 *         name; `pstore_many N`: N of them instead, opened twice. Bare requests open one more at a
 *         time until that is refused.
 */
#include <stdlib.h>

#include "store_client.h"

struct page { uint64_t number; };

static const char *name_of(int number)
{
    static char name[16];
    snprintf(name, sizeof name, "many%05d", number);
    return name;
}

/* ---- 70 containers, listed ---- */

enum { LISTED = 70 };

/* How many of `list` are ours, if each is there once; else -1. */
static int ours_once(const struct ps_info *list, int count)
{
    char seen[LISTED] = {0};
    int found = 0;
    for (int i = 0; i < count; i++) {
        int number = -1;
        if (sscanf(list[i].name, "many%d", &number) != 1 || number < 0 || number >= LISTED)
            continue;
        if (seen[number]++)
            return -1;
        found++;
    }
    return found;
}

static void test_list(void)
{
    static struct ps_info list[LISTED + 30];
    int made = 0;
    for (int i = 0; i < LISTED; i++) {
        ps_container *c = ps_open(name_of(i), PS_CREATE | PS_WRITE, PS_LAYOUT(struct page, 1));
        made += c && ps_close(c) == 0;
    }
    tap_ok(made == LISTED, "%d containers are made and closed", made);
    int n = ps_list(list, LISTED + 30);
    tap_ok(n >= LISTED && n <= LISTED + 30 && ours_once(list, n) == LISTED,
           "all are listed, each once: %d", n);
    tap_ok(n > 0 && ps_list(NULL, 0) == n, "the same number without an array: %d",
           ps_list(NULL, 0));
    for (int room = 1; room < LISTED; room += 13) {
        memset(list, 0, sizeof list);
        int told = ps_list(list, room);
        tap_ok(told == n && list[room - 1].name[0] && !list[room].name[0],
               "an array for %d is filled so far: %d", room, told);
    }
}

/* ---- N containers, one after the other ---- */

enum { KEPT = 8000 };  /* a store has addresses for 8,192: older ones are deleted */

struct job { ps_container *c; uint64_t number, found; };

static int write_number(void *arg)
{
    struct job *j = arg;
    struct page *p = ps_root(j->c);
    if (!p) return -errno;
    p->number = j->number;
    return 0;
}
static int read_number(void *arg)
{
    struct job *j = arg;
    const struct page *p = ps_root(j->c);
    j->found = p ? p->number : 0;
    return 0;
}

/* Opens number `i`, works in it, closes it; 0 or -errno. */
static int visit(int i, int (*work)(void *), struct job *j)
{
    *j = (struct job){ ps_open(name_of(i), PS_CREATE | PS_WRITE, PS_LAYOUT(struct page, 1)),
                       0xabc000u + i, 0 };
    if (!j->c) return -errno;
    int result = ps_transaction(work, j), closed = ps_close(j->c);
    return result ? result : closed;
}

static void test_one_after_the_other(int count)
{
    struct job j;
    int bad = 0, first = -1, result = 0;
    for (int i = 0; i < count && !bad; i++)
        if ((result = visit(i, write_number, &j)) != 0 ||
            (i >= KEPT && (result = ps_delete(name_of(i - KEPT))) != 0))
            bad++, first = i;
    tap_ok(!bad, "%d containers are opened in turn, written and closed; number %d: %d", count,
           first, result);
    int oldest = count > KEPT ? count - KEPT : 0;
    for (int i = bad = 0; i < count - oldest; i++) {
        int at = i & 1 ? oldest + i : count - 1 - i; /* new ones and old ones in turn */
        result = visit(at, read_number, &j);
        if (result == 0 && j.found == j.number) continue;
        first = bad++ ? first : at;
    }
    tap_ok(!bad, "each has what was stored in it; %d have not, number %d first", bad, first);
    tap_ok(ps_list(NULL, 0) == count - oldest, "there are so many: %d", ps_list(NULL, 0));
}

/* ---- as many as can be open at a time ---- */

static void test_at_a_time(void)
{
    enum { TRIED = 300 };
    static struct wire_opened opened[TRIED];
    char name[16];
    long r = client_connect();
    uint64_t before = client_stats().containers;
    int open = 0;
    for (; r == 0 && open < TRIED; open += r == 0) {
        snprintf(name, sizeof name, "open%d", open);
        r = client_open(name, PS_CREATE | PS_WRITE, "struct page", 1, sizeof(struct page),
                        &opened[open]);
        r = r ? r : client_reply.status;
    }
    tap_ok(open == 128 && r == -EDQUOT, "%d are open at a time, then: %ld", open, r);
    tap_ok(client_stats().containers == before + (unsigned)open,
           "the one that could not be opened is not there");
    for (int i = 0; i < open; i++)
        client_call(STORE_CLOSE, opened[i].container, 0, 0, NULL, 0, NULL, 0);
    r = client_open(name, PS_CREATE | PS_WRITE, "struct page", 1, sizeof(struct page), &opened[0]);
    tap_ok(r == 0 && client_reply.status == 0, "when they are closed, another can be opened");
    client_call(STORE_CLOSE, opened[0].container, 0, 0, NULL, 0, NULL, 0);
}

int main(int argc, char **argv)
{
    if (argc == 2) {
        tap_plan(3);
        test_one_after_the_other(atoi(argv[1]));
        return tap_end();
    }
    tap_plan(12);
    test_list();
    test_at_a_time();
    return tap_end();
}
