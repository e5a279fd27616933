package load;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.locks.LockSupport;
import tandem.bench.Message.BenchmarkMessage;

/** The load generator of bench/load/client.go: each caller is a thread. */
final class Client {
    private static final long STACK = 256 << 10;
    private static final long LOOK = 50_000_000;

    private final Plan plan;
    private final long callers;
    private final long rate;
    private final BenchmarkMessage request = Answer.request();
    private final Recorder recorder = new Recorder();
    private final List<Thread> threads = new ArrayList<>();
    private volatile boolean stopped;

    Client(Plan plan) {
        this.plan = plan;
        callers = plan.number("callers");
        rate = plan.number("rate");
    }

    /** Connects and starts the callers. */
    void start(Framework framework) throws Exception {
        String[] addrs = plan.text("addr", "").split(",");
        long conns = plan.number("conns") == 0 ? callers : plan.number("conns");
        if (conns < addrs.length) {
            throw new IllegalArgumentException(conns + " connections to " + addrs.length + " servers: each server needs one");
        }
        List<Framework.Caller> open = new ArrayList<>();
        for (int i = 0; i < conns; i++) {
            String addr = addrs[i % addrs.length];
            open.add(framework.dial(Main.host(addr), Main.port(addr)));
        }
        for (int i = 0; i < callers; i++) {
            int caller = i;
            Framework.Caller connection = open.get(i % open.size());
            Thread thread = new Thread(null, () -> work(caller, connection), "caller-" + i, STACK);
            thread.setDaemon(true);
            threads.add(thread);
            thread.start();
        }
    }

    /** One caller. In the closed loop the end of a call is the beginning of the next. */
    private void work(int caller, Framework.Caller connection) {
        Recorder.Samples kept = recorder.new Samples();
        long start = System.nanoTime();
        long began = start;
        for (long calls = 0; !stopped; calls++) {
            if (rate > 0) {
                began = start + (long) ((calls * callers + caller) * 1e9 / rate);
                sleepUntil(began);
            }
            long ended;
            try {
                Answer.check(connection.call(request));
                ended = System.nanoTime();
                kept.add(ended - began);
            } catch (Throwable e) {
                recorder.fail(e);
                LockSupport.parkNanos(1_000_000);
                ended = System.nanoTime();
            }
            began = ended;
        }
        kept.flush();
    }

    private void sleepUntil(long instant) {
        for (long left = instant - System.nanoTime(); left > 0 && !stopped; left = instant - System.nanoTime()) {
            LockSupport.parkNanos(Math.min(left, LOOK));
        }
    }

    /** Does what the harness says until it says stop, and reports the result. */
    void follow(Control control) throws Exception {
        Thread.sleep(plan.nanos("warmup") / 1_000_000);
        control.report("warm", "", "");
        control.expect("start");
        Usage used = measure();
        control.report("measured", "", "");
        control.expect("stop");
        stopped = true;
        for (Thread t : threads) {
            t.join();
        }
        control.report("result", "result", recorder.json(used));
    }

    private Usage measure() throws Exception {
        Usage before = Usage.now();
        recorder.on = true;
        Thread.sleep(plan.nanos("duration") / 1_000_000);
        while (recorder.counted() < plan.number("calls")) {
            Thread.sleep(1);
        }
        recorder.on = false;
        return Usage.now().since(before);
    }
}
