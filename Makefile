# Katydid. `make help` lists the targets; CONTRIBUTING.md says how the tree is built and tested.

CPUS    ?= 2
MEMORY  ?= 256
STORE   ?= katydid.store
IMPORT  ?= /usr/share/wordnet
ACCEL   ?= tcg
JOBS    ?= $(shell nproc)
GDB_PORT ?= 1234
GDBINIT ?= .gdbinit

CC      := $(CROSS_COMPILE)gcc
AR      := $(CROSS_COMPILE)ar
NM      := $(CROSS_COMPILE)nm
STRIP   := $(CROSS_COMPILE)strip
MUSL    := REALGCC=$(CC) musl-gcc
HOSTCC  ?= gcc
HOSTCXX ?= g++
CLANG   ?= $(firstword $(shell which clang clang-14 2>/dev/null) clang)

COMMON  := -std=c11 -O2 -g -MMD -MP -Wall -Wextra -Werror -ffile-prefix-map=$(CURDIR)=.
KFLAGS  := $(COMMON) -ffreestanding -mcmodel=kernel -mno-red-zone -mgeneral-regs-only -fno-pic \
           -fno-pie -fno-omit-frame-pointer -fno-asynchronous-unwind-tables -fcf-protection=none \
           -fstack-protector-strong -mstack-protector-guard=global \
           -Ikernel -Ikernel/include -Iarch/x86_64
KLINK    = $(CC) -nostdlib -static -no-pie -Wl,-z,max-page-size=4096,-z,noexecstack,--build-id=none \
           -T $(KERNEL_LD) -o $@ $(filter %.o,$^) -lgcc
UFLAGS  := $(COMMON) -D_GNU_SOURCE -fno-pie -fno-omit-frame-pointer -fcf-protection=none \
           -Ilibpstore -Ikernel/include
ULINK    = $(MUSL) -static -no-pie -Wl,-z,max-page-size=4096,-z,noexecstack,--build-id=none \
           -o $@ $(filter %.o,$^) build/libpstore.a
HFLAGS  := $(COMMON) -D_GNU_SOURCE -Idisk -I. -Ilibpstore -Ikernel/include -Itests/disk/lib
SANITIZE := -O1 -DKATYDID_BUGS -fsanitize=address,undefined -fno-sanitize-recover=all
HLINK    = $(HOSTCC) -o $@ $(filter %.o %.a,$^)

KERNEL_LD := arch/x86_64/kernel.ld
# say(WORD): shows `WORD target` instead of the command, unless V=1; `make -s` shows nothing
say      = $(if $(V),,@$(if $(findstring s,$(filter-out -j% --%,$(firstword $(MAKEFLAGS)))),,echo '  $(1) $@';))
# objects(prefix, sources): x.c -> prefix/x.o and x.S -> prefix/x.S.o
objects  = $(patsubst %.c,$(1)/%.o,$(filter %.c,$(2))) $(patsubst %.S,$(1)/%.S.o,$(filter %.S,$(2)))

