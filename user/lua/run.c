/*
 * run.c - chunks of Lua in transactions: begin, commit, abort, and being run again.
 *
 * A chunk runs as a coroutine of the state. commit() yields it to part_run(), so at each commit
 * nothing in the state points to the stack of C: the main thread is empty, the coroutine is
 * suspended like any other. Everything that ends a transaction by force, abort() or the system, has
 * undone the stores, so that the state is as the last commit left it, and leaves by longjmp to
 * run(). A deadlock's victim is resumed there: from its start, or behind its last commit().
 *
 * What is in `now` and in the output is of this process, and is not undone.
 */
#include "state.h"

#include "lstate.h"

#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define OUTPUT_BYTES_MAX (64u << 20)
#define LINES "katydid.lines"  /* in the registry: the coroutine of each process, by its number */

/* Each chunk makes objects, and with each of them changes the list of the collector: transactions
 * cannot run beside each other. While there is nobody else, locking the state costs more than it
 * is worth; who met somebody takes turns, for so many transactions. */
enum { LOCKS = 100 };

enum asked { NOTHING, COMMIT, EXIT };
enum { AGAIN = 1, FINISHED, INCOMPLETE };

static struct {
    jmp_buf out;                         /* what a transaction's end by force leaves to */
    const struct chunk *chunk;
    lua_State *thread;                   /* its coroutine; NULL: not begun */
    enum asked asked;                    /* why it yielded */
    int exit_status;
    int open;                            /* begin(): the end of a chunk does not commit */
    int mine;                            /* the transaction holds nothing of other chunks */
    int locks;                           /* so many transactions are to lock the whole state */
    int kept;                            /* a commit has kept the coroutine */
    char why[256];
} now;

static struct { char *text; size_t used, room; } output;

/* ---- what is printed ---- */

static void output_show(void)
{
    fwrite(output.text, 1, output.used, stdout);
    fflush(stdout);
    output.used = 0;
}

_Noreturn void run_leave(int error)
{
    ps_rollback();
    longjmp(now.out, error);
}

void output_add(const char *text, size_t bytes)
{
    if (bytes > OUTPUT_BYTES_MAX - output.used)
        run_leave(EFBIG);
    if (output.used + bytes > output.room) {
        size_t room = 2 * (output.used + bytes);
        char *larger = realloc(output.text, room);
        if (!larger)
            run_leave(ENOMEM);
        output.text = larger;
        output.room = room;
    }
    memcpy(output.text + output.used, text, bytes); /* it may leave: text is in the container */
    output.used += bytes;
}

/* io.write(...): strings and numbers */
int state_write(lua_State *L)
{
    for (int i = 1; i <= lua_gettop(L); i++) {
        size_t bytes;
        const char *text = luaL_checklstring(L, i, &bytes);
        output_add(text, bytes);
    }
    return 0;
}

/* ---- Lua's functions ---- */

static int ask(lua_State *L, enum asked what)
{
    if (L != now.thread)
        return luaL_error(L, "not in a coroutine: call it from the chunk itself");
    if (!lua_isyieldable(L))
        return luaL_error(L, "not below a C function such as table.sort");
    now.asked = what;
    return lua_yield(L, 0);
}

int state_begin(lua_State *L)
{
    if (now.open)
        return luaL_error(L, "begin() was called already");
    now.open = 1;
    return 0;
}

int state_commit(lua_State *L)
{
    return ask(L, COMMIT);
}

/* os.exit([status]): commits, and ends the program */
int state_exit(lua_State *L)
{
    if (lua_isboolean(L, 1) || lua_isnone(L, 1))
        now.exit_status = lua_isboolean(L, 1) && !lua_toboolean(L, 1);
    else
        now.exit_status = (int)luaL_checkinteger(L, 1);
    return ask(L, EXIT);
}

/* abort([message]) */
int state_abort(lua_State *L)
{
    const char *message = luaL_optstring(L, 1, "");
    snprintf(now.why, sizeof now.why, "%s", message);
    run_leave(ECANCELED);
}

/* ---- in protected calls of the main thread ---- */

static void lines_push(lua_State *L)
{
    luaL_getsubtable(L, LUA_REGISTRYINDEX, LINES);
}

static int load(lua_State *L)
{
    const struct chunk *c = now.chunk;
    int error = LUA_ERRSYNTAX;
    if (c->values) {
        lua_pushfstring(L, "return %s", c->text);
        size_t bytes;
        const char *text = lua_tolstring(L, -1, &bytes);
        error = luaL_loadbufferx(L, text, bytes, c->name, "t");
    }
    if (error)
        error = luaL_loadbufferx(L, c->text, c->bytes, c->name, "t");
    return error;
}

/* Makes the chunk a coroutine, which the registry keeps while it runs; returns it, or a message and
 * whether the text ended too early. */
int chunk_start(lua_State *L)
{
    lines_push(L);
    lua_State *thread = lua_newthread(L);
    lua_rawseti(L, -2, getpid());
    if (load(L) != LUA_OK) {
        size_t bytes, mark = sizeof "<eof>" - 1;
        const char *message = lua_tolstring(L, -1, &bytes);
        lua_pushboolean(L, bytes >= mark && strcmp(message + bytes - mark, "<eof>") == 0);
        return 2;
    }
    lua_xmove(L, thread, 1);
    luaL_checkstack(thread, 256, "too many arguments");
    for (char **word = now.chunk->words; word && *word; word++)
        lua_pushstring(thread, *word);
    lua_pushthread(thread);
    lua_xmove(thread, L, 1);
    return 1;
}

