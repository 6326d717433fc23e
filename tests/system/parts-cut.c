/*
 * parts-cut.c - the load of parts-cut.sh: transactions over two stores, until the power goes.
 *
 *     parts-cut FIRST STEPS   each step numbers a place and counts, in both stores; now the one
 *                             decides, then the other. Each third makes an object with a name in
 *                             each, too. `ack N` is printed when it has returned.
 *     parts-cut check         prints how many steps are there: the same in both, each as a whole
 */
#include <errno.h>
#include <pstore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROOM = 1000 };
struct root { unsigned long count, place[ROOM]; };
static ps_container *box[2];

static void name_of(char name[32], unsigned long n) { snprintf(name, 32, "step %lu", n); }

static int step(void *number)
{
    unsigned long n = *(unsigned long *)number;
    for (int i = 0; i < 2; i++) {
        ps_container *c = box[(n + (unsigned)i) % 2];
        struct root *root = ps_root(c);
        char name[32];
        if (!root || root->count >= ROOM)
            return -ERANGE;
        root->place[root->count++] = n;
        name_of(name, n);
        unsigned long *made = n % 3 ? NULL : ps_named(c, name, sizeof *made);
        if (made)
            *made = n;
        if (n % 3 == 0 && !made)
            return -errno;
    }
    return 0;
}

static int check_one(ps_container *c, unsigned long *count)
{
    const struct root *root = ps_root(c);
    if (!root)
        return -ENOENT;
    for (unsigned long i = 0; i < ROOM; i++)
        if (root->place[i] != (i < root->count ? i + 1 : 0))
            return -EUCLEAN;
    static struct ps_name_info names[ROOM];
    int found = ps_names(c, names, ROOM), right = 0;
    for (int i = 0; i < found; i++) {
        unsigned long n = *(const unsigned long *)names[i].object;
        char name[32];
        name_of(name, n);
        right += n % 3 == 0 && n <= root->count && strcmp(name, names[i].name) == 0;
    }
    if (found != (int)(root->count / 3) || right != found)
        return -EUCLEAN;
    *count = root->count;
    return 0;
}

static int check(void *out)
{
    unsigned long count[2] = {0, 0};
    for (int i = 0; i < 2; i++) {
        int error = check_one(box[i], &count[i]);
        if (error)
            return error;
    }
    *(unsigned long *)out = count[0];
    if (count[0] != count[1])
        printf("one store has %lu steps, the other %lu\n", count[0], count[1]);
    return count[0] == count[1] ? 0 : -EUCLEAN;
}

int main(int argc, char **argv)
{
    unsigned long n, last = argc > 2 ? strtoul(argv[1], NULL, 10) + strtoul(argv[2], NULL, 10) : 0;
    static const char *const store[] = {"store", "store2"}, *const name[] = {"left", "right"};
    for (int i = 0; i < 2; i++) {
        box[i] = ps_connect(store[i]) == 0
                     ? ps_open(name[i], PS_CREATE | PS_WRITE, PS_LAYOUT(struct root, 1)) : NULL;
        if (!box[i]) {
            printf("no container in %s: %s\n", store[i], ps_strerror(-errno));
            return 1;
        }
    }
    if (argc == 2) {
        int error = ps_transaction(check, &n);
        if (error)
            printf("check: %s\n", ps_strerror(error));
        else
            printf("step %lu\n", n);
        return error != 0;
    }
    for (n = strtoul(argv[1], NULL, 10); n < last; n++) {
        int error = ps_transaction(step, &n);
        if (error) {
            fprintf(stderr, "parts-cut: step %lu: %s\n", n, ps_strerror(error));
            return 1;
        }
        printf("ack %lu\n", n);
        fflush(stdout);
    }
    return 0;
}
