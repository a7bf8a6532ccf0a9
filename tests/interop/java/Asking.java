import com.alibaba.fastjson.JSONObject;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.exception.RequestTimeoutException;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.utils.MessageUtil;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;

/** Request and reply: a producer that asks and waits, and a consumer that answers. */
class Asking {

    private final DefaultMQPushConsumer consumer;
    private final DefaultMQProducer producer;
    private final List<String> outcomes = new ArrayList<>();

    private Asking(DefaultMQPushConsumer consumer, DefaultMQProducer producer) {
        this.consumer = consumer;
        this.producer = producer;
    }

    /** The answer to each body, or "timed out". */
    static List<String> ask(JSONObject wanted) throws Exception {
        DefaultMQProducer producer = Producing.producer(wanted);
        try {
            List<String> answers = new ArrayList<>();
            for (Object body : wanted.getJSONArray("bodies")) {
                Message message = new Message(wanted.getString("topic"), ((String) body).getBytes(StandardCharsets.UTF_8));
                try {
                    Message answer = producer.request(message, wanted.getLongValue("limit"));
                    answers.add(new String(answer.getBody(), StandardCharsets.UTF_8));
                } catch (RequestTimeoutException late) {
                    answers.add("timed out");
                }
            }
            return answers;
        } finally {
            producer.shutdown();
        }
    }

    /** Answers each message with "re: " and its body, after so many ms; what begins with "silence" is not answered. */
    static Asking answer(JSONObject wanted) throws Exception {
        DefaultMQProducer producer = Producing.producer(wanted);
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(wanted.getString("group"));
        Instances.join(consumer, wanted.getString("group"), wanted.getString("servers"));
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.setPullTimeDelayMillsWhenException(100);
        consumer.subscribe(wanted.getString("topic"), "*");
        Asking asking = new Asking(consumer, producer);
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            messages.forEach(message -> asking.reply(message, wanted.getLongValue("after")));
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        return asking;
    }

    private void reply(MessageExt message, long after) {
        String body = new String(message.getBody(), StandardCharsets.UTF_8);
        if (body.startsWith("silence")) {
            return;
        }
        String outcome;
        try {
            Thread.sleep(after);
            Message reply = MessageUtil.createReplyMessage(message, ("re: " + body).getBytes(StandardCharsets.UTF_8));
            outcome = producer.send(reply, 15_000).getSendStatus().name();
        } catch (Exception failure) {
            outcome = failure.toString();
        }
        synchronized (outcomes) {
            outcomes.add(outcome);
        }
    }

    /** How the sends of the replies ended. */
    List<String> outcomes() {
        synchronized (outcomes) {
            return new ArrayList<>(outcomes);
        }
    }

    List<String> stop() {
        consumer.shutdown();
        Instances.leave(consumer, consumer.getConsumerGroup());
        producer.shutdown();
        return outcomes();
    }
}
