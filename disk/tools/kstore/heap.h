/*
 * heap.h - all objects of libpstore in an image, for `kstore objects` and `kstore leaks`.
 *
 * Memory: 24 bytes for each object, a multiple of what small objects take themselves.
 */
#ifndef KATYDID_HEAP_H
#define KATYDID_HEAP_H

#include "kstore.h"

struct heap_object {
    uint64_t address;
    uint32_t bytes, type;               /* type: slot_type_of() of its text; 0: unknown */
    uint32_t container;                 /* number of its container in the model */
    bool     reached;
};
struct heap_arena { uint64_t page, arena; };    /* a page and the arena that it is of */
struct heap {
    struct image image;
    struct kview opened, *view;         /* view: NULL, or &opened */
    struct heap_object *object;         /* by address */
    uint32_t count, room;
    struct heap_arena *arena;           /* by page */
    uint32_t arena_count, arena_room;
    struct type_text { uint32_t type; char text[64]; } *text;       /* by type */
    uint32_t text_count, text_room;
};

#define HEAP_PROGRAMS_MAX 16
/* What both commands are told. */
struct heap_wish {
    struct common common;
    const char *program[HEAP_PROGRAMS_MAX];     /* their texts name types */
    int  programs;
    bool each;                                  /* list objects one by one */
};
error_t heap_parse(int key, char *value, struct argp_state *state);
#define HEAP_PROGRAM \
    { "program", 'p', "FILE", 0, "a program that made objects: the texts in it name types", 0 }

/* Reads an image; the status of image_view, or CANNOT after a message. heap_close in any case. */
int  heap_open(struct heap *heap, const struct heap_wish *wish);
void heap_close(struct heap *heap);
/* The object with a byte there, or NULL. */
struct heap_object *heap_at(const struct heap *heap, uint64_t address);
/* The number of a container's page at an address; UINT64_MAX: it has none there. */
uint64_t heap_page_number(const struct kview *view, const struct kcontainer *container,
                          uint64_t address);
/* Is it one that the store manager keeps for programs (libpstore/index.h)? */
bool heap_is_index(const struct kcontainer *container);
/* The text of a type, as far as a root or a program that was given has it; NULL. */
const char *heap_type_text(const struct heap *heap, uint32_t type);
struct heap_pages {                     /* the page that was read last; page: UINT64_MAX at first */
    struct kview *view;
    const struct kcontainer *container;
    uint64_t page;
    bool     there;
    int      error;
    uint8_t  bytes[BLOCK_BYTES];
};
/* *bytes: of that page, NULL if it was never written or cannot be read; then the error. */
int  heap_page_bytes(struct heap_pages *pages, const struct kcontainer *container, uint64_t page,
                     const uint8_t **bytes);
/* Prints tables by container and type of the objects that are reached, or are not: all if both. */
void heap_show(struct heap *heap, bool reached, bool unreached, const struct heap_wish *wish);

#endif
