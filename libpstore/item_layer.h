/*
 * item_layer.h - database files of partitions, and items behind headers, as Dali has them.
 *
 * A *file* is a directory of the store's name space whose containers belong together: its
 * *partitions*, each with rights of its own, and a table of them. A partition may hold *items*: a
 * header of 64 bytes that stays where it is, and data that may move. An item's identifier leads to
 * its header, which may lie in a companion container that fewer programs may write.
 *
 * Access goes by brackets, ps_begin_access and ps_end_access, with plain loads and stores between
 * them; a program may bypass them, with pointers of its own and ps_access. Functions of an item's
 * type are called on the way (struct ps_item_type).
 *
 * Calls about files: not in a transaction (-EBUSY). Those about items: in one (EPERM). An int is 0
 * or -errno; a pointer or an identifier is NULL or 0 with errno. Chapter: item-layer.md.
 */
#ifndef PS_ITEM_LAYER_H
#define PS_ITEM_LAYER_H

#include <pstore.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- files and partitions ---- */

typedef struct ps_file ps_file; /* volatile handles, as ps_container is */
typedef struct ps_part ps_part;

/* A partition's flags, kept in the file's table. 0: a plain container, which locks pages. */
enum {
    PS_PART_ITEMS = 1,    /* it has items, and locks them */
    PS_PART_APART = 2,    /* headers and allocation data are in a container of their own */
    PS_PART_CHECKED = 4,  /* an identifier of an item that is gone is an error, also if its header
                           * is another item's now; else that item is found */
    PS_PART_UNLOCKED = 8, /* brackets lock nothing */
    PS_PART_PAGES = 16,   /* its containers lock pages, by loads and stores */
    PS_PART_SUMS = 32,    /* a header has a sum of its item's data: what stored to them by no access
                           * is found by the next one (EIO). Who changes an item writes its header;
                           * not with PS_PART_UNLOCKED, nor under PS_ADD and PS_OWN (EINVAL) */
};
/* The layers of a partition's memory are: leases of pages from the store (resize), an allocator in
 * them (malloc), items. The one in the middle has a name: "objects" (or NULL), ps_alloc of its
 * container; "arena": the same, in pages of an arena of its own; "apart": all allocation data are
 * with the headers, in the container of PS_PART_APART; or one of ps_allocator_add. */
struct ps_part_wish {
    const char *name;      /* 1 to 23 bytes, without a point */
    const char *allocator;
    unsigned flags;
    int durability, protection; /* PS_DURABLE, ..., and PS_PROTECT_..., of its containers; what is
                                 * in a partition that is volatile, or lost, is gone as a whole */
};
/* ps_file_open opens a file; PS_CREATE makes it if it is not there, and partitions that it lacks.
 * Each of its containers is opened to write if `flags` has PS_WRITE and the path gives that right,
 * else to read. wish NULL: those that it has. -EBUSY: this process has it open. A cut of power
 * while it was made leaves parts out: open it with PS_CREATE again. */
ps_file *ps_file_open(const char *path, int flags, const struct ps_part_wish *wish, int count);
int ps_file_close(ps_file *file);
/* ps_file_delete deletes a file, or a view: then its containers stay. Nobody has it open. */
int ps_file_delete(const char *path);
/* ps_file_view makes a directory `view`, as ps_link does, that leads to the file with fewer rights
 * (PS_MAY_*): those to the data, and those to headers, allocation data and the table. */
int ps_file_view(const char *path, const char *view, unsigned data, unsigned headers);
ps_part *ps_file_part(ps_file *file, const char *name);
ps_container *ps_part_data(const ps_part *part);
ps_container *ps_part_headers(const ps_part *part); /* NULL: it has no items */
/* ps_part_switch switches PS_PART_CHECKED or PS_PART_UNLOCKED. Who may write the file's table may
 * (-EROFS). Those who have it open see it when they open it again. */
int ps_part_switch(ps_part *part, unsigned flag, int on);
/* ps_part_check looks through all headers and allocation data, in a transaction: 0, or -EUCLEAN and
 * in *why what is wrong (a constant). */
int ps_part_check(ps_part *part, const char **why);

/* ---- items ---- */

typedef uint64_t ps_item_id; /* 0: none. Where the header is, and its generation */
/* A struct ps_item is a header: all may read it, and the calls below write it. */
struct ps_item {
    void *data;
    uint64_t bytes, stored;    /* as programs see it; what it has at `data` */
    uint64_t room;             /* bytes at `data` that are its own */
    uint32_t type, generation; /* of the type's text (as ps_alloc_as); 0: a free header */
    uint32_t rights, form;     /* PS_MAY_READ, PS_MAY_WRITE; 0: plain, 1: by the type's `pack` */
    uint64_t next;             /* of free room */
    uint64_t sum;              /* of what is stored at `data` (PS_PART_SUMS) */
};

