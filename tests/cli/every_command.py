"""Every command that asks a cluster, one after the other, as a table: run against our servers and against Apache's.

A line is a command and, behind =>, a regular expression for what it says; [N] is an exit code other than 0. Each
command has all three of: a line for people, a line for programs, an error. `?` only looks: it is run once more with
--json. OURS and APACHE stand before lines of one broker alone. Words in capitals are filled in.
"""

from __future__ import annotations

import asyncio
import json
import re
import shlex
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from click.testing import CliRunner, Result

import pyromq
from pyromq.cli.main import cli
from pyromq.client.received import Received
from tests.interop.waiting import eventually

TOPICS = ("prices", "doomed-topic", "work")  # of the members: they stand before they are started
TABLE = r"""
? cluster list                                             => DefaultCluster +1 +0
? cluster brokers                                          => broker-a +0 +127.0.0.1:\d+ +yes +V5_5_0
? cluster status                                           => master +127.0.0.1:\d+ +yes +yes
[1] cluster status broker-z                                => there is no broker 'broker-z'
[78] cluster switch broker-a --yes                         => the master that configuration files
[78] cluster forget broker-a 2 --yes                       => nobody keeps a list of the slaves
[1] cluster brokers Nowhere                                => there is no cluster 'Nowhere'
[2] cluster list -n 127.0.0.1:1 --timeout 1                => no name server answers
topic create orders --queues 4                             => orders +broker-a +4 +4 +rw
topic create ordered --queues 4 --type FIFO --order --json => "attributes": "\+message.type=FIFO"
[1] topic create orders                                    => is on broker-a already
[1] topic create other -b broker-z                         => there is no broker 'broker-z'. Closest: 'broker-a'
? topic list                                               => orders +UNSPECIFIED +4 +4 +rw +no +broker-a
? topic list 'order*' --all                                => ordered +FIFO
[1] topic list -c Nowhere                                  => there is no cluster 'Nowhere'
? topic route orders                                       => 0=127.0.0.1:\d+
[1] topic route order                                      => Closest: 'orders'
pub orders hello --key order-1 --tag created               => broker-a queue \d offset 0
pub orders world --key order-2 --prop region=eu --order-key customer-7 --json  => "status": "OK"
pub orders later --delay 1 --key timed-1                   => waits until it is due
[64] pub orders x --delay nan                              => no finite number
pub later noon --at 2020-01-01T12:00:00                    => broker-a queue \d offset 0
pub later noon --at 1577880000000 --json                   => "status": "OK"
[78] pub later never --at 2100-01-01T12:00:00              => answered 13
[64] pub orders/x hello                                    => the topic name 'orders/x' may hold only
[64] pub orders x --at noon                                => neither milliseconds nor a time
[64] pub orders x --at 0 --delay 1                         => --delay and --at are 2 ways
sub orders --from first --count 3                          => timed-1  later
sub orders --from first --count 1 --tag created --json     => "body": "hello"
sub orders --tail 1 --count 1                              => timed-1  later
[64] sub orders --tail 2 --from first                      => --tail says itself where to begin
sub orders --from first --count 1 --sql "region = 'eu'"    => order-2  world
sub orders --from first --count 1 --sql "region = 'eu'" -f '{keys}\t{prop:region} {body}'  => order-2\teu world
[64] sub orders -f '{bdy}'                                 => a message has no 'bdy'. Closest: 'body'
[78] sub orders --sql "region >"                           => answered 23
sub orders -g billing --from first --count 3               => hello
[1] sub nowhere                                            => topic 'nowhere' does not exist
req prices apples --wait 30                                => price of apples
req prices pears --wait 30 --json                          => "reply": "price of pears"
[64] req 'a b' x                                           => the topic name 'a b' may hold only
[3] req prices none --wait 0.5                             => no reply from a consumer of 'prices' within 0.5 s
? topic describe orders                                    => messages +3
[1] topic describe order                                   => there is no topic 'order'. Closest: 'orders'
? topic stats                                              => orders +billing +\d+ +\d+\.\d
? topic stats orders                                       => orders +billing +\d+ +\d+\.\d
topic stats --active                                       => topic|no traffic in the last day
[1] topic stats order                                      => there is no topic 'order'. Closest: 'orders'
topic update orders --queues 2 --dry-run                   => would change topic orders
topic update orders --queues 7 --yes                       => orders +broker-a +7 +7
topic update orders --queues 8 --yes --json                => "writeQueues": 8
[64] topic update orders                                   => say what to change
topic perm orders w --yes                                  => orders +broker-a +8 +8 +w
[78] sub orders                                            => has no queue that may be read. Let it be read:
topic perm orders r --yes --json                           => "permission": "r"
[78] pub orders x                                          => has no queue that may be written
topic perm orders rw --yes                                 => orders +broker-a +8 +8 +rw
[1] topic perm order rw --yes                              => Closest: 'orders'
? msg query orders --key order-1                           => order-1 +hello
? msg query orders --from 2026-01-01T00:00:00 --tag created  => created +order-1 +hello
[1] msg query orders --key none                            => no message of orders fits
? msg get orders order-1                                   => group +billing: consumed
? msg get orders ID                                        => keys +order-1
[1] msg get orders none                                    => no message none of topic orders is known here
[1] msg get order order-1                                  => there is no topic 'order'
? sql 'SELECT count(*) AS n FROM orders'                  => 3
? sql 'SELECT keys FROM orders WHERE queueId >= 0'         => order-1
[78] sql 'SELECT * FROM order'                             => syntax error
[78] sql 'SELECT * FROM nowhere'                           => there is no topic 'nowhere'
? msg export orders --tag created                          => "body": "hello"
msg export orders FOLDER/orders.jsonl                      => orders +\S+ +3
[1] msg export order                                       => Closest: 'orders'
topic create copies --queues 2                             => copies
msg import FOLDER/orders.jsonl --to copies                 => copies +3
msg import FOLDER/orders.jsonl --to copies --json          => "messages": 3
[78] msg import FOLDER/none.jsonl                          => none.jsonl
? msg query copies                                         => order-2
msg resend orders ID --to copies                           => topic copies
msg resend orders ID -g billing --json                     => "to": "group billing"
[1] msg resend orders none                                 => no message none of topic orders is known here
[1] msg recheck none                                       => no message none was given up here
msg replay orders --tag created --into copies --dry-run    => would send 1 messages of orders again to topic copies
msg replay orders --tag created --into copies --yes        => orders +topic copies +1
msg replay orders --tag created -g billing --yes --json    => "sent": 1
[1] msg replay orders --tag none -g billing --yes          => no message of orders fits
? msg trace traced-1                                       => traced-1
[1] msg trace none                                         => no trace of none
OURS user create shop                                      => shop +Normal +- +\S{32,}
OURS user create alice --role reader --json                => "secret": "
OURS [1] user create shop                                  => is on broker-a(, name server)? already
OURS ? user list                                           => alice +Normal +enable +reader
OURS [1] user list -b broker-z                             => there is no broker 'broker-z'
OURS ? user show alice                                     => Topic:\*
OURS [1] user show alic                                    => there is no user 'alic'. Closest: 'alice'
OURS user rotate shop --dry-run                            => would replace the secret of shop
OURS user rotate shop --json                               => "oldSecretValid": true
OURS user rotate shop --finish --yes                       => shop +no
OURS [1] user rotate shop --finish --yes                   => has one secret only
OURS user update shop --disable --yes                      => shop +disable
OURS user update shop --enable --yes --json                => "status": "enable"
OURS [64] user update shop                                 => say what to change
OURS ? user export                                         => "username": "shop"
OURS [78] user export FOLDER/clear.json --secrets          => shown to super users alone
OURS user export FOLDER/users.json                         => users.json +2
OURS [64] user export --secrets                            => needs a FILE
OURS user import FOLDER/users.json --dry-run               => would import 2 users
OURS user import FOLDER/users.json --yes --json            => "change": "change"
OURS [78] user import FOLDER/none.json                     => none.json
OURS acl create shop Topic:orders --allow Pub,Sub          => shop +Topic:orders +Pub, Sub
OURS acl create shop Group:* --deny All --from 10.0.0.0/8 --json  => "decision": "Deny"
OURS [64] acl create shop orders --allow Pub               => 'orders' is no resource
OURS ? acl list                                            => shop +Custom +Topic:orders
OURS [64] acl list --nope                                  => No such option
OURS ? acl show shop                                       => Group:\* +All +10.0.0.0/8 +Deny
OURS [1] acl show shp                                      => Closest: 'shop'
OURS acl import FOLDER/plain_acl.yml --dry-run             => RocketMQ +Normal +3 +make
OURS acl import FOLDER/plain_acl.yml --yes                 => left out: globalWhiteRemoteAddresses 10\.10
OURS acl import FOLDER/plain_acl.yml --yes --json          => he is there already
OURS [78] acl import FOLDER/none.yml                       => none.yml
OURS user delete RocketMQ --yes                            => RocketMQ
OURS acl role alice operator --yes                         => alice +operator
OURS acl role alice none --yes --json                      => "role": "none"
OURS [64] acl role alice boss --yes                        => boss
OURS acl delete shop Topic:orders --yes                    => Topic:orders
OURS acl delete shop --yes --json                          => "deleted": true
OURS [1] acl delete shop --yes                             => has no entry for anything
OURS user delete shop --yes                                => shop +yes
OURS user delete alice --yes --json                        => "deleted": true
OURS [1] user delete shop --yes                            => there is no user 'shop'
OURS quota set topic:orders queues=16 --yes                => topic:orders +\S+ +queues=16
OURS quota set user:alice connections=9 --yes --json       => "limits": "connections=9"
OURS [64] quota set orders queues=16 --yes                 => it is KIND:NAME
OURS ? quota list                                          => topic:orders
OURS [1] quota list -b broker-z                            => there is no broker 'broker-z'
OURS quota delete topic:orders --yes                       => topic:orders
OURS quota delete user:alice --yes --json                  => "of": "user:alice"
OURS [1] quota delete topic:orders --yes                   => there is no quota of topic:orders
? group list                                               => billing +0
[64] group list --nope                                     => No such option
? group describe billing                                   => group +billing
[1] group describe biling                                  => Closest: 'billing'
? group lag billing                                        => group +billing
[1] group lag biling                                       => there is no group 'biling'. Closest: 'billing'
? group clients workers                                    => \d+\.\d+\.\d+\.\d+@
[1] group clients billing                                  => group billing has no member online
? group stack workers                                      => handle
[1] group stack billing                                    => group billing has no member online
group create fresh --retries 3                             => fresh +broker-a .* 3 +1
group create fresher --retries 3 --json                    => "retries": 3
[1] group create fresh                                     => is on broker-a already
group update fresh --retries 4 --yes                       => fresh +broker-a .* 4 +1
group update fresh --orderly --yes --json                  => "orderly": true
[64] group update fresh                                    => say what to change
group mode fresh orders pop --dry-run                      => would let group fresh pop orders
group mode fresh orders pop --share 2 --yes                => fresh +orders +broker-a +POP +2
? group mode fresh                                         => fresh +orders +broker-a +POP +2
group mode fresh orders pull --yes --json                  => "mode": "PULL"
[64] group mode fresh orders pull --share 2                => --share goes with pop
[1] group mode fresh order pop                             => Closest: 'orders'
[1] group mode frsh                                        => Closest: 'fresh'
group reset billing orders --time 2026-01-01T00:00:00 --dry-run        => would let group billing go on
group reset billing orders --time 2026-01-01T00:00:00 --yes            => orders +broker-a +0 +0
group reset billing orders --time 2026-01-01T00:00:00 --yes --json     => "goesOnAt": 0
group reset workers work --time 2026-01-01T00:00:00 --yes              => work +broker-a +0 +0
[64] group reset billing orders                            => say where
topic reset orders --time 2026-01-01T00:00:00 --dry-run    => would let 1 group go on in orders at 2026-01-01T00:00:00
topic reset orders --time 2026-01-01T00:00:00 --yes        => billing +orders +broker-a +0 +0
topic reset orders --time 2026-01-01T00:00:00 --yes --json => "group": "billing".* "goesOnAt": 0
[1] topic reset order --time 0 --yes                       => there is no topic 'order'. Closest: 'orders'
[1] topic reset copies --time 0 --yes                      => no group has consumed copies yet
sub orders -g billing --from first --count 3               => hello
group skip billing orders --dry-run                        => would let group billing skip
group skip billing orders --yes                            => orders +broker-a
group skip billing orders --yes --json                     => "goesOnAt": [1-3]
[1] group skip biling orders --yes                         => Closest: 'billing'
group clone billing fresh orders --yes                     => orders +broker-a
group clone billing fresher orders --yes --json            => "goesOnAt": [1-3]
[64] group clone billing billing orders                    => the same group
group delete fresh --yes                                   => group fresh is deleted
group delete fresher --yes --json                          => "deleted": true
[1] group delete fresh --yes                               => there is no group 'fresh'
topic forward orders wide --queues 4 --dry-run             => would copy 3 messages of orders into wide
topic forward orders wide --queues 4 --yes                 => orders +wide +3 +no
topic forward orders wide --yes --json                     => "copied": 0
[64] topic forward orders new                              => --queues says how many
export                                                     => \[topics."orders"\]
export --json                                              => "orders": \{
export FOLDER/all.toml                                     => all.toml +\d+ +\d+
[64] export all.yaml                                       => ends in .toml or .json
apply FOLDER/all.toml                                      => nothing to change
topic update orders --order --yes                          => orders
apply FOLDER/all.toml --dry-run                            => topic +orders +broker-a +order +yes +no
apply FOLDER/all.toml --yes --json                         => "setting": "order"
[78] apply FOLDER/none.toml                                => none.toml
? dlq list                                                 => doomed
? dlq list doomed                                          => doomed-1
[1] dlq list billing                                       => group billing has no dead letters
? msg dead doomed                                          => doomed-1
[1] msg dead billing                                       => group billing has no dead letters
dlq resend doomed --dry-run                                => would send
dlq resend doomed --yes                                    => doomed
dlq resend doomed --to-topic --again --yes --json          => "sent": \d
[1] dlq resend domed --yes                                 => Closest: 'doomed'
dlq purge doomed --dry-run                                 => would
dlq purge doomed --yes --json                              => "group": "doomed"
[1] dlq purge domed --yes                                  => Closest: 'doomed'
kv set NS k v                                              => NS +k +v
kv set NS k w --yes --json                                 => "value": "w"
[64] kv set NS k x --json                                  => give --yes
? kv list NS                                               => k +w
[1] kv list NONE                                           => namespace 'NONE' has no keys
? kv get NS k                                              => NS +k +w
[1] kv get NS none                                         => there is no key 'none'
kv delete NS k --dry-run                                   => would delete k of NS
kv delete NS k --yes --json                                => "deleted": true
[1] kv delete NS k --yes                                   => there is no key 'k'
? broker config get 'file*'                                => fileReservedTime +72
[1] broker config get fileReservdTime                      => Closest: 'fileReservedTime'
broker config set fileReservedTime 47 --yes                => 72 +47
broker config set fileReservedTime 48 --yes --json         => "was": "47"
OURS   [78] broker config set fileReservedTime abc --yes   => must be a whole number
OURS   [78] broker config set brokerName x --yes           => brokerName of broker-a cannot be changed while running
APACHE [78] broker config set fileReservedTime abc --yes   => goes on with 48
[1] broker config set fileReservdTime 1 --yes              => Closest: 'fileReservedTime'
? broker stats 'put*'                                      => putTps
[1] broker stats putTp                                     => Closest: 'putTps'
broker drain broker-a --dry-run                            => would keep producers from writing to broker-a
broker drain broker-a --yes                                => broker-a .* \d+
[1] doctor                                                 => FAIL  permission: broker-a is drained
broker drain broker-a --undo --yes --json                  => "broker": "broker-a"
[1] broker drain brokr-a --yes                             => Closest: 'broker-a'
OURS   ? doctor                                            => broker-a is served by the (native|python) kernel
APACHE ? doctor                                            => broker-a is Apache's, version V5_5_0
[1] doctor --topic ordrs                                   => no broker has topic 'ordrs'
? top --once                                               => 1 brokers
[2] top --once -n 127.0.0.1:1 --timeout 1                  => no name server answers
bench producer -t BenchmarkTest -w 4 -s 128 -q 100         => Send Total: 100
bench producer -t BenchmarkTest -w 4 -s 128 -q 100 --json  => \{
[64] bench producer -w 0                                   => -w
bench batch -t BatchTest -w 2 -s 128 -b 8 -q 64            => Send MPS: \d+ .* Send Message Failed: 0
bench batch -t BatchTest -w 2 -s 128 -b 8 -q 64 --json     => "batchSize": 8
[64] bench batch -b 0                                      => -b
bench transaction -t TxTest -w 2 -s 128 -q 20 -sr 0.2      => Send TPS: .* Check: 0 \| UnexpectedCheck: 0
bench transaction -t TxTest -w 2 -s 128 -q 20 --json       => "checks": 0
[64] bench transaction -sr 2                               => -sr
bench timer -t TimerTest -tc 2 -ms 64 -st 2 -mt 3 -sd 100 --first 0  => Consume Total: 12 .* %99\.9: \d+
bench timer -t TimerTest -tc 1 -st 1 -mt 2 --first 0 --json  => "late99.9": \d+
bench timer -t TimerTest -tc 1 -st 1 -mt 2 --first 0 --only send  => Send TPS: \d+, Max RT: \d+, Average RT: +\d+\.\d{3}
[64] bench timer -st 0                                     => -st
bench consumer -t BenchmarkTest -q 100                     => Consume Total: [12]\d\d
bench consumer -t BenchmarkTest -g other -q 100 --json     => \{
[64] bench consumer --nope                                  => No such option
topic delete copies --dry-run                              => would delete topic copies
topic delete copies --yes                                  => topic copies is deleted
topic delete wide --yes --json                             => "deleted": true
[1] topic delete wide --yes                                => there is no topic 'wide'
"""


