import java.util.Collections;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.clients.admin.AdminClient;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.NewTopic;

/** Topics by way of the admin client, which can get stuck in 0.11. */
final class Topics {
    private final AdminClient admin;

    Topics(String bootstrap, String zookeeper) {
        Properties p = new Properties();
        p.put("bootstrap.servers", bootstrap);
        admin = AdminClient.create(p);
    }

    void create(String topic, int partitions, Map<String, String> configs) throws Exception {
        admin.createTopics(Collections.singleton(new NewTopic(topic, partitions, (short) 1).configs(configs))).all().get();
    }

    void grow(String topic, int from, int to) throws Exception {
        admin.createPartitions(Collections.singletonMap(topic, NewPartitions.increaseTo(to))).all().get();
    }
}
