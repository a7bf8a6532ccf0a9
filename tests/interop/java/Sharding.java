import com.alibaba.fastjson.JSONObject;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.selector.SelectMessageQueueByHash;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageAccessor;

/** A producer whose messages say to which sharding key they belong; the key also chooses the queue. */
class Sharding {

    private static final String SHARDING_KEY = "__SHARDINGKEY"; // of 5.x's MessageConst; 4.9 has no name for it

    /** bodies: "key:number". Returns the queue of each. */
    static List<Integer> send(JSONObject wanted) throws Exception {
        DefaultMQProducer producer = Producing.producer(wanted);
        try {
            List<Integer> queues = new ArrayList<>();
            for (Object body : wanted.getJSONArray("bodies")) {
                String key = ((String) body).split(":")[0];
                Message message = new Message(wanted.getString("topic"), ((String) body).getBytes(StandardCharsets.UTF_8));
                MessageAccessor.putProperty(message, SHARDING_KEY, key);
                queues.add(producer.send(message, new SelectMessageQueueByHash(), key).getMessageQueue().getQueueId());
            }
            return queues;
        } finally {
            producer.shutdown();
        }
    }
}
