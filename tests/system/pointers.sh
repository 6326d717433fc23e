#!/bin/bash
# Pointers between two containers of one store, over reboots: one that halts, and one whose power is cut.
# shellcheck source=scripts/tap.sh
. "$(dirname "$0")/../../scripts/tap.sh"
cd "$ROOT" || exit 1

guest() {
    scripts/run --timeout 100 --store "$TEST_TMP/store" --store-size 64M --allow all \
        --add build/tests/guest/pstore_pointers "$@"
}

ok a_ring_through_two_containers_is_made guest -c 'pstore_pointers make'
ok after_a_reboot_its_pointers_lead_to_the_same_objects guest -c 'pstore_pointers follow'
ok and_when_the_other_container_is_opened_first guest -c 'pstore_pointers back'
ok the_power_is_cut_behind_a_commit guest --kill-on made -c 'pstore_pointers make; echo made; sleep 100'
ok after_the_cut_they_do_so_too guest -c 'pstore_pointers back'
done_testing
