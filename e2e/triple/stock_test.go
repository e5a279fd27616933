//go:build integration

package triple

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tandem-rpc/tandem"
)

// Item corresponds to Item.java.
type Item struct {
	Name    string
	Count   int
	Least   *int32
	Number  int64
	Most    *int64
	Price   float64
	Weight  *float32
	Sold    bool
	Row     int16
	Shelf   int8
	Made    time.Time
	Picture []byte
	Tags    []string
	Primes  []int
	Sizes   map[string]int
	Parts   []*Item
	Twin    *Item
	Color   *Color
	Worth   *string
}

func (*Item) JavaClassName() string { return "shop.plain.Item" }

type Color string

func (Color) JavaClassName() string { return "shop.plain.Color" }

// stockName is the full name of the Java interface.
const stockName = "shop.plain.Stock"

// stock implements Stock.java, except unknown.
type stock struct{ gone chan error }

func (s *stock) Hello(ctx context.Context, name *string) (*string, error) {
	switch {
	case name == nil:
		return nil, nil
	case *name == "slow":
		<-ctx.Done()
		s.gone <- ctx.Err()
		return nil, ctx.Err()
	case *name == "metadata":
		call := tandem.FromContext(ctx)
		call.Trailer = tandem.Metadata{"user-answer": {"bob"}}
		answer := call.Metadata.Get("user")
		return &answer, nil
	}
	answer := "hello " + *name
	return &answer, nil
}

// Find returns an interface, since a nil pointer reaches the caller as an empty item.
func (*stock) Find(name string, least int) (any, error) {
	if name == "" {
		return nil, nil
	}
	return &Item{Name: name, Count: least}, nil
}

func (*stock) All() ([]Item, error) {
	return []Item{{Name: "a"}, {Name: "b", Twin: &Item{Name: "c"}}}, nil
}

func (*stock) Count(names []string) (map[string]int64, error) {
	counts := map[string]int64{}
	for _, name := range names {
		counts[name] = int64(len(name))
	}
	return counts, nil
}

func (*stock) Sizes(sizes []int32) ([]int32, error) {
	slices.Reverse(sizes)
	return sizes, nil
}

func (*stock) Add(a int8, b int16, c int32, d int64, e float32, f float64, g bool, h string) (int64, error) {
	if !g || h != "x" {
		return 0, errors.New("bad arguments")
	}
	return int64(a) + int64(b) + int64(c) + d + int64(4*(float64(e)+f)), nil
}

func (*stock) Clear(items []*Item) error {
	if len(items) != 2 || items[0].Name != "a" || items[1] != nil {
		return fmt.Errorf("got %v", items)
	}
	return nil
}

func (*stock) Echo(it *Item) (*Item, error) {
	switch {
	case strings.HasPrefix(it.Name, "circle"):
		if it.Twin != it {
			return nil, errors.New("the twin is another one")
		}
	case it.Name == "twice" && (it.Parts[0] != it.Twin || it.Parts[2] != it.Twin):
		return nil, errors.New("the parts are others")
	case it.Worth == nil || *it.Worth != "12345678901234567890.50":
		return nil, fmt.Errorf("it is worth %v", it.Worth)
	}
	it.Worth = nil
	return it, nil
}

func (*stock) Paint(c Color) (Color, error) { return c, nil }

func (*stock) Anything(what any) (any, error) { return what, nil }

func (*stock) Missing() (string, error) { return "", errMissing }
