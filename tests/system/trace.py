#!/usr/bin/env python3
"""trace, trace2json and crash reports, on a real run of `bank` with two CPUs.

On a busy host bank's processes may never meet; so `meet`, made here, has a transaction that ends when another one
waits for its page. The programs that crash are made here, too: one stores to nowhere inside a transaction, and one takes the
place of init and ends while bank runs, which is a panic.
"""

import collections
import os
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "host"))
from tap import ROOT, run_tests                 # noqa: E402
from test_trace import check_json, trace2json   # noqa: E402

MEET = r"""
#include <katydid/call.h>
#include <pstore.h>
#include <sys/wait.h>
#include <unistd.h>
static ps_container *c;
static int held[2];
struct part { long n[4]; };
struct lone { long n; };
struct pair { long rest[999]; struct lone *lone; long left; struct part right; }; /* on several pages */
enum what { LEFT, RIGHT, LONE };
static int make(void *unused)
{
    struct pair *p = ps_root(c);
    p->lone = ps_new(c, struct lone, unused);
    return 0;
}
static int want(void *what)
{
    struct pair *p = ps_root(c);
    switch (*(enum what *)what) {
    case LEFT: ++p->left; break;
    case RIGHT: ++p->right.n[2]; break;
    case LONE: ++p->lone->n; break;
    }
    return 0;
}
static int hold(void *what)
{
    static struct kd_view_info all[KD_VIEW_MAX];
    want(what);
    if (write(held[1], "", 1) != 1)
        return 1;
    for (;;) {
        long n = kd_call3(KD_VIEW_LIST, (long)all, KD_VIEW_MAX, 0), waiting = 0;
        for (long i = 0; i < n; i++)
            waiting += all[i].page != 0;
        if (waiting > (*(enum what *)what == LONE))
            return 0;
        usleep(100);
    }
}
int main(void)
{
    char byte;
    c = ps_open("meet", PS_CREATE | PS_WRITE, PS_LAYOUT(struct pair, 1));
    if (pipe(held) || ps_transaction(make, NULL))
        return 1;
    for (int lone = 0; lone < 2; lone++) {
        if (fork() == 0)
            _exit(ps_transaction(hold, &(enum what){lone ? LONE : LEFT}));
        if (read(held[0], &byte, 1) != 1)
            return 1;
        if (lone && fork() == 0) /* the second in the queue, or the first */
            _exit(ps_transaction(want, &(enum what){LONE}));
        if (ps_transaction(want, &(enum what){lone ? LONE : RIGHT}) || wait(NULL) < 0 || (lone && wait(NULL) < 0))
            return 1;
    }
    return 0;
}
"""
WILD = r"""
#include <pstore.h>
static ps_container *c;
static int body(void *to)
{
    ++*(long *)ps_root(c);
    return *(volatile int *)to = 0; /* line 7 */
}
int main(void)
{
    int here;
    c = ps_open("wild", PS_CREATE | PS_WRITE, PS_LAYOUT(long, 1));
    return ps_transaction(body, &here) || ps_transaction(body, (void *)0x123456789000);
}
"""
INIT = r"""
void files_make(void);
#include <katydid/call.h>
static void start(const char *path, const char *argument)
{
    const char *argv[] = {path, argument, 0};
    struct kd_process_create p = {.path = path, .argv = argv, .fds = {-1, -1, -1}, .handle_count = 1};
    kd_call3(KD_PROCESS_CREATE, (long)&p, 0, 0);
}
int main(void)
{
    struct kd_system_info i = {0};
    files_make();
    start("/bin/store", 0);
    while (kd_call3(KD_NAME_FIND, (long)"store", 0, 0) < 0)
        kd_call3(24, 0, 0, 0);
    start("/bin/bank", "100000");
    while (i.publications < 80) {
        kd_call3(24, 0, 0, 0);
        kd_call3(KD_SYSTEM_INFO, (long)&i, 0, 0);
    }
    return 5;
}
"""

STEP = r"the store: \d+ publications; the last step that a manager told: C[MP]\d\w?, \d+ us ago$"
folder = tempfile.TemporaryDirectory()
seen = {}


def guest(*words):
    return subprocess.run(["scripts/run", *words], cwd=ROOT, check=False, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=300)


def program(name, text, *others):
    path = os.path.join(folder.name, name)
    with open(path + ".c", "w", encoding="ascii") as out:
        out.write(text)
    subprocess.run(["scripts/katydid-cc", path + ".c", *others, "-o", path], cwd=ROOT, check=True)
    return path


