#!/usr/bin/env python3
"""scripts/trace2json and scripts/places.py on made-up events: pairs, losses, arrows, bad files.

check_json() is what tests/system/trace.py holds real traces to, too.
"""

import collections
import io
import json
import os
import struct
import sys
import xml.etree.ElementTree

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from tap import ROOT, load, run_tests           # noqa: E402

trace2json = load("trace2json")
places = load("places.py")
KINDS = list(places.event_labels())


def trace_file(events, lost=0, site=None, clocks=()):
    """A file of (time, thread, process, kind, cpu, view, c, a, b); of a site, which knows others' clocks."""
    head = f"katydid trace 1\ncommand\tx\ncpus\t2\nlost\t{lost}\n" + (f"site\t{site}\n" if site else "")
    head += "".join("\t".join(["clock", *map(str, clock)]) + "\n" for clock in clocks)
    for number, kind in enumerate(KINDS):
        head += "\t".join(["event", str(number), kind] + places.event_labels()[kind]) + "\n"
    head += "process\t7\tbank\nobject\t200000000000\t16\tmoney\ndisk\t0\tstore\n"
    body = b"".join(struct.pack("<QIIBBBBIQQ", time, thread, process, KINDS.index(kind), cpu, view, 0, c, a, b)
                    for time, thread, process, kind, cpu, view, c, a, b in events)
    return head.encode() + f"events\t{len(events)}\n".encode() + body


def converted(events, **more):
    return trace2json.Converter(trace2json.Trace(trace_file(events, **more))).convert()


def check_format(made):
    """The rules of the Chrome trace event format that hold for one entry, and that each row has a name."""
    assert made["displayTimeUnit"] in ("ms", "ns"), made["displayTimeUnit"]
    json.dumps(made, allow_nan=False)
    named = {"process_name": set(), "thread_name": set(), "process_sort_index": set(), "thread_sort_index": set()}
    for entry in made["traceEvents"]:
        assert entry["ph"] in set("MBEisfbe"), entry
        assert all(type(entry[key]) is int for key in ("pid", "tid")), entry
        assert type(entry["ts"]) in (int, float) and entry["ts"] >= 0, entry
        assert isinstance(entry.get("args", {}), dict), entry
        if entry["ph"] == "M":
            assert type(entry["args"]["sort_index" if "sort" in entry["name"] else "name"]) in (str, int), entry
            named[entry["name"]].add((entry["pid"], entry["tid"]))
        elif entry["ph"] != "E":        # an E is of the innermost B
            assert isinstance(entry["name"], str) and entry["name"] and entry["cat"], entry
        assert entry["ph"] != "i" or entry["s"] == "t", ("an instant's scope is its thread", entry)
        assert ("id" in entry) == (entry["ph"] in "sf"), entry
        assert ("id2" in entry) == (entry["ph"] in "be"), ("with an id Perfetto takes it out of its process", entry)
        assert entry.get("bp") == ("e" if entry["ph"] == "f" else None), ("an arrow ends at the slice around it", entry)
    used = {(entry["pid"], entry["tid"]) for entry in made["traceEvents"] if entry["ph"] != "M"}
    for what, rows in named.items():
        assert used <= rows, (what, used - rows)


def check_json(made):
    """Every slice ends on its row, every arrow has both ends, and no row's time goes back."""
    check_format(made)
    open_slices, last = collections.defaultdict(list), collections.defaultdict(float)
    arrows, requests = collections.defaultdict(list), collections.defaultdict(list)
    for entry in made["traceEvents"]:
        row = entry["pid"], entry["tid"]
        if entry["ph"] == "M":
            continue
        assert row[0] and row[1], ("a row that Perfetto takes for the idle thread", entry)
        assert entry["ts"] >= last[row], (row, entry)
        last[row] = entry["ts"]
        if entry["ph"] == "B":
            open_slices[row].append(entry["ts"])
        elif entry["ph"] == "E":
            assert open_slices[row], ("an end without a begin", entry)
            open_slices[row].pop()
        elif entry["ph"] in "sf":
            assert open_slices[row], ("an arrow that touches no slice", entry)
            arrows[entry["id"]].append(dict(entry, slice_ts=open_slices[row][-1]))
        elif entry["ph"] in "be":
            requests[entry["id2"]["local"]].append(entry)
    assert not any(open_slices.values()), open_slices
    for pairs, phases in ((arrows, "sf"), (requests, "be")):
        for first, *others in pairs.values():
            assert [first["ph"]] + [entry["ph"] for entry in others] == list(phases), (first, others)
            assert (first["name"], first["cat"]) == (others[0]["name"], others[0]["cat"]), (first, others)
            assert first["ts"] <= others[0]["ts"], ("it ends before it begins", first, others)
            assert first.get("slice_ts", 0) <= others[0].get("slice_ts", 0), ("Perfetto turns it round", first, others)
    return {"arrows": len(arrows), "requests": len(requests)}


