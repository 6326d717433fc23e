/*
 * store_segments.c - a container that outgrows its first segment, and pages freed on both sides.
 *
 * Aim     growing is durable and the addresses stay; a free that goes from one segment into the
 *         next leaves nothing behind; the manager's own groups are followed by an empty one, too;
 *         only init can have it end.
 * Method  the first segment is leased as a whole; its last page and the new segment's first ones
 *         are written, and looked at again after the manager was killed.
 */
#include <stdlib.h>
#include <time.h>

#include "store_client.h"

enum { FEW = 8 };

static struct wire_opened box;
static uint64_t *last, *next;           /* page of the first segment; pages of the second */

static long write_all(void *value)
{
    *last = (uint64_t)value;
    for (int i = 0; i < FEW; i++) next[i * 512] = (uint64_t)value + i;
    return 0;
}
static long check_all(void *value)
{
    long bad = *last != (uint64_t)value;
    for (int i = 0; i < FEW; i++) bad += next[i * 512] != (uint64_t)value + i;
    return bad ? -EBADMSG : 0;
}
static long free_across(void *unused)
{
    (void)unused;
    client_op(WIRE_PAGE_FREE, box.container, last, 2, NULL);
    return 0;
}
static long free_too_much(void *unused)
{
    (void)unused;
    for (int i = 0; i < 100; i++)
        client_op(WIRE_PAGE_FREE, box.container, (void *)box.base, box.pages, NULL);
    return 0;
}

static uint64_t dirty_pages(void)
{
    struct kd_system_info info = {0};
    kd_call3(KD_SYSTEM_INFO, (long)&info, 0, 0);
    return info.dirty_pages;
}

int main(void)
{
    tap_plan(12);
    if (client_connect() < 0 || client_open("box", PS_CREATE | PS_WRITE, NULL, 0, 0, &box) < 0) {
        printf("Bail out! there is no store\n");
        return 1;
    }
    for (int i = 0; i < 3000 && client_stats().groups < 2; i++) usleep(10000);
    usleep(300000);
    tap_ok(client_stats().groups == 2,
           "an empty group follows the one that made it, and none follows that");
    uint64_t first = box.base, end = first + box.pages * KD_PAGE_BYTES;
    tap_ok((uint64_t)client_lease(box.container, box.pages, NULL) == first, "the whole segment");
    next = client_lease(box.container, FEW, NULL);
    last = (uint64_t *)(end - KD_PAGE_BYTES);
    tap_ok((uint64_t)next >= end, "the container grows");
    tap_ok(client_run(write_all, (void *)7) == 0 && client_run(check_all, (void *)7) == 0,
           "both segments are written");
    tap_ok(kd_call3(KD_PROCESS_KILL, store_pid(), 9, 0) == 0 &&
               client_reopen("box", PS_WRITE, &box) == 0 && box.base == first,
           "the manager dies and comes again");
    tap_ok(client_run(check_all, (void *)7) == 0, "all is there at its address");
    tap_ok(client_run(write_all, (void *)8) == 0 && client_run(check_all, (void *)8) == 0,
           "and can be written");
    tap_ok((uint64_t)next != end || client_run(free_across, NULL) == 0,
           "pages of both segments are freed at once");
    long r = client_call(STORE_CHECKPOINT, 0, 0, 0, NULL, 0, NULL, 0);
    uint64_t dirty = dirty_pages();
    tap_ok(r == 0 && dirty == 0, "nothing of them stays dirty (%d)", (int)dirty);
    tap_ok(client_run(free_too_much, NULL) == -E2BIG, "there is an end to what a commit can free");
    tap_ok(client_call(STORE_STOP, 0, 0, 0, NULL, 0, NULL, 0) == -EPERM,
           "only init ends the manager");
    tap_ok(client_name(STORE_DELETE, 0, "box") == 0 && kd_call3(KD_CHECK, 0, 0, 0) == 0, "kcheck");
    return tap_end();
}
