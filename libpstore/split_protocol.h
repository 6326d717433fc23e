/*
 * split_protocol.h - what clients of a split store (split.c) and its server (split_server.c) say to
 * each other; between them `remote` and `agent`, if the server is at another site.
 */
#ifndef SPLIT_PROTOCOL_H
#define SPLIT_PROTOCOL_H

#include <stdint.h>

#define SPLIT_SERVES "serve "           /* the server's port: this, and the container's name */
enum {
    SPLIT_NAME_BYTES = 32,              /* of an operation */
    SPLIT_DATA_MAX = 64 << 10,          /* with a request or an answer */
    SPLIT_CLIENTS_MAX = 32,
    SPLIT_WAYS_MAX = 64, SPLIT_WAY_CLIENTS = 4, /* ways that were passed; clients by each */
};
/* SPLIT_ROOTS stands in PS_ROOTS in the place of a store: no store's name ends so. */
#define SPLIT_ROOTS "serve/"

/* A split_request; another site's store has those of store_protocol.h and site.h, below, too.
 */
enum split_request {
    /* word0: PS_WRITE or 0. To the server: the container's handle goes along -> a handle, by which
     * this client's calls come. To another site's store: data: the container's name -> word0 the
     * client's number there */
    SPLIT_OPEN = 0x2000,
    /* word0: that number (to another site's store); word1 enum split_function; word2 object, word3
     * offset, word4 bytes, word5 mode; data -> word2 object; data */
    SPLIT_CALL,
    SPLIT_CLOSE,                        /* word0, to another site's store: the client is done */
    /* SPLIT_PASS to the server, as SPLIT_OPEN -> a handle to pass on. By it SPLIT_OPEN, with no
     * other handle, begins clients for which operations are carried out, and nothing else */
    SPLIT_PASS,
};

enum split_function {
    SPLIT_RUN = 1,      /* data: the operation's name in SPLIT_NAME_BYTES, its argument -> data */
    SPLIT_ROOT,         /* -> word2 */
    SPLIT_LOCK,         /* mode: PS_S, PS_X */
    SPLIT_READ,         /* -> data */
    SPLIT_WRITE,        /* data: a write is stored now */
    SPLIT_KEEP,         /* data: records, which the next COMMIT carries out first */
    SPLIT_ALLOCATE,     /* word2 near, word4 bytes, word5 1: the client has locks -> word2 */
    SPLIT_COMMIT,       /* data: records. -ESTALE: one was read as it is no more; undone */
    SPLIT_ABORT,
};

/* A split_record, padded to 8 bytes with its data, is what was read, or what is to be stored. */
struct split_record {
    uint64_t object;
    uint32_t offset;
    uint16_t bytes, writes;
};
#define SPLIT_RECORD_BYTES(bytes) \
    (sizeof(struct split_record) + (((size_t)(bytes) + 7) & ~(size_t)7))

#endif
