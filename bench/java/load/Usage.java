package load;

import java.io.IOException;
import java.lang.management.ManagementFactory;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;

/** What the process has used since it began, as bench/load/usage.go says it. Objects are not counted. */
record Usage(long wall, long cpu, long peak, long reads, long writes, long loopback, long network) {
    private static final com.sun.management.OperatingSystemMXBean PROCESS =
            (com.sun.management.OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();

    static Usage now() throws IOException {
        long loopback = 0;
        long network = 0;
        for (String line : Files.readAllLines(Path.of("/proc/self/net/dev"))) {
            String[] f = line.replaceFirst(":", " ").trim().split("\\s+");
            if (f.length < 10 || !f[1].matches("\\d+")) {
                continue;
            }
            if (f[0].equals("lo")) {
                loopback += Long.parseLong(f[1]);
            } else {
                network += Long.parseLong(f[1]) + Long.parseLong(f[9]);
            }
        }
        return new Usage(
                System.nanoTime(),
                PROCESS.getProcessCpuTime(),
                field("/proc/self/status", "VmHWM:") << 10,
                field("/proc/self/io", "syscr:"),
                field("/proc/self/io", "syscw:"),
                loopback,
                network);
    }

    /** What was used since earlier; the peak stays. */
    Usage since(Usage earlier) {
        return new Usage(
                wall - earlier.wall,
                cpu - earlier.cpu,
                peak,
                reads - earlier.reads,
                writes - earlier.writes,
                loopback - earlier.loopback,
                network - earlier.network);
    }

    String json() {
        return String.format(
                "{\"wall_ns\":%d,\"cpu_ns\":%d,\"mallocs\":0,\"peak_b\":%d,\"reads\":%d,\"writes\":%d,\"loopback_b\":%d,\"network_b\":%d}",
                wall, cpu, peak, reads, writes, loopback, network);
    }

    private static long field(String file, String label) throws IOException {
        List<String> lines = Files.readAllLines(Path.of(file));
        for (String line : lines) {
            if (line.startsWith(label)) {
                return Long.parseLong(line.substring(label.length()).trim().split("\\s+")[0]);
            }
        }
        return 0;
    }
}
