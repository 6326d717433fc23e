#!/bin/bash
# make debug's parts: a guest stops at a program's main, and the commands of scripts/gdb say of it what
# the guest's own tools said just before. The scene: one transaction has written page 0 of a container,
# a second one waits for that page, a snapshot keeps an old version of page 1.
# Waits: for gdb.
# shellcheck source=scripts/tap.sh
. "$(dirname "$0")/../../scripts/tap.sh"
cd "$ROOT" || exit 1

cat >"$TEST_TMP/scene.c" <<'EOF'
#include <katydid/call.h>
#include <pstore.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static ps_container *c;
static char *pages;
static pthread_barrier_t step;

static int make(void *unused)
{
    (void)unused;
    pages = ps_named(c, "pages", 3 * 4096);
    pages = pages ? (char *)(((uintptr_t)pages + 4095) & ~4095ul) : NULL;
    return pages ? pages[0] = pages[4096] = 1, 0 : -errno;
}
static int look(void *unused) /* a snapshot */
{
    (void)unused;
    int seen = ((volatile char *)pages)[4096];
    pthread_barrier_wait(&step);
    for (;;)
        pause();
    return seen;
}
static int change(void *unused) { return pages[4096]++, unused != NULL; }
static int hold(void *unused)
{
    (void)unused;
    pages[0]++;
    pthread_barrier_wait(&step);
    for (;;)
        pause();
    return 0;
}
static int wait(void *unused) { return pages[0]++, unused != NULL; }

static void *run(void *fn)
{
    struct ps_options o = {.isolation = fn == (void *)look ? PS_SNAPSHOT : PS_SERIALISABLE};
    int (*body)(void *) = fn;
    return (void *)(long)ps_transaction_opt(body, NULL, &o);
}
static void start(int (*fn)(void *))
{
    pthread_t t;
    if (pthread_create(&t, NULL, run, (void *)fn) != 0)
        exit(1);
}
static void play(void)
{
    c = ps_open("scene", PS_CREATE | PS_WRITE, NULL);
    pthread_barrier_init(&step, NULL, 2);
    if (!c || ps_transaction(make, NULL) != 0)
        exit(1);
    start(look);
    pthread_barrier_wait(&step);
    if (ps_transaction(change, NULL) != 0)
        exit(1);
    start(hold);
    pthread_barrier_wait(&step);
    start(wait);
    for (;;)
        pause();
}
/* The parent leaves when the child's last thread waits. */
int main(void)
{
    static struct kd_view_info all[KD_VIEW_MAX];
    if (fork() == 0)
        play();
    for (;;) {
        long n = kd_call3(KD_VIEW_LIST, (long)all, KD_VIEW_MAX, 0);
        for (long i = 0; i < n; i++)
            if (all[i].waits[0] | all[i].waits[1])
                return 0;
        usleep(1000);
    }
}
EOF
cat >"$TEST_TMP/mark.c" <<'EOF'
#include <katydid/call.h>
#include <sys/mman.h>
char *fresh;
__attribute__((noinline)) int touch(int n) { return ++fresh[n]; }
__attribute__((noinline)) int leave(int n) { return (int)kd_call3(499, n, 0, 0); }
int main(int argc, char **argv)
{
    fresh = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return touch(argc) == leave(argc) && argv[1];
}
EOF
for name in scene mark; do
    (cd "$TEST_TMP" && "$ROOT/scripts/katydid-cc" $name.c -o $name) || echo "Bail out! no $name"
done

# debugged COMMANDS GDB-COMMANDS...: boots with gdb attached from reset; gdb's output on stdout.
debugged() {
    local commands=$1 guest port=$((10000 + $$ % 20000))
    shift
    scripts/run --gdb "$port" --cpus 2 --store "$TEST_TMP/store" --store-size 64M --timeout 280 \
        --add "$TEST_TMP/scene" --add "$TEST_TMP/mark" --log "$TEST_TMP/kernel" -c "$commands" \
        >"$TEST_TMP/guest" 2>"$TEST_TMP/errors" &
    guest=$!
    make -s gdbinit PROGRAM=mark GDB_PORT="$port" GDBINIT="$TEST_TMP/gdbinit"
    printf '%s\n' "$@" "echo == end\\n" kill >"$TEST_TMP/commands"
    timeout 280 gdb -nx -batch -ex 'set tcp connect-timeout 60' -x "$TEST_TMP/gdbinit" \
        -x "$TEST_TMP/commands" 2>&1
    wait "$guest"
}
part() { sed -n "/^== $1\$/,/^== /p" <<<"$seen" | sed '1d;$d'; }
has() { grep -qE -- "$2" <<<"$(part "$1")"; }

