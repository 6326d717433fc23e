/*
 * witness.c - `witness`: keeps the record which of two sites is the home of a store (spare.md).
 *
 *     witness A,B     started by link in a site with the option witness=A,B
 *
 * The record lies in the container "witness" of this site's own store, and a change of it is
 * durable before it is answered. At the beginning the site whose name comes first is home, alone.
 * What may change is role_witness's to say (role.h); who asks is known by the session.
 */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "katydid/call.h"
#include "link.h"
#include "pstore.h"
#include "role_wire.h"

enum { PAIRS = 8, SMALL = 512 };

struct pair { char names[2 * LINK_SITE_BYTES]; uint64_t term; uint32_t home, mate; };
struct root { struct pair pairs[PAIRS]; };

static ps_container *container;
static char names[2 * LINK_SITE_BYTES], sites[2][LINK_SITE_BYTES];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static _Noreturn void ends(const char *why)
{
    char line[160];
    int n = snprintf(line, sizeof line, "witness of %s: %s", names, why);
    kd_call3(KD_KERNEL_LOG, (long)line, n, 0);
    _exit(1);
}

/* The pair's place; a free one is made its own. */
static struct pair *place(void)
{
    struct root *root = ps_root(container);
    for (struct pair *p = root ? root->pairs : NULL; p && p < root->pairs + PAIRS; p++) {
        if (strcmp(p->names, names) == 0) return p;
        if (p->names[0]) continue;
        strcpy(p->names, names);
        p->term = p->home = 1;
        p->mate = 0;
        return p;
    }
    return NULL;
}

struct question { const struct role_message *asked; struct role_message answer; };

static int answered(void *question)
{
    struct question *q = question;
    struct pair *p = place();
    if (!p) return -ENOSPC;
    struct role_record record = { p->term, p->home, p->mate };
    if (!role_witness(&record, q->asked, &q->answer)) return 0;
    p->term = record.term;
    p->home = record.home;
    p->mate = record.mate;
    return 0;
}

/* Site number 1 + i has asked. */
static void heard(int session, int i, const struct role_message *m)
{
    struct question q = { .asked = m };
    uint8_t frame[SMALL];
    bool asks = m->kind == ROLE_READ_RECORD || m->kind == ROLE_WANT_RECORD ||
                m->kind == ROLE_VOUCHED;
    if (!asks || m->site != 1u + (unsigned)i) return;
    pthread_mutex_lock(&lock);
    int error = ps_transaction(answered, &q);
    pthread_mutex_unlock(&lock);
    if (error) ends(ps_strerror(error));
    size_t bytes = role_put(&q.answer, frame, sizeof frame);
    if (bytes) (void)link_send(session, frame, bytes);
}

static void *serve(void *number)
{
    static const struct timespec moment = {.tv_nsec = 10000000};
    int i = (int)(intptr_t)number;
    struct link_inbox inbox = {.memory = malloc(FRAME_BYTES_MAX)};
    while (inbox.memory) {
        struct link_session s;
        struct role_message m;
        struct frame f;
        const uint8_t *at;
        int session = link_copy(LINK_HANDLE, sites[i], &s);
        if (session == -EOWNERDEAD) ends("link has ended");
        inbox.at = inbox.bytes = 0;
        while (session >= 0 && link_receive(session, &inbox, &f, &at) == 0)
            if (role_get(&m, &f, at, NULL)) heard(session, i, &m);
        if (session >= 0) link_close(session);
        nanosleep(&moment, NULL);
    }
    ends("no memory");
}

int main(int argc, char **argv)
{
    pthread_t thread;
    const char *comma = argc == 2 ? strchr(argv[1], ',') : NULL;
    size_t first = comma ? (size_t)(comma - argv[1]) : 0;
    if (!comma || !first || first >= LINK_SITE_BYTES || strlen(comma) > LINK_SITE_BYTES ||
        !comma[1]) {
        fprintf(stderr, "witness: link starts it, in a site with the option witness=A,B\n");
        return 2;
    }
    memcpy(sites[0], argv[1], first);
    strcpy(sites[1], comma + 1);
    if (strcmp(sites[0], sites[1]) > 0) {
        strcpy(sites[0], comma + 1);
        memset(sites[1], 0, sizeof sites[1]);
        memcpy(sites[1], argv[1], first);
    }
    snprintf(names, sizeof names, "%s,%s", sites[0], sites[1]);
    int error = ps_connect(NULL);
    if (error) ends(ps_strerror(error));
    container = ps_open("witness", PS_CREATE | PS_WRITE, PS_LAYOUT(struct root, 1));
    if (!container) ends(ps_strerror(-errno));
    if (pthread_create(&thread, NULL, serve, (void *)1)) ends("no thread");
    serve((void *)0);
}