/* The end: values are printed, and nothing of the coroutine is kept. */
int chunk_finish(lua_State *L)
{
    lua_State *thread = now.thread;
    int count = lua_gettop(thread);
    if (now.chunk->values && count > 0) {
        luaL_checkstack(L, count + 2, "too many values");
        lua_getglobal(L, "print");
        lua_xmove(thread, L, count);
        lua_call(L, count, 0);
    }
    lines_push(L);
    lua_pushnil(L);
    lua_rawseti(L, -2, getpid());
    return 0;
}

/* The message of the coroutine's error, with where it came from. */
int chunk_explain(lua_State *L)
{
    lua_xmove(now.thread, L, 1);
    luaL_traceback(L, now.thread, luaL_tolstring(L, -1, NULL), 0);
    return 1;
}

/* ---- a part of a chunk: up to its next commit ---- */

static void tell(const char *why)
{
    output_show();
    fprintf(stderr, "lua: %s\n", why);
}

/* The transaction is given up for an error of Lua, whose message is on the stack. */
static int give_up(lua_State *L)
{
    const char *message = lua_tostring(L, -1);
    tell(message ? message : "an error without a message");
    ps_rollback();
    now.open = 0;
    return -ECANCELED;
}

static int begin(const struct chunk *c, lua_State *L)
{
    lua_pushcfunction(L, chunk_start);
    if (lua_pcall(L, 0, LUA_MULTRET, 0) != LUA_OK)
        return give_up(L);
    if (lua_gettop(L) == 2) {            /* it is no Lua; nothing has run yet */
        int incomplete = c->values && lua_toboolean(L, 2);
        lua_settop(L, 1);
        if (!incomplete)
            tell(lua_tostring(L, 1));
        lua_settop(L, 0);
        if (!now.open)
            ps_rollback();
        return incomplete ? INCOMPLETE : -ECANCELED;
    }
    now.thread = lua_tothread(L, 1);
    lua_settop(L, 0);
    return 0;
}

/* Commits if the state may be committed: nothing in it runs. */
static int commit(const lua_State *L)
{
    if (L->errorJmp || L->ci != &L->base_ci || now.thread->errorJmp)
        abort();
    int error = ps_commit();
    if (error)
        return error == -EEXIST ? -EDEADLK : error; /* somebody else made the root meanwhile */
    output_show();
    now.mine = now.kept = 1;
    now.open = 0;
    return 0;
}

static int resumed(lua_State *L, int status)
{
    int error = 0;
    if (status == LUA_YIELD && now.asked != NOTHING) {
        error = commit(L);
        if (error == 0 && now.asked == EXIT)
            exit(now.exit_status);
        return error ? error : AGAIN;
    }
    if (status == LUA_YIELD)
        lua_pushliteral(now.thread, "attempt to yield from outside a coroutine");
    int good = status == LUA_OK;
    lua_pushcfunction(L, good ? chunk_finish : chunk_explain);
    if (lua_pcall(L, 0, good ? 0 : 1, 0) != LUA_OK || !good)
        return give_up(L);
    if (now.chunk->looks)
        ps_rollback();
    else if (!now.open)
        error = commit(L);
    if (error == 0)
        output_show();
    return error ? error : FINISHED;
}

/* AGAIN, FINISHED, INCOMPLETE, or -errno: the transaction is over; -ECANCELED: that was told. */
static int part_run(void)
{
    int error = 0, count;
    if (!ps_active())
        error = state_begin_transaction(now.locks > 0 && now.locks--);
    if (error)
        return error;
    lua_State *L = state_enter(now.why);
    if (!L) {
        error = -errno;
        ps_rollback();
        return error;
    }
    if (!now.thread && (error = begin(now.chunk, L)) != 0)
        return error;
    now.asked = NOTHING;
    int words = lua_status(now.thread) == LUA_OK ? lua_gettop(now.thread) - 1 : 0;
    return resumed(L, lua_resume(now.thread, NULL, words, &count));
}

/* ---- chunks ---- */

static void ended(int error, void *unused)
{
    (void)unused;
    longjmp(now.out, error);
}

/* Says why a transaction is over that was not committed. */
static void explain_end(int error)
{
    output_show();
    if (error == ECANCELED)
        fprintf(stderr, "lua: undone%s%s\n", now.why[0] ? ": " : "", now.why);
    else if (error == EPROTO && now.why[0])
        fprintf(stderr,
                "lua: %s. Have the program that made it write it down, `lua --state OLD --dump "
                ">state.lua`, and run that in a new state, `lua --state NEW state.lua`\n", now.why);
    else if (error == EFBIG)
        fprintf(stderr, "lua: undone: more than 64 MiB were printed without a commit()\n");
    else
        fprintf(stderr, "lua: undone%s: %s\n", now.open ? ", back to begin()" : "",
                ps_strerror(error));
    now.open = 0;
}

/* The part is to be run again: its stores were undone, what it left in this process was not. */
static void part_forget(void)
{
    output.used = 0;
    now.locks = LOCKS;
    now.open = 0;
    if (!now.kept)
        now.thread = NULL;
}

int run(const struct chunk *chunk)
{
    now.chunk = chunk;
    now.thread = NULL;
    now.kept = 0;
    now.mine = !ps_active();
    now.why[0] = 0;
    ps_catch(ended, NULL);
    for (;;) {
        int error = setjmp(now.out);     /* > 0: the transaction was ended by force */
        int result = error ? -error : part_run();
        if (result == FINISHED || result == INCOMPLETE)
            return result == FINISHED ? RUN_DONE : RUN_PART;
        if (result == -EDEADLK && now.mine)
            part_forget();
        else if (result != AGAIN) {
            if (error || result != -ECANCELED)
                explain_end(-result);
            return RUN_FAILED;
        }
    }
}

int run_is_open(void)
{
    return now.open;
}
