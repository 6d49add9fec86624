import java.util.Map;
import kafka.admin.AdminUtils;
import kafka.admin.RackAwareMode;
import kafka.utils.ZkUtils;

/** Topics by way of ZooKeeper. */
final class Topics {
    private final String zookeeper;

    Topics(String bootstrap, String zookeeper) {
        this.zookeeper = zookeeper;
    }

    void create(String topic, int partitions, Map<String, String> configs) {
        ZkUtils zk = ZkUtils.apply(zookeeper, 10000, 10000, false);
        try {
            AdminUtils.createTopic(zk, topic, partitions, 1, Own.java(configs), RackAwareMode.Enforced$.MODULE$);
        } finally {
            zk.close();
        }
    }

    void grow(String topic, int from, int to) {
        ZkUtils zk = ZkUtils.apply(zookeeper, 10000, 10000, false);
        try {
            AdminUtils.addPartitions(zk, topic, to, "", true, RackAwareMode.Enforced$.MODULE$);
        } finally {
            zk.close();
        }
    }
}
