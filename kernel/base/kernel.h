/* kernel.h - small things that every file of the kernel uses. */
#ifndef KERNEL_KERNEL_H
#define KERNEL_KERNEL_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/errno.h"
#include "katydid/abi.h"
#include "base/list.h"
#include "base/lock.h"

#define must_check __attribute__((warn_unused_result))
#define HOT static inline __attribute__((always_inline)) /* counted by the instruction; bench.c */
#define RARE __attribute__((noinline, cold))
#define likely(e) __builtin_expect(!!(e), 1)
#define unlikely(e) __builtin_expect(!!(e), 0)
#define PAGE_BYTES KD_PAGE_BYTES
#define PAGE_SHIFT 12
#define ARRAY_COUNT(a) (sizeof(a) / sizeof((a)[0]))
#define MIN(a, b) ((a) < (b) ? (a) : (b))
#define MAX(a, b) ((a) > (b) ? (a) : (b))

typedef uint64_t paddr_t; /* a physical address */
typedef uint64_t vaddr_t; /* a user virtual address: hostile until checked */
typedef uint64_t csn_t;   /* a commit's number: the LSN of its commit record */

static inline uint64_t page_down(uint64_t at) { return at & ~(uint64_t)(PAGE_BYTES - 1); }
static inline uint64_t page_up(uint64_t at) { return page_down(at + PAGE_BYTES - 1); }

/* printk.c: one call is one line in the log; printf's %d %u %x %s %c, also %l %ll %z,
 * and widths (format.c). */
void printk(const char *format, ...) __attribute__((format(printf, 1, 2)));
int snprintk(char *buffer, size_t bytes, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
int vsnprintk(char *buffer, size_t bytes, const char *format, va_list arguments);
/* log_read copies the log's text, the oldest kept first; returns the bytes copied. */
size_t log_read(char *to, size_t bytes);
void log_init(void); /* chooses the serial port: option log=com1 (default), com2 or none */
_Noreturn void panic(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* assert states what holds here, and is always on. A failure is our own broken invariant. */
#define assert(e) ((e) ? (void)0 : panic("assertion failed: %s, %s:%d", #e, __FILE__, __LINE__))

/* string.c; page_zero is the fast one (rep stosq). */
void *memcpy(void *to, const void *from, size_t n);
void *memmove(void *to, const void *from, size_t n);
void *memset(void *p, int c, size_t n);
int memcmp(const void *a, const void *b, size_t n);
size_t strlen(const char *s);
size_t strnlen(const char *s, size_t n);
int strcmp(const char *a, const char *b);
int strncmp(const char *a, const char *b, size_t n);
size_t strlcpy(char *to, const char *from, size_t n);
void page_zero(void *page);

/* random.c: bytes that nobody should rely on being secret: of the clock, or of seed=TEXT on the
 * command line. random_mix has what follows depend on these bytes, too. random_init makes the
 * stack guard, too: for a caller that never returns. */
void random_bytes(void *to, size_t bytes);
void random_mix(const void *from, size_t bytes);
void random_init(void);

/* boot.c: the boot loader's word on this machine. */
const char *kernel_option(const char *name); /* value of name=value on the command line, or NULL */

#endif
