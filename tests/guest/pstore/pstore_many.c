/*
 * pstore_many.c - more containers than any table on the way has places.
 *
 * Aim     every container is listed, once, however many there are, by as many requests as it takes; and
 *         the array that the caller gave is filled no further than it said.
 * Method  70 containers, more than four times what one answer holds, each with its number in its name.
 */
#include <pstore.h>
#include <stdlib.h>
#include <string.h>

#include "tap.h"

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
    tap_ok(n > 0 && ps_list(NULL, 0) == n, "the same number without an array: %d", ps_list(NULL, 0));
    for (int room = 1; room < LISTED; room += 13) {
        memset(list, 0, sizeof list);
        int told = ps_list(list, room);
        tap_ok(told == n && list[room - 1].name[0] && !list[room].name[0],
               "an array for %d is filled so far: %d", room, told);
    }
}

int main(void)
{
    tap_plan(9);
    test_list();
    return tap_end();
}
