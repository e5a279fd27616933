package shop.plain;

public enum Color {
    RED,
    GREEN
}