def names(made, phase):
    return [entry["name"] for entry in made["traceEvents"] if entry["ph"] == phase]


def test_a_fault_with_a_wait_is_two_nested_slices():
    made = converted([
        (1000, 7, 7, "BEGIN", 0, 1, 0, 5, 0),
        (2000, 7, 7, "FAULT", 0, 1, 1, 0x200000001008, 0x401000),
        (2100, 7, 7, "HELD", 0, 1, 3, 0x200000001000, 8),
        (2200, 7, 7, "WAIT", 0, 1, 0, 0x200000001000, 0),
        (9000, 7, 7, "SWITCH", 1, 1, 0, 0, 0),
        (9500, 7, 7, "FAULTED", 1, 1, 0, 0x200000001008, 7),
        (9900, 7, 7, "RETURN", 1, 1, 1063, 0, 0)])
    check_json(made)
    begun = names(made, "B")
    assert begun.count("store money+0x1008") == 2 and begun.count("waits for a page") == 2, begun
    wait_ends = [e["ts"] for e in made["traceEvents"] if e["ph"] == "E"][:2]
    assert wait_ends == [9.0, 9.0], wait_ends


def test_what_has_no_begin_or_no_end_is_balanced():
    check_json(converted([
        (1000, 7, 7, "RETURN", 0, 0, 39, 0, 0), (1100, 7, 7, "FAULTED", 0, 0, 0, 0, 0),
        (1200, 7, 7, "CALL", 0, 0, 39, 0, 0), (1300, 7, 7, "FAULT", 0, 0, 0, 0x5000, 0x401000),
        (1400, 7, 7, "RETURN", 0, 0, 39, 0, 0), (1500, 7, 7, "CALL", 0, 0, 60, 0, 0),
        (1600, 7, 7, "DONE", 0, 0, 1, 0, 0), (1700, 7, 7, "DISK", 0, 0, 1, 0, 0),
        (1800, 7, 7, "TAKE", 0, 0, 1, 1, 0), (1900, 7, 7, "SEND", 0, 0, 1, 1, 0)]))


def test_arrows_lead_from_sender_to_receiver():
    made = converted([
        (1000, 7, 7, "CALL", 0, 0, 1021, 0, 0), (1100, 7, 7, "SEND", 0, 0, 9, 0x100, 0),
        (1200, 3, 2, "SWITCH", 0, 0, 0, 0, 0), (1300, 3, 2, "RECEIVE", 0, 0, 9, 0x100, 7),
        (1400, 3, 2, "REPLY", 0, 0, 0, 0x100, 0), (1500, 7, 7, "SWITCH", 0, 0, 0, 0, 0),
        (1600, 7, 7, "ANSWER", 0, 0, 0, 0x100, 0), (1700, 7, 7, "RETURN", 0, 0, 1021, 0, 0),
        (1800, 7, 7, "POST", 0, 0, 77, 3, 2), (1900, 3, 2, "TAKE", 1, 0, 77, 3, 7)])
    assert check_json(made)["arrows"] == 3
    assert "commit" in names(made, "s"), names(made, "s")


def test_an_arrow_leads_to_a_server_that_was_waiting():
    made = converted([
        (500, 3, 2, "CALL", 0, 0, 1022, 0, 0), (1000, 7, 7, "CALL", 0, 0, 1021, 0, 0),
        (1100, 7, 7, "SEND", 0, 0, 9, 0x100, 0), (1300, 3, 2, "RECEIVE", 0, 0, 9, 0x100, 7)])
    assert check_json(made)["arrows"] == 1


def test_there_is_a_row_for_each_cpu_thread_transaction_and_disk():
    made = converted([
        (500, 7, 7, "SWITCH", 0, 0, 0, 0, 0), (600, 9, 7, "SWITCH", 1, 0, 0, 0, 0),
        (1000, 7, 7, "BEGIN", 0, 1, 0, 5, 0), (1100, 9, 7, "CALL", 1, 0, 39, 0, 0), (1150, 9, 7, "RETURN", 1, 0, 39, 0, 0),
        (1200, 7, 7, "DISK", 0, 0, 1, 0x1000, 512), (1300, 0, 0, "DONE", 0, 0, 1, 0x1000, 0),
        (1350, 7, 7, "DISK", 0, 0, 0x101, 0x1000, 512), (1360, 0, 0, "DONE", 0, 0, 0x101, 0x1000, 0),
        (1400, 7, 7, "RETURN", 0, 1, 1063, 0, 0)])
    check_json(made)
    processes = {entry["args"]["name"] for entry in made["traceEvents"] if entry.get("name") == "process_name"}
    assert {"disk store", "disk 1"} <= processes, processes
    rows = {entry["args"]["name"] for entry in made["traceEvents"] if entry.get("name") == "thread_name"}
    assert {"CPU 0", "CPU 1", "thread 7", "thread 9", "requests"} <= rows, rows
    assert any(row.startswith("5 of bank[7]") for row in rows), rows
    assert {entry["ts"] for entry in made["traceEvents"] if entry["ph"] == "b"} == {1.2, 1.35}, "microseconds"