KERNEL_SOURCES  := $(wildcard kernel/*.c kernel/*/*.c arch/x86_64/*.c arch/x86_64/*.S)
PSTORE_SOURCES  := $(wildcard libpstore/*.c libpstore/*.S)
DISK_SOURCES    := $(wildcard disk/*.c)
USER_FOLDERS    := $(sort $(patsubst user/%/,%,$(dir $(wildcard user/*/*.c))))
USER_NAMES      := $(sort $(patsubst user/%.c,%,$(wildcard user/*.c)) $(USER_FOLDERS))
USER_PROGRAMS   := $(addprefix build/user/,$(USER_NAMES))
GUEST_SOURCES   := $(filter-out tests/guest/lib/%,$(wildcard tests/guest/*/*.c))
GUEST_TESTS     := $(patsubst %.c,build/tests/guest/%,$(notdir $(GUEST_SOURCES)))
DISK_TESTS      := $(patsubst %.c,build/%,$(wildcard tests/disk/test_*.c))
DISK_TEST_PARTS := $(wildcard tests/disk/lib/*.c)
WORLD_PARTS     := $(addprefix tests/disk/lib/,device.c model.c txn.c) $(wildcard tests/disk/lib/world*.c)
HOST_TESTS      := $(patsubst %.c,build/%,$(wildcard tests/host/test_*.c))
HOST_TEST_PARTS := $(filter-out tests/host/test_%,$(wildcard tests/host/*.c)) \
                   $(addprefix libpstore/,slot.c alloc.c txn.c txn_entry.S lint.c container.c \
                     container_name.c error.c pstore.c)
KCHECK_SOURCES  := $(wildcard disk/tools/kcheck/*.c)
KSTORE_SOURCES  := $(wildcard disk/tools/kstore/*.c) $(KCHECK_SOURCES)
HOST_TOOLS      := $(patsubst disk/tools/%.c,build/host/%,$(wildcard disk/tools/*.c)) \
                   build/host/kstore

.PHONY: all image tests host-tests iso run test test-long check fuzz coverage debug crash bench lint clean
.PHONY: reset-store help lines kernel-bugs crash-bugs gdbinit plots
.DELETE_ON_ERROR:
.SECONDARY:

all:                            ## build the kernel, the programs and the host tools (default)
	@scripts/setup build
	@+$(MAKE) --no-print-directory -j$(JOBS) image $(HOST_TOOLS) \
	    $(filter image tests host-tests,$(MAKECMDGOALS))

ifneq ($(filter all,$(MAKECMDGOALS)),)  # its make makes these too: two would build one file at once
image tests host-tests: all
else
image: build/kernel.elf build/initrd.tar
host-tests: $(DISK_TESTS) $(HOST_TESTS) $(HOST_TOOLS) build/tests/model build/tests/asan/kstore
tests: image host-tests $(GUEST_TESTS) build/tests/same/host build/tests/same/guest build/bugs/store \
       build/bugs/kreplay build/bugs/kernel.elf
endif

# --- the kernel: linked twice, so that it can hold its own symbol table -------------------------
build/obj/kernel/%.o: kernel/%.c Makefile
	@mkdir -p $(@D)
	$(call say,CC  )$(CC) $(KFLAGS) -c -o $@ $<
build/obj/arch/%.o: arch/%.c Makefile
	@mkdir -p $(@D)
	$(call say,CC  )$(CC) $(KFLAGS) -c -o $@ $<
build/obj/arch/%.S.o: arch/%.S Makefile
	@mkdir -p $(@D)
	$(call say,CC  )$(CC) $(KFLAGS) -c -o $@ $<

KERNEL_OBJECTS := $(call objects,build/obj,$(KERNEL_SOURCES))
build/symbols0.S: scripts/mksymbols
	@mkdir -p $(@D)
	@scripts/mksymbols </dev/null >$@
build/symbols1.S: build/kernel.pass1.elf scripts/mksymbols
	@$(NM) -n $< | scripts/mksymbols >$@
build/symbols%.o: build/symbols%.S
	$(call say,AS  )$(CC) -c -o $@ $<
build/kernel.pass1.elf: $(KERNEL_OBJECTS) build/symbols0.o $(KERNEL_LD)
	$(call say,LINK)$(KLINK)
build/kernel.elf: $(KERNEL_OBJECTS) build/symbols1.o $(KERNEL_LD)
	$(call say,LINK)$(KLINK)
	@$(NM) -n $@ | scripts/mksymbols | cmp -s - build/symbols1.S || \
	    { echo "$@: the symbol table moved code; place .rodata behind .text" >&2; rm -f $@; false; }

# the same kernel with planted bugs and a stale-TLB checker (kernel/base/bug.h)
KERNEL_BUG_OBJECTS := $(call objects,build/obj/kernel-bugs,$(KERNEL_SOURCES))
build/obj/kernel-bugs/%.o: %.c Makefile
	@mkdir -p $(@D)
	$(call say,CC  )$(CC) $(KFLAGS) -DKATYDID_BUGS -c -o $@ $<
build/obj/kernel-bugs/%.S.o: %.S Makefile
	@mkdir -p $(@D)
	$(call say,CC  )$(CC) $(KFLAGS) -c -o $@ $<
build/bugs/kernel.elf: $(KERNEL_BUG_OBJECTS) build/symbols0.o $(KERNEL_LD)
	@mkdir -p $(@D)
	$(call say,LINK)$(KLINK)

# --- user programs: user/NAME.c, or all of user/NAME/ -------------------------------------------
build/obj/user/store/%.o: UFLAGS += -Idisk
build/obj/user/%.o: user/%.c Makefile
	@mkdir -p $(@D)
	$(call say,CC  )$(MUSL) $(UFLAGS) -c -o $@ $<
build/obj/libpstore/%.o: libpstore/%.c Makefile
	@mkdir -p $(@D)
	$(call say,CC  )$(MUSL) $(UFLAGS) -c -o $@ $<
build/obj/libpstore/%.S.o: libpstore/%.S Makefile
	@mkdir -p $(@D)
	$(call say,CC  )$(MUSL) $(UFLAGS) -c -o $@ $<
build/obj/tests/guest/%.o: tests/guest/%.c Makefile
	@mkdir -p $(@D)
	$(call say,CC  )$(MUSL) $(UFLAGS) -Itests/guest/lib -c -o $@ $<
build/obj/guest/disk/%.o: disk/%.c Makefile
	@mkdir -p $(@D)
	$(call say,CC  )$(MUSL) $(UFLAGS) -Idisk -c -o $@ $<

build/obj/guest/tests/%.o: tests/%.c Makefile
	@mkdir -p $(@D)
	$(call say,CC  )$(MUSL) $(UFLAGS) -Idisk -I. -Itests/disk/lib -c -o $@ $<

build/libpstore.a: $(call objects,build/obj,$(PSTORE_SOURCES))
	@mkdir -p $(@D)
	$(call say,AR  )rm -f $@ && $(AR) rcs $@ $^
define folder_program
build/user/$(1): $(call objects,build/obj,$(wildcard user/$(1)/*.c))
endef
$(foreach name,$(USER_FOLDERS),$(eval $(call folder_program,$(name))))
build/user/store: $(call objects,build/obj/guest,$(DISK_SOURCES))
$(foreach name,$(filter-out $(USER_FOLDERS),$(USER_NAMES)),\
    $(eval build/user/$(name): build/obj/user/$(name).o))
$(USER_PROGRAMS): build/libpstore.a
	@mkdir -p $(@D)
	$(call say,LINK)$(ULINK)
$(foreach source,$(GUEST_SOURCES),$(eval build/tests/guest/$(notdir $(source:.c=)): build/obj/$(source:.c=.o)))
$(GUEST_TESTS): build/libpstore.a
	@mkdir -p $(@D)
	$(call say,LINK)$(ULINK)

# the store manager with planted bugs (disk/bug.h), for controls that must fail
build/obj/guest-bugs/%.o: %.c Makefile
	@mkdir -p $(@D)
	$(call say,CC  )$(MUSL) $(UFLAGS) -Idisk -DKATYDID_BUGS -c -o $@ $<
build/bugs/kreplay: $(call objects,build/obj/bugs,disk/tools/kreplay.c $(DISK_SOURCES))
	@mkdir -p $(@D)
	$(call say,LINK)$(HLINK)
build/bugs/store: $(call objects,build/obj/guest-bugs,$(wildcard user/store/*.c) $(DISK_SOURCES)) \
        build/libpstore.a
	@mkdir -p $(@D)
	$(call say,LINK)$(ULINK)

build/initrd.tar: $(USER_PROGRAMS)
	@rm -rf build/initrd && mkdir -p build/initrd/bin build/initrd/etc
	@for p in $^; do $(STRIP) -o build/initrd/bin/$${p##*/} $$p || exit 1; done
	$(call say,TAR )tar --format=ustar --sort=name --owner=0 --group=0 --numeric-owner \
	    --mtime=@0 -C build/initrd -cf $@ bin etc

# --- host programs ------------------------------------------------------------------------------
build/obj/host/%.o: %.c Makefile
	@mkdir -p $(@D)
	$(call say,HOST)$(HOSTCC) $(HFLAGS) -c -o $@ $<
build/obj/host/%.S.o: %.S Makefile
	@mkdir -p $(@D)
	$(call say,HOST)$(HOSTCC) $(HFLAGS) -c -o $@ $<
build/obj/bugs/%.o: %.c Makefile
	@mkdir -p $(@D)
	$(call say,HOST)$(HOSTCC) $(HFLAGS) -DKATYDID_BUGS -c -o $@ $<
build/host/kstore: $(call objects,build/obj/host,$(KSTORE_SOURCES) $(DISK_SOURCES))
	@mkdir -p $(@D)
	$(call say,LINK)$(HLINK) -lm
build/host/%: build/obj/host/disk/tools/%.o $(call objects,build/obj/host,$(DISK_SOURCES))
	@mkdir -p $(@D)
	$(call say,LINK)$(HLINK)
build/tests/disk/%: build/obj/bugs/tests/disk/%.o \
        $(call objects,build/obj/bugs,$(DISK_SOURCES) $(DISK_TEST_PARTS) $(KCHECK_SOURCES))
	@mkdir -p $(@D)
	$(call say,LINK)$(HLINK) -lcmocka
build/obj/asan/%.o: %.c Makefile
	@mkdir -p $(@D)
	$(call say,HOST)$(HOSTCC) $(HFLAGS) $(SANITIZE) -c -o $@ $<
build/tests/disk/test_hostile: HLINK += $(SANITIZE)
build/tests/disk/test_hostile: $(call objects,build/obj/asan,tests/disk/test_hostile.c \
        $(DISK_SOURCES) $(DISK_TEST_PARTS) $(KCHECK_SOURCES))
	@mkdir -p $(@D)
	$(call say,LINK)$(HLINK) -lcmocka
build/tests/asan/kstore: HLINK += $(SANITIZE)
build/tests/asan/kstore: $(call objects,build/obj/asan,$(KSTORE_SOURCES) $(DISK_SOURCES))
	@mkdir -p $(@D)
	$(call say,LINK)$(HLINK) -lm
# the kernel's parsers, with the machine replaced (tests/fuzz/parsers.c)
PARSERS := -I. -iquote kernel -iquote arch/x86_64 -Iarch/x86_64
build/tests/host/test_parsers: HLINK += $(SANITIZE)
build/obj/asan/tests/host/test_parsers.o: HFLAGS += $(PARSERS)
build/tests/host/test_parsers: build/obj/asan/tests/host/test_parsers.o
	@mkdir -p $(@D)
	$(call say,LINK)$(HLINK)
build/fuzz/parsers: tests/fuzz/parsers.c tests/host/kernel_names.h $(wildcard kernel/*.[ch] kernel/*/*.[ch] arch/x86_64/*.[ch]) Makefile
	@mkdir -p $(@D)
	$(call say,FUZZ)$(CLANG) $(filter-out -MMD -MP,$(HFLAGS)) $(PARSERS) -fsanitize=fuzzer,address,undefined \
	    -DFUZZ_PARSERS -Wno-unknown-attributes -fno-sanitize-recover=all -o $@ $<
# the model of the transaction protocol
build/tests/model: $(wildcard tests/model/*.h tests/model/*.cpp) Makefile
	@mkdir -p $(@D)
	$(call say,HOST)$(HOSTCXX) -std=c++17 -O2 -Wall -Wextra -Werror -Wno-missing-field-initializers -o $@ tests/model/main.cpp
# libFuzzer's targets for disk/, and the program that makes their first inputs
FUZZ_PARTS := $(addprefix tests/disk/lib/,crew.c hostile.c) $(WORLD_PARTS) $(KCHECK_SOURCES)
FUZZ_image := -DFUZZ_PART=HOSTILE_IMAGE
FUZZ_log := -DFUZZ_PART=HOSTILE_LOG
FUZZ_kcheck := -DFUZZ_KCHECK
build/fuzz/image build/fuzz/log build/fuzz/kcheck: tests/fuzz/fuzz.c $(DISK_SOURCES) $(FUZZ_PARTS) Makefile
	@mkdir -p $(@D)
	$(call say,FUZZ)$(CLANG) $(filter-out -MMD -MP,$(HFLAGS)) -fsanitize=fuzzer,address,undefined -DKATYDID_BUGS \
	    -fno-sanitize-recover=all $(FUZZ_$(@F)) \
	    -o $@ $(filter %.c,$^) -lcmocka
build/fuzz/corpus: tests/fuzz/fuzz.c $(DISK_SOURCES) $(FUZZ_PARTS) Makefile
	@mkdir -p $(@D)
	$(call say,LINK)$(HOSTCC) $(filter-out -MMD -MP,$(HFLAGS)) -DKATYDID_BUGS -DFUZZ_CORPUS -o $@ $(filter %.c,$^) \
	    -lcmocka
# the same program for both sides
SAME_SOURCES := tests/same/log.c tests/disk/lib/shape.c $(WORLD_PARTS) $(DISK_SOURCES)
build/tests/same/host: $(call objects,build/obj/host,$(SAME_SOURCES))
	@mkdir -p $(@D)
	$(call say,LINK)$(HLINK)
build/tests/same/guest: $(call objects,build/obj/guest,$(SAME_SOURCES)) build/libpstore.a
	@mkdir -p $(@D)
	$(call say,LINK)$(ULINK)
# with gcov's counters, planted bugs and never() compiled out
COVERED_TESTS := store decide errors formats agree hostile chain grow kcheck calls craft corners hash open \
    spill scarce checkpoint unflushed
COVERED_TESTS := $(filter $(patsubst tests/disk/test_%.c,%,$(wildcard tests/disk/test_*.c)),\
    $(COVERED_TESTS))
build/obj/coverage/%.o: %.c Makefile
	@mkdir -p $(@D)
	$(call say,HOST)$(HOSTCC) $(HFLAGS) -O0 $(if $(filter disk/%.c,$<),--coverage) -DKATYDID_BUGS \
	    -DKATYDID_COVERAGE -c -o $@ $<
build/coverage/%: build/obj/coverage/tests/disk/%.o \
        $(call objects,build/obj/coverage,$(DISK_SOURCES) $(DISK_TEST_PARTS) $(KCHECK_SOURCES))
	@mkdir -p $(@D)
	$(call say,LINK)$(HLINK) --coverage -lcmocka
build/host/parts.a: $(call objects,build/obj/host,$(HOST_TEST_PARTS))
	@mkdir -p $(@D)
	$(call say,AR  )rm -f $@ && $(AR) rcs $@ $^
# -iquote: the names of the kernel's headers must not hide those of the C library
build/obj/host/tests/host/test_kernel.o: HFLAGS += -iquote kernel -Iarch/x86_64
build/tests/host/test_history: build/obj/host/tests/history/check.o
build/tests/host/test_story: build/obj/host/user/trace/story.o
build/tests/guest/kernel_history: build/obj/guest/tests/history/check.o
build/tests/host/%: build/obj/host/tests/host/%.o build/host/parts.a
	@mkdir -p $(@D)
	$(call say,LINK)$(HLINK) -lcmocka

# --- what people type ---------------------------------------------------------------------------
iso: image                      ## build/katydid.iso: GRUB, BIOS and UEFI
	@scripts/mkiso build/katydid.iso

run:                            ## boot Katydid with $(STORE), IMPORT=DIR (WordNet) and your ADD=PROGRAM
	@IMPORT=$(IMPORT) scripts/setup run
	@+$(MAKE) --no-print-directory -j$(JOBS) iso $(HOST_TOOLS)
	@scripts/run --iso --cpus $(CPUS) --memory $(MEMORY) --accel $(ACCEL) --store $(STORE) \
	    --import $(IMPORT) $(ADD:%=--add %)

test:                           ## all tests (12 minutes at most); ONLY=PATTERN picks some, CPUS=N for the guest
	@scripts/setup test
	@+$(MAKE) --no-print-directory -j$(JOBS) tests iso
	@scripts/test --cpus $(CPUS) $(if $(ONLY),--only '$(ONLY)')

check:                          ## host tests only (1 minute at most)
	@scripts/setup check
	@+$(MAKE) --no-print-directory -j$(JOBS) host-tests
	@scripts/test --host --tier check $(if $(ONLY),--only '$(ONLY)')

FUZZERS := build/fuzz/image build/fuzz/log build/fuzz/kcheck build/fuzz/corpus build/fuzz/parsers build/tests/host/test_parsers

test-long:                      ## host proofs, fuzzers in full, all else with 1, 2, 4 CPUs; N=SEEDS, SEED=FIRST, ONLY=PATTERN
	@scripts/setup test
	@scripts/setup fuzz
	@+$(MAKE) --no-print-directory -j$(JOBS) tests iso $(FUZZERS)
	@N=$(N) SEED=$(SEED) scripts/test --tier long --cpus 1,2,4 --jobs $(JOBS) $(if $(ONLY),--only '$(ONLY)')

fuzz:                           ## libFuzzer: images, logs, kcheck, the kernel's parsers; N=RUNS (200000) SEED=S
	@scripts/setup fuzz
	@+$(MAKE) --no-print-directory -j$(JOBS) $(FUZZERS)
	@tests/fuzz/fuzz.sh $(or $(N),200000) $(or $(SEED),1)

coverage:                       ## branches of disk/ that the host tests run; HTML in build/coverage
	@scripts/setup coverage
	@+$(MAKE) --no-print-directory -j$(JOBS) $(COVERED_TESTS:%=build/coverage/test_%)
	@tests/disk/coverage.sh $(COVERED_TESTS:%=build/coverage/test_%)

debug:                          ## boot and wait for gdb, which reads the .gdbinit made here; PROGRAM=NAME stops in its main, ADD=FILE
	@scripts/setup debug
	@+$(MAKE) --no-print-directory -j$(JOBS) image build/host/kstore gdbinit
	@echo 'waiting for: gdb -x $(GDBINIT)'
	@scripts/run --gdb $(GDB_PORT) --cpus $(CPUS) --memory $(MEMORY) --store $(STORE) $(ADD:%=--add %)

gdbinit:
	@printf '%s\n' 'set pagination off' 'file build/kernel.elf' 'source scripts/gdb/katydid.py' \
	    'target remote 127.0.0.1:$(GDB_PORT)' >$(GDBINIT)
	@$(if $(PROGRAM),printf '%s\n' 'kd-program $(PROGRAM) main' continue >>$(GDBINIT))

crash:                          ## cut the power in N runs (30); SEED=S chooses them, BUG=NAME plants a bug
	@+$(MAKE) --no-print-directory -j$(JOBS) all build/bugs/store build/bugs/kreplay
	@scripts/crash $(N) $(if $(SEED),--seed $(SEED)) $(if $(BUG),--bug $(BUG))

crash-bugs:                     ## a bug of each class in the store: `make crash` must report it; SEED=S
	@+$(MAKE) --no-print-directory -j$(JOBS) all build/bugs/store build/bugs/kreplay
	@scripts/crash 2 --bugs $(if $(SEED),--seed $(SEED))

kernel-bugs:                    ## the kernel with planted bugs: guest tests must find each
	@+$(MAKE) --no-print-directory -j$(JOBS) tests
	@tests/system/kernel-bugs.py --all

bench:                          ## measured values beside their reach; ONLY=GROUP runs one group
	@scripts/setup test
	@scripts/bench --known $(ONLY)
	@+$(MAKE) --no-print-directory -j$(JOBS) tests iso
	@scripts/bench $(ONLY)

plots:                          ## measured crossovers as build/plots/*.svg
	@scripts/setup test
	@+$(MAKE) --no-print-directory -j$(JOBS) image
	@scripts/plots

lint:                           ## cppcheck, shellcheck, compiler warnings
	@scripts/setup lint
	@scripts/lint

lines:                          ## how large kernel/ and arch/ are
	@scripts/lines

clean:                          ## remove build/; a store is never removed
	rm -rf build .gdbinit

reset-store:                    ## remove $(STORE), after asking
	@[ -e '$(STORE)' ] || { echo 'there is no $(STORE)'; exit 1; }
	@python3 -c 'import fcntl; fcntl.lockf(open("$(STORE)", "r+b"), fcntl.LOCK_EX | fcntl.LOCK_NB)' \
	    2>/dev/null || { echo '$(STORE) is in use by a QEMU; halt that first'; exit 1; }
	@[ '$(YES)' = 1 ] || { printf 'Everything in $(STORE) will be lost. Remove it? [y/N] '; \
	    read answer && [ "$$answer" = y ]; } || { echo 'kept $(STORE)'; exit 1; }
	rm '$(STORE)'

help:                           ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "make %-12s %s\n", $$1, $$2}' Makefile
	@echo "variables: CPUS=$(CPUS) MEMORY=$(MEMORY) STORE=$(STORE) IMPORT=$(IMPORT) ACCEL=$(ACCEL)"

-include $(shell find build/obj -name '*.d' 2>/dev/null)
