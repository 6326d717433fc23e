/*
 * import.h - the two halves of kstore import: lines.c reads lines of JSON, import.c makes pages of
 * what they say.
 */
#ifndef KATYDID_IMPORT_H
#define KATYDID_IMPORT_H

#include "salvage.h"

#include "../../../libpstore/slot.h"

struct import_wish {
    struct common common;
    const char *name;
};

struct import_ref {                     /* to a byte of an object; container "": the new one */
    bool     given;
    char     container[STORE_NAME_BYTES];
    uint64_t object, offset;
    uint64_t from, line;                /* where in the new container; of the file */
};

struct import_page {
    uint64_t number;
    bool     sealed, marked, runs;
    uint32_t tail;
    struct import_ref arena, next;
    unsigned slots;
    struct slot slot[SLOT_COUNT_MAX];
    uint32_t type[SLOT_COUNT_MAX];
    uint8_t  used[SLOT_UNITS];
    uint8_t *bytes;
};

/* What a line says; -1 in `what`: nothing yet. */
struct import_line {
    uint64_t page, tail, marked, object, bytes, type;
    struct import_ref arena, next, at;
    char     named[STORE_NAME_BYTES];
};

struct import {
    uint64_t line;
    bool     wrong, ended;
    char     name[STORE_NAME_BYTES], type[STORE_NAME_BYTES];
    uint64_t segments, flags, encoder, locking, protection, durability, version, root_bytes;
    struct import_ref root;
    struct import_page *page;           /* by number */
    uint32_t page_count, page_room, pages_max;      /* pages_max: what the store could hold */
    uint64_t covered, objects;
    uint64_t at, end;                   /* of the object whose data are read */
    struct import_ref *ref;
    uint32_t ref_count, ref_room;
    struct import_name { char name[STORE_NAME_BYTES]; uint64_t bytes; struct import_ref at; }
        *named;
    uint32_t name_count, name_room;
};

/* Says what is wrong with the line, once; -EINVAL. */
int  import_wrong(struct import *m, const char *text, ...) __attribute__((format(printf, 2, 3)));
int  import_page_line(struct import *m, const struct import_line *line);
int  import_object_line(struct import *m, const struct import_line *line);
/* The object's next bytes; NULL: zeros. */
int  import_bytes(struct import *m, const uint8_t *bytes, uint64_t count);
int  import_reference(struct import *m, const struct import_ref *ref);

/* lines.c: all of a file; 0, or -EINVAL after a message. */
int  import_read(struct import *m, FILE *file);
void import_free(struct import *m);

#endif
