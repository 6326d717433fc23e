/*
 * parts-cut.c - the load of parts-cut.sh and sites-cut.sh: transactions over two stores, or in one
 * of another site, until the power goes.
 *
 *     parts-cut [at NAME [NAME] :] WORD    of these containers, which may be SITE:NAME; else
 *                                          of one in each of the machine's two stores
 *     FIRST STEPS   each step numbers a place and counts, in all containers; now the one
 *                   decides, then the other. Each third makes an object with a name in
 *                   each, too. `ack N` is printed when it has returned.
 *     check         prints how many steps are there: the same in all, each as a whole
 *     make          makes the containers, which are here; paired waits until the store has a spare
 */
#include <errno.h>
#include <katydid/call.h>
#include <pstore.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "user/store/copy_protocol.h"

enum { ROOM = 1000 };
struct root { unsigned long count, place[ROOM]; };
static ps_container *box[2];
static int boxes = 2;

static void name_of(char name[32], unsigned long n) { snprintf(name, 32, "step %lu", n); }

static int step(void *number)
{
    unsigned long n = *(unsigned long *)number;
    for (int i = 0; i < boxes; i++) {
        ps_container *c = box[(n + (unsigned)i) % (unsigned)boxes];
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
    for (int i = 0; i < boxes; i++) {
        int error = check_one(box[i], &count[i]);
        if (error)
            return error;
    }
    *(unsigned long *)out = count[0];
    if (count[0] != count[boxes - 1])
        printf("one store has %lu steps, the other %lu\n", count[0], count[1]);
    return count[0] == count[boxes - 1] ? 0 : -EUCLEAN;
}

static void pause_ms(void) { nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL); }

/* What a site says that is not there yet, or has just been lost. */
static bool comes(int error)
{
    return error == -ENOENT || error == -EACCES || error == -EAGAIN || error == -EOWNERDEAD ||
           error == -ENOTCONN || error == -ECANCELED || error == -ENXIO;
}

static int open_one(int i, const char *name, int flags)
{
    int error;
    do {
        box[i] = ps_open(name, PS_WRITE | flags, PS_LAYOUT(struct root, 1));
        error = box[i] ? 0 : -errno;
        if (error)
            pause_ms();
    } while (flags ? error == -ENOTCONN : comes(error));
    if (error)
        printf("no container %s: %s\n", name, ps_strerror(error));
    return error;
}

static int open_all(char **name, bool make)
{
    static const char *const store[] = {"store", "store2"}, *const here[] = {"left", "right"};
    for (int i = 0; i < boxes; i++) {
        int error = name ? open_one(i, name[i], make ? PS_CREATE : 0)
                  : ps_connect(store[i]) == 0 ? open_one(i, here[i], PS_CREATE) : -errno;
        if (error)
            return error;
    }
    return 0;
}

static int paired(void)
{
    struct copy_status s = {0};
    long port = kd_call3(KD_NAME_FIND, (long)COPY_PORT, 0, 0), r = port;
    while (r >= 0 && !(s.is == COPY_HOME && s.named)) {
        struct kd_message m = {.kind = COPY_STATUS, .buffer = &s, .buffer_bytes = sizeof s,
                               .handle = -1};
        pause_ms();
        r = kd_call3(KD_PORT_CALL, port, (long)&m, 0);
    }
    return r < 0 ? (int)r : 0;
}

static int look(unsigned long *n, bool remote)
{
    int error;
    while (comes(error = ps_transaction(check, n)) && remote)
        pause_ms();
    return error;
}

static int checked(bool remote)
{
    unsigned long n;
    int error = look(&n, remote);
    if (error)
        printf("check: %s\n", ps_strerror(error));
    else
        printf("step %lu\n", n);
    return error;
}

int main(int argc, char **argv)
{
    char **word = argv + 1, **name = NULL;
    if (argc > 3 && strcmp(word[0], "at") == 0) {
        name = word + 1;
        boxes = strcmp(word[2], ":") == 0 ? 1 : 2;
        word += boxes + 2;
    }
    if (strcmp(word[0], "paired") == 0)
        return paired() != 0;
    bool make = strcmp(word[0], "make") == 0;
    if (open_all(name, make))
        return 1;
    if (make)
        return 0;
    if (strcmp(word[0], "check") == 0)
        return checked(name != NULL) != 0;
    unsigned long n = strtoul(word[0], NULL, 10), last = n + strtoul(word[1], NULL, 10);
    for (unsigned long there = 0; n < last; n++) {
        int error = ps_transaction(step, &n);
        if (name && comes(error) && (error = look(&there, true)) == 0 && there < n) {
            n--;                        /* its site was lost, and it undone */
            continue;
        }
        if (error) {
            fprintf(stderr, "parts-cut: step %lu: %s\n", n, ps_strerror(error));
            return 1;
        }
        printf("ack %lu\n", n);
        fflush(stdout);
    }
    return 0;
}
