# build.mk - how everything is built. What people type is in the Makefile, which includes this.
MAKEFLAGS += -rR        # to look for built-in rules took most of the time in which make sees that all is new

CC      := $(CROSS_COMPILE)gcc
AR      := $(CROSS_COMPILE)ar
NM      := $(CROSS_COMPILE)nm
OBJCOPY := $(CROSS_COMPILE)objcopy
STRIP   := $(CROSS_COMPILE)strip
MUSL    := REALGCC=$(CC) musl-gcc
HOSTCC  ?= gcc
HOSTCXX ?= g++
CLANG   ?= $(firstword $(shell which clang clang-14 2>/dev/null) clang)

RULES   := Makefile scripts/build.mk
COMMON  := -std=c11 -O2 -g -MMD -MP -Wall -Wextra -Werror -ffile-prefix-map=$(CURDIR)=. $(PLANTED)
KFLAGS  := $(COMMON) -ffreestanding -mcmodel=kernel -mno-red-zone -mgeneral-regs-only -fno-pic \
           -fno-pie -fno-omit-frame-pointer -fno-asynchronous-unwind-tables -fcf-protection=none \
           -fstack-protector-strong -mstack-protector-guard=global -Ikernel -Ikernel/include -Iarch/x86_64 -iquote .
UFLAGS  := $(COMMON) -D_GNU_SOURCE -fno-pie -fno-omit-frame-pointer -fcf-protection=none \
           -Ilibpstore -Ikernel/include
HFLAGS  := $(COMMON) -D_GNU_SOURCE -Idisk -I. -Ilibpstore -Ikernel/include -Itests/disk/lib
ALONE   := -Wl,-z,max-page-size=4096,-z,noexecstack,--build-id=none
SANITIZE := -fsanitize=address,undefined -fno-sanitize-recover=all
# A struct that ends in an array of open length at the head of another one (libpstore/slot.h) is GNU's, which clang tells.
FUZZED  := $(CLANG) $(HFLAGS) -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=all \
    -Wno-gnu-variable-sized-type-not-at-end
FUZZING  = $(filter-out -MMD -MP,$(subst fuzzer-no-link,fuzzer,$(FUZZED)))

KERNEL_LD := arch/x86_64/kernel.ld
KLINK    = $(CC) -nostdlib -static -no-pie $(ALONE) -T $(KERNEL_LD) -o $@ $(filter %.o,$^) -lgcc
ULINK    = $(MUSL) -static -no-pie $(ALONE) -o $@ $(filter %.o,$^) $(filter %/guest.a,$^) build/libpstore.a
HLINK    = $(HOSTCC) -o $@ $(filter %.o,$^) -Wl,--start-group $(filter %.a,$^) -Wl,--end-group
ARCHIVE  = rm -f $@ && $(AR) rcs $@ $^
# do(WORD,COMMAND): shows `WORD target` instead of the command, unless V=1; `make -s` shows nothing
silent   = $(findstring s,$(filter-out -j% --%,$(firstword $(MAKEFLAGS))))
do       = @mkdir -p $(@D) && $(if $(V),set -x,$(if $(silent),:,echo '  $(1) $@')) && $(2)
# objects(KIND,SOURCES): x.c -> build/obj/KIND/x.o and x.S -> build/obj/KIND/x.S.o
objects  = $(patsubst %.c,build/obj/$(1)/%.o,$(filter %.c,$(2))) \
           $(patsubst %.S,build/obj/$(1)/%.S.o,$(filter %.S,$(2)))

