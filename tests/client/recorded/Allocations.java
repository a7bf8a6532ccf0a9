// Asks Java's own strategies, to record what ours must answer. By hand:
//   javac -cp 'lib/*' Allocations.java && java -cp 'lib/*:.' Allocations > allocations.json     (lib: RocketMQ 5.5.0)

import java.util.*;
import org.apache.rocketmq.client.consumer.AllocateMessageQueueStrategy;
import org.apache.rocketmq.client.consumer.rebalance.*;
import org.apache.rocketmq.common.message.MessageQueue;

public class Allocations {
    static final AllocateMachineRoomNearby.MachineRoomResolver ROOMS = new AllocateMachineRoomNearby.MachineRoomResolver() {
        public String brokerDeployIn(MessageQueue queue) { return queue.getBrokerName().split("@")[0]; }
        public String consumerDeployIn(String id) { return id.split("@")[0]; }
    };

    public static void main(String[] arguments) {
        AllocateMessageQueueByMachineRoom room = new AllocateMessageQueueByMachineRoom();
        room.setConsumeridcs(new HashSet<>(Arrays.asList("east", "west")));
        List<AllocateMessageQueueStrategy> strategies = Arrays.asList(
            new AllocateMessageQueueAveragely(), new AllocateMessageQueueAveragelyByCircle(), room,
            new AllocateMachineRoomNearby(new AllocateMessageQueueAveragely(), ROOMS),
            new AllocateMachineRoomNearby(new AllocateMessageQueueAveragelyByCircle(), ROOMS),
            new AllocateMessageQueueConsistentHash());
        String[] brokers = {"east@a", "east@b", "north@a", "west@a"};
        String[][] groups = {
            {"east@1"}, {"east@1", "west@1"}, {"east@1", "east@2", "west@1"}, {"east@1", "east@2", "south@1", "west@1", "west@2"},
            {"east@1", "east@2", "east@3", "south@1", "west@1", "west@2", "west@3"}};
        List<String> lines = new ArrayList<>();
        for (int each : new int[] {1, 3, 8}) {
            for (int used = 1; used <= brokers.length; used++) {
                List<MessageQueue> queues = new ArrayList<>();
                for (int b = 0; b < used; b++)
                    for (int q = 0; q < each; q++) queues.add(new MessageQueue("Orders", brokers[b], q));
                for (String[] members : groups)
                    for (AllocateMessageQueueStrategy strategy : strategies) lines.add(ask(strategy, queues, Arrays.asList(members), used, each));
            }
        }
        System.out.println("[\n" + String.join(",\n", lines) + "\n]");
    }

    static String ask(AllocateMessageQueueStrategy strategy, List<MessageQueue> queues, List<String> members, int brokers, int each) {
        StringBuilder line = new StringBuilder("{\"strategy\":\"" + strategy.getName() + "\",\"brokers\":" + brokers + ",\"each\":" + each + ",\"taken\":{");
        for (int i = 0; i < members.size(); i++) {
            line.append(i == 0 ? "" : ",").append("\"" + members.get(i) + "\":[");
            List<MessageQueue> taken = strategy.allocate("group", members.get(i), queues, members);
            for (int j = 0; j < taken.size(); j++) line.append(j == 0 ? "" : ",").append(queues.indexOf(taken.get(j)));
            line.append("]");
        }
        return line + "}}";
    }
}
