/* manager_no_index.h - for the manager on the host: no container is an index there, for changing
 * one takes a view, and the host's kernel has none (user/store/index.c). */
#ifndef MANAGER_NO_INDEX_H
#define MANAGER_NO_INDEX_H

#include "user/store/group.h"

int index_make(struct container *c, int kind, uint64_t base, uint64_t pages)
{
    return (void)c, (void)kind, (void)base, (void)pages, -ENOTSUP;
}
int index_destroy(struct container *c, bool if_unused) { return (void)c, (void)if_unused, 0; }
int index_attach(const struct container *c, uint64_t process, uint32_t rights)
{
    return (void)c, (void)process, (void)rights, -ENOTSUP;
}
void index_detach(const struct container *c, uint64_t process) { (void)c, (void)process; }
bool index_key_ok(const struct container *c, const char *key, uint64_t length)
{
    return (void)c, (void)key, (void)length, false;
}
bool index_lock_page(uint64_t cookie) { return (void)cookie, false; }
void index_lock_clean(uint64_t cookie, uint64_t page) { (void)cookie, (void)page; }
bool index_lock_request(const struct kd_message *m) { return (void)m, false; }
int index_init(void) { return 0; }
void *index_main(void *unused) { return unused; }
int index_room(const struct group *g, uint64_t bytes) { return (void)g, (void)bytes, 0; }
int index_change(struct group *g, const struct index_op *ops, unsigned count)
{
    return (void)g, (void)ops, (void)count, -ENOTSUP;
}
int index_take_back(struct group *g, unsigned changes) { return (void)g, (void)changes, 0; }
int index_commit(struct kd_message *m) { return (void)m, -ENOTSUP; }
void index_cancel(struct group *g) { (void)g; }

#endif
