import com.alibaba.fastjson.JSONObject;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.message.Message;

/** Messages for later: by delay level, by time, and called back. What 4.9 has not is reached by name. */
class Timing {

    /** level, or set and value: setDelayTimeSec, setDelayTimeMs, setDeliverTimeMs (from now, where it is a time) */
    static List<Map<String, Object>> send(JSONObject wanted) throws Exception {
        DefaultMQProducer producer = Producing.producer(wanted);
        try {
            List<Map<String, Object>> all = new ArrayList<>();
            for (Object body : wanted.getJSONArray("bodies")) {
                Message message = new Message(wanted.getString("topic"), "TagA", (String) body,
                    ((String) body).getBytes(StandardCharsets.UTF_8));
                long now = System.currentTimeMillis();
                long value = wanted.getLongValue("value");
                if (wanted.containsKey("level")) {
                    message.setDelayTimeLevel(wanted.getIntValue("level"));
                } else {
                    String setter = wanted.getString("set");
                    long given = setter.equals("setDeliverTimeMs") ? now + value : value;
                    Message.class.getMethod(setter, long.class).invoke(message, given);
                }
                SendResult result = producer.send(message);
                Map<String, Object> one = new LinkedHashMap<>();
                one.put("status", result.getSendStatus().name());
                one.put("id", result.getMsgId());
                one.put("sent", now);
                one.put("handle", handle(result));
                all.add(one);
            }
            return all;
        } finally {
            producer.shutdown();
        }
    }

    private static Object handle(SendResult result) throws Exception {
        try {
            return SendResult.class.getMethod("getRecallHandle").invoke(result);
        } catch (NoSuchMethodException older) {
            return null;
        }
    }

    static Object recall(JSONObject wanted) throws Exception {
        DefaultMQProducer producer = Producing.producer(wanted);
        try {
            return DefaultMQProducer.class.getMethod("recallMessage", String.class, String.class)
                .invoke(producer, wanted.getString("topic"), wanted.getString("handle"));
        } catch (java.lang.reflect.InvocationTargetException failed) {
            throw (Exception) failed.getCause();
        } finally {
            producer.shutdown();
        }
    }
}
