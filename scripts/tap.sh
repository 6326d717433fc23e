# shellcheck shell=bash
# tap.sh - the Test Anything Protocol for shell tests. Source it; then call
#   ok NAME COMMAND...           passes if COMMAND succeeds; its output is shown if not
#   is NAME WANTED FOUND         passes if both texts are equal
#   today N COUNT                succeeds in the long tier, and each COUNT days otherwise: parts 0 to COUNT - 1 of a dear
#                                test take turns; DAY=N repeats those of another day
#   done_testing                 prints the plan; the last line of every test
# $TEST_TMP is a folder of the test's own that is removed after it; $ROOT is the tree.

ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
export ROOT
if [ -z "${TEST_TMP:-}" ]; then
    mkdir -p "$ROOT/build"
    TEST_TMP=$(mktemp -d "$ROOT/build/test-XXXXXX")
    trap 'rm -rf "$TEST_TMP"' EXIT
fi
tap_count=0
tap_failed=0

tap_result() {
    tap_count=$((tap_count + 1))
    if [ "$1" -eq 0 ]; then
        echo "ok $tap_count - $2"
    else
        tap_failed=$((tap_failed + 1))
        echo "not ok $tap_count - $2"
        sed 's/^/# /'
    fi
}

ok() {
    local name=$1 output status
    shift
    status=0
    output=$("$@" 2>&1) || status=$?
    tap_result "$status" "$name" <<<"status $status of: $*
$output"
}

is() {
    local status=0
    [ "$2" = "$3" ] || status=1
    tap_result "$status" "$1" <<<"wanted: $2
found:  $3"
}

today() {
    [ "${TEST_TIER:-test}" = long ] || [ $((${DAY:-$(date +%s) / 86400} % $2)) = "$1" ]
}

done_testing() {
    echo "1..$tap_count"
    [ "$tap_failed" -eq 0 ]
}
