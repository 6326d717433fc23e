/*
 * rights-cut.c - the load of rights-cut.sh: directories and links until the power goes.
 *
 *     rights-cut SEED STEPS   each step is one change of names or grants; `ack N` is printed when
 *                             it has been answered
 *     rights-cut check SEED   prints how many steps are there: each as a whole, or not at all
 *
 * Each round of steps has a directory of its own. What lies there after a step lies there after no
 * other one: so what is found says which step was the last.
 */
#include <errno.h>
#include <pstore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct page { uint64_t number; };
#define PAGE PS_LAYOUT(struct page, 1)
enum { LENDS = PS_MAY_READ | PS_MAY_MANAGE | PS_MAY_GRANT, STEPS = 15, PATH = 64, ENTRIES = 8 };

/* What the round's directory holds after each step, in the order of the alphabet. */
static const char *const after[STEPS + 1] = {
    "", "", " b", " b l", " b l m", " b k m", " b k m u", " b k n u", " b k n", " b e/ k n",
    " b e/", " e/ e/b", " e/", " f/", " f/ g/", " g/"};

static char at[PATH], to[PATH];
static char *path(char *out, unsigned round, const char *name)
{
    snprintf(out, PATH, "d%u%s%.40s", round, *name ? "/" : "", name);
    return out;
}

static int makes(unsigned round, const char *name)
{
    return ps_directory_create(path(at, round, name));
}
static int moves(unsigned round, const char *from, const char *name)
{
    return ps_rename(path(at, round, from), path(to, round, name));
}
static int creates(unsigned round)
{
    ps_container *c = ps_open(path(at, round, "b"), PS_CREATE | PS_WRITE, PAGE);
    if (!c)
        return -errno;
    ps_close(c);
    return 0;
}
static int links(unsigned round, const char *of, const char *name, unsigned rights)
{
    int h = ps_handle(path(at, round, of), rights | PS_MAY_GRANT);
    int error = h < 0 ? h : ps_link(h, path(to, round, name), rights);
    if (h >= 0)
        ps_drop(h);
    return error;
}

static int step(unsigned round, unsigned n)
{
    switch (n) {
    case 1: return makes(round, "");
    case 2: return creates(round);
    case 3: return links(round, "b", "l", LENDS);
    case 4: return links(round, "l", "m", PS_MAY_READ);
    case 5: return moves(round, "l", "k");
    case 6: return links(round, "b", "u", PS_MAY_READ);
    case 7: return moves(round, "m", "n");
    case 8: return ps_unlink(path(at, round, "u"));
    case 9: return makes(round, "e");
    case 10: return ps_take_back(path(at, round, "b")) == 2 ? 0 : -ERANGE; /* k and n: both */
    case 11: return moves(round, "b", "e/b");
    case 12: return ps_delete(path(at, round, "e/b"));
    case 13: return moves(round, "e", "f");
    case 14: return makes(round, "g");
    default: return ps_delete(path(at, round, "f"));
    }
}

/* ---- what is there ---- */

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct ps_entry *)a)->name, ((const struct ps_entry *)b)->name);
}

static const struct ps_entry *entry(const struct ps_entry *all, int count, const char *names)
{
    for (int i = 0; i < count; i++)
        if (strchr(names, all[i].name[0]))
            return &all[i];
    return NULL;
}

/* Each with the rights that it was given, of the grant that it was made of. */
static int grants_good(const struct ps_entry *all, int count)
{
    const struct ps_entry *b = entry(all, count, "b"), *k = entry(all, count, "kl");
    for (int i = 0; i < count; i++) {
        const struct ps_entry *e = &all[i];
        char c = e->name[0];
        const struct ps_entry *of = strchr("klu", c) ? b : strchr("mn", c) ? k : NULL;
        unsigned rights = strchr("kl", c) ? LENDS : strchr("mnu", c) ? PS_MAY_READ : PS_MAY_ALL;
        if (e->rights != rights || (strchr("klmnu", c) ? !of || e->made_of != of->grant
                                                       : e->made_of != 0))
            return 0;
    }
    return 1;
}

/* The step that the round's directory is at; -1: not one. 0: it is not there. */
static int step_of(unsigned round)
{
    struct ps_entry all[ENTRIES], below[ENTRIES];
    char text[PATH] = "";
    int count = ps_directory_list(path(at, round, ""), all, ENTRIES);
    if (count < 0 || count > ENTRIES)
        return count == -ENOENT ? 0 : -1;
    qsort(all, (size_t)count, sizeof all[0], by_name);
    for (int i = 0; i < count; i++) {
        strcat(strcat(strcat(text, " "), all[i].name), all[i].directory ? "/" : "");
        int more = all[i].directory
                       ? ps_directory_list(path(at, round, all[i].name), below, ENTRIES)
                       : 0;
        for (int k = 0; k < more; k++)
            strcat(strcat(strcat(strcat(text, " "), all[i].name), "/"), below[k].name);
    }
    for (int n = 1; n <= STEPS; n++)
        if (strcmp(text, after[n]) == 0)
            return grants_good(all, count) ? n : -1;
    printf("# round %u has%s\n", round, text);
    return -1;
}

static int check(void)
{
    unsigned rounds = 0, steps = 0;
    int n = STEPS, good = 1;
    while (n == STEPS) {
        n = step_of(++rounds);
        good &= n >= 0;
        steps += n > 0 ? (unsigned)n : 0;
    }
    int others = ps_directory_list("", NULL, 0) - (int)(rounds - (n == 0));
    good &= others == 0;
    printf("step %u: %s\n", steps, good ? "equal, each is whole" : "DIFFERENT");
    return !good;
}

int main(int argc, char **argv)
{
    if (argc != 3 || ps_connect(NULL))
        return 2;
    if (strcmp(argv[1], "check") == 0)
        return check();
    unsigned steps = (unsigned)atoi(argv[2]);
    for (unsigned n = 0; n < steps; n++) {
        int error = step(n / STEPS + 1, n % STEPS + 1);
        if (error) {
            printf("step %u: %s\n", n + 1, ps_strerror(error));
            return 1;
        }
        printf("ack %u\n", n + 1);
        fflush(stdout);
    }
    return 0;
}
