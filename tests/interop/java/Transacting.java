import com.alibaba.fastjson.JSONArray;
import com.alibaba.fastjson.JSONObject;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.rocketmq.client.producer.LocalTransactionState;
import org.apache.rocketmq.client.producer.TransactionListener;
import org.apache.rocketmq.client.producer.TransactionMQProducer;
import org.apache.rocketmq.client.producer.TransactionSendResult;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;

/**
 * A producer of transactional messages. The body of a message is its fate, what the producer says of it: "commit 7",
 * "rollback 7", or "unknown commit 7" for unknown at first and commit when it is asked. The last one goes on.
 */
class Transacting implements TransactionListener {

    private final TransactionMQProducer producer;
    private final String topic;
    private final List<Map<String, Object>> checks = new ArrayList<>();

    private Transacting(JSONObject wanted) throws Exception {
        producer = wanted.containsKey("trace")
            ? new TransactionMQProducer(null, wanted.getString("group"), null, true, wanted.getString("trace"))
            : new TransactionMQProducer(wanted.getString("group"));
        Instances.join(producer, producer.getProducerGroup(), wanted.getString("servers"));
        producer.setSendMsgTimeout(10_000);
        producer.setTransactionListener(this);
        topic = wanted.getString("topic");
    }

    static Transacting start(JSONObject wanted) throws Exception {
        Transacting transacting = new Transacting(wanted);
        transacting.producer.start();
        return transacting;
    }

    List<Map<String, Object>> send(JSONObject wanted) throws Exception {
        List<Map<String, Object>> all = new ArrayList<>();
        JSONArray bodies = wanted.getJSONArray("bodies");
        for (Object body : bodies) {
            Message message = new Message(topic, "TagT", (String) body, ((String) body).getBytes(StandardCharsets.UTF_8));
            wanted.getJSONObject("properties").forEach((name, value) -> property(message, name, (String) value));
            TransactionSendResult result = producer.sendMessageInTransaction(message, null);
            Map<String, Object> one = new LinkedHashMap<>();
            one.put("status", result.getSendStatus().name());
            one.put("state", result.getLocalTransactionState().name());
            one.put("id", result.getMsgId());
            all.add(one);
        }
        return all;
    }

    private static void property(Message message, String name, String value) {
        if (name.equals("DELAY")) {
            message.setDelayTimeLevel(Integer.parseInt(value));
        } else {
            org.apache.rocketmq.common.message.MessageAccessor.putProperty(message, name, value);
        }
    }

    @Override
    public LocalTransactionState executeLocalTransaction(Message message, Object argument) {
        return fate(message, 0);
    }

    @Override
    public LocalTransactionState checkLocalTransaction(MessageExt message) {
        int before;
        synchronized (checks) {
            Map<String, Object> one = new LinkedHashMap<>();
            one.put("body", new String(message.getBody(), StandardCharsets.UTF_8));
            one.put("topic", message.getTopic());
            one.put("transaction", message.getTransactionId());
            one.put("times", message.getProperty("TRANSACTION_CHECK_TIMES"));
            before = (int) checks.stream().filter(each -> each.get("body").equals(one.get("body"))).count();
            checks.add(one);
        }
        return fate(message, before + 1);
    }

    private static LocalTransactionState fate(Message message, int step) {
        String[] words = new String(message.getBody(), StandardCharsets.UTF_8).split(" ");
        switch (words[Math.min(step, words.length - 2)]) {
            case "commit":
                return LocalTransactionState.COMMIT_MESSAGE;
            case "rollback":
                return LocalTransactionState.ROLLBACK_MESSAGE;
            default:
                return LocalTransactionState.UNKNOW;
        }
    }

    List<Map<String, Object>> checks() {
        synchronized (checks) {
            return new ArrayList<>(checks);
        }
    }

    List<Map<String, Object>> stop() {
        producer.shutdown();
        Instances.leave(producer, producer.getProducerGroup());
        return checks();
    }
}
