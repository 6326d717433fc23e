/*
 * vm.c - a process's own memory: regions of slot 0, filled with zeros or file bytes on demand.
 *
 * Owns      process->regions, the leaf entries of slot 0 and the frames they name.
 * Not here  filling pages (vm_fault.c), fork and execve (vm_copy.c), the store region (view.c,
 *           fault.c), files (file.c), page tables themselves (arch/).
 *
 * Invariants
 *   VM1  Regions are page aligned, lie within [VM_START, VM_END) without the page VM_STACK_GUARD,
 *       are sorted and do not overlap.
 *   VM2  A present leaf entry lies inside a region, and allows no more than the region does.
 *   VM3  No region is writable and executable.
 *   VM4  process->frames counts the present leaf entries of slot 0; each of them owns its frame,
 *        but for a region's of struct vm_memory, which owns its frames. Entries of what the boot
 *        loader brought (node_frame) are not counted, and own nothing.
 *        limits.promised_bytes is the length of all regions with any right. limits.tables counts
 *        page tables of slot 0, which go with what is forgotten, or the last region near.
 *   VM5  A frame is freed only after the shootdown that followed the removal of its entry.
 *
 * Locks: process->space_lock guards all of it. What grows with a range is done in portions, and
 * others run between them: they may see a range half unmapped or half protected.
 */
#include "process/vm_private.h"

#include "file/file.h"
#include "process/handle.h"

/* range_valid: is [at, at + bytes) page aligned, not empty, and within slot 0's share? */
static bool range_valid(vaddr_t at, uint64_t bytes)
{
    return at % PAGE_BYTES == 0 && at >= VM_START && at < VM_END && bytes > 0
        && bytes <= VM_END - at;
}

static bool range_mappable(vaddr_t at, uint64_t bytes)
{
    return range_valid(at, bytes) && (at > VM_STACK_GUARD || at + bytes <= VM_STACK_GUARD);
}

static bool protection_valid(unsigned protection)
{
    return (protection & (VM_WRITE | VM_EXECUTE)) != (VM_WRITE | VM_EXECUTE); /* VM3 */
}

/* ---- regions; space_lock held ---- */

/* source_get and source_put count what a source names, if it names anything. */
static void source_get(const struct vm_source *s)
{
    if (s->node)
        node_get(s->node);
    if (s->memory)
        vm_memory_get(s->memory);
}

static void source_put(const struct vm_source *s)
{
    if (s->node)
        node_put(s->node);
    if (s->memory)
        vm_memory_put(s->memory);
}

struct region *region_after(struct process *p, vaddr_t at)
{
    list_each(struct region, r, &p->regions, link)
        if (r->end > at)
            return r;
    return NULL;
}

struct region *region_at(struct process *p, vaddr_t at)
{
    struct region *r = region_after(p, at);
    return r && r->start <= at ? r : NULL;
}

struct region *region_like(struct process *p, const struct region *r)
{
    struct region *copy = p->region_count < VM_REGIONS_MAX ? kalloc_raw(sizeof(*copy)) : NULL;
    if (!copy)
        return NULL;
    p->region_count++;
    *copy = *r;
    source_get(&r->source);
    return copy;
}

/* region_split ends r at `at`, if it reached behind that; the rest is the next region. */
static int region_split(struct process *p, struct region *r, vaddr_t at)
{
    if (r->start >= at || r->end <= at)
        return 0;
    struct region *upper = region_like(p, r);
    if (!upper)
        return -ENOMEM;
    upper->start = at;
    upper->source = source_skip(r->source, at - r->start);
    r->end = at;
    list_insert_before(r->link.next, &upper->link);
    return 0;
}

/* region_from finds the first region behind `at`, and makes a border there if that began before.
 * *error: -ENOMEM. */
static struct region *region_from(struct process *p, vaddr_t at, int *error)
{
    struct region *r = region_after(p, at);
    *error = r ? region_split(p, r, at) : 0;
    return *error ? NULL : r && r->end <= at ? region_next(p, r) : r;
}

