import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.rocketmq.client.ClientConfig;
import org.apache.rocketmq.client.producer.DefaultMQProducer;

/**
 * Connections that outlive the producers and consumers on them. A client of 5.x takes three seconds to close its last
 * one; a producer that stays keeps it open. Members of one group need one each.
 */
class Instances {

    private static final Map<String, DefaultMQProducer> KEEPERS = new HashMap<>();
    private static final Map<String, List<String>> TAKEN = new HashMap<>();

    /** Gives the client the first connection of these name servers that its group has no member on. */
    static synchronized void join(ClientConfig client, String group, String servers) throws Exception {
        List<String> taken = TAKEN.computeIfAbsent(group, key -> new ArrayList<>());
        int number = 0;
        while (taken.contains(name(servers, number))) {
            number++;
        }
        String name = name(servers, number);
        if (!KEEPERS.containsKey(name)) {
            DefaultMQProducer keeper = new DefaultMQProducer("KEEPER");
            prepare(keeper, servers, name);
            keeper.start();
            KEEPERS.put(name, keeper);
        }
        taken.add(name);
        prepare(client, servers, name);
    }

    static synchronized void leave(ClientConfig client, String group) {
        TAKEN.get(group).remove(client.getInstanceName());
    }

    private static String name(String servers, int number) {
        // With the process: two clients with one name would get each other's replies.
        return "I" + number + "_" + ProcessHandle.current().pid() + "_" + servers.replaceAll("\\W", "_");
    }

    private static void prepare(ClientConfig client, String servers, String name) {
        client.setNamesrvAddr(servers);
        client.setInstanceName(name);
        client.setPollNameServerInterval(1_000);
        client.setPersistConsumerOffsetInterval(500);
        client.setHeartbeatBrokerInterval(1_000); // for the reason, see Client.consume
    }
}
