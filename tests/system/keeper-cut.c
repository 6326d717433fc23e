/*
 * keeper-cut.c - the load of keeper.sh: ps_manager until the power goes.
 *
 *     keeper-cut SEED STEPS    step N makes the container cN with a manager of its own, then gives
 *                              `first` another one; `ack N` is printed behind both.
 *     keeper-cut check SEED    each is there as a whole or not at all
 *
 * Arguments are as long as the step says, so that a setting has one to eight pieces.
 */
#include <errno.h>
#include <pstore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { STEPS_MAX = 100 };

static const char *argument(unsigned seed, unsigned step)
{
    static char text[512];
    unsigned length = 1 + (seed * 7919 + step * 131) % 440;
    memset(text, 'a' + (int)(step % 26), length);
    text[length] = 0;
    return text;
}

static int set(const char *name, unsigned seed, unsigned step)
{
    const char *words[] = {argument(seed, step), NULL};
    return ps_manager(name, "/bin/squares", words);
}

static int is(const char *name, unsigned seed, unsigned step)
{
    char text[512], wanted[512];
    snprintf(wanted, sizeof(wanted), "/bin/squares %s", argument(seed, step));
    return ps_manager_of(name, text, sizeof(text)) > 0 && strcmp(text, wanted) == 0;
}

static int check(unsigned seed)
{
    struct ps_info all[STEPS_MAX + 2];
    char name[16];
    unsigned step = 0;
    int count = ps_list(all, STEPS_MAX + 2), has_first = 0;
    for (int i = 0; i < count; i++) {
        has_first |= strcmp(all[i].name, "first") == 0;
        if (!all[i].managed) return printf("a container without its manager\n"), 1;
    }
    for (;; step++) {
        snprintf(name, sizeof(name), "c%u", step + 1);
        if (!is(name, seed, step + 1)) break;
    }
    int first = !has_first ? step <= 1
                           : (step && is("first", seed, step)) || is("first", seed, step - 1);
    int equal = count == (int)step + has_first && first;
    printf("step %u: %s\n", step - (step && !is("first", seed, step)),
           equal ? "equal, each is whole" : "DIFFERENT");
    return !equal;
}

int main(int argc, char **argv)
{
    char name[16];
    if (argc != 3 || ps_connect(NULL)) return 2;
    if (strcmp(argv[1], "check") == 0) return check((unsigned)atoi(argv[2]));
    unsigned seed = (unsigned)atoi(argv[1]), steps = (unsigned)atoi(argv[2]);
    for (unsigned step = 1; step <= steps && step <= STEPS_MAX; step++) {
        snprintf(name, sizeof(name), "c%u", step);
        if (set(name, seed, step) || set("first", seed, step)) return 1;
        printf("ack %u\n", step);
        fflush(stdout);
    }
    return 0;
}
