"""Without an event loop: send, then read a topic again from its beginning. Needs a cluster: `pyromq up`."""

from __future__ import annotations

from pyromq import sync


def main() -> None:
    with sync.connect() as client:
        with client.producer() as producer:
            results = producer.send_many("readings", ({"sensor": number % 3, "value": number} for number in range(100)))
            print(f"sent {len(results)} readings")
        with client.pull_consumer("replay") as consumer:
            queues = consumer.queues("readings")
            consumer.assign(queues)
            for queue in queues:
                consumer.seek_to_begin(queue)
            total = 0
            while batch := consumer.poll(timeout=2):
                total += sum(message.decode(dict[str, int])["value"] for message in batch)
            print(f"sum of all values: {total}")


if __name__ == "__main__":
    main()
