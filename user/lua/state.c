/*
 * state.c - where a Lua state lies, who may open it, and its memory.
 *
 * The container's root says which Lua made the state. A program of another Lua, or one whose list
 * of C functions does not begin with the state's, must not follow a pointer in it.
 */
#include "state.h"

#include "lstate.h"

#include <stdio.h>
#include <string.h>

struct lua_root {
    char release[32];                    /* of Lua; empty: there is no state yet */
    uint32_t sizes;                      /* of Lua's objects, as this build of Lua has them */
    uint32_t functions;                  /* so many of the list were known to who made it */
    uint64_t functions_hash;
    void *main;                          /* lua_State */
};

static ps_container *box;

static uint32_t sizes(void)
{
    static const uint32_t each[] = { sizeof(global_State), sizeof(lua_State), sizeof(CallInfo),
                                     sizeof(Table),        sizeof(Node),      sizeof(Proto),
                                     sizeof(CClosure),     sizeof(LClosure),  sizeof(Udata),
                                     sizeof(TString),      sizeof(UpVal),     sizeof(lua_Integer) };
    uint32_t sum = 0;
    for (unsigned i = 0; i < sizeof each / sizeof each[0]; i++)
        sum = sum * 31 + each[i];
    return sum;
}

int state_open(const char *name)
{
    fixed_setup();
    box = ps_open(name, PS_CREATE | PS_WRITE, PS_LAYOUT(struct lua_root, 1));
    return box ? 0 : -errno;
}

/* lua_Alloc */
void *state_memory(void *unused, void *old, size_t old_bytes, size_t bytes)
{
    (void)unused;
    (void)old_bytes;
    if (bytes == 0)
        return ps_free(old), NULL;
    return old ? ps_realloc(old, bytes) : ps_alloc(box, bytes, NULL);
}

/* ---- a new state ---- */

static const luaL_Reg libraries[] = {
    { LUA_GNAME, luaopen_base },          { LUA_LOADLIBNAME, luaopen_package },
    { LUA_COLIBNAME, luaopen_coroutine }, { LUA_TABLIBNAME, luaopen_table },
    { LUA_OSLIBNAME, luaopen_os },        { LUA_STRLIBNAME, luaopen_string },
    { LUA_MATHLIBNAME, luaopen_math },    { LUA_UTF8LIBNAME, luaopen_utf8 },
    { LUA_DBLIBNAME, luaopen_debug },     { NULL, NULL }
};
static const luaL_Reg globals[] = {
    { "begin", state_begin },       { "commit", state_commit }, { "abort", state_abort },
    { "snapshot", state_snapshot }, { NULL, NULL }
};

/* Little garbage is collected at a time, for what it touches is written by the commit: a cycle
 * begins when the memory in use has grown by half, and goes on for each 256 KiB. */
enum { GC_PAUSE = 150, GC_SPEED = 400, GC_STEP_LOG2 = 18 };

int state_fill(lua_State *L)
{
    for (const luaL_Reg *library = libraries; library->func; library++)
        luaL_requiref(L, library->name, library->func, 1);
    lua_pushglobaltable(L);
    lua_getfield(L, -1, LUA_OSLIBNAME);
    lua_pushcfunction(L, state_exit);
    lua_setfield(L, -2, "exit");
    lua_newtable(L);
    lua_pushcfunction(L, state_write);
    lua_setfield(L, -2, "write");
    lua_setglobal(L, "io");
    lua_gc(L, LUA_GCINC, GC_PAUSE, GC_SPEED, GC_STEP_LOG2);
    return state_grow(L);
}

/* Our own functions that the state does not have yet. */
int state_grow(lua_State *L)
{
    for (const luaL_Reg *global = globals; global->func; global++) {
        if (lua_getglobal(L, global->name) == LUA_TNIL) {
            lua_pushcfunction(L, global->func);
            lua_setglobal(L, global->name);
        }
        lua_pop(L, 1);
    }
    snapshot_fill(L);
    return 0;
}

static lua_State *make(struct lua_root *root)
{
    lua_State *L = lua_newstate(state_memory, NULL);
    if (!L)
        return errno = ENOSPC, NULL;
    root->main = L;
    root->sizes = sizes();
    root->functions = fixed_count();
    root->functions_hash = fixed_hash(fixed_count());
    snprintf(root->release, sizeof root->release, "%s", LUA_RELEASE);
    lua_pushcfunction(L, state_fill);
    if (lua_pcall(L, 0, 0, 0) != LUA_OK)
        return errno = ENOSPC, NULL;
    return L;
}

/* ---- an old one ---- */

static int fits(const struct lua_root *root, char why[256])
{
    if (strcmp(root->release, LUA_RELEASE) != 0)
        return snprintf(why, 256, "%.31s made this state, and this is %s", root->release,
                        LUA_RELEASE), 0;
    if (root->sizes != sizes())
        return snprintf(why, 256, "a %s that was built with other options made this state",
                        LUA_RELEASE), 0;
    if (root->functions > fixed_count())
        return snprintf(why, 256, "a newer program made this state: it has %u C functions, this "
                        "one %u", root->functions, fixed_count()), 0;
    if (root->functions_hash != fixed_hash(root->functions))
        return snprintf(why, 256, "a program with another list of C functions made this state"), 0;
    return 1;
}

int state_begin_transaction(int locked)
{
    struct ps_options lock = { .isolation = PS_CONTAINER_LOCK, .locked = box };
    return ps_begin(locked ? &lock : NULL);
}

lua_State *state_enter(char *why)
{
    struct lua_root *root = ps_root(box);
    if (!root)
        return NULL;
    if (!root->release[0])
        return make(root);
    if (!fits(root, why))
        return errno = EPROTO, NULL;
    lua_State *L = root->main;
    lua_settop(L, 0);
    if (root->functions < fixed_count()) { /* from now on programs before this one are refused */
        root->functions = fixed_count();
        root->functions_hash = fixed_hash(fixed_count());
        lua_pushcfunction(L, state_grow);
        if (lua_pcall(L, 0, 0, 0) != LUA_OK)
            return errno = ENOSPC, NULL;
    }
    return L;
}

const lua_State *state_main(void)
{
    char why[256];
    const struct lua_root *root = ps_root(box);
    return root && root->release[0] && fits(root, why) ? root->main : NULL;
}
