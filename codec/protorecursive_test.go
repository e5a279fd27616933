package codec

import "testing"

type flatMessage struct {
	Name  *string
	Items []*item
	ByKey map[string]item
}

type item struct{ N []int }

type selfMessage struct{ Next *selfMessage }

type mutualMessage struct{ Other []*otherMessage }

type otherMessage struct{ Back map[string]*mutualMessage }

type oneofMessage struct{ Choice isChoice }

type isChoice interface{ isChoice() }

func TestRecursion(t *testing.T) {
	for _, c := range []struct {
		v    any
		want bool
	}{
		{new(flatMessage), false}, {new(selfMessage), true}, {new(mutualMessage), true},
		{new(oneofMessage), true}, {&struct{ M mutualMessage }{}, true}, {new(item), false},
	} {
		for range 2 { // found, then known
			if got := mayNest(c.v); got != c.want {
				t.Errorf("%T: %v", c.v, got)
			}
		}
	}
}
