"""Draws a part of a Chrome trace as SVG: its rows, the slices on them, and the arrows of messages."""

import html

WIDTH, LEFT, ROW, FONT = 1100, 190, 15, 9
COLOURS = {"switch": "#b9cbe8", "call": "#d8d8d8", "fault": "#f3c892", "wait": "#eaa3a3", "commit": "#b5d9a8",
           "transaction": "#dcd0ee", "disk": "#9fcfcc"}


def slices(events):
    """(row, begin, end, depth, name, category) of all slices, those of disks by their ids."""
    stacks, asked = {}, {}
    for e in events:
        row = e["pid"], e["tid"]
        if e["ph"] == "B":
            stacks.setdefault(row, []).append(e)
        elif e["ph"] == "E":
            begun = stacks[row].pop()
            yield row, begun["ts"], e["ts"], len(stacks[row]), begun["name"], begun["cat"]
        elif e["ph"] == "b":
            asked[e["id2"]["local"]] = e
        elif e["ph"] == "e":
            begun = asked.pop(e["id2"]["local"])
            yield row, begun["ts"], e["ts"], 0, begun["name"], "disk"


def row_names(events):
    names = {}
    for e in events:
        if e["ph"] == "M" and e["name"] in ("process_name", "thread_name"):
            names.setdefault((e["pid"], e["tid"]), {})[e["name"]] = e["args"]["name"]
    return {row: f"{name['process_name']}: {name['thread_name']}" for row, name in names.items()}


def order_of(row):
    """CPUs first, then transactions, disks, and threads."""
    return (row[0] < 1000000, row[0], row[1])


def draw(made, begin, end, rows_wanted):
    """The SVG of what lies between two times (us) on the rows for which rows_wanted(row) is true."""
    events = made["traceEvents"]
    found = [s for s in slices(events) if s[2] > begin and s[1] < end and rows_wanted(s[0])]
    names, top, y = row_names(events), {}, 24
    for row in sorted({s[0] for s in found}, key=order_of):
        top[row] = y
        y += ROW * (1 + max(s[3] for s in found if s[0] == row)) + 6
    scale = (WIDTH - LEFT) / (end - begin)

    def x(ts):
        return LEFT + (min(max(ts, begin), end) - begin) * scale

    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{y + 4}" '
           f'font-family="sans-serif" font-size="{FONT}">',
           '<defs><marker id="a" viewBox="0 0 6 6" refX="6" refY="3" markerWidth="5" markerHeight="5" '
           'orient="auto"><path d="M0 0L6 3L0 6z" fill="#333"/></marker></defs>',
           f'<rect width="{WIDTH}" height="{y + 4}" fill="#fff"/>']
    for part in range(6):
        at = begin + (end - begin) * part / 5
        out.append(f'<line x1="{x(at):.1f}" x2="{x(at):.1f}" y1="16" y2="{y}" stroke="#ddd"/><text '
                   f'x="{min(x(at), WIDTH - 40):.1f}" y="11" fill="#555">{at - begin:.0f} us</text>')
    for row, at in top.items():
        out.append(f'<text x="2" y="{at + 11}">{html.escape(names.get(row, str(row)))[:36]}</text>')
    for row, first, last, depth, name, category in sorted(found, key=lambda s: s[3]):
        width = max(x(last) - x(first), 0.7)
        place = f'x="{x(first):.1f}" y="{top[row] + depth * ROW}"'
        out.append(f'<rect {place} width="{width:.1f}" height="{ROW - 2}" fill="{COLOURS.get(category, "#eee")}" '
                   f'stroke="#777" stroke-width="0.3"><title>{html.escape(name)}</title></rect>')
        if width > 30:
            text = html.escape(name[:int(width / 4.6)])
            out.append(f'<text x="{x(first) + 2:.1f}" y="{top[row] + depth * ROW + 10}">{text}</text>')
    starts = {e["id"]: e for e in events if e["ph"] == "s"}
    for e in events:
        if e["ph"] != "f" or not begin <= starts[e["id"]]["ts"] <= e["ts"] <= end:
            continue
        a, b = (starts[e["id"]]["pid"], starts[e["id"]]["tid"]), (e["pid"], e["tid"])
        if a in top and b in top:
            out.append(f'<line x1="{x(starts[e["id"]]["ts"]):.1f}" y1="{top[a] + 6}" x2="{x(e["ts"]):.1f}" '
                       f'y2="{top[b] + 6}" stroke="#333" stroke-width="0.7" marker-end="url(#a)"/>')
    return "\n".join(out + ["</svg>"]) + "\n"