def traced():
    """The trace of one run, its console output, and the stories of two others."""
    if not seen:
        out = os.path.join(folder.name, "out")
        run = guest("--cpus", "2", "--export", out, "--add", program("meet", MEET), "-c",
                    "trace -o /export/bank.trace sh -c 'meet; bank 80'; echo status $?; echo STORY; "
                    "trace --print bank 80; echo STORY; trace --print meet; echo STORY; "
                    "trace --hot meet; trace --hot todo")
        with open(os.path.join(out, "bank.trace"), "rb") as source:
            seen["trace"] = trace2json.Trace(source.read())
        seen["console"], seen["story"], seen["meet"], seen["hot"] = run.stdout.split("STORY\n")
        seen["errors"] = run.stderr
    return seen


def test_the_program_runs_as_without_a_trace():
    assert "the sum is 64000, as it should be: yes" in traced()["console"], traced()
    assert "status 0" in traced()["console"]


def test_every_kind_of_event_is_there_from_both_cpus():
    kinds = collections.Counter(event.kind for event in traced()["trace"].events)
    for kind in ("SWITCH CALL RETURN FAULT FAULTED WAIT HELD CALLBACK POST TAKE SEND RECEIVE REPLY ANSWER BEGIN "
                 "FREEZE DIFF PUBLISH COMMIT DISK DONE MARK NAME EXIT").split():
        assert kinds[kind], (kind, kinds)
    assert {event.cpu for event in traced()["trace"].events} == {0, 1}


def test_times_rise_on_each_cpu_and_nothing_was_lost():
    trace, last = traced()["trace"], collections.Counter()
    for event in trace.events:
        assert event.time >= last[event.cpu], event
        last[event.cpu] = event.time
    assert trace.lost == 0, trace.lost


def test_each_fault_and_each_commit_ends():
    trace = traced()["trace"]
    bank = [event for event in trace.events if trace.processes.get(event.process) == "bank"]
    kinds = collections.Counter(event.kind for event in bank)
    assert kinds["FAULT"] == kinds["FAULTED"] > 0, kinds
    assert kinds["COMMIT"] <= kinds["FREEZE"] <= kinds["COMMIT"] + kinds["ABORT"], kinds
    published = {event.a for event in traced()["trace"].events if event.kind == "PUBLISH"}
    committed = {event.b for event in traced()["trace"].events if event.kind == "COMMIT" and event.b}
    assert committed <= published and len(committed) >= 100, (len(committed), len(published))


def test_the_json_is_whole_with_rows_and_arrows():
    made = trace2json.Converter(traced()["trace"]).convert()
    found = check_json(made)
    assert found["arrows"] > 100 and found["requests"] > 50, found
    rows = {(e["pid"], e["args"]["name"]) for e in made["traceEvents"]
            if e["ph"] == "M" and e["name"] in ("process_name", "thread_name")}
    names = [name for _, name in rows]
    for wanted in ("CPUs", "CPU 0", "CPU 1", "transactions", "disk store"):
        assert wanted in names, (wanted, names)
    assert sum(pid == trace2json.TRANSACTIONS for pid, _ in rows) > 100
    assert sum(re.fullmatch(r"bank\[\d+\]", name) is not None for name in names) >= 3, names


def test_faults_name_their_source_lines():
    made = trace2json.Converter(traced()["trace"]).convert()
    places = [e["args"]["place"] for e in made["traceEvents"] if "place" in e.get("args", {})]
    assert any("transfer at user/bank.c:" in place for place in places), places[:5]


def test_places_names_lines_of_a_program_that_was_added():
    named = subprocess.run(["scripts/places.py"], cwd=ROOT, check=True, text=True, input=traced()["meet"],
                           stdout=subprocess.PIPE).stdout
    assert re.search(r"meet\+0x[0-9a-f]+.*\n +\w+ at \S*meet\.c:\d+", named), named


def test_the_story_has_the_load_the_holder_and_the_cost():
    story = traced()["meet"]
    assert re.search(r"^transaction \d+ of meet\[\d+\], thread \d+, view \d+, serialisable$", story, re.M), story
    assert re.search(r"^ +[\d.]+ us  (load|store) at meet\+0x4\w+: fault on container meet\+0x\w+ +[\d.]+ us$", story, re.M)
    assert re.search(r"^ +[\d.]+ us +meet\[\d+\] holds it: transaction \d+ in view \d+", story, re.M), story
    assert re.search(r"^ +[\d.]+ us +waits for the end of who holds it +[\d.]+ us$", story, re.M), story
    assert re.search(r"(committed|aborted: .*) +[\d.]+ us$", story), story