KERNEL_SOURCES  := $(wildcard kernel/*.c kernel/*/*.c arch/x86_64/*.c arch/x86_64/*.S) disk/crc32c.c
PSTORE_SOURCES  := $(wildcard libpstore/*.c libpstore/*/*.c libpstore/*.S)
DISK_SOURCES    := $(wildcard disk/*.c) disk/lz4/lz4.c disk/lz4/lz4hc.c
# the same, and what only host tools and tests ask of a store
STORE_SOURCES   := $(DISK_SOURCES) $(wildcard disk/tools/lib/*.c)
# a program of the guest is a file NAME.c or all of a folder NAME/; in user/managers each file is one, too; in user/sites
# these are, each with its NAME_*.c
SITE_PROGRAMS   := $(wildcard $(patsubst %,user/sites/%.c,link agent remote sites witness))
FILE_PROGRAMS   := $(wildcard user/*.c user/managers/*.c tests/bench/*.c) $(SITE_PROGRAMS)
FOLDER_PROGRAMS := $(filter-out user/managers user/sites,$(patsubst %/,%,$(sort $(dir $(wildcard $(addsuffix /*/*.c,user user/managers tests/bench tests/crash))))))
# the sources of Lua, SQLite and LZ4 lie outside of the tree (scripts/source); where one is not, its program is left out
LUA_SRC         := $(or $(LUA_SRC),$(shell scripts/source lua --where))
SQLITE_SRC      := $(or $(SQLITE_SRC),$(shell scripts/source sqlite --where))
SQLITE_LIBRARY  := $(if $(wildcard $(SQLITE_SRC)/sqlite3.c),build/sqlite/libsqlite3.a)
FOLDER_PROGRAMS := $(filter-out $(if $(wildcard $(LUA_SRC)/lapi.c),,user/lua) $(if $(SQLITE_LIBRARY),,user/sqlite),$(FOLDER_PROGRAMS))
LZ4_SRC         := $(or $(LZ4_SRC),$(shell scripts/source lz4 --where))
FILE_PROGRAMS   := $(filter-out $(if $(wildcard $(LZ4_SRC)/lz4.c),,user/managers/compressed.c user/managers/packed.c),$(FILE_PROGRAMS))
USER_PROGRAMS   := $(addprefix build/user/,$(sort $(notdir $(FILE_PROGRAMS:.c=) $(FOLDER_PROGRAMS))))
GUEST_SOURCES   := $(filter-out tests/guest/lib/%,$(wildcard tests/guest/*/*.c))
GUEST_FOLDERS   := $(patsubst %/,%,$(sort $(dir $(wildcard tests/guest/*/*/*.c))))
GUEST_TESTS     := $(addprefix build/tests/guest/,$(notdir $(GUEST_SOURCES:.c=) $(GUEST_FOLDERS)))
DISK_PROGRAMS   := $(filter-out tests/disk/lib/% tests/disk/fixtures/%,$(wildcard tests/disk/*/*.c))
DISK_TESTS      := $(addprefix build/tests/disk/,$(notdir $(DISK_PROGRAMS:.c=)))
DISK_ASAN_TESTS := $(addprefix build/tests/disk/,test_hostile test_rights_hostile)
DISK_TEST_PARTS := $(wildcard tests/disk/lib/*.c) disk/tools/kstore/mend.c
# the store manager for tests, which bring the kernel, what sends copies, and indexes (tests/disk/lib/manager)
MANAGER_SOURCES := $(filter-out $(patsubst %,user/store/%.c,copy copy_backup copy_link copy_recast index kd main recast request),$(wildcard user/store/*.c)) \
                   user/sites/frame.c user/sites/role_wire.c $(wildcard tests/disk/lib/manager/*.c)
DIRECTORY_SOURCES := $(wildcard user/store/directory*.c user/store/grant*.c) user/store/limit.c
WORLD_PARTS     := $(addprefix tests/disk/lib/,chunks.c device.c model.c txn.c) $(wildcard tests/disk/lib/world*.c)
HOST_TESTS      := $(patsubst %.c,build/%,$(wildcard tests/host/test_*.c))
# structures beside their models: for a test on the host and one in the guest
SUBJECTS        := $(wildcard tests/structures/*.c)
HOST_TEST_PARTS := $(filter-out tests/host/test_%,$(wildcard tests/host/*.c)) $(SUBJECTS) $(addprefix libpstore/,slot.c item.c guard.c arena.c congeries.c congeries_collect.c directory.c lease.c each.c \
                   alloc.c resize.c txn.c txn_entry.S lint.c container.c store.c container_list.c container_name.c site.c handle.c lack.c holders.c window.c error.c pstore.c types.c operation.c retry.c outcome.c apart.c txn_view.c manager_check.c kit.c kit_client.c kit_server.c answer.c) \
                   $(filter-out %/memory.c $(wildcard libpstore/structures/item_*.c),$(wildcard libpstore/structures/*.c))
# replacement policies: for their manager, and for simulations
REPLACEMENT_POLICIES := fifo.c clock.c lru2.c arc.c
KCHECK_SOURCES  := $(wildcard disk/tools/kcheck/*.c)
KSTORE_SOURCES  := $(wildcard disk/tools/kstore/*.c) $(KCHECK_SOURCES) $(STORE_SOURCES)
HOST_TOOLS      := $(patsubst disk/tools/%.c,build/host/%,$(wildcard disk/tools/*.c)) build/host/kstore
SAME_SOURCES    := tests/same/log.c tests/disk/lib/shape.c $(WORLD_PARTS) $(STORE_SOURCES)
COVERED_TESTS   := $(patsubst %,build/coverage/test_%,store decide errors formats agree hostile chain grow kcheck \
                   calls craft corners wide_free hash open spill scarce checkpoint unflushed recovery one_fault upgrade scrub \
                   scrub_closed mend backup span span_labels directory areas budget)
FUZZERS         := $(addprefix build/fuzz/,image log kcheck corpus parsers) build/tests/host/test_parsers
# `make test` has them where clang is and its library for them; elsewhere it says that they are left out
FUZZERS_HERE    := $(if $(and $(shell which $(CLANG)),$(wildcard /usr/lib/llvm-*/lib/clang/*/lib/linux/libclang_rt.fuzzer-x86_64.a)),$(FUZZERS))

# --- objects: build/obj/KIND/PATH.o, by kind of program -----------------------------------------
define kind
build/obj/$(1)/%.o: %.c $(RULES)
	$$(call do,$(2),$(3) -c -o $$@ $$<)
build/obj/$(1)/%.S.o: %.S $(RULES)
	$$(call do,$(2),$(3) -c -o $$@ $$<)
endef
$(eval $(call kind,kernel,CC  ,$$(CC) $$(KFLAGS)))
$(eval $(call kind,guest,CC  ,$$(MUSL) $$(UFLAGS)))
$(eval $(call kind,host,HOST,$$(HOSTCC) $$(HFLAGS)))
$(eval $(call kind,test,HOST,$$(HOSTCC) $$(HFLAGS) -DKATYDID_TEST))
# the store manager's threads as coroutines, and its clock as theirs
$(eval $(call kind,test/turns,HOST,$$(HOSTCC) $$(HFLAGS) -DKATYDID_TEST -include turns/sim.h))
$(eval $(call kind,fuzz,FUZZ,$$(FUZZED) -DKATYDID_TEST))
$(eval $(call kind,asan,HOST,$$(HOSTCC) $$(HFLAGS) -O1 -DKATYDID_TEST $$(SANITIZE)))
$(eval $(call kind,coverage,HOST,$$(HOSTCC) $$(HFLAGS) -O0 $$(if $$(filter disk/%.c,$$<),--coverage) \
    -DKATYDID_COVERAGE))
build/obj/guest/user/store/%.o build/obj/guest/disk/%.o build/obj/guest/user/sites/witness.o build/obj/guest/user/sites/role_wire.o: UFLAGS += -Idisk
build/obj/guest/user/store/copy.o build/obj/guest/user/store/copy_link.o build/obj/guest/user/store/parts.o: UFLAGS += -I.
# the reference library as it is: its warnings are others' business
build/obj/guest/disk/lz4/%.o: UFLAGS += -w
$(foreach kind,host test fuzz asan coverage,build/obj/$(kind)/disk/lz4/%.o): HFLAGS += -w
build/obj/guest/user/lua/%.o: UFLAGS += -DLUA_USE_POSIX -I$(LUA_SRC) -ffile-prefix-map=$(LUA_SRC)=lua
build/obj/guest/tests/guest/%.o: UFLAGS += -Itests/guest/lib
$(call objects,guest,$(wildcard tests/guest/lib/fire*.c tests/guest/pstore/fire_*.c)): UFLAGS += -I.
$(addprefix build/obj/guest/tests/guest/pstore/manager_,behind.o clone.o collected.o compressed.o congeries.o optimistic.o replacement.o steps.o verified.o volatile.o) build/obj/guest/tests/guest/pstore/pstore_structures.o build/obj/guest/tests/guest/pstore/pstore_congeries.o build/obj/guest/tests/guest/pstore/pstore_item_layer.o: UFLAGS += -I.
build/obj/guest/tests/same/%.o build/obj/guest/tests/history/%.o: UFLAGS += -Idisk -I. -Itests/disk/lib
build/obj/guest/tests/disk/%.o: UFLAGS += -Idisk -I. -Itests/disk/lib
# each frame wakes a thread of each: its first use of a vector register would be a trap
$(call objects,guest,$(filter-out user/sites/agent_types.c,$(wildcard user/sites/*.c))): UFLAGS += -mgeneral-regs-only
$(addprefix build/obj/guest/libpstore/,operation.o txn.o): UFLAGS += -mgeneral-regs-only
build/obj/guest/tests/bench/%.o build/obj/guest/tests/crash/%.o build/obj/guest/user/managers/%.o build/obj/guest/user/sites/%.o build/obj/guest/tests/sites/%.o: UFLAGS += -I.
# -iquote: the names of the kernel's headers must not hide those of the C library
build/obj/host/tests/host/test_kernel.o build/obj/host/tests/host/test_signals.o: HFLAGS += -iquote kernel -Iarch/x86_64
# of a file of the kernel only what the test calls
build/obj/host/tests/host/test_signals.o: HFLAGS += -ffunction-sections
build/tests/host/test_signals: HLINK += -Wl,--gc-sections
# what is only looked at in tests: libpstore's host objects are for them alone
build/obj/host/libpstore/%.o: HFLAGS += -DKATYDID_TEST
PARSERS := -I. -iquote kernel -iquote arch/x86_64 -Iarch/x86_64
build/obj/asan/tests/host/test_parsers.o: HFLAGS += $(PARSERS)

# --- the kernel: linked twice, so that it can hold its own symbol table -------------------------
KERNEL_OBJECTS := $(call objects,kernel,$(KERNEL_SOURCES))
build/symbols0.S: scripts/mksymbols
	@mkdir -p $(@D)
	@scripts/mksymbols </dev/null >$@
build/symbols1.S: build/kernel.pass1.elf scripts/mksymbols
	@$(NM) -n $< | scripts/mksymbols >$@
build/symbols%.o: build/symbols%.S
	$(call do,AS  ,$(CC) -c -o $@ $<)
build/kernel.pass1.elf: $(KERNEL_OBJECTS) build/symbols0.o $(KERNEL_LD)
	$(call do,LINK,$(KLINK))
build/kernel.elf: $(KERNEL_OBJECTS) build/symbols1.o $(KERNEL_LD)
	$(call do,LINK,$(KLINK))
	@$(NM) -n $@ | scripts/mksymbols | cmp -s - build/symbols1.S || \
	    { echo "$@: the symbol table moved code; place .rodata behind .text" >&2; rm -f $@; false; }
# a kernel with a planted bug, or "none", and with a stale-TLB checker (tests/bugs): compiled in a copy of the tree
build/bugs/kernel/%/kernel.elf: $(wildcard kernel/*.* kernel/*/*.* kernel/include/*/* arch/*/*.* disk/crc32c.? disk/bytes.h tests/bugs/*.patch) $(RULES)
	$(call do,BUG ,scripts/bugs build kernel $*)

# --- programs of the guest -----------------------------------------------------------------------
# names of the library's own are out of a program's way: node_init is ps__node_init outside
build/libpstore.a: $(call objects,guest,$(PSTORE_SOURCES))
	$(call do,AR  ,$(ARCHIVE))
	@$(NM) -g --defined-only $@ | awk 'NF == 3 && $$3 !~ /^(ps_|km_)/ { print $$3, "ps__" $$3 }' >$@.names && \
	    $(OBJCOPY) --redefine-syms=$@.names $@
$(foreach file,$(FILE_PROGRAMS),$(eval build/user/$(notdir $(file:.c=)): $(call objects,guest,$(file))))
build/user/trace: $(call objects,guest,libpstore/slot.c)
build/obj/guest/user/trace/%.o: UFLAGS += -I.
$(foreach folder,$(FOLDER_PROGRAMS),\
    $(eval build/user/$(notdir $(folder)): $(call objects,guest,$(wildcard $(folder)/*.c))))
$(foreach file,$(GUEST_SOURCES),$(eval build/tests/guest/$(notdir $(file:.c=)): $(call objects,guest,$(file))))
$(foreach folder,$(GUEST_FOLDERS),\
    $(eval build/tests/guest/$(notdir $(folder)): $(call objects,guest,$(wildcard $(folder)/*.c))))
build/user/lua: ULINK += @user/lua/link
build/obj/guest/user/managers/compressed.o build/obj/guest/user/managers/packed.o: UFLAGS += -I$(LZ4_SRC)
build/obj/guest/lz4/%.o: $(LZ4_SRC)/%.c $(RULES)
	$(call do,CC  ,$(MUSL) $(UFLAGS) -w -O3 -ffile-prefix-map=$(LZ4_SRC)=lz4 -c -o $@ $<)
build/user/compressed build/user/packed: build/obj/guest/lz4/lz4.o
build/user/verified build/user/branch: $(call objects,guest,disk/crc32c.c)
SITE_SHARED := $(addprefix user/sites/,frame.c link_client.c) disk/crc32c.c
build/tests/sites/%: build/obj/guest/tests/sites/%.o $(call objects,guest,$(SITE_SHARED)) build/libpstore.a
	$(call do,LINK,$(ULINK))
build/tests/guest/hostile_site: $(call objects,guest,$(SITE_SHARED))
build/obj/guest/tests/guest/hostile/hostile_site.o: UFLAGS += -I.
build/user/link: $(call objects,guest,$(wildcard user/sites/link_*.c) $(SITE_SHARED))
build/user/agent: $(call objects,guest,$(wildcard user/sites/agent_*.c) $(addprefix user/sites/,message.c pages.c turns.c) $(SITE_SHARED))
build/user/remote: $(call objects,guest,$(wildcard user/sites/remote_*.c) $(addprefix user/sites/,message.c pages.c turns.c) $(SITE_SHARED))
build/user/witness: $(call objects,guest,user/sites/role_wire.c user/store/role_witness.c $(SITE_SHARED))
build/user/bench-managers: $(call objects,guest,tests/oo1/workload.c $(addprefix user/managers/replacement/,$(REPLACEMENT_POLICIES)))
build/user/bench-dali: $(call objects,guest,tests/guest/lib/wild.c tests/guest/lib/system.c)
build/user/udatabase: $(call objects,guest,disk/crc32c.c $(addprefix tests/structures/btree_,layered.c integrated.c))
build/user/lua: user/lua/link
build/obj/guest/user/lua/main.o: user/lua/dump.lua
# SQLite: for programs of one's own, too, by -Ibuild/sqlite -Lbuild/sqlite -lsqlite3
build/obj/guest/user/sqlite/%.o: UFLAGS += -I$(SQLITE_SRC)
build/obj/guest/sqlite/%.o: $(SQLITE_SRC)/%.c user/sqlite/options $(RULES)
	$(call do,CC  ,$(MUSL) $(UFLAGS) -w -O1 -ffile-prefix-map=$(SQLITE_SRC)=sqlite @user/sqlite/options -c -o $@ $<)
build/sqlite/libsqlite3.a: build/obj/guest/user/sqlite/vfs.o build/obj/guest/user/sqlite/chunks.o build/obj/guest/sqlite/sqlite3.o
	@mkdir -p $(@D) && cp $(SQLITE_SRC)/sqlite3.h $(@D)/
	$(call do,AR  ,$(ARCHIVE))
build/user/sqlite: build/obj/guest/sqlite/sqlite3.o build/obj/guest/sqlite/shell.o
# the tree of the indexes that the manager keeps: with its own names, for node_check
build/user/store: $(call objects,guest,$(DISK_SOURCES) $(addprefix user/sites/,agent_types.c frame.c link_client.c role_wire.c) $(addprefix libpstore/structures/,structure.c node.c tree.c tree_look.c))
build/tests/guest/kernel_history build/tests/guest/kernel_stack_history build/tests/guest/manager_history build/tests/guest/manager_optimistic build/tests/guest/pstore_item_history: $(call objects,guest,tests/history/check.c)
build/tests/guest/pstore_structures build/tests/guest/pstore_congeries: $(call objects,guest,$(SUBJECTS))
build/tests/guest.a: $(call objects,guest,$(wildcard tests/guest/lib/*.c))
	$(call do,AR  ,$(ARCHIVE))
$(GUEST_TESTS): build/tests/guest.a
build/tests/same/guest: $(call objects,guest,$(SAME_SOURCES))
$(USER_PROGRAMS) $(GUEST_TESTS) build/tests/same/guest: build/libpstore.a
	$(call do,LINK,$(ULINK))
build/programs: always
	@echo $(USER_PROGRAMS) | cmp -s - $@ || echo $(USER_PROGRAMS) >$@
build/initrd.tar: $(USER_PROGRAMS) build/programs scripts/programs
	@rm -rf build/initrd && mkdir -p build/initrd/bin build/initrd/etc
	@for p in $(USER_PROGRAMS); do $(STRIP) -o build/initrd/bin/$${p##*/} $$p || exit 1; done
	@scripts/programs $(FILE_PROGRAMS) $(FOLDER_PROGRAMS) >build/initrd/etc/programs
	$(call do,TAR ,tar --format=ustar --owner=0 --group=0 --numeric-owner --mtime=@0 -C build/initrd -cf $@ \
	    bin/init $(addprefix bin/,$(filter-out init,$(notdir $(USER_PROGRAMS)))) etc)

