/*
 * agent_types.h - what the objects of a container look like, at its home and at another site, and
 * pages converted from one to the other (types.md).
 *
 * A description is a text of lines, at most TYPES_TEXT_MAX bytes:
 *
 *     order little              the bytes of numbers: little or big
 *     type 4096 struct account  a type: its bytes, its name as ps_new has it
 *     0 ptr next                a field: its offset, its kind, or KIND*COUNT, its name
 *     8 i64 amount              kinds: char, i8 u8 ... i64 u64, f32 f64, ptr
 *     16 char*4080 owner
 *     name phase struct phase   what ps_named calls so is of this type
 *
 * Whatever is given here may be hostile, texts and pages: nothing is read or written outside of it.
 */
#ifndef USER_SITES_AGENT_TYPES_H
#define USER_SITES_AGENT_TYPES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { TYPES_TEXT_MAX = 4000, TYPES_MAX = 32, TYPE_FIELDS_MAX = 256, TYPE_NAMES_MAX = 32,
       TYPE_NAME_BYTES = 48, TYPES_PAGE_BYTES = 4096 };

struct type_field {
    char name[24];
    uint32_t offset, count;
    uint8_t class, width;               /* 'c', 'i' signed, 'u' unsigned, 'f', 'p'; bytes */
    int16_t other;                      /* the field of this name at the other side; -1: none */
};
struct type { char name[TYPE_NAME_BYTES]; uint32_t number, bytes, first, fields; int other; };
struct type_name { char name[TYPE_NAME_BYTES]; uint32_t number; unsigned type; };
struct types {
    bool big;
    unsigned types, fields, names;
    struct type type[TYPES_MAX];
    struct type_field field[TYPE_FIELDS_MAX];
    struct type_name name[TYPE_NAMES_MAX];
};
struct types_pair { struct types home, site; };

/* types_parse takes a text apart. 0, or the number of the line that is wrong, from 1. */
unsigned types_parse(struct types *t, const char *text, size_t bytes);

/* types_match finds for each type and field of one side that of the other, by name. 0; -EPROTOTYPE:
 * `refused` is the name of a type, or of an object, that is described at one side only, or has a
 * field whose kind cannot be converted. */
int types_match(struct types_pair *p, char refused[TYPE_NAME_BYTES]);

/* types_out makes a page at address `at` as the site sees it out of the home's. 0; -EPROTOTYPE: an
 * object's type is not described, or it has not the bytes for it: *type is its number; -EOVERFLOW:
 * a number does not fit; -EOPNOTSUPP: the page has no objects, or one that runs on into others;
 * -EUCLEAN: objects overlap. */
int types_out(const struct types_pair *p, uint64_t at, const uint8_t *home, uint8_t *site,
              uint32_t *type);

/* types_in makes the home's page out of the site's: fields that the site has changed, against what
 * types_out makes of `before`, are converted; what it has no field for stays. Errors as above;
 * -EOVERFLOW also: the site has stored to elements that the home has not. */
int types_in(const struct types_pair *p, uint64_t at, const uint8_t *before, const uint8_t *site,
             uint8_t *home, uint32_t *type);

#endif
