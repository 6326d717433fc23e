# Katydid. `make help` lists the targets; CONTRIBUTING.md says how the tree is built and tested.

CPUS    ?= 2
MEMORY  ?= 256
STORE   ?= katydid.store
IMPORT  ?= /usr/share/wordnet
ACCEL   ?= tcg
JOBS    ?= $(shell nproc)
GDB_PORT ?= 1234
GDBINIT ?= .gdbinit

.DEFAULT_GOAL := all
include scripts/build.mk

SUBMAKE := +@$(MAKE) --no-print-directory -j$(JOBS)
.PHONY: all image tests host-tests iso run sites map test test-long test-bochs test-ceph check fuzz coverage debug crash bench lint clean
.PHONY: always reset-store help lines kernel-bugs crash-bugs gdbinit plots
.DELETE_ON_ERROR:
.SECONDARY:

all:                            ## build the kernel, the programs and the host tools (default)
	@scripts/setup build
	$(SUBMAKE) image $(HOST_TOOLS) $(filter image tests host-tests,$(MAKECMDGOALS))

ifneq ($(filter all,$(MAKECMDGOALS)),)  # its make makes these too: two would build one file at once
image tests host-tests: all
else
image: build/kernel.elf build/initrd.tar $(SQLITE_LIBRARY)
host-tests: $(DISK_TESTS) $(HOST_TESTS) $(HOST_TOOLS) $(MODELS) build/tests/asan/kstore
tests: image host-tests $(GUEST_TESTS) build/tests/same/host build/tests/same/guest build/tests/stretch.so $(addprefix build/tests/sites/,circle echoes homes layouts shared snapshots transfers) \
       build/bugs/kernel/none/kernel.elf
endif

# --- what people type ---------------------------------------------------------------------------
iso: image                      ## build/katydid.iso: GRUB, BIOS and UEFI
	@scripts/mkiso build/katydid.iso

run:                            ## boot Katydid with $(STORE), IMPORT=DIR (WordNet) and your ADD=PROGRAM
	@IMPORT=$(IMPORT) scripts/setup run
	$(SUBMAKE) iso $(HOST_TOOLS)
	@scripts/run --iso --cpus $(CPUS) --memory $(MEMORY) --accel $(ACCEL) --store $(STORE) \
	    --import $(IMPORT) $(ADD:%=--add %)

sites:                          ## two guests, sites a and b of one system, in two panes (user/sites/sites.md)
	@scripts/setup run
	$(SUBMAKE) image
	@scripts/sites --panes

map:                            ## bring a map of the world into $(STORE), for the program map
	@scripts/setup map
	$(SUBMAKE) image build/host/kstore
	@if [ -e $(STORE) ] && build/host/kstore info -jq $(STORE) | grep -q '"name": "map"'; then \
	    echo "$(STORE) has a map: make run, then map. For another one: scripts/run --store $(STORE) -c 'rm-container map', then make map"; \
	else \
	    mkdir -p build/map && scripts/coastline >build/map/world && scripts/run --store $(STORE) --import build/map \
	        -c 'map-import /import/world' && echo 'look at it: make run, then map'; \
	fi

test:                           ## all tests (about 11 minutes on two cores when all is built); ONLY=PATTERN picks some, CPUS=N for the guest
	@scripts/setup test
	$(SUBMAKE) tests iso $(FUZZERS_HERE)
	@scripts/test --cpus $(CPUS) $(if $(ONLY),--only '$(ONLY)')

check:                          ## host tests only (1 minute at most, when all is built)
	@scripts/setup check
	$(SUBMAKE) host-tests
	@scripts/test --host --tier check $(if $(ONLY),--only '$(ONLY)')

test-long:                      ## all, with more seeds and 1, 2, 4 CPUs: hours; TIMES=K times as much; RESUME=1 goes on; ONLY=, N=SEEDS SEED=FIRST
	@scripts/setup test
	@scripts/setup fuzz
	@scripts/setup bochs
	$(SUBMAKE) tests iso $(FUZZERS)
	@N=$(N) SEED=$(SEED) TIMES=$(TIMES) scripts/test --tier long --cpus 1,2,4 --jobs $(JOBS) $(if $(RESUME),--resume) $(if $(ONLY),--only '$(ONLY)')

