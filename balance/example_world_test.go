package balance_test

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/balance"
)

func ExampleWorld() {
	now := time.Minute
	world := &balance.World{
		Now:    func() time.Duration { return now },
		Random: rand.NewPCG(1, 2).Uint64, // the same numbers in every run
	}
	table := balance.NewTableIn(world, balance.Random())
	table.Update([]tandem.Instance{{ID: "a"}, {ID: "b"}, {ID: "c"}})
	for range 5 {
		n := table.Pick(nil, func(*balance.Node) bool { return true })
		fmt.Print(n.Instance.ID, " ")
	}
	// Output: c b c c a
}