def test_what_breaks_a_rule_of_the_format_is_found():
    good = [(1000, 7, 7, "CALL", 0, 0, 1021, 0, 0), (1100, 7, 7, "SEND", 0, 0, 9, 0x100, 0),
            (1200, 3, 2, "SWITCH", 0, 0, 0, 0, 0), (1300, 3, 2, "RECEIVE", 0, 0, 9, 0x100, 7),
            (1350, 7, 7, "EXIT", 0, 0, 0, 0, 0), (1400, 3, 2, "DISK", 0, 0, 1, 0x1000, 512),
            (1500, 0, 0, "DONE", 0, 0, 1, 0x1000, 0)]
    check_json(converted(good))

    def without(phase):
        return lambda made: made["traceEvents"].remove(next(e for e in made["traceEvents"] if e["ph"] == phase))

    def changed(phase, key, value):
        return lambda made: next(e for e in made["traceEvents"] if e["ph"] == phase).__setitem__(key, value)

    breaks = [without(phase) for phase in "BEsfbe"] + [
        changed("M", "name", "process_label"), changed("B", "ts", "1.0"), changed("B", "ts", float("nan")),
        changed("B", "tid", "7"), changed("B", "tid", 8), changed("B", "name", ""), changed("s", "id", 77),
        changed("f", "bp", None), changed("f", "name", "another"), changed("s", "ts", 1.35), changed("i", "s", "x"),
        changed("E", "ph", "X"), lambda made: made.__setitem__("displayTimeUnit", "us"),
        lambda made: made.__setitem__("traceEvents", [e for e in made["traceEvents"] if e["ph"] != "M"])]
    for number, break_one in enumerate(breaks):
        made = converted(good)
        break_one(made)
        try:
            check_json(made)
        except (AssertionError, KeyError, ValueError, IndexError):
            continue
        raise AssertionError(f"break {number} was not found")


def test_a_picture_of_a_transaction_is_whole_xml():
    made = converted([(1000, 7, 7, "BEGIN", 0, 1, 0, 5, 0),
                      (2000, 7, 7, "FAULT", 0, 1, 1, 0x200000001008, 0x401000),
                      (9500, 7, 7, "FAULTED", 1, 1, 0, 0x200000001008, 7),
                      (9900, 7, 7, "RETURN", 1, 1, 1063, 0, 0)])
    text = trace2json.picture(made, 5)
    xml.etree.ElementTree.fromstring(text)
    assert "transaction 5" in text and "store money+0x1008" in text, text
    try:
        trace2json.picture(made, 6)
    except trace2json.TraceError:
        return
    raise AssertionError("a picture of a transaction that is not there")


def test_requests_of_disks_overlap():
    made = converted([(1000, 3, 2, "DISK", 0, 0, 1, 0x1000, 512), (1100, 3, 2, "DISK", 0, 0, 0, 0x2000, 512),
                      (1200, 0, 0, "DONE", 0, 0, 1, 0x1000, 0), (1300, 0, 0, "DONE", 0, 0, 0, 0x2000, 0)])
    assert check_json(made)["requests"] == 2


def test_losses_are_told():
    made = converted([(1000, 0, 0, "LOST", 1, 0, 0, 1234, 0)], lost=1234)
    assert names(made, "i") == ["1234 events were lost"] and made["otherData"]["lost"] == 1234
    out = io.StringIO()
    trace2json.listing(trace2json.Trace(trace_file([(1000, 7, 7, "DISK", 0, 0, 1, 0x1000, 512)])), out)
    assert "bank[7] thread 7: DISK operation 0x1, offset 0x1000, bytes 0x200" in out.getvalue(), out.getvalue()


def test_a_file_that_is_cut_or_none_is_refused():
    whole = trace_file([(1000, 7, 7, "EXIT", 0, 0, 0, 0, 0)])
    for bad in [b"", b"katydid", whole[:-1], whole + b"x", whole.replace(b"katydid", b"another"),
                whole.replace(b"events\t1", b"events\tx")]:
        try:
            trace2json.Trace(bad)
        except trace2json.TraceError:
            continue
        raise AssertionError(f"accepted: {bad[:40]} ... {len(bad)} bytes")


