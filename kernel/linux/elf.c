/* elf.c - static ELF programs: everything is checked, in a copy, before anything is mapped. */
#include "file/file.h"
#include "process/vm.h"

#define SEGMENTS_MAX 16u
#define IMAGE_START VM_START

struct elf_header {
    uint8_t ident[16];
    uint16_t type, machine;
    uint32_t version;
    uint64_t entry, segments_offset, sections_offset;
    uint32_t flags;
    uint16_t header_bytes, segment_bytes, segment_count, section_bytes, section_count, names;
};
struct elf_segment {
    uint32_t type, flags;
    uint64_t offset, address, physical, file_bytes, memory_bytes, align;
};
_Static_assert(sizeof(struct elf_header) == 64 && sizeof(struct elf_segment) == 56, "ELF64");

enum { TYPE_EXEC = 2, MACHINE_X86_64 = 62 };
enum { SEGMENT_LOAD = 1, SEGMENT_DYNAMIC = 2, SEGMENT_INTERPRETER = 3 };
enum { SEGMENT_X = 1, SEGMENT_W = 2, SEGMENT_R = 4 };
enum {
    AT_NULL = 0, AT_PHDR = 3, AT_PHENT = 4, AT_PHNUM = 5, AT_PAGESZ = 6, AT_ENTRY = 9, AT_UID = 11,
    AT_EUID = 12, AT_GID = 13, AT_EGID = 14, AT_SECURE = 23, AT_RANDOM = 25, AT_EXECFN = 31,
};

struct image {
    struct elf_header header;
    struct elf_segment segments[SEGMENTS_MAX];
    uint64_t headers_at;               /* where the program sees its segment headers; 0: nowhere */
    vaddr_t end;                       /* behind the last segment: the heap begins there */
};

static bool fits(uint64_t offset, uint64_t bytes, uint64_t limit)
{
    return offset <= limit && bytes <= limit - offset;
}

static const char *check_header(const struct elf_header *h, uint64_t file_bytes)
{
    static const uint8_t ident[7] = {0x7f, 'E', 'L', 'F', 2 /* 64 bits */, 1 /* little */, 1};
    if (memcmp(h->ident, ident, sizeof(ident)) != 0)
        return "not a 64-bit ELF file";
    if (h->machine != MACHINE_X86_64)
        return "made for another machine";
    if (h->type != TYPE_EXEC)
        return "not an executable with a fixed address: link it with -static -no-pie";
    if (h->segment_bytes != sizeof(struct elf_segment))
        return "segment headers of a strange size";
    if (h->segment_count == 0 || h->segment_count > SEGMENTS_MAX)
        return "no segments, or more than 16";
    if (!fits(h->segments_offset, h->segment_count * sizeof(struct elf_segment), file_bytes))
        return "segment headers outside the file";
    return NULL;
}

static const char *check_segment(const struct elf_segment *s, uint64_t file_bytes, vaddr_t last)
{
    if (s->type == SEGMENT_INTERPRETER || s->type == SEGMENT_DYNAMIC)
        return "it needs a dynamic linker: link it with -static";
    if (s->type != SEGMENT_LOAD || s->memory_bytes == 0)
        return NULL;
    if (s->file_bytes > s->memory_bytes)
        return "a segment is larger in the file than in memory";
    if (!fits(s->offset, s->file_bytes, file_bytes))
        return "a segment's bytes lie outside the file (truncated?)";
    if (s->address < IMAGE_START || !fits(s->address, s->memory_bytes, VM_IMAGE_END))
        return "a segment's address is not one for programs";
    if ((s->address - s->offset) % PAGE_BYTES && s->file_bytes)
        return "a segment's address and offset do not agree";
    if ((s->flags & SEGMENT_W) && (s->flags & SEGMENT_X))
        return "a segment is writable and executable";
    if (s->address / PAGE_BYTES * PAGE_BYTES < last)
        return "segments overlap or are not in order";
    return NULL;
}

/* check says what is wrong with the image, or NULL; it fills in `end` and `headers_at`. */
static const char *check(struct image *i, uint64_t file_bytes)
{
    bool entry = false;
    for (unsigned k = 0; k < i->header.segment_count; k++) {
        const struct elf_segment *s = &i->segments[k];
        const char *wrong = check_segment(s, file_bytes, i->end);
        if (wrong)
            return wrong;
        if (s->type != SEGMENT_LOAD || s->memory_bytes == 0)
            continue;
        uint64_t headers = i->header.segments_offset;
        if ((s->flags & SEGMENT_X) && i->header.entry - s->address < s->memory_bytes)
            entry = true;
        if (fits(headers - s->offset, i->header.segment_count * sizeof(*s), s->file_bytes))
            i->headers_at = s->address + (headers - s->offset);
        i->end = (s->address + s->memory_bytes + PAGE_BYTES - 1) / PAGE_BYTES * PAGE_BYTES;
    }
    return entry ? NULL : "its entry point is not in an executable segment";
}

/* read_all reads exactly `bytes`; -ENOEXEC if the file is shorter. */
static int read_all(struct node *n, void *to, size_t bytes, uint64_t at)
{
    long got = node_read(n, to, bytes, at);
    return got < 0 ? (int)got : (size_t)got == bytes ? 0 : -ENOEXEC;
}

