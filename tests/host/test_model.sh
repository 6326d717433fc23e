#!/bin/bash
# The model of the transaction protocol (tests/model): the protocol passes, each rule that is switched
# is noticed. TEST_TIER=long also explores random scenarios: N of them from SEED on.
cd "$(dirname "$0")/../.." || exit 1
MODEL=build/tests/model
case ${TEST_TIER:-test} in
check) LIMIT=200000 "$MODEL" check ;;
test) LIMIT=1000000 "$MODEL" check && "$MODEL" teeth ;;
long) "$MODEL" check && "$MODEL" teeth && "$MODEL" sweep "${SEED:-1}" "${N:-1000}" ;;
esac
