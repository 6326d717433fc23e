/*
 * hostile_elf.c - mutated programs: each byte of the headers, cuts, segments that lie.
 *
 * Aim     -ENOEXEC (or another errno), or the child ends; nothing else notices.
 * Method  a copy of this program, or the smallest one that runs (an ELF header, two segments, a few
 *         instructions) is written to /tmp with one thing changed, and started. linux_process.c has
 *         the refusals field by field; here every byte is tried, and what is wrong at many places.
 */
#include <elf.h>
#include <fcntl.h>

#include "hostile.h"

enum { CODE = 0x1000, DATA = 0x2000, FILE_BYTES = 0x2040, SEGMENTS = 3,
       HEADERS_BYTES = sizeof(Elf64_Ehdr) + SEGMENTS * sizeof(Elf64_Phdr) };

static unsigned char image[FILE_BYTES];
static Elf64_Ehdr *const header = (void *)image;
static Elf64_Phdr *const segments = (void *)(image + sizeof(Elf64_Ehdr));

/* exit_group(42) */
static const unsigned char code[] = {0xbf, 42, 0, 0, 0, 0xb8, 231, 0, 0, 0, 0x0f, 0x05, 0x0f, 0x0b};

static void image_make(void)
{
    memset(image, 0, sizeof image);
    *header = (Elf64_Ehdr){
        .e_ident = {0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB, EV_CURRENT}, .e_type = ET_EXEC,
        .e_machine = EM_X86_64, .e_version = EV_CURRENT, .e_entry = 0x401000,
        .e_phoff = sizeof *header, .e_ehsize = sizeof *header, .e_phentsize = sizeof(Elf64_Phdr),
        .e_phnum = SEGMENTS};
    segments[0] = (Elf64_Phdr){.p_type = PT_LOAD, .p_flags = PF_R | PF_X, .p_offset = CODE,
                               .p_vaddr = 0x401000, .p_filesz = sizeof code, .p_memsz = sizeof code,
                               .p_align = 4096};
    segments[1] = (Elf64_Phdr){.p_type = PT_LOAD, .p_flags = PF_R | PF_W, .p_offset = DATA,
                               .p_vaddr = 0x402000, .p_filesz = 0x40, .p_memsz = 0x3000,
                               .p_align = 4096};
    segments[2] = (Elf64_Phdr){.p_type = PT_GNU_STACK, .p_flags = PF_R | PF_W};
    memcpy(image + CODE, code, sizeof code);
}

static int refused, ended, ran, wrong;

/* The child's status, or -errno of its creation. */
static int try(const void *bytes, size_t count)
{
    const char *argv[] = {"mutant", NULL};
    struct kd_process_create p = {.path = "/tmp/mutant", .argv = argv, .fds = {-1, -1, -1}};
    int fd = open("/tmp/mutant", O_CREAT | O_TRUNC | O_WRONLY, 0700);
    if (fd < 0 || write(fd, bytes, count) != (ssize_t)count) return -EIO;
    close(fd);
    long handle = CALL(KD_PROCESS_CREATE, &p);
    if (handle < 0) {
        refused++;
        return (int)handle;
    }
    CALL(KD_HANDLE_CLOSE, handle);
    int status = child_wait_for(p.pid, CHILD_ENDS_S);
    status == 42 ? ran++ : ended++;
    wrong += status == 0 || status == -EBUSY || is_errno(status);
    return status;
}

static void report(const char *what)
{
    printf("# %s: %d were refused, %d ran and ended early, %d ran to their end\n", what, refused,
           ended, ran);
    tap_ok(wrong == 0, "%s", what);
    refused = ended = ran = wrong = 0;
}

static void every_byte(void)
{
    static const unsigned char values[] = {0x00, 0x01, 0x7f, 0x80, 0xff};
    for (size_t at = 0; at < HEADERS_BYTES; at++)
        for (size_t i = 0; i < sizeof values; i++) {
            image_make();
            if (image[at] == values[i]) continue;
            image[at] = values[i];
            try(image, sizeof image);
        }
    report("every byte of the headers");
    for (size_t at = 0; at + 8 <= HEADERS_BYTES; at += 8) {
        static const uint64_t words[] = {
            ~0ull, 1ull << 63, 0x401000, KD_STORE_BASE, 0xffffffff80000000
        };
        for (size_t i = 0; i < 5; i++) {
            image_make();
            memcpy(image + at, &words[i], 8);
            try(image, sizeof image);
        }
    }
    report("every word of the headers");
}

