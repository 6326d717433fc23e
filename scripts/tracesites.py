"""tracesites - traces of several sites on one line of time, for scripts/trace2json.

Each guest's clock begins with its boot. A trace of a site has lines `clock SITE THEIRS OURS ROUND`: a frame left the other site
when its clock said THEIRS and came when ours said OURS, and the way there and back took ROUND. Halfway is the best guess, and it is
wrong by ROUND / 2 at most; so of several the one with the shortest way counts, whichever of the two sites noted it.
"""

SITE_PROCESSES = SITE_ORDER = 10_000_000     # process numbers of one trace, and their places, are below


class ApartError(Exception):
    """Two traces that nothing connects."""


def between(traces):
    """{(a, b): (round trip, how much b's clock is ahead of a's)} in ns, of sites by their numbers, each pair both ways."""
    number = {}
    for n, trace in enumerate(traces):
        if trace.site is None:
            raise ApartError("a trace of a machine that is no site has a clock of its own: scripts/run --site")
        if number.setdefault(trace.site, n) != n:
            raise ApartError(f"two traces of the site {trace.site}")
    best = {}
    for a, trace in enumerate(traces):
        for site, theirs, ours, there_and_back in trace.clocks:
            if site not in number:
                continue
            b, ahead = number[site], theirs + there_and_back // 2 - ours
            for pair, value in (((a, b), ahead), ((b, a), -ahead)):
                best[pair] = min(best.get(pair, (there_and_back, value)), (there_and_back, value))
    return best


def clocks(traces):
    """How much each clock is ahead of the first one, in ns, and by how much that may be wrong."""
    best, found = between(traces), {0: (0, 0)}
    while len(found) < len(traces):
        steps = [(found[a][1] + way // 2, a, b, ahead) for (a, b), (way, ahead) in best.items() if a in found and b not in found]
        if not steps:
            apart = ", ".join(trace.site for n, trace in enumerate(traces) if n not in found)
            raise ApartError(f"no clock in the traces leads from {traces[0].site} to {apart}: no session between them was alive when they ended")
        wrong, a, b, ahead = min(steps)
        found[b] = (found[a][0] + ahead, wrong)
    return [found[n] for n in range(len(traces))]


def merged(traces, made):
    """One Chrome trace of several, whose processes have their site's name before their own."""
    ahead = clocks(traces)
    begin = min(entry["ts"] - ahead[n][0] / 1000 for n, each in enumerate(made) for entry in each["traceEvents"] if entry["ph"] != "M")
    entries = []
    for n, each in enumerate(made):
        for entry in each["traceEvents"]:
            entry["pid"] += n * SITE_PROCESSES
            if entry["ph"] == "M":
                if entry["name"] == "process_name":
                    entry["args"]["name"] = f"{traces[n].site}: {entry['args']['name']}"
                elif entry["name"] == "process_sort_index":
                    entry["args"]["sort_index"] += n * SITE_ORDER
            else:
                entry["ts"] = entry["ts"] - ahead[n][0] / 1000 - begin
            if "id" in entry:
                entry["id"] = entry["id"] * len(made) + n
            if "id2" in entry:
                entry["id2"] = {"local": f"{traces[n].site} {entry['id2']['local']}"}
            entries.append(entry)
    entries.sort(key=lambda entry: entry["ts"])
    return {"traceEvents": entries, "displayTimeUnit": "ns", "otherData": {
        "lost": sum(trace.lost for trace in traces), "began_us": begin,
        "clocks": {trace.site: {"ahead_ns": ahead[n][0], "wrong_by_ns": ahead[n][1]} for n, trace in enumerate(traces)}}}
