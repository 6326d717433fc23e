/*
 * misleading.c - bytes of programs that look like the begin of a group, and stay out of the log.
 *
 * A start that looks behind the log's end for what was lost believes a block that begins with our
 * magic and the store's uuid, and whose CRC holds: that is no secret.
 *
 * Invariant
 *   LG6  No block inside of a group begins as a group of this store does, whatever programs write:
 *        a start would take it for one, and the log for damaged. What pages and differences hold is
 *        looked at where it lies, together with the commit behind it. All else that others choose
 *        (names, sizes, votes, decisions, what a commit is called) has no magic at a multiple of 8,
 *        where each block begins: it is refused where it comes from, and so never where it is
 *        written once more, at another place, for somebody else.
 */
#include "internal.h"

#define PASSES_BYTES offsetof(struct group_disk, epoch)     /* what passes_for_group reads */
_Static_assert(PASSES_BYTES <= sizeof(struct record_disk), "a commit ends what begins before it");

bool passes_for_group(const struct store *store, const void *block)
{
    const struct group_disk *header = block;
    return le64_get(header->magic) == GROUP_MAGIC &&
           memcmp(header->uuid_low.byte, store->super.uuid, sizeof header->uuid_low.byte) == 0;
}

bool data_misleads(const void *data, size_t bytes)
{
    const le64 *word = data, *end = word + bytes / sizeof *word;
    while (word < end && le64_get(*word) != GROUP_MAGIC)
        word++;
    return word < end;
}

bool txn_misleads(const struct store_group *group, const struct record_disk *commit)
{
    size_t at = round_block(group->txn_used);
    while (at + PASSES_BYTES <= group->used &&
           !passes_for_group(group->store, group->buffer + at))
        at += BLOCK_BYTES;
    return at + PASSES_BYTES <= group->used || data_misleads(commit, sizeof *commit);
}
