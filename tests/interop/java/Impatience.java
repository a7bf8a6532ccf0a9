import java.util.Map;

/**
 * Shortens the end of a 5.x client. Its shutdown joins a thread that looks up from its queue every three seconds; an
 * interrupt makes it look up at once, and changes nothing else.
 */
class Impatience {

    static void begin() {
        Thread watcher = new Thread(Impatience::watch, "Impatience");
        watcher.setDaemon(true);
        watcher.start();
    }

    private static void watch() {
        while (true) {
            try {
                Thread.sleep(20);
            } catch (InterruptedException nobodyDoes) {
                return;
            }
            Map<Thread, StackTraceElement[]> all = Thread.getAllStackTraces();
            if (all.values().stream().anyMatch(Impatience::isEndingClient)) {
                all.keySet().stream().filter(one -> one.getName().equals("NettyEventExecutor")).forEach(Thread::interrupt);
            }
        }
    }

    private static boolean isEndingClient(StackTraceElement[] stack) {
        for (StackTraceElement frame : stack) {
            if (frame.getMethodName().equals("shutdown") && frame.getClassName().endsWith(".NettyRemotingClient")) {
                return true;
            }
        }
        return false;
    }
}
