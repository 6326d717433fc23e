#!/usr/bin/env python3
"""Tables and rows for scripts/bench of what tests/bench/sites.sh has left in a folder: what containers of another site cost.

  sites-figures.py DIR
"""

import os
import re
import sys

SAID = ("GET", "GRANT", "CALL", "GONE", "COMMIT", "answer", "ASK", "DENIED", "pages")
KINDS = ("pointer", "offset", "array", "tree")
MIX, MIX_PAGES, MIX_READS, MIX_STORES, SITES = 100, 64, 8, 2, 2     # as in tests/sites/figures.c


class Window:
    """What a program did between two phases: all numbers are of `count` things."""

    def __init__(self, words):
        self.phase, self.count, self.instructions, self.link, self.flushes, self.ns, *said = map(int, words)
        self.said = dict(zip(SAID, said))
        self.home = None                # [instructions, those of link, flushes] of the home

    def here(self):
        return self.instructions - self.link

    def both(self):
        return self.here() + self.home[0] - self.home[1]

    def each(self, value):
        return value / self.count

    def messages(self):
        return sum(number for what, number in self.said.items() if what not in ("ASK", "pages"))


class Home:
    """What a home says at phases. Those of a second container may begin anew: then it is another run of them."""

    def __init__(self):
        self.at, self.run, self.last = {}, {}, {}

    def key(self, guest, phase):
        if phase < self.last.get(guest, 0):
            self.run[guest] = self.run.get(guest, 0) + 1
        self.last[guest] = phase
        return self.run.get(guest, 0), phase

    def between(self, key):
        then, now = self.at.get(key), self.at.get((key[0], key[1] + 1))
        return [b - a for a, b in zip(then, now)] if then and now else None

    def least(self):
        """What the cheapest phase cost; on a busy host a home may be late, and not say that of an empty window."""
        return min((found for found in map(self.between, self.at) if found), key=lambda cost: cost[0] - cost[1], default=[0, 0, 0])


def read(path):
    """{guest: {name: its last window}}, the home's costs of a phase taken off."""
    guests, keys, home, idle = {}, {}, Home(), [0, 0, 0]
    with open(path, encoding="utf-8") as file:
        for line in file:
            words = line.split()
            if len(words) < 10 or words[1] != "=" or words[2] == "stolen":
                continue
            guest, name = words[0].rstrip(":"), words[2]
            if name == "home":
                home.at[home.key(guest, int(words[3]))] = [int(words[i]) for i in (5, 6, 7)]
            else:
                window = guests.setdefault(guest, {})[name] = Window(words[3:])
                keys[window] = home.key(guest, window.phase)
    for window, key in keys.items():
        window.home = home.between(key) if key[1] else None
    for windows in guests.values():
        if "nothing" in windows:
            idle = windows["nothing"].home or home.least()
    for window in keys:
        if window.home:
            window.home = [max(0, a - b) for a, b in zip(window.home, idle)]
    return guests


def row(name, unit, value, reach="-", digits=0):
    print(f"{name}\t{unit}\t{value:.{digits}f}\t{reach}")


def table(*rows):
    for cells in rows:
        print("| " + " | ".join(f"{c:,.0f}" if isinstance(c, (int, float)) else str(c) for c in cells) + " |")
    print()


def oo1(path):
    """{operation: instructions of its last round} of the guest that ran OO1."""
    with open(path, encoding="utf-8") as file:
        lines = [line.rstrip("\n").split("\t") for line in file]
    return {line[0].split()[-1]: int(line[2]) for line in lines if len(line) == 7}


# ---- pages ----

