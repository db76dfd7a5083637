import java.util.Map;
import java.util.Properties;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.state.Stores;

/**
 * Counts the entries of each account and adds up their numbers, exactly once. An entry is
 * ACCOUNT:NUMBER, so that what was counted twice or never shows in the count and in the sum.
 */
public final class Ledger {
    public static void main(String[] arguments) throws Exception {
        String application = arguments[0];
        Properties settings = new Properties();
        settings.put(StreamsConfig.APPLICATION_ID_CONFIG, application);
        settings.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, arguments[1]);
        settings.put(StreamsConfig.STATE_DIR_CONFIG, arguments[4]);
        settings.put(StreamsConfig.PROCESSING_GUARANTEE_CONFIG, StreamsConfig.EXACTLY_ONCE_V2);
        settings.put(StreamsConfig.REPLICATION_FACTOR_CONFIG, arguments[5]);
        settings.put(StreamsConfig.NUM_STREAM_THREADS_CONFIG, 2);
        settings.put("transaction.timeout.ms", 10000);
        settings.put("session.timeout.ms", 6000);
        settings.put("auto.offset.reset", "earliest");
        // What is removed from the repartition topic while a checkpoint is decided refuses it.
        settings.put("repartition.purge.interval.ms", 600000);

        StreamsBuilder builder = new StreamsBuilder();
        builder.stream(arguments[2], Consumed.with(Serdes.String(), Serdes.String()))
            .groupBy((key, entry) -> entry.split(":")[0],
                Grouped.with("entries", Serdes.String(), Serdes.String()))
            .aggregate(() -> "0:0", Ledger::add,
                Materialized.<String, String>as(Stores.inMemoryKeyValueStore("sums"))
                    .withKeySerde(Serdes.String()).withValueSerde(Serdes.String())
                    .withCachingDisabled().withLoggingEnabled(Map.of()))
            .toStream()
            .to(arguments[3], Produced.with(Serdes.String(), Serdes.String()));

        KafkaStreams streams = new KafkaStreams(builder.build(), settings);
        streams.setUncaughtExceptionHandler(
            error -> StreamThreadExceptionResponse.REPLACE_THREAD);
        Runtime.getRuntime().addShutdownHook(new Thread(streams::close));
        streams.start();
        // It ends with the process that has started it.
        while (System.in.read() >= 0) { }
        System.exit(0);
    }

    private static String add(String account, String entry, String sums) {
        String[] parts = sums.split(":");
        long number = Long.parseLong(entry.split(":")[1]);
        return (Long.parseLong(parts[0]) + 1) + ":" + (Long.parseLong(parts[1]) + number);
    }
}
