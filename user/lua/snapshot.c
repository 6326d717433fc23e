/*
 * snapshot.c - snapshot(): the globals of the last commit, to be read while others go on.
 *
 * Lua cannot run in a snapshot: its stack lies in the state, and nothing may be stored. So what Lua
 * has is a userdata that names a table of the snapshot. Each access leaves the transaction, looks
 * into that table in a transaction of the snapshot, copies what it finds to volatile memory, and
 * goes back. Nothing here follows a pointer of one state of the memory in another one.
 */
#include "state.h"

#include "lobject.h"
#include "lstate.h"
#include "lstring.h"
#include "ltable.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define NAME  "snapshot"
#define COUNT "katydid.snapshots"        /* in the registry */
#define KEPT  8u                         /* snapshots of a process; then the oldest is given up */

struct view {                            /* a userdata: a value of a snapshot that is a table */
    uint64_t process;                    /* who made it */
    lua_Integer snapshot;                /* which of the state's */
    const Table *table;                  /* NULL: a function, or what else cannot be read */
};

/* A value without a state, so that it can go from one to the other. */
struct item {
    TValue value;                        /* no pointer in it is followed, but for tables */
    char *text;                          /* of a string: volatile */
    size_t bytes, room;
};

static struct {
    struct item key, value;
    const Table *table;
    size_t at;                           /* pairs: how many places of the table were seen */
    unsigned seed;                       /* of the hashes of strings */
} look;
static struct {
    int number[KEPT];                    /* of ps_snapshot_share */
    lua_Integer snapshot[KEPT];          /* the state's count of it */
    unsigned next;
    uint64_t process;
} kept;

/* Of all processes since the boot. In a later boot the counts of snapshots are others. */
static uint64_t process(void)
{
    struct timespec now = { 0 };
    if (!kept.process && clock_gettime(CLOCK_MONOTONIC, &now) == 0)
        kept.process =
            (uint64_t)now.tv_sec << 40 ^ (uint64_t)now.tv_nsec << 16 ^ (uint64_t)getpid();
    return kept.process;
}

static int text_keep(struct item *item, const char *text, size_t bytes)
{
    if (bytes > item->room) {
        free(item->text);
        item->room = 0;
        item->text = malloc(bytes);
        if (!item->text)
            return -ENOMEM;
        item->room = bytes;
    }
    memcpy(item->text, text, bytes);
    item->bytes = bytes;
    return 0;
}

/* ---- in a snapshot ---- */

static int item_take(struct item *item, const TValue *value)
{
    item->value = *value;
    return ttisstring(value) ? text_keep(item, svalue(value), vslen(value)) : 0;
}

/* luaH_get would store to the table, and compares strings by address. */
static const TValue *find(const Table *t, const struct item *key)
{
    static const TValue none = { .tt_ = LUA_VNIL };
    if (!ttisstring(&key->value)) {
        lua_Integer n = ttisinteger(&key->value) ? ivalue(&key->value) : 0;
        return n > 0 && (lua_Unsigned)n <= luaH_realasize(t) ? &t->array[n - 1]
                                                             : fixed_get(t, &key->value);
    }
    unsigned hash = luaS_hash(key->text, key->bytes, look.seed);
    for (const Node *node = gnode(t, lmod(hash, sizenode(t)));; node += gnext(node)) {
        if (keytt(node) == ctb(LUA_VSHRSTR) || keytt(node) == ctb(LUA_VLNGSTR)) {
            const TString *name = keystrval(node);
            if (tsslen(name) == key->bytes && memcmp(getstr(name), key->text, key->bytes) == 0)
                return gval(node);
        }
        if (gnext(node) == 0)
            return &none;
    }
}

static int index_in(void *unused)
{
    (void)unused;
    return item_take(&look.value, find(look.table, &look.key));
}

/* The next place of the table that is not empty; look.at 0: there is none. */
static int next_in(void *unused)
{
    (void)unused;
    const Table *t = look.table;
    size_t places = luaH_realasize(t), all = places + (size_t)sizenode(t);
    for (size_t at = look.at; at < all; at++) {
        TValue key;
        const TValue *value = at < places ? &t->array[at] : gval(gnode(t, at - places));
        if (isempty(value))
            continue;
        if (at < places) {
            setivalue(&key, (lua_Integer)at + 1);
        } else {
            const Node *node = gnode(t, at - places);
            key.value_ = node->u.key_val;
            key.tt_ = keytt(node);
        }
        look.at = at + 1;
        int error = item_take(&look.key, &key);
        return error ? error : item_take(&look.value, value);
    }
    return look.at = 0, 0;
}

/* look.at becomes a border of the table. */
static int length_in(void *unused)
{
    (void)unused;
    struct item key = { .value.tt_ = LUA_VNUMINT };
    size_t full = 0, empty = 1;
    while (key.value.value_.i = (lua_Integer)empty, !isempty(find(look.table, &key))) {
        full = empty;
        empty *= 2;
    }
    while (empty - full > 1) {
        key.value.value_.i = (lua_Integer)(full + (empty - full) / 2);
        if (isempty(find(look.table, &key)))
            empty = (size_t)key.value.value_.i;
        else
            full = (size_t)key.value.value_.i;
    }
    return look.at = full, 0;
}

static int share_in(void *number)
{
    const lua_State *L = state_main();
    look.table = L ? hvalue(&hvalue(&G(L)->l_registry)->array[LUA_RIDX_GLOBALS - 1]) : NULL;
    int error = ps_snapshot_share();
    *(int *)number = error;
    return error < 0 ? error : 0;
}

/* ---- in the transaction of the chunk ---- */

