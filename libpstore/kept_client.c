/* kept_client.c - a client's way to the manager of a container that it has open (manager.h). */
#include <errno.h>
#include <stdbool.h>

#include "manager_private.h"
#include "pstore_private.h"

static int look(void *page)
{
    return (void)*(volatile char *)page, 0;
}

static long port_below(const struct ps_container *c)
{
    struct kd_message m = {.kind = CALL_BELOW, .handle = -1};
    int port = container_kept_port(c);
    if (port < 0) return port;
    long r = ps_kernel(KD_PORT_CALL, port, (long)&m, 0);
    ps_kernel(KD_HANDLE_CLOSE, port, 0, 0);
    return r < 0 ? r : m.status < 0 ? m.status : m.handle >= 0 ? m.handle : -EPROTO;
}

/* km_below_container tries again, as the manager may be dying: a transaction finds the next. */
int km_below_container(const struct ps_container *c)
{
    int r = -EOWNERDEAD;
    if (manager.port >= 0 || manager.commits >= 0 || tx_active()) return -EINVAL;
    for (int times = 0; times < 3 && (r == -EOWNERDEAD || r == -ENOENT); times++) {
        if (times) (void)ps_transaction(look, ps_address(c));
        r = manager_below(port_below(c));
    }
    return r;
}

/* km_open_beside calls through a handle of its own: the container's may be closed meanwhile, by a
 * thread that closes the container or finds the manager's successor, and its number be given to
 * another port. A transaction is left for so long (TX1): it would be aborted with the handle in its
 * hands. So the call waits no longer than the transaction has time. */
void *km_open_beside(const struct ps_container *c, const char *object, int flags)
{
    struct ps_tx *tx = tx_work_begin();
    int port = container_kept_port(c);
    void *found = client_open(NULL, port, tx_time_left(tx), object, flags);
    int error = errno;
    if (port >= 0)
        ps_kernel(KD_HANDLE_CLOSE, port, 0, 0);
    tx_work_end(tx);
    errno = error;
    return found;
}

/* is_no_name: without names of the kernel's, or this one among them, the name is a path. */
static bool is_no_name(int error) { return error == EPERM || error == ENOENT; }

void *km_open(const char *manager, const char *object, int flags)
{
    void *found = client_open(manager, -1, ~0ull, object, flags);
    int error = errno;
    if (found || !is_no_name(error)) return found;
    ps_container *c = ps_open(manager, flags & KM_WRITE ? PS_WRITE : 0, NULL);
    if (!c && flags & KM_WRITE && errno == EACCES) c = ps_open(manager, 0, NULL);
    if (c && !(found = km_open_beside(c, object, flags))) {
        if (errno != ENOTCONN) error = errno;
        ps_close(c);
    }
    errno = error;
    return found;
}

int km_call(const char *manager, const char *object, void *message, int bytes)
{
    int result = client_ask(manager, -1, ~0ull, object, message, bytes);
    ps_container *c = is_no_name(-result) ? ps_open(manager, 0, NULL) : NULL;
    if (!c) return result;
    int beside = km_call_beside(c, object, message, bytes);
    ps_close(c);
    return beside == -ENOTCONN ? result : beside;
}

int km_call_beside(const struct ps_container *c, const char *object, void *message, int bytes)
{
    struct ps_tx *tx = tx_work_begin();
    int port = container_kept_port(c);
    int result = client_ask(NULL, port, tx_time_left(tx), object, message, bytes);
    if (port >= 0)
        ps_kernel(KD_HANDLE_CLOSE, port, 0, 0);
    tx_work_end(tx);
    return result;
}
