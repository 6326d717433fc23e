/* number.c - a container that holds one number (number.h). */
#include <errno.h>

#include "number.h"

int number_set(void *arg)
{
    struct job *j = arg;
    struct page *p = ps_root(j->c);
    if (!p)
        return -errno;
    p->number = j->number;
    return 0;
}

int number_get(void *arg)
{
    struct job *j = arg;
    const struct page *p = ps_root(j->c);
    if (!p)
        return -errno;
    j->number = p->number;
    return 0;
}
