import com.alibaba.fastjson.JSONObject;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendCallback;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.producer.SendStatus;
import org.apache.rocketmq.common.message.Message;

/** Every way in which a Java producer can send, and a producer that sends on and on until it is told to stop. */
class Producing {

    private volatile boolean running = true;
    private final List<String> acknowledged = Collections.synchronizedList(new ArrayList<>());
    private Thread thread;

    static DefaultMQProducer producer(JSONObject wanted) throws Exception {
        String group = "PG_" + System.nanoTime();
        DefaultMQProducer producer = wanted.containsKey("trace")
            ? new DefaultMQProducer(group, true, wanted.getString("trace"))
            : new DefaultMQProducer(group);
        Instances.join(producer, producer.getProducerGroup(), wanted.getString("servers"));
        if (wanted.containsKey("namespace")) {
            producer.setNamespace(wanted.getString("namespace"));
        }
        producer.setSendMsgTimeout(10_000);
        producer.start();
        return producer;
    }

    /** how: sync, async, oneway, batch or selector (queue n for the n-th body, modulo) */
    static List<Map<String, Object>> send(JSONObject wanted) throws Exception {
        List<Message> messages = new ArrayList<>();
        for (Object body : wanted.getJSONArray("bodies")) {
            messages.add(message(wanted, (String) body));
        }
        DefaultMQProducer producer = producer(wanted);
        try {
            List<SendResult> results = new ArrayList<>();
            switch (wanted.getString("how")) {
                case "sync":
                    for (Message message : messages) {
                        results.add(producer.send(message));
                    }
                    break;
                case "async":
                    results = inBackground(producer, messages);
                    break;
                case "oneway":
                    for (Message message : messages) {
                        producer.sendOneway(message);
                    }
                    break;
                case "batch":
                    results.add(producer.send(messages));
                    break;
                case "selector":
                    for (int i = 0; i < messages.size(); i++) {
                        results.add(producer.send(messages.get(i),
                            (queues, message, argument) -> queues.get((Integer) argument % queues.size()), i));
                    }
                    break;
                default:
                    throw new IllegalArgumentException("no such way to send: " + wanted.getString("how"));
            }
            return described(results);
        } finally {
            // A client that shuts down waits half a second for its traces and forgets the rest; a busy machine needs longer.
            if (!wanted.containsKey("trace")) {
                producer.shutdown();
            }
        }
    }

    private static Message message(JSONObject wanted, String body) {
        Message message = new Message(wanted.getString("topic"), wanted.getString("tag"),
            body.substring(0, Math.min(body.length(), 40)), body.getBytes(StandardCharsets.UTF_8));
        message.putUserProperty("colour", "blau ünd grün");
        return message;
    }

    private static List<SendResult> inBackground(DefaultMQProducer producer, List<Message> messages) throws Exception {
        List<SendResult> results = Collections.synchronizedList(new ArrayList<>());
        CountDownLatch missing = new CountDownLatch(messages.size());
        for (Message message : messages) {
            producer.send(message, new SendCallback() {
                @Override
                public void onSuccess(SendResult result) {
                    results.add(result);
                    missing.countDown();
                }

                @Override
                public void onException(Throwable failure) {
                    System.out.println("async send failed: " + failure);
                    missing.countDown();
                }
            });
        }
        missing.await(30, TimeUnit.SECONDS);
        return results;
    }

    private static List<Map<String, Object>> described(List<SendResult> results) {
        List<Map<String, Object>> all = new ArrayList<>();
        for (SendResult result : results) {
            Map<String, Object> one = new LinkedHashMap<>();
            one.put("status", result.getSendStatus().name());
            one.put("broker", result.getMessageQueue().getBrokerName());
            one.put("queue", result.getMessageQueue().getQueueId());
            one.put("offset", result.getQueueOffset());
            one.put("id", result.getMsgId());
            one.put("place", result.getOffsetMsgId());
            all.add(one);
        }
        return all;
    }

    /** Sends prefix0, prefix1 ... and remembers what the broker acknowledged; what fails is sent again. */
    static Producing onAndOn(JSONObject wanted) throws Exception {
        Producing producing = new Producing();
        DefaultMQProducer producer = producer(wanted);
        producing.thread = new Thread(() -> producing.run(producer, wanted));
        producing.thread.start();
        return producing;
    }

    private void run(DefaultMQProducer producer, JSONObject wanted) {
        int number = 0;
        while (running) {
            try {
                String body = wanted.getString("prefix") + number;
                if (producer.send(message(wanted, body), 3_000).getSendStatus() == SendStatus.SEND_OK) {
                    acknowledged.add(body);
                    number++;
                }
                Thread.sleep(5);
            } catch (Exception failure) {
                // The broker is away: the same message again.
                Thread.yield();
            }
        }
        producer.shutdown();
    }

    List<String> acknowledged() {
        synchronized (acknowledged) {
            return new ArrayList<>(acknowledged);
        }
    }

    List<String> stop() throws Exception {
        running = false;
        thread.join();
        return acknowledged();
    }
}