test-bochs:                     ## the ISO and the kernel's guest tests in Bochs; BOCHS_TESTS=NAMES, BOCHS_CPUS="1 2"
	@scripts/setup bochs
	$(SUBMAKE) tests
	@scripts/test --tier long --only tests/bochs/

test-ceph:                      ## a store on a Ceph cluster of this machine: OSDs killed under load, another guest takes over (disk/ceph.md)
	@scripts/setup ceph
	$(SUBMAKE) image build/host/kstore
	@scripts/test --tier ceph

fuzz:                           ## libFuzzer: images, logs, kcheck, the kernel's parsers; N=RUNS (200000) SEED=S
	@scripts/setup fuzz
	$(SUBMAKE) $(FUZZERS)
	@tests/fuzz/fuzz.sh $(or $(N),200000) $(or $(SEED),1)

coverage:                       ## branches of disk/ that the host tests run; HTML in build/coverage
	@scripts/setup coverage
	$(SUBMAKE) $(COVERED_TESTS)
	@tests/disk/coverage.sh $(COVERED_TESTS)

debug:                          ## boot and wait for gdb, which reads the .gdbinit made here; PROGRAM=NAME stops in its main, ADD=FILE
	@scripts/setup debug
	$(SUBMAKE) image build/host/kstore gdbinit
	@echo 'waiting for: gdb -x $(GDBINIT)'
	@scripts/run --gdb $(GDB_PORT) --cpus $(CPUS) --memory $(MEMORY) --store $(STORE) $(ADD:%=--add %)

gdbinit:
	@printf '%s\n' 'set pagination off' 'file build/kernel.elf' 'source scripts/gdb/katydid.py' \
	    'set tcp connect-timeout 60' 'set remotetimeout 60' 'target remote 127.0.0.1:$(GDB_PORT)' >$(GDBINIT)
	@$(if $(PROGRAM),printf '%s\n' 'kd-program $(PROGRAM) main' continue >>$(GDBINIT))

crash:                          ## cut the power in N runs (30); SEED=S chooses them, BUG=NAME plants a bug
	$(SUBMAKE) all
	@scripts/crash $(N) $(if $(SEED),--seed $(SEED)) $(if $(BUG),--bug $(BUG))

crash-bugs:                     ## a bug of each class in the store: `make crash` must report it; SEED=S
	$(SUBMAKE) all
	@scripts/crash 2 --bugs $(if $(SEED),--seed $(SEED))

kernel-bugs:                    ## tests/bugs/kernel: guest tests must find each planted bug
	$(SUBMAKE) tests
	@tests/system/kernel-bugs.py --all

bench:                          ## measured values beside their reach; ONLY=GROUP runs one group
	@scripts/setup test
	@scripts/bench --known $(ONLY)
	$(SUBMAKE) iso $(HOST_TOOLS)
	@scripts/bench $(ONLY)

plots:                          ## measured crossovers as build/plots/*.svg
	@scripts/setup test
	$(SUBMAKE) image
	@scripts/plots

lint:                           ## cppcheck, shellcheck, compiler warnings
	@scripts/setup lint
	@scripts/lint

lines:                          ## how large kernel/ and arch/ are
	@scripts/lines

clean:                          ## remove build/; a store is never removed
	rm -rf build .gdbinit

reset-store:                    ## remove $(STORE), after asking
	@YES=$(YES) scripts/reset-store '$(STORE)'

help:                           ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {gsub(/\$$\(STORE\)/, "$(STORE)"); printf "make %-12s %s\n", $$1, $$2}' Makefile
	@echo "variables: CPUS=$(CPUS) MEMORY=$(MEMORY) STORE=$(STORE) IMPORT=$(IMPORT) ACCEL=$(ACCEL)"
