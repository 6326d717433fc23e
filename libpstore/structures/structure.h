/*
 * structure.h - what all ready-made structures share: memory, access objects, types that are
 * checked.
 *
 * A structure has three parts. Its *head* lies in the root object and holds what is kept. Its
 * *instance* is volatile and says where the head is, in which memory, in which order: with it a
 * structure can only be set up and torn down. Data is reached through *access objects*, of which
 * any number are open at once; each is closed where its block ends. The code of a structure takes
 * no lock, writes no log and does no input or output; loads and stores do that. So one object file
 * works on containers and on any other memory.
 *
 * From here on a pointer of a wrong type is an error of the compiler, not a warning.
 */
#ifndef PS_STRUCTURE_H
#define PS_STRUCTURE_H

#include <stddef.h>
#include <stdint.h>

#pragma GCC diagnostic error "-Wincompatible-pointer-types"
#pragma GCC diagnostic error "-Wint-conversion"
#pragma GCC diagnostic error "-Wdiscarded-qualifiers"

/* Where nodes come from. `take` gives zeroed bytes, 16-byte aligned, in pages of their own as far
 * as they are a page (near: a node that will be used together with them, or NULL), or NULL with
 * errno. */
struct ps_memory {
    void *(*take)(void *arg, size_t bytes, const void *near);
    void (*give)(void *arg, void *p);
    void *arg;
};
struct ps_container;
struct ps_memory ps_in(struct ps_container *c);         /* ps_alloc and ps_free */
struct ps_memory ps_volatile(void);                     /* the heap of the C library */

/* Opens an access object until the block ends: PS_ACCESS(phone_keyed, a, &by_name, PS_CHANGE); */
#define PS_ACCESS(kind, variable, ...) \
    __attribute__((cleanup(kind##_close))) struct kind variable = kind##_open(__VA_ARGS__)
enum ps_mode { PS_LOOK, PS_CHANGE };                    /* a change through PS_LOOK is -EACCES */

/* The order of an instance, if it is not its type's: a function and its name, which is kept and
 * checked. */
#define PS_ORDER(function) .compare = (function), .compare_name = #function

/* What differs if a program was built with another key, record, order or node size: 64 bits of
 * FNV-1a. */
uint64_t ps_fingerprint(uint64_t before, const void *bytes, size_t length);

/* Draws: `write` gets pieces of an SVG, one after another. */
struct ps_sink {
    void (*write)(void *arg, const char *text);
    void *arg;
};

#endif