# --- programs of the host ------------------------------------------------------------------------
build/host/kstore: $(call objects,host,$(KSTORE_SOURCES))
build/tests/asan/kstore: $(call objects,asan,$(KSTORE_SOURCES))
build/tests/same/host: $(call objects,host,$(SAME_SOURCES))
build/tests/host/test_parsers: $(call objects,asan,tests/host/test_parsers.c)
TREE_PARTS := $(addprefix libpstore/structures/,tree.c tree_look.c node.c structure.c)
build/tests/host/test_index build/tests/host/test_index_look: build/tests/host/%: build/obj/asan/tests/host/%.o \
        $(call objects,asan,$(TREE_PARTS) libpstore/error.c libpstore/lack.c)
# who only reads damaged nodes may read words at odd addresses
build/obj/asan/libpstore/structures/%.o build/obj/asan/tests/host/test_index_look.o: SANITIZE += -fno-sanitize=alignment
build/tests/host/test_parsers build/tests/host/test_index build/tests/host/test_index_look $(DISK_ASAN_TESTS) build/tests/asan/kstore: HLINK += $(SANITIZE)
build/host/kstore build/tests/asan/kstore build/tests/same/host build/tests/host/test_parsers build/tests/host/test_index build/tests/host/test_index_look:
	$(call do,LINK,$(HLINK) -lm)