def of_site(name, clocks, *times):
    """A trace with a transaction from the first time to the last, a message and a disk's request between them."""
    begin, end = times[0], times[-1]
    return trace2json.Trace(trace_file([
        (begin, 7, 7, "BEGIN", 0, 1, 0, 5, 0), (begin + 1, 7, 7, "SEND", 0, 1, 1, 77, 0), (begin + 2, 8, 7, "RECEIVE", 1, 0, 1, 77, 7),
        (begin + 3, 8, 7, "DISK", 1, 0, 1, 0x1000, 512), (begin + 4, 8, 7, "DONE", 1, 0, 1, 0x1000, 0),
        *[(time, 7, 7, "MARK", 0, 1, 0, int.from_bytes(b"here", "little"), 0) for time in times[1:-1]],
        (end, 7, 7, "COMMIT", 0, 1, 1, 5, 6), (end + 1, 7, 7, "RETURN", 0, 1, COMMIT_CALL, 0, 0)], site=name, clocks=clocks))


COMMIT_CALL = next(number for number, name in trace2json.call_names().items() if name == "txn_commit")


def merged(*traces):
    return trace2json.tracesites.merged(list(traces), [trace2json.Converter(trace).convert() for trace in traces])


def marks(made):
    """{site: times of its marks} in us since the first event."""
    names = {e["pid"]: e["args"]["name"].split(":")[0] for e in made["traceEvents"] if e.get("name") == "process_name"}
    found = collections.defaultdict(list)
    for e in made["traceEvents"]:
        if e["ph"] == "i" and e["name"] == "here" and e["tid"] == 7:
            found[names[e["pid"]]].append(round(e["ts"], 3))
    return dict(found)


def test_traces_of_sites_are_on_one_line_of_time():
    """b's clock is 5 ms ahead of a's, c's 2 ms behind b's; what happens at once is noted at one time."""
    a = of_site("a", [("b", 5_100_000, 160_000, 100_000), ("b", 5_200_000, 205_000, 10_000)], 1_000_000, 1_500_000, 2_000_000)
    b = of_site("b", [], 6_200_000, 6_500_000, 7_000_000)
    c = of_site("c", [("b", 9_000_000, 7_001_000, 2_000), ("elsewhere", 1, 2, 3)], 4_300_000, 4_500_000, 5_000_000)
    made = merged(a, b, c)
    assert check_json(made) == {"arrows": 3, "requests": 3}
    assert made["otherData"]["clocks"] == {"a": {"ahead_ns": 0, "wrong_by_ns": 0}, "b": {"ahead_ns": 5_000_000, "wrong_by_ns": 5_000},
                                           "c": {"ahead_ns": 3_000_000, "wrong_by_ns": 6_000}}, made["otherData"]
    assert marks(made) == {"a": [500.0], "b": [500.0], "c": [500.0]}, marks(made)
    names = {e["args"]["name"] for e in made["traceEvents"] if e.get("name") == "process_name"}
    assert {"a: bank[7]", "b: bank[7]", "c: transactions", "b: disk store"} <= names, names


def test_the_first_trace_gives_the_time_whoever_noted_the_clocks():
    a = of_site("a", [], 1_000_000, 1_500_000, 2_000_000)
    b = of_site("b", [("a", 1_000_000, 6_001_000, 2_000)], 6_100_000, 6_500_000, 7_000_000)
    for first, second in ((a, b), (b, a)):
        assert marks(merged(first, second)) == {"a": [500.0], "b": [500.0]}
    assert merged(b, a)["otherData"]["clocks"]["a"]["ahead_ns"] == -5_000_000


def test_traces_that_nothing_connects_are_refused():
    a, b = of_site("a", [], 1000, 2000), of_site("b", [("c", 1, 2, 3)], 1000, 2000)
    for traces, words in (((a, b), "leads from a to b"), ((a, of_site("a", [], 1, 2)), "two traces of the site a"),
                          ((a, of_site(None, [], 1, 2)), "no site")):
        try:
            merged(*traces)
        except trace2json.tracesites.ApartError as error:
            assert words in str(error), error
            continue
        raise AssertionError(f"{words}: merged")


def test_system_calls_have_their_names():
    calls = trace2json.call_names()
    assert calls[39] == "getpid" and calls[1021] == "port_call" and calls[1110] == "trace", calls


def test_events_of_a_crash_report_get_words():
    line = "     0.447673 cpu 1 9[9] view 0: COMMIT 1, 2f, 20020f0"
    assert places.labelled(line).endswith("COMMIT pages 0x1, ticket 0x2f, csn 0x20020f0")
    assert places.labelled("  r13 0, 1") == "  r13 0, 1"


def test_the_header_lists_all_events():
    with open(os.path.join(ROOT, "kernel/include/katydid/trace.h"), encoding="utf-8") as header:
        assert header.read().count("    X(") == len(KINDS) and KINDS[0] == "LOST"


if __name__ == "__main__":
    run_tests(globals())
