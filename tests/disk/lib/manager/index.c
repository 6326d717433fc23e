/*
 * index.c - in place of user/store/index.c for the manager on the host.
 *
 * Changing an index takes a view whose transaction's copies are pages, and the host's kernel of
 * arrays has none. So an index here is a container without pages; a change says by its value what
 * becomes of it, and the manager's own transaction writes one page of the container 1. index.c
 * itself is tested by tests/host/test_index.c and test_index_jobs.c, and in guests.
 */
#include "manager/kernel.h"

static bool index_commit_fails;

int index_make(struct container *c, int kind, uint64_t base, uint64_t pages)
{
    (void)kind;
    c->index = (void *)c;
    c->segment[0].object = OBJECT + 1;
    c->segment[0].base = base;
    c->segment[0].pages = pages;
    c->segment_count = 1;
    server.objects++;
    return 0;
}
int index_destroy(struct container *c, bool if_unused)
{
    (void)if_unused;
    c->index = NULL;
    c->segment_count = 0;
    server.objects--;
    return 0;
}
int index_attach(const struct container *c, uint64_t process, uint32_t rights)
{
    return (void)c, (void)process, (void)rights, 0;
}
void index_detach(const struct container *c, uint64_t process) { (void)c, (void)process; }
bool index_key_ok(const struct container *c, const char *key, uint64_t length)
{
    return (void)c, (void)key, length > 0;
}
bool index_lock_page(uint64_t cookie) { return (void)cookie, false; }
void index_lock_clean(uint64_t cookie, uint64_t page) { (void)cookie, (void)page; }
bool index_lock_request(const struct kd_message *m) { return (void)m, false; }
int index_init(void) { return 0; }
void *index_main(void *unused) { return unused; }
int index_room(const struct group *g, uint64_t bytes) { return (void)g, (void)bytes, 0; }
int index_change(struct group *g, const struct index_op *ops, unsigned count)
{
    if (g->changes == 0) index_commit_fails = false;
    if (ops[0].value == CHANGE_FAILS) return -EUCLEAN;
    if (ops[0].value == CHANGE_LOSES) return g->changes ? -ECANCELED : -EUCLEAN;
    index_commit_fails |= ops[0].value == COMMIT_FAILS;
    g->changes += count;
    return 0;
}
int index_take_back(struct group *g, unsigned changes)
{
    g->changes = changes;
    return 0;
}
int index_commit(struct kd_message *m)
{
    struct view *v = &view[INDEX_VIEW];
    if (index_commit_fails) return -ENOMEM;
    *v = (struct view){.token = v->token + 1, .first = INDEX_PAGE, .count = 1,
                       .value = INDEX_WORD};
    *m = (struct kd_message){.kind = (uint32_t)KD_MSG_COMMIT, .token = v->token,
                             .word = {INDEX_VIEW, 1}};
    return 0;
}
void index_cancel(struct group *g) { g->changes = 0; }
