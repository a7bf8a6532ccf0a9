import com.alibaba.fastjson.JSONObject;
import java.lang.reflect.Method;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Collection;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.TreeSet;
import org.apache.rocketmq.client.QueryResult;
import org.apache.rocketmq.client.consumer.DefaultLitePullConsumer;
import org.apache.rocketmq.client.consumer.DefaultMQPullConsumer;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.MessageSelector;
import org.apache.rocketmq.client.consumer.PullResult;
import org.apache.rocketmq.client.consumer.PullStatus;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.ConsumeOrderlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.consumer.listener.MessageListenerOrderly;
import org.apache.rocketmq.common.UtilAll;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/** A consumer of one kind that keeps what it received until it is asked; and the client that pulls by hand. */
class Consuming {

    private final List<Map<String, Object>> received = new ArrayList<>();
    private DefaultMQPushConsumer push;
    private DefaultLitePullConsumer lite;
    private final String group;
    private Thread polling;
    private volatile boolean running = true;

    private Consuming(String group) {
        this.group = group;
    }

    /** kind: push, orderly, broadcast, assigned (by brokers, which may let it pop) or lite; from: first, last or a time in ms */
    static Consuming start(JSONObject wanted) throws Exception {
        Consuming consuming = new Consuming(wanted.getString("group"));
        if (wanted.getString("kind").equals("lite")) {
            consuming.startLite(wanted);
        } else {
            consuming.startPush(wanted);
        }
        return consuming;
    }

