import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.Future;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/** The producer since 0.11, which knows headers and transactions. */
final class Records {
    private final String bootstrap;
    private final Map<Map<String, String>, KafkaProducer<byte[], byte[]>> producers = new HashMap<>();

    Records(String bootstrap) {
        this.bootstrap = bootstrap;
    }

    void produce(String topic, Map<String, String> properties, List<Own.Item> items) throws Exception {
        KafkaProducer<byte[], byte[]> producer = producers.computeIfAbsent(properties, this::open);
        List<Future<RecordMetadata>> sent = new ArrayList<>();
        for (Own.Item item : items) {
            sent.add(producer.send(record(topic, item)));
        }
        for (Future<RecordMetadata> f : sent) {
            f.get();
        }
    }

    private static ProducerRecord<byte[], byte[]> record(String topic, Own.Item item) {
        ProducerRecord<byte[], byte[]> record =
            new ProducerRecord<>(topic, item.partition, item.timestamp, item.key, item.value);
        for (Map.Entry<String, byte[]> h : item.headers) {
            record.headers().add(h.getKey(), h.getValue());
        }
        return record;
    }

    private KafkaProducer<byte[], byte[]> open(Map<String, String> properties) {
        Properties p = Own.java(properties);
        p.put("bootstrap.servers", bootstrap);
        p.put("acks", "all");
        p.putIfAbsent("linger.ms", "20");
        // One request after the other: order holds even when one is sent again.
        p.put("max.in.flight.requests.per.connection", "1");
        KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(p, new ByteArraySerializer(), new ByteArraySerializer());
        if (p.containsKey("transactional.id")) {
            producer.initTransactions();
        }
        return producer;
    }

    void transaction(String step, Map<String, String> properties) {
        KafkaProducer<byte[], byte[]> producer = producers.computeIfAbsent(properties, this::open);
        switch (step) {
            case "begin":
                producer.beginTransaction();
                break;
            case "commit":
                producer.commitTransaction();
                break;
            default:
                producer.abortTransaction();
        }
    }
}
