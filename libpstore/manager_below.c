/*
 * manager_below.c - managers that stand on others: what they keep of their clients' transactions is
 * committed with those (km_below; kernel/store/stack.md).
 *
 * Commits come to a port and a thread of their own, since a helper may wait for locks of clients
 * that need a page of ours: pages are supplied meanwhile.
 */
#include <errno.h>
#include <stdio.h>

#include "katydid/call.h"
#include "manager_private.h"
#include "pstore_private.h"

/* ---- pages: read below in a snapshot ---- */

static int page_read(void *arg)
{
    struct km_request *r = arg;
    r->object->ops->page(r);
    return 0;
}

static void page_below(struct km_request *r)
{
    int e = ps_transaction_opt(page_read, r, &(struct ps_options){.isolation = PS_SNAPSHOT});
    if (e < 0) km_fail(r, e == -ENOMEM ? ENOMEM : EIO);
}

/* ---- commits: in a helper, each in a thread of its own ---- */

struct help {
    const struct kd_message *m;
    struct commit_work *work;
    const struct ps_tx *helper;         /* the transaction that works for it */
};

static int help(void *arg)
{
    struct help *h = arg;
    const struct kd_message *m = h->m;
    h->helper = tx_active();
    commit_forget(h->work); /* it begins anew */
    long r = m->word[7] ? 0 : commit_view(h->work, m->word[0], m->token);
    for (unsigned i = 0; i < KD_VIEW_MAX / 64; i++)
        for (uint64_t helpers = m->word[4 + i]; r == 0 && helpers; helpers &= helpers - 1)
            r = commit_view(h->work, i * 64 + (unsigned)__builtin_ctzll(helpers), m->token);
    return (int)r;
}

static void commit_below(const struct kd_message *m, struct commit_work *w)
{
    struct help h = {m, w, NULL};
    struct ps_options options = {.helps = (uint32_t)m->word[0] + 1, .helps_token = m->token};
    if (m->word[0] >= KD_VIEW_MAX) return;
    int r = ps_transaction_opt(help, &h, &options);
    /* KD_TXN_REFUSE of a transaction that is over finds nothing */
    if (r) kd_call3(KD_TXN_REFUSE, (long)m->word[0], (long)m->token, r < 0 ? -r : EIO);
    commit_over(w, m->word[0], r > 0 ? -EIO : r, h.helper ? h.helper->committed_at : 0);
}

int manager_below(long found)
{
    long p = found < 0 ? found : kd_call3(KD_PORT_CREATE, 0, 0, 0);
    int below = (int)found;
    long r = p < 0 ? p : kd_call3(KD_PORT_BELOW, p, (long)&below, 1);
    if (found >= 0) kd_call3(KD_HANDLE_CLOSE, found, 0, 0);
    if (p >= 0 && r < 0) kd_call3(KD_HANDLE_CLOSE, p, 0, 0);
    if (r < 0) return (int)r;
    manager.commits = (int)p;
    manager.commit_threads = 1;
    manager.commit_below = commit_below;
    manager.page_below = page_below;
    manager.read_at = tx_read_at;
    return 0;
}

int km_below(const char *name)
{
    if (!name && store_of_opens()) name = store_of_opens()->name;
    if (!name || manager.port >= 0 || manager.commits >= 0) return -EINVAL;
    return manager_below(store_by_name(name));
}

int km_below_own(const char *name, const char *ending, const struct ps_layout *layout,
                 struct ps_container **out)
{
    char own[KM_NAME_MAX];
    if (!name) return -ENOTCONN;
    if (snprintf(own, sizeof own, "%s.%s", name, ending) >= KM_NAME_MAX) return -ENAMETOOLONG;
    *out = ps_open(own, PS_CREATE | PS_WRITE, layout);
    return *out ? km_below(NULL) : -errno; /* behind it: it may be made */
}

int km_commits(int threads)
{
    if (manager.commits < 0 || threads < 1 || threads > KM_COMMITS_MAX) return -EINVAL;
    manager.commit_threads = threads;
    return 0;
}
