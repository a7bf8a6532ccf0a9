import com.alibaba.fastjson.JSONObject;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Collection;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.CountDownLatch;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyContext;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.ConsumeOrderlyContext;
import org.apache.rocketmq.client.consumer.listener.ConsumeOrderlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.consumer.listener.MessageListenerOrderly;
import org.apache.rocketmq.client.impl.consumer.ProcessQueue;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.MessageExt;

/** A consumer that fails as it is told, and keeps every delivery. */
class Retrying {

    private final List<Map<String, Object>> deliveries = new ArrayList<>();
    private final DefaultMQPushConsumer push;
    private final String group;
    private final CountDownLatch stopped = new CountDownLatch(1);
    private int calls;

    /**
     * kind: push or orderly; fails: so many deliveries of each message fail; level: its own delay level; max: most
     * retries; batch: messages of one call; ack: index of the last message of a call that succeeded; suspend: ms.
     * The first delivery of a body that starts with "stuck" does not end before the consumer is stopped.
     */
    private Retrying(JSONObject wanted) throws Exception {
        group = wanted.getString("group");
        push = new DefaultMQPushConsumer(group);
        Instances.join(push, group, wanted.getString("servers"));
        push.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        push.subscribe(wanted.getString("topic"), "*");
        if (wanted.containsKey("max")) {
            push.setMaxReconsumeTimes(wanted.getIntValue("max"));
        }
        if (wanted.containsKey("batch")) {
            push.setConsumeMessageBatchMaxSize(wanted.getIntValue("batch"));
            push.setConsumeThreadMin(1);
            push.setConsumeThreadMax(1);
        }
        if (wanted.getString("kind").equals("orderly")) {
            push.registerMessageListener((MessageListenerOrderly) (messages, context) -> inOrder(messages, context, wanted));
        } else {
            push.registerMessageListener((MessageListenerConcurrently) (messages, context) -> atOnce(messages, context, wanted));
        }
        push.start();
    }

    static Retrying start(JSONObject wanted) throws Exception {
        return new Retrying(wanted);
    }

    private ConsumeConcurrentlyStatus atOnce(List<MessageExt> messages, ConsumeConcurrentlyContext context, JSONObject wanted) {
        boolean fails = keep(messages, wanted.getIntValue("fails"));
        hang(messages);
        if (wanted.containsKey("level")) {
            context.setDelayLevelWhenNextConsume(wanted.getIntValue("level"));
        }
        if (wanted.containsKey("ack")) {
            context.setAckIndex(fails ? wanted.getIntValue("ack") : Integer.MAX_VALUE);
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        }
        return fails ? ConsumeConcurrentlyStatus.RECONSUME_LATER : ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
    }

    private ConsumeOrderlyStatus inOrder(List<MessageExt> messages, ConsumeOrderlyContext context, JSONObject wanted) {
        boolean fails = keep(messages, wanted.getIntValue("fails"));
        context.setSuspendCurrentQueueTimeMillis(wanted.getLongValue("suspend"));
        return fails ? ConsumeOrderlyStatus.SUSPEND_CURRENT_QUEUE_A_MOMENT : ConsumeOrderlyStatus.SUCCESS;
    }

    /** Whether this delivery is to fail; the body "good" never does. */
    private boolean keep(List<MessageExt> messages, int fails) {
        boolean failing = false;
        synchronized (deliveries) {
            calls++;
            for (MessageExt message : messages) {
                Map<String, Object> one = new LinkedHashMap<>();
                String body = new String(message.getBody(), StandardCharsets.UTF_8);
                one.put("body", body);
                one.put("call", calls);
                one.put("topic", message.getTopic());
                one.put("times", message.getReconsumeTimes());
                one.put("queue", message.getQueueId());
                one.put("id", message.getMsgId());
                one.put("at", System.currentTimeMillis());
                one.put("stored", message.getStoreTimestamp());
                one.put("properties", new TreeMap<>(message.getProperties()));
                deliveries.add(one);
                failing |= !body.startsWith("good") && message.getReconsumeTimes() < fails;
            }
        }
        return failing;
    }

    private void hang(List<MessageExt> messages) {
        MessageExt first = messages.get(0);
        if (first.getReconsumeTimes() == 0 && new String(first.getBody(), StandardCharsets.UTF_8).startsWith("stuck")) {
            try {
                stopped.await();
            } catch (InterruptedException end) {
                Thread.currentThread().interrupt();
            }
        }
    }

    /** The client's own look at what takes longer than its consumeTimeout: minutes for its timer, at once here. */
    int expire() {
        push.setConsumeTimeout(0);
        Collection<ProcessQueue> queues =
            push.getDefaultMQPushConsumerImpl().getRebalanceImpl().getProcessQueueTable().values();
        queues.forEach(queue -> queue.cleanExpiredMsg(push));
        return queues.size();
    }

    List<Map<String, Object>> deliveries() {
        synchronized (deliveries) {
            return new ArrayList<>(deliveries);
        }
    }

    List<Map<String, Object>> stop() {
        stopped.countDown();
        push.shutdown();
        Instances.leave(push, group);
        return deliveries();
    }
}
