package shop.plain;

import java.io.Serializable;
import java.math.BigDecimal;
import java.util.Arrays;
import java.util.Date;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Set;

/** Has a field of every kind. */
public class Item implements Serializable {
    private static final long serialVersionUID = 1;

    public String name = "";
    public int count;
    public Integer least;
    public long number;
    public Long most;
    public double price;
    public Float weight; // a float is read wrongly by hessian-lite 4.0.4 itself: it writes eight bytes over the four
    public boolean sold;
    public short row;
    public byte shelf;
    public Date made;
    public byte[] picture;
    public List<String> tags;
    public Set<Integer> primes;
    public Map<String, Integer> sizes;
    public List<Item> parts;
    public Item twin;
    public Color color;
    public BigDecimal worth; // this way only: the server does not send it
    public String secret; // the server does not have it

    private Object[] all() {
        return new Object[] {
            name, count, least, number, most, price, weight, sold, row, shelf, made, picture == null ? null : Arrays.hashCode(picture),
            tags, primes, sizes, parts, twin, color
        };
    }

    @Override
    public boolean equals(Object other) {
        return other instanceof Item item && Arrays.equals(all(), item.all());
    }

    @Override
    public int hashCode() {
        return Objects.hash(all());
    }

    @Override
    public String toString() {
        return Arrays.toString(all());
    }
}
