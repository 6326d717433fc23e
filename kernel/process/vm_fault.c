/*
 * vm_fault.c - fills a process's pages when they are touched, and pins them for the kernel.
 *
 * One fault makes a few pages: it costs far more than a page. Invariants VM1 to VM5 are vm.c's.
 *
 * Locks: process->space_lock. It is not held while a file is read: the fault looks its region up
 * again afterwards.
 */
#include "process/vm_private.h"

#include "file/file.h"
#include "process/limit.h"

#define AROUND_ZERO 4
#define AROUND_FILE 8

/* region_touched is region_at for a touch: the first thread's stack grows down to it, by steps that
 * count as promised, also above the limit (then nothing else is promised). */
static struct region *region_touched(struct process *p, vaddr_t at)
{
    struct region *r = region_after(p, at);
    if (r && r->start > at && at > VM_STACK_GUARD && !r->source.node) {
        const struct region *below = region_before(p, r);
        p->limits.promised_bytes -= promised_by(r);
        r->start = MAX(at & ~(VM_STACK_STEP_BYTES - 1), below ? below->end : 0);
        p->limits.promised_bytes += promised_by(r);
    }
    return r && r->start <= at ? r : NULL;
}

static bool region_allows(const struct region *r, unsigned flags)
{
    return r->protection & (flags & FAULT_WRITE     ? VM_WRITE
                            : flags & FAULT_EXECUTE ? VM_EXECUTE : ~0u);
}

/* page_install installs a filled frame in an empty entry. space_lock held. */
static void page_install(struct process *p, const struct region *r, pte_t *pte, struct frame *f)
{
    pte_exchange(pte, pte_make(frame_paddr(f), pte_flags(r->protection)));
    p->frames += pays(f);
}

/* fault_zero fills the page at `at`, and its neighbours in an aligned block, with zeros. space_lock
 * held. */
static int fault_zero(struct process *p, const struct region *r, vaddr_t at, enum frame_use use)
{
    vaddr_t from = MAX(r->start, at & ~(vaddr_t)(AROUND_ZERO * PAGE_BYTES - 1));
    vaddr_t to = MIN(r->end, (at & ~(vaddr_t)(AROUND_ZERO * PAGE_BYTES - 1))
                                 + AROUND_ZERO * PAGE_BYTES);
    bool spare = frame_free_count() > 2 * frame_low_mark();
    for (vaddr_t here = from; here < to; here += PAGE_BYTES) {
        if (here != at && !(spare && limit_memory_left(p)))
            continue;
        pte_t *pte = arch_pte(p->home.table, here, &p->limits.tables);
        if (pte && *pte != 0)
            continue;
        struct frame *f = pte && limit_memory_left(p)
            ? frame_alloc(here == at ? use : FRAME_MEMORY) : NULL;
        if (f)
            page_install(p, r, pte, f);
        else if (here == at)
            return -ENOMEM;
    }
    return 0;
}

/* fault_file_page fills one page of a file mapping, and maps it only if the region still shows the
 * same bytes after the read. 0, -ENOMEM, -EIO. space_lock held on entry and return, dropped while
 * the file is read: *region may be another one then, or NULL. */
static int fault_file_page(struct process *p, struct region **region, vaddr_t at,
                           enum frame_use use)
{
    struct region *r = *region;
    struct vm_source s = source_skip(r->source, at - r->start);
    uint64_t bytes = MIN(s.file_bytes, PAGE_BYTES);
    pte_t *pte = arch_pte(p->home.table, at, &p->limits.tables);
    if (!pte || *pte != 0)
        return pte ? 0 : -ENOMEM;
    struct frame *f = s.shared && bytes == PAGE_BYTES ? node_frame(s.node, s.offset_bytes) : NULL;
    if (f) { /* where it lies: nobody copies it, nobody pays for it */
        page_install(p, r, pte, f);
        return 0;
    }
    f = limit_memory_left(p) ? frame_alloc(use) : NULL;
    if (!f)
        return -ENOMEM;
    node_get(s.node);
    lock_release(&p->space_lock);
    long n = bytes ? node_read(s.node, frame_memory(f), bytes, s.offset_bytes) : 0;
    node_put(s.node);
    thread_breathe();
    lock_acquire(&p->space_lock);
    *region = r = region_at(p, at);
    bool same = n >= 0 && r && r->source.node == s.node
        && r->source.offset_bytes + (at - r->start) == s.offset_bytes;
    bool behind = bytes && n == 0; /* the file has become shorter, or always was */
    pte = same && !behind ? arch_pte(p->home.table, at, &p->limits.tables) : NULL;
    if (pte && *pte == 0) /* else another thread was first */
        page_install(p, r, pte, f);
    else
        frame_free(f);
    return n < 0 ? (int)n : behind ? -EIO : 0;
}

