// A small application over Apache's gRPC client for Java: sends or consumes through the endpoint given, prints one
// marked JSON line with the result, and ends.
//
//   Walk send ENDPOINT TOPIC TAG BODY...          Walk fifo ENDPOINT TOPIC GROUP BODY...
//   Walk delay ENDPOINT TOPIC MILLISECONDS BODY...  Walk transact ENDPOINT TOPIC CHECKS BODY...
//   Walk simple ENDPOINT TOPIC GROUP TAGS COUNT   Walk push ENDPOINT TOPIC GROUP TAGS COUNT
//   Walk fail ENDPOINT TOPIC GROUP TAGS COUNT     (a push consumer that fails each delivery)
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.rocketmq.client.apis.ClientConfiguration;
import org.apache.rocketmq.client.apis.ClientServiceProvider;
import org.apache.rocketmq.client.apis.consumer.ConsumeResult;
import org.apache.rocketmq.client.apis.consumer.FilterExpression;
import org.apache.rocketmq.client.apis.consumer.FilterExpressionType;
import org.apache.rocketmq.client.apis.consumer.SimpleConsumer;
import org.apache.rocketmq.client.apis.message.MessageBuilder;
import org.apache.rocketmq.client.apis.message.MessageView;
import org.apache.rocketmq.client.apis.producer.Producer;
import org.apache.rocketmq.client.apis.producer.ProducerBuilder;
import org.apache.rocketmq.client.apis.producer.Transaction;
import org.apache.rocketmq.client.apis.producer.TransactionResolution;

public class Walk {
  static final long LIMIT_S = 60;
  static final ClientServiceProvider PROVIDER = ClientServiceProvider.loadService();
  static ClientConfiguration configuration;
  static String topic;

  public static void main(String[] words) throws Exception {
    configuration = ClientConfiguration.newBuilder().setEndpoints(words[1]).enableSsl(false)
        .setRequestTimeout(Duration.ofSeconds(5)).build();
    topic = words[2];
    List<String> bodies = Arrays.asList(words).subList(Math.min(4, words.length), words.length);
    List<String> done;
    switch (words[0]) {
      case "send": done = send(bodies, builder -> builder.setTag(words[3])); break;
      case "fifo": done = send(bodies, builder -> builder.setMessageGroup(words[3])); break;
      case "delay": {
        long later = Long.parseLong(words[3]);
        done = send(bodies, builder -> builder.setDeliveryTimestamp(System.currentTimeMillis() + later));
        break;
      }
      case "transact": done = transact(bodies, Integer.parseInt(words[3])); break;
      case "simple": done = simple(words[3], words[4], Integer.parseInt(words[5])); break;
      case "push": done = push(words[3], words[4], Integer.parseInt(words[5]), ConsumeResult.SUCCESS); break;
      case "fail": done = push(words[3], words[4], Integer.parseInt(words[5]), ConsumeResult.FAILURE); break;
      default: throw new IllegalArgumentException(words[0]);
    }
    System.out.println("@@{\"done\":[" + String.join(",", done) + "]}");
    System.out.flush();
    Runtime.getRuntime().halt(0);
  }

  interface Dressing { MessageBuilder put(MessageBuilder builder); }

  static MessageBuilder message(String body) {
    return PROVIDER.newMessageBuilder().setTopic(topic).setKeys("key of " + body)
        .addProperty("colour", "blue").setBody(body.getBytes(StandardCharsets.UTF_8));
  }

  static List<String> send(List<String> bodies, Dressing dressing) throws Exception {
    List<String> ids = new ArrayList<>();
    try (Producer producer = PROVIDER.newProducerBuilder().setClientConfiguration(configuration).setTopics(topic).build()) {
      for (String body : bodies) {
        ids.add(text(producer.send(dressing.put(message(body)).build()).getMessageId().toString()));
      }
    }
    return ids;
  }

  /** Each body says its fate: "commit ...", "rollback ...", and others are left undecided: the check commits them. */
  static List<String> transact(List<String> bodies, int checks) throws Exception {
    List<String> asked = Collections.synchronizedList(new ArrayList<>());
    CountDownLatch enough = new CountDownLatch(checks);
    ProducerBuilder builder = PROVIDER.newProducerBuilder().setClientConfiguration(configuration).setTopics(topic);
    builder.setTransactionChecker(view -> {
      asked.add(text(body(view)));
      enough.countDown();
      return TransactionResolution.COMMIT;
    });
    try (Producer producer = builder.build()) {
      for (String body : bodies) {
        Transaction transaction = producer.beginTransaction();
        producer.send(message(body).build(), transaction);
        if (body.startsWith("commit")) transaction.commit();
        if (body.startsWith("rollback")) transaction.rollback();
      }
      enough.await(LIMIT_S, TimeUnit.SECONDS);
      Thread.sleep(500);  // the answer to the last check is on its way
    }
    return asked;
  }

  static List<String> simple(String group, String tags, int count) throws Exception {
    List<String> received = new ArrayList<>();
    long end = System.nanoTime() + TimeUnit.SECONDS.toNanos(LIMIT_S);
    try (SimpleConsumer consumer = PROVIDER.newSimpleConsumerBuilder().setClientConfiguration(configuration)
        .setConsumerGroup(group).setAwaitDuration(Duration.ofSeconds(5))
        .setSubscriptionExpressions(Collections.singletonMap(topic, new FilterExpression(tags, FilterExpressionType.TAG)))
        .build()) {
      while (received.size() < count && System.nanoTime() < end) {
        try {
          for (MessageView view : consumer.receive(16, Duration.ofSeconds(20))) {
            received.add(json(view));
            consumer.ack(view);
          }
        } catch (Exception fault) {
          System.err.println(fault);  // the server is away: it comes back
          Thread.sleep(200);
        }
      }
    }
    return received;
  }

  static List<String> push(String group, String tags, int count, ConsumeResult result) throws Exception {
    List<String> received = Collections.synchronizedList(new ArrayList<>());
    CountDownLatch enough = new CountDownLatch(count);
    // Not closed: that would wait for its long polls, half a minute. It dies with the program, as clients do.
    PROVIDER.newPushConsumerBuilder().setClientConfiguration(configuration).setConsumerGroup(group)
        .setSubscriptionExpressions(Collections.singletonMap(topic, new FilterExpression(tags, FilterExpressionType.TAG)))
        .setMessageListener(view -> {
          received.add(json(view));
          enough.countDown();
          return result;
        }).build();
    enough.await(LIMIT_S, TimeUnit.SECONDS);
    Thread.sleep(500);  // acks of the last ones are on their way
    return received;
  }

  static String body(MessageView view) {
    return StandardCharsets.UTF_8.decode(view.getBody()).toString();
  }

  static String json(MessageView view) {
    return "{\"body\":" + text(body(view)) + ",\"tag\":" + text(view.getTag().orElse("")) + ",\"attempt\":"
        + view.getDeliveryAttempt() + ",\"colour\":" + text(view.getProperties().getOrDefault("colour", "")) + "}";
  }

  static String text(String value) {
    return "\"" + value.replace("\\", "\\\\").replace("\"", "\\\"") + "\"";
  }
}