/* number: of ps_snapshot_share, or 0 */
static void in_snapshot(lua_State *L, int (*function)(void *), void *argument, int number)
{
    struct ps_options options = { .isolation = PS_SNAPSHOT, .snapshot = number };
    look.seed = G(L)->seed;
    ps_tx *outside = ps_suspend();
    if (!outside)
        luaL_error(L, "snapshot: %s", ps_strerror(errno));
    int error = ps_transaction_opt(function, argument, &options), back = ps_resume(outside);
    if (back)
        run_leave(-back);
    if (error)
        luaL_error(L, "snapshot: %s", ps_strerror(error));
}

static void view_push(lua_State *L, lua_Integer snapshot, const Table *table)
{
    struct view *view = lua_newuserdatauv(L, sizeof *view, 0);
    *view = (struct view){ process(), snapshot, table };
    luaL_setmetatable(L, NAME);
}

/* Calls the function in the snapshot of the view there, for its table; which snapshot that is. */
static lua_Integer view_look(lua_State *L, int at, int (*function)(void *))
{
    const struct view *view = luaL_checkudata(L, at, NAME);
    if (view->process != process())
        luaL_error(L, "the snapshot was of another process");
    lua_Integer snapshot = view->snapshot;
    unsigned place = 0;
    while (place < KEPT && kept.snapshot[place] != snapshot)
        place++;
    if (place == KEPT)
        luaL_error(L, "the snapshot was given up: there were %d behind it", (int)KEPT);
    if (!view->table)
        luaL_error(L, "only tables of a snapshot can be read");
    look.table = view->table;
    in_snapshot(L, function, NULL, kept.number[place]);
    return snapshot;
}

static void item_push(lua_State *L, const struct item *item, lua_Integer snapshot)
{
    const TValue *value = &item->value;
    switch (ttype(value)) {
    case LUA_TNIL: lua_pushnil(L); break;
    case LUA_TBOOLEAN: lua_pushboolean(L, !l_isfalse(value)); break;
    case LUA_TSTRING: lua_pushlstring(L, item->text, item->bytes); break;
    case LUA_TNUMBER:
        if (ttisinteger(value))
            lua_pushinteger(L, ivalue(value));
        else
            lua_pushnumber(L, fltvalue(value));
        break;
    default: view_push(L, snapshot, ttistable(value) ? hvalue(value) : NULL);
    }
}

/* view[key] */
int snapshot_index(lua_State *L)
{
    int whole;
    lua_Integer n = lua_tointegerx(L, 2, &whole);
    if (lua_type(L, 2) == LUA_TSTRING) {
        size_t bytes;
        const char *text = lua_tolstring(L, 2, &bytes);
        look.key.value.tt_ = LUA_VLNGSTR;
        luaL_argcheck(L, text_keep(&look.key, text, bytes) == 0, 2, "no memory");
    } else if (lua_isnumber(L, 2) && whole) {
        setivalue(&look.key.value, n);
    } else if (lua_isnumber(L, 2)) {
        setfltvalue(&look.key.value, lua_tonumber(L, 2));
    } else {
        luaL_argcheck(L, lua_isboolean(L, 2), 2, "a string, number or boolean expected");
        look.key.value.tt_ = lua_toboolean(L, 2) ? LUA_VTRUE : LUA_VFALSE;
    }
    lua_Integer snapshot = view_look(L, 1, index_in);
    item_push(L, &look.value, snapshot);
    return 1;
}

/* The function of pairs(view): upvalues are the view and look.at. */
int snapshot_next(lua_State *L)
{
    look.at = (size_t)lua_tointeger(L, lua_upvalueindex(2));
    lua_Integer snapshot = view_look(L, lua_upvalueindex(1), next_in);
    lua_pushinteger(L, (lua_Integer)look.at);
    lua_replace(L, lua_upvalueindex(2));
    if (look.at == 0)
        return lua_pushnil(L), 1;
    item_push(L, &look.key, snapshot);
    item_push(L, &look.value, snapshot);
    return 2;
}

int snapshot_pairs(lua_State *L)
{
    luaL_checkudata(L, 1, NAME);
    lua_settop(L, 1);
    lua_pushinteger(L, 0);
    lua_pushcclosure(L, snapshot_next, 2);
    return 1;
}

int snapshot_length(lua_State *L)
{
    view_look(L, 1, length_in);
    lua_pushinteger(L, (lua_Integer)look.at);
    return 1;
}

/* snapshot() */
int state_snapshot(lua_State *L)
{
    lua_getfield(L, LUA_REGISTRYINDEX, COUNT);
    lua_Integer snapshot = lua_tointeger(L, -1) + 1;
    lua_pushinteger(L, snapshot);
    lua_setfield(L, LUA_REGISTRYINDEX, COUNT);
    int number = 0;
    in_snapshot(L, share_in, &number, 0);
    const Table *globals = look.table;
    unsigned place = kept.next++ % KEPT;
    if (kept.number[place])
        ps_snapshot_drop(kept.number[place]);
    kept.number[place] = number;
    kept.snapshot[place] = snapshot;
    if (!globals)
        return luaL_error(L, "snapshot: nothing was committed yet");
    view_push(L, snapshot, globals);
    return 1;
}

/* What a state must have for this. */
void snapshot_fill(lua_State *L)
{
    static const luaL_Reg meta[] = { { "__index", snapshot_index },
                                     { "__pairs", snapshot_pairs },
                                     { "__len", snapshot_length },
                                     { NULL, NULL } };
    if (luaL_newmetatable(L, NAME))
        luaL_setfuncs(L, meta, 0);
    lua_pop(L, 1);
}
