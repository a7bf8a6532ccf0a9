import com.alibaba.fastjson2.JSON;
import com.alibaba.fastjson2.JSONArray;
import com.alibaba.fastjson2.JSONObject;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.rocketmq.filter.expression.EvaluationContext;
import org.apache.rocketmq.filter.expression.Expression;
import org.apache.rocketmq.filter.parser.SelectorParser;

/**
 * What RocketMQ's own filter module makes of expressions: [[expression, {property: value}], ...] on standard input,
 * a list of "invalid", "error", "true", "false" and "unknown" on standard output.
 * With the word "speed" and a number: evaluations per second of each pair, over so many rounds.
 */
public class Answers {
    record Properties(Map<String, Object> values) implements EvaluationContext {
        public Object get(String name) {
            return values.get(name);
        }

        public Map<String, Object> keyValues() {
            return values;
        }
    }

    public static void main(String[] arguments) throws Exception {
        JSONArray pairs = JSON.parseArray(System.in.readAllBytes());
        List<Object> answers = new ArrayList<>();
        for (int i = 0; i < pairs.size(); i++) {
            JSONArray pair = pairs.getJSONArray(i);
            String expression = pair.getString(0);
            Properties properties = new Properties(new HashMap<>(pair.getJSONObject(1)));
            answers.add(arguments.length > 1
                ? (Object) speed(expression, properties, Integer.parseInt(arguments[1]))
                : answer(expression, properties));
        }
        System.out.println(JSON.toJSONString(answers));
    }

    static String answer(String text, Properties properties) {
        Expression expression;
        try {
            expression = SelectorParser.parse(text);
        } catch (Throwable refused) {
            return "invalid";
        }
        try {
            Object value = expression.evaluate(properties);
            return value == null ? "unknown" : value.toString();
        } catch (Throwable failed) {
            return "error";
        }
    }

    static double speed(String text, Properties properties, int rounds) throws Exception {
        Expression expression = SelectorParser.parse(text);
        long trues = 0;
        double best = 0;
        for (int repeat = 0; repeat < 5; repeat++) {
            long began = System.nanoTime();
            for (int i = 0; i < rounds; i++) {
                if (Boolean.TRUE.equals(expression.evaluate(properties))) {
                    trues++;
                }
            }
            best = Math.max(best, rounds * 1e9 / (System.nanoTime() - began));
        }
        if (trues < 0) {
            throw new IllegalStateException();
        }
        return best;
    }
}
