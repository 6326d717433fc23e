/*
 * command.c - the command lines of the subcommands, by argp.
 */
#include "kstore.h"

#include <stdlib.h>
#include <string.h>

/* One more name with a comma between; `first`: the list is one name yet. Commas in names are
 * doubled. Never freed. */
static const char *joined(const char *list, const char *name, bool first)
{
    char *text = malloc(2 * (strlen(list) + strlen(name)) + 2), *to = text;
    if (!text)
        return name;
    for (; *list; *to++ = *list++)
        if (first && *list == ',')
            *to++ = ',';
    for (*to++ = ','; *name; *to++ = *name++)
        if (*name == ',')
            *to++ = ',';
    *to = 0;
    return text;
}

error_t common_parse(int key, char *value, struct argp_state *state)
{
    struct common *common = state->input;
    switch (key) {
    case 'j':
        common->json = true;
        return 0;
    case 'f':
        common->force = true;
        return 0;
    case 'q':
        progress_off = common->quiet = true;
        return 0;
    case ARGP_KEY_ARG:
        if (common->count == common->wanted && common->wanted == 1)
            common->files[0] = joined(common->files[0], value, common->images++ == 0);
        else if (common->count == common->wanted)
            argp_error(state, "what is %s for?", value);
        else
            common->files[common->count++] = value;
        return 0;
    case ARGP_KEY_END:
        if (common->count < common->wanted)
            argp_error(state, "an argument is missing");
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

void command_parse(const struct argp *argp, int count, char **words, void *input)
{
    argp_err_exit_status = WRONG_USE;
    program_invocation_name = program_invocation_short_name = words[0];
    argp_parse(argp, count, words, 0, NULL, input);
}

bool size_parse(const char *text, uint64_t *bytes)
{
    static const char units[] = "kmgt";
    char *end;
    if (*text < '0' || *text > '9')
        return false;
    *bytes = strtoull(text, &end, 0);
    const char *unit = *end ? strchr(units, *end | 0x20) : NULL;
    if (*end && (!unit || !*unit || end[1]))
        return false;
    uint32_t shift = unit ? 10 * (uint32_t)(unit - units + 1) : 0;
    if (*bytes >> (63 - shift))
        return false;
    *bytes <<= shift;
    return true;
}

bool number_parse(const char *text, uint32_t shift, uint64_t *number)
{
    bool named = strpbrk(text, "kKmMgGtT");
    if (!size_parse(text, number) || (named && !shift))
        return false;
    *number >>= named ? shift : 0;
    return *number >> 40 == 0;
}

const char *size_text(uint64_t bytes, char out[32])
{
    static const char *const units[] = { "bytes", "KiB", "MiB", "GiB", "TiB", "PiB" };
    int unit = 0;
    double value = (double)bytes;
    for (; value >= 1024 && unit < 5; unit++)
        value /= 1024;
    bool whole = value < 100 && value != (double)(uint64_t)value;
    snprintf(out, 32, whole ? "%.1f %s" : "%.0f %s", value, units[unit]);
    return out;
}
