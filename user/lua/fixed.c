/*
 * fixed.c - Lua, unmodified, and the stubs through which states reach its C functions.
 *
 * A state in a container outlives the program that made it, and the next build has its functions at
 * other addresses. What Lua keeps pointers to is therefore at addresses that no build changes:
 *
 *      FIXED_DATA   Lua's one static object that tables point to, the node of empty ones
 *      FIXED_STUBS  512 stubs of 8 bytes, `jmp *fixed_functions[n]`, in the order of functions.h
 *
 * (user/lua/link tells the linker.) All of Lua is one compilation here, so that its static
 * functions have names; the macros of fixed.h put stubs in place of functions where they are passed
 * on. What Lua keeps of other static memory, it keeps while C functions run, not in the state.
 *
 * Not here: lua.c, luac.c; liolib.c, for an open file belongs to one process; linit.c (state.c).
 */
/* clang-format off */
#define LUA_CORE
#define LUA_LIB
#include "lprefix.h"

#include "lobject.h"
/* The first declaration says where it lies; ltable.c defines it. */
static const Node dummynode_ __attribute__((section(".fixed.data")));

#pragma GCC diagnostic ignored "-Wunused-function"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#include "lzio.c"
#include "lctype.c"
#include "lopcodes.c"
#include "lmem.c"
#include "lundump.c"
#include "ldump.c"
#include "lstate.c"
#include "lgc.c"
#include "llex.c"
#include "lcode.c"
#include "lparser.c"
#include "ldebug.c"
#include "lfunc.c"
#include "lobject.c"
#include "ltm.c"
#include "lstring.c"
#include "ltable.c"
#include "ldo.c"
#include "lvm.c"
#include "lapi.c"

#include "fixed.h"
#include "lauxlib.c"
#include "lbaselib.c"
#include "lcorolib.c"
#include "ldblib.c"
#include "lmathlib.c"
#include "loadlib.c"
#include "loslib.c"
#include "lstrlib.c"
#include "ltablib.c"
#include "lutf8lib.c"
/* clang-format on */

const void *fixed_get(const void *table, const void *key)
{
    return getgeneric((Table *)(uintptr_t)table, key, 0);
}

enum { STUBS = 512, STUB_BYTES = 8, PLACES = 2048 };

#define FIXED(name) (const void *)name,
const void *const fixed_functions[STUBS] = {
#include "functions.h"
};
#undef FIXED
#define FIXED(name) #name,
static const char *const fixed_names[] = {
#include "functions.h"
};

extern char fixed_stubs[];
__asm__(".pushsection .fixed.text, \"ax\", @progbits\n"
        "fixed_stubs:\n"
        ".set fixed_number, 0\n"
        ".rept 512\n"
        "jmp *fixed_functions + 8 * fixed_number\n"
        ".balign 8\n"
        ".set fixed_number, fixed_number + 1\n"
        ".endr\n"
        ".popsection\n");

static uint16_t place[PLACES];           /* by a function's address: its number + 1 */

static unsigned place_of(const void *function)
{
    return (unsigned)((uint32_t)(uintptr_t)function * 2654435761u >> 16) % PLACES;
}

uint32_t fixed_count(void)
{
    return sizeof fixed_names / sizeof fixed_names[0];
}

void fixed_setup(void)
{
    for (uint32_t n = 0; n < fixed_count(); n++) {
        unsigned at = place_of(fixed_functions[n]);
        while (place[at])
            at = (at + 1) % PLACES;
        place[at] = (uint16_t)(n + 1);
    }
}

void *fixed(const void *function)
{
    uintptr_t stub = (uintptr_t)function - (uintptr_t)fixed_stubs;
    if (!function || stub < STUBS * STUB_BYTES)
        return (void *)(uintptr_t)function;
    for (unsigned at = place_of(function); place[at]; at = (at + 1) % PLACES)
        if (fixed_functions[place[at] - 1] == function)
            return fixed_stubs + (place[at] - 1) * STUB_BYTES;
    fprintf(stderr, "lua: the C function at %p is not in user/lua/functions.h\n", function);
    abort();
}

void *fixed_real(const void *stub)
{
    uintptr_t at = (uintptr_t)stub - (uintptr_t)fixed_stubs;
    return (void *)(uintptr_t)(at < STUBS * STUB_BYTES ? fixed_functions[at / STUB_BYTES] : stub);
}

uint64_t fixed_hash(uint32_t count)
{
    uint64_t hash = 0xcbf29ce484222325u;
    if (count > fixed_count())
        return 0;
    for (uint32_t n = 0; n < count; n++)
        for (const char *c = fixed_names[n];; c++) {
            hash = (hash ^ (unsigned char)*c) * 0x100000001b3u;
            if (!*c)
                break;
        }
    return hash;
}
