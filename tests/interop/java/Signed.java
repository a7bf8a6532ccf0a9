import com.alibaba.fastjson.JSON;
import java.nio.charset.StandardCharsets;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CopyOnWriteArrayList;
import org.apache.rocketmq.acl.common.AclClientRPCHook;
import org.apache.rocketmq.acl.common.SessionCredentials;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueAveragely;
import org.apache.rocketmq.client.exception.MQClientException;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.remoting.RPCHook;

/**
 * Sends, consumes and looks a message up by its unique id with an access key, as an application does that was set up by RocketMQ's documents.
 * Arguments: name servers, topic, group, count, limit in ms, access key, secret key.
 */
public class Signed {

    static final int NO_MESSAGE = 208;

    public static void main(String[] args) throws Exception {
        Impatience.begin();
        RPCHook hook = new AclClientRPCHook(new SessionCredentials(args[5], args[6]));
        int count = Integer.parseInt(args[3]);
        Map<String, Object> line = new LinkedHashMap<>();
        try {
            DefaultMQProducer producer = new DefaultMQProducer(args[2] + "-producer", hook);
            producer.setNamesrvAddr(args[0]);
            producer.setSendMsgTimeout(10_000);
            producer.start();
            String id = "";
            for (int i = 0; i < count; i++) {
                byte[] body = ("signed" + i).getBytes(StandardCharsets.UTF_8);
                id = producer.send(new Message(args[1], "TagA", body)).getMsgId();
            }
            List<String> bodies = new CopyOnWriteArrayList<>();
            DefaultMQPushConsumer consumer =
                new DefaultMQPushConsumer(args[2], hook, new AllocateMessageQueueAveragely());
            consumer.setNamesrvAddr(args[0]);
            consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
            consumer.subscribe(args[1], "*");
            consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
                messages.forEach(one -> bodies.add(new String(one.getBody(), StandardCharsets.UTF_8)));
                return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
            });
            consumer.start();
            long end = System.currentTimeMillis() + Long.parseLong(args[4]);
            while (bodies.size() < count && System.currentTimeMillis() < end) {
                Thread.sleep(20);
            }
            consumer.shutdown();
            while (count > 0 && !isFound(producer, args[1], id)) {
                if (System.currentTimeMillis() > end) {
                    throw new IllegalStateException("no message of the id " + id);
                }
                Thread.sleep(20);
            }
            producer.shutdown();
            line.put("done", bodies);
        } catch (Throwable failure) {
            line.put("done", failure.toString());
        }
        System.out.println("@@" + JSON.toJSONString(line));
        System.out.flush();
        System.exit(0);
    }

    /** Clients up to 4.9.3 say that they mean an id only when they have signed the request. */
    private static boolean isFound(DefaultMQProducer producer, String topic, String id) throws Exception {
        try {
            return producer.getDefaultMQProducerImpl().queryMessageByUniqKey(topic, id) != null;
        } catch (MQClientException notYet) {
            if (notYet.getResponseCode() != NO_MESSAGE) {
                throw notYet;
            }
            return false;
        }
    }
}
