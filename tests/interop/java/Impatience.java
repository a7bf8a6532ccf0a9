import java.util.Map;

/**
 * Shortens the end of a 5.x client. Its shutdown joins a thread that looks up from its queue every three seconds; an
 * interrupt makes it look up at once, and changes nothing else.
 */
class Impatience {

    /** Called by the thread that takes commands: while it waits for one, nobody ends a client. */
    static void begin() {
        Thread commands = Thread.currentThread();
        Thread watcher = new Thread(() -> watch(commands), "Impatience");
        watcher.setDaemon(true);
        watcher.start();
    }

    private static void watch(Thread commands) {
        while (true) {
            try {
                Thread.sleep(20);
            } catch (InterruptedException nobodyDoes) {
                return;
            }
            // Looking at all threads stops the whole machine for a moment: only when there is something to see.
            if (isReading(commands.getStackTrace())) {
                continue;
            }
            Map<Thread, StackTraceElement[]> all = Thread.getAllStackTraces();
            if (all.values().stream().anyMatch(Impatience::isEndingClient)) {
                all.keySet().stream().filter(one -> one.getName().equals("NettyEventExecutor")).forEach(Thread::interrupt);
            }
        }
    }

    private static boolean isReading(StackTraceElement[] stack) {
        for (StackTraceElement frame : stack) {
            if (frame.getMethodName().equals("readLine")) {
                return true;
            }
        }
        return false;
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
