/*
 * volume.c - the fifth process of crashload: containers come, grow, change their names and go.
 *
 * Step NUMBER is about volume j = (NUMBER - 1) / 6, and is one commit, of the manager or of ours:
 *
 *   MAKE    the container crash-new-j is created
 *   FILL    its root and an object of several pages get their numbers
 *   GROW    every GROWS-th: so many pages are leased that it gets a second segment; the others: the
 *           object and the root get other numbers
 *   FAR     a page of the second segment, or another object, and the root get their numbers
 *   RENAME  it is called crash-old-j
 *   DELETE  crash-old-(j - KEPT) is deleted; if there is none, the far page gets another number
 *
 * So the containers that exist, and what is in them, tell how many steps were made (CL6).
 */
#include <katydid/call.h>
#include <stdio.h>
#include <string.h>

#include "load.h"
#include "store_protocol.h"

enum phase { MAKE = 1, FILL, GROW, FAR, RENAME, DELETE, PHASES = DELETE };
enum { KEPT = 2, GROWS = 8, BULK_WORDS = 1500, LISTED_MAX = 64, SEGMENT_PAGES = 1 << 18 };

/* known to tests/crash/crashload.py */
struct volume { uint64_t filled, reached; uint64_t *bulk, *far; };

static ps_container *open_volume;       /* of this process, if any */
static uint64_t open_index, *far_page;

static void name_of(char name[64], const char *age, uint64_t index)
{
    snprintf(name, 64, "crash-%s-%llu", age, (unsigned long long)index);
}

static void volume_close(void)
{
    if (open_volume)
        ps_close(open_volume);
    open_volume = NULL;
}

static int volume_open(uint64_t index, const char *age, int flags)
{
    char name[64];
    if (open_volume && open_index == index && flags == PS_WRITE)
        return 0;
    volume_close();
    name_of(name, age, index);
    open_volume = ps_open(name, flags, PS_LAYOUT(struct volume, 1));
    open_index = index;
    return open_volume ? 0 : -errno;
}

static int grows(uint64_t index) { return index % GROWS == 0; }

static int fill(void *arg)
{
    const uint64_t *number = arg;
    struct volume *v = ps_root(open_volume);
    if (!v || (!v->bulk && !(v->bulk = ps_alloc(open_volume, BULK_WORDS * 8, NULL))))
        return -errno;
    for (unsigned i = 0; i < BULK_WORDS; i++)
        v->bulk[i] = *number + i;
    v->filled = *number;
    return 0;
}

static int reach(void *arg)
{
    const uint64_t *number = arg;
    struct volume *v = ps_root(open_volume);
    if (!v)
        return -errno;
    if (far_page)
        v->far = far_page;
    if (!v->far && !(v->far = ps_alloc(open_volume, sizeof(*v->far), NULL)))
        return -errno;
    v->reached = *v->far = *number;
    return 0;
}

static int base_get(void *arg)
{
    uint64_t *base = arg;
    *base = (uint64_t)ps_root(open_volume);
    return *base ? 0 : -errno;
}

/* Leases `pages`, and says where they begin: the library itself never wants so many. */
static int lease(uint64_t pages, uint64_t *address)
{
    struct kd_space_info info;
    struct kd_message m = {.kind = STORE_LEASE, .handle = -1};
    uint64_t base = 0;
    int error = ps_transaction(base_get, &base);
    if (!error)
        error = (int)kd_call3(KD_CONTAINER_INFO, (long)base, (long)&info, 0);
    if (error)
        return error;
    long port = kd_call3(KD_NAME_FIND, (long)"store", 0, 0);
    if (port < 0)
        return -ENOTCONN;
    m.word[0] = STORE_COOKIE_CONTAINER(info.cookie);
    m.word[1] = pages;
    error = (int)kd_call3(KD_PORT_CALL, port, (long)&m, 0);
    kd_call3(KD_HANDLE_CLOSE, port, 0, 0);
    *address = m.word[0];
    return error ? error : m.status;
}

static int go_far(uint64_t index, uint64_t number)
{
    int error = 0;
    if (grows(index) && !far_page)      /* grown before the power went, or the manager */
        error = lease(SEGMENT_PAGES - 1, (uint64_t *)&far_page);
    return error ? error : ps_transaction(reach, &number);
}

static int volume_rename(uint64_t index)
{
    char from[64], to[64];
    name_of(from, "new", index);
    name_of(to, "old", index);
    volume_close();
    return ps_rename(from, to);
}

static int volume_delete(uint64_t index, uint64_t number)
{
    char name[64];
    volume_close();
    far_page = NULL;
    if (index < KEPT) {
        int error = volume_open(index, "old", PS_WRITE);
        return error ? error : ps_transaction(reach, &number);
    }
    name_of(name, "old", index - KEPT);
    return ps_delete(name);
}

