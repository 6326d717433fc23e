/*
 * opinion.c - see opinion.h.
 */
#include "opinion.h"

#include <stdio.h>
#include <string.h>

#include "tools/kcheck/span.h"

static int disk_image_read(void *context, uint64_t offset, void *buffer, size_t bytes)
{
    const struct device_disk *disk = context;
    memcpy(buffer, disk->device->image + disk->start + offset, bytes);
    return 0;
}

/* What the store begins with (device_start), read by the other side's own rules. */
static int kcheck_start(struct device *device, struct kspan *span, struct kcheck_io *io)
{
    struct kcheck_io disks[SPAN_DISKS_MAX];
    static struct device_disk whole;
    whole = (struct device_disk){ device, 0, device->bytes };
    disks[0] = (struct kcheck_io){ &whole, device->bytes, disk_image_read };
    for (uint32_t i = 0; i < device->disk_count; i++)
        disks[i] = (struct kcheck_io){ &device->disks[i], device->disks[i].bytes, disk_image_read };
    return kspan_open(disks, device->disk_count ? device->disk_count : 1, span, io);
}

static void damage_note(void *context, enum kcheck_level level, const char *name, const char *text)
{
    char *said = context;
    if ((level == KCHECK_DAMAGE || !strcmp(name, "ST20")) && !said[0])
        snprintf(said, OPINION_BYTES, "kcheck: %s: %s", name, text);
}

void opinion_ask(struct device *device, struct kcheck_result *own, char said[OPINION_BYTES])
{
    struct kspan span;
    struct kcheck_io io;
    struct kcheck_options how = { .context = said, .report = damage_note };
    said[0] = 0;
    memset(own, 0, sizeof *own);
    own->error = kcheck_start(device, &span, &io);
    if (!own->error)
        kcheck_image(&io, &how, own);
}