/* region_join makes r part of the one before if both are of zeros with the same rights: so a heap
 * that grows stays one region, and what was cut in portions. Returns r, or the one before. */
static struct region *region_join(struct process *p, struct region *r)
{
    struct region *prev = region_before(p, r);
    if (!prev || prev->end != r->start || prev->protection != r->protection || prev->source.node ||
        r->source.node || prev->source.memory || r->source.memory)
        return r;
    prev->end = r->end;
    list_remove(&r->link);
    p->region_count--;
    kfree(r);
    return prev;
}

static void region_insert(struct process *p, struct region *r)
{
    struct region *next = region_after(p, r->start);
    assert(!next || r->end <= next->start); /* VM1 */
    list_insert_before(next ? &next->link : &p->regions, &r->link);
    p->limits.promised_bytes += promised_by(r);
    (void)region_join(p, r);
}

static bool range_is_free(struct process *p, vaddr_t at, uint64_t bytes)
{
    struct region *r = region_after(p, at);
    return !r || r->start >= at + bytes;
}

/* range_find finds the first free range above the programs; a page stays free behind each mapping
 * as a guard. 0: no room. */
static vaddr_t range_find(struct process *p, uint64_t bytes)
{
    vaddr_t at = VM_IMAGE_END;
    vaddr_t end = VM_STACK_GUARD;
    for (struct region *r = region_after(p, at); r; r = region_next(p, r)) {
        if (r->start >= at && r->start - at >= bytes + PAGE_BYTES)
            break;
        at = MAX(at, r->end + PAGE_BYTES);
    }
    return at < end && bytes <= end - at ? at : 0;
}

/* What is promised can be filled: so there must be room for its page tables, too. */
static bool promise_ok(struct process *p, uint64_t bytes, unsigned protection)
{
    uint64_t limit = MIN(p->limits.most[KD_LIMIT_MEMORY], p->limits.mapped_most);
    uint64_t pages = (p->limits.promised_bytes + bytes) / PAGE_BYTES; /* each below VM_END */
    return !protection || pages + pages / (PAGE_BYTES / sizeof(pte_t)) <= limit;
}

/* ---- memory that several processes map ---- */

static const char shared;               /* owns the frames of each struct vm_memory */

static void shared_free(struct vm_memory *m)
{
    while (m->pages) {
        m->frames[--m->pages]->owner = NULL;
        frame_free(m->frames[m->pages]);
        thread_breathe();
    }
    kfree(m);
}
COUNTED(vm_memory, shared_free)

struct vm_memory *vm_memory_new(uint64_t pages)
{
    struct vm_memory *m = kalloc(sizeof *m + pages * sizeof m->frames[0]);
    if (!m)
        return NULL;
    for (m->references = 1; m->pages < pages; m->pages++) {
        struct frame *f = frame_seam.take(FRAME_LEAF);
        if (!f) {
            shared_free(m);
            return NULL;
        }
        memset(frame_memory(f), 0, PAGE_BYTES);
        f->owner = (void *)(uintptr_t)&shared;
        m->frames[m->pages] = f;
        thread_breathe();
    }
    return m;
}

long vm_memory_map(struct process *p, struct vm_memory *m)
{
    struct vm_source source = {.memory = m};
    long at = 0;
    lock_acquire(&p->space_lock);
    list_each(const struct region, r, &p->regions, link)
        if (r->source.memory == m && r->end - r->start == m->pages << PAGE_SHIFT)
            at = (long)r->start;
    lock_release(&p->space_lock);
    return at ? at : vm_map(p, 0, m->pages << PAGE_SHIFT, VM_READ | VM_WRITE, 0, &source);
}

/* ---- taking memory away ----
 * A page without any right (PROT_NONE) keeps its frame in an entry that is not present. */

enum { PAGES_AT_ONCE = 256, REGIONS_AT_ONCE = 64 };

struct sweep {
    struct process *process;
    struct list frames;     /* removed from the table, not yet shot down (VM5) */
    uint64_t flags;         /* of the entries from now on; 0: remove them */
    bool any;
    unsigned left;          /* so many pages in this portion */
};

