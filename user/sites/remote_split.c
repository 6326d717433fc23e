/*
 * remote_split.c - clients here of servers at the home (modes.md): whose they are. What they say
 * goes home as any request (remote_store.c), and ends with the process.
 */
#include <errno.h>

#include "remote.h"
#include "split_protocol.h"

/* SPLITS_MAX: of processes. process 0: the home is to be told that it ends, when a request is free;
 * it has no more of them than agent_split.c has places, so there is room for all. */
enum { SPLITS_MAX = 16, SPLITS_ROOM = 2 * SPLITS_MAX };
static struct { uint64_t number, process; } splits[SPLITS_ROOM];

static int at(uint64_t number, uint64_t process)
{
    for (int i = 0; i < SPLITS_ROOM; i++)
        if (splits[i].number == number && (!number || splits[i].process == process)) return i;
    return SPLITS_ROOM;
}

void splits_end(void)
{
    for (int i = 0; i < SPLITS_ROOM; i++)
        if (splits[i].number && !splits[i].process && store_tell(SPLIT_CLOSE, splits[i].number))
            splits[i].number = 0;
}

static void close_at(int i)
{
    splits[i].process = 0;
    splits_end();
}

int split_asked(const struct kd_message *m)
{
    if (m->kind == SPLIT_OPEN) return m->buffer_bytes ? 0 : -EINVAL;
    int i = m->word[0] ? at(m->word[0], m->process) : SPLITS_ROOM;
    if (i == SPLITS_ROOM || m->buffer_bytes > SPLIT_DATA_MAX)
        return i == SPLITS_ROOM ? -EACCES : -E2BIG;
    if (m->kind == SPLIT_CLOSE) close_at(i);
    return 0;
}

void split_close(uint64_t number)
{
    for (int i = 0; i < SPLITS_ROOM; i++)
        if (number && splits[i].number == number) close_at(i);
}

int split_opened(uint64_t process, uint64_t number)
{
    int i = at(0, 0), open = 0;
    for (int k = 0; k < SPLITS_ROOM; k++) open += splits[k].number && splits[k].process;
    if (i == SPLITS_ROOM) return -EMFILE;
    splits[i].number = number;
    splits[i].process = process;
    if (open < SPLITS_MAX) return 0;
    close_at(i);
    return -EMFILE;
}

void split_client_gone(uint64_t process)
{
    for (int i = 0; i < SPLITS_ROOM; i++)
        if (splits[i].number && splits[i].process == process) close_at(i);
}
