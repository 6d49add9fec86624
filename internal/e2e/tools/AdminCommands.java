import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import com.sun.tools.attach.VirtualMachine;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.ExecutionException;
import javax.management.ObjectName;
import javax.management.remote.JMXConnector;
import javax.management.remote.JMXConnectorFactory;
import javax.management.remote.JMXServiceURL;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.ConsumerGroupDescription;
import org.apache.kafka.clients.admin.CreateTopicsOptions;
import org.apache.kafka.clients.admin.CreateTopicsResult;
import org.apache.kafka.clients.admin.MemberDescription;
import org.apache.kafka.clients.admin.NewPartitionReassignment;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.clients.admin.TopicDescription;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.ElectionType;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.TopicPartitionInfo;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.errors.TopicExistsException;
import org.apache.kafka.common.errors.UnknownTopicOrPartitionException;
import org.apache.kafka.common.errors.UnsupportedVersionException;

/** The commands of the Driver that Kafka's AdminClient carries out. */
final class AdminCommands {
    /** How often what takes the brokers a moment is looked for, 50 ms apart. */
    private static final int TRIES = 1200;

    private final Admin admin;

    AdminCommands(Admin admin) {
        this.admin = admin;
    }

    JsonNode run(JsonNode r) throws Exception {
        switch (r.get("cmd").asText()) {
            case "create-topic":
                return createTopic(r);
            case "delete-topic":
                return deleteTopic(topic(r));
            case "add-partitions":
                admin.createPartitions(Map.of(topic(r), NewPartitions.increaseTo(r.get("partitions").asInt()))).all().get();
                return null;
            case "topic-config":
                return topicConfig(r);
            case "describe-topic":
                return describeTopic(topic(r));
            case "reassign":
                return reassign(r);
            case "elect-preferred":
                admin.electLeaders(ElectionType.PREFERRED, Set.of(partition(r))).all().get();
                return null;
            case "offsets":
                return offsets(r);
            case "delete-records":
                admin.deleteRecords(Map.of(partition(r), RecordsToDelete.beforeOffset(r.get("offset").asLong()))).all().get();
                return null;
            case "committed":
                return committed(r.get("group").asText());
            case "alter-offsets":
                return alterOffsets(r);
            case "describe-group":
                return describeGroup(r.get("group").asText());
            case "gauge":
                return Driver.JSON.valueToTree(gauge(r.get("pid").asText(), r.get("name").asText()));
            case "delete-group":
                admin.deleteConsumerGroups(List.of(r.get("group").asText())).all().get();
                return null;
            default:
                throw new IllegalArgumentException("unknown command " + r.get("cmd"));
        }
    }

    /** The value of a metric of the broker that is the process pid. */
    private static Object gauge(String pid, String name) throws Exception {
        VirtualMachine vm = VirtualMachine.attach(pid);
        try (JMXConnector jmx = JMXConnectorFactory.connect(new JMXServiceURL(vm.startLocalManagementAgent()))) {
            return jmx.getMBeanServerConnection().getAttribute(new ObjectName(name), "Value");
        } finally {
            vm.detach();
        }
    }

    private static String topic(JsonNode r) {
        return r.get("topic").asText();
    }

    private static TopicPartition partition(JsonNode r) {
        return new TopicPartition(topic(r), r.get("partition").asInt());
    }

    private JsonNode createTopic(JsonNode r) throws Exception {
        // Spelled out, because brokers before 2.4 have no default to ask for: a replica on each node.
        short nodes = (short) admin.describeCluster().nodes().get().size();
        NewTopic t = new NewTopic(topic(r), r.get("partitions").asInt(), nodes);
        if (r.hasNonNull("replicas")) { // per partition the list of its nodes
            Map<Integer, List<Integer>> replicas = new HashMap<>();
            for (JsonNode ids : r.get("replicas")) {
                replicas.put(replicas.size(), integers(ids));
            }
            t = new NewTopic(topic(r), replicas);
        }
        Map<String, String> configs = new HashMap<>();
        if (r.hasNonNull("configs")) {
            r.get("configs").properties().forEach(e -> configs.put(e.getKey(), e.getValue().asText()));
        }
        CreateTopicsResult made = admin.createTopics(List.of(t.configs(configs)));
        made.all().get();
        awaitLeaders(topic(r), idOf(made, topic(r)));
        return null;
    }

    /** The id of a topic that was made; zero where the broker does not tell it. */
    private static Uuid idOf(CreateTopicsResult made, String topic) throws Exception {
        try {
            return made.topicId(topic).get();
        } catch (ExecutionException e) {
            if (e.getCause() instanceof UnsupportedVersionException) {
                return Uuid.ZERO_UUID;
            }
            throw e;
        }
    }

    /**
     * A topic is created when the controller says so; the brokers learn of it a little later, and may still know one of that
     * name that was deleted.
     */
    private void awaitLeaders(String topic, Uuid id) throws Exception {
        for (int i = 0; i < TRIES; i++) {
            try {
                TopicDescription d = admin.describeTopics(List.of(topic)).allTopicNames().get().get(topic);
                boolean isIt = id.equals(Uuid.ZERO_UUID) || d.topicId().equals(id);
                if (isIt && d.partitions().stream().allMatch(p -> p.leader() != null)) {
                    return;
                }
            } catch (ExecutionException e) {
                if (e.getCause() instanceof UnsupportedVersionException) {
                    return; // brokers before 0.11 cannot be asked without creating the topic
                }
                if (!(e.getCause() instanceof UnknownTopicOrPartitionException)) {
                    throw e;
                }
            }
            Thread.sleep(50);
        }
        throw new IllegalStateException("no leaders for " + topic);
    }