PLAIN_ACL = """\
globalWhiteRemoteAddresses: [10.10.103.*]
accounts:
- accessKey: RocketMQ
  secretKey: 12345678
  whiteRemoteAddress: 192.168.0.*
  admin: false
  defaultTopicPerm: DENY
  topicPerms: [topicA=DENY]
  groupPerms:
  - groupB=PUB|SUB
"""


class Line(NamedTuple):
    words: str
    said: str
    code: int
    looks: bool


def lines(whose: str) -> list[Line]:
    found = []
    for text in TABLE.strip().splitlines():
        command, _, said = text.partition("=>")
        mark = re.match(r"((?:OURS|APACHE) +)?(\?|\[(\d+)\])? *", command)
        assert mark is not None
        if (mark[1] or whose).strip() == whose:
            found.append(Line(command[mark.end() :].strip(), said.strip(), int(mark[3] or 0), mark[2] == "?"))
    return found


class Cluster:
    """Tests only: where the table is run."""

    def __init__(self, names: str, folder: Path) -> None:
        self.names, self.folder = names, folder
        self.id = ""  # of the first message

    def write_files(self) -> None:
        """The files of other programs that commands read."""
        (self.folder / "plain_acl.yml").write_text(PLAIN_ACL)

    def run(self, words: str, *more: str) -> Result:
        words = re.sub(r"\bID\b", self.id, words).replace("FOLDER", str(self.folder))
        with limited():
            done = CliRunner().invoke(cli, ["-n", self.names, *shlex.split(words), *more])
        assert done.exception is None or isinstance(done.exception, SystemExit), (words, done.exception)
        return done

    def check(self, line: Line) -> None:
        done = self.run(line.words)
        assert done.exit_code == line.code, done.output
        assert re.search(line.said, done.output), done.output
        if not self.id and line.words.startswith("pub"):
            self.id = done.stdout.split()[0]
        if line.code and not line.words.startswith("doctor"):  # which tells what it found
            assert done.stdout == ""
        if "--json" in line.words and not line.code:
            read_json(done)
        if line.looks:
            read_json(self.run(line.words, "--json"))