/* ps_item_make makes a zeroed item. All that change headers need the right to (EROFS). */
ps_item_id ps_item_make(ps_part *part, const char *type, size_t bytes);
int ps_item_delete(ps_item_id id);
/* ps_item_resize changes the size; the data may move, what is there stays, more is zeros. */
int ps_item_resize(ps_item_id id, size_t bytes);
/* ps_item_sum_again gives the header the sum of the data, which are right (PS_PART_SUMS). */
int ps_item_sum_again(ps_item_id id);
/* ps_item_protect sets PS_MAY_READ and PS_MAY_WRITE, for brackets (EACCES); a new item has both. */
int ps_item_protect(ps_item_id id, unsigned rights);

/* ps_begin_access waits for the item's lock in that mode (PS_S, PS_U, PS_X, PS_ADD, PS_OWN, as
 * ps_access; | PS_NOW), and returns its data, good until the item moves: by ps_item_resize, or,
 * if its type packs, until the transaction's end. What is stored under PS_X is kept. The end of
 * the transaction ends each access; ps_end_access does before: it packs what was changed, gives a
 * lock of PS_S, PS_U | PS_BRIEF back (ps_release), and closes what a guard had opened
 * (ps_protection).
 * NULL: EINVAL: no identifier; ESTALE, ENOENT: the item is gone; EIO: its sum is another one
 * (ps_item_sum_again); EACCES; EROFS; ENOTSUP: it is
 * packed, and the type is not known here; EBUSY (PS_NOW); what the type's functions return. */
enum { PS_BRIEF = 32 };
void *ps_begin_access(ps_item_id id, int mode);
int ps_end_access(ps_item_id id, int mode);
size_t ps_item_bytes(ps_item_id id); /* within an access; 0: there is none */
/* ps_item_get copies, on top of these, at most `bytes` bytes: how many it has; or -errno. */
int64_t ps_item_get(ps_item_id id, void *out, size_t bytes);
int ps_item_put(ps_item_id id, const void *data, size_t bytes);
const struct ps_item *ps_item_header(ps_item_id id); /* without a lock; NULL: EINVAL */
/* ps_item_next returns the next item of this type (NULL: any) behind `previous` (0: the first), in
 * no order, without a lock; 0: the end, errno 0. */
ps_item_id ps_item_next(ps_part *part, const char *type, ps_item_id previous);

/* An item's type has functions, called in a transaction and as a part of it; each may be NULL. An
 * int other than 0 is what the call, or the commit, returns; the transaction is then the caller's
 * to give up. They may access other items. */
struct ps_item_type {
    const char *name;
    /* `first` is called at the first access in a transaction. */
    int (*first)(ps_item_id id, const void *data, size_t bytes);
    /* `update` is called at the first access to write, and before deletion; NULL, 0: it is new. */
    int (*update)(ps_item_id id, const void *before, size_t bytes);
    /* `commit` is called before the commit, once for each item that was updated; NULL: deleted.
     * What it changes is part of the commit. */
    int (*commit)(ps_item_id id, const void *after, size_t bytes);
    /* `abort` is called behind the end of an undone one (ps_on_abort), for each updated item. */
    void (*abort)(ps_item_id id);
    /* `pack` says how items are kept: compressed, encrypted, pointers in another form. Bytes
     * written to `out`, at most `room`; 0: keep it plain. The program works on a volatile copy. */
    size_t (*pack)(const void *plain, size_t bytes, void *out, size_t room);
    int (*unpack)(const void *packed, size_t stored, void *plain, size_t bytes);
};
/* ps_item_type_add makes `type`, which stays there, known. -ENOSPC: 64 are; -EEXIST; -ENOTUNIQ. */
int ps_item_type_add(const struct ps_item_type *type);

/* A ps_allocator serves partitions that name it. Room is zeroed, aligned to 16 bytes, in the data
 * container; *room: how much it is, at least `bytes`. `spare`: a header that is free now, for its
 * use, or NULL. */
struct ps_allocator {
    const char *name;
    void *(*take)(ps_part *part, uint32_t type, size_t bytes, uint64_t *room);
    int (*give)(ps_part *part, void *data, uint64_t room, struct ps_item *spare);
    int (*check)(ps_part *part, const struct ps_item *item); /* 0: its room is sound */
};
int ps_allocator_add(const struct ps_allocator *allocator); /* -ENOSPC: 8 are known; -EEXIST */

#ifdef __cplusplus
}
#endif

#endif
