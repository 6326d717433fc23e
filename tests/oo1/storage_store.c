/* storage_store.c - files as objects of one container: reads and writes have nothing left to do,
 * and an operation is a transaction. OO1_CONTAINER of the environment: its name, which may be
 * SITE:NAME; then it was made there. */
#include "storage.h"

#include <errno.h>
#include <katydid/call.h>
#include <pstore.h>
#include <stdlib.h>
#include <string.h>

struct storage { char *base; uint64_t at, bytes_max; const char *name; };
#include "storage_memory.h"
static ps_container *container;

static const char *database(void)
{
    const char *name = getenv("OO1_CONTAINER");
    return name ? name : storage_database;
}

static int find(void *arg)
{
    struct storage *s = arg;
    s->base = ps_named(container, s->name, s->bytes_max);
    return s->base ? 0 : -errno;
}

struct storage *storage_open(const char *name, uint64_t bytes_max)
{
    int create = strchr(database(), ':') ? 0 : PS_CREATE; /* only its home makes one */
    if (!container && !(container = ps_open(database(), create | PS_WRITE, NULL)))
        return NULL;
    struct storage *s = malloc(sizeof *s);
    if (!s)
        return NULL;
    *s = (struct storage){.name = name, .bytes_max = bytes_max};
    int error = ps_transaction(find, s);
    if (error == 0)
        return s;
    free(s);
    errno = -error;
    return NULL;
}

int storage_close(struct storage *s)
{
    free(s);
    return 0;
}

int storage_operation(int (*function)(void *), void *arg, int changes)
{
    (void)changes;
    return ps_transaction(function, arg);
}

/* What CPUs idled while the disk worked is not counted. */
struct storage_costs storage_costs(void)
{
    struct kd_system_info system;
    struct ps_stats stats;
    uint64_t now = storage_counter();
    kd_call3(KD_SYSTEM_INFO, (long)&system, 0, 0);
    ps_stats(&stats);
    return (struct storage_costs){now - system.idle_cycles, stats.pages_read, stats.flushes};
}

int storage_delete(void) { return ps_delete(database()); }
