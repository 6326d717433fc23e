/* kit_private.h - what the files of the concurrency kit share: how a thread waits in an area. */
#ifndef KIT_PRIVATE_H
#define KIT_PRIVATE_H

#include "error_private.h"
#include "kit.h"

#include <pthread.h>

/* A latch's word: flags, thread, client. Its lower half changes with every change. */
#define LATCH_WAITERS  1ull             /* somebody may wait: who gives it up wakes one */
#define LATCH_DIED     2ull             /* a holder ended, and nobody has said it is repaired */
#define LATCH_OWNER    (~3ull)
#define LATCH_CLIENT(word) ((word) >> 32)
#define LATCH_OF_CLIENT(number) ((uint64_t)(number) << 32)

struct area_server;
struct kd_message;
struct asker;
struct ps_area {
    char *memory;
    size_t bytes;
    uint64_t owner;             /* this process in a latch's word; 1 in a private area */
    struct ps_task task;
    int port;                   /* of a shared area; -1: it is private */
    struct area_server *server; /* of the process that made a shared area */
    /* `serving`, of a private area: one request is served at a time */
    pthread_mutex_t serving;
    struct asker *askers;       /* wait for answers that come later */
    uint64_t tokens;            /* given out */
    pthread_t serves;           /* the thread in serve or gone; of a shared area, its server */
    int in_serve;               /* private: there is one */
};

/* area_wait sleeps if *word is what was expected, until somebody wakes or for no reason. 0,
 * -ETIMEDOUT, -ENOBUFS, -ENOTCONN. latch: the word is a latch's. */
int area_wait(ps_area *a, uint64_t *word, uint64_t expected, int latch, int timeout_ms);
/* area_wake wakes so many of those who sleep for this word. */
void area_wake(ps_area *a, uint64_t *word, unsigned count);

/* shared_wait and the others do the same with shared areas: kit_client.c. */
int shared_wait(ps_area *a, const uint64_t *word, uint64_t expected, int latch, int timeout_ms);
void shared_wake(ps_area *a, const uint64_t *word, unsigned count);
int shared_ask(ps_area *a, void *message, size_t bytes, int timeout_ms);
int shared_answer(uint64_t token, int result, const void *data, size_t bytes);
int shared_close(ps_area *a);
/* server_wake, for the thread that serves, wakes those who sleep for the word at this offset. */
void server_wake(struct area_server *s, uint64_t offset, uint64_t count);
/* server_end ends a shared area for all; it is freed: kit_server.c. */
void server_end(struct area_server *s);

/* A kit_call is what the parties of a shared area say to its port. */
enum kit_call {
    KIT_OPEN = 1,               /* answer: word 0 address, 1 bytes, 2 client */
    KIT_CLOSE,
    KIT_WAIT,                   /* word 0 offset, 1 expected, 2 it is a latch's */
    KIT_WAKE,                   /* word 0 offset, 1 how many */
    KIT_ASK,                    /* data: the message, back: the answer */
    KIT_END,                    /* of its maker */
};

#endif
