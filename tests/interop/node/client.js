// A small application over ali-ons: send messages with a tag, or consume those of some tags, through the name server
// given. Prints one marked JSON line with the result. The package is found through NODE_PATH.
//
//   client.js send NAMESERVER TOPIC TAG BODY...
//   client.js delay NAMESERVER TOPIC LEVEL BODY...
//   client.js consume NAMESERVER TOPIC GROUP TAGS COUNT
//
// CLIENT_KEY and CLIENT_SECRET sign its requests, CONSUME_LIMIT_S is how long it waits for messages.
'use strict';

const { Consumer, Producer, Message } = require('ali-ons');

const { CLIENT_KEY = 'none', CLIENT_SECRET = 'none', CONSUME_LIMIT_S = 30 } = process.env;

function answer(kind, value) {
  process.stdout.write(`@@${JSON.stringify({ [kind]: value })}\n`);
}

function options(nameServer, more) {
  return {
    httpclient: {}, // only asked for with Aliyun's address service, but asserted
    nameSrv: nameServer,
    accessKeyId: CLIENT_KEY,
    accessKeySecret: CLIENT_SECRET,
    logger: { info() {}, debug() {}, warn: console.error, error: console.error },
    ...more,
  };
}

async function send(nameServer, topic, tag, ...bodies) {
  return sendAt(nameServer, topic, tag, 0, bodies);
}

async function delay(nameServer, topic, level, ...bodies) {
  return sendAt(nameServer, topic, 'TagA', Number(level), bodies);
}

async function sendAt(nameServer, topic, tag, level, bodies) {
  const producer = new Producer(options(nameServer, { producerGroup: 'PG_node' }));
  producer.on('error', failure => console.error(String(failure)));
  await producer.ready();
  const sent = [];
  for (const body of bodies) {
    const message = new Message(topic, tag, body);
    if (level > 0) message.delayTimeLevel = level;
    const result = await producer.send(message);
    sent.push({ status: result.sendStatus, broker: result.messageQueue.brokerName });
  }
  return sent;
}

async function consume(nameServer, topic, group, tags, count) {
  const consumer = new Consumer(options(nameServer, { consumerGroup: group }));
  consumer.on('error', failure => console.error(String(failure)));
  const received = [];
  const enough = new Promise(resolve => {
    setTimeout(resolve, CONSUME_LIMIT_S * 1000);
    consumer.subscribe(topic, tags, async message => {
      received.push({ body: message.body.toString(), tag: message.tags });
      if (received.length >= Number(count)) resolve();
    });
  });
  await consumer.ready();
  await enough;
  await new Promise(setImmediate); // a message is done when its handler has returned
  await consumer.close();
  return received;
}

const [command, ...words] = process.argv.slice(2);

({ send, delay, consume })[command](...words).then(value => {
  answer('done', value);
  process.exit(0);
}, failure => {
  answer('error', String(failure));
  process.exit(1);
});