def pages(one, two, slow):
    here, far = one["a"], two["b"]
    miss, upgrade, commit, read_, back = (far[name] for name in ("miss", "upgrade", "commit", "read", "callback"))
    row("cached read transaction of 64 pages of another site, of a local one", "times", read_.here() / here["read"].here(), 1.02, 3)
    row("cached read transaction of another site: messages", "messages", read_.messages(), 0)
    for name, window in (("read miss", miss), ("write upgrade", upgrade)):
        row(f"{name}: round trips", "round trips", window.each(window.said["GET"]), 1.01, 2)
        row(f"{name}, both sites, beside link", "instructions", window.each(window.both()), 12000)
        row(f"{name}, here, of it", "instructions", window.each(window.here()))
        row(f"{name}, link at both sites", "instructions", window.each(window.link + window.home[1]))
    several = far["row"]
    row("pages in a row, read: GETs for a page", "GETs", several.each(several.said["GET"]), "-", 2)
    row("pages in a row, read: a page, both sites, beside link", "instructions", several.each(several.both()))
    row("pages in a row, read: a page, link at both sites", "instructions", several.each(several.link + several.home[1]))
    local = here["commit"]
    row("commit of one page: round trips", "round trips", commit.each(commit.said["COMMIT"]), 1, 2)
    row("commit of one page: flushes at the home", "flushes", commit.each(commit.home[2]), 1.01, 2)
    row("commit of one page, both sites, beside link, of a local one", "times", commit.both() / local.here(), 2, 2)
    row("commit of one page, both sites, beside link", "instructions", commit.each(commit.both()))
    row("commit of one page, local", "instructions", local.each(local.here()))
    row("commit of one page, link at both sites", "instructions", commit.each(commit.link + commit.home[1]))
    row("callback of an idle holder: round trips", "round trips", back.said["CALL"] / back.count, 1.1, 2)
    row("callback of an idle holder, here, beside link", "instructions", back.each(back.here()))
    late = slow["b"]["commit"]
    row("commit of one page, link delayed by 10 ms each way", "ms", late.each(late.ns) / 1e6, "-", 1)
    row("commit of one page, link not delayed", "ms", commit.each(commit.ns) / 1e6, "-", 1)


# ---- two sites at once ----

def halves(three):
    alone, first, second = three["b"]["one"], three["b"]["both"], three["c"]["both"]
    row("two sites commit in halves of a container: callbacks", "callbacks", first.said["CALL"] + second.said["CALL"], 0)
    both, one = first.home[0] - first.home[1], alone.home[0] - alone.home[1]
    row("the same: instructions of the home for a commit, of one site's", "times",
        both / (first.count + second.count) / (one / alone.count), 1.1, 2)
    row("the same: time for a commit, of one site's", "times", max(first.ns, second.ns) / 2 / alone.ns, "-", 2)
    row("one home: taken from its own programs for a commit of another site's", "instructions", alone.each(alone.home[0]))


