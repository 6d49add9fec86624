import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import kafka.javaapi.producer.Producer;
import kafka.producer.KeyedMessage;
import kafka.producer.ProducerConfig;
import kafka.utils.VerifiableProperties;

/** The first producer, which is written in Scala. It has neither timestamps nor headers, and knows partitions by keys alone. */
final class Records {
    private final String bootstrap;
    private final Map<Map<String, String>, Producer<byte[], byte[]>> producers = new HashMap<>();

    Records(String bootstrap) {
        this.bootstrap = bootstrap;
    }

    /** Chooses the partition of what is being sent; the producer asks on the thread that sends, and only about records with a key. */
    @SuppressWarnings("rawtypes")
    public static final class Chosen implements kafka.producer.Partitioner {
        static volatile int partition;

        public Chosen(VerifiableProperties unused) {
        }

        @Override
        public int partition(Object key, int partitions) {
            return partition;
        }
    }

    /** Each call of the producer makes one message set, which is one wrapper when it is compressed. */
    void produce(String topic, Map<String, String> properties, List<Own.Item> items) {
        Producer<byte[], byte[]> producer = producers.computeIfAbsent(properties, this::open);
        int batch = 50;
        List<KeyedMessage<byte[], byte[]>> run = new ArrayList<>();
        for (int i = 0; i < items.size(); i++) {
            Own.Item item = items.get(i);
            if (item.timestamp != null || !item.headers.isEmpty()) {
                throw new IllegalArgumentException("message format v0 has neither timestamps nor headers");
            }
            run.add(new KeyedMessage<>(topic, item.key, item.value));
            if (run.size() == batch || i + 1 == items.size() || items.get(i + 1).partition != item.partition) {
                Chosen.partition = item.partition;
                producer.send(run);
                run = new ArrayList<>();
            }
        }
    }

    private Producer<byte[], byte[]> open(Map<String, String> properties) {
        Properties p = new Properties();
        p.put("metadata.broker.list", bootstrap);
        p.put("producer.type", "sync");
        p.put("request.required.acks", "-1");
        p.put("serializer.class", "kafka.serializer.DefaultEncoder");
        p.put("key.serializer.class", "kafka.serializer.DefaultEncoder");
        p.put("partitioner.class", Chosen.class.getName());
        for (Map.Entry<String, String> e : properties.entrySet()) {
            p.put(e.getKey().equals("compression.type") ? "compression.codec" : e.getKey(), e.getValue());
        }
        return new Producer<>(new ProducerConfig(p));
    }

    void transaction(String step, Map<String, String> properties) {
        throw new UnsupportedOperationException("no transactions");
    }
}
