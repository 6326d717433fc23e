/*
 * image.c - a file as a disk. One that is opened for writing is nobody else's: QEMU has shared
 * locks on bytes from 100 (what it does with the image) and from 200 (what others must not do).
 */
#include "kstore.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int file_read(void *context, uint64_t offset, void *buffer, size_t bytes)
{
    const struct image_file *file = context;
    for (size_t done = 0; done < bytes;) {
        ssize_t n = pread(file->descriptor, (char *)buffer + done, bytes - done,
                          (off_t)(offset + done));
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return -EIO;
        done += (size_t)n;
    }
    return 0;
}

static int file_write(void *context, uint64_t offset, const void *buffer, size_t bytes)
{
    const struct image_file *file = context;
    for (size_t done = 0; done < bytes;) {
        ssize_t n = pwrite(file->descriptor, (const char *)buffer + done, bytes - done,
                           (off_t)(offset + done));
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return -EIO;
        done += (size_t)n;
    }
    return 0;
}

static int file_flush(void *context)
{
    return fsync(((const struct image_file *)context)->descriptor) ? -EIO : 0;
}

enum { LOCK_FIRST = 100, LOCK_COUNT = 200 };

static int image_lock(int descriptor)
{
    struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = LOCK_FIRST,
                          .l_len = LOCK_COUNT };
    return fcntl(descriptor, F_OFD_SETLK, &lock);
}

int image_add(struct image *image, const char *path, int flags)
{
    struct image_file *file = &image->file[image->count++];
    struct stat status;
    file->path = strdup(path);
    file->descriptor = open(path, flags | O_CLOEXEC, 0644);
    off_t bytes = file->descriptor < 0 ? -1 : lseek(file->descriptor, 0, SEEK_END);
    if (bytes >= 0 && fstat(file->descriptor, &status) == 0 && S_ISDIR(status.st_mode)) {
        errno = EISDIR; /* whose end may be anywhere */
        bytes = -1;
    }
    if (bytes >= 0 && (flags & O_ACCMODE) == O_RDWR && image_lock(file->descriptor))
        bytes = -1;
    if (bytes < 0) {
        fprintf(stderr, "kstore: %s: %s\n", path, errno != EAGAIN ? strerror(errno) :
                "it is in use by a QEMU or another kstore; end that first (a guest by `halt`)");
        return CANNOT;
    }
    file->bytes = (uint64_t)bytes / BLOCK_BYTES * BLOCK_BYTES;
    image->bytes = file->bytes;
    return SOUND;
}

bool paths_split(const char *path, char *names[SPAN_DISKS_MAX + 1])
{
    uint32_t count = 0;
    bool more = true;
    memset(names, 0, (SPAN_DISKS_MAX + 1) * sizeof *names);
    while (more && count < SPAN_DISKS_MAX) {
        char *to = names[count++] = malloc(strlen(path) + 1);
        more = false;
        for (; to && *path && !more; path++)
            if (*path != ',')
                *to++ = *path;
            else if (path[1] == ',')
                *to++ = *path++;
            else
                more = true;
        if (to)
            *to = 0;
    }
    return !more;
}

static void image_refuse(const struct image *image, const struct span_report *report)
{
    bool given = report->given != SPAN_MISSING;
    fprintf(stderr, "kstore: %s: ", given ? image->file[report->given].path : image->path);
    if (report->number && report->of)
        fprintf(stderr, given ? "disk %u of %u of its store; it " : "disk %u of %u ",
                report->number, report->of);
    fprintf(stderr, "%s\n", report->message);
}

/* Files that are there are the disks of a store, or one of a store by itself. */
static int image_span(struct image *image)
{
    struct disk_io disks[SPAN_DISKS_MAX];
    struct kcheck_io own[SPAN_DISKS_MAX];
    struct span_report report;
    for (uint32_t i = 0; i < image->count; i++) {
        disks[i] = file_disk_io(&image->file[i]);
        own[i] = (struct kcheck_io){ &image->file[i], disks[i].bytes, file_read };
    }
    int error = span_open(disks, image->count, &image->span, &image->span_io, &report);
    int other = kspan_open(own, image->count, &image->own, &image->own_io);
    if (error)
        image_refuse(image, &report);
    else if (error != other || image->span_io.bytes != image->own_io.bytes)
        fprintf(stderr, "kstore: %s: its labels are read in two ways (error %d)\n", image->path,
                error = other ? other : -EUCLEAN);
    else
        image->bytes = image->span_io.bytes;
    return !error ? SOUND : error == -EUCLEAN ? CANNOT : error_status(error);
}

int image_open(struct image *image, const char *path, int flags)
{
    char *names[SPAN_DISKS_MAX + 1];
    int status = SOUND;
    memset(image, 0, sizeof *image);
    image->path = path;
    if (flags & O_CREAT || !strchr(path, ',') || access(path, F_OK) == 0) {
        status = image_add(image, path, flags);
        return status || flags & O_CREAT ? status : image_span(image);
    }
    if (!paths_split(path, names)) {
        fprintf(stderr, "kstore: %s: a store has %u disks at most\n", path, SPAN_DISKS_MAX);
        status = WRONG_USE;
    }
    for (char **name = names; *name; free(*name++))
        if (!status)
            status = image_add(image, *name, flags);
    return status ? status : image_span(image);
}