def test_hot_has_the_page_the_objects_and_both_sides():
    """A transaction waits for one field, since another one stored to its neighbour."""
    hot = traced()["hot"]
    assert re.search(r"^ +\d+\.\d+ ms +\d+ +0  page 0x\w+, container meet\+0x\w+$", hot, re.M), hot
    assert re.search(r"^ +\d+\.\d+ ms +1 +0    wanted: (load|store) at meet\+0x4\w+, \(struct pair\)\+8024 of meet\n"
                     r" +had:    store at meet\+0x4\w+, \(struct pair\)\+8000 of meet$", hot, re.M), hot
    assert re.search(r"wanted: (load|store) at meet\+0x4\w+, \(struct lone\)\+0 of meet$", hot, re.M), hot
    assert re.search(r"wanted: (load|store) at meet\+0x4\w+, \(struct lone\)\+0 of meet\n"
                     r" +had:    store at meet\+0x4\w+, \(struct lone\)\+0 of meet, others were before it in the page's queue$", hot, re.M), hot
    assert "nobody waited for a page that another one had" in hot, hot


def test_places_names_the_fields_and_lines_of_hot_pages():
    named = subprocess.run(["scripts/places.py"], cwd=ROOT, check=True, text=True, input=traced()["hot"],
                           stdout=subprocess.PIPE).stdout
    assert re.search(r"wanted: \w+ at meet\+0x4\w+, struct pair\.right\.n\[2\] of meet\n +want at \S*meet\.c:2\d\n"
                     r" +had:    store at meet\+0x4\w+, struct pair\.left of meet\n +want at \S*meet\.c:2\d\n", named), named


def test_places_names_the_lines_of_a_story():
    result = subprocess.run(["scripts/places.py"], cwd=ROOT, check=True, text=True, input=traced()["story"],
                            stdout=subprocess.PIPE)
    assert "transfer at user/bank.c:" in result.stdout, result.stdout


def test_a_trace_point_that_is_off_takes_three_instructions_at_most():
    result = subprocess.run(["tests/bench/tracepoint.py"], cwd=ROOT, check=True, text=True, stdout=subprocess.PIPE)
    assert int(result.stdout.split("\t")[2]) <= 3, result.stdout


def test_wrong_use_is_told():
    result = guest("--no-store", "-c", "trace; echo $?; trace -o /export/x; echo $?; trace --print no-such; echo $?")
    assert re.findall(r"^\d+$", result.stdout, re.M) == ["2", "2", "127"], result
    assert result.stdout.count("usage: trace") == 2 and "trace: no-such: No such file" in result.stdout, result


def report_has(text, *patterns):
    for pattern in patterns:
        assert re.search(pattern, text, re.M), (pattern, text)


def test_a_killed_program_leaves_a_report():
    result = guest("--store3", os.path.join(folder.name, "three"), "--add", program("wild", WILD), "-c", "wild")
    assert result.returncode == 139, result
    report_has(result.stderr, r"wild\[\d+\]: killed: nothing is mapped there: store to 0x123456789000",
               r"^ +body at .*wild\.c:7$", r"  rip 000000000040\w+  rsp ", r" cr2 0000123456789000$",
               r"view \d+: COMMIT pages 0x1, ticket 0x\w+, csn 0x\w+$", STEP,
               r"view \d+, ticket \d+: runs, 1 copies", r"disk store: \d+ requests under way",
               r"disk store3: \d+ requests under way")


def test_a_panic_leaves_a_report():
    result = guest("--add", program("init", INIT, "user/init/files.c", "user/init/ustar.c"), "-c", "unused")
    assert result.returncode == 122, result
    report_has(result.stderr, r"^PANIC: init ended with status 5", r"^ +process_end at kernel/process/process\.c:\d+$",
               r"^  rip ffffffff8\w+  rsp ", r"cpu \d \d+\[\d+\] view -?\d+: (COMMIT pages|PUBLISH view) 0x\w+, ",
               r"cpu \d \d+\[\d+\] view -1: DISK operation 0x", r"MARK CM\d", STEP,
               r"disk store: \d+ requests under way")


if __name__ == "__main__":
    run_tests(globals())