static int fault_file(struct process *p, struct region *r, vaddr_t at, enum frame_use use)
{
    vaddr_t block = at & ~(vaddr_t)(AROUND_FILE * PAGE_BYTES - 1);
    int error = fault_file_page(p, &r, at, use);
    for (unsigned i = 0; !error && i < AROUND_FILE; i++) {
        vaddr_t here = block + i * PAGE_BYTES;
        if (r && r->source.node && here >= r->start && here < r->end)
            (void)!fault_file_page(p, &r, here, FRAME_MEMORY);
    }
    return error;
}

/* fault_shared maps the page of r's memory. space_lock held. */
static int fault_shared(struct process *p, const struct region *r, vaddr_t at)
{
    uint64_t page = (r->source.offset_bytes + (at - r->start)) >> PAGE_SHIFT;
    pte_t *pte = arch_pte(p->home.table, at, &p->limits.tables);
    if (page >= r->source.memory->pages)
        return -EFAULT;
    if (pte && *pte == 0)
        page_install(p, r, pte, r->source.memory->frames[page]);
    return pte ? 0 : -ENOMEM;
}

static int fault_once(struct process *p, vaddr_t at, unsigned flags, enum frame_use use)
{
    lock_acquire(&p->space_lock);
    struct region *r = region_touched(p, at);
    int error = !r                         ? -EFAULT
                : !region_allows(r, flags) ? -EACCES
                : r->source.memory         ? fault_shared(p, r, at)
                : r->source.node           ? fault_file(p, r, at, use)
                                           : fault_zero(p, r, at, use);
    lock_release(&p->space_lock);
    return error;
}

/* memory_wait waits until there may be frames again: a manager that takes copies, as long as there
 * is another process to end; init, without a parent, for ever. False: there will be none. */
static bool memory_wait(const struct process *p, uint64_t *vain)
{
    bool can = frame_seam.wait(vain);
    if (!can && p->takes_reserve && !thread_this()->killed)
        can = limit_end_largest(true) || p->parent == 0;
    return can;
}

/* fault_wait is fault_once, and waits where frames are out: the evictor may find some, or end a
 * process; not if `populate` is set: then pages go, for a manager that takes copies only if they
 * are many, as others wait for what it does. */
static int fault_wait(struct process *p, vaddr_t at, unsigned flags, bool populate)
{
    enum frame_use use = p->takes_reserve && !populate ? FRAME_MANAGER : FRAME_MEMORY;
    uint64_t vain = 0;
    int error;
    while ((error = fault_once(p, at, flags, use)) == -ENOMEM)
        if (!limit_memory_left(p) || !(!populate          ? memory_wait(p, &vain)
                                       : p->takes_reserve ? frame_seam.together(1)
                                                          : frame_seam.pages()))
            break;
    return error;
}

int vm_fault(struct process *p, vaddr_t at, unsigned flags)
{
    return fault_wait(p, page_down(at), flags, false);
}

int vm_populate(struct process *p, vaddr_t at, uint64_t bytes)
{
    int error = at % PAGE_BYTES || !user_range_ok(at, bytes) ? -EINVAL : 0;
    for (vaddr_t end = at + bytes; !error && at < end; at += PAGE_BYTES) {
        error = fault_wait(p, at, FAULT_WRITE, true);
        thread_breathe();
    }
    return error;
}

int vm_pin(struct process *p, vaddr_t at, bool write, struct frame **out)
{
    at = page_down(at);
    if (at >= VM_END)
        return -EFAULT;
    for (;;) {
        lock_acquire(&p->space_lock);
        const pte_t *pte = arch_pte(p->home.table, at, NULL);
        if (pte && pte_present(*pte) && (!write || pte_writable(*pte))) {
            *out = frame_of(pte_frame_paddr(*pte));
            frame_pin(*out);
            lock_release(&p->space_lock);
            return 0;
        }
        lock_release(&p->space_lock);
        int error = vm_fault(p, at, write ? FAULT_WRITE : 0);
        if (error)
            return error == -ENOMEM ? -ENOMEM : -EFAULT;
        thread_breathe();
    }
}

bool vm_is_code(struct process *p, vaddr_t at)
{
    lock_acquire(&p->space_lock);
    const struct region *r = region_at(p, at);
    bool code = r && (r->protection & VM_EXECUTE);
    lock_release(&p->space_lock);
    return code;
}

int vm_copy_to(struct process *p, vaddr_t at, const void *from, size_t bytes)
{
    const char *source = from;
    while (bytes) {
        size_t n = MIN(bytes, PAGE_BYTES - at % PAGE_BYTES);
        struct frame *f;
        int error = vm_pin(p, at, true, &f);
        if (error)
            return error;
        memcpy((char *)frame_memory(f) + at % PAGE_BYTES, source, n);
        frame_unpin(f);
        at += n;
        source += n;
        bytes -= n;
    }
    return 0;
}