    private void startPush(JSONObject wanted) throws Exception {
        push = wanted.containsKey("trace")
            ? new DefaultMQPushConsumer(group, true, wanted.getString("trace"))
            : new DefaultMQPushConsumer(group);
        Instances.join(push, group, wanted.getString("servers"));
        if (wanted.containsKey("namespace")) {
            push.setNamespace(wanted.getString("namespace"));
        }
        String from = wanted.getString("from");
        if (from.equals("first")) {
            push.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        } else if (from.equals("last")) {
            push.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET);
        } else {
            push.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_TIMESTAMP);
            push.setConsumeTimestamp(UtilAll.timeMillisToHumanString3(Long.parseLong(from)));
        }
        push.subscribe(wanted.getString("topic"), selector(wanted));
        if (wanted.getString("kind").equals("orderly")) {
            push.registerMessageListener((MessageListenerOrderly) (messages, context) -> {
                handle(messages, wanted);
                return ConsumeOrderlyStatus.SUCCESS;
            });
        } else {
            push.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
                handle(messages, wanted);
                return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
            });
        }
        if (wanted.getString("kind").equals("broadcast")) {
            broadcasting(push);
        }
        if (wanted.getString("kind").equals("assigned")) {
            call(push, "setClientRebalance", false); // 4.9 has no such method
            call(push, "setPopInvisibleTime", wanted.getLongValue("invisible"));
        }
        push.start();
    }

    /** By tags, or by what stands behind "SQL92:". */
    private static MessageSelector selector(JSONObject wanted) {
        String tags = wanted.getString("tags");
        return tags.startsWith("SQL92:") ? MessageSelector.bySql(tags.substring(6)) : MessageSelector.byTag(tags);
    }

    /** The enum for it lives in another package in each major version. */
    @SuppressWarnings({"unchecked", "rawtypes"})
    private static void broadcasting(DefaultMQPushConsumer consumer) throws Exception {
        for (Method method : DefaultMQPushConsumer.class.getMethods()) {
            if (method.getName().equals("setMessageModel")) {
                method.invoke(consumer, Enum.valueOf((Class<Enum>) method.getParameterTypes()[0], "BROADCASTING"));
            }
        }
    }

    private static void call(DefaultMQPushConsumer consumer, String name, Object argument) throws Exception {
        for (Method method : DefaultMQPushConsumer.class.getMethods()) {
            if (method.getName().equals(name) && method.getParameterCount() == 1) {
                method.invoke(consumer, argument);
                return;
            }
        }
        throw new IllegalStateException("this version has no " + name);
    }

    private void startLite(JSONObject wanted) throws Exception {
        lite = new DefaultLitePullConsumer(group);
        Instances.join(lite, group, wanted.getString("servers"));
        lite.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        lite.subscribe(wanted.getString("topic"), selector(wanted));
        lite.start();
        polling = new Thread(() -> {
            while (running) {
                keep(lite.poll(200));
            }
        });
        polling.start();
    }

    /** As slowly as wanted, so that a test can come in between. */
    private void handle(Collection<MessageExt> messages, JSONObject wanted) {
        keep(messages);
        for (MessageExt message : messages) {
            if (message.getReconsumeTimes() < wanted.getIntValue("failures")) {
                throw new IllegalStateException("as the test wants it");
            }
        }
        try {
            Thread.sleep(wanted.getLongValue("pause"));
        } catch (InterruptedException end) {
            Thread.currentThread().interrupt();
        }
    }

    private void keep(Collection<MessageExt> messages) {
        synchronized (received) {
            for (MessageExt message : messages) {
                Map<String, Object> one = described(message);
                one.put("at", System.nanoTime()); // of the machine, so that two JVMs can be compared
                received.add(one);
            }
        }
    }

    static Map<String, Object> described(MessageExt message) {
        Map<String, Object> one = new LinkedHashMap<>();
        one.put("body", new String(message.getBody(), StandardCharsets.UTF_8));
        one.put("topic", message.getTopic());
        one.put("tag", message.getTags());
        one.put("key", message.getKeys());
        one.put("colour", message.getUserProperty("colour"));
        one.put("broker", message.getBrokerName());
        one.put("queue", message.getQueueId());
        one.put("offset", message.getQueueOffset());
        one.put("id", message.getMsgId());
        one.put("stored", message.getStoreTimestamp());
        one.put("times", message.getReconsumeTimes());
        return one;
    }

    List<Map<String, Object>> received() {
        synchronized (received) {
            return new ArrayList<>(received);
        }
    }

    /** broker:queue of all that this consumer owns now */
    Collection<String> queues() throws Exception {
        Collection<String> names = new TreeSet<>();
        Collection<MessageQueue> owned = push != null
            ? push.getDefaultMQPushConsumerImpl().getRebalanceImpl().getProcessQueueTable().keySet()
            : lite.assignment();
        for (MessageQueue queue : owned) {
            if (!queue.getTopic().contains("%RETRY%")) {
                names.add(queue.getBrokerName() + ":" + queue.getQueueId());
            }
        }
        return names;
    }

    /** All that was received until the end. */
    List<Map<String, Object>> stop() throws Exception {
        running = false;
        if (push != null) {
            push.shutdown();
            Instances.leave(push, group);
        } else {
            polling.join();
            lite.commitSync(); // 4.9 forgets what it polled in its last seconds
            lite.shutdown();
            Instances.leave(lite, group);
        }
        return received();
    }

    /** Pull by hand from where the group stands to the end of every queue, and commit. */
    static List<Map<String, Object>> pull(JSONObject wanted) throws Exception {
        DefaultMQPullConsumer consumer = byHand(wanted);
        try {
            List<Map<String, Object>> all = new ArrayList<>();
            for (MessageQueue queue : consumer.fetchSubscribeMessageQueues(wanted.getString("topic"))) {
                long committed = consumer.fetchConsumeOffset(queue, true);
                long offset = committed >= 0 ? committed : consumer.minOffset(queue);
                while (true) {
                    PullResult result = consumer.pull(queue, wanted.getString("tags"), offset, 32);
                    offset = result.getNextBeginOffset();
                    if (result.getPullStatus() == PullStatus.FOUND) {
                        result.getMsgFoundList().forEach(message -> all.add(described(message)));
                    } else if (result.getPullStatus() == PullStatus.NO_NEW_MSG) {
                        break;
                    }
                }
                if (offset != consumer.maxOffset(queue)) {
                    throw new IllegalStateException(queue + " ended at " + offset);
                }
                consumer.getOffsetStore().updateConsumeOffsetToBroker(queue, offset, false);
            }
            return all;
        } finally {
            consumer.shutdown();
            Instances.leave(consumer, wanted.getString("group"));
        }
    }

    /** What the broker knows of a queue: its ends, and the first offset at or after a time. */
    static Map<String, Object> look(JSONObject wanted) throws Exception {
        DefaultMQPullConsumer consumer = byHand(wanted);
        try {
            Map<String, Object> found = new TreeMap<>();
            for (MessageQueue queue : consumer.fetchSubscribeMessageQueues(wanted.getString("topic"))) {
                Map<String, Object> one = new LinkedHashMap<>();
                one.put("min", consumer.minOffset(queue));
                one.put("max", consumer.maxOffset(queue));
                one.put("at", consumer.searchOffset(queue, wanted.getLongValue("time")));
                one.put("earliest", consumer.earliestMsgStoreTime(queue));
                found.put(queue.getBrokerName() + ":" + queue.getQueueId(), one);
            }
            return found;
        } finally {
            consumer.shutdown();
            Instances.leave(consumer, wanted.getString("group"));
        }
    }

    /** Messages by key, and one by its id. */
    static List<Map<String, Object>> query(JSONObject wanted) throws Exception {
        DefaultMQPullConsumer consumer = byHand(wanted);
        try {
            List<Map<String, Object>> all = new ArrayList<>();
            if (wanted.containsKey("id")) {
                all.add(described(consumer.viewMessage(wanted.getString("topic"), wanted.getString("id"))));
            } else {
                QueryResult result = consumer.queryMessage(
                    wanted.getString("topic"), wanted.getString("key"), 32, 0, Long.MAX_VALUE);
                result.getMessageList().forEach(message -> all.add(described(message)));
            }
            return all;
        } finally {
            consumer.shutdown();
            Instances.leave(consumer, wanted.getString("group"));
        }
    }

    private static DefaultMQPullConsumer byHand(JSONObject wanted) throws Exception {
        DefaultMQPullConsumer consumer = new DefaultMQPullConsumer(wanted.getString("group"));
        Instances.join(consumer, wanted.getString("group"), wanted.getString("servers"));
        consumer.start();
        return consumer;
    }
}
