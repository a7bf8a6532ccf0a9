"""One message through the C++ client: fetch the route, send, print the result as one marked JSON line.

Runs in a process of its own with PyPI's `rocketmq` 0.4.4 on the path, which ours never has.
Arguments: name server, topic, body.
"""

import json
import os
import sys
from typing import Any

from rocketmq.client import Message, Producer


def main() -> None:
    name_server, topic, body = sys.argv[1:4]
    producer = Producer("PG_cpp")
    producer.set_namesrv_addr(name_server)
    producer.start()
    message = Message(topic)
    message.set_tags("TagA")
    message.set_keys(body)
    message.set_body(body)
    answer: dict[str, Any]
    try:
        result = producer.send_sync(message)
        answer = {"sent": {"status": result.status.name, "offset": result.offset}}
    except Exception as failure:
        answer = {"error": str(failure)}
    print("@@" + json.dumps(answer), flush=True)
    os._exit(0)  # the library's own shutdown may wait for its heartbeat


main()
