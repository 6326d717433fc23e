/*
 * load.c - the transactions of the workers.
 */
#include "load.h"

ps_container *container;
uint64_t seed;

static uint64_t mix(unsigned process, unsigned number)
{
    uint64_t x = seed * 0x9e3779b97f4a7c15u + process * 0xbf58476d1ce4e5b9u +
                 number * 0x94d049bb133111ebu;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

struct step step_of(unsigned process, unsigned number)
{
    uint64_t r = mix(process, number);
    struct step s = {.process = process, .number = number};
    s.transfer = (r & 7) < 4;
    s.from = r >> 8 & 15;
    s.slot = r >> 8 & (SLOTS - 1);
    s.to = r >> 16 & 15;
    s.amount = 1 + (int64_t)((r >> 24) % 100);
    s.bytes = (r >> 16 & 15) == 0 ? 3000 + (r >> 24) % 9000 : (r >> 24) % 600;
    s.abort_first = (r >> 56 & 15) == 0;
    return s;
}

unsigned char text_of(unsigned process, unsigned number, unsigned at)
{
    return (unsigned char)(number * 7 + process * 31 + at);
}

int set_up(void *unused)
{
    (void)unused;
    struct load *load = ps_root(container);
    if (!load)
        return -errno;
    if (load->ready)
        return load->seed == seed ? 0 : -EEXIST;
    for (int i = 0; i < ACCOUNTS; i++) {
        if (!(load->account[i] = ps_new(container, struct account, NULL)))
            return -errno;
        load->account[i]->amount = START;
    }
    for (int i = 0; i < WORKERS; i++)
        if (!(load->process[i] = ps_new(container, struct process, NULL)))
            return -errno;
    load->ring.next = load->ring.prev = (struct node *)&load->ring;
    load->seed = seed;
    load->ready = 1;
    return 0;
}

static void transfer(struct load *load, const struct step *s)
{
    struct account *from = load->account[s->from], *to = load->account[s->to];
    SET(from->amount, from->amount - s->amount);
    SET(to->amount, to->amount + s->amount);
    SET(from->process, s->process);
    SET(to->process, s->process);
    SET(from->number, s->number);
    SET(to->number, s->number);
}

static int node_insert(struct load *load, struct node **place, struct node *after,
                       const struct step *s)
{
    struct node *node = ps_alloc(container, sizeof(*node) + s->bytes, after);
    if (!node)
        return -errno;
    node->process = s->process;
    node->number = s->number;
    node->bytes = s->bytes;
    node->slot = s->slot;
    for (unsigned i = 0; i < s->bytes; i++)
        node->text[i] = text_of(s->process, s->number, i);
    after = after ? after : (struct node *)&load->ring;
    node->prev = after;
    node->next = after->next;
    SET(node->next->prev, node);
    SET(after->next, node);
    tree_insert(&load->tree, node);
    SET(*place, node);
    return 0;
}

static int node_delete(struct load *load, struct node **place)
{
    struct node *node = *place;
    tree_delete(&load->tree, node);
    SET(node->prev->next, node->next);
    SET(node->next->prev, node->prev);
    SET(*place, NULL);
    return ps_free(node);
}

int step_do(void *arg)
{
    const struct step *s = arg;
    struct load *load = ps_root(container);
    if (!load)
        return -errno;
    struct process *me = load->process[s->process];
    struct node **place = &me->node[s->slot];
    SET(me->counter, s->number);
    int error = 0;
    if (s->transfer)
        transfer(load, s);
    else if (*place)
        error = node_delete(load, place);
    else
        error = node_insert(load, place, me->node[(s->slot + 1) % SLOTS], s);
    return error;
}

/* Does the same, and changes its mind: nothing of this may ever be seen. */
int step_abort(void *arg)
{
    int error = step_do(arg);
    return error ? error : -ECANCELED;
}

int counter_get(void *arg)
{
    struct step *s = arg;
    struct load *load = ps_root(container);
    if (!load)
        return -errno;
    s->number = (unsigned)load->process[s->process]->counter;
    return 0;
}