static bool sweep_entry(pte_t *pte, vaddr_t at, void *arg)
{
    struct sweep *s = arg;
    paddr_t pa = pte_frame_paddr(*pte);
    (void)at;
    if (s->left == 0)
        return false;
    s->left--;
    s->any = true;
    if (s->flags) {
        pte_exchange(pte, pte_make(pa, s->flags));
    } else {
        pte_exchange(pte, 0);
        if (!pays(frame_of(pa)))
            return true;
        if (frame_of(pa)->owner != &shared)
            list_push_back(&s->frames, &frame_of(pa)->link);
        assert(s->process->frames > 0); /* VM4 */
        s->process->frames--;
    }
    return true;
}

/* sweep_range changes or removes entries of [at, end). Returns how far it came. space_lock held. */
static vaddr_t sweep_range(struct sweep *s, vaddr_t at, vaddr_t end)
{
    return arch_pte_walk(s->process->home.table, at, end, sweep_entry, s);
}

/* sweep_end: the CPUs that run the process forget the old entries, and only then the frames are
 * freed (VM5). */
static void sweep_end(struct sweep *s)
{
    if (s->any)
        arch_shootdown(arch_table_cpus(s->process->home.table));
    for (struct frame *f; (f = list_take(struct frame, &s->frames, link));)
        frame_free(f);
}

/* tables_cut gives back the page tables of [at, end) that map nothing. Where there is no region any
 * more, it looks only at those that no region beside needs. space_lock held. */
static void tables_cut(struct process *p, vaddr_t at, vaddr_t end)
{
    struct list tables = LIST_INIT(tables);
    const struct region *r = region_after(p, at), *before = region_before(p, r);
    bool unmapped = !r || r->start >= end;
    if (unmapped && !before) /* it ends: all go at once */
        return;
    vaddr_t low = unmapped ? before->end : 0;
    vaddr_t high = unmapped && r ? r->start : VM_END;
    if (!arch_tables_cut_empty(p->home.table, at, end, low, high, false, &tables))
        return;
    arch_shootdown(arch_table_cpus(p->home.table));
    p->limits.tables -= arch_tables_free(&tables, ~0u);
}

/* unmap_some takes the pages and the regions of a portion of [at, end) away; the regions go to
 * *gone. Returns how far it came. space_lock held. */
static vaddr_t unmap_some(struct process *p, vaddr_t at, vaddr_t end, struct list *gone, int *error)
{
    struct sweep s = {.process = p, .frames = LIST_INIT(s.frames), .left = PAGES_AT_ONCE};
    struct region *r = region_from(p, at, error), *next;
    vaddr_t from = at;
    at = end;
    for (unsigned n = 0; r && r->start < end && !*error; r = next, n++) {
        at = r->start;
        if (n == REGIONS_AT_ONCE || s.left == 0 || (*error = region_split(p, r, end)))
            break;
        next = region_next(p, r);
        at = sweep_range(&s, r->start, r->end);
        p->limits.promised_bytes -= r->protection ? at - r->start : 0;
        r->source = source_skip(r->source, at - r->start);
        r->start = at;
        if (at < r->end)
            break;
        p->region_count--;
        list_remove(&r->link);
        list_push_back(gone, &r->link);
        at = end;
    }
    sweep_end(&s);
    tables_cut(p, from, at);
    return at;
}

/* range_clear unmaps [at, end). -ENOMEM: a border needs a region more, and there is none; a part
 * may be gone. */
static int range_clear(struct process *p, vaddr_t at, vaddr_t end)
{
    int error = 0;
    while (at < end && !error) {
        struct list gone = LIST_INIT(gone);
        lock_acquire(&p->space_lock);
        at = unmap_some(p, at, end, &gone, &error);
        lock_release(&p->space_lock);
        for (struct region *r; (r = list_take(struct region, &gone, link)); kfree(r))
            source_put(&r->source);
        thread_breathe();
    }
    return error;
}

/* ---- the calls ---- */