static void cuts(void)
{
    static const size_t at[] = { 0, 1, 3, 4, 15, 16, 63, 64, 65, 119, 120, 175, 176, 231, 232,
                                 0xfff, CODE, CODE + 1, CODE + sizeof code - 1, CODE + sizeof code,
                                 DATA - 1, DATA, DATA + 1, DATA + 0x3f };
    for (size_t i = 0; i < sizeof at / sizeof at[0]; i++) {
        image_make();
        int status = try(image, at[i]);
        if (status != -ENOEXEC) printf("# cut at %zu: %d\n", at[i], status), wrong++;
    }
    report("cut at each border");
}

#define MUTANT(wanted, ...)                                                                        \
    do {                                                                                          \
        image_make();                                                                             \
        __VA_ARGS__;                                                                              \
        int status = try(image, sizeof image);                                                    \
        if ((wanted) ? status != (wanted) : status >= 0)                                          \
            printf("# %s: %d\n", #__VA_ARGS__, status), wrong++;                                  \
    } while (0)

static void lies(void)
{
    Elf64_Phdr *text = &segments[0], *data = &segments[1];
    MUTANT(42, (void)text);
    MUTANT(-ENOMEM, data->p_memsz = 1ull << 34);
    MUTANT(0, data->p_memsz = 1ull << 38);
    MUTANT(0, data->p_memsz = ~0ull);
    MUTANT(0, data->p_memsz = ~0ull - 0x402000);
    MUTANT(0, text->p_memsz = 0x1001);                         /* runs into the data */
    MUTANT(0, data->p_vaddr = text->p_vaddr);
    MUTANT(0, data->p_vaddr = text->p_vaddr - 0x1000);         /* wrong order */
    MUTANT(0, text->p_flags = PF_R | PF_W | PF_X);
    MUTANT(0, text->p_flags = PF_W | PF_X);
    MUTANT(0, text->p_flags = PF_R);                           /* then nothing can run */
    MUTANT(0, header->e_entry = 0x400fff);
    MUTANT(0, header->e_entry = 0x401000 + sizeof code);
    MUTANT(0, header->e_entry = 0);
    MUTANT(0, header->e_entry = ~0ull);
    MUTANT(0, header->e_entry = 0x8000000000401000);
    MUTANT(0, text->p_filesz = text->p_memsz + 1);
    MUTANT(0, text->p_offset = FILE_BYTES);
    MUTANT(0, data->p_filesz = 0x41, data->p_memsz = 0x3000);  /* beyond the file's end */
    MUTANT(0, text->p_vaddr = 0x1000, header->e_entry = 0x1000);
    MUTANT(0, data->p_vaddr = 0x4000000000);                   /* where mappings go */
    MUTANT(0, data->p_vaddr = 0x7fff800000);                   /* where the stack is */
    MUTANT(0, data->p_vaddr = 0x7ffffff000);
    MUTANT(0, header->e_phnum = 0xffff);
    MUTANT(0, header->e_phoff = FILE_BYTES - 56);
    MUTANT(0, header->e_phoff = ~0ull - 55);
    MUTANT(0, header->e_phoff = 1ull << 63);
    MUTANT(42, header->e_shoff = ~0ull, header->e_shnum = 0xffff);
    MUTANT(139, image[CODE] = 0xf4);
    MUTANT(139, memset(image + CODE, 0, sizeof code));
    MUTANT(132, header->e_entry = 0x40100c);
    report("segments that lie");
}

int main(void)
{
    tap_plan(7);
    image_make();
    is(try(image, sizeof image), 42, "the program that is going to be changed");
    ran = 0;
    struct counts before = counts_now();
    cuts();
    lies();
    every_byte();
    unlink("/tmp/mutant");
    tap_ok(counts_back(before, 64),
           "frames, objects, processes, views, handles and credits are back");
    tap_ok(check_clean(), "kcheck");
    return tap_end();
}
