/*
 * options.c - the store manager's words on the kernel's command line, and its death at a step.
 */
#include "options.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "server.h"

#define COMMAND_LINE_BYTES 2048

static const char step_names[STEP_COUNT][16] = {
    "CM4", "CM5", "CM5w", "CM5f", "CM6", "CM7", "CK1", "CK2", "CK3", "CK4", "SS1", "SS2", "SS3",
    "SS4", "SS5", "VT1", "VT2",
};

struct options options = {.checkpoint_ms = 30000, .lazy_ms = 100, .scrub_kib = 256,
                          .audit_kib = 4096, .chunk_pages = 8,
                          .kept_ms = 10000, .linger_ms = 1000, .quick_ms = 1000};

static enum step die_at = STEP_COUNT;   /* none; written before there are threads */
static atomic_ulong die_left;

static bool die_option(char *value, unsigned life)
{
    char *place, *word = strtok_r(value, ",", &place);
    while (word && life-- > 0) word = strtok_r(NULL, ",", &place);
    if (!word) return true; /* this life has no end of its own */
    char *count = strchr(word, ':'), *end;
    if (!count) return false;
    *count++ = 0;
    unsigned long n = strtoul(count, &end, 10);
    for (unsigned i = 0; i < STEP_COUNT && n > 0 && *end == 0; i++) {
        if (strcmp(word, step_names[i]) != 0) continue;
        die_left = n;
        die_at = i;
        return true;
    }
    return false;
}

static bool checkpoint_option(const char *value)
{
    char *end;
    options.checkpoint_ms = strtoull(value, &end, 10);
    return end != value && *end == 0;
}

static bool lazy_option(const char *value)
{
    char *end;
    options.lazy_ms = strtoull(value, &end, 10);
    return end != value && *end == 0 && options.lazy_ms < STORE_LAZY;
}

static bool chunk_option(const char *value)
{
    char *end;
    options.chunk_pages = (unsigned)strtoul(value, &end, 10);
    return end != value && *end == 0 && options.chunk_pages - 1 < WIRE_CHUNK_MAX;
}

static bool time_option(const char *value, uint64_t *ms)
{
    char *end;
    *ms = strtoull(value, &end, 10);
    return end != value && *end == 0 && *ms < 1u << 30;
}

static bool rate_option(const char *value, uint64_t *kib)
{
    char *end;
    *kib = strtoull(value, &end, 10);
    return end != value && *end == 0 && *kib < 1u << 20;
}

static bool log_option(const char *value)
{
    char *end;
    uint64_t mib = strtoull(value, &end, 10);
    options.log_bytes = mib << 20;
    return end != value && *end == 0 && mib > 0 && mib < 1u << 20;
}

static bool group_option(const char *value)
{
    char *end;
    uint64_t kib = strtoull(value, &end, 10);
    options.group_bytes = kib << 10;
    return end != value && *end == 0 && kib >= 16 && kib < 1u << 20;
}

static bool extent_option(const char *value)
{
    char *end;
    unsigned long kib = strtoul(value, &end, 10);
    if (end == value || *end || kib < 4 || kib > 64 || kib & (kib - 1)) return false;
    options.extent_bytes = (uint32_t)kib << 10;
    return true;
}

static bool zone_option(const char *value)
{
    char *end;
    unsigned long zone = strtoul(value, &end, 10);
    bool ask = strcmp(value, "ask") == 0;
    bool good = ask || (end != value && !*end && zone < STORE_ZONE_MAX &&
                        store_zone_valid((uint32_t)zone));
    if (good) options.zone = ask ? ZONE_ASK : (uint32_t)zone;
    return good;
}

static bool crc_option(const char *value)
{
    return options.crc_fixed = crc32c_fix(value);
}

static bool metadata_option(const char *value)
{
    return options.mapped = strcmp(value, "mapped") == 0;
}

static bool copy_option(const char *value)
{
    return options.asynchronous = strcmp(value, "asynchronous") == 0;
}

static bool pair_option(const char *value)
{
    char rest[2];
    int n = sscanf(value, "%31[^,],%31[^,],%31[^,]%1s", options.pair[0], options.pair[1],
                   options.pair[2], rest);
    bool good = n == 3 && strcmp(options.pair[0], options.pair[1]) != 0;
    if (!good) options.pair[0][0] = 0;
    return good;
}

static bool upgrade_option(const char *value)
{
    return options.upgrade = strcmp(value, "yes") == 0;
}

static bool option(char *word, unsigned life)
{
    char *value = strchr(word, '=');
    if (!value) return false;
    *value++ = 0;
    if (strcmp(word, "die") == 0) return die_option(value, life);
    if (strcmp(word, "checkpoint_ms") == 0) return checkpoint_option(value);
    if (strcmp(word, "chunk_pages") == 0) return chunk_option(value);
    if (strcmp(word, "lazy_ms") == 0) return lazy_option(value);
    if (strcmp(word, "kept_ms") == 0) return time_option(value, &options.kept_ms);
    if (strcmp(word, "linger_ms") == 0) return time_option(value, &options.linger_ms);
    if (strcmp(word, "quick_ms") == 0) return time_option(value, &options.quick_ms);
    if (strcmp(word, "scrub_kib") == 0) return rate_option(value, &options.scrub_kib);
    if (strcmp(word, "audit_kib") == 0) return rate_option(value, &options.audit_kib);
    if (strcmp(word, "log_mib") == 0) return log_option(value);
    if (strcmp(word, "group_kib") == 0) return group_option(value);
    if (strcmp(word, "extent_kib") == 0) return extent_option(value);
    if (strcmp(word, "zone") == 0) return zone_option(value);
    if (strcmp(word, "metadata") == 0) return metadata_option(value);
    if (strcmp(word, "pair") == 0) return pair_option(value);
    if (strcmp(word, "copy") == 0) return copy_option(value);
    if (strcmp(word, "upgrade") == 0) return upgrade_option(value);
    if (strcmp(word, "crc") == 0) return crc_option(value);
    return false;
}

void options_read(unsigned life)
{
    static char line[COMMAND_LINE_BYTES];
    size_t bytes = strlen(server.name);
    unsigned number = (unsigned)(server.name[bytes - 1] - '0');
    char *place;
    options.zone = number >= 1 && number <= STORE_ZONE_SMALL / 2 ? number - 1 : 0;
    if (KD2(KD_KERNEL_COMMAND_LINE, line, sizeof(line) - 1) < 0) return;
    for (char *word = strtok_r(line, " ", &place); word; word = strtok_r(NULL, " ", &place)) {
        bool mine = strncmp(word, server.name, bytes) == 0 && word[bytes] == '.';
        if (!mine && strncmp(word, "crc=", 4) != 0) continue;
        if (!option(mine ? word + bytes + 1 : word, life))
            say("the option %s is not understood, or not in this build", word);
    }
}

void step(enum step at)
{
    kd_mark(step_names[at]);
    if (at != die_at || atomic_fetch_sub(&die_left, 1) != 1) return;
    say("ends at step %s, as the command line says", step_names[at]);
    _exit(EXIT_STEP);
}
