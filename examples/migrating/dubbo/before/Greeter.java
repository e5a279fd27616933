package demo;

import java.util.List;
import java.util.Map;

/** What provider and consumers have in common. */
public interface Greeter {
    String hello(String name);

    /** Returns a greeting for each name. */
    Map<String, String> helloAll(List<String> names);
}
