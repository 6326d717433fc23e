/*
 * fuzz.c - libFuzzer's entry: bytes laid over a good image or log, checksums mended (hostile.h).
 *
 * Built three times: with FUZZ_PART as HOSTILE_IMAGE and HOSTILE_LOG the store has to live with the
 * bytes; with FUZZ_KCHECK it is kcheck, and the first byte says which part the others are. With
 * FUZZ_CORPUS it is a program of its own that writes the good bytes of several images, to begin
 * with: corpus FOLDER image|log|kcheck.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hostile.h"
#include "tools/kcheck/kcheck.h"

#ifdef FUZZ_CORPUS

int main(int argc, char **argv)
{
    static uint8_t bytes[1 + HOSTILE_BYTES_MAX];
    static struct hostile hostile;
    if (argc != 3)
        return 2;
    bool kcheck = !strcmp(argv[2], "kcheck");
    for (uint64_t seed = 1; seed <= 8; seed++) {
        char path[512];
        bool log = kcheck ? seed % 2 : !strcmp(argv[2], "log");
        hostile_open(&hostile, seed);
        bytes[0] = log;
        size_t count = kcheck + hostile_take(&hostile, log ? HOSTILE_LOG : HOSTILE_IMAGE,
                                             bytes + kcheck);
        snprintf(path, sizeof path, "%s/seed-%u", argv[1], (unsigned)seed);
        FILE *file = fopen(path, "wb");
        if (!file || fwrite(bytes, 1, count, file) != count || fclose(file))
            return 1;
        hostile_close(&hostile);
    }
    return 0;
}

#else

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count);

#ifdef FUZZ_KCHECK

static int image_read(void *context, uint64_t offset, void *buffer, size_t bytes)
{
    const struct device *device = context;
    if (offset > device->bytes || bytes > device->bytes - offset)
        abort();                        /* it asks for what is not on the disk */
    memcpy(buffer, device->image + offset, bytes);
    return 0;
}

static void finding(void *context, enum kcheck_level level, const char *label, const char *text)
{
    (void)context, (void)level;
    if (!label || !*text)
        abort();
}

static void check(struct hostile *hostile)
{
    struct kcheck_io io = { &hostile->device, hostile->device.bytes, image_read };
    struct kcheck_options how = { .report = finding };
    struct kcheck_result result;
    kcheck_image(&io, &how, &result);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    static struct hostile hostile;
    if (!hostile.device.image)
        hostile_open(&hostile, 1);
    if (count && count <= HOSTILE_BYTES_MAX)
        hostile_with(&hostile, bytes[0] & 1 ? HOSTILE_LOG : HOSTILE_IMAGE, bytes + 1, count - 1,
                     check);
    return 0;
}

#else

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    static struct hostile hostile;
    if (!hostile.device.image)
        hostile_open(&hostile, 1);
    if (count <= HOSTILE_BYTES_MAX)
        hostile_try(&hostile, FUZZ_PART, bytes, count);
    return 0;
}

#endif
#endif
