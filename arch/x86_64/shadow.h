/*
 * shadow.h - a stale-TLB checker, in the kernel with planted bugs only (bug.h): a shadow of what TLBs
 * may hold. In a normal build all of it is nothing.
 */
#ifndef ARCH_SHADOW_H
#define ARCH_SHADOW_H

#include <stdbool.h>
#include <stdint.h>

struct frame;
#ifdef KATYDID_BUGS
extern bool shadow_off;                                   /* "shadow=off": for counting what locks cost */
void shadow_init(void);                                   /* after frame_init */
void shadow_pte(uint64_t *pte, uint64_t old, uint64_t now);   /* it was changed from old to now */
void shadow_table(void *table, uint64_t top, uint64_t base); /* a lowest table of `top`; 0: it goes */
uint64_t shadow_flush_begin(void);                        /* this CPU writes CR3 ... */
void shadow_flush_end(uint64_t begun);
void shadow_flush_page(uint64_t at);                      /* invlpg was done */
void shadow_check_copy(struct frame *f);                  /* panics if a TLB may still hold it as a right */
void shadow_check_free(struct frame *f);                  /* or if a page table maps it (FR1) */
void shadow_check_self(void);                             /* this CPU owes itself no flush */
void shadow_due(void);                                    /* this CPU is about to load a table (KR5) */
void shadow_gone(uint64_t top);                           /* what it maps beside slot 0 goes */
/* The CPU where the table was used last, so that it may be used there again without a flush (KR5); -1:
 * any; -2: it is in use no more. bug.c. */
int shadow_cpu_of(uint64_t top);
int shadow_is_right(uint64_t top);                        /* its entries are rights, no snapshot's */
#else
static inline void shadow_init(void) {}
static inline void shadow_pte(uint64_t *pte, uint64_t old, uint64_t now) { (void)pte, (void)old, (void)now; }
static inline void shadow_table(void *t, uint64_t top, uint64_t base) { (void)t, (void)top, (void)base; }
static inline uint64_t shadow_flush_begin(void) { return 0; }
static inline void shadow_flush_end(uint64_t begun) { (void)begun; }
static inline void shadow_flush_page(uint64_t at) { (void)at; }
static inline void shadow_check_copy(struct frame *f) { (void)f; }
static inline void shadow_check_free(struct frame *f) { (void)f; }
static inline void shadow_check_self(void) {}
static inline void shadow_due(void) {}
static inline void shadow_gone(uint64_t top) { (void)top; }
#endif
#endif
