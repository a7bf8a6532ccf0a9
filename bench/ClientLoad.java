import java.lang.management.ManagementFactory;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.Semaphore;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendCallback;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;

/** The Java client's part of bench/client.py: NAMESRV SECONDS FILLED. One line of JSON at the end. */
public class ClientLoad {

    private static final int IN_FLIGHT = 64;
    private static final int BODY_BYTES = 1024;
    private static final int TOGETHER = 900; // messages to a request, of about 1 MB

    private static final com.sun.management.OperatingSystemMXBean SYSTEM =
        (com.sun.management.OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();

    public static void main(String[] args) {
        try {
            measure(args);
            System.exit(0);
        } catch (Throwable fault) {
            fault.printStackTrace();
            System.exit(1); // the client's own threads would go on
        }
    }

    private static void measure(String[] args) throws Exception {
        String servers = args[0];
        double seconds = Double.parseDouble(args[1]);
        long filled = Long.parseLong(args[2]);
        byte[] body = new byte[BODY_BYTES];
        Arrays.fill(body, (byte) 'x');

        DefaultMQProducer producer = new DefaultMQProducer("bench_java");
        producer.setNamesrvAddr(servers);
        producer.setCompressMsgBodyOverHowmuch(Integer.MAX_VALUE);
        producer.start();
        oneByOne(producer, body, seconds); // what is not compiled yet is slow: a first round that does not count
        many(producer, body, seconds);
        double[] single = oneByOne(producer, body, seconds);
        double[] rate = many(producer, body, seconds);
        double[] together = together(producer, body, seconds);
        double[] read = consume(servers, filled);
        double[] oneway = oneway(producer, body, seconds); // the last: what it leaves in buffers delays what follows
        System.out.printf(
            "@@{\"p50_us\": %.1f, \"p99_us\": %.1f, \"one_cpu_us\": %.2f, \"send_s\": %.1f, \"send_cpu_us\": %.2f,"
                + " \"oneway_s\": %.1f, \"oneway_cpu_us\": %.2f, \"many_s\": %.1f, \"many_cpu_us\": %.2f,"
                + " \"read_s\": %.1f, \"read_cpu_us\": %.2f}%n",
            single[0], single[1], single[2], rate[0], rate[1], oneway[0], oneway[1], together[0], together[1],
            read[0], read[1]);
    }

    private static double[] oneByOne(DefaultMQProducer producer, byte[] body, double seconds) throws Exception {
        long[] took = new long[10_000_000];
        int count = 0;
        long cpu = SYSTEM.getProcessCpuTime();
        long until = System.nanoTime() + (long) (seconds * 1e9);
        for (long now = System.nanoTime(); now < until && count < took.length;) {
            producer.send(new Message("ClientBench", body));
            long end = System.nanoTime();
            took[count++] = end - now;
            now = end;
        }
        double each = (SYSTEM.getProcessCpuTime() - cpu) / 1e3 / count;
        long[] sorted = Arrays.copyOf(took, count);
        Arrays.sort(sorted);
        return new double[] {sorted[count / 2] / 1e3, sorted[(int) (count * 0.99)] / 1e3, each};
    }

    private static double[] many(DefaultMQProducer producer, byte[] body, double seconds) throws Exception {
        Semaphore slots = new Semaphore(IN_FLIGHT);
        AtomicLong done = new AtomicLong();
        AtomicLong failed = new AtomicLong();
        long cpu = SYSTEM.getProcessCpuTime();
        long begin = System.nanoTime();
        long until = begin + (long) (seconds * 1e9);
        while (System.nanoTime() < until) {
            slots.acquire();
            producer.send(new Message("ClientBench", body), new SendCallback() {
                @Override
                public void onSuccess(SendResult result) {
                    done.incrementAndGet();
                    slots.release();
                }

                @Override
                public void onException(Throwable fault) {
                    failed.incrementAndGet();
                    slots.release();
                }
            });
        }
        slots.acquire(IN_FLIGHT);
        double took = (System.nanoTime() - begin) / 1e9;
        double each = (SYSTEM.getProcessCpuTime() - cpu) / 1e3 / Math.max(1, done.get());
        return new double[] {done.get() / took, each};
    }

    private static double[] oneway(DefaultMQProducer producer, byte[] body, double seconds) throws Exception {
        long count = 0;
        long cpu = SYSTEM.getProcessCpuTime();
        long begin = System.nanoTime();
        for (long until = begin + (long) (seconds * 1e9); System.nanoTime() < until; count++) {
            producer.sendOneway(new Message("ClientBench", body));
        }
        double took = (System.nanoTime() - begin) / 1e9;
        return new double[] {count / took, (SYSTEM.getProcessCpuTime() - cpu) / 1e3 / count};
    }

    private static double[] together(DefaultMQProducer producer, byte[] body, double seconds) throws Exception {
        long count = 0;
        long cpu = SYSTEM.getProcessCpuTime();
        long begin = System.nanoTime();
        for (long until = begin + (long) (seconds * 1e9); System.nanoTime() < until; count += TOGETHER) {
            List<Message> messages = new ArrayList<>();
            for (int i = 0; i < TOGETHER; i++) {
                messages.add(new Message("ClientBench", body));
            }
            producer.send(messages);
        }
        double took = (System.nanoTime() - begin) / 1e9;
        return new double[] {count / took, (SYSTEM.getProcessCpuTime() - cpu) / 1e3 / count};
    }

    private static double[] consume(String servers, long wanted) throws Exception {
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer("bench_java_" + System.nanoTime());
        consumer.setNamesrvAddr(servers);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.subscribe("ClientBenchRead", "*");
        AtomicLong seen = new AtomicLong();
        AtomicLong first = new AtomicLong();
        AtomicLong cpu = new AtomicLong();
        CountDownLatch enough = new CountDownLatch(1);
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            if (first.compareAndSet(0, System.nanoTime())) {
                cpu.set(SYSTEM.getProcessCpuTime());
            }
            if (seen.addAndGet(messages.size()) >= wanted) {
                enough.countDown();
            }
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        enough.await();
        double took = (System.nanoTime() - first.get()) / 1e9;
        double each = (SYSTEM.getProcessCpuTime() - cpu.get()) / 1e3 / seen.get();
        consumer.shutdown();
        return new double[] {seen.get() / took, each};
    }
}
