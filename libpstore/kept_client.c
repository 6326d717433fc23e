/* kept_client.c - a client's way to the manager of a container that it has open (manager.h). */
#include "manager_private.h"

void *km_open_beside(const struct ps_container *c, const char *object, int flags)
{
    return client_open(NULL, container_kept_port(c), object, flags);
}

int km_call_beside(const struct ps_container *c, const char *object, void *message, int bytes)
{
    return client_ask(NULL, container_kept_port(c), object, message, bytes);
}
