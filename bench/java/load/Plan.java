package load;

import java.util.HashMap;
import java.util.Map;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** A command line of the form -name=value, as the harness writes them. */
record Plan(Map<String, String> flags) {
    private static final Pattern PART = Pattern.compile("([0-9.]+)(h|ms|m|s|µs|us|ns)");

    static Plan parse(String[] args) {
        Map<String, String> flags = new HashMap<>();
        for (int i = 1; i < args.length; i++) {
            String[] parts = args[i].split("=", 2);
            if (parts.length != 2 || !parts[0].startsWith("-")) {
                throw new IllegalArgumentException("argument " + args[i] + ": want -name=value");
            }
            flags.put(parts[0].substring(1), parts[1]);
        }
        return new Plan(flags);
    }

    String text(String name, String otherwise) {
        return flags.getOrDefault(name, otherwise);
    }

    long number(String name) {
        return Long.parseLong(flags.getOrDefault(name, "0"));
    }

    /** Returns a duration such as 1m2.5s in nanoseconds. */
    long nanos(String name) {
        String text = flags.getOrDefault(name, "0s");
        double sum = 0;
        int read = 0;
        Matcher m = PART.matcher(text);
        for (; m.lookingAt(); m.region(read, text.length())) {
            sum += Double.parseDouble(m.group(1)) * unit(m.group(2));
            read = m.end();
        }
        if (read < text.length()) {
            throw new IllegalArgumentException("-" + name + "=" + text + ": want a duration such as 1m2.5s");
        }
        return (long) sum;
    }

    private static double unit(String name) {
        switch (name) {
            case "h":
                return 3600e9;
            case "m":
                return 60e9;
            case "s":
                return 1e9;
            case "ms":
                return 1e6;
            case "ns":
                return 1;
            default:
                return 1e3;
        }
    }
}