long vm_map(struct process *p, vaddr_t at, uint64_t bytes, unsigned protection, unsigned flags,
            const struct vm_source *source)
{
    if (bytes == 0 || bytes > VM_END)
        return bytes ? -ENOMEM : -EINVAL;
    if (!protection_valid(protection))
        return -EACCES;
    bytes = page_up(bytes);
    bool fixed = flags & (VM_FIXED | VM_NO_REPLACE), replaces = fixed && !(flags & VM_NO_REPLACE);
    if (fixed && !range_mappable(at, bytes))
        return at % PAGE_BYTES ? -EINVAL : -ENOMEM;

    struct region new = {.protection = protection};
    if (source)
        new.source = *source;
    lock_acquire(&p->space_lock);
    struct region *r = region_like(p, &new);
    int error = r ? 0 : -ENOMEM;
    while (!error && replaces && promise_ok(p, bytes, protection) && !range_is_free(p, at, bytes)) {
        lock_release(&p->space_lock);
        error = range_clear(p, at, at + bytes);
        lock_acquire(&p->space_lock);
    }
    if (!error && !promise_ok(p, bytes, protection))
        error = -ENOMEM;
    if (!error && (!range_mappable(at, bytes) || !range_is_free(p, at, bytes))) {
        at = fixed ? 0 : range_find(p, bytes);
        error = at ? 0 : fixed ? -EEXIST : -ENOMEM;
    }
    if (!error) {
        r->start = at;
        r->end = at + bytes;
        region_insert(p, r);
    } else if (r) {
        p->region_count--;
        source_put(&r->source); /* the caller's is left */
        kfree(r);
    }
    lock_release(&p->space_lock);
    return error ? error : (long)at;
}

int vm_unmap(struct process *p, vaddr_t at, uint64_t bytes)
{
    if (bytes > VM_END || !range_valid(at, bytes = page_up(bytes)))
        return -EINVAL;
    return range_clear(p, at, at + bytes);
}

/* protect_check: may all of r get these rights? 0, -ENOMEM, -EACCES. */
static int protect_check(struct process *p, const struct region *r, unsigned protection)
{
    if (protection & (r->source.shared ? VM_WRITE : r->source.memory ? VM_EXECUTE : 0))
        return -EACCES; /* a table of locks may be writable elsewhere */
    return r->protection || promise_ok(p, r->end - r->start, protection) ? 0 : -ENOMEM;
}

/* protect_some changes a portion of [at, end), and returns how far it came. *error: -ENOMEM also
 * where there is no region. space_lock held. */
static vaddr_t protect_some(struct process *p, vaddr_t at, vaddr_t end, unsigned protection,
                            int *error)
{
    struct sweep s = {p, LIST_INIT(s.frames), region_flags(protection), .left = PAGES_AT_ONCE};
    struct region *r = region_from(p, at, error);
    for (unsigned n = 0; at < end && n < REGIONS_AT_ONCE && s.left && !*error; n++) {
        *error = !r || r->start > at ? -ENOMEM : region_split(p, r, end);
        if (*error || (*error = protect_check(p, r, protection)))
            break;
        at = sweep_range(&s, r->start, r->end);
        if (region_split(p, r, at)) { /* there is no region more to be had: then all of this one */
            s.left = ~0u;
            while (at < r->end)
                at = sweep_range(&s, at, r->end);
        }
        p->limits.promised_bytes -= promised_by(r);
        r->protection = protection;
        p->limits.promised_bytes += promised_by(r);
        r = region_next(p, region_join(p, r));
    }
    if (r)
        (void)region_join(p, r);
    sweep_end(&s);
    return at;
}

int vm_protect(struct process *p, vaddr_t at, uint64_t bytes, unsigned protection)
{
    if (bytes == 0)
        return at % PAGE_BYTES ? -EINVAL : 0;
    if (bytes > VM_END || !range_valid(at, bytes = page_up(bytes)))
        return at % PAGE_BYTES ? -EINVAL : -ENOMEM;
    if (!protection_valid(protection))
        return -EACCES;
    int error = 0;
    for (vaddr_t end = at + bytes; at < end && !error;) {
        lock_acquire(&p->space_lock);
        at = protect_some(p, at, end, protection, &error);
        lock_release(&p->space_lock);
        thread_breathe();
    }
    return error;
}

