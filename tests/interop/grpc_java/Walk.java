// A small application over Apache's gRPC client for Java: sends or consumes through the endpoint given, prints one
// marked JSON line with the result, and ends.
//
//   Walk send ENDPOINT TOPIC TAG BODY...          Walk fifo ENDPOINT TOPIC GROUP BODY...
//   Walk delay ENDPOINT TOPIC MILLISECONDS BODY...  Walk transact ENDPOINT TOPIC CHECKS BODY...
//   Walk simple ENDPOINT TOPIC GROUP TAGS COUNT   Walk push ENDPOINT TOPIC GROUP TAGS COUNT
//   Walk fail ENDPOINT TOPIC GROUP TAGS COUNT     (a push consumer that fails each delivery)
//   Walk slow ENDPOINT TOPIC GROUP TAGS COUNT MILLISECONDS  (a push consumer that takes so long for each)
//   Walk priority ENDPOINT TOPIC PRIORITY BODY...  Walk recall ENDPOINT TOPIC MILLISECONDS BODY...  (from 5.1 on)
//
// TAGS may be `sql:` and an expression. WALK_TLS=1 asks for TLS, WALK_PAD=n fills bodies with dots to n bytes: they are
// taken off again where a body is shown, beside its size. Consumers print `got BODY` as they go. CLIENT_KEY and
// CLIENT_SECRET sign its calls, CONSUME_LIMIT_S is how long it waits for messages.
import java.lang.reflect.Method;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.rocketmq.client.apis.ClientConfiguration;
import org.apache.rocketmq.client.apis.ClientConfigurationBuilder;
import org.apache.rocketmq.client.apis.ClientServiceProvider;
import org.apache.rocketmq.client.apis.StaticSessionCredentialsProvider;
import org.apache.rocketmq.client.apis.consumer.ConsumeResult;
import org.apache.rocketmq.client.apis.consumer.FilterExpression;
import org.apache.rocketmq.client.apis.consumer.FilterExpressionType;
import org.apache.rocketmq.client.apis.consumer.SimpleConsumer;
import org.apache.rocketmq.client.apis.message.MessageBuilder;
import org.apache.rocketmq.client.apis.message.MessageView;
import org.apache.rocketmq.client.apis.producer.Producer;
import org.apache.rocketmq.client.apis.producer.ProducerBuilder;
import org.apache.rocketmq.client.apis.producer.SendReceipt;
import org.apache.rocketmq.client.apis.producer.Transaction;
import org.apache.rocketmq.client.apis.producer.TransactionResolution;

public class Walk {
  static final long LIMIT_S = Long.parseLong(System.getenv().getOrDefault("CONSUME_LIMIT_S", "60"));
  static final ClientServiceProvider PROVIDER = ClientServiceProvider.loadService();
  static final String DOTS = ".".repeat(Integer.parseInt(System.getenv().getOrDefault("WALK_PAD", "0")));
  static ClientConfiguration configuration;
  static String topic;

  public static void main(String[] words) throws Exception {
    ClientConfigurationBuilder builder = ClientConfiguration.newBuilder().setEndpoints(words[1])
        .setRequestTimeout(Duration.ofSeconds(5));
    try {
      builder.getClass().getMethod("enableSsl", boolean.class).invoke(builder, System.getenv("WALK_TLS") != null);
    } catch (NoSuchMethodException older) {
      System.err.println("this client always speaks TLS");  // 5.0.0
    }
    String key = System.getenv("CLIENT_KEY");
    if (key != null) {
      builder.setCredentialProvider(new StaticSessionCredentialsProvider(key, System.getenv("CLIENT_SECRET")));
    }
    configuration = builder.build();
    topic = words[2];
    List<String> bodies = Arrays.asList(words).subList(Math.min(4, words.length), words.length);
    List<String> done;
    switch (words[0]) {
      case "send": done = send(bodies, one -> one.setTag(words[3])); break;
      case "fifo": done = send(bodies, one -> one.setMessageGroup(words[3])); break;
      case "delay": {
        long later = Long.parseLong(words[3]);
        done = send(bodies, one -> one.setDeliveryTimestamp(System.currentTimeMillis() + later));
        break;
      }
      case "transact": done = transact(bodies, Integer.parseInt(words[3])); break;
      case "simple": done = simple(words[3], words[4], Integer.parseInt(words[5])); break;
      case "push": done = push(words[3], words[4], Integer.parseInt(words[5]), ConsumeResult.SUCCESS, 0); break;
      case "fail": done = push(words[3], words[4], Integer.parseInt(words[5]), ConsumeResult.FAILURE, 0); break;
      case "slow": {
        long pause = Long.parseLong(words[6]);
        done = push(words[3], words[4], Integer.parseInt(words[5]), ConsumeResult.SUCCESS, pause);
        break;
      }
      case "priority": {
        // By name: older clients have neither, and are compiled from the same source.
        Method setPriority = MessageBuilder.class.getMethod("setPriority", int.class);
        int priority = Integer.parseInt(words[3]);
        done = send(bodies, one -> (MessageBuilder) setPriority.invoke(one, priority));
        break;
      }
      case "recall": done = recall(bodies, Long.parseLong(words[3])); break;
      default: throw new IllegalArgumentException(words[0]);
    }
    System.out.println("@@{\"done\":[" + String.join(",", done) + "]}");
    System.out.flush();
    Runtime.getRuntime().halt(0);
  }

