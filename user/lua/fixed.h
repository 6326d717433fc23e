/*
 * fixed.h - what a state in a container may point to outside of it: stubs at fixed addresses.
 *
 * Include it instead of lua.h and its sisters. Functions that Lua stores in a state are replaced by
 * their stubs where they are passed to Lua, also in Lua's own libraries.
 */
#ifndef LUA_FIXED_H
#define LUA_FIXED_H

#include <stddef.h>
#include <stdint.h>

/* What print writes is kept until its part of the chunk is over. */
void output_add(const char *text, size_t bytes);
#define lua_writestring(text, bytes) output_add((text), (bytes))
#define lua_writeline() output_add("\n", 1)

#include "lprefix.h"

#include "lua.h"

#include "lauxlib.h"
#include "lualib.h"

/* Finds each function of functions.h at its address in this build; before all else. */
void fixed_setup(void);
/* The stub of a function; of NULL, NULL. A function that is not in the list ends the program. */
void *fixed(const void *function);
/* The function behind a stub, in this build. */
void *fixed_real(const void *stub);
/* What a Table has under the TValue, which is no string, without a store to either: a TValue. */
const void *fixed_get(const void *table, const void *key);
/* How many functions the list has. */
uint32_t fixed_count(void);
/* A fingerprint of the first `count` names of the list; 0 if the list is shorter. */
uint64_t fixed_hash(uint32_t count);

#define lua_pushcclosure(L, f, n) (lua_pushcclosure)((L), (lua_CFunction)fixed(f), (n))
#define lua_callk(L, n, r, x, k) (lua_callk)((L), (n), (r), (x), (lua_KFunction)fixed(k))
#define lua_pcallk(L, n, r, f, x, k) \
    (lua_pcallk)((L), (n), (r), (f), (x), (lua_KFunction)fixed(k))
#define lua_yieldk(L, n, x, k) (lua_yieldk)((L), (n), (x), (lua_KFunction)fixed(k))
#define lua_sethook(L, f, m, c) (lua_sethook)((L), (lua_Hook)fixed(f), (m), (c))
#define lua_gethook(L) ((lua_Hook)fixed_real((lua_gethook)(L)))
#define lua_setwarnf(L, f, d) (lua_setwarnf)((L), (lua_WarnFunction)fixed(f), (d))
#define lua_newstate(f, d) (lua_newstate)((lua_Alloc)fixed(f), (d))

/* The functions of ours that a state knows: state.c, run.c. */
void *state_memory(void *unused, void *old, size_t old_bytes, size_t bytes);
int state_begin(lua_State *L);
int state_commit(lua_State *L);
int state_abort(lua_State *L);
int state_exit(lua_State *L);
int state_write(lua_State *L);
int state_snapshot(lua_State *L);
int snapshot_index(lua_State *L);
int snapshot_pairs(lua_State *L);
int snapshot_next(lua_State *L);
int snapshot_length(lua_State *L);
int state_fill(lua_State *L);
int state_grow(lua_State *L);
int chunk_start(lua_State *L);
int chunk_finish(lua_State *L);
int chunk_explain(lua_State *L);

#endif
