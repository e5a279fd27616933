package load;

import java.io.BufferedReader;
import java.io.EOFException;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;

/** A peer's side of the conversation with the harness: JSON, a value a line (bench/load/control.go). */
final class Control {
    private final BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    private final PrintStream out = System.out;

    /** Takes standard output for itself: what frameworks print goes to standard error. */
    Control() {
        System.setOut(System.err);
    }

    void report(String event, String field, String json) {
        out.printf("{\"event\":\"%s\"%s}%n", event, field.isEmpty() ? "" : ",\"" + field + "\":" + json);
        out.flush();
    }

    /** Waits for one command; an EOFException means that the harness has gone. */
    void expect(String op) throws IOException {
        String line = in.readLine();
        if (line == null) {
            throw new EOFException("the harness has gone");
        }
        if (!line.contains("\"" + op + "\"")) {
            throw new IOException("the harness said " + line + ", expected " + op);
        }
    }

    static String quote(String s) {
        StringBuilder b = new StringBuilder("\"");
        for (char c : s.toCharArray()) {
            if (c == '"' || c == '\\') {
                b.append('\\').append(c);
            } else {
                b.append(c < ' ' ? ' ' : c);
            }
        }
        return b.append('"').toString();
    }
}
