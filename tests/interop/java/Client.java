import com.alibaba.fastjson.JSON;
import com.alibaba.fastjson.JSONObject;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageQueue;
import org.apache.rocketmq.remoting.protocol.RemotingCommand;

/**
 * A small application over the published client jar. One command per line of stdin (tab between words), one JSON
 * object per line of stdout, marked with "@@" so that the client's own prints are never taken for an answer.
 * A command with much to say is a JSON object instead; the producers and consumers that it starts have names and live
 * on (Producing, Consuming). Compiles against client 4.9 and 5.x alike.
 */
public class Client {

    private static final Map<String, Producing> PRODUCING = new HashMap<>();
    private static final Map<String, Consuming> CONSUMING = new HashMap<>();
    private static final Map<String, Retrying> RETRYING = new HashMap<>();
    private static final Map<String, Transacting> TRANSACTING = new HashMap<>();
    private static final Map<String, Asking> ASKING = new HashMap<>();

    public static void main(String[] args) throws Exception {
        BufferedReader commands = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        Impatience.begin();
        answer("ready", RemotingCommand.getSerializeTypeConfigInThisServer().name());
        for (String line = commands.readLine(); line != null; line = commands.readLine()) {
            String[] words = line.split("\t", -1);
            try {
                if (line.startsWith("{")) {
                    JSONObject wanted = JSON.parseObject(line);
                    answer("done", act(wanted.getString("do"), wanted.getString("name"), wanted));
                } else {
                    run(words[0], Arrays.copyOfRange(words, 1, words.length));
                }
            } catch (Throwable failure) {
                answer("error", failure.toString());
            }
        }
        System.exit(0);
    }

    private static void run(String command, String[] words) throws Exception {
        switch (command) {
            case "send":
                send(words[0], words[1], Integer.parseInt(words[2]), words[3]);
                break;
            case "consume":
                consume(words[0], words[1], words[2], Integer.parseInt(words[3]), Long.parseLong(words[4]));
                break;
            case "queues":
                queues(words[0], words[1]);
                break;
            default:
                answer("error", "unknown command " + command);
        }
    }

    private static Object act(String command, String name, JSONObject wanted) throws Exception {
        switch (command) {
            case "send":
                return Producing.send(wanted);
            case "send on":
                PRODUCING.put(name, Producing.onAndOn(wanted));
                return name;
            case "acknowledged":
                return PRODUCING.get(name).acknowledged();
            case "stop sending":
                return PRODUCING.remove(name).stop();
            case "consume":
                CONSUMING.put(name, Consuming.start(wanted));
                return name;
            case "received":
                return CONSUMING.get(name).received();
            case "owned":
                return CONSUMING.get(name).queues();
            case "stop consuming":
                return CONSUMING.remove(name).stop();
            case "pull":
                return Consuming.pull(wanted);
            case "look":
                return Consuming.look(wanted);
            case "query":
                return Consuming.query(wanted);
            case "transact":
                TRANSACTING.put(name, Transacting.start(wanted));
                return name;
            case "send halves":
                return TRANSACTING.get(name).send(wanted);
            case "checks":
                return TRANSACTING.get(name).checks();
            case "stop transacting":
                return TRANSACTING.remove(name).stop();
            case "ask":
                return Asking.ask(wanted);
            case "answer":
                ASKING.put(name, Asking.answer(wanted));
                return name;
            case "outcomes":
                return ASKING.get(name).outcomes();
            case "stop answering":
                return ASKING.remove(name).stop();
            case "send timed":
                return Timing.send(wanted);
            case "recall":
                return Timing.recall(wanted);
            case "retry":
                RETRYING.put(name, Retrying.start(wanted));
                return name;
            case "retried":
                return RETRYING.get(name).deliveries();
            case "expire":
                return RETRYING.get(name).expire();
            case "send by sharding key":
                return Sharding.send(wanted);
            case "stop retrying":
                return RETRYING.remove(name).stop();
            default:
                throw new IllegalArgumentException("unknown command " + command);
        }
    }

    /** name server, topic, how many, prefix of the bodies */
    private static void send(String nameServer, String topic, int count, String prefix) throws Exception {
        DefaultMQProducer producer = new DefaultMQProducer("PG_" + System.nanoTime());
        producer.setNamesrvAddr(nameServer);
        producer.setSendMsgTimeout(10_000);
        producer.start();
        try {
            List<Map<String, Object>> sent = new ArrayList<>();
            for (int i = 0; i < count; i++) {
                byte[] body = (prefix + i).getBytes(StandardCharsets.UTF_8);
                SendResult result = producer.send(new Message(topic, "TagA", prefix + i, body));
                Map<String, Object> one = new LinkedHashMap<>();
                one.put("status", result.getSendStatus().name());
                one.put("broker", result.getMessageQueue().getBrokerName());
                one.put("queue", result.getMessageQueue().getQueueId());
                sent.add(one);
            }
            answer("sent", sent);
        } finally {
            producer.shutdown();
        }
    }

    /** name server, topic, group, how many, limit in ms: answers the bodies as soon as that many have arrived */
    private static void consume(String nameServer, String topic, String group, int count, long limit) throws Exception {
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(group);
        consumer.setNamesrvAddr(nameServer);
        consumer.setInstanceName("I" + System.nanoTime());
        // The broker may have learnt an older version of the subscription than the client then pulls with, and refuses
        // the pulls until the next heartbeat: half a minute by default, whatever the servers.
        consumer.setHeartbeatBrokerInterval(1_000);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.subscribe(topic, "*");
        List<String> bodies = Collections.synchronizedList(new ArrayList<>());
        CountDownLatch missing = new CountDownLatch(count);
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            messages.forEach(message -> {
                bodies.add(new String(message.getBody(), StandardCharsets.UTF_8));
                missing.countDown();
            });
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        try {
            missing.await(limit, TimeUnit.MILLISECONDS);
            answer("consumed", new ArrayList<>(bodies));
        } finally {
            consumer.shutdown();
        }
    }

    /** name server, topic: the queues a producer would choose from, as the client understood the route */
    private static void queues(String nameServer, String topic) throws Exception {
        DefaultMQProducer producer = new DefaultMQProducer("PG_" + System.nanoTime());
        producer.setNamesrvAddr(nameServer);
        producer.start();
        try {
            List<String> names = new ArrayList<>();
            for (MessageQueue queue : producer.fetchPublishMessageQueues(topic)) {
                names.add(queue.getBrokerName() + ":" + queue.getQueueId());
            }
            Collections.sort(names);
            answer("queues", names);
        } finally {
            producer.shutdown();
        }
    }

    private static void answer(String kind, Object value) {
        Map<String, Object> line = new LinkedHashMap<>();
        line.put(kind, value);
        System.out.println("@@" + JSON.toJSONString(line));
        System.out.flush();
    }
}
