/*
 * manager_check.c - a program that is to be a container's manager is asked what it thinks of its
 * arguments, before they are kept with the container.
 *
 * Only programs that say so in their files (KM_CHECKS, manager.h) are asked: any other one would
 * not know the question, and begin to work.
 */
#include "pstore_private.h"

#include <elf.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

enum { WORDS_MAX = 64, HEADERS_MAX = 32 };

/* The note of KM_CHECKS, as it lies in the file. */
static const struct { uint32_t name_bytes, bytes, type; char name[8]; } note = {8, 0, 1, "Katydid"};

static int segment_says(int file, const Elf64_Phdr *segment)
{
    char bytes[512];
    ssize_t n = segment->p_type != PT_NOTE ? 0
                                           : pread(file, bytes, sizeof bytes,
                                                   (off_t)segment->p_offset);
    size_t all = n < 0 ? 0 : (size_t)n < segment->p_filesz ? (size_t)n : segment->p_filesz;
    return memmem(bytes, all, &note, sizeof note) != NULL;
}

static int program_says(const char *program)
{
    Elf64_Ehdr head;
    Elf64_Phdr segment[HEADERS_MAX];
    int file = open(program, O_RDONLY | O_CLOEXEC), says = 0;
    if (file < 0)
        return 0;
    ssize_t n = pread(file, &head, sizeof head, 0);
    if (n == sizeof head && memcmp(head.e_ident, ELFMAG, SELFMAG) == 0)
        n = pread(file, segment, sizeof segment, (off_t)head.e_phoff);
    else
        n = 0;
    for (int i = 0; i < head.e_phnum && (i + 1) * (ssize_t)sizeof segment[0] <= n; i++)
        says |= segment_says(file, &segment[i]);
    close(file);
    return says;
}

/* The status with which it ended; 0 also if it cannot be started here: its first open tells. */
static int program_ask(const char *name, const char *program, const char *const *arguments)
{
    const char *argv[WORDS_MAX + 1] = {program, "--check", name};
    for (int i = 3; arguments && *arguments && i < WORDS_MAX; i++)
        argv[i] = *arguments++;
    struct kd_process_create c = {.path = program, .argv = argv, .fds = {-1, -1, -1},
                                  .envp = (const char *const *)environ};
    long handle = ps_kernel(KD_PROCESS_CREATE, (long)&c, 0, 0);
    int status = 0;
    if (handle < 0)
        return 0;
    ps_kernel(KD_HANDLE_CLOSE, handle, 0, 0);
    return ps_kernel(KD_PROCESS_WAIT, c.pid, (long)&status, 0) < 0 ? 0 : status;
}

int manager_check(const char *name, const char *program, const char *const *arguments)
{
    return program && program_says(program) && program_ask(name, program, arguments) ? -ECHILD : 0;
}