@contextmanager
def limited(seconds: int = 60) -> Iterator[None]:
    """A command that waits for messages ends all the same, where a line before it has failed."""

    def stop(*_: object) -> None:
        raise TimeoutError(f"it did not end within {seconds} s")

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def read_json(done: Result) -> None:
    """One object, or one a line."""
    assert done.exit_code == 0, done.output
    try:
        json.loads(done.stdout)
    except json.JSONDecodeError:
        assert [json.loads(one) for one in done.stdout.splitlines()]


@contextmanager
def at_work(cluster: Cluster) -> Iterator[Cluster]:
    """With its topics and members, and a dead letter of theirs."""
    cluster.write_files()
    for topic in TOPICS:
        assert cluster.run(f"topic create {topic} --queues 1").exit_code == 0
    with members(cluster.names):
        eventually(lambda: cluster.run("dlq list doomed").exit_code == 0, "a dead letter is there")
        yield cluster


@contextmanager
def members(names: str) -> Iterator[None]:
    """In a thread of their own: a group that is online and busy, one that replies, one that rejects."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    ready, leave = asyncio.Event(), asyncio.Event()

    async def serve() -> None:
        async with pyromq.connect(names, trace=True) as client, client.producer() as producer:

            async def price(msg: Received) -> None:
                if msg.body != b"none":
                    await producer.reply(msg, b"price of " + msg.body)

            async def doom(msg: Received) -> None:
                raise pyromq.Reject

            async def handle(msg: Received) -> None:
                await leave.wait()

            async with (
                client.push_consumer("prices", price, group="pricing"),
                client.push_consumer("doomed-topic", doom, group="doomed", begin=pyromq.ConsumeFromWhere.FIRST_OFFSET),
                client.push_consumer("work", handle, group="workers", begin=pyromq.ConsumeFromWhere.FIRST_OFFSET),
            ):
                await producer.send("doomed-topic", "x", keys=["doomed-1"])
                await producer.send("work", "x", keys=["traced-1"])
                ready.set()
                await leave.wait()

    serving = asyncio.run_coroutine_threadsafe(serve(), loop)
    try:
        asyncio.run_coroutine_threadsafe(ready.wait(), loop).result(60)
        yield
    finally:
        loop.call_soon_threadsafe(leave.set)
        serving.result(60)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(60)
        loop.close()
