#!/bin/bash
# Group logs: how long a recovery takes, of a log of small records and of one of pages: seconds of one processor of this
# machine, of the store's library over an image in memory; the group store has the same in the guest. And what a backup of
# a store in use costs, in virtual time, of the manager over a disk that serves one request after the other.
set -eu
cd "$(dirname "$0")/../.."
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# recover NAME REACH KIND N
recover() {
    build/tests/disk/test_reach --image "$scratch/store" "$3" "$4"
    build/tests/disk/test_reach --recover "$scratch/store" "$1" "$2"
    rm "$scratch/store"
}
recover 'recovery of 100,000 records of 44 bytes' 250 records 100000
recover 'recovery of 256 MiB of log' 1000 log 256
build/tests/disk/test_manager_time --copies