void image_close(struct image *image)
{
    for (uint32_t i = 0; i < image->count; i++) {
        if (image->file[i].descriptor >= 0)
            close(image->file[i].descriptor);
        free(image->file[i].path);
    }
    image->count = 0;
}

int image_resize(struct image *image, uint64_t bytes)
{
    if (ftruncate(image->file[0].descriptor, (off_t)bytes))
        return -errno;
    image->file[0].bytes = image->bytes = bytes;
    return 0;
}

bool images_share(const struct image *a, const struct image *b)
{
    struct stat x, y;
    for (uint32_t i = 0; i < a->count * b->count; i++)
        if (!fstat(a->file[i % a->count].descriptor, &x) &&
            !fstat(b->file[i / a->count].descriptor, &y) && x.st_dev == y.st_dev &&
            x.st_ino == y.st_ino)
            return true;
    return false;
}

struct disk_io file_disk_io(struct image_file *file)
{
    return (struct disk_io){ .context = file, .bytes = file->bytes, .read = file_read,
                             .write = file_write, .flush = file_flush };
}

struct kcheck_io image_kcheck_io(struct image *image)
{
    return image->own.count > 1 ? image->own_io
        : (struct kcheck_io){ &image->file[0], image->file[0].bytes, file_read };
}

struct disk_io image_disk_io(struct image *image)
{
    return image->span.count > 1 ? image->span_io : file_disk_io(&image->file[0]);
}

static void *memory_alloc(void *context, size_t bytes)
{
    (void)context;
    return malloc(bytes);
}

static void memory_free(void *context, void *memory, size_t bytes)
{
    (void)context, (void)bytes;
    free(memory);
}

static void *memory_alloc_zeroed(void *context, size_t bytes)
{
    (void)context;
    return calloc(1, bytes);
}

const struct disk_memory host_memory = { NULL, memory_alloc, memory_free, memory_alloc_zeroed };

int error_status(int error)
{
    switch (error) {
    case 0:
        return SOUND;
    case -EUCLEAN:
        return DAMAGED;
    case -ENODATA:
    case -EMEDIUMTYPE:
    case -EPROTONOSUPPORT:
    case -EOPNOTSUPP:
        return NO_STORE;
    default:
        return CANNOT;
    }
}

const char *error_text(int error)
{
    switch (error) {
    case -ENODATA:
        return "a blank disk; `kstore create` makes a store of it";
    case -EMEDIUMTYPE:
        return "it holds something that is not a Katydid store";
    case -EPROTONOSUPPORT:
        return "a store of a newer format; use a newer Katydid";
    case -EOPNOTSUPP:
        return "a store of an older format; copy it, then `kstore upgrade` it";
    case -EUCLEAN:
        return "the store is damaged; `kstore check` says where, `kstore salvage` saves the rest";
    default:
        return strerror(-error);
    }
}

const char *image_error_text(struct image *image, int error)
{
    le64 magic;
    bool unfinished = error == -EMEDIUMTYPE &&
                      pread(image->file[0].descriptor, &magic, sizeof magic, 0) == sizeof magic &&
                      le64_get(magic) == UNFINISHED_MAGIC;
    return unfinished ? "a copy of a store that was never finished; make it again"
                      : error_text(error);
}

int image_view(struct image *image, const char *path, struct kview *view)
{
    struct kcheck_options how = { .context = stderr, .report = finding_print,
                                  .progress = progress_show };
    int status = image_open(image, path, O_RDONLY);
    if (status)
        return status;
    struct kcheck_io io = image_kcheck_io(image);
    int error = kview_open(view, &io, &how, true);
    progress_end();
    status = error_status(error);
    if (error && !(status == DAMAGED && view->super.extent_pages)) {
        fprintf(stderr, "kstore: %s: %s\n", path, status != DAMAGED ?
                image_error_text(image, error) :
                "both superblocks are lost, and with them where all else lies: restore a copy");
        image_unview(image, view);
        return status == DAMAGED ? CANNOT : status;
    }
    return error || view->result.damages ? DAMAGED : SOUND;
}

void image_unview(struct image *image, struct kview *view)
{
    kview_close(view);
    image_close(image);
}

bool uuid_random(uint8_t uuid[16])
{
    int random = open("/dev/urandom", O_RDONLY | O_CLOEXEC);
    bool filled = random >= 0 && read(random, uuid, 16) == 16;
    if (random >= 0)
        close(random);
    return filled;
}

void uuid_text(const uint8_t uuid[16], char out[33])
{
    for (int i = 0; i < 16; i++)
        sprintf(out + 2 * i, "%02x", uuid[i]);
}
