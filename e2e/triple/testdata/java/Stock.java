package shop.plain;

import java.util.List;
import java.util.Map;
import java.util.Set;

/** An interface of plain Java, which Dubbo sends in Triple's wrapper. */
public interface Stock {
    String hello(String name);

    Item find(String name, int least);

    List<Item> all();

    Map<String, Long> count(Set<String> names);

    int[] sizes(int[] sizes);

    long add(byte a, short b, int c, long d, float e, double f, boolean g, char h);

    void clear(Item[] items);

    Item echo(Item item);

    Color paint(Color color);

    Object anything(Object what);

    String missing();

    String unknown();
}
