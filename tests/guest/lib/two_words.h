/* two_words.h - two words in different pages that every transaction leaves equal. */
#ifndef TWO_WORDS_H
#define TWO_WORDS_H

#include <errno.h>
#include <stdint.h>

extern volatile uint64_t *a, *b;        /* where the test put them */

/* For client_run: both become `value`. */
long both(void *value);

/* For client_run: stores one in *out; -EBADMSG: they differ. */
long equal(void *out);

#endif
