/*
 * katydid/item.h - locks of items of an object in item mode (KD_OBJECT_ITEMS): tables that programs
 * share with the kernel, and the calls for who meets another in one. Part of katydid/abi.h.
 *
 * In the calls `address` is one in the object, `name` an item's first byte or any other number.
 *
 * KD_ITEM_MAP (address, struct kd_item_table *): the object's table, mapped for who may write it;
 *     made at first. Again: the same. munmap ends it, fork leaves it out. -ENOENT, -EINVAL: no such
 *     object; -EOWNERDEAD; -ENOMEM
 * KD_ITEM_LOCK (address, name, mode, perhaps with KD_ITEM_NOW): waits until the running transaction
 *     has the mode there, besides those it has, whether it has set its bit before or not. Who may
 *     not write gets S and IS (else -EACCES) until the end, at most KD_ITEM_NOTES (-ENOLCK); all
 *     others clear their bits themselves. -EBUSY: not now, and its bit is cleared. -ENOENT: no
 *     transaction; -EINVAL: a snapshot
 * KD_ITEM_WAKE (address, name): the running transaction gives up all modes there before its end,
 *     and who waits looks again. For who has cleared its bits, and then seen `waiting`
 */
#ifndef KATYDID_ITEM_H
#define KATYDID_ITEM_H

#include <stdint.h>

/* Modes that a transaction has at an entry add up. */
enum kd_item_mode { KD_ITEM_S, KD_ITEM_U, KD_ITEM_X, KD_ITEM_ADD, KD_ITEM_IS, KD_ITEM_IX,
                    KD_ITEM_OWN, KD_ITEM_MODES };
enum { KD_ITEM_NOW = 16 };                     /* -EBUSY instead of waiting */
enum { KD_ITEMS_LEAST = 256, KD_ITEMS_DEFAULT = 4096, KD_ITEMS_MOST = 65536,
       KD_ITEM_NOTES = 1024 };
enum {                                         /* of KD_CONTAINER_POLICY; with a table: -EBUSY */
    KD_POLICY_ITEMS = 4,                       /* entries of the table, a power of 2 */
    /* a set of modes (1 << KD_ITEM_S ...) that KD_ITEM_OWN conflicts with; all by default */
    KD_POLICY_OWN = 5,
};
/* An entry of a table. Bit v % 64 of holders[mode][v / 64]: view v has this mode, or tries to get
 * it; it counts while the view has a transaction. By locked instructions, its own bits only. */
struct kd_item_entry {
    uint64_t holders[KD_ITEM_MODES][2];
    uint64_t waiting;                          /* not 0: somebody waits, newcomers call */
    uint64_t reserved;
};
struct kd_item_table {
    /* of entry 0; 0: the caller may not write, and takes each lock by KD_ITEM_LOCK */
    struct kd_item_entry *entries;
    uint32_t bits;                             /* there are 1 << bits entries */
    uint32_t own;                              /* KD_POLICY_OWN */
    uint32_t view;                             /* the caller's number, ~0: it is in no view */
    uint32_t reserved;
};
/* kd_item_entry: the number of a name's entry. Names that share one share their locks. */
static inline uint32_t kd_item_entry(uint64_t name, uint32_t bits)
{
    return (uint32_t)(name * 0x9e3779b97f4a7c15ull >> (64 - bits));
}
/* kd_item_against: the modes, as a set, that a mode conflicts with. `own`: kd_item_table's. */
static inline uint32_t kd_item_against(uint32_t mode, uint32_t own)
{
    enum { S = 1 << KD_ITEM_S, U = 1 << KD_ITEM_U, X = 1 << KD_ITEM_X, ADD = 1 << KD_ITEM_ADD,
           IS = 1 << KD_ITEM_IS, IX = 1 << KD_ITEM_IX };
    static const uint8_t with[KD_ITEM_OWN] = { /* by enum kd_item_mode */
        X | ADD | IX, U | X | ADD | IX, S | U | X | ADD | IS | IX, S | U | X, X, S | U | X,
    };
    return mode == KD_ITEM_OWN ? own : with[mode] | (own >> mode & 1) << KD_ITEM_OWN;
}

#endif
