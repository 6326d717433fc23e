/*
 * idle.c - gives up the kernel's objects of containers that nobody has open, for handles are few.
 *
 * The cleaner chooses some, brings their pages home, and gives them up in the gate (OC4); with them
 * it makes anew the one whose form changes (form.c). Lock held in all functions.
 */
#include "group.h"

/* idle_oldest finds the one closed first, of those that may leave and are not chosen. */
static struct container *idle_oldest(void)
{
    struct container *oldest = NULL;
    for (unsigned h = 0; h < CONTAINER_HASH; h++)
        for (struct container *c = server.containers[h]; c; c = c->next)
            if (c->idle && !c->leaving && !c->kept && c->id != server.changing &&
                (!oldest || c->idle < oldest->idle))
                oldest = c;
    return oldest;
}

bool idle_choose(unsigned left)
{
    unsigned remaining = server.objects;
    const struct container *changing = container_by_id(server.changing);
    bool chosen = changing && changing->leaving; /* its objects are to be made anew (form.c) */
    struct container *c;
    while (remaining > left && (c = idle_oldest())) {
        c->leaving = chosen = true;
        remaining -= c->segment_count < remaining ? c->segment_count : remaining;
    }
    return chosen;
}

void idle_give_up(void)
{
    for (unsigned h = 0; h < CONTAINER_HASH; h++)
        for (struct container *c = server.containers[h], *next; c; c = next) {
            next = c->next;
            bool leaves = c->leaving && !c->busy;
            c->leaving = false;
            if (leaves && c->id == server.changing)
                form_remake(c);
            else if (leaves)
                (void)container_let_go(c);
        }
}
