/*
 * opinion.h - the second opinion on a disk: kcheck, which shares no algorithm with the store.
 */
#ifndef TESTS_DISK_OPINION_H
#define TESTS_DISK_OPINION_H

#include "device.h"
#include "tools/kcheck/kcheck.h"

#define OPINION_BYTES 160u

/* What kcheck finds; `said`: the first damage, or loss of the older checkpoint's log, or "". */
void opinion_ask(struct device *device, struct kcheck_result *own, char said[OPINION_BYTES]);

#endif
