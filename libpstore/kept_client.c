/* kept_client.c - a client's way to the manager of a container that it has open (manager.h). */
#include <errno.h>

#include "manager_private.h"
#include "pstore_private.h"

/* A call goes through a handle of its own: the container's may be closed meanwhile, by a thread
 * that closes the container or finds the manager's successor, and its number be given to another
 * port. A transaction is left for so long (TX1): it would be aborted with the handle in its
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
