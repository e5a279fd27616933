import java.math.BigDecimal;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Date;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import org.apache.dubbo.rpc.RpcContext;
import shop.plain.Color;
import shop.plain.Item;
import shop.plain.Stock;

/** Calls shop.plain.Stock as TripleConsumer calls its service. */
public final class PlainConsumer {
    private PlainConsumer() {}

    public static void main(String[] args) throws Exception {
        TripleConsumer.begin();
        TripleConsumer consumer = new TripleConsumer(args[0]);
        Stock stock = consumer.refer(Stock.class, Stock.class.getName(), null);
        TripleConsumer.say("text", () -> stock.hello("Zoë \ud83d\ude00 \u20ac"));
        TripleConsumer.say("no text", () -> String.valueOf(stock.hello(null)));
        String longText = "0123456789 \ud83d\ude00\u20ac ".repeat(10_000);
        TripleConsumer.say("long text", () -> stock.hello(longText).equals("hello " + longText) ? "equal" : "different");
        TripleConsumer.say("two arguments", () -> stock.find("apple", 3).toString());
        TripleConsumer.say("nothing found", () -> String.valueOf(stock.find("", 0)));
        TripleConsumer.say("no argument, a list", () -> stock.all().toString());
        TripleConsumer.say("set and map", () -> new TreeMap<>(stock.count(Set.of("a", "bb"))).toString());
        TripleConsumer.say("array", () -> Arrays.toString(stock.sizes(new int[] {1, -70_000, 5_000_000})));
        TripleConsumer.say("primitives", () -> String.valueOf(
                stock.add((byte) -1, (short) 300, -70_000, 1L << 40, 1.5f, -2.25, true, 'x')));
        TripleConsumer.say("void", () -> {
            stock.clear(new Item[] {item("a"), null});
            return "done";
        });
        TripleConsumer.say("object", () -> {
            Item item = item("all");
            Item back = stock.echo(item);
            return back.equals(item) ? "equal" : item + " != " + back;
        });
        TripleConsumer.say("the same twice", () -> {
            Item item = item("twice");
            item.parts = List.of(item.twin, item.twin, item.twin);
            return stock.echo(item).equals(item) ? "equal" : "different";
        });
        TripleConsumer.say("a circle", () -> {
            Item item = item("circle");
            item.twin = item;
            return stock.echo(item).name;
        });
        TripleConsumer.say("enum", () -> stock.paint(Color.GREEN).toString());
        TripleConsumer.say("anything", () -> String.valueOf(stock.anything(new TreeMap<>(Map.of("a", List.of(1, 2L, "x"), "b", 0.5)))));
        TripleConsumer.say("error", stock::missing);
        TripleConsumer.say("unimplemented", stock::unknown);
        TripleConsumer.say("too large", () -> stock.hello("x".repeat(5 << 20)));
        TripleConsumer.say("attachments", () -> {
            RpcContext.getClientAttachment().setAttachment("user", "ann");
            return stock.hello("metadata") + " " + RpcContext.getServerContext().getAttachment("user-answer");
        });
        TripleConsumer.say("timeout", () -> consumer.timeout(() -> stock.hello("slow")));
        TripleConsumer.say("many at a time", () -> TripleConsumer.many(i -> stock.hello("n" + i).equals("hello n" + i)));
        System.exit(0);
    }

    private static Item item(String name) {
        Item item = new Item();
        item.name = name;
        item.count = -7;
        item.least = 1_000_000;
        item.number = Long.MIN_VALUE;
        item.most = 5L;
        item.price = 0.1;
        item.weight = 12.25f;
        item.sold = true;
        item.row = -300;
        item.shelf = 100;
        item.made = new Date(1_234_567_890_123L);
        item.picture = new byte[200_000];
        Arrays.fill(item.picture, (byte) 0xfe);
        item.tags = new ArrayList<>(List.of("x", "y", ""));
        item.primes = Set.of(2, 3, 65_537);
        item.sizes = new HashMap<>(Map.of("S", 1, "XL", 2));
        item.color = Color.RED;
        item.worth = new BigDecimal("12345678901234567890.50");
        item.secret = "none of yours";
        item.twin = new Item();
        item.twin.name = "twin of " + name;
        item.parts = new ArrayList<>(List.of(new Item(), item.twin));
        return item;
    }
}
