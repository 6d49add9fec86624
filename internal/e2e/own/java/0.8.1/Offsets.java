import java.io.ByteArrayOutputStream;
import java.io.PrintStream;
import java.util.Arrays;

/** Committed offsets as the release's own tool tells them, which asks ZooKeeper in 0.8.1 and the coordinator in 0.8.2. */
final class Offsets {
    private final String zookeeper;

    Offsets(String bootstrap, String zookeeper) {
        this.zookeeper = zookeeper;
    }

    /** -1 where there is none. */
    long[] committed(String group, String topic, int partitions) throws Exception {
        ByteArrayOutputStream text = new ByteArrayOutputStream();
        PrintStream out = new PrintStream(text, true, "UTF-8");
        PrintStream before = System.out;
        System.setOut(out);
        try {
            // Scala's println has a stream of its own, taken when it was first used.
            scala.Console.setOut(out);
            try {
                check("--zookeeper", group, topic);
            } catch (joptsimple.OptionException e) {
                check("--zkconnect", group, topic); // 0.8.1 calls it so
            }
        } finally {
            System.setOut(before);
            scala.Console.setOut(before);
        }
        long[] offsets = new long[partitions];
        Arrays.fill(offsets, -1);
        for (String line : text.toString("UTF-8").split("\n")) { // Group Topic Pid Offset logSize Lag Owner
            String[] f = line.trim().split("\\s+");
            if (f.length >= 4 && f[0].equals(group) && f[1].equals(topic)) {
                offsets[Integer.parseInt(f[2])] = Long.parseLong(f[3]);
            }
        }
        return offsets;
    }

    private void check(String option, String group, String topic) {
        kafka.tools.ConsumerOffsetChecker.main(new String[] {option, zookeeper, "--group", group, "--topic", topic});
    }
}
