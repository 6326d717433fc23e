/*
 * vm.c - a process's own memory: regions of slot 0, filled with zeros or file bytes on demand.
 *
 * Owns      process->regions, the leaf entries of slot 0 and the frames they name.
 * Not here  filling pages (vm_fault.c), the store region (view.c, fault.c), files (file.c), page
 *           tables themselves (arch/).
 *
 * Invariants
 *   VM1  Regions are page aligned, lie within [VM_START, VM_END) without the page VM_STACK_GUARD, are
 *       sorted and do not overlap.
 *   VM2  A present leaf entry lies inside a region, and allows no more than the region does.
 *   VM3  No region is writable and executable.
 *   VM4  process->frames counts the present leaf entries of slot 0; each of them owns its frame.
 *   VM5  A frame is freed only after the shootdown that followed the removal of its entry.
 *
 * Locks: process->space_lock guards all of it.
 */
#include "process/vm_private.h"

#include "file/file.h"

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

/* The first region that ends behind `at`, or NULL. */
static struct region *region_after(struct process *p, vaddr_t at)
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

static struct region *region_new(struct process *p)
{
    if (p->region_count >= VM_REGIONS_MAX)
        return NULL;
    struct region *r = kalloc(sizeof(*r));
    if (r)
        p->region_count++;
    return r;
}

/* region_like makes a copy of r, in no list; NULL: no memory, or too many regions. */
static struct region *region_like(struct process *p, const struct region *r)
{
    struct region *copy = region_new(p);
    if (!copy)
        return NULL;
    *copy = *r;
    if (r->source.node)
        node_get(r->source.node);
    return copy;
}

