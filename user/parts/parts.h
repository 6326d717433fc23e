/*
 * parts.h - data that are larger than what one process can have open: split over containers by key,
 * and each call goes to the process that has the part (parts.md).
 *
 *     struct parts p = {.name = "words", .parts = 80, .servers = 2, .operations = operations,
 *                       .operation_count = 2};
 *     parts_call(&p, key, ADD, &message, sizeof message);     anywhere
 *     parts_serve(&p, 1);                                     in the process that has every other
 *
 * An operation is a function that runs as a transaction with the part's container. It is named by
 * its number, as the program is the same in all processes, and all that it needs and answers is in
 * its message. So one program runs with all parts in its own process (servers 0), in others on this
 * machine, and with parts at another site (`place`), whose pages come to whoever runs the call.
 */
#ifndef USER_PARTS_H
#define USER_PARTS_H

#include <pstore.h>
#include <kit.h>

enum { PARTS_MAX = 4096, PARTS_SERVERS_MAX = 16, PARTS_OPEN = 16, PARTS_NAME_BYTES = 200,
       PARTS_MESSAGE_MAX = PS_MESSAGE_MAX - 16 };

/* 0: commit; else the transaction is undone, and that is the call's result. May run again. */
typedef int parts_operation(ps_container *part, void *message);

struct parts {
    const char *name;                   /* part K is the container NAME.K */
    unsigned parts, servers;            /* server S has the parts K, K % servers == S; 0: none */
    parts_operation *const *operations;
    unsigned operation_count;
    const char *(*place)(unsigned part); /* "SITE:" before its name, or ""; NULL: all here */
    /* the library's: what this process has open of them, the one used last first */
    struct { unsigned part; ps_container *c; } open[PARTS_OPEN];
    unsigned open_count;
    unsigned opened;                    /* so often was one opened */
    struct ps_area *server[PARTS_SERVERS_MAX];
};

/* Which part a key is in. */
unsigned parts_of(const struct parts *p, uint64_t key);
/* Runs the operation where the key's part is; the message is changed by it. 0, what the operation
 * returned; -ENOENT: no process serves that part; -ENOTCONN: it has ended; -EMSGSIZE, -EINVAL; or
 * what ps_open and ps_transaction return. One thread at a time, outside transactions. */
int parts_call(struct parts *p, uint64_t key, unsigned operation, void *message, size_t bytes);
/* The same in every part, one after the other, each with the same message. */
int parts_each(struct parts *p, unsigned operation, void *message, size_t bytes);
/* This process has the parts of server S from now on, as long as it lives. 0; -EEXIST: another one
 * has them; -EINVAL; or what ps_area_make returns. */
int parts_serve(struct parts *p, unsigned s);

#endif
