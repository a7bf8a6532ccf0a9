// One message through ali-ons: fetch the route from the name server, send, print the result as one marked JSON line.
// Arguments: name server, topic, body. The package is found through NODE_PATH.
'use strict';

const { Producer, Message } = require('ali-ons');

const [nameServer, topic, body] = process.argv.slice(2);

function answer(kind, value) {
  process.stdout.write(`@@${JSON.stringify({ [kind]: value })}\n`);
}

async function main() {
  const producer = new Producer({
    httpclient: {}, // only asked for with Aliyun's address service, but asserted
    nameSrv: nameServer,
    producerGroup: 'PG_node',
    accessKeyId: 'none',
    accessKeySecret: 'none',
    logger: { info() {}, debug() {}, warn: console.error, error: console.error },
  });
  producer.on('error', failure => console.error(String(failure)));
  await producer.ready();
  const result = await producer.send(new Message(topic, 'TagA', body));
  answer('sent', { status: result.sendStatus, broker: result.messageQueue.brokerName });
}

main().then(() => process.exit(0), failure => {
  answer('error', String(failure));
  process.exit(1);
});
