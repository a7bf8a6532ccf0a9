import io.debezium.engine.ChangeEvent;
import io.debezium.engine.DebeziumEngine;
import io.debezium.engine.format.Json;
import java.lang.management.ManagementFactory;
import java.nio.file.Files;
import java.util.Properties;
import java.util.concurrent.atomic.AtomicLong;

/**
 * Debezium's embedded engine as bench/cdc.py's peer: it makes JSON events of the table shop.t, and throws them away.
 *
 * <p>Arguments: mariadb or postgresql, port, user, password. It says `ready` when it follows the log, and behind each
 * 10,000 changes how many there were and the CPU seconds of this process.
 */
class DebeziumLoad {
    public static void main(String[] args) throws Exception {
        var folder = Files.createTempDirectory("debezium");
        boolean isPostgres = args[0].equals("postgresql");
        var asked = new Properties();
        asked.setProperty("name", "peer");
        asked.setProperty("topic.prefix", "peer");
        asked.setProperty("offset.storage", "org.apache.kafka.connect.storage.FileOffsetBackingStore");
        asked.setProperty("offset.storage.file.filename", folder.resolve("offsets").toString());
        asked.setProperty("offset.flush.interval.ms", "1000");
        asked.setProperty("database.hostname", "127.0.0.1");
        asked.setProperty("database.port", args[1]);
        asked.setProperty("database.user", args[2]);
        asked.setProperty("database.password", args[3]);
        asked.setProperty("converter.schemas.enable", "false");
        if (isPostgres) {
            asked.setProperty("connector.class", "io.debezium.connector.postgresql.PostgresConnector");
            asked.setProperty("database.dbname", "shop");
            asked.setProperty("plugin.name", "pgoutput");
            asked.setProperty("slot.name", "peer");
            asked.setProperty("slot.drop.on.stop", "true");
            asked.setProperty("snapshot.mode", "never");
            asked.setProperty("table.include.list", "public.t");
        } else {
            asked.setProperty("connector.class", "io.debezium.connector.mysql.MySqlConnector");
            asked.setProperty("connector.adapter", "mariadb");
            asked.setProperty("database.protocol", "jdbc:mariadb");
            asked.setProperty("database.jdbc.driver", "org.mariadb.jdbc.Driver");
            asked.setProperty("database.ssl.mode", "disabled");
            asked.setProperty("database.server.id", "79");
            asked.setProperty("snapshot.mode", "schema_only");
            asked.setProperty("schema.history.internal", "io.debezium.storage.file.history.FileSchemaHistory");
            asked.setProperty("schema.history.internal.file.filename", folder.resolve("history").toString());
            asked.setProperty("table.include.list", "shop.t");
        }
        var system = (com.sun.management.OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();
        var seen = new AtomicLong();
        DebeziumEngine<ChangeEvent<String, String>> engine = DebeziumEngine.create(Json.class)
                .using(asked)
                .using((success, message, error) -> System.out.println("ended: " + message + " " + error))
                .notifying(event -> {
                    if (event.value() != null && event.value().contains("\"op\":\"c\"")) {
                        if (seen.incrementAndGet() % 10_000 == 0) {
                            System.out.println("@@ " + seen.get() + " " + system.getProcessCpuTime() / 1e9);
                        }
                    }
                })
                .build();
        engine.run();
    }
}
