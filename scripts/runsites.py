"""A machine of scripts/run that is a site: its connections with others are ports of a virtio serial device on sockets of QEMU's
(user/sites/sites.md)."""

import contextlib
import os
import re
import socket
import stat

from runparts import RunError, option_path

CONNECTIONS_MAX = 15            # kernel/stream: 16 ports, the first of which is a console's
SITE_NAME = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9_.-]{0,30}")
# what link says of sites that it has no session with, and why it does not run
ZONES = tuple(str(zone) for zone in [*range(8), *range(16, 32)])
TROUBLE = re.compile(r"\blink\[\d+\]: (.*(?:: refused: |not understood|its name is taken|the machine has no|cannot start).*)")


def add_options(add):
    add("--site", metavar="NAME", help="the machine is a site of this name (user/sites/sites.md): its connections are")
    add("--listen", metavar="ADDRESS", action="append", default=[], help="a socket at which one other site joins: a path, or "
        "127.0.0.1:PORT; repeatable")
    add("--join", metavar="ADDRESS", action="append", default=[], help="the socket at which another site listens, now or later; "
        "repeatable")
    add("--site-key", metavar="FILE", help="what the sites at these addresses must know, too: for addresses that are not of this "
        "machine")
    add("--zone", metavar="N", help="a store that is made has addresses of this zone: 0 to 7 have 8 TiB, 16 to 31 four. Sites agree "
        "about it when their stores are made (agree)")
    add("--pair", metavar="SITE,WITNESS", help="the store is one of two copies: the other one is at SITE, and WITNESS has the record "
        "which of the two is home (user/sites/spare.md)")
    add("--witness-of", metavar="A,B", help="this site is the witness of the copies at A and B")
    add("--link", metavar="OPTION=VALUE", action="append", default=[], help="for the program link: lease=MS, away=MS, "
        "agent=PROGRAM, remote=PROGRAM, open=all; repeatable")


def is_path(address):
    return "/" in address or ":" not in address


def host_and_port(address):
    host, _, port = address.rpartition(":")
    if not port.isdecimal() or not 0 < int(port) < 1 << 16:
        raise RunError(f"{address}: a path, or HOST:PORT with a port from 1 to 65535")
    return host.strip("[]") or "127.0.0.1", port


def is_local(address):
    return is_path(address) or re.fullmatch(r"127(\.\d{1,3}){3}|localhost|::1", host_and_port(address)[0])


def check(parser, args):
    """Ends with what is wrong about the options."""
    connections = args.listen + args.join
    if not args.site and (connections or args.link or args.site_key or args.pair or args.witness_of):
        parser.error("--listen, --join, --link, --site-key, --pair, --witness-of: of a site; give it a name with --site")
    if args.zone not in (None, "agree") + ZONES:
        parser.error(f"--zone {args.zone}: a number from 0 to 7, or 16 to 31, or agree")
    if not args.site:
        return
    for option, names in ("--pair", args.pair), ("--witness-of", args.witness_of):
        if names and (len(set(names.split(",") + [args.site])) != 3 or not all(map(SITE_NAME.fullmatch, names.split(",")))):
            parser.error(f"{option} {names}: the names of two other sites, with a comma between them")
        if names and (args.no_store or not args.store) and "serial=store" not in args.qemu:      # scripts/sites: disks that fail
            parser.error(f"{option}: {'the copy' if option == '--pair' else 'the record'} is on this site's store: give it --store FILE "
                         "(user/sites/spare.md)")
    if not SITE_NAME.fullmatch(args.site):
        parser.error(f"--site {args.site}: letters, digits, - _ . and at most 31 of them")
    if args.rr:
        parser.error("--site: not with a recorded run")
    if len(connections) > CONNECTIONS_MAX:
        parser.error(f"--site: at most {CONNECTIONS_MAX} connections")
    for address in connections:
        if re.fullmatch(r"\d{1,3}(\.\d{1,3}){3}|localhost|\[.*\]", address):
            parser.error(f"{address}: an address needs a port, as {address}:4000 does; a socket of that name is ./{address}")
    try:
        far = [address for address in connections if not is_local(address)]
    except RunError as error:
        parser.error(str(error))
    if far and not args.site_key:
        parser.error(f"{far[0]}: who reaches this address could be any site: give all of them --site-key FILE, or join "
                     "127.0.0.1 through a tunnel")


def check_listens(path):
    """QEMU removes what is at the path, be it a file or a socket at which another guest listens."""
    folder = os.path.dirname(path) or "."
    if not os.path.isdir(folder):
        raise RunError(f"--listen {path}: there is no folder {folder}")
    if not os.path.lexists(path):
        return
    if not stat.S_ISSOCK(os.lstat(path).st_mode):
        raise RunError(f"--listen {path}: something else than a socket is there; give another path")
    with socket.socket(socket.AF_UNIX) as end, contextlib.suppress(OSError):
        end.connect(path)
        raise RunError(f"--listen {path}: another machine listens there; end it, or give another path")


def check_joins(path):
    """What is no socket will not be one."""
    with contextlib.suppress(OSError):
        if not stat.S_ISSOCK(os.stat(path).st_mode):
            raise RunError(f"--join {path}: something else than a socket is there; give the path at which the other site listens")


def chardev(name, address, listens):
    if is_path(address):
        if len(os.fsencode(address)) > 107:
            raise RunError(f"{address}: too long for a socket's path")
        (check_listens if listens else check_joins)(address)
        where = f"path={option_path(address)}"
    else:
        host, port = host_and_port(address)
        where = f"host={host},port={port}"
    how = "server=on,wait=off" if listens else "reconnect=1"
    return ["-chardev", f"socket,id={name},{where},{how}"]


def options(args):
    """Of QEMU."""
    if not args.site:
        return []
    sockets = [(address, True) for address in args.listen] + [(address, False) for address in args.join]
    command = ["-device", f"virtio-serial-pci,disable-legacy=on,max_ports={len(sockets) + 2}"]       # one more may be --qemu's
    for number, (address, listens) in enumerate(sockets, 1):
        command += chardev(f"site{number}", address, listens)
        command += ["-device", f"virtserialport,chardev=site{number},name=site.{number}"]
    return command


def words(args):
    """Of the kernel's command line."""
    if not args.site and args.zone in (None, "agree"):
        return []
    pair = [f"store.pair={args.site},{args.pair}"] if args.pair else []
    return pair + ["store.zone=" + ("ask" if args.zone in (None, "agree") else args.zone)]


def text(args):
    """The guest's /etc/site, which its init reads and removes."""
    lines = [f"site={args.site}", f"streams={len(args.listen + args.join)}", *args.link] + ([f"witness={args.witness_of}"] if args.witness_of else [])
    if args.site_key:
        try:
            with open(args.site_key, encoding="utf-8") as key:
                secret = key.read().strip()
        except (OSError, UnicodeDecodeError) as error:
            raise RunError(f"--site-key {args.site_key}: {getattr(error, 'strerror', None) or 'no text'}") from None
        if not 16 <= len(secret.encode()) <= 200 or "\n" in secret:
            raise RunError(f"--site-key {args.site_key}: one line of 16 to 200 bytes; `head -c 32 /dev/urandom | base64` makes one")
        lines.append(f"key={secret}")
    if any("\n" in line for line in lines):
        raise RunError("--link: an option is one line")
    return "\n".join(lines) + "\n"
