/*
 * hostile_share.c - a site that takes for itself what all sites of a home share.
 *
 * Aim     whatever it takes in one session and leaves behind for the next, others find room.
 * Method  liar_home.h: the test is the site, and a program of the home's, too.
 */
#include <stdio.h>
#include <stdlib.h>

#include "liar_home.h"
#include "tap.h"

enum { SESSIONS = 5, WATCHES_MANY = 40 };
struct root { uint64_t count; };
static ps_container *box;

/* ---- the home's own program ---- */

static int export_box(void)
{
    int error = ps_directory_create("exports");
    if (!error) error = ps_directory_create("exports/liar");
    return error ? error : export_as("box", "exports/liar/box", PS_MAY_READ | PS_MAY_WRITE);
}

/* ---- watches: it names no page, and has nothing open by which its end would be heard of ---- */

static void watches(void)
{
    struct kd_message m = {.kind = STORE_WATCH, .word = {1, 1}, .handle = -1};
    int store = (int)kd_call3(KD_NAME_FIND, (long)"store", 0, 0);
    unsigned set = 0;
    for (unsigned s = 0; s < SESSIONS; s++) {
        next_session();
        for (uint64_t i = 1; i <= WATCHES_MANY; i++)
            set += asks((struct site_message){.kind = SITE_ASK, .request = STORE_WATCH,
                                              .word = {i, 1}}) == 0;
    }
    kd_call3(KD_PORT_CALL, store, (long)&m, 0);
    tap_ok(m.status == 0, "a site sleeps in %u places, in %u sessions: a program of the home's may,"
           " too (%d)", set, SESSIONS, m.status);
    m = (struct kd_message){.kind = STORE_WATCH, .word = {1}, .handle = -1};
    kd_call3(KD_PORT_CALL, store, (long)&m, 0);
    kd_call3(KD_HANDLE_CLOSE, store, 0, 0);
}

int main(void)
{
    tap_plan(3);
    liar_begin();
    box = ps_open("box", PS_CREATE | PS_WRITE, PS_LAYOUT(struct root, 1));
    int error = box ? export_box() : -errno;
    tap_ok(stream >= 0 && !error, "a container is exported to the site: %s", ps_strerror(error));
    if (error) return 1;
    hear_hello();
    begin();
    watches();
    is((int)kd_call3(KD_CHECK, 0, 0, 0), 0, "kcheck is clean");
    return tap_end();
}