seen=$(debugged 'scene; echo == ps; ps; echo == txns; txns; echo == objects; objects; echo == end; mark a b' \
    'echo == main\n' 'p argc' 'p argv[1]' \
    'echo == processes\n' kd-process 'echo == process\n' 'kd-process scene' \
    'echo == views\n' kd-view 'echo == view\n' \
    'python holder = [v for v in k.views() if int(v["copies"]["count"])][0]' \
    'python gdb.execute("kd-view %d" % int(holder["id"]))' \
    'echo == objects\n' kd-object 'echo == object\n' 'kd-object scene' \
    'python at = int(list(k.each(holder["copies"]["resident"], "struct copy", "link"))[0]["at"])' \
    'echo == page0\n' 'python gdb.execute("kd-page %#x" % at)' \
    'echo == page1\n' 'python gdb.execute("kd-page %#x" % (at + 4096))' \
    'echo == waits\n' kd-waits 'echo == log\n' 'kd-log 5' 'echo == help\n' 'help kd-page' \
    'tbreak trap_page_fault if at == (long)fresh + 3' continue 'echo == fault\n' bt \
    'tbreak trap_call_unknown if a[0] == 3' continue 'echo == call\n' bt)
guest=$(cat "$TEST_TMP/guest")
told() { sed -n "/^== $1\$/,/^== /p" <<<"$guest" | sed '1d;$d'; }

ok "it stops in the program's main" grep -qE 'hit Breakpoint 1, main \(argc=3, argv=0x' <<<"$seen"
ok "the program's variables can be read" grep -qE '^\$[0-9]+ = 0x[0-9a-f]+ "a"$' <<<"$(part main)"
# pid, parent, threads, handles, views and name of all that were there before and are there still; ps
# also says where calls of them are, and for whom
lists() { awk 'NR > 1 && $NF != "mark" && $NF != "ps" && $NF != "sh" {print $1, $2, $3, $4, $5, $NF}'; }
is "kd-process says what ps says" "$(told ps | sed -E 's|/[0-9]*||g; s/ +(at|for) .*//' | lists)" "$(part processes | lists)"
ok "kd-process of one shows its container" has process '  container scene at 0x2'
ok "and its threads" has process '  thread [0-9]+: CPU [01], parked'
is "kd-view says what txns says" "$(told txns | sed '1d;/->/d;s/ *$//' | grep scene)" \
    "$(part views | sed '1d;s/ *$//' | grep scene)"
ok "kd-view of one shows its copy and its owner" has view '  copy of 0x2[0-9a-f]+ in frame 0x'
ok "and who owns it" has view '  owner: thread [0-9]+ of scene'
is "kd-object says what objects says" "$(told objects)" "$(part objects)"
ok "kd-object of one shows the page that is being written" has object 'page [0-9]+ at 0x.*written by view [0-9]'
writer=$(part view | awk 'NR == 2 {print $1}')
ok "kd-page: the frame" has page0 '  frame 0x[0-9a-f]+000, used, 0 pins'
ok "kd-page: the writer and its right" has page0 "  right: view $writer .*: COPY, frame 0x"
waiter=$(part page0 | sed -n 's/^  waiting: view \([0-9]*\) .* to read$/\1/p')
ok "kd-page: who waits" test -n "$waiter"
ok "kd-page: an old version" has page1 '  old version: for snapshots [0-9]+ to [0-9]+, frame 0x'
ok "kd-page: a snapshot's right" has page1 '  right: view .*: SNAPSHOT, frame 0x'
ok "no right is missing in a mask" test -z "$(grep 'NOT IN THE PAGE' <<<"$seen")"
is "kd-waits says what txns says" "$(told txns | grep -- '->')" "$(part waits | sed 's/:.*//')"
ok "it is that view that waits" has waits "^$waiter -> $writer: .* page 0x2[0-9a-f]+ to read"
ok "kd-log: the kernel's" has log '^  \[ .*store\[2\]: store: started'
ok "kd-log: the store's has the transactions" has log '^  .*[Cc]ommit'
ok "help tells what a command is for" has help 'life of a page'
back='^#[0-9]+  (0x[0-9a-f]+ in )?'
ok "a back trace of a page fault goes on in the program" has fault "${back}touch \(n=.*\) at mark.c:4"
ok "and to its main" has fault "${back}main \(argc=3, argv=0x"
ok "that of a system call, too" has call "${back}leave \(n="
ok "and to its main, too" has call "${back}main \(argc=3, argv=0x"
is "gdb met no error" "" "$(grep -E 'Python Exception|Error in|error' <<<"$seen")"
done_testing
