"""The language of the scenario scripts and the broker that plays them."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyromq.model.names import TIMER_TOPIC
from pyromq.model.recall_handle import RecallHandle
from pyromq.protocol.bodies.body import decode_body, encode_body
from pyromq.protocol.bodies.heartbeat import LockBatchRequestBody, LockBatchResponseBody
from pyromq.protocol.bodies.keyed import MessageQueue
from pyromq.protocol.command import Command
from pyromq.protocol.record import Record
from pyromq.protocol.requests import RequestCode
from pyromq.testing.clock import ManualClock
from pyromq.testing.simulated_disk import SimulatedDisk
from tests.broker.peers import FakePeer
from tests.broker.virtual import START_MS, Virtual, properties, virtual_broker
from tests.scenarios.wire import Wire

MESSAGES = ("send", "recall", "half", "commit", "rollback", "fail", "told")
ACTIONS = (*MESSAGES, "wire", "group", "lock", "unlock", "advance", "leap", "show")
_UNITS = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86_400}
_DURATION = re.compile(r"(\d+)(ms|s|m|h|d)")


@dataclass(frozen=True)
class Step:
    line: int
    words: list[str]
    outcomes: list[str]

    @property
    def options(self) -> dict[str, str]:
        return dict(word.split("=", 1) for word in self.words if "=" in word)


@dataclass(frozen=True)
class Script:
    settings: dict[str, Any]
    steps: list[Step]


def parse(text: str) -> Script:
    settings: dict[str, Any] = {}
    steps = []
    for number, line in enumerate(text.splitlines(), 1):
        action, _, outcome = line.partition("#")[0].partition("->")
        words = action.split()
        if not words:
            continue
        if words[0] == "settings":
            settings |= {name: _value(value) for name, value in (word.split("=", 1) for word in words[1:])}
        elif words[0] in ACTIONS:
            steps.append(Step(number, words, [part.strip() for part in outcome.split(";") if part.strip()]))
        else:
            raise ValueError(f"line {number}: what is {words[0]!r}? Known are {', '.join(ACTIONS)}")
    return Script(settings, steps)


def _value(text: str) -> object:
    if text in ("true", "false"):
        return text == "true"
    return int(text) if text.isdigit() else text.replace(",", " ")


def seconds(text: str) -> float:
    if _DURATION.sub("", text):
        raise ValueError(f"{text!r} is no duration such as 90s or 1h30m")
    return sum(int(number) * _UNITS[unit] for number, unit in _DURATION.findall(text))


async def run_script(script: Script, between: str, folder: Path) -> None:
    """`between`: what happens to the broker before every step."""
    clock = ManualClock(START_MS)
    disk = SimulatedDisk(now_ms=clock.now_ms)
    steps = list(script.steps)
    while steps:
        killed = between == "kill"
        async with virtual_broker(folder, disk, clock, killed=killed, **script.settings) as life:
            count = len(steps) if between == "nothing" else 1
            producer = FakePeer()  # it is asked about transactions, and never answers
            for step in steps[:count]:
                life.broker.producers.register(producer, "c", "producers", clock.monotonic(), clock.now_ms())
                await Player(life).play(step)
            del steps[:count]
        if killed:
            disk = disk.kill()


class Player:
    """Plays single steps on one life of a broker."""

    def __init__(self, life: Virtual) -> None:
        self._life = life

    async def play(self, step: Step) -> None:
        await getattr(self, "_" + step.words[0])(step)
        for outcome in step.outcomes:
            self._check(step, outcome)

    async def _send(self, step: Step) -> None:
        """send TOPIC KEY [level=N] [in=DURATION]"""
        topic, key = step.words[1:3]
        pairs = {"KEYS": key, "UNIQ_KEY": f"id-{key}"}
        if "level" in step.options:
            pairs["DELAY"] = step.options["level"]
        if "in" in step.options:
            pairs["TIMER_DELAY_MS"] = str(round(seconds(step.options["in"]) * 1000))
        answer = await self._life.send(topic, key.encode(), properties=pairs)
        assert answer.code == 0, f"line {step.line}: {answer.remark}"

    async def _wire(self, step: Step) -> None:
        """wire TOPIC WORDS [refused=KEY,KEY] [kernel=N]: plain sends over one connection, see `Wire`"""
        wire = Wire(self._life, step.words[1])
        for word in step.words[2:]:
            if not word.startswith(("refused=", "kernel=")):
                await wire.take(word)
        await wire.end()
        wanted = [key for key in step.options.get("refused", "").split(",") if key]
        assert wire.refused() == wanted, f"line {step.line}: refused are {wire.refused()}, not {wanted}"
        least = int(step.options.get("kernel", 0))
        if wire.by_kernel is not None:
            assert wire.by_kernel >= least, f"line {step.line}: the kernel took {wire.by_kernel} of at least {least}"

    async def _recall(self, step: Step) -> None:
        """recall KEY [expect=CODE]: call a timed message back, with the handle that its sender got"""
        key = step.words[1]
        (waits,) = [one for one in self._records(TIMER_TOPIC) if one.body == key.encode()][:1]
        pairs = properties(waits)
        handle = RecallHandle(pairs["REAL_TOPIC"], "broker-a", int(pairs["TIMER_OUT_MS"]) + 1, f"id-{key}")
        fields: dict[str, Any] = {"producerGroup": "P", "topic": handle.topic, "recallHandle": handle.encode()}
        answer = await self._life.call(RequestCode.RECALL_MESSAGE, **fields)
        assert answer.code == int(step.options.get("expect", 0)), f"line {step.line}: {answer.remark}"

    async def _half(self, step: Step) -> None:
        """half TOPIC KEY [level=N] [immune=S]: send the first half of a transaction"""
        topic, key = step.words[1:3]
        pairs = {"KEYS": key, "UNIQ_KEY": f"id-{key}", "TRAN_MSG": "true", "PGROUP": "producers"}
        names = {"level": "DELAY", "immune": "CHECK_IMMUNITY_TIME_IN_SECONDS"}
        pairs |= {names[name]: value for name, value in step.options.items()}
        born = self._life.clock.now_ms()
        answer = await self._life.send(topic, key.encode(), properties=pairs, sysFlag=4, bornTimestamp=born)
        assert answer.code == 0, f"line {step.line}: {answer.remark}"

    async def _commit(self, step: Step) -> None:
        """commit KEY [expect=CODE]"""
        await self._end(step, 8)

    async def _rollback(self, step: Step) -> None:
        """rollback KEY [expect=CODE]"""
        await self._end(step, 12)

    async def _end(self, step: Step, how: int) -> None:
        halves = [one for one in self._records("RMQ_SYS_TRANS_HALF_TOPIC") if one.body == step.words[1].encode()]
        fields: dict[str, Any] = {
            "producerGroup": "producers",
            "tranStateTableOffset": halves[-1].queue_offset,
            "commitLogOffset": halves[-1].physical_offset,
            "commitOrRollback": how,
            "msgId": f"id-{step.words[1]}",
            "fromTransactionCheck": True,
        }
        answer = await self._life.call(RequestCode.END_TRANSACTION, **fields)
        assert answer.code == int(step.options.get("expect", 0)), f"line {step.line}: {answer.remark}"

    async def _group(self, step: Step) -> None:
        """group NAME [max=N] [next=DURATION,DURATION ...]: configure it: most retries, and the waits before them"""
        options = step.options
        config: dict[str, Any] = {"groupName": step.words[1], "retryMaxTimes": int(options.get("max", 16))}
        if "next" in options:
            waits = [round(seconds(each) * 1000) for each in options["next"].split(",")]
            config["groupRetryPolicy"] = {"type": "CUSTOMIZED", "customizedRetryPolicy": {"next": waits}}
        answer = await self._life.call(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, json.dumps(config).encode())
        assert answer.code == 0, f"line {step.line}: {answer.remark}"

    async def _told(self, step: Step) -> None:
        """told KEY [by GROUP] STATE [N]: what is said of its life; N: retries of the group, else checks of a half"""
        _, key, *words = step.words
        group, words = (words[1], words[2:]) if words[0] == "by" else ("", words)
        topic = step.options.get("of", "orders")
        answer = await self._life.call(RequestCode.MESSAGE_LIFE, topic=topic, id=f"id-{key}")
        assert answer.code == 0, f"line {step.line}: {answer.remark}"
        life = json.loads(bytes(answer.body))
        told = next((one for one in life["groups"] if one["group"] == group), {}) if group else life
        said = [told.get("state", "nothing"), *(str(told[name]) for name in ("retry", "checks") if told.get(name))]
        wanted = " ".join(word for word in words if "=" not in word)
        assert " ".join(said) == wanted, f"line {step.line}: {key} is told to be {said}, not {wanted}"

    async def _fail(self, step: Step) -> None:
        """fail KEY by GROUP [of=TOPIC] [level=N] [max=N]: the newest delivery of it is given back"""
        key, _, group = step.words[1:4]
        options = step.options
        topics = (f"%RETRY%{group}", options.get("of", "orders"))
        found = [record for topic in topics for record in self._records(topic) if record.body == key.encode()]
        assert found, f"line {step.line}: {group} never got {key}"
        newest = max(found, key=lambda record: record.physical_offset)
        fields: dict[str, Any] = {"offset": newest.physical_offset, "group": group}
        fields |= {"delayLevel": options.get("level", 0), "originTopic": newest.topic}
        if "max" in options:
            fields["maxReconsumeTimes"] = options["max"]
        answer = await self._life.call(RequestCode.CONSUMER_SEND_MSG_BACK, **fields)
        assert answer.code == 0, f"line {step.line}: {answer.remark}"

    async def _lock(self, step: Step) -> None:
        """lock QUEUES by CLIENT gets QUEUES|nothing: of the topic `orders`, by a member of an orderly group"""
        wanted = [] if step.words[5] == "nothing" else sorted(map(int, step.words[5].split(",")))
        broker = self._life.broker
        broker.topics.ensure("orders", 4)
        broker.groups.ensure("readers", broker.live.config)
        answer = await self._ask_for_queues(RequestCode.LOCK_BATCH_MQ, step)
        granted = sorted(queue.queue_id for queue in decode_body(LockBatchResponseBody, answer.body).lock_ok_mq_set)
        assert granted == wanted, f"line {step.line}: {step.words[3]} gets {granted}, not {wanted}"

    async def _unlock(self, step: Step) -> None:
        """unlock QUEUES by CLIENT"""
        await self._ask_for_queues(RequestCode.UNLOCK_BATCH_MQ, step)

    async def _ask_for_queues(self, code: int, step: Step) -> Command:
        queues = [
            MessageQueue(broker_name="broker-a", queue_id=int(one), topic="orders") for one in step.words[1].split(",")
        ]
        body = LockBatchRequestBody(client_id=step.words[3], consumer_group="readers", mq_set=queues)
        answer = await self._life.call(code, encode_body(body))
        assert answer.code == 0, f"line {step.line}: {answer.remark}"
        return answer

    async def _advance(self, step: Step) -> None:
        """advance DURATION; what the broker's housekeeping does every few seconds is done at its end"""
        await self._life.advance(seconds(step.words[1]))
        self._life.broker.clients.housekeep()
        await self._life.clock.settle()

    async def _leap(self, step: Step) -> None:
        """leap DURATION: the same, but nobody looks before an hour has passed: for days"""
        left = seconds(step.words[1])
        while left > 3600:
            self._life.clock.step_wall(3600 - 1)
            await self._life.advance(1)
            left -= 3600
        await self._life.advance(left)

    async def _show(self, step: Step) -> None:
        """show: only its outcomes count"""

    def _records(self, topic: str) -> list[Record]:
        queues = self._life.broker.store.queues.of_topic(topic)
        records = [record for queue in queues for record in self._life.stored(topic, queue.queue_id)]
        return sorted(records, key=lambda record: record.physical_offset)

    def _check(self, step: Step, outcome: str) -> None:
        topic, _, wanted = outcome.partition(":")
        held = " ".join(_shown(record) for record in self._records(topic.strip())) or "nothing"
        assert held == wanted.strip(), f"line {step.line}: {topic} holds {held}, not {wanted.strip()}"


def _shown(record: Record) -> str:
    """`k1`, or `k1(3)` on its third retry."""
    key = properties(record).get("KEYS", record.body.decode())
    return f"{key}({record.reconsume_times})" if record.reconsume_times else key