static int phase_do(enum phase phase, uint64_t index, uint64_t number)
{
    int error = 0;
    if (phase == FILL || phase == GROW || phase == FAR)
        error = volume_open(index, "new", PS_WRITE);
    if (error)
        return error;
    switch (phase) {
    case MAKE: return volume_open(index, "new", PS_WRITE | PS_CREATE | PS_EXCLUSIVE);
    case FILL: return ps_transaction(fill, &number);
    case GROW: return grows(index) ? lease(SEGMENT_PAGES, (uint64_t *)&far_page)
                                   : ps_transaction(fill, &number);
    case FAR: return go_far(index, number);
    case RENAME: return volume_rename(index);
    default: return volume_delete(index, number);
    }
}

int volume_step(unsigned number)
{
    enum phase phase = (number - 1) % PHASES + 1;
    int error = phase_do(phase, (number - 1) / PHASES, number);
    if (error || phase == MAKE)
        far_page = NULL;
    if (error)
        volume_close();
    return error;
}

/* ---- how far it came ---- */

struct listed { uint64_t index; int old, grown; };

static int list_volumes(struct listed *out, int *count)
{
    static struct ps_info info[LISTED_MAX];
    int n = ps_list(info, LISTED_MAX);
    *count = 0;
    for (int i = 0; i < n && i < LISTED_MAX; i++) {
        unsigned long long index;
        char age[4];
        if (sscanf(info[i].name, "crash-%3[a-z]-%llu", age, &index) == 2)
            out[(*count)++] = (struct listed){index, !strcmp(age, "old"),
                                              info[i].pages_max > SEGMENT_PAGES};
    }
    return n < 0 ? n : 0;
}

struct look { uint64_t filled, reached; int sound; };

static int look(void *arg)
{
    struct look *l = arg;
    const struct volume *v = ps_root(open_volume);
    if (!v)
        return -errno;
    *l = (struct look){v->filled, v->reached, 1};
    for (unsigned i = 0; v->filled && i < BULK_WORDS; i++)
        l->sound &= v->bulk[i] == v->filled + i;
    l->sound &= !v->reached || *v->far == v->reached;
    return 0;
}

/* The last step of volume `index` that was made; 0: it is not as any step leaves it. */
static int phase_of(const struct listed *v, int *phase)
{
    struct look l = {.sound = 1};
    uint64_t first = v->index * PHASES;
    int error = volume_open(v->index, v->old ? "old" : "new", 0);
    if (!error)
        error = ps_transaction(look, &l);
    volume_close();
    if (error == -ENOENT)                /* it has no root yet */
        error = 0;
    int grown = grows(v->index) ? v->grown : l.filled == first + GROW;
    *phase = v->old ? l.reached == first + DELETE ? DELETE : RENAME
             : l.reached ? FAR : grown ? GROW : l.filled ? FILL : MAKE;
    uint64_t reached = *phase < FAR ? 0 : *phase == DELETE ? first + DELETE : first + FAR;
    uint64_t filled = *phase < FILL ? 0 : grown && !grows(v->index) ? first + GROW : first + FILL;
    if (!l.sound || l.reached != reached || l.filled != filled || (*phase >= GROW) != grown ||
        (v->grown && !grows(v->index)))
        *phase = 0;
    return error;
}

int volume_counter(uint64_t *counter, const char **wrong)
{
    static struct listed v[LISTED_MAX];
    int count, phase = 0, error = list_volumes(v, &count);
    uint64_t last = 0, oldest = ~0ull;
    *counter = 0;
    *wrong = NULL;
    for (int i = 0; !error && i < count; i++) {
        last = v[i].index > last ? v[i].index : last;
        oldest = v[i].index < oldest ? v[i].index : oldest;
    }
    for (int i = 0; !error && i < count; i++) {
        error = phase_of(&v[i], &phase);
        if (!phase || (v[i].index < last && !v[i].old))
            *wrong = "a volume is not as it should be (CL6)";
        if (v[i].index == last)
            *counter = last * PHASES + (uint64_t)phase;
    }
    if (error || !count)
        return error;
    if (last >= KEPT && *counter == last * PHASES + RENAME && oldest == last - KEPT + 1)
        ++*counter;                      /* DELETE */
    uint64_t deletes = *counter / PHASES;
    if (oldest != (deletes > KEPT ? deletes - KEPT : 0) || (uint64_t)count != last - oldest + 1)
        *wrong = "a volume is missing, or too many (CL6)";
    return 0;
}
