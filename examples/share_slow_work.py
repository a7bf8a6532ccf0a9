"""Slow work, shared one by one: pictures are rendered by whoever is free, and one of them needs more than its time.

A simple consumer receives a picture, and the broker hides it from the others for five seconds. Whoever needs longer
asks for more time; what cannot be rendered is given up. Needs a cluster: `pyromq up`.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

import pyromq


@dataclass
class Picture:
    name: str
    seconds: float


PICTURES = [Picture("sea", 0.1), Picture("wood", 0.1), Picture("city", 6.0), Picture("void", -1.0)]


async def render(msg: pyromq.Popped, rendered: list[str]) -> None:
    picture = msg.decode(Picture)
    if picture.seconds < 0:
        await msg.dead_letter("nothing to see")
        return
    if picture.seconds > msg.left_s:
        await msg.later(picture.seconds + 5)  # still ours for so long
    await asyncio.sleep(picture.seconds)
    await msg.ack()
    rendered.append(picture.name)


async def main() -> None:
    rendered: list[str] = []
    async with pyromq.connect() as client, client.producer() as producer:
        await producer.send_many("pictures", PICTURES)
        async with client.simple_consumer("pictures", group="painters", invisible_s=5, begin="first") as consumer:
            left = len(PICTURES)
            async with asyncio.TaskGroup() as painters:
                while left:
                    for msg in await consumer.receive(max=2, wait=10):
                        painters.create_task(render(msg, rendered))
                        left -= 1
    print(f"rendered {', '.join(sorted(rendered))}; each once: {len(rendered) == len(set(rendered))}")


if __name__ == "__main__":
    asyncio.run(main())