def draws(number, local):
    """The accesses of each transaction of site `number`, as figures.c draws them: (page, whether it is stored to)."""
    seed = 100 + number

    def draw(below):
        nonlocal seed
        seed = (seed * 6364136223846793005 + 1442695040888963407) & (1 << 64) - 1
        return (seed >> 33) % below

    for _ in range(MIX):
        stored = {}
        for k in range(MIX_READS + MIX_STORES):
            whose = number if draw(100) < local else draw(SITES)
            page = whose * (MIX_PAGES // SITES) + draw(MIX_PAGES // SITES)
            stored[page] = stored.get(page, False) or k >= MIX_READS
        yield sorted(stored.items())


class Ownership:
    """A memory of pages with owners, by a central manager at the home, as Li's: what is read is copied, what is stored to has no
    copies and belongs to who stores."""

    def __init__(self):
        self.owner, self.copies, self.messages, self.lost = {}, {}, 0, []

    def fetch(self, site, page):
        """To the manager, from it to the owner, who may be the same, and the page."""
        if site not in self.copies.setdefault(page, set()):
            self.messages += 2 if self.owner.get(page) is None else 3
            self.copies[page].add(site)

    def store(self, site, page):
        others = self.copies.get(page, set()) - {site}
        if self.owner.get(page) == site and not others:
            return
        if site in self.copies.get(page, set()):
            self.messages += 2          # to the manager, and its answer
        self.fetch(site, page)
        self.messages += 2 * len(others)        # they are told, and say so
        self.lost += [(other, page) for other in others]
        self.owner[page], self.copies[page] = site, {site}


def ownership(local):
    """The same accesses, which take turns, in such a memory: messages a transaction, and the part of them that lost a page
    before their end."""
    memory, torn = Ownership(), set()
    todo = [[(index, page, stores) for index, accesses in enumerate(draws(site, local)) for page, stores in accesses]
            for site in range(SITES)]
    now = [(0, set())] * SITES
    for step in range(max(map(len, todo))):
        for site in range(SITES):
            if step >= len(todo[site]):
                continue
            index, page, stores = todo[site][step]
            if now[site][0] != index:
                now[site] = (index, set())
            (memory.store if stores else memory.fetch)(site, page)
            now[site][1].add(page)
            torn |= {(other, now[other][0]) for other, lost in memory.lost if lost in now[other][1]}
            memory.lost.clear()
    return memory.messages / (SITES * MIX), len(torn) / (SITES * MIX)


def mixes(three):
    print("Messages for a transaction of eight reads and two stores, of two sites at once; in a memory of pages with owners, as "
          "Li's, nothing is kept, and a transaction may lose a page before it ends:\n")
    lines = [("pages of its own half", "transactions", "pages with owners", "... and a commit to a server", "of its transactions torn")]
    lines.append(("---", "---:", "---:", "---:", "---:"))
    for local in (100, 50, 0):
        mine = sum(three[guest][f"mix-{local}"].messages() for guest in "bc") / (SITES * MIX)
        plain, torn = ownership(local)
        lines.append((f"{local + (100 - local) // 2} %", f"{mine:.2f}", f"{plain:.2f}", f"{plain + 2:.2f}", f"{100 * torn:.0f} %"))
        row(f"messages a transaction, {local + (100 - local) // 2} % in its own half, of pages with owners and a commit", "times",
            mine / (plain + 2), "-", 2)
    table(*lines)


def came(window):
    return f"{window.said['pages']} in {window.said['GET']}" if window.said["GET"] else "0"


# ---- selections ----

def selections(one, two, three):
    columns = [("one site", one["a"]), ("two sites", two["b"]), ("three sites: b", three["b"]), ("c", three["c"])]
    sizes = sorted(int(name.split(".")[1]) for name in one["a"] if name.startswith("scan-cold."))
    print("Selection of a tenth of tuples of 208 bytes, instructions for a tuple of the relation (in brackets: pages that came, in so many GETs). The paper has a "
          "curve without numbers: cold, each page once and only once; warm, as in main memory.\n")
    lines = [("tuples", "pages", "selection") + tuple(name for name, _ in columns), ("---:", "---:", "---") + ("---:",) * len(columns)]
    for size in sizes:
        for what in ("scan-cold", "scan-warm", "index-cold", "index-warm"):
            cells = []
            for _, windows in columns:
                window = windows[f"{what}.{size}"]
                cells.append(f"{window.instructions / size:.2f} ({came(window)})")
            lines.append((size, (size * 208 + 4095) // 4096, what.replace("scan", "no index").replace("-", ", "), *cells))
    table(*lines)
    last = f".{sizes[-1]}"
    cold, warm = two["b"]["scan-cold" + last], two["b"]["scan-warm" + last]
    row("selection without index, cold: pages that came beside the relation's, whose last GET goes beyond it", "pages",
        cold.said["pages"] - (sizes[-1] * 208 + 4095) // 4096, 16)
    row("selection without index, warm, of a local one", "times", warm.instructions / one["a"]["scan-warm" + last].instructions, 1.02, 3)
    row("the same: messages", "messages", warm.messages(), 0)
    row("selection by index, warm, of a local one", "times",
        two["b"]["index-warm" + last].instructions / one["a"]["index-warm" + last].instructions, 1.02, 3)


CURVES = (("one site", "#c0392b"), ("two sites", "#1b6ca8"), ("three sites", "#2e7d32"))
LEFT, TOP, WIDE, HIGH = 70, 50, 420, 260


def figure(curves, sizes):
    """WAKASHI's Figure 3: {(sites, pass): [millions of instructions for each size]} as a picture."""
    top = max(max(line) for line in curves.values())

    def place(i, value):
        return f"{LEFT + sizes[i] / sizes[-1] * WIDE:.0f} {TOP + HIGH - value / top * HIGH:.1f}"
    yield (f'<svg xmlns="http://www.w3.org/2000/svg" width="{LEFT + WIDE + 150}" height="{TOP + HIGH + 50}" '
           'font-family="sans-serif" font-size="12">')
    yield '<rect width="100%" height="100%" fill="white"/>'
    yield f'<text x="{LEFT}" y="20" font-size="14">Selection without index: lines are cold, broken ones warm</text>'
    yield f'<text x="{LEFT}" y="38">millions of instructions at the site; below: thousands of tuples</text>'
    yield f'<path d="M{LEFT} {TOP}V{TOP + HIGH}H{LEFT + WIDE}" fill="none" stroke="#444"/>'
    yield f'<text x="{LEFT - 6}" y="{TOP + 4}" text-anchor="end">{top:.1f}</text>'
    for size in sizes:
        yield f'<text x="{LEFT + size / sizes[-1] * WIDE:.0f}" y="{TOP + HIGH + 18}" text-anchor="middle">{size // 1000}</text>'
    for number, (name, colour) in enumerate(CURVES):
        yield f'<text x="{LEFT + WIDE + 12}" y="{TOP + 20 + 18 * number}" fill="{colour}">{name}</text>'
        for which, dash in (("cold", ""), ("warm", ' stroke-dasharray="5 4"')):
            path = "L".join(place(i, value) for i, value in enumerate(curves[name, which]))
            yield f'<path d="M{path}" fill="none" stroke="{colour}" stroke-width="1.5"{dash}/>'
    yield "</svg>"


def memory_ends(*small):
    """Of guests with little memory: the first and the second selection of each relation."""
    sizes = sorted(int(name.split(".")[1]) for name in small[0] if name.startswith("scan-cold."))
    passes = [(site, windows, which) for (site, _), windows in zip(CURVES, small) for which in ("cold", "warm")]
    print("Figure 3, where memory ends: guests of little memory. Instructions for a tuple (in brackets: pages that came). The paper: as soon as a relation is larger than "
          "memory a warm selection is like a cold one.\n")
    lines = [("tuples", *(f"{site}, {which}" for site, _, which in passes)), ("---:",) * (1 + len(passes))]
    for size in sizes:
        cells = [windows[f"scan-{which}.{size}"] for _, windows, which in passes]
        lines.append((size, *(f"{w.instructions / size:.1f} ({w.said['pages']})" for w in cells)))
    table(*lines)
    os.makedirs("build/bench", exist_ok=True)
    with open("build/bench/selection.svg", "w", encoding="utf-8") as picture:
        print(*figure({(site, which): [windows[f"scan-{which}.{size}"].instructions / 1e6 for size in sizes] for site, windows, which in passes}, sizes),
              sep="\n", file=picture)
    last = f".{sizes[-1]}"
    for (site, _), windows in zip(CURVES, small):
        row(f"memory ends, {site}: warm selection of the largest relation, of a cold one", "times",
            windows["scan-warm" + last].instructions / windows["scan-cold" + last].instructions, "-", 2)


def references(one, two, three):
    columns = [("one site", one["a"]), ("two sites", two["b"]), ("three sites", three["c"])]
    print("Parts of 28 bytes with three links: instructions of a look-up, and of a traversal of 3,280 parts; by plain pointers, "
          "by base and offset (the paper's), by a table of small ids, and by the tree of the others.\n")
    lines = [("reference", "") + tuple(name for name, _ in columns), ("---", "---") + ("---:",) * len(columns)]
    for kind in KINDS:
        for what in ("lookup-cold", "lookup-warm", "traversal-cold", "traversal-warm"):
            cells = [f"{w[f'{what}.{kind}'].each(w[f'{what}.{kind}'].instructions):,.1f} ({came(w[f'{what}.{kind}'])})" for _, w in columns]
            lines.append((kind, what.replace("-", ", "), *cells))
    table(*lines)
    for what in ("lookup", "traversal"):
        plain = two["b"][f"{what}-warm.pointer"]
        row(f"parts, {what}, warm, of a local one", "times",
            plain.instructions / one["a"][f"{what}-warm.pointer"].instructions, 1.02, 3)
        for kind in KINDS[1:]:
            window = two["b"][f"{what}-warm.{kind}"]
            row(f"parts, {what}, warm, by {kind}, of pointers", "times", window.instructions / plain.instructions, "-", 2)
    for kind in KINDS[1:]:
        name, plain = [(n, w) for n, w in two["b"].items() if n.startswith(f"select-{kind}.")][0], \
            [w for n, w in two["b"].items() if n.startswith("select-pointer.")][0]
        row(f"selection by index, warm, its tuples by {kind}, of pointers", "times", name[1].instructions / plain.instructions, "-", 2)


# ---- a spare ----

def spare(folder, alone, pair):
    local, waits = alone["a"]["commit"], pair["a"]["commit"]
    with open(os.path.join(folder, "pair"), encoding="utf-8") as file:
        said = file.read()
    with open(os.path.join(folder, "dies"), encoding="utf-8") as file:
        pause = re.search(r"the longest pause took (\d+) ms", file.read())
    groups = [int(number) for number in re.findall(r"(\d+) groups sealed", said)]
    row("commit with a synchronous spare: groups sent to it and answered", "for each", (groups[-1] - groups[0]) / waits.count, 1.05, 2)
    row("commit with a synchronous spare: flushes at the home", "flushes", waits.each(waits.flushes), 1.01, 2)
    row("commit with a synchronous spare, at the home, of one without", "times", waits.here() / local.here(), 1.3, 2)
    row("commit with a synchronous spare, at the home, beside link", "instructions", waits.each(waits.here()))
    row("commit with a synchronous spare, link at the home", "instructions", waits.each(waits.link))
    row("commit with a synchronous spare", "ms", waits.each(waits.ns) / 1e6, "-", 2)
    row("commit without", "ms", local.each(local.ns) / 1e6, "-", 2)
    row("the home is killed: from the last commit there to the first at the spare", "ms", int(pause.group(1)), 1000)


def oo1_rows(here, there):
    for name in ("lookup", "traversal"):
        row(f"OO1, {name}, warm, of a local one", "times", there[name] / here[name], 1.02, 3)


# ---- two homes ----

def homes(folder):
    with open(os.path.join(folder, "homes"), encoding="utf-8") as file:
        times, here, messages, *each = (int(n) for n in re.search(r"= transfer ([\d ]+)", file.read()).group(1).split())
    row("a transfer between pages of two homes: messages", "messages", messages / times, 6.01, 2)
    row("the same: flushes at the homes, for the commit and lazy ones", "flushes", (each[0] + each[2]) / times, "-", 2)
    row("the same: bytes of both logs", "bytes", (each[1] + each[3]) / times)
    row("the same: at the site, with link", "instructions", here / times)


def main():
    if len(sys.argv) != 2:
        print(__doc__)
        return 2
    one, two, three, slow = (read(os.path.join(sys.argv[1], name)) for name in ("one", "two", "three", "slow"))
    small = [read(os.path.join(sys.argv[1], f"small{sites}")) for sites in (1, 2, 3)]
    pages(one, two, slow)
    halves(three)
    mixes(three)
    selections(one, two, three)
    memory_ends(small[0]["a"], small[1]["b"], small[2]["c"])
    references(one, two, three)
    homes(sys.argv[1])
    spare(sys.argv[1], *(read(os.path.join(sys.argv[1], name)) for name in ("alone", "pair")))
    oo1_rows(*(oo1(os.path.join(sys.argv[1], name)) for name in ("one", "two")))
    return 0


if __name__ == "__main__":
    sys.exit(main())