    /** A topic is deleted when the controller says so; it is gone when no broker tells of it and it could be created again. */
    private JsonNode deleteTopic(String topic) throws Exception {
        admin.deleteTopics(List.of(topic)).all().get();
        awaitForgotten(topic);
        for (int i = 0; i < TRIES; i++) {
            try {
                admin.createTopics(List.of(new NewTopic(topic, 1, (short) 1)), new CreateTopicsOptions().validateOnly(true)).all().get();
                return null;
            } catch (ExecutionException e) {
                if (!(e.getCause() instanceof TopicExistsException)) {
                    throw e;
                }
            }
            Thread.sleep(50);
        }
        throw new IllegalStateException(topic + " stays");
    }

    /** The broker that is asked learns of the deletion a little later than the controller. */
    private void awaitForgotten(String topic) throws Exception {
        for (int i = 0; i < TRIES; i++) {
            try {
                admin.describeTopics(List.of(topic)).allTopicNames().get();
            } catch (ExecutionException e) {
                if (e.getCause() instanceof UnknownTopicOrPartitionException || e.getCause() instanceof UnsupportedVersionException) {
                    return;
                }
                throw e;
            }
            Thread.sleep(50);
        }
        throw new IllegalStateException(topic + " is still told of");
    }

    private static List<Integer> integers(JsonNode list) {
        List<Integer> out = new ArrayList<>();
        list.forEach(n -> out.add(n.asInt()));
        return out;
    }

    private JsonNode topicConfig(JsonNode r) throws Exception {
        Collection<AlterConfigOp> ops = new ArrayList<>();
        r.get("configs").properties().forEach(
            e -> ops.add(new AlterConfigOp(new ConfigEntry(e.getKey(), e.getValue().asText()), AlterConfigOp.OpType.SET)));
        admin.incrementalAlterConfigs(Map.of(new ConfigResource(ConfigResource.Type.TOPIC, topic(r)), ops)).all().get();
        return null;
    }

    private JsonNode describeTopic(String topic) throws Exception {
        TopicDescription d = admin.describeTopics(List.of(topic)).allTopicNames().get().get(topic);
        ObjectNode result = Driver.JSON.createObjectNode();
        ArrayNode partitions = result.put("id", d.topicId().toString()).putArray("partitions");
        for (TopicPartitionInfo p : d.partitions()) {
            ObjectNode n = partitions.addObject();
            n.put("partition", p.partition()).put("leader", p.leader() == null ? -1 : p.leader().id());
            ids(n.putArray("replicas"), p.replicas());
            ids(n.putArray("isr"), p.isr());
        }
        return result;
    }

    private static void ids(ArrayNode out, List<Node> nodes) {
        nodes.forEach(n -> out.add(n.id()));
    }

    private JsonNode reassign(JsonNode r) throws Exception {
        NewPartitionReassignment target = new NewPartitionReassignment(integers(r.get("nodes")));
        admin.alterPartitionReassignments(Map.of(partition(r), Optional.of(target))).all().get();
        return null;
    }

    /** Offsets of all partitions: "spec" is "earliest", "latest" or a timestamp in milliseconds. */
    private JsonNode offsets(JsonNode r) throws Exception {
        String spec = r.get("spec").asText();
        OffsetSpec s = spec.equals("earliest") ? OffsetSpec.earliest()
            : spec.equals("latest") ? OffsetSpec.latest() : OffsetSpec.forTimestamp(Long.parseLong(spec));
        int count = admin.describeTopics(List.of(topic(r))).allTopicNames().get().get(topic(r)).partitions().size();
        Map<TopicPartition, OffsetSpec> ask = new HashMap<>();
        for (int p = 0; p < count; p++) {
            ask.put(new TopicPartition(topic(r), p), s);
        }
        ArrayNode result = Driver.JSON.createArrayNode();
        admin.listOffsets(ask).all().get().forEach(
            (tp, info) -> result.addObject().put("topic", tp.topic()).put("partition", tp.partition()).put("offset", info.offset()));
        return result;
    }

    private JsonNode committed(String group) throws Exception {
        ArrayNode result = Driver.JSON.createArrayNode();
        admin.listConsumerGroupOffsets(group).partitionsToOffsetAndMetadata().get().forEach((tp, o) -> {
            if (o != null) {
                result.addObject().put("topic", tp.topic()).put("partition", tp.partition()).put("offset", o.offset())
                    .put("metadata", o.metadata()).put("leaderEpoch", o.leaderEpoch().orElse(-1));
            }
        });
        return result;
    }

    private JsonNode alterOffsets(JsonNode r) throws Exception {
        Map<TopicPartition, OffsetAndMetadata> offsets = new HashMap<>();
        for (JsonNode o : r.get("offsets")) {
            offsets.put(partition(o), new OffsetAndMetadata(o.get("offset").asLong(), o.path("metadata").asText("")));
        }
        admin.alterConsumerGroupOffsets(r.get("group").asText(), offsets).all().get();
        return null;
    }

    private JsonNode describeGroup(String group) throws Exception {
        ConsumerGroupDescription d = admin.describeConsumerGroups(List.of(group)).all().get().get(group);
        ObjectNode result = Driver.JSON.createObjectNode();
        result.put("state", d.state().toString()).put("assignor", d.partitionAssignor()).put("coordinator", d.coordinator().id());
        ArrayNode members = result.putArray("members");
        for (MemberDescription m : d.members()) {
            ObjectNode n = members.addObject();
            n.put("memberId", m.consumerId()).put("clientId", m.clientId()).put("host", m.host());
            n.put("groupInstanceId", m.groupInstanceId().orElse(""));
            ArrayNode assignment = n.putArray("assignment");
            for (TopicPartition tp : m.assignment().topicPartitions()) {
                assignment.addObject().put("topic", tp.topic()).put("partition", tp.partition());
            }
        }
        return result;
    }
}
