/* vmask.h - sets of views: one bit for each. */
#ifndef KERNEL_VMASK_H
#define KERNEL_VMASK_H

#include "base/kernel.h"

struct vmask { uint64_t word[KD_VIEW_MAX / 64]; };

static inline bool vmask_test(const struct vmask *m, unsigned v)
{
    return m->word[v / 64] >> v % 64 & 1;
}
static inline void vmask_set(struct vmask *m, unsigned v) { m->word[v / 64] |= 1ull << v % 64; }
static inline void vmask_clear(struct vmask *m, unsigned v)
{
    m->word[v / 64] &= ~(1ull << v % 64);
}
static inline void vmask_mark(struct vmask *m, unsigned v, bool in) /* atomic: sets or clears */
{
    uint64_t bit = 1ull << v % 64, *word = &m->word[v / 64];
    (void)(in ? __atomic_fetch_or(word, bit, __ATOMIC_SEQ_CST)
              : __atomic_fetch_and(word, ~bit, __ATOMIC_SEQ_CST));
}
static inline bool vmask_within(const struct vmask *m, const struct vmask *all)
{
    return !((m->word[0] & ~all->word[0]) | (m->word[1] & ~all->word[1]));
}
static inline void vmask_add(struct vmask *m, const struct vmask *more)
{
    m->word[0] |= more->word[0];
    m->word[1] |= more->word[1];
}
static inline void vmask_keep(struct vmask *m, const struct vmask *of)
{
    m->word[0] &= __atomic_load_n(&of->word[0], __ATOMIC_SEQ_CST);
    m->word[1] &= __atomic_load_n(&of->word[1], __ATOMIC_SEQ_CST);
}
static inline bool vmask_empty(const struct vmask *m) { return !(m->word[0] | m->word[1]); }
/* bit_next returns the first bit that is set, of n, at or after `from`; -1: none. */
static inline int bit_next(const uint64_t *bits, unsigned n, unsigned from)
{
    for (unsigned w = from / 64; w < n / 64; w++, from = w * 64) {
        uint64_t rest = bits[w] >> (from % 64);
        if (rest)
            return (int)(from + (unsigned)__builtin_ctzll(rest));
    }
    return -1;
}
static inline int vmask_next(const struct vmask *m, unsigned from)
{
    uint64_t rest = from < 64 ? m->word[0] >> from : 0;
    if (rest)
        return (int)from + __builtin_ctzll(rest);
    from = from < 64 ? 0 : from - 64;
    rest = from < 64 ? m->word[1] >> from : 0;
    return rest ? (int)from + 64 + __builtin_ctzll(rest) : -1;
}
/* vmask_take takes the first view out, and returns it; -1: none. */
static inline int vmask_take(struct vmask *m)
{
    for (int w = 0; w < 2; w++)
        if (m->word[w]) {
            int v = 64 * w + __builtin_ctzll(m->word[w]);
            m->word[w] &= m->word[w] - 1;
            return v;
        }
    return -1;
}
#define vmask_for(v, m) for (int v = vmask_next((m), 0); v >= 0; v = vmask_next((m), v + 1))
/* vmask_each: the views of a mask as it was when the loop began; few instructions for one view. */
#define vmask_each(v, m)                                                         \
    for (struct vmask v##_rest = *(m), *v##_on = &v##_rest; v##_on; v##_on = NULL) \
        for (int v; (v = vmask_take(&v##_rest)) >= 0;)

#endif
