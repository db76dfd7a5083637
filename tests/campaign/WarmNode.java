import java.lang.reflect.Field;
import java.net.URI;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import kafka.server.KafkaConfig;
import kafka.server.KafkaRaftServer;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.Consumer;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.Producer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.common.utils.Utils;
import org.apache.logging.log4j.core.config.Configurator;

/**
 * A JVM that has run Kafka before: it runs the nodes of the properties files that it is given, one
 * after another, writes the file "ready", and waits, so that its memory can be kept. When a copy of
 * it is restored, standard input says which node the copy runs: properties file, folder for
 * temporary files, logging configuration, GO.
 */
public class WarmNode {
    private static final String[] CODECS = {"none", "gzip", "snappy", "lz4", "zstd"};

    public static void main(String[] arguments) throws Exception {
        for (int i = 1; i < arguments.length; i++) run(arguments[i]);
        keepNativeLibraries();
        for (int i = 0; i < 3; i++) {
            System.gc();
            Thread.sleep(100);
        }
        Files.writeString(Path.of(arguments[0], "ready"), "ready\n");
        String[] told = awaited(Path.of("/proc/self/fd/0"));
        System.setProperty("java.io.tmpdir", told[1]);
        Configurator.reconfigure(URI.create(told[2]));
        kafka.Kafka.main(new String[] {told[0]});
    }

    private static String[] awaited(Path input) throws Exception {
        while (true) {
            String text = Files.readString(input);
            if (text.endsWith("GO\n")) return text.split("\n");
            Thread.sleep(10);
        }
    }

    /** A copy that ends must not delete the libraries that the next copy maps. */
    private static void keepNativeLibraries() throws Exception {
        Field files = Class.forName("java.io.DeleteOnExitHook").getDeclaredField("files");
        files.setAccessible(true);
        ((Collection<?>) files.get(null)).clear();
    }

    private static void run(String file) throws Exception {
        Properties properties = Utils.loadProps(file);
        KafkaRaftServer node =
            new KafkaRaftServer(KafkaConfig.fromProps(properties, false), Time.SYSTEM);
        node.startup();
        use(properties.getProperty("bootstrap.servers"));
        node.shutdown();
        node.awaitShutdown();
    }

    private static void use(String servers) throws Exception {
        Map<String, Object> client = Map.of("bootstrap.servers", servers);
        try (Admin admin = Admin.create(client)) {
            NewTopic compacted = new NewTopic("compacted", 3, (short) 1);
            compacted.configs(Map.of("cleanup.policy", "compact"));
            admin.createTopics(List.of(new NewTopic("deleted", 3, (short) 1), compacted)).all().get();
            for (String codec : CODECS) write(client, codec);
            read(client);
            for (int i = 0; i < 20; i++) {
                admin.describeCluster().nodes().get();
                admin.describeTopics(List.of("deleted")).allTopicNames().get();
                admin.describeLogDirs(List.of(1)).allDescriptions().get();
            }
        }
    }

    private static void write(Map<String, Object> client, String codec) {
        Map<String, Object> settings = new HashMap<>(client);
        settings.put("compression.type", codec);
        settings.put("transactional.id", codec);
        ByteArraySerializer bytes = new ByteArraySerializer();
        try (Producer<byte[], byte[]> producer = new KafkaProducer<>(settings, bytes, bytes)) {
            producer.initTransactions();
            for (int i = 0; i < 20; i++) {
                producer.beginTransaction();
                for (String topic : List.of("deleted", "compacted"))
                    for (byte key = 0; key < 5; key++)
                        producer.send(new ProducerRecord<>(topic, new byte[] {key}, new byte[50]));
                if (i % 5 == 4) producer.abortTransaction();
                else producer.commitTransaction();
            }
        }
    }

    private static void read(Map<String, Object> client) {
        Map<String, Object> settings = new HashMap<>(client);
        settings.put("group.id", "readers");
        settings.put("auto.offset.reset", "earliest");
        ByteArrayDeserializer bytes = new ByteArrayDeserializer();
        try (Consumer<byte[], byte[]> consumer = new KafkaConsumer<>(settings, bytes, bytes)) {
            consumer.subscribe(List.of("deleted", "compacted"));
            for (int i = 0; i < 10; i++) consumer.poll(Duration.ofMillis(300));
            consumer.commitSync();
        }
    }
}
