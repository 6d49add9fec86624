import java.util.Map;
import kafka.admin.AdminUtils;
import kafka.utils.ZKStringSerializer$;
import org.I0Itec.zkclient.ZkClient;

/** Topics by way of ZooKeeper. */
final class Topics {
    private final String zookeeper;

    Topics(String bootstrap, String zookeeper) {
        this.zookeeper = zookeeper;
    }

    void create(String topic, int partitions, Map<String, String> configs) {
        ZkClient zk = new ZkClient(zookeeper, 10000, 10000, ZKStringSerializer$.MODULE$);
        try {
            AdminUtils.createTopic(zk, topic, partitions, 1, Own.java(configs));
        } finally {
            zk.close();
        }
    }

    void grow(String topic, int from, int to) {
        ZkClient zk = new ZkClient(zookeeper, 10000, 10000, ZKStringSerializer$.MODULE$);
        try {
            AdminUtils.addPartitions(zk, topic, to, "", true, new java.util.Properties());
        } finally {
            zk.close();
        }
    }
}
