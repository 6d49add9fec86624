import java.util.Map;
import kafka.admin.AddPartitionsCommand;
import kafka.admin.CreateTopicCommand;
import kafka.utils.ZKStringSerializer$;
import org.I0Itec.zkclient.ZkClient;

/** Topics of 0.8.0, which have no configuration of their own. */
final class Topics {
    private final String zookeeper;

    Topics(String bootstrap, String zookeeper) {
        this.zookeeper = zookeeper;
    }

    void create(String topic, int partitions, Map<String, String> configs) {
        if (!configs.isEmpty()) {
            throw new IllegalArgumentException("0.8.0 has no configuration of topics");
        }
        ZkClient zk = new ZkClient(zookeeper, 10000, 10000, ZKStringSerializer$.MODULE$);
        try {
            CreateTopicCommand.createTopic(zk, topic, partitions, 1, "");
        } finally {
            zk.close();
        }
    }

    void grow(String topic, int from, int to) {
        ZkClient zk = new ZkClient(zookeeper, 10000, 10000, ZKStringSerializer$.MODULE$);
        try {
            AddPartitionsCommand.addPartitions(zk, topic, to - from, "");
        } finally {
            zk.close();
        }
    }
}