/* Makes `at` a border between regions. */
static int region_split(struct process *p, vaddr_t at)
{
    struct region *r = region_at(p, at);
    if (!r || r->start == at)
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

static void region_insert(struct process *p, struct region *r)
{
    struct region *next = region_after(p, r->start);
    struct list *before = next ? &next->link : &p->regions;
    struct region *prev = before->prev != &p->regions
        ? container_of(before->prev, struct region, link) : NULL;
    if (prev && prev->end == r->start && prev->protection == r->protection && !prev->source.node
        && !r->source.node) { /* a heap that grows stays one region */
        prev->end = r->end;
        p->region_count--;
        kfree(r);
        return;
    }
    assert(!next || r->end <= next->start); /* VM1 */
    list_insert_before(before, &r->link);
}

static bool range_is_free(struct process *p, vaddr_t at, uint64_t bytes)
{
    struct region *r = region_after(p, at);
    return !r || r->start >= at + bytes;
}

/* range_find finds the first free range above the programs; a page stays free behind each mapping as a guard. 0: no
 * room. */
static vaddr_t range_find(struct process *p, uint64_t bytes)
{
    vaddr_t at = VM_IMAGE_END;
    vaddr_t end = VM_STACK_GUARD;
    for (struct region *r = region_after(p, at); r; ) {
        if (r->start >= at && r->start - at >= bytes + PAGE_BYTES)
            break;
        at = MAX(at, r->end + PAGE_BYTES);
        r = r->link.next == &p->regions ? NULL : container_of(r->link.next, struct region, link);
    }
    return at < end && bytes <= end - at ? at : 0;
}

/* bytes_promised sums the regions that may be filled with memory. */
static uint64_t bytes_promised(struct process *p)
{
    uint64_t sum = 0;
    list_each(struct region, r, &p->regions, link)
        if (r->protection)
            sum += r->end - r->start;
    return sum;
}

static bool promise_ok(struct process *p, uint64_t bytes, unsigned protection)
{
    uint64_t limit = MIN(p->limits.most[KD_LIMIT_MEMORY], p->limits.mapped_most) * PAGE_BYTES;
    return !protection || (bytes <= limit && bytes_promised(p) <= limit - bytes);
}

/* ---- taking memory away ----
 * A page without any right (PROT_NONE) keeps its frame in an entry that is not present. */

struct sweep {
    struct process *process;
    struct list frames;     /* removed from the table, not yet shot down (VM5) */
    bool change;            /* change rights to `protection`; else remove */
    unsigned protection;
    bool any;
    unsigned left;          /* so many entries; then the caller lets others have their turn, and goes on ... */
    vaddr_t next;           /* ... here */
};
enum { SWEPT_AT_ONCE = 512, SWEEP_ALL = ~0u };

static bool sweep_entry(pte_t *pte, vaddr_t at, void *arg)
{
    struct sweep *s = arg;
    paddr_t pa = pte_frame_paddr(*pte);
    if (s->left == 0) {
        s->next = at;
        return false;
    }
    s->left--;
    s->any = true;
    if (s->change) {
        pte_exchange(pte, pte_make(pa, region_flags(s->protection)));
    } else {
        pte_exchange(pte, 0);
        list_push_back(&s->frames, &frame_of(pa)->link);
        assert(s->process->frames > 0); /* VM4 */
        s->process->frames--;
    }
    return true;
}

/* sweep_range changes or removes the entries of [at, end). Then the CPUs that run the process forget the old ones,
 * and only then the frames are freed (VM5). Returns how far it came. space_lock held. */
static vaddr_t sweep_range(struct sweep s, vaddr_t at, vaddr_t end)
{
    list_init(&s.frames);
    s.next = end;
    arch_pte_walk(s.process->home.table, at, end, sweep_entry, &s);
    if (s.any)
        arch_shootdown(arch_table_cpus(s.process->home.table));
    for (struct frame *f; (f = list_take(struct frame, &s.frames, link));)
        frame_free(f);
    return s.next;
}

/* unmap_locked removes all of [at, end), whose ends are borders of regions already; the regions go to *gone. */
static void unmap_locked(struct process *p, vaddr_t at, vaddr_t end, struct list *gone)
{
    struct region *r;
    bool any = false;
    while ((r = region_after(p, at)) && r->start < end) {
        list_remove(&r->link);
        list_push_back(gone, &r->link);
        p->region_count--;
        any = true;
    }
    if (any)
        (void)sweep_range((struct sweep){.process = p, .left = SWEEP_ALL}, at, end);
}

static void regions_free(struct list *gone)
{
    for (struct region *r; (r = list_take(struct region, gone, link));) {
        if (r->source.node)
            node_put(r->source.node);
        kfree(r);
    }
}

/* ---- the calls ---- */

long vm_map(struct process *p, vaddr_t at, uint64_t bytes, unsigned protection, unsigned flags,
            const struct vm_source *source)
{
    struct list gone;
    if (bytes == 0 || bytes > VM_END)
        return bytes ? -ENOMEM : -EINVAL;
    if (!protection_valid(protection))
        return -EACCES;
    bytes = page_up(bytes);
    if ((flags & (VM_FIXED | VM_NO_REPLACE)) && !range_mappable(at, bytes))
        return at % PAGE_BYTES ? -EINVAL : -ENOMEM;

    list_init(&gone);
    lock_acquire(&p->space_lock);
    struct region *r = region_new(p);
    long result = -ENOMEM;
    if (!r || !promise_ok(p, bytes, protection))
        goto out;
    if (flags & VM_NO_REPLACE) {
        result = -EEXIST;
        if (!range_is_free(p, at, bytes))
            goto out;
    } else if (flags & VM_FIXED) {
        if (region_split(p, at) || region_split(p, at + bytes))
            goto out;
        unmap_locked(p, at, at + bytes, &gone);
    } else if (!range_mappable(at, bytes) || !range_is_free(p, at, bytes)) {
        at = range_find(p, bytes);
        if (!at)
            goto out;
    }
    r->start = at;
    r->end = at + bytes;
    r->protection = protection;
    if (source && source->node) {
        r->source = *source;
        node_get(source->node);
    }
    region_insert(p, r);
    r = NULL;
    result = (long)at;
out:
    if (r) {
        p->region_count--;
        kfree(r);
    }
    lock_release(&p->space_lock);
    regions_free(&gone);
    return result;
}

static int borders_make(struct process *p, vaddr_t at, vaddr_t end)
{
    int error = region_split(p, at);
    return error ? error : region_split(p, end);
}

int vm_unmap(struct process *p, vaddr_t at, uint64_t bytes)
{
    struct list gone = LIST_INIT(gone);
    if (bytes > VM_END || !range_valid(at, bytes = page_up(bytes)))
        return -EINVAL;
    vaddr_t next = at, end = at + bytes;
    lock_acquire(&p->space_lock);
    int error = borders_make(p, at, end);
    while (!error && (next = sweep_range((struct sweep){.process = p, .left = SWEPT_AT_ONCE}, next, end)) < end) {
        lock_release(&p->space_lock); /* whoever touches it still gets zeros, which go with the regions */
        thread_breathe();
        lock_acquire(&p->space_lock);
        error = borders_make(p, at, end);
    }
    if (!error)
        unmap_locked(p, at, end, &gone);
    lock_release(&p->space_lock);
    regions_free(&gone);
    return error;
}

/* protect_check: is every page of the range in some region, which may get these rights? 0, -ENOMEM, -EACCES. */
static int protect_check(struct process *p, vaddr_t at, vaddr_t end, unsigned protection)
{
    uint64_t more = 0;
    for (vaddr_t here = at; here < end; ) {
        struct region *r = region_at(p, here);
        if (!r)
            return -ENOMEM;
        if (r->source.shared && (protection & VM_WRITE))
            return -EACCES;
        vaddr_t stop = MIN(r->end, end);
        if (!r->protection)
            more += stop - here;
        here = stop;
    }
    return promise_ok(p, more, protection) ? 0 : -ENOMEM;
}

int vm_protect(struct process *p, vaddr_t at, uint64_t bytes, unsigned protection)
{
    if (bytes == 0)
        return at % PAGE_BYTES ? -EINVAL : 0;
    if (bytes > VM_END || !range_valid(at, bytes = page_up(bytes)))
        return at % PAGE_BYTES ? -EINVAL : -ENOMEM;
    if (!protection_valid(protection))
        return -EACCES;
    lock_acquire(&p->space_lock);
    int error = protect_check(p, at, at + bytes, protection);
    if (!error)
        error = region_split(p, at);
    if (!error)
        error = region_split(p, at + bytes);
    for (vaddr_t here = at; !error && here < at + bytes; ) {
        struct region *r = region_at(p, here);
        r->protection = protection;
        here = r->end;
    }
    if (!error)
        (void)sweep_range((struct sweep){.process = p, .change = true, .protection = protection, .left = SWEEP_ALL},
                          at, at + bytes);
    lock_release(&p->space_lock);
    return error;
}

int vm_forget(struct process *p, vaddr_t at, uint64_t bytes)
{
    if (bytes == 0)
        return 0;
    if (bytes > VM_END || !range_valid(at, bytes = page_up(bytes)))
        return -EINVAL;
    lock_acquire(&p->space_lock);
    (void)sweep_range((struct sweep){.process = p, .left = SWEEP_ALL}, at, at + bytes);
    lock_release(&p->space_lock);
    return 0;
}

/* vm_remap shrinks a mapping, or grows it where there is room; it never moves one. The address, or -errno. */
long vm_remap(struct process *p, vaddr_t at, uint64_t old_bytes, uint64_t new_bytes)
{
    if (old_bytes > VM_END || new_bytes > VM_END || !range_valid(at, old_bytes = page_up(old_bytes))
        || !range_mappable(at, new_bytes = page_up(new_bytes)))
        return -EINVAL;
    if (new_bytes < old_bytes) {
        int error = vm_unmap(p, at + new_bytes, old_bytes - new_bytes);
        return error ? error : (long)at;
    }
    lock_acquire(&p->space_lock);
    struct region *r = region_at(p, at);
    long result = -EFAULT;
    uint64_t more = new_bytes - old_bytes;
    if (r && r->end >= at + old_bytes) {
        result = -ENOMEM;
        if (more == 0) {
            result = (long)at;
        } else if (r->end == at + old_bytes && range_is_free(p, r->end, more + PAGE_BYTES)
                   && promise_ok(p, more, r->protection)) {
            r->end += more;
            result = (long)at;
        }
    }
    lock_release(&p->space_lock);
    return result;
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
    return p->home.table ? 0 : -ENOMEM;
}

void vm_space_free(struct process *p)
{
    struct list gone = LIST_INIT(gone);
    lock_acquire(&p->space_lock);
    unmap_locked(p, VM_START, VM_END, &gone);
    assert(p->frames == 0); /* VM4 */
    lock_release(&p->space_lock);
    regions_free(&gone);
}

struct count { uint64_t entries; struct region *region; };

static bool check_entry(pte_t *pte, vaddr_t at, void *arg)
{
    struct count *c = arg;
    (void)at;
    c->entries++;
    if (pte_present(*pte) && pte_writable(*pte))
        assert(c->region->protection & VM_WRITE); /* VM2 */
    return true;
}

void vm_check(struct process *p)
{
    struct count c = {0};
    vaddr_t last = VM_START;
    lock_acquire(&p->space_lock);
    list_for (l, &p->regions) {
        c.region = container_of(l, struct region, link);
        assert(c.region->start >= last);                                    /* VM1 */
        assert(range_mappable(c.region->start, c.region->end - c.region->start)); /* VM1 */
        assert(protection_valid(c.region->protection));                     /* VM3 */
        last = c.region->end;
        arch_pte_walk(p->home.table, c.region->start, c.region->end, check_entry, &c);
    }
    assert(c.entries == p->frames); /* VM2, VM4 */
    lock_release(&p->space_lock);
}

/* ---- fork and execve ---- */

struct page_copy {
    struct process *to;
    const struct region *region; /* of the copy */
    int error;
    unsigned left;               /* pages until others have their turn */
    vaddr_t next;
};

enum { COPIED_AT_ONCE = 64 };

/* A page without any right keeps its frame, too. False: the rest is for the next time. */
static bool entry_copy(pte_t *pte, vaddr_t at, void *arg)
{
    struct page_copy *c = arg;
    c->next = at;
    if (!c->left--) /* ~0u from here on */
        return false;
    pte_t *new = arch_pte(c->to->home.table, at, true);
    struct frame *f = new && limit_memory_left(c->to) ? frame_alloc(FRAME_PAGE) : NULL;
    if (!f) {
        c->error = -ENOMEM;
        return false;
    }
    memcpy(frame_memory(f), arch_phys(pte_frame_paddr(*pte)), PAGE_BYTES);
    assert(*new == 0); /* VM4 */
    pte_exchange(new, pte_make(frame_paddr(f), region_flags(c->region->protection)));
    c->to->frames++;
    return true;
}

/* region_copy_pages copies a region's pages in portions. The copy has some of what other threads of `from` change in
 * between, and its own region's rights (VM2). */
static void region_copy_pages(struct page_copy *c, struct process *from)
{
    vaddr_t end = c->region->end;
    for (vaddr_t at = c->region->start; !c->error && at < end; at = c->left == ~0u ? c->next : end) {
        c->left = COPIED_AT_ONCE;
        lock_acquire(&from->space_lock);
        arch_pte_walk(from->home.table, at, end, entry_copy, c);
        lock_release(&from->space_lock);
        thread_breathe();
    }
}

/* Other threads of `from` may store meanwhile: each page is as it was at some moment. */
int vm_copy_space(struct process *to, struct process *from)
{
    struct page_copy c = {.to = to};
    lock_acquire(&from->space_lock);
    list_each(struct region, r, &from->regions, link) {
        struct region *copy = c.error ? NULL : region_like(to, r);
        if (copy)
            list_push_back(&to->regions, &copy->link);
        else
            c.error = -ENOMEM;
    }
    to->brk.start = from->brk.start;
    to->brk.end = from->brk.end;
    lock_release(&from->space_lock);
    list_each(struct region, r, &to->regions, link) {
        c.region = r;
        region_copy_pages(&c, from);
    }
    return c.error;
}

static void regions_move(struct list *from, struct list *to)
{
    for (struct list *l; (l = list_pop(from));)
        list_push_back(to, l);
}

#define EXCHANGE(field) \
    do { __auto_type kept_ = a->field; a->field = b->field; b->field = kept_; } while (0)

void vm_exchange(struct process *a, struct process *b)
{
    struct list kept = LIST_INIT(kept);
    lock_acquire(&a->space_lock); /* b is nobody's */
    regions_move(&a->regions, &kept);
    regions_move(&b->regions, &a->regions);
    regions_move(&kept, &b->regions);
    EXCHANGE(home.table);
    EXCHANGE(region_count);
    EXCHANGE(frames);
    EXCHANGE(brk);
    lock_release(&a->space_lock);
}
