/*
 * lack.c - what is said of a right that is missing: which one, of what, and how it is given.
 *
 * With -EACCES the store manager says which right it was, and where on the path (store_protocol.h,
 * enum wire_lack); that is kept for each thread, with the path as the program said it, until the
 * next such answer, and told by ps_strerror (error.c). No program needs a text of its own.
 */
#include "error_private.h"
#include "pstore_private.h"

#include <errno.h>
#include <katydid/abi.h>
#include <stdio.h>
#include <string.h>

static __thread struct {
    uint32_t missing, has, where;      /* PS_MAY_...; missing 0: nothing is known */
    int named;                         /* the path is that of a container that was passed */
    char path[WIRE_PATH_BYTES];
} lack;
static __thread char text[4 * WIRE_PATH_BYTES];

static const struct { unsigned right; char letter; const char *name, *done; } rights[] = {
    {PS_MAY_READ, 'r', "READ", "read"},       {PS_MAY_WRITE, 'w', "WRITE", "written"},
    {PS_MAY_DELETE, 'd', "DELETE", "deleted"}, {PS_MAY_RENAME, 'n', "RENAME", "renamed"},
    {PS_MAY_MANAGE, 'm', "MANAGE", "managed"}, {PS_MAY_GRANT, 'g', "GRANT", "granted"}};
enum { RIGHTS = sizeof rights / sizeof rights[0] };

void lack_told(const uint64_t word[STORE_REQUEST_WORDS])
{
    lack.missing = may_of((uint32_t)word[0]);
    lack.has = may_of((uint32_t)word[1]);
    lack.where = (uint32_t)word[2];
    lack.path[0] = 0;
    lack.named = 0;
}

int lack_at(int result, const char *path, const char *to, int named)
{
    if (result != -EACCES)
        return result;
    const char *one = (lack.where & WIRE_LACK_WHERE) == WIRE_LACK_TO ? to : path;
    snprintf(lack.path, sizeof lack.path, "%s", one ? one : "");
    for (unsigned up = lack.where & WIRE_LACK_UP; up > 0; up--) {
        char *slash = strrchr(lack.path, '/');
        *(slash ? slash : lack.path) = 0;
    }
    lack.named = named;
    return result;
}

static size_t add(size_t at, const char *word)
{
    size_t bytes = strnlen(word, sizeof text - 1 - at);
    memcpy(text + at, word, bytes);
    text[at + bytes] = 0;
    return at + bytes;
}

/* add_rights adds the words, or names, of these rights, as "a, b and c". */
static size_t add_rights(size_t at, unsigned set, int names)
{
    for (unsigned i = 0, left = set; i < RIGHTS; i++) {
        if (!(set & rights[i].right))
            continue;
        left &= ~rights[i].right;
        at = add(at, names ? rights[i].name : rights[i].done);
        if (left)
            at = add(at, left & (left - 1) ? ", " : " and ");
    }
    return at;
}

/* add_command adds how it is given: as a root to a program, if it is one's root, else as another
 * name: that which the program said is the one whose rights are missing. */
static size_t add_command(size_t at)
{
    char letters[RIGHTS + 1] = "";
    for (unsigned i = 0, n = 0; i < RIGHTS; i++)
        if ((lack.has | lack.missing) & rights[i].right)
            letters[n++] = rights[i].letter;
    at = add(at, lack.named   ? "`run --only "
                 : *lack.path ? "another name of it: `cap give THAT-NAME NEW-NAME "
                              : "`with DIR:");
    at = add(at, lack.named ? lack.path : "");
    at = add(at, lack.named ? ":" : "");
    at = add(at, letters);
    return add(at, lack.named || !*lack.path ? " PROGRAM`" : "`");
}

const char *lack_text(void)
{
    uint32_t where = lack.where & WIRE_LACK_WHERE;
    size_t at = 0;
    if (!lack.missing)
        return NULL;
    at = add(at, where == WIRE_LACK_ROOT     ? "the store's own root directory"
                 : where == WIRE_LACK_HANDLE ? "what the handle is of"
                 : *lack.path                ? lack.path
                                             : "this program's root directory");
    at = add(at, lack.has ? " may only be " : " was not given to this program");
    at = add_rights(at, lack.has, 0);
    at = add(at, lack.has ? " here: " : ": ");
    at = add_rights(at, lack.missing, 1);
    at = add(at, lack.missing & (lack.missing - 1) ? " are missing; " : " is missing; ");
    if (where == WIRE_LACK_ROOT)
        at = add(at, "programs have it that are started without `with` and `run --only`");
    else if (where == WIRE_LACK_HANDLE)
        at = add(at, "whoever gave the handle can give one with more (ps_handle)");
    else {
        at = add(at, "whoever has ");
        at = add_rights(at, lack.missing | PS_MAY_GRANT, 1);
        at = add(at, " gives it by ");
        add_command(at);
    }
    return text;
}

/* ---- the system's handle ---- */

int ps_lacks(unsigned right)
{
    return error_told(right == 0                    ? ERROR_WHOLE
                      : right == KD_RIGHT_NAMES     ? ERROR_AREA
                      : right == KD_RIGHT_DISKS     ? ERROR_DISKS
                      : right == KD_RIGHT_PROCESSES ? ERROR_PROCESSES
                                                    : ERROR_LOOK,
                      -EPERM);
}
