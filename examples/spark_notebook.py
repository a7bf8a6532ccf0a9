"""A tour of RocketMQ's data in Spark, cell by cell: run it whole, or paste its cells into a notebook.

    pyromq up                                            # in another terminal, or name a cluster of your own
    python examples/spark_notebook.py 127.0.0.1:9876

Each `# %%` begins a cell, as editors and Jupyter (jupytext) understand it.
"""

# %% A session that knows the data source, and a few hundred orders to look at
import sys
import tempfile
from pathlib import Path

import pyromq
from pyromq.pipelines.analytics import analytics
from pyromq.pipelines.archive import archive, read_archive
from pyromq.pipelines.backlog import backlog
from pyromq.pipelines.reconcile import reconcile
from pyromq.pipelines.replay import replay
from pyromq.pipelines.report.html_page import page
from pyromq.pipelines.search import search
from pyromq.spark.session import new_session

namesrv = sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:9876"
folder = Path(sys.argv[2] if len(sys.argv) > 2 else tempfile.mkdtemp(prefix="pyromq-tour-"))
spark = new_session("notebook")
orders = {"nameServer": namesrv, "topic": "tour-orders"}

with pyromq.sync.connect(namesrv) as client, client.producer() as producer:
    for number in range(300):
        tag = "paid" if number % 3 else "open"
        producer.send("tour-orders", f'{{"order": {number}}}'.encode(), tag=tag, keys=[f"order-{number}"])

# %% What is there, by queue and tag
told = backlog(spark, orders)
print(told.as_text(100))

# %% The same as rows, with SQL: only the columns that are named are made
spark.read.format("rocketmq").options(**orders).schema(
    "queueId int, tags string, body string"
).load().createOrReplaceTempView("orders")
spark.sql(
    "SELECT tags, count(*) AS orders, max(get_json_object(body, '$.order')) AS last FROM orders GROUP BY tags"
).show()

# %% Kept for longer than the broker does; run it again from a timer, it goes on where it was
print(archive(spark, orders, str(folder / "archive")).as_text(100))
read_archive(spark, str(folder / "archive")).groupBy("date", "tags").count().show()

# %% Where is order 17?
print(search(spark, {"archive": str(folder / "archive")}, key="order-17").as_text(140))

# %% The paid ones to another topic, and whether all of them came
target = {"nameServer": namesrv, "topic": "tour-paid"}
replay(spark, {"archive": str(folder / "archive")}, target, str(folder / "replay"), where="tags = 'paid'")
judged = reconcile(spark, orders, target, where="tags = 'paid'")
print(judged.as_text(100))

# %% How they came in over time, as a page to look at
windows = analytics(spark, orders, window="1m")
(folder / "orders.html").write_text(page(windows, "the tour"), "utf-8")
print(f"open {folder / 'orders.html'}")

# %%
spark.stop()
