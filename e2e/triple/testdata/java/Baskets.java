package shop.v1;

/** An interface as programs in Java have them, without a generated stub. */
public interface Baskets {
    Cart add(AddRequest request);
}
