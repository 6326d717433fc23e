/* actor.h - a program of hostile_monitor that does what the test says: the bare calls. */
#ifndef ACTOR_H
#define ACTOR_H

#include <katydid/call.h>

#include "monitor.h"

enum what { DO_CALL, DO_COPY, DO_DROP, DO_SEND, DO_TAKE, DO_MAPPED, DO_FORGE, DO_END };
enum { DATA_BYTES = 2 * WIRE_PATH_BYTES, ANSWER_BYTES = 32 * sizeof(struct wire_named) };

struct order {
    enum what what;
    long handle;                        /* which is called, copied, dropped, sent */
    uint32_t kind, rights;              /* rights: of what is copied or sent along */
    uint64_t word[3];
    long with;                          /* a handle to send along, or -1 */
    uint32_t bytes;
    char data[DATA_BYTES] __attribute__((aligned(8)));
};
struct report {
    long result;                        /* 0 or -errno */
    uint64_t word[2];
    long handle;                        /* that came, or -errno */
    uint32_t bytes;
    char data[ANSWER_BYTES] __attribute__((aligned(8)));
};

/* Does it in this process. */
void act(const struct order *o, struct report *r);
/* Does what the process says whose port is handle 0, until the end. */
int actor_main(void);

#endif
