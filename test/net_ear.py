"""`net_ear.py ADDRESS`: answer each name query with ADDRESS, and print a line for each TCP or UDP packet that arrives.

Packets of ARP, ICMPv6 and IGMP (multicast groups) come from the kernel and are not printed.
"""

import socket
import struct
import sys
import threading

ADDRESS = sys.argv[1]
IPV4, IPV6, TCP, UDP, SENT_BY_US = 0x0800, 0x86DD, 6, 17, 4
REPLIES = (53, 443)  # source ports of answers to this namespace's own packets


def print_packets() -> None:
    packets = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(0x0003))
    print("listening", flush=True)
    while True:
        data, (_, kind, direction, *_) = packets.recvfrom(65536)
        if direction == SENT_BY_US or kind not in (IPV4, IPV6):
            continue
        protocol = data[9] if kind == IPV4 else data[6]
        if protocol in (TCP, UDP):
            start = (data[0] & 15) * 4 if kind == IPV4 else 40
            source, port = struct.unpack_from("!HH", data, start)
            if source not in REPLIES:
                print(f"{'tcp' if protocol == TCP else 'udp'} {port}", flush=True)


def answer_names() -> None:
    server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    server.bind((ADDRESS, 53))
    while True:
        query, asker = server.recvfrom(4096)
        end = query.index(b"\0", 12) + 1
        known = query[end : end + 2] == b"\0\1"  # an A record
        answer = b"\xc0\x0c\0\1\0\1\0\0\0\x3c\0\4" + socket.inet_aton(ADDRESS) if known else b""
        head = query[:2] + b"\x81\x80\0\1" + struct.pack("!HHH", known, 0, 0)
        server.sendto(head + query[12 : end + 4] + answer, asker)


threading.Thread(target=answer_names, daemon=True).start()
print_packets()
