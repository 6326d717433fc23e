/*
 * mapping.c - windows: their table, one for each process (mapping.md).
 *
 * Owns      process->windows.
 * Not here  the entries of windows (right.c), touches of them (fault.c).
 *
 * Locks: object_at() takes its own; then the windows' lock, or view by view.
 */
#include "store/right.h"
#include "store/mapping.h"

#define WINDOWS_MAX (sizeof(((struct process *)0)->windows.table) / sizeof(struct mapping))

const struct mapping *mapping_find(const struct process *p, vaddr_t at)
{
    const struct process_windows *w = &p->windows;
    for (unsigned i = 0; i < w->count; i++)
        if (at - w->table[i].at < w->table[i].bytes && w->table[i].rights)
            return &w->table[i];
    return NULL;
}

bool mapping_at(struct process *p, vaddr_t at, struct mapping *out)
{
    lock_acquire(&p->windows.lock);
    const struct mapping *m = mapping_find(p, at);
    if (m)
        *out = *m;
    lock_release(&p->windows.lock);
    return m;
}

vaddr_t mapping_first(struct process *p, vaddr_t at, uint64_t bytes)
{
    struct mapping m;
    if (at - KD_WINDOW_BASE >= KD_WINDOW_END - KD_WINDOW_BASE)
        return at;
    bool there = mapping_at(p, at, &m) && bytes <= m.bytes - (at - m.at);
    return there ? at - m.at + m.first : 0;
}

/* mapping_resolve lets m show a container where it is to show a window (WI6), and checks what it
 * shows. 0 or -errno. */
static int mapping_resolve(struct process *p, struct mapping *m)
{
    struct mapping below = {.rights = KD_RIGHT_READ | KD_RIGHT_WRITE};
    uint32_t rights = 0;
    if (mapping_at(p, m->first, &below)) {
        if (m->bytes > below.bytes - (m->first - below.at))
            return -EINVAL;
        m->first += below.first - below.at;
    }
    struct object *o = object_at(p, m->first, &rights);
    if (!o)
        return -ENOENT;
    bool within = m->bytes <= (o->pages << PAGE_SHIFT) - (m->first - o->base);
    object_put(o);
    return !within ? -EINVAL : m->rights & ~(below.rights & rights) ? -EACCES : 0;
}

/* place_of finds m's place in the table, and chooses its address if it has none: the first gap that
 * is a page larger. -EEXIST: it overlaps another one; -ENOMEM: no gap. Windows locked. */
static long place_of(const struct process_windows *w, struct mapping *m)
{
    vaddr_t from = KD_WINDOW_BASE;
    unsigned i = 0;
    for (; i < w->count; from = w->table[i].at + w->table[i].bytes, i++)
        if (m->at ? m->at < w->table[i].at : w->table[i].at - from > m->bytes + PAGE_BYTES)
            break;
    vaddr_t to = i < w->count ? w->table[i].at : KD_WINDOW_END;
    if (!m->at && to - from <= m->bytes + PAGE_BYTES)
        return -ENOMEM;
    if (!m->at)
        m->at = from + PAGE_BYTES;
    return m->at < from || m->bytes > to - m->at ? -EEXIST : (long)i;
}

static long mapping_insert(struct process_windows *w, struct mapping *m)
{
    lock_acquire(&w->lock);
    long i = w->count == WINDOWS_MAX ? -EMFILE : place_of(w, m);
    if (i >= 0) {
        memmove(&w->table[i + 1], &w->table[i], (w->count++ - (size_t)i) * sizeof *m);
        w->table[i] = *m;
    }
    lock_release(&w->lock);
    return i < 0 ? i : (long)m->at;
}

long kd_map(const uint64_t a[6])
{
    const uint64_t most = KD_WINDOW_END - KD_WINDOW_BASE;
    struct mapping m = {.first = a[0], .bytes = a[1] << PAGE_SHIFT, .rights = a[2], .at = a[3]};
    if (a[1] == 0 || a[1] > most >> PAGE_SHIFT || (m.first | m.at) % PAGE_BYTES ||
        !(m.rights & KD_RIGHT_READ) || m.rights & ~(uint64_t)(KD_RIGHT_READ | KD_RIGHT_WRITE) ||
        (m.at && (m.at - KD_WINDOW_BASE >= most || m.bytes > KD_WINDOW_END - m.at)))
        return -EINVAL;
    int e = mapping_resolve(process_this(), &m);
    return e ? e : mapping_insert(&process_this()->windows, &m);
}

static bool ends(const struct mapping *m, vaddr_t at, vaddr_t first, uint64_t bytes)
{
    return m->at == at || m->first - first < bytes;
}

bool mappings_end(struct process *p, vaddr_t at, vaddr_t first, uint64_t bytes)
{
    struct process_windows *w = &p->windows;
    unsigned left = 0;
    bool any = false;
    lock_acquire(&w->lock);
    for (struct mapping *m = w->table; m < w->table + w->count; m++)
        if (m->rights && ends(m, at, first, bytes)) {
            m->rights = 0; /* WI5 */
            any = true;
        }
    lock_release(&w->lock);
    if (!any)
        return false;
    views_each_locked(v, &views_all)
        if (v->process == p && v->aliases)
            right_aliases_drop(v);
    lock_acquire(&w->lock);
    for (const struct mapping *m = w->table; m < w->table + w->count; m++)
        if (m->rights || !ends(m, at, first, bytes))
            w->table[left++] = *m;
    w->count = left;
    lock_release(&w->lock);
    return true;
}

long kd_unmap(const uint64_t a[6])
{
    return mappings_end(process_this(), a[0], 0, 0) ? 0 : -ENOENT;
}
