import com.alibaba.fastjson.JSON;
import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.Field;
import java.nio.charset.StandardCharsets;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.rocketmq.tools.command.MQAdminStartup;

/**
 * Runs unmodified mqadmin commands one after the other in one JVM, which saves its start for each. One command per
 * line of stdin (tab between words); answers what mqadmin printed on both streams as one marked JSON line.
 */
public class Admin {

    public static void main(String[] args) throws Exception {
        PrintStream console = System.out;
        BufferedReader commands = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        Impatience.begin();
        answer(console, "ready", "admin");
        for (String line = commands.readLine(); line != null; line = commands.readLine()) {
            ByteArrayOutputStream printed = new ByteArrayOutputStream();
            PrintStream capture = new PrintStream(printed, true, "UTF-8");
            System.setOut(capture);
            System.setErr(capture);
            forgetCommands();
            MQAdminStartup.main(line.split("\t", -1));
            capture.flush();
            answer(console, "printed", printed.toString("UTF-8"));
        }
        System.exit(0);
    }

    /** Some commands keep a client that they have shut down: each run gets new ones, as each has in a JVM of its own. */
    private static void forgetCommands() throws Exception {
        for (Field field : MQAdminStartup.class.getDeclaredFields()) {
            if (field.getType() == List.class) {
                field.setAccessible(true);
                ((List<?>) field.get(null)).clear();
            }
        }
    }

    private static void answer(PrintStream console, String kind, Object value) {
        Map<String, Object> line = new LinkedHashMap<>();
        line.put(kind, value);
        console.println("@@" + JSON.toJSONString(line));
        console.flush();
    }
}
