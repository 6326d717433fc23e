/*
 * state.h - a Lua state in a container, and chunks that run in it by transactions.
 */
#ifndef LUA_STATE_H
#define LUA_STATE_H

#include "fixed.h"

#include <pstore.h>

/* Opens the container of this name, and makes it if there is none. 0 or -errno. */
int state_open(const char *name);
/* Begins a transaction; locked: nobody else can use the state until its end. 0 or -errno. */
int state_begin_transaction(int locked);
/* In a transaction: the main thread, with an empty stack. The first call of all makes the state.
 * NULL: errno; EPROTO: another Lua made it, and `why`, of 256 bytes, says which. */
lua_State *state_enter(char *why);
/* In a snapshot: the main thread, to be read; NULL: there is none, or it is of another Lua. */
const lua_State *state_main(void);
/* In a protected call: snapshot() finds what it needs. */
void snapshot_fill(lua_State *L);

struct chunk {
    const char *text, *name;             /* as luaL_loadbuffer takes them */
    size_t bytes;
    char **words;                        /* what `...` is in it, up to NULL */
    int looks;                           /* 1: what it does to the state is undone at its end */
    int values;                          /* 1: print what an expression is, or what it returns */
};
enum { RUN_DONE, RUN_FAILED, RUN_PART };
/* Runs the chunk in transactions. RUN_DONE: committed, or in the transaction that begin() left
 * open; RUN_FAILED: undone back to the last commit, and the reason was told on standard error;
 * RUN_PART: with `values`, and the text ended within a statement; nothing was done. */
int run(const struct chunk *chunk);
/* Gives the transaction up, and leaves the chunk. */
_Noreturn void run_leave(int error);
/* begin() has left a transaction open. */
int run_is_open(void);

#endif
