/*
 * role_witness.c - the witness's part of role.h: whether a record changes, which knows no store.
 */
#include "role.h"

bool role_witness(struct role_record *record, const struct role_message *m,
                  struct role_message *answer)
{
    bool given = m->kind == ROLE_WANT_RECORD && m->site == m->record.home &&
                 (record->home == m->site || record->mate == m->site) &&
                 m->record.term == record->term &&
                 (!m->record.mate || m->record.mate == record->home ||
                  m->record.mate == record->mate || !record->mate);     /* NH3 */
    bool vouched = m->kind == ROLE_VOUCHED && m->site && m->site == m->record.home &&
                   !m->record.mate && m->record.term < UINT64_MAX;      /* NH9 */
    uint64_t term = vouched && m->record.term > record->term ? m->record.term : record->term;
    given |= vouched;
    if (given) *record = (struct role_record){ term + 1, m->site, m->record.mate };
    *answer = (struct role_message){ .kind = given ? ROLE_GIVEN : ROLE_RECORD,
                                     .number = m->number, .record = *record };
    return given;
}
