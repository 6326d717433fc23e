/*
 * store_chain.h - the part of store.h about transactions larger than memory, which includes it.
 */
#ifndef KATYDID_DISK_STORE_CHAIN_H
#define KATYDID_DISK_STORE_CHAIN_H

#include "store.h"

/* ---------------------------------------------------------------- chains
 *
 * A transaction that needs more memory than there is writes pages into the log before its commit:
 *
 *     store_chain_begin
 *     a group: store_spill_page ..., seal, issue (or write), apply     the frames may be given away
 *     store_spill_find: where to read a page back from; store_spill_drop: it is in memory again
 *     a later group: store_txn_begin, store_txn_chain, pages in memory, store_txn_end
 *     seal, write, apply; store_chain_end
 *
 * A chain without a commit record is nothing at the next start. A chain lives for half the log at
 * most, and has at most (group_bytes - 4096) / 48 pages; else each call about it returns -E2BIG,
 * and the transaction must be aborted (disk.md).
 */
struct store_chain;
store_must_check int store_chain_begin(struct store *store, uint64_t tag, struct store_chain **out);
/* store_chain_end frees a chain: its transaction is aborted, or applied. Writes nothing. */
void store_chain_end(struct store_chain *chain);
/* store_spill_page adds a page's image, outside of a transaction; it replaces an earlier one.
 * -ENOBUFS: the group is full; -EAGAIN: the log is full; -E2BIG; -ENOMEM; -ENOENT, -EINVAL: no such
 * page. Cancelling the group takes it back (and an image that it replaced is lost as well). */
store_must_check int store_spill_page(struct store_group *group, struct store_chain *chain,
                                      uint64_t object, uint64_t page, const void *bytes);
/* store_spill_find tells where the image lies, once its group is applied (-EBUSY), and its
 * crc32c(0, page, 4096). -ENOENT: none. -E2BIG: the chain is too old. */
store_must_check int store_spill_find(struct store *store, struct store_chain *chain,
                                      uint64_t object, uint64_t page, uint64_t *offset_bytes,
                                      uint32_t *crc);
/* store_spill_drop drops the image of a page that is in memory again (or freed). */
void store_spill_drop(struct store_chain *chain, uint64_t object, uint64_t page);
uint64_t store_chain_pages(const struct store_chain *chain);    /* images that count */
/* store_txn_chain makes a transaction the end of `chain`: claims space for all its pages, and logs
 * where they are. -ENOBUFS: a SPILL record of the chain is in this very group: use the next.
 * -E2BIG. -ENOSPC: fewer free extents than these pages need. -ESTALE: another transaction has
 * committed into an extent that this one has pages of at home: end it. After -ENOSPC, as after
 * -EAGAIN of store_txn_end, the chain is as it was: a later transaction may commit it, or it is
 * ended. */
int store_txn_chain(struct store_group *group, struct store_chain *chain);

/* ---------------------------------------------------------------- bulk: home before the commit
 *
 * A page of a chain that lies in an extent of which nobody has a page goes straight home, and not
 * into the log:
 *
 *     store_bulk_page          where its home will be; the place is the chain's alone
 *     the page is written there, and completed                             NO MUTEX
 *     store_bulk_written       store_spill_find and store_spill_drop know it from now on
 *     ... store_bulk_flush     NO MUTEX: all of them are on stable storage
 *     store_txn_chain          claims for the container what the chain has, and logs 4 bytes a page
 *
 * What is not committed leaves nothing: its places are free again with store_chain_end, or the next
 * start. Beside group_bytes only free extents limit how many pages these are. (bulk.c)
 */

/* store_bulk_page gives a home. -ENOENT: others are there: spill. -ENOSPC -E2BIG -ENOMEM -EINVAL */
store_must_check int store_bulk_page(struct store_chain *chain, uint64_t object, uint64_t page,
                                     uint64_t *offset_bytes);
/* store_bulk_written notes that a page is there; `crc` is crc32c(0, bytes, 4096). */
void store_bulk_written(struct store_chain *chain, uint64_t object, uint64_t page, uint32_t crc);
/* store_bulk_flush makes homes durable; if some are not, store_txn_chain returns -EINVAL. */
store_must_check int store_bulk_flush(struct store_chain *chain);

#endif
