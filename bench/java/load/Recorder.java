package load;

import org.HdrHistogram.Histogram;

/** The latencies of all callers, in an HDR histogram up to a minute with three digits. */
final class Recorder {
    private static final long HIGHEST = 60_000_000_000L;

    /** Calls that end while it is set count. */
    volatile boolean on;

    private final Histogram histogram = new Histogram(1, HIGHEST, 3);
    private long failures;
    private String first = "";

    synchronized long counted() {
        return histogram.getTotalCount() + failures;
    }

    /** A failed call has no latency: an error that comes at once would look fast. */
    synchronized void fail(Throwable cause) {
        if (on && failures++ == 0) {
            first = cause.toString();
        }
    }

    private synchronized void add(long[] nanos, int n) {
        for (int i = 0; i < n; i++) {
            histogram.recordValue(Math.min(Math.max(nanos[i], 1), HIGHEST));
        }
    }

    /** The result of bench/load/client.go. */
    synchronized String json(Usage used) {
        return String.format(
                "{\"calls\":%d,\"failures\":%d,\"first_error\":%s,\"latency\":{\"mean_ns\":%d,\"min_ns\":%d,\"p50_ns\":%d,"
                        + "\"p90_ns\":%d,\"p99_ns\":%d,\"p999_ns\":%d,\"p9999_ns\":%d,\"max_ns\":%d},\"usage\":%s}",
                histogram.getTotalCount(), failures, Control.quote(first), (long) histogram.getMean(), histogram.getMinValue(),
                at(50), at(90), at(99), at(99.9), at(99.99), histogram.getMaxValue(), used.json());
    }

    private long at(double percentile) {
        return histogram.getValueAtPercentile(percentile);
    }

    /** One caller's latencies on their way to the recorder, whose lock is taken once for many. */
    final class Samples {
        private final long[] kept = new long[32];
        private int n;

        void add(long nanos) {
            if (!on) {
                return;
            }
            kept[n++] = nanos;
            if (n == kept.length) {
                flush();
            }
        }

        void flush() {
            Recorder.this.add(kept, n);
            n = 0;
        }
    }
}
