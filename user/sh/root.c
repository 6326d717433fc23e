/*
 * root.c - what of the store a program is given: all that the shell itself has, or what `with` and
 * `run --only` name.
 *
 *   with DIR[:RIGHTS] [run] PROGRAM ...           its root directory is DIR
 *   run --only NAME[:RIGHTS] ... PROGRAM ...      these containers, and nothing else
 *   run --via NAME[:RIGHTS] ... PROGRAM ...       no container: operations of its server (split.h)
 *
 * Such a program is confined: it finds no names of the kernel's, so it reaches the store only by
 * the handles that it is started with. They are told to it in PS_ROOTS (libpstore/handle.c). A
 * shell that is confined itself gives each program what it has, as far as that may be passed on.
 */
#include "sh.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <katydid/abi.h>

#include "pstore.h"
#include "split.h"
#include "split_protocol.h"

#define PATH_BYTES 256
#define ONLY_RIGHTS (PS_MAY_READ | PS_MAY_WRITE)

static struct roots own;               /* what the shell was given itself; count 0: all */

/* ---- rights ---- */

static const struct { const char *name; unsigned right; } words[] = {
    {"read", PS_MAY_READ},     {"write", PS_MAY_WRITE},   {"delete", PS_MAY_DELETE},
    {"rename", PS_MAY_RENAME}, {"manage", PS_MAY_MANAGE}, {"grant", PS_MAY_GRANT}};
#define RIGHT_COUNT (sizeof(words) / sizeof(words[0]))
static const char letters[] = "rwdnmg";        /* the same, as ls -l prints them */

/* `rw`; 0: those are no letters of rights. */
static unsigned letters_parse(const char *text)
{
    unsigned rights = 0;
    for (const char *at; *text; text++) {
        if (!(at = strchr(letters, *text)))
            return 0;
        rights |= words[at - letters].right;
    }
    return rights;
}

bool rights_parse(const char *text, unsigned *out)
{
    char copy[64];
    snprintf(copy, sizeof(copy), "%s", text);
    *out = strcmp(text, "all") == 0 ? PS_MAY_ALL : 0;
    if (*out)
        return true;
    for (char *rest, *w = strtok_r(copy, ",", &rest); w; w = strtok_r(NULL, ",", &rest)) {
        size_t i = 0;
        while (i < RIGHT_COUNT && strcmp(words[i].name, w) != 0)
            i++;
        unsigned right = i < RIGHT_COUNT ? words[i].right : letters_parse(w);
        if (!right)
            return false;
        *out |= right;
    }
    return *out != 0;
}

void rights_text(unsigned rights, char out[RIGHTS_BYTES])
{
    size_t n = 0;
    strcpy(out, "nothing");
    for (size_t i = 0; i < RIGHT_COUNT; i++)
        if (rights & words[i].right)
            n += (size_t)snprintf(out + n, RIGHTS_BYTES - n, "%s%s", n ? "," : "", words[i].name);
}

void rights_letters(unsigned rights, char out[RIGHTS_LETTERS])
{
    for (size_t i = 0; i < RIGHT_COUNT; i++)
        out[i] = rights & words[i].right ? letters[i] : '-';
    out[RIGHT_COUNT] = 0;
}

/* ---- handles ---- */

static const char *store_name(void)
{
    const char *name = getenv("PS_STORE");
    return name && *name ? name : "store";
}

static int refused(const char *who, const char *path, int error)
{
    fprintf(stderr, "%s: %s: %s\n", who, path, ps_strerror(error));
    return 1;
}

/* A path with `:RIGHTS` perhaps, which is said from `base` on. 0, or a status, and it was said. */
struct path_given { char path[PATH_BYTES]; unsigned rights; };  /* rights 0: none were said */
static int path_parse(const char *who, const char *base, const char *word, struct path_given *out)
{
    const char *colon = strchr(word, ':');
    int bytes = colon ? (int)(colon - word) : (int)strlen(word);
    out->rights = 0;
    if (colon && !rights_parse(colon + 1, &out->rights))
        return complain(who, RIGHTS_WRONG, 2);
    if (snprintf(out->path, PATH_BYTES, "%s%s%.*s", base, *base && bytes ? "/" : "", bytes, word) >=
        PATH_BYTES)
        return complain(who, "a path has 255 bytes at most", 2);
    return 0;
}

static int root_note(struct roots *r, int handle, unsigned rights, const char *path)
{
    const char *slash = strrchr(path, '/');
    struct root *new = &r->root[r->count++];
    *new = (struct root){.handle = handle};
    new->rights = KD_RIGHT_CALL | (rights & ~(unsigned)PS_MAY_GRANT) * KD_RIGHT_OWN |
                  (rights & PS_MAY_GRANT ? KD_RIGHT_GRANT : 0);
    snprintf(new->name, sizeof(new->name), "%.63s", slash ? slash + 1 : path);
    return 0;
}

/* One more of these roots. What there are by default and at most, of those that the path gives. */
static int root_add(struct roots *r, const char *who, const char *base, const char *word,
                    unsigned most)
{
    struct path_given p;
    struct ps_entry entry;
    int status = path_parse(who, base, word, &p);
    if (status || r->count == ROOTS_MAX)
        return status ? status : complain(who, "a program is given seven at most", 2);
    int has = ps_rights(p.path, &entry);
    if (has < 0)
        return refused(who, p.path, has);
    if (!p.rights)
        p.rights = (unsigned)has & most;
    int handle = ps_handle(p.path, p.rights | PS_MAY_GRANT);
    return handle < 0 ? refused(who, p.path, handle)
                      : root_note(r, handle, p.rights, entry.directory ? "" : p.path);
}