static int image_read(struct image *i, struct node *file, const char **wrong)
{
    uint64_t bytes = file->bytes;
    *wrong = "shorter than an ELF header";
    int error = read_all(file, &i->header, sizeof(i->header), 0);
    if (error)
        return error;
    *wrong = check_header(&i->header, bytes);
    if (*wrong)
        return -ENOEXEC;
    error = read_all(file, i->segments, i->header.segment_count * sizeof(i->segments[0]),
                     i->header.segments_offset);
    if (error)
        return error;
    *wrong = check(i, bytes);
    return *wrong ? -ENOEXEC : 0;
}

static int segment_map(struct process *p, struct node *file, const struct elf_segment *s)
{
    uint64_t skew = s->address % PAGE_BYTES;
    struct vm_source source = {
        .node = s->file_bytes ? file : NULL,
        .offset_bytes = s->offset - skew,
        .file_bytes = s->file_bytes + skew,
        .shared = !(s->flags & SEGMENT_W) && node_fixed(file),
    };
    unsigned protection = (s->flags & SEGMENT_R ? VM_READ : 0)
        | (s->flags & SEGMENT_W ? VM_WRITE : 0) | (s->flags & SEGMENT_X ? VM_EXECUTE : 0);
    long at = vm_map(p, s->address - skew, s->memory_bytes + skew, protection, VM_NO_REPLACE,
                     &source);
    return at < 0 ? (int)at : 0;
}

/* ---- the first stack: argc, argv, envp, auxiliary vector, strings ---- */

struct stack_image {
    uint64_t *words;                   /* from the stack pointer upwards */
    char *strings;                     /* behind the words */
    size_t word_count, word_max, string_bytes;
    vaddr_t strings_at;                /* in the process */
};

static void push(struct stack_image *s, uint64_t word)
{
    assert(s->word_count < s->word_max);
    s->words[s->word_count++] = word;
}

static vaddr_t push_bytes(struct stack_image *s, const void *bytes, size_t n)
{
    memcpy(s->strings + s->string_bytes, bytes, n);
    s->string_bytes += n;
    return s->strings_at + s->string_bytes - n;
}

static size_t measure(const char *const *list, size_t *count)
{
    size_t bytes = 0;
    for (*count = 0; list && list[*count]; (*count)++)
        bytes += strlen(list[*count]) + 1;
    return bytes;
}

static void push_list(struct stack_image *s, const char *const *list, size_t count)
{
    for (size_t i = 0; i < count; i++)
        push(s, push_bytes(s, list[i], strlen(list[i]) + 1));
    push(s, 0);
}

static int stack_build(struct process *p, const struct image *i, const char *path,
                       const char *const *argv, const char *const *envp, vaddr_t *out)
{
    size_t argc, envc;
    uint64_t random[2];
    size_t strings = measure(argv, &argc) + measure(envp, &envc) + strlen(path) + 1
        + sizeof(random);
    enum { AUX_MAX = 2 * 14, AUX_OF_HEADERS = 2 * 3 };
    size_t words = 1 + argc + 1 + envc + 1 + AUX_MAX;
    size_t bytes = words * 8 + strings;
    if (bytes > VM_STACK_BYTES / 8)
        return -E2BIG;
    struct stack_image s = {.words = kalloc(bytes), .word_max = words};
    if (!s.words)
        return -ENOMEM;
    vaddr_t at = (VM_END - bytes) & ~15ull; /* the pointer is 16-byte aligned at the entry */
    s.strings = (char *)(s.words + words);
    s.strings_at = at + words * 8;
    random_bytes(random, sizeof(random));

    push(&s, argc);
    push_list(&s, argv, argc);
    push_list(&s, envp, envc);
    const uint64_t aux[] = {
        AT_PAGESZ, PAGE_BYTES, AT_ENTRY, i->header.entry, AT_UID, 0, AT_EUID, 0, AT_GID, 0,
        AT_EGID, 0, AT_SECURE, 0, AT_RANDOM, push_bytes(&s, random, sizeof(random)),
        AT_EXECFN, push_bytes(&s, path, strlen(path) + 1),
        AT_PHDR, i->headers_at, AT_PHENT, sizeof(struct elf_segment),
        AT_PHNUM, i->header.segment_count,
    };
    for (size_t k = 0; k < ARRAY_COUNT(aux) - (i->headers_at ? 0 : AUX_OF_HEADERS); k++)
        push(&s, aux[k]);
    push(&s, AT_NULL), push(&s, 0);
    int error = vm_copy_to(p, at, s.words, bytes);
    kfree(s.words);
    *out = at;
    return error;
}

int elf_load(struct process *p, struct node *file, const char *path, const char *const *argv,
             const char *const *envp, vaddr_t *entry, vaddr_t *stack)
{
    struct image *i = kalloc(sizeof(*i));
    const char *wrong;
    if (!i)
        return -ENOMEM;
    bool runs = node_has_bytes(file) && (file->mode & 0111);
    int error = runs ? image_read(i, file, &wrong) : -EACCES;
    if (error == -ENOEXEC)
        printk("%s: refused: %s", path, wrong);
    for (unsigned k = 0; !error && k < i->header.segment_count; k++)
        if (i->segments[k].type == SEGMENT_LOAD && i->segments[k].memory_bytes)
            error = segment_map(p, file, &i->segments[k]);
    if (!error) {
        p->brk.start = p->brk.end = i->end;
        *entry = i->header.entry;
        long at = vm_map(p, VM_END - VM_STACK_STEP_BYTES, VM_STACK_STEP_BYTES, VM_READ | VM_WRITE,
                         VM_NO_REPLACE, NULL);
        error = at < 0 ? (int)at : stack_build(p, i, path, argv, envp, stack);
    }
    kfree(i);
    return error;
}
