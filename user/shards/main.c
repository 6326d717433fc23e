/*
 * main.c - counters by key, in more containers than one process can have open (shards.md).
 *
 *     shards [shards=N] [servers=N] [far=SITE] WORD ...   (80 shards, no servers)
 *
 *     serve=S      has the shards of server S, until it is killed
 *     add=N        adds 1 to each of the counters 0 to N - 1
 *     sum          of all counters in all shards, their number, how often a shard was opened here
 *     until=N      waits until that sum is N, or more
 *     where=KEY    its shard, and who has it
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "shards.h"

enum { ADD, SUM, OPERATIONS };
enum { SLOTS = 64, TRIES = 5000 };
struct counters { uint64_t count; struct { uint64_t key, value; } at[SLOTS]; };
struct message { uint64_t key, value, count; };

static struct counters *counters(ps_container *c)
{
    return ps_named(c, "counters", sizeof(struct counters));
}

static int add(ps_container *c, void *message)
{
    struct message *m = message;
    struct counters *all = counters(c);
    uint64_t i = 0;
    if (!all) return -errno;
    while (i < all->count && all->at[i].key != m->key) i++;
    if (i == SLOTS) return -ENOSPC;
    if (i == all->count) all->at[all->count++].key = m->key;
    m->value = ++all->at[i].value;
    return 0;
}

static int sum(ps_container *c, void *message)
{
    struct message *m = message;
    const struct counters *all = counters(c);
    if (!all) return -errno;
    for (uint64_t i = 0; i < all->count; i++) m->value += all->at[i].value;
    m->count += all->count;
    return 0;
}

static shards_operation *const operations[OPERATIONS] = {[ADD] = add, [SUM] = sum};
static char far_site[40];
static const char *place(unsigned shard) { return shard % 2 ? far_site : ""; }
static struct shards p = {.name = "shards", .shards = 80, .operations = operations,
                         .operation_count = OPERATIONS, .place = place};

static void pause_ms(void) { nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL); }

/* The one that has them may still be starting. */
static int call_add(uint64_t key)
{
    struct message m = {.key = key};
    int error = -ENOENT;
    for (int tries = 0; error == -ENOENT && tries < (p.servers ? TRIES : 1); tries++) {
        if (tries) pause_ms();
        error = shards_call(&p, key, ADD, &m, sizeof m);
    }
    return error;
}

static int word(const char *w, const char *value)
{
    uint64_t n = strtoull(value, NULL, 10);
    struct message m = {0};
    int error = 0;
    if (!strcmp(w, "sum")) {
        error = shards_each(&p, SUM, &m, sizeof m);
        if (!error)
            printf("%llu in %llu counters, %u opened here\n", (unsigned long long)m.value,
                   (unsigned long long)m.count, p.opened);
    } else if (!strncmp(w, "add=", 4)) {
        for (uint64_t key = 0; !error && key < n; key++) error = call_add(key);
    } else if (!strncmp(w, "until=", 6)) {
        while (m.value < n) {
            m = (struct message){0};
            error = shards_each(&p, SUM, &m, sizeof m);
            pause_ms();
            /* a shard that is not there yet */
            if (error && error != -ENOENT && error != -EACCES && error != -ENOTCONN) return error;
        }
        error = 0;
    } else if (!strncmp(w, "where=", 6)) {
        unsigned shard = shards_of(&p, n);
        printf("shard %u of %u, ", shard, p.shards);
        if (p.servers)
            printf("server %u\n", shard % p.servers);
        else
            printf("%s\n", *place(shard) ? place(shard) : "here");
    } else if (!strncmp(w, "serve=", 6)) {
        error = shards_serve(&p, (unsigned)n);
        while (!error) pause();
    } else {
        error = -EINVAL;
    }
    return error;
}

int main(int argc, char **argv)
{
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (argc < 2) {
        fputs("shards [shards=N] [servers=N] [far=SITE] serve=S | add=N | sum | "
              "until=N | where=KEY ...\n",
              stderr);
        return 2;
    }
    for (int i = 1; i < argc; i++) {
        const char *value = strchr(argv[i], '=');
        value = value ? value + 1 : "";
        if (!strncmp(argv[i], "shards=", 7))
            p.shards = (unsigned)atoi(value);
        else if (!strncmp(argv[i], "servers=", 8))
            p.servers = (unsigned)atoi(value);
        else if (!strncmp(argv[i], "far=", 4))
            snprintf(far_site, sizeof far_site, "%s:", value);
        else {
            int error = word(argv[i], value);
            if (error) {
                fprintf(stderr, "shards: %s: %s\n", argv[i], ps_strerror(error));
                return 1;
            }
        }
    }
    return 0;
}
