/*
 * storage.h - OO1's first layer, physical storage: files whose bytes have a place in memory.
 *
 * A program opens a file, seeks, reads and writes. A read brings bytes to their place and says
 * where that is; a write tells that bytes in their place were changed. One of four files of code is
 * linked:
 *
 *   storage_file.c    each read and write is a call of the system: nothing is taken for granted
 *                     that was read before
 *   storage_mapped.c  the file is mapped: reads and writes have nothing left to do
 *   storage_store.c   the file is an object in a container: the same, and operations are durable
 *   storage_heap.c    the file is plain volatile memory, to compare with
 *
 * Errors are -errno, or NULL with errno.
 */
#ifndef OO1_STORAGE_H
#define OO1_STORAGE_H

#include <stddef.h>
#include <stdint.h>

struct storage;

/* Set before the first file is opened: where files are kept in a container, it has this name. */
__attribute__((weak)) const char *storage_database = "oo1";

/* Opens a file, made with zeros if missing, of at most so many bytes. The place of its bytes is
 * always the same, if a program opens the same files in the same order. */
struct storage *storage_open(const char *name, uint64_t bytes_max);
int storage_close(struct storage *s);
void storage_seek(struct storage *s, uint64_t at);
void *storage_read(struct storage *s, size_t bytes);
int storage_write(struct storage *s, size_t bytes);

/* Runs function(arg), which returns 0 or an error, as an operation; one that changed something is
 * committed. Only in a container does that make it durable, and an error undo it. */
int storage_operation(int (*function)(void *), void *arg, int changes);

/* What this process has spent; instructions: of all processes, if QEMU counts them. */
struct storage_costs { uint64_t instructions, pages_read, flushes; };
struct storage_costs storage_costs(void);
/* Deletes all files, none of which is open; -ENOENT: there are none. */
int storage_delete(void);

/* The part of all four that is the same. */
static inline uint64_t storage_counter(void)
{
    uint32_t low, high;
    __asm__ volatile("rdtsc" : "=a"(low), "=d"(high)::"memory");
    return (uint64_t)high << 32 | low;
}

#endif
