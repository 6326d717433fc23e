/*
 * shards.h - data that are larger than what one process can have open: split by key over
 * containers, the shards, and each call goes to the process that has the shard (shards.md).
 *
 *     struct shards p = {.name = "words", .shards = 80, .servers = 2, .operations = operations,
 *                        .operation_count = 2};
 *     shards_call(&p, key, ADD, &message, sizeof message);    anywhere
 *     shards_serve(&p, 1);                                    in the process that has every other
 *
 * An operation is a function that runs as a transaction with the shard's container. It is named by
 * its number, as the program is the same in all processes, and all that it needs and answers is in
 * its message. So one program runs with all shards in its own process (servers 0), in others on
 * this machine, and with shards at another site (`place`), whose pages come to whoever runs the
 * call.
 */
#ifndef USER_SHARDS_H
#define USER_SHARDS_H

#include <pstore.h>
#include <kit.h>

enum { SHARDS_MAX = 4096, SHARDS_SERVERS_MAX = 16, SHARDS_OPEN = 16, SHARDS_NAME_BYTES = 200,
       SHARDS_MESSAGE_MAX = PS_MESSAGE_MAX - 16 };

/* 0: commit; else the transaction is undone, and that is the call's result. May run again. */
typedef int shards_operation(ps_container *shard, void *message);

struct shards {
    const char *name;                   /* shard K is the container NAME.K */
    unsigned shards, servers;           /* server S has the shards K, K % servers == S; 0: none */
    shards_operation *const *operations;
    unsigned operation_count;
    const char *(*place)(unsigned shard);       /* "SITE:" before its name, or ""; NULL: all here */
    /* the library's: what this process has open of them, the one used last first */
    struct { unsigned shard; ps_container *c; } open[SHARDS_OPEN];
    unsigned open_count;
    unsigned opened;                    /* so often was one opened */
    struct ps_area *server[SHARDS_SERVERS_MAX];
};

/* Which shard a key is in. */
unsigned shards_of(const struct shards *p, uint64_t key);
/* Runs the operation where the key's shard is; the message is changed by it. 0, what the operation
 * returned; -ENOENT: no process serves that shard; -ENOTCONN: it has ended; -EMSGSIZE, -EINVAL; or
 * what ps_open and ps_transaction return. One thread at a time, outside transactions. */
int shards_call(struct shards *p, uint64_t key, unsigned operation, void *message, size_t bytes);
/* The same in every shard, one after the other, each with the same message. */
int shards_each(struct shards *p, unsigned operation, void *message, size_t bytes);
/* This process has the shards of server S from now on, as long as it lives. 0; -EEXIST: another one
 * has them; -EINVAL; or what ps_area_make returns. */
int shards_serve(struct shards *p, unsigned s);

#endif