int vm_forget(struct process *p, vaddr_t at, uint64_t bytes)
{
    if (bytes == 0)
        return 0;
    if (bytes > VM_END || !range_valid(at, bytes = page_up(bytes)))
        return -EINVAL;
    for (vaddr_t end = at + bytes, from; (from = at) < end;) {
        struct sweep s = {.process = p, .frames = LIST_INIT(s.frames), .left = PAGES_AT_ONCE};
        lock_acquire(&p->space_lock);
        at = sweep_range(&s, at, end);
        sweep_end(&s);
        tables_cut(p, from, at);
        lock_release(&p->space_lock);
        thread_breathe();
    }
    return 0;
}

vaddr_t vm_break(struct process *p, vaddr_t end)
{
    vaddr_t old = p->brk.end;
    vaddr_t from = page_up(old), to = page_up(end);
    if (end < p->brk.start || end > VM_IMAGE_END)
        return old;
    if (to > from) {
        long at = vm_map(p, from, to - from, VM_READ | VM_WRITE, VM_NO_REPLACE, NULL);
        if (at < 0)
            return old;
    } else if (to < from && vm_unmap(p, to, from - to)) {
        return old;
    }
    p->brk.end = end;
    return end;
}

/* ---- the whole space ---- */

int vm_space_new(struct process *p)
{
    lock_init(&p->space_lock, RANK_SPACE, "space");
    list_init(&p->regions);
    p->home.table = arch_table_new();
    p->limits.tables = 2;
    return p->home.table ? 0 : -ENOMEM;
}

void vm_space_free(struct process *p)
{
    int error = range_clear(p, VM_START, VM_END);
    assert(!error && p->frames == 0); /* VM4 */
}

/* looks: entries at one go, where 32 pages that may have none count as one, a region as some. */
struct count { uint64_t looks, paid, promised; const struct region *region; };
enum { LOOKS = 2048, LOOKS_AT_REGION = 3, LOOKS_AT_TABLES = 128 };

static bool check_entry(pte_t *pte, vaddr_t at, void *arg)
{
    struct count *c = arg;
    (void)at;
    if (c->looks >= LOOKS)
        return false;
    c->looks++;
    c->paid += pays(frame_at(pte_frame_paddr(*pte)));
    if (pte_present(*pte) && pte_writable(*pte))
        assert(c->region->protection & VM_WRITE); /* VM2 */
    return true;
}

/* check_some checks a portion of the regions and their entries from `at` on, and returns how far it
 * came. space_lock held. */
static vaddr_t check_some(struct process *p, vaddr_t at, struct count *c)
{
    const struct region *r = region_after(p, at), *next;
    for (; r; r = next) {
        next = region_next(p, r);
        assert(!next || next->start >= r->end);           /* VM1 */
        assert(range_mappable(r->start, r->end - r->start)); /* VM1 */
        assert(protection_valid(r->protection));          /* VM3 */
        c->region = r;
        c->promised += promised_by(r);
        for (at = MAX(at, r->start); at < r->end && c->looks < LOOKS;) {
            c->looks += LOOKS_AT_REGION + MIN((r->end - at) / PAGE_BYTES / 32, LOOKS_AT_TABLES);
            at = arch_pte_walk(p->home.table, at, r->end, check_entry, c);
        }
        if (at < r->end)
            return at;
    }
    return VM_END;
}

/* vm_check adds up what one portion holds whole; that a larger space loses nothing shows at its end
 * (vm_space_free). */
void vm_check(struct process *p)
{
    for (vaddr_t from = VM_START, at; from < VM_END; from = at) {
        struct count c = {0};
        lock_acquire(&p->space_lock);
        at = check_some(p, from, &c);
        if (from == VM_START && at == VM_END)
            assert(c.promised == p->limits.promised_bytes && c.paid == p->frames); /* VM2, VM4 */
        lock_release(&p->space_lock);
        thread_breathe();
    }
}
