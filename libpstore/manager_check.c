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
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { WORDS_MAX = 64, HEADERS_MAX = 32 };

/* `note` is that of KM_CHECKS, as it lies in the file. */
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

/* program_ask returns the program's status; 0 also if it cannot start here: its first open tells.
 * It has what it will begin with (user/keeper.c): the directory that the container lies in. */
static int program_ask(const char *path, const char *program, const char *const *arguments)
{
    char directory[WIRE_PATH_BYTES], roots[2 * STORE_NAME_BYTES], store[2 * STORE_NAME_BYTES];
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    const char *argv[WORDS_MAX + 1] = {program, "--check", name};
    snprintf(directory, sizeof directory, "%.*s", slash ? (int)(slash - path) : 0, path);
    int root = ps_handle(directory, may_of(WIRE_KEPT_MAY | WIRE_MAY_GRANT));
    if (root < 0)
        return 0;
    snprintf(roots, sizeof roots, PS_ROOTS "=%s:0", store_of_opens()->name);
    snprintf(store, sizeof store, "PS_STORE=%s", store_of_opens()->name);
    const char *envp[] = {"PATH=/bin", "HOME=/tmp", store, roots, NULL};
    for (int i = 3; arguments && *arguments && i < WORDS_MAX; i++)
        argv[i] = *arguments++;
    struct kd_process_create c = {.path = program, .argv = argv, .fds = {-1, -1, -1},
                                  .envp = envp, .flags = KD_PROCESS_CONFINED, .handle_count = 1,
                                  .handles = {root},
                                  .handle_rights = {KD_RIGHT_CALL | WIRE_KEPT_MAY}};
    long handle = ps_kernel(KD_PROCESS_CREATE, (long)&c, 0, 0);
    int status = 0;
    ps_drop(root);
    if (handle < 0)
        return 0;
    ps_kernel(KD_HANDLE_CLOSE, handle, 0, 0);
    return ps_kernel(KD_PROCESS_WAIT, c.pid, (long)&status, 0) < 0 ? 0 : status;
}

int manager_check(const char *name, const char *program, const char *const *arguments)
{
    return program && program_says(program) && program_ask(name, program, arguments) ? -ECHILD : 0;
}
