import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.io.PrintStream;
import java.util.*;
import org.apache.kafka.clients.consumer.*;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.*;
import org.apache.kafka.common.*;

/**
 * Prints what Kafka's own assignors answer to random groups, one JSON object a line. With
 * the jars of kafka-clients 4.4.0 and slf4j-api on CP:
 *
 *   java -cp "$CP" AssignorVectors.java | gzip -9n > kafka-4.4.0.jsonl.gz
 *   java -cp "$CP" AssignorVectors.java racks | gzip -9n > kafka-4.4.0-racks.jsonl.gz
 *   java -cp "$CP" AssignorVectors.java sticky | gzip -9n > kafka-4.4.0-sticky.jsonl.gz
 *
 * Topics without partitions are those that no broker knows. Without an argument it asks
 * range and round robin, and leaves out racks; "racks" asks range, with racks; "sticky"
 * asks the sticky ones, each group several times while members and topics come and go.
 */
@SuppressWarnings("removal")
public class AssignorVectors {
    static final String[] CLIENTS = {"consumer-billing-1", "rdkafka", "sarama", "a", "B", "Zürich", "\uff21", "\ud83d\ude00", ""};

    public static void main(String[] args) {
        PrintStream out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        Random random = new Random(20260101);
        switch (args.length == 0 ? "" : args[0]) {
            case "racks" -> {
                for (int i = 0; i < 400; i++) out.println(rackVector(random));
            }
            case "sticky" -> {
                for (int i = 0; i < 60; i++) new StickyGroup(random, i).run(out);
                for (int i = 0; i < 12; i++) new StickyGroup(random, 0).runNine(out);
            }
            default -> {
                for (int i = 0; i < 320; i++) out.println(vector(random, i));
            }
        }
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

    static String rackVector(Random random) {
        int racks = random.nextInt(4) + 1, replicas = random.nextInt(3) + 1;
        boolean equal = random.nextBoolean(), alike = random.nextInt(3) > 0;
        int known = random.nextInt(4); // one in so many brokers and members has no rack; 0: none lacks it
        List<Node> nodes = new ArrayList<>();
        for (int n = 0; n < 6; n++)
            nodes.add(new Node(n, "localhost", 9092, known > 0 && random.nextInt(known + 2) == 0 ? null : "r" + n % racks));
        Map<String, List<PartitionInfo>> topics = new TreeMap<>();
        int partitions = random.nextInt(9) + 1, first = random.nextInt(6);
        for (int t = random.nextInt(4) + 1; t > 0; t--) {
            List<PartitionInfo> infos = new ArrayList<>();
            int n = alike ? partitions : random.nextInt(9) + 1, shift = random.nextBoolean() ? first : random.nextInt(6);
            for (int p = 0; p < n; p++) {
                Node[] of = new Node[replicas];
                for (int r = 0; r < replicas; r++) of[r] = nodes.get((shift + p + r) % 6);
                infos.add(new PartitionInfo("t" + t, p, of[0], of, of));
            }
            topics.put("t" + t, infos);
        }
        Map<String, Subscription> members = new HashMap<>();
        List<String> json = new ArrayList<>();
        for (int m = random.nextInt(7); m >= 0; m--) {
            List<String> subscribed = new ArrayList<>();
            for (String topic : topics.keySet())
                if (equal || random.nextInt(3) > 0) subscribed.add(topic);
            String id = "m" + random.nextInt(100) + "-" + m;
            String rack = known > 0 && random.nextInt(known + 2) == 0 ? "" : "r" + random.nextInt(racks + 1);
            Optional<String> instance = random.nextInt(4) == 0 ? Optional.of("host-" + m * 37 % 100) : Optional.empty();
            Subscription s = new Subscription(subscribed, null, List.of(), -1, rack.isEmpty() ? Optional.empty() : Optional.of(rack));
            s.setGroupInstanceId(instance);
            members.put(id, s);
            json.add("{\"id\":" + quote(id) + ",\"instance\":" + quote(instance.orElse("")) + ",\"rack\":" + quote(rack)
                + ",\"topics\":" + quoteAll(subscribed) + "}");
        }
        StringJoiner described = new StringJoiner(",", "{", "}");
        List<PartitionInfo> all = new ArrayList<>();
        topics.forEach((topic, infos) -> {
            all.addAll(infos);
            StringJoiner list = new StringJoiner(",", "[", "]");
            for (PartitionInfo info : infos) {
                List<String> names = new ArrayList<>();
                for (Node node : info.replicas()) names.add(node.hasRack() ? node.rack() : "");
                list.add(quoteAll(names));
            }
            described.add(quote(topic) + ":" + list);
        });
        return "{\"topics\":" + described + ",\"members\":[" + String.join(",", json) + "],\"range\":"
            + quoteAssignments(assign(new RangeAssignor(), new Cluster("c", nodes, all, Set.of(), Set.of()), members)) + "}";
    }

    /** A group whose members and topics come and go, and what they say they had. */
    static class StickyGroup {
        final Random random;
        final boolean equal;
        final int most;
        final Map<String, Integer> topics = new TreeMap<>();
        final Map<String, List<String>> subscribed = new TreeMap<>();
        final Map<String, List<TopicPartition>> owned = new TreeMap<>();
        final Map<String, Integer> generations = new TreeMap<>();
        int names, generation = 1;

        StickyGroup(Random random, int i) {
            this.random = random;
            equal = i % 2 == 0;
            most = i < 40 ? 6 : 20;
        }

        void run(PrintStream out) {
            for (int t = random.nextInt(6) + 1; t > 0; t--) topics.put("t" + names++, random.nextInt(most * 2) + 1);
            for (int m = random.nextInt(most) + 1; m > 0; m--) join();
            for (int step = 0; step < 5; step++) {
                out.println(ask());
                change();
            }
        }

        /** Two topics of 18 partitions and nine members, of which one leaves or to which one comes. */
        void runNine(PrintStream out) {
            topics.put("t0", 18);
            topics.put("t1", 18);
            for (int m = 0; m < 9; m++) join();
            ask();
            for (int step = 0; step < 2; step++) {
                if (random.nextBoolean()) join();
                else leave();
                out.println(ask());
            }
        }

        void leave() {
            String id = List.copyOf(owned.keySet()).get(random.nextInt(owned.size()));
            owned.remove(id);
            generations.remove(id);
            subscribed.remove(id);
        }

        void join() {
            String id = "m" + random.nextInt(1000) + "-" + names++;
            owned.put(id, new ArrayList<>());
            generations.put(id, -1);
            subscribe(id);
        }

        void subscribe(String id) {
            List<String> chosen = new ArrayList<>();
            for (String topic : topics.keySet()) if (equal || random.nextInt(5) < 3) chosen.add(topic);
            subscribed.put(id, chosen);
        }

        void change() {
            for (int n = random.nextInt(1 + most / 3); n > 0 && owned.size() > 1; n--) leave();
            for (int n = random.nextInt(1 + most / 3); n > 0; n--) join();
            switch (random.nextInt(5)) {
                case 0 -> topics.put("t" + names++, random.nextInt(most * 2) + 1);
                case 1 -> topics.computeIfPresent(List.copyOf(topics.keySet()).get(0), (t, n) -> n + random.nextInt(4));
                case 2 -> {
                    if (topics.size() > 1) topics.remove(List.copyOf(topics.keySet()).get(0));
                }
                default -> { }
            }
            for (String id : owned.keySet()) if (equal || random.nextInt(6) == 0) subscribe(id);
        }

        /** Asks both assignors; the members go on with what the eager one says, apart from some who miss it. */
        String ask() {
            Map<String, Subscription> eager = new HashMap<>(), cooperative = new HashMap<>();
            List<String> json = new ArrayList<>();
            for (String id : owned.keySet()) {
                StickyAssignor remembers = new StickyAssignor();
                remembers.onAssignment(new Assignment(owned.get(id)), new ConsumerGroupMetadata("g", generations.get(id), id, Optional.empty()));
                ByteBuffer data = remembers.subscriptionUserData(new HashSet<>(subscribed.get(id)));
                byte[] bytes = new byte[data.remaining()];
                data.duplicate().get(bytes);
                eager.put(id, new Subscription(subscribed.get(id), data, List.of(), generations.get(id), Optional.empty()));
                cooperative.put(id, new Subscription(subscribed.get(id), null, owned.get(id), generations.get(id), Optional.empty()));
                json.add("{\"id\":" + quote(id) + ",\"topics\":" + quoteAll(subscribed.get(id)) + ",\"owned\":" + quotePartitions(owned.get(id))
                    + ",\"generation\":" + generations.get(id) + ",\"data\":" + quote(Base64.getEncoder().encodeToString(bytes)) + "}");
            }
            StringJoiner counts = new StringJoiner(",", "{", "}");
            topics.forEach((topic, n) -> counts.add(quote(topic) + ":" + n));
            Cluster cluster = cluster(topics);
            Map<String, Assignment> result = assign(new StickyAssignor(), cluster, eager);
            Map<String, Assignment> first = assign(new CooperativeStickyAssignor(), cluster, cooperative);
            generation++;
            for (String id : owned.keySet()) {
                if (random.nextInt(25) == 0) continue;
                owned.put(id, new ArrayList<>(result.get(id).partitions()));
                generations.put(id, generation);
            }
            return "{\"topics\":" + counts + ",\"members\":[" + String.join(",", json) + "],\"sticky\":" + quoteAssignments(result)
                + ",\"cooperative\":" + quoteAssignments(first) + "}";
        }
    }

    static String answer(ConsumerPartitionAssignor assignor, Map<String, Integer> topics, Map<String, Subscription> members) {
        return quoteAssignments(assign(assignor, cluster(topics), members));
    }

    static Cluster cluster(Map<String, Integer> topics) {
        Node node = new Node(0, "localhost", 9092);
        Node[] nodes = {node};
        List<PartitionInfo> infos = new ArrayList<>();
        topics.forEach((topic, n) -> {
            for (int p = 0; p < n; p++) infos.add(new PartitionInfo(topic, p, node, nodes, nodes));
        });
        return new Cluster("c", List.of(node), infos, Set.of(), Set.of());
    }

    static Map<String, Assignment> assign(ConsumerPartitionAssignor assignor, Cluster cluster, Map<String, Subscription> members) {
        return new TreeMap<>(assignor.assign(cluster, new GroupSubscription(members)).groupAssignment());
    }

    static String quoteAssignments(Map<String, Assignment> result) {
        StringJoiner all = new StringJoiner(",", "{", "}");
        result.forEach((id, assignment) -> {
            if (!assignment.partitions().isEmpty()) all.add(quote(id) + ":" + quotePartitions(assignment.partitions()));
        });
        return all.toString();
    }

    static String quotePartitions(List<TopicPartition> partitions) {
        List<String> tps = new ArrayList<>();
        for (TopicPartition tp : partitions) tps.add(tp.toString());
        return quoteAll(tps);
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
