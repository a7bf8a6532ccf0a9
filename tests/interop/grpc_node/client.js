// A small application over Apache's gRPC client for Node: sends or consumes through the endpoint given, prints one marked
// JSON line with the result, and ends. The commands are those of ../grpc_java/Walk.java.
'use strict';

const { ConsumeResult, FilterExpression, Producer, PushConsumer, SimpleConsumer } = require('rocketmq-client-nodejs');

const COMMIT = 1; // of TransactionResolution
const SQL = 2; // of FilterType
const LIMIT_MS = Number(process.env.CONSUME_LIMIT_S || 60) * 1000;
const { CLIENT_KEY: accessKey, CLIENT_SECRET: accessSecret } = process.env;
const sessionCredentials = accessKey ? { accessKey, accessSecret } : undefined;
const sslEnabled = Boolean(process.env.WALK_TLS);
const size = Number(process.env.WALK_PAD || 0);
const [command, endpoints, topic, ...words] = process.argv.slice(2);

const pause = ms => new Promise(resolve => setTimeout(resolve, ms));

function answer(kind, value) {
  process.stdout.write(`@@${JSON.stringify({ [kind]: value })}\n`);
}

function message(body, more) {
  const properties = new Map([['colour', 'blue']]);
  return { topic, keys: [`key of ${body}`], properties, body: Buffer.from(body.padEnd(size, '.')), ...more };
}

async function producing(more, work) {
  const producer = new Producer({ endpoints, sslEnabled, sessionCredentials, namespace: '', topic, ...more });
  await producer.startup();
  const result = await work(producer);
  await producer.shutdown();
  return result;
}

function send(bodies, dressing) {
  return producing({}, async producer => {
    const ids = [];
    for (const body of bodies) ids.push((await producer.send(message(body, dressing()))).messageId);
    return ids;
  });
}

function transact(checks, bodies) {
  const asked = [];
  const checker = { async check(view) { asked.push(view.body.toString()); return COMMIT; } };
  return producing({ checker }, async producer => {
    for (const body of bodies) {
      const transaction = producer.beginTransaction();
      await producer.send(message(body), transaction);
      if (body.startsWith('commit')) await transaction.commit();
      if (body.startsWith('rollback')) await transaction.rollback();
    }
    const end = Date.now() + LIMIT_MS;
    while (asked.length < checks && Date.now() < end) await pause(50);
    await pause(500); // the answer to the last check is on its way
    return asked;
  });
}

function shown(view) {
  const colour = view.properties.get('colour') || '';
  const body = view.body.toString().replace(/\.+$/, '');
  return { body, tag: view.tag || '', attempt: view.deliveryAttempt, colour, size: view.body.length };
}

function subscribed(tags) {
  const wanted = tags.startsWith('sql:') ? new FilterExpression(tags.slice(4), SQL) : tags;
  return new Map([[topic, wanted]]);
}

async function simple(consumerGroup, tags, count) {
  const subscriptions = subscribed(tags);
  const more = { endpoints, sslEnabled, sessionCredentials, namespace: '', awaitDuration: 5000 };
  const consumer = new SimpleConsumer({ consumerGroup, subscriptions, ...more });
  await consumer.startup();
  const received = [], end = Date.now() + LIMIT_MS;
  while (received.length < count && Date.now() < end) {
    try {
      for (const view of await consumer.receive(16, 20000)) {
        console.log(`got ${shown(view).body}`);
        received.push(shown(view));
        await consumer.ack(view);
      }
    } catch (fault) { // nothing came, or the server is away: it comes back
      console.error(String(fault));
      await pause(200);
    }
  }
  await consumer.shutdown();
  return received;
}

async function push(consumerGroup, tags, count, result, took = 0) {
  const received = [], subscriptions = subscribed(tags);
  const messageListener = {
    async consume(view) {
      console.log(`got ${shown(view).body}`);
      if (took) await pause(took);
      received.push(shown(view));
      return result;
    },
  };
  const more = { endpoints, sslEnabled, sessionCredentials, namespace: '' };
  const consumer = new PushConsumer({ consumerGroup, subscriptions, messageListener, ...more });
  await consumer.startup();
  const end = Date.now() + LIMIT_MS;
  while (received.length < count && Date.now() < end) await pause(20);
  await pause(500); // acks of the last ones are on their way
  return received;
}

function recall(later, bodies) {
  return producing({}, async producer => {
    const ids = [];
    for (const body of bodies) {
      const receipt = await producer.send(message(body, { deliveryTimestamp: new Date(Date.now() + later) }));
      await producer.recallMessage(topic, receipt.recallHandle);
      ids.push(receipt.messageId);
    }
    return ids;
  });
}

const [first, second, third, fourth] = words;
const commands = {
  send: () => send(words.slice(1), () => ({ tag: first })),
  fifo: () => send(words.slice(1), () => ({ messageGroup: first })),
  delay: () => send(words.slice(1), () => ({ deliveryTimestamp: new Date(Date.now() + Number(first)) })),
  transact: () => transact(Number(first), words.slice(1)),
  simple: () => simple(first, second, Number(third)),
  push: () => push(first, second, Number(third), ConsumeResult.SUCCESS),
  fail: () => push(first, second, Number(third), ConsumeResult.FAILURE),
  slow: () => push(first, second, Number(third), ConsumeResult.SUCCESS, Number(fourth)),
  priority: () => send(words.slice(1), () => ({ priority: Number(first) })),
  recall: () => recall(Number(first), words.slice(1)),
};

commands[command]().then(value => {
  answer('done', value);
  process.exit(0);
}, failure => {
  answer('error', String(failure && failure.stack || failure));
  process.exit(1);
});
