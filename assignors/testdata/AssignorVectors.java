import java.nio.charset.StandardCharsets;
import java.io.PrintStream;
import java.util.*;
import org.apache.kafka.clients.consumer.*;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.*;
import org.apache.kafka.common.*;

/**
 * Prints what Kafka's own range and round-robin assignors answer to random groups, one
 * JSON object a line. With the jars of kafka-clients 4.4.0 and slf4j-api on CP:
 *
 *   java -cp "$CP" AssignorVectors.java | gzip -9n > kafka-4.4.0.jsonl.gz
 *
 * Topics without partitions are those that no broker knows. Racks are left out.
 */
public class AssignorVectors {
    static final String[] CLIENTS = {"consumer-billing-1", "rdkafka", "sarama", "a", "B", "Zürich", "\uff21", "\ud83d\ude00", ""};

    public static void main(String[] args) {
        PrintStream out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        Random random = new Random(20260101);
        for (int i = 0; i < 320; i++) out.println(vector(random, i));
        out.flush();
    }

    static String vector(Random random, int i) {
        int most = i < 200 ? 5 : 14;
        Map<String, Integer> topics = new TreeMap<>();
        for (int t = random.nextInt(most) + 1; t > 0; t--) {
            String name = (random.nextBoolean() ? "t" : random.nextBoolean() ? "T." : "t_") + random.nextInt(100);
            topics.put(name, random.nextInt(6) == 0 ? 0 : random.nextInt(most * 2) + 1);
        }
        boolean equal = random.nextInt(3) == 0;
        int staticIn10 = random.nextInt(4) * 3;
        Map<String, Subscription> members = new HashMap<>();
        List<String> json = new ArrayList<>();
        int count = random.nextInt(most) + 1;
        for (int m = 0; m < count; m++) {
            List<String> subscribed = new ArrayList<>();
            for (String topic : topics.keySet())
                if (equal || random.nextInt(5) < 3) subscribed.add(topic);
            String id = CLIENTS[random.nextInt(CLIENTS.length)] + "-" + new UUID(random.nextLong(), random.nextLong());
            Optional<String> instance = random.nextInt(10) < staticIn10
                ? Optional.of("host-" + m * 37 % 100) : Optional.empty();
            Subscription s = new Subscription(subscribed);
            s.setGroupInstanceId(instance);
            members.put(id, s);
            json.add("{\"id\":" + quote(id) + ",\"instance\":" + quote(instance.orElse("")) + ",\"topics\":" + quoteAll(subscribed) + "}");
        }
        StringJoiner counts = new StringJoiner(",", "{", "}");
        topics.forEach((topic, n) -> counts.add(quote(topic) + ":" + n));
        return "{\"topics\":" + counts + ",\"members\":[" + String.join(",", json) + "]"
            + ",\"range\":" + answer(new RangeAssignor(), topics, members)
            + ",\"roundrobin\":" + answer(new RoundRobinAssignor(), topics, members) + "}";
    }

    static String answer(ConsumerPartitionAssignor assignor, Map<String, Integer> topics, Map<String, Subscription> members) {
        Node node = new Node(0, "localhost", 9092);
        Node[] nodes = {node};
        List<PartitionInfo> infos = new ArrayList<>();
        topics.forEach((topic, n) -> {
            for (int p = 0; p < n; p++) infos.add(new PartitionInfo(topic, p, node, nodes, nodes));
        });
        Cluster cluster = new Cluster("c", List.of(node), infos, Set.of(), Set.of());
        Map<String, Assignment> result = new TreeMap<>(assignor.assign(cluster, new GroupSubscription(members)).groupAssignment());
        StringJoiner all = new StringJoiner(",", "{", "}");
        result.forEach((id, assignment) -> {
            List<String> tps = new ArrayList<>();
            for (TopicPartition tp : assignment.partitions()) tps.add(tp.toString());
            if (!tps.isEmpty()) all.add(quote(id) + ":" + quoteAll(tps));
        });
        return all.toString();
    }

    static String quoteAll(List<String> list) {
        StringJoiner all = new StringJoiner(",", "[", "]");
        for (String s : list) all.add(quote(s));
        return all.toString();
    }

    static String quote(String s) {
        return "\"" + s + "\"";
    }
}