  interface Dressing { MessageBuilder put(MessageBuilder builder) throws Exception; }

  static MessageBuilder message(String body) {
    return PROVIDER.newMessageBuilder().setTopic(topic).setKeys("key of " + body)
        .addProperty("colour", "blue").setBody((body + DOTS.substring(Math.min(DOTS.length(), body.length())))
        .getBytes(StandardCharsets.UTF_8));
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

  /** Send each for later and call it back at once; the ids that were recalled. */
  static List<String> recall(List<String> bodies, long later) throws Exception {
    Method handle = SendReceipt.class.getMethod("getRecallHandle");
    Method recall = Producer.class.getMethod("recallMessage", String.class, String.class);
    List<String> ids = new ArrayList<>();
    try (Producer producer = PROVIDER.newProducerBuilder().setClientConfiguration(configuration).setTopics(topic).build()) {
      for (String body : bodies) {
        SendReceipt receipt =
            producer.send(message(body).setDeliveryTimestamp(System.currentTimeMillis() + later).build());
        recall.invoke(producer, topic, handle.invoke(receipt));
        ids.add(text(receipt.getMessageId().toString()));
      }
    }
    return ids;
  }

  static Map<String, FilterExpression> subscription(String tags) {
    FilterExpression wanted = tags.startsWith("sql:")
        ? new FilterExpression(tags.substring(4), FilterExpressionType.SQL92)
        : new FilterExpression(tags, FilterExpressionType.TAG);
    return Collections.singletonMap(topic, wanted);
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
        .setSubscriptionExpressions(subscription(tags))
        .build()) {
      while (received.size() < count && System.nanoTime() < end) {
        try {
          for (MessageView view : consumer.receive(16, Duration.ofSeconds(20))) {
            System.out.println("got " + body(view));
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

  static List<String> push(String group, String tags, int count, ConsumeResult result, long pause)
      throws Exception {
    List<String> received = Collections.synchronizedList(new ArrayList<>());
    CountDownLatch enough = new CountDownLatch(count);
    // Not closed: that would wait for its long polls, half a minute. It dies with the program, as clients do.
    PROVIDER.newPushConsumerBuilder().setClientConfiguration(configuration).setConsumerGroup(group)
        .setSubscriptionExpressions(subscription(tags))
        .setMessageListener(view -> {
          System.out.println("got " + body(view));
          try {
            Thread.sleep(pause);
          } catch (InterruptedException end) {
            return ConsumeResult.FAILURE;
          }
          received.add(json(view));
          enough.countDown();
          return result;
        }).build();
    enough.await(LIMIT_S, TimeUnit.SECONDS);
    Thread.sleep(500);  // acks of the last ones are on their way
    return received;
  }

  static String body(MessageView view) {
    return StandardCharsets.UTF_8.decode(view.getBody()).toString().replaceAll("\\.+$", "");
  }

  static String json(MessageView view) {
    return "{\"body\":" + text(body(view)) + ",\"tag\":" + text(view.getTag().orElse("")) + ",\"attempt\":"
        + view.getDeliveryAttempt() + ",\"colour\":" + text(view.getProperties().getOrDefault("colour", ""))
        + ",\"size\":" + view.getBody().remaining() + "}";
  }

  static String text(String value) {
    return "\"" + value.replace("\\", "\\\\").replace("\"", "\\\"") + "\"";
  }
}
