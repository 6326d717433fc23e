/*
 * allow.c - what programs get of the shell's handle of the system: nothing, unless the person at
 * the shell says so.
 *
 * The shell itself has what its parent gave it, and uses it for what is typed: `kill`, `dmesg`,
 * `handles` and so on. A program gets a copy of the handle with the rights that `allow` names,
 * before it or for all that come, and the few programs below, which lie in /bin where nobody can
 * replace them, with those that they are of no use without.
 */
#include "sh.h"

#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <katydid/abi.h>

static const struct { const char *name; uint32_t right;
} rights[] = { { "disks", KD_RIGHT_DISKS },
               { "names", KD_RIGHT_NAMES },
               { "processes", KD_RIGHT_PROCESSES },
               { "look", KD_RIGHT_LOOK } };
#define RIGHT_COUNT (sizeof(rights) / sizeof(rights[0]))

static const struct { const char *path; uint32_t rights; } needs[] = {
    {"/bin/bench", KD_RIGHT_NAMES}, {"/bin/bench-txn", KD_RIGHT_NAMES | KD_RIGHT_LOOK},
    {"/bin/squares", KD_RIGHT_NAMES}, {"/bin/trace", KD_RIGHT_LOOK}};
#define NEED_COUNT (sizeof(needs) / sizeof(needs[0]))

static uint32_t own, always;       /* the shell's own; of them what every program gets */

/* Before anything else can have that number. */
void allow_begin(void)
{
    for (size_t i = 0; i < RIGHT_COUNT; i++) {
        long copy = syscall(KD_HANDLE_COPY, KD_SYSTEM_HANDLE, rights[i].right);
        if (copy >= 0) {
            own |= rights[i].right;
            syscall(KD_HANDLE_CLOSE, copy);
        }
    }
}

/* `look,names`, `all` or `none`. False, and said on `error`: what that is not, or the shell has
 * not. */
static bool parse(const char *text, uint32_t *out, int error)
{
    char words[64];
    snprintf(words, sizeof(words), "%s", text);
    *out = strcmp(text, "all") == 0 ? own : 0;
    if (*out || strcmp(text, "all") == 0 || strcmp(text, "none") == 0)
        return true;
    for (char *rest, *w = strtok_r(words, ",", &rest); w; w = strtok_r(NULL, ",", &rest)) {
        size_t i = 0;
        while (i < RIGHT_COUNT && strcmp(rights[i].name, w) != 0)
            i++;
        if (i == RIGHT_COUNT || !(own & rights[i].right)) {
            dprintf(error,
                    i == RIGHT_COUNT
                        ? "allow: %s: use all, none, or of disks,names,processes,look\n"
                        : "allow: %s: this shell was not given that itself\n",
                    w);
            return false;
        }
        *out |= rights[i].right;
    }
    return true;
}

bool allow_prefix(const char *text, uint32_t *out) { return parse(text, out, 2); }

int allow_handle(const char *path, uint32_t asked)
{
    for (size_t i = 0; i < NEED_COUNT; i++)
        if (strcmp(path, needs[i].path) == 0)
            asked |= needs[i].rights;
    asked = (asked | always) & own;
    return asked ? (int)syscall(KD_HANDLE_COPY, KD_SYSTEM_HANDLE, asked) : -1;
}

static void show(const struct io *io, const char *what, uint32_t set)
{
    dprintf(io->out, "%s", what);
    for (size_t i = 0; i < RIGHT_COUNT; i++)
        if (set & rights[i].right)
            dprintf(io->out, " %s", rights[i].name);
    dprintf(io->out, set ? "\n" : " nothing\n");
}

/* What every program gets, as a word for `allow`. */
void allow_text(char *out, size_t bytes)
{
    size_t at = 0;
    snprintf(out, bytes, "none");
    for (size_t i = 0; i < RIGHT_COUNT; i++)
        if (always & rights[i].right && at < bytes)
            at += (size_t)snprintf(out + at, bytes - at, "%s%s", at ? "," : "", rights[i].name);
}

int do_allow(const struct io *io, int argc, char **argv)
{
    uint32_t set = 0;
    if (argc > 1)
        return parse(argv[1], &set, io->error) ? always = set, 0 : 2;
    show(io, "programs get:", always);
    show(io, "this shell has:", own);
    return 0;
}