/* A way to the server of a container, which is not given itself. */
static int way_add(struct roots *r, const char *who, const char *base, const char *word)
{
    struct path_given p;
    int status = path_parse(who, base, word, &p);
    if (status || r->count == ROOTS_MAX)
        return status ? status : complain(who, "a program is given seven at most", 2);
    bool writes = !p.rights || p.rights & PS_MAY_WRITE;
    int handle = ps_split_pass(p.path, writes ? PS_WRITE : 0);
    if (handle == -ENOENT)
        return complain(who, "nobody serves that container: its server is to be started first", 1);
    if (handle < 0)
        return refused(who, p.path, handle);
    (void)root_note(r, handle, p.rights & PS_MAY_GRANT, p.path);
    strcpy(r->root[r->count - 1].store, SPLIT_ROOTS);
    return 0;
}

static bool is_via(const char *word) { return word && strcmp(word, "--via") == 0; }
static bool is_only(const char *word)
{
    return word && (is_via(word) || strcmp(word, "--only") == 0);
}

/* `with DIR` is argv[0] and argv[1]; *argv moves on behind the `run` that may follow. */
int roots_prefix(char ***argv, struct roots *r)
{
    char **at = *argv;
    const char *with = NULL;
    int status = 0;
    if (strcmp(at[0], "with") == 0) {
        if (!at[1] || !at[2] || at[1][0] == '-')
            return complain("with", "use: " WITH_USE, 2);
        with = at[1];
        at += 2;
    }
    bool run = strcmp(at[0], "run") == 0, only = run && is_only(at[1]);
    at += run;
    if (with && strchr(with, ':') && only)
        return complain("with", "rights stand behind the names of `run --only` here", 2);
    if ((status = ps_connect(NULL)) != 0)
        return complain(run ? "run" : "with", ps_strerror(status), 1);
    if (with && !only)
        status = root_add(r, "with", "", with, PS_MAY_ALL);
    if (r->count && *r->root[0].name) {
        fprintf(stderr, "with: %s: this is a container, and no directory: `run --only %s "
                        "PROGRAM`\n", with, with);
        status = 2;
    }
    for (; status == 0 && is_only(at[0]); at += 2) {
        if (!at[1] || !at[2])
            return complain("run", "use: " RUN_USE, 2);
        status = is_via(at[0]) ? way_add(r, "run", with ? with : "", at[1])
                               : root_add(r, "run", with ? with : "", at[1], ONLY_RIGHTS);
    }
    if (status == 0 && (!at[0] || at[0][0] == '-'))
        return complain("run", "use: " RUN_USE, 2);
    r->confined = with || only;
    *argv = at;
    return status;
}

void roots_drop(struct roots *r)
{
    for (int i = 0; i < r->count; i++)
        ps_drop(r->root[i].handle);
    r->count = 0;
}

/* ---- what is passed ---- */

/* The shell's own roots, once: they are the first of its handles. */
void roots_begin(void)
{
    const char *text = getenv(PS_ROOTS);
    char name[32];
    int handle, n;
    for (; text && *text && own.count < ROOTS_MAX; text += strspn(text, " ")) {
        struct root *r = &own.root[own.count];
        n = 0;
        if (sscanf(text, "%31[^:]:%d%n", name, &handle, &n) == 2 && n) {
            r->handle = handle;
            snprintf(r->store, sizeof(r->store), "%s", name);
            if (text[n] == '=')
                snprintf(r->name, sizeof(r->name), "%.*s", (int)strcspn(text + n + 1, " "),
                         text + n + 1);
            own.count++;
        }
        text += strcspn(text, " ");
    }
    own.confined = own.count > 0;
}

const char *roots_name(int number)
{
    return number < own.count ? own.root[number].name : NULL;
}

bool roots_own(void) { return own.confined; }

/* Into the handles of `create`, behind those that are there; *old: for roots_passed. */
void roots_pass(const struct roots *given, struct kd_process_create *create, char **old)
{
    const struct roots *r = given && given->confined ? given : &own;
    const char *was = getenv(PS_ROOTS);
    char text[ROOTS_MAX * 160] = "";
    size_t n = 0;
    *old = was ? strdup(was) : NULL;
    if (!r->confined)
        return;
    for (int i = 0; i < r->count && create->handle_count < KD_HANDLES_PASSED_MAX; i++) {
        const struct root *root = &r->root[i];
        n += (size_t)snprintf(text + n, sizeof(text) - n, "%s%s:%u%s%s", n ? " " : "",
                              *root->store ? root->store : store_name(), create->handle_count,
                              *root->name ? "=" : "", root->name);
        create->handle_rights[create->handle_count] = root->rights;
        create->handles[create->handle_count++] = root->handle;
    }
    create->flags |= KD_PROCESS_CONFINED;
    setenv(PS_ROOTS, text, 1);
}

void roots_passed(char *old)
{
    if (old)
        setenv(PS_ROOTS, old, 1);
    else
        unsetenv(PS_ROOTS);
    free(old);
}

/* With a program behind them, they are prefixes of it (start.c). */
int do_with(const struct io *io, int argc, char **argv)
{
    (void)argc, (void)argv;
    return dprintf(io->error, "use: " WITH_USE "\n"), 2;
}

int do_run(const struct io *io, int argc, char **argv)
{
    (void)argc, (void)argv;
    return dprintf(io->error, "use: " RUN_USE "\n"), 2;
}
