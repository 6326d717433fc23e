/*
 * remote_split.c - clients here of servers at the home (modes.md): whose they are. What they say
 * goes home as any request (remote_store.c), and ends with the process.
 */
#include <errno.h>

#include "remote.h"
#include "split_protocol.h"

enum { SPLITS_MAX = 16 };
static struct { uint64_t number, process; } splits[SPLITS_MAX];

static int at(uint64_t number, uint64_t process)
{
    for (int i = 0; i < SPLITS_MAX; i++)
        if (splits[i].number == number && (!number || splits[i].process == process)) return i;
    return SPLITS_MAX;
}

int split_asked(const struct kd_message *m)
{
    if (m->kind == SPLIT_OPEN) return m->buffer_bytes ? 0 : -EINVAL;
    int i = m->word[0] ? at(m->word[0], m->process) : SPLITS_MAX;
    if (i == SPLITS_MAX || m->buffer_bytes > SPLIT_DATA_MAX)
        return i == SPLITS_MAX ? -EACCES : -E2BIG;
    if (m->kind == SPLIT_CLOSE) splits[i].number = 0;
    return 0;
}

void split_close(uint64_t number)
{
    for (int i = 0; i < SPLITS_MAX; i++)
        if (number && splits[i].number == number) splits[i].number = 0;
    store_tell(SPLIT_CLOSE, number);
}

int split_opened(uint64_t process, uint64_t number)
{
    int i = at(0, 0);
    if (i == SPLITS_MAX) store_tell(SPLIT_CLOSE, number);
    if (i == SPLITS_MAX) return -EMFILE;
    splits[i].number = number;
    splits[i].process = process;
    return 0;
}

void split_client_gone(uint64_t process)
{
    for (int i = 0; i < SPLITS_MAX; i++)
        if (splits[i].number && splits[i].process == process) split_close(splits[i].number);
}
