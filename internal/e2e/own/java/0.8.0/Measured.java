import java.util.Map;

/** Releases before 0.9 have no consumer that measures itself. */
final class Measured {
    Measured(String bootstrap) {
    }

    Map<String, Double> consume(String topic, int partitions, int records) {
        throw new UnsupportedOperationException("no KafkaConsumer");
    }
}
