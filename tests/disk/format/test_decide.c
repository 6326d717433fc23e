/*
 * test_decide.c - the decision table of recovery is complete and says one thing about each case;
 * the facts are made from what was read as the table's words mean; disk.md prints this very table.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "internal.h"

static bool matches(const struct recovery_rule *rule, uint32_t slots, uint32_t base, uint32_t log)
{
    return rule->slots >> slots & 1 && rule->base >> base & 1 && rule->log >> log & 1;
}

static void each_combination_of_facts_has_exactly_one_rule(void **state)
{
    (void)state;
    uint32_t used[RECOVERY_RULES] = { 0 }, cases = 0;
    for (uint32_t slots = 0; slots < SLOTS_FACTS; slots++)
        for (uint32_t base = 0; base < BASE_FACTS; base++)
            for (uint32_t log = 0; log < LOG_FACTS; log++, cases++) {
                uint32_t rules = 0, which = 0;
                for (uint32_t i = 0; i < RECOVERY_RULES; i++)
                    if (matches(&recovery_rules[i], slots, base, log)) {
                        rules++;
                        which = i;
                    }
                assert_int_equal(rules, 1);
                assert_ptr_equal(recovery_decide(slots, base, log), &recovery_rules[which]);
                used[which]++;
            }
    for (uint32_t i = 0; i < RECOVERY_RULES; i++) {
        const struct recovery_rule *rule = &recovery_rules[i];
        bool goes_on = rule->action == RECOVERY_EPOCH || rule->action == RECOVERY_REPLAY;
        assert_true(used[i] > 0);
        assert_int_equal(goes_on, rule->error == 0);
        assert_int_equal(goes_on, rule->message == NULL);
    }
    printf("# %u combinations, %u rules\n", cases, RECOVERY_RULES);
}

/* Aim: nothing is replayed or written unless slots, base and log are good; only a blank disk may be
 * formatted. */
static void the_rules_are_safe(void **state)
{
    (void)state;
    for (uint32_t slots = 0; slots < SLOTS_FACTS; slots++)
        for (uint32_t base = 0; base < BASE_FACTS; base++)
            for (uint32_t log = 0; log < LOG_FACTS; log++) {
                const struct recovery_rule *rule = recovery_decide(slots, base, log);
                bool good = slots == SLOTS_GOOD && base != BASE_NONE && log <= LOG_GROUPS;
                assert_int_equal(rule->error == 0, good);
                assert_int_equal(rule->error == -ENODATA, slots == SLOTS_BLANK);
                if (good)               /* a lost checkpoint is always written anew */
                    assert_int_equal(rule->action == RECOVERY_EPOCH,
                                     base == BASE_NEWEST && log == LOG_EMPTY);
            }
}

static void facts_about_slots(void **state)
{
    (void)state;
    for (int a = 0; a < SLOT_VERDICTS; a++)
        for (int b = 0; b < SLOT_VERDICTS; b++)
            for (int blank = 0; blank < 2; blank++) {
                enum slots_fact fact = slots_fact(a, b, blank);
                bool valid = a == SLOT_VALID || b == SLOT_VALID;
                bool newer = !valid && (a == SLOT_NEWER || b == SLOT_NEWER);
                bool older = !valid && !newer && (a == SLOT_OLDER || b == SLOT_OLDER);
                bool sick = a == SLOT_DAMAGED || a == SLOT_UNREADABLE || b == SLOT_DAMAGED ||
                            b == SLOT_UNREADABLE;
                assert_int_equal(fact == SLOTS_GOOD, valid);
                assert_int_equal(fact == SLOTS_NEWER, newer);
                assert_int_equal(fact == SLOTS_OLDER, older);
                assert_int_equal(fact == SLOTS_UNREADABLE,
                                 a == SLOT_UNREADABLE && b == SLOT_UNREADABLE);
                if (fact == SLOTS_BLANK)
                    assert_true(blank && !sick && b == SLOT_ZERO);
                if (fact == SLOTS_BLANK || fact == SLOTS_FOREIGN)
                    assert_false(valid || newer || older || sick);
            }
    for (int a = 0; a < 2; a++)
        for (int b = !a; b < 2; b++)
            for (uint64_t g = 1; g < 4; g++) {
                uint32_t slot = slots_newest(a, 2, b, g);
                assert_true(slot ? b : a);
                if (a && b && g != 2)
                    assert_int_equal(slot, g > 2);
            }
}

static void facts_about_the_log(void **state)
{
    (void)state;
    for (uint64_t end = 1; end < 4; end++)
        for (uint64_t known = 1; known < 4; known++)
            for (uint64_t groups = 0; groups < 2; groups++)
                for (int later = 0; later < 2; later++) {
                    struct log_facts facts = { end, known, groups, later };
                    enum log_fact wanted = end < known || later ? LOG_DAMAGED
                                           : groups ? LOG_GROUPS : LOG_EMPTY;
                    assert_int_equal(log_fact(&facts), wanted);
                }
}

/* Aim: the chapter's table has a row for each rule, with the rule's error in it. */
static void the_chapter_has_each_rule(void **state)
{
    (void)state;
    static const struct { int error; const char *name; } names[] = {
        { 0, "opens" }, { -EIO, "EIO" }, { -ENODATA, "ENODATA" }, { -EMEDIUMTYPE, "EMEDIUMTYPE" },
        { -EPROTONOSUPPORT, "EPROTONOSUPPORT" }, { -EOPNOTSUPP, "EOPNOTSUPP" },
        { -EUCLEAN, "EUCLEAN" },
    };
    uint32_t found = 0;
    char line[512], label[16];
    FILE *chapter = fopen("disk/disk.md", "r");
    assert_non_null(chapter);
    while (fgets(line, sizeof line, chapter))
        for (uint32_t i = 0; i < RECOVERY_RULES; i++) {
            const struct recovery_rule *rule = &recovery_rules[i];
            snprintf(label, sizeof label, "| %s |", rule->label);
            if (strncmp(line, label, strlen(label)))
                continue;
            found++;
            for (uint32_t n = 0; n < sizeof names / sizeof *names; n++)
                if (names[n].error == rule->error)
                    assert_non_null(strstr(line, names[n].name));
        }
    fclose(chapter);
    assert_int_equal(found, RECOVERY_RULES);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_combination_of_facts_has_exactly_one_rule),
        cmocka_unit_test(the_rules_are_safe),
        cmocka_unit_test(facts_about_slots),
        cmocka_unit_test(facts_about_the_log),
        cmocka_unit_test(the_chapter_has_each_rule),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
