/*
 * pstore_reader.c - who has a container with a manager of its own open for reading, or no more.
 *
 * Aim     what a client may do there, and with the objects beside it, is what its opening allows,
 *         whatever it asks of the manager, and nothing when that has been closed.
 * Method  this program is the manager, too. A copy of each handle is kept, the manager's port among
 *         them, by which the library's own message is sent when the container is closed.
 */
#include <errno.h>
#include <stdint.h>
#include <string.h>

#include "katydid/call.h"
#include "manager.h"
#include "pstore.h"
#include "tap.h"

enum { CALL_OPEN = 1, HANDLES = 64 };   /* as in manager_private.h */
static const char name[] = "kept";
static uint8_t home[4096];
static int copies[HANDLES], copy_count;

static void page(struct km_request *r) { km_supply(r, home, 1); }

static int serve(void)
{
    static const struct km_ops ops = {.page = page}, desk;
    struct km_object *object, *beside;
    int r = km_container(KM_READ | KM_WRITE, &ops, NULL, &object);
    if (r == 0) r = km_create("desk", 1, KM_READ | KM_WRITE, &desk, NULL, &beside);
    return r ? -r : -km_serve(2);
}

/* What this process may do there: KD_RIGHT_*; -ENOENT: nothing. */
static long may(const void *at)
{
    struct kd_space_info info = {0};
    long e = kd_call3(KD_CONTAINER_INFO, (long)at, (long)&info, 0);
    return e ? e : (long)info.rights;
}

static long beside(ps_container *c, const char *object, int flags)
{
    void *at = km_open_beside(c, object, flags);
    return at ? may(at) : -errno;
}

static void handles_copy(void)
{
    for (int h = 0; h < HANDLES; h++) {
        long copy = kd_call3(KD_HANDLE_COPY, h, KD_RIGHT_CALL, 0);
        if (copy >= 0 && copy_count < HANDLES) copies[copy_count++] = (int)copy;
    }
}

/* How many of the kept handles open the object: none is of a port that does. */
static int opened_by_copies(const char *object, int flags)
{
    int opened = 0;
    for (int i = 0; i < copy_count; i++) {
        struct kd_message m = {.kind = CALL_OPEN, .handle = -1, .word = {(uint64_t)flags},
                               .data = object, .data_bytes = strlen(object) + 1};
        long r = kd_call3(KD_PORT_CALL_UNTIL, copies[i], (long)&m, 200);
        opened += r >= 0 && m.status >= 0 && may((void *)m.word[0]) > 0;
    }
    return opened;
}

static void reads(void)
{
    ps_container *c = ps_open(name, 0, NULL);
    const void *at = ps_address(c);
    tap_ok(c && may(at) == KD_RIGHT_READ, "it is opened for reading");
    is(beside(c, name, KM_READ), KD_RIGHT_READ, "its manager says where it is");
    is(beside(c, name, KM_READ | KM_WRITE), -EACCES, "and gives no right to write it");
    is(may(at), KD_RIGHT_READ, "so that there is none");
    is(beside(c, "desk", KM_READ | KM_WRITE), -EACCES, "nor to write what lies beside it");
    is(beside(c, "desk", KM_READ), KD_RIGHT_READ, "which can be read");
    handles_copy();
    is(ps_close(c), 0, "it is closed");
    is(may(at), -ENOENT, "and there no more");
    is(opened_by_copies(name, KM_READ | KM_WRITE), 0, "who has kept the port gets nothing by it");
    is(may(at), -ENOENT, "nothing at all");
}

static void writes(void)
{
    ps_container *c = ps_open(name, PS_WRITE, NULL);
    tap_ok(c && may(ps_address(c)) == (KD_RIGHT_READ | KD_RIGHT_WRITE), "opened for writing");
    is(beside(c, name, KM_READ | KM_WRITE), KD_RIGHT_READ | KD_RIGHT_WRITE, "it is written");
    is(beside(c, "desk", KM_READ | KM_WRITE), KD_RIGHT_READ | KD_RIGHT_WRITE, "and the desk");
    is(ps_close(c), 0, "it is closed");
    tap_ok(km_open(name, "desk", KM_READ | KM_WRITE) != NULL, "km_open opens both for writing");
}

int main(int argc, char **argv)
{
    const char *words[] = {"serve", NULL};
    if (argc > 1 && strcmp(argv[1], "serve") == 0) return serve();
    tap_plan(16);
    is(ps_manager(name, "/bin/pstore_reader", words), 0, "a container with a manager");
    reads();
    writes();
    return tap_end();
}
