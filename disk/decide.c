/*
 * decide.c - the decision table of recovery: from what was found to what is done. Pure: it reads
 * nothing but its arguments, so a test goes through every combination (test_decide.c).
 *
 * Facts come one after the other; a rule that needs no later one ends the matter. In the table, ANY
 * matches all. Exactly one rule matches each combination of facts.
 */
#include "internal.h"

#define ANY 0xffu
#define S(x) (1u << SLOTS_##x)
#define B(x) (1u << BASE_##x)
#define L(x) (1u << LOG_##x)

const struct recovery_rule recovery_rules[RECOVERY_RULES] = {
    { "RV1", S(UNREADABLE), ANY, ANY, RECOVERY_REFUSE, -EIO,
      "the superblocks cannot be read" },
    { "RV2", S(BLANK), ANY, ANY, RECOVERY_REFUSE, -ENODATA,
      "a blank disk; it can be formatted" },
    { "RV3", S(FOREIGN), ANY, ANY, RECOVERY_REFUSE, -EMEDIUMTYPE,
      "the disk holds something that is not a Katydid store; it is left alone" },
    { "RV4", S(NEWER), ANY, ANY, RECOVERY_REFUSE, -EPROTONOSUPPORT,
      "a store of a newer format version; use a newer Katydid to open it" },
    { "RV5", S(DAMAGED), ANY, ANY, RECOVERY_REFUSE, -EUCLEAN,
      "both superblocks of the store are damaged; restore a copy" },
    { "RV6", S(GOOD), B(NONE), ANY, RECOVERY_REFUSE, -EUCLEAN,
      "no checkpoint of the metadata is intact; restore a copy" },
    { "RV7", S(GOOD), B(NEWEST) | B(OLDER), L(DAMAGED), RECOVERY_SALVAGE, -EUCLEAN,
      "the log breaks off, acknowledged transactions are lost; open read-only to save what is "
      "left, or restore a copy" },
    { "RV8", S(GOOD), B(NEWEST) | B(OLDER), L(UNFIT), RECOVERY_REFUSE, -EUCLEAN,
      "the log holds records that do not fit the metadata, or pages of a transaction are lost; "
      "restore a copy" },
    { "RV9", S(GOOD), B(NEWEST), L(EMPTY), RECOVERY_EPOCH, 0, NULL },
    { "RV10", S(GOOD), B(NEWEST), L(GROUPS), RECOVERY_REPLAY, 0, NULL },
    { "RV11", S(GOOD), B(OLDER), L(EMPTY) | L(GROUPS), RECOVERY_REPLAY, 0, NULL },
    { "RV12", S(OLDER), ANY, ANY, RECOVERY_REFUSE, -EOPNOTSUPP,
      "a store of an older format; copy the disk, then `kstore upgrade` it on the host" },
};

/* ---- step 1: what kind of disk is this */

/* slots_fact joins two verdicts; of two valid slots of different stores, B was called foreign. */
enum slots_fact slots_fact(enum slot_verdict a, enum slot_verdict b, bool blank)
{
    if (a == SLOT_VALID || b == SLOT_VALID)
        return SLOTS_GOOD;
    if (a == SLOT_NEWER || b == SLOT_NEWER)
        return SLOTS_NEWER;
    if (a == SLOT_OLDER || b == SLOT_OLDER)
        return SLOTS_OLDER;
    if (a == SLOT_UNREADABLE && b == SLOT_UNREADABLE)
        return SLOTS_UNREADABLE;
    if (a >= SLOT_DAMAGED || b >= SLOT_DAMAGED)
        return SLOTS_DAMAGED;
    return blank && b == SLOT_ZERO ? SLOTS_BLANK : SLOTS_FOREIGN;
}

/* slots_newest returns 0 for slot A, 1 for B: the valid one or, of two, the newer generation. */
uint32_t slots_newest(bool valid_a, uint64_t generation_a, bool valid_b, uint64_t generation_b)
{
    return !valid_a || (valid_b && generation_b >= generation_a);
}

/* ---- step 2: which checkpoint; step 3: where the log ends */

enum log_fact log_fact(const struct log_facts *facts)
{
    if (facts->end_lsn < facts->known_durable || facts->later_history)
        return LOG_DAMAGED;
    return facts->groups ? LOG_GROUPS : LOG_EMPTY;
}

const struct recovery_rule *recovery_decide(enum slots_fact slots, enum base_fact base,
                                            enum log_fact log)
{
    const struct recovery_rule *rule = recovery_rules;
    while (!(rule->slots >> slots & 1) || !(rule->base >> base & 1) || !(rule->log >> log & 1))
        rule++;
    return rule;
}

const struct recovery_rule *recovery_report(struct store_report *report, enum slots_fact slots,
                                            enum base_fact base, enum log_fact log)
{
    const struct recovery_rule *rule = recovery_decide(slots, base, log);
    report->rule = rule->label;
    report->message = rule->message ?: report->message;
    return rule;
}