build/host/%: build/obj/host/disk/tools/%.o $(call objects,host,$(STORE_SOURCES))
	$(call do,LINK,$(HLINK))
# what tests share is in archives, of which each takes what it names: some bring a kernel of their own, or another disk
define rigs
build/obj/$(1)/disk.a: $(call objects,$(1),$(DISK_TEST_PARTS) $(2))
	$$(call do,AR  ,$$(ARCHIVE))
endef
$(eval $(call rigs,test))
$(eval $(call rigs,asan,$(DIRECTORY_SOURCES)))
$(eval $(call rigs,coverage))
build/obj/test/manager.a: $(call objects,test,$(MANAGER_SOURCES) $(wildcard tests/disk/lib/threads/*.c))
build/obj/test/turns/manager.a: $(call objects,test/turns,$(MANAGER_SOURCES) $(wildcard tests/disk/lib/turns/*.c))
build/obj/test/manager.a build/obj/test/turns/manager.a:
	$(call do,AR  ,$(ARCHIVE))
build/obj/test/user/store/%.o: HFLAGS += -Dmalloc=manager_malloc
# disk_test(KIND,PROGRAM,SOURCE,MANAGER)
define disk_test
$(2): $(call objects,$(1),$(3) $(STORE_SOURCES) $(KCHECK_SOURCES)) build/obj/$(1)/disk.a $(4)
endef
$(foreach file,$(DISK_PROGRAMS),$(foreach name,$(notdir $(file:.c=)),\
    $(eval $(if $(filter %/$(name),$(DISK_ASAN_TESTS)),$(call disk_test,asan,build/tests/disk/$(name),$(file)),\
        $(call disk_test,test,build/tests/disk/$(name),$(file),build/obj/test$(if $(filter tests/disk/time/%,$(file)),/turns)/manager.a))) \
    $(eval $(call disk_test,coverage,build/coverage/$(name),$(file)))))
$(DISK_TESTS):
	$(call do,LINK,$(HLINK) -lcmocka)
build/coverage/%:
	$(call do,LINK,$(HLINK) --coverage -lcmocka)
build/host/parts.a: $(call objects,host,$(HOST_TEST_PARTS))
	$(call do,AR  ,$(ARCHIVE))
build/tests/host/test_history: $(call objects,host,tests/history/check.c)
build/tests/host/test_story: $(call objects,host,user/trace/story.c)
build/tests/host/test_replacement: $(call objects,host,tests/bench/bench-managers/patterns.c tests/oo1/workload.c $(addprefix user/managers/replacement/,$(REPLACEMENT_POLICIES)))
# what sites hear is input
build/tests/host/test_frames: $(call objects,asan,tests/host/test_frames.c user/sites/frame.c disk/crc32c.c)
build/tests/host/test_pages: $(call objects,asan,tests/host/test_pages.c user/sites/pages.c)
build/tests/host/test_messages: $(call objects,asan,tests/host/test_messages.c $(addprefix user/sites/,message.c frame.c) disk/crc32c.c)
build/tests/host/test_link build/tests/host/test_link_lies: build/tests/host/%: build/obj/asan/tests/host/%.o \
        $(call objects,asan,user/sites/frame.c disk/crc32c.c \
        $(patsubst %,user/sites/link_%.c,peer in out hello key queue))
build/tests/host/test_convert build/tests/host/test_zones: build/tests/host/%: build/obj/asan/tests/host/%.o
SITE_TESTS := $(addprefix build/tests/host/test_,frames pages messages link link_lies convert zones)
$(SITE_TESTS): HLINK += $(SANITIZE)
$(SITE_TESTS):
	$(call do,LINK,$(HLINK) -lcmocka)
build/tests/host/%: build/obj/host/tests/host/%.o build/host/parts.a
	$(call do,LINK,$(HLINK) -lcmocka)
MODELS := $(addprefix build/tests/model,$(patsubst tests/model/%.cpp,-%,$(filter-out %/main.cpp,$(wildcard tests/model/*.cpp)))) build/tests/model
build/tests/model-%: tests/model/%.cpp tests/model/small.h $(wildcard tests/model/stack_*.h tests/model/item_*.h tests/model/s[ip]*.h) tests/model/engine.h $(RULES)
	$(call do,HOST,$(HOSTCXX) -std=c++17 -O2 -Wall -Wextra -Werror -Wno-missing-field-initializers -o $@ $<)
build/tests/model: $(wildcard tests/model/*.h tests/model/main.cpp) $(RULES)
	$(call do,HOST,$(HOSTCXX) -std=c++17 -O2 -Wall -Wextra -Werror -Wno-missing-field-initializers -o $@ \
	    $(filter %.cpp,$^))
# QEMU's plugin that measures stretches (scripts/run --stretch)
build/tests/stretch.so: tests/stretch/stretch.c $(RULES)
	$(call do,HOST,$(HOSTCC) $(filter-out -MMD -MP,$(HFLAGS)) -shared -fPIC -o $@ $<)
# libFuzzer's targets: the kernel's parsers, with the machine replaced; disk/, and what makes its first inputs
build/fuzz/parsers: tests/fuzz/parsers.c tests/host/kernel_names.h $(wildcard kernel/*/*.[ch] arch/*/*.[ch]) $(RULES)
	$(call do,FUZZ,$(FUZZING) $(PARSERS) -DFUZZ_PARSERS -Wno-unknown-attributes -Wno-ignored-attributes -o $@ $<)
FUZZ_SOURCES := $(STORE_SOURCES) $(WORLD_PARTS) $(KCHECK_SOURCES) $(addprefix tests/disk/lib/,crew.c hostile.c)
build/fuzz/image: FUZZ := -DFUZZ_PART=HOSTILE_IMAGE
build/fuzz/log: FUZZ := -DFUZZ_PART=HOSTILE_LOG
build/fuzz/kcheck: FUZZ := -DFUZZ_KCHECK
$(addprefix build/fuzz/,image log kcheck): tests/fuzz/fuzz.c $(call objects,fuzz,$(FUZZ_SOURCES)) $(RULES)
	$(call do,FUZZ,$(FUZZING) -DKATYDID_TEST $(FUZZ) -o $@ $(filter %.c %.o,$^) -lcmocka)
build/fuzz/corpus: tests/fuzz/fuzz.c $(call objects,test,$(FUZZ_SOURCES)) $(RULES)
	$(call do,FUZZ,$(HOSTCC) $(filter-out -MMD -MP,$(HFLAGS)) -DKATYDID_TEST -DFUZZ_CORPUS -o $@ $(filter %.c %.o,$^) -lcmocka)

-include $(shell find build/obj -name '*.d' 2>/dev/null)
