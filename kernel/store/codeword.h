/* codeword.h - codewords: is a page in memory as it was committed? (codeword.c, codewords.md) */
#ifndef KERNEL_CODEWORD_H
#define KERNEL_CODEWORD_H

#include "store/object.h"

enum { REGIONS_ALL = (1 << KD_REGIONS) - 1 };

/* codeword_make makes the codewords of a page that came, or was mended; leaf locked. */
void codeword_make(struct leaf *l, unsigned slot);
/* codeword_replace brings them up to date for the frame of c, no item copy, which has become the
 * page. Leaf locked. */
void codeword_replace(struct leaf *l, const struct copy *c);
/* codeword_follow exchanges words of the page with those of item copy c, and brings them up to
 * date. False: they were not those that were told. Leaf locked. */
bool codeword_follow(struct leaf *l, const struct copy *c);
/* codeword_spoil sees to it that all of the page is found damaged. Leaf locked. */
void codeword_spoil(struct leaf *l, unsigned slot);
/* codeword_wrong tells which of these regions are not as they were committed, a bit for each; none
 * of a page that is away, or of an object without codewords. Leaf locked. */
unsigned codeword_wrong(const struct leaf *l, unsigned slot, unsigned regions);
/* codeword_tell notes what is about to be told of c, no item copy: these regions of it. */
void codeword_tell(struct copy *c, unsigned regions);
/* codeword_tells_right tells whether that was told, and its page is as it was committed (CW2). */
bool codeword_tells_right(struct copy *c);
/* codeword_at is KD_HINT_CHECK, of bytes that begin in o: 0, -EIO; -EINVAL: they end behind it. */
must_check int codeword_at(struct object *o, vaddr_t at, uint64_t bytes);

#endif
