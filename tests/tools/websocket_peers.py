"""WebSockets of a real library, for tests: an echo server, and clients that notice every changed byte.

`server` prints its port and serves until it reads a line. Under `/ws/silent` it only receives. `clients URL COUNT deflate|plain active|silent` prints a line when
all are open, and ends when all are closed or when it reads a line. Both then print how their connections ended, as JSON.
"""

import asyncio
import collections
import json
import os
import random
import sys

from websockets.asyncio.client import connect
from websockets.asyncio.server import serve
from websockets.exceptions import ConnectionClosed

codes = collections.Counter()
totals = collections.Counter()


def in_fragments(message):
    """A long message is sent in fragments, between which control frames may come."""
    if len(message) < 3000:
        return message
    return [message[start : start + 40_000] for start in range(0, len(message), 40_000)]


async def line_of_input():
    await asyncio.to_thread(sys.stdin.readline)


def note(closed):
    """1006 stands for a connection that broke without a close frame. A code after it is the one that this end sent."""
    complaint = f" {closed.sent.code} {closed.sent.reason}" if closed.sent and not closed.rcvd else ""
    codes[str(closed.rcvd.code) if closed.rcvd else f"1006{complaint}"] += 1


def report():
    print(json.dumps({"codes": codes, **totals}), flush=True)
    os._exit(0)  # tasks that still run do not matter


async def echo(socket):
    is_silent = socket.request.path == "/ws/silent"
    try:
        while True:
            message = await socket.recv()
            if not is_silent:
                await socket.send(in_fragments(message))
    except ConnectionClosed as closed:
        note(closed)


async def server():
    async with serve(echo, "127.0.0.1", 0, max_size=None, ping_interval=None) as serving:
        print(serving.sockets[0].getsockname()[1], flush=True)
        await line_of_input()
        await asyncio.sleep(0.2)  # for close frames in transit


async def send_for_ever(socket, sent):
    while True:
        size = random.choice([0, 1, 100, 1000, 70_000, 300_000])
        message = os.urandom(size) if random.random() < 0.5 else "é" * (size // 2)
        sent.append(message)
        await socket.send(in_fragments(message))
        await asyncio.sleep(random.random() * 0.02)


async def client(url, compression, is_active, opened):
    sent = collections.deque()
    async with connect(url, compression=compression, max_size=None, ping_interval=None, open_timeout=30) as socket:
        opened.release()
        sender = asyncio.create_task(send_for_ever(socket, sent)) if is_active else None
        try:
            while True:
                message = await socket.recv()
                totals["messages"] += 1
                totals["corrupt"] += message != sent.popleft()
        except ConnectionClosed as closed:
            note(closed)
        finally:
            if sender:
                sender.cancel()


async def clients(url, count, deflate, activity):
    totals.update(messages=0, corrupt=0)
    opened = asyncio.Semaphore(0)
    compression = "deflate" if deflate == "deflate" else None
    all_of_them = [client(url, compression, activity == "active", opened) for _ in range(int(count))]
    running = asyncio.gather(*all_of_them)
    for _ in all_of_them:
        await opened.acquire()
    print("open", flush=True)
    await asyncio.wait([running, asyncio.create_task(line_of_input())], return_when=asyncio.FIRST_COMPLETED)


async def main():
    if sys.argv[1] == "server":
        await server()
    else:
        await clients(*sys.argv[2:])
    report()


asyncio.run(main())
