package registry

import (
	"context"
	"time"
)

// Held is how a registry keeps the entry of an instance. What it does not know is zero.
type Held struct {
	ID       string        `json:"id"`                 // of the instance
	Key      string        `json:"key"`                // of the entry in the registry
	Revision uint64        `json:"revision,omitempty"` // of the registry's data that wrote the entry
	Lease    string        `json:"lease,omitempty"`    // the name of what keeps the entry listed, such as a lease
	TTL      time.Duration `json:"ttl,omitempty"`      // how long the entry stays after the server was heard last
	Left     time.Duration `json:"left,omitempty"`     // of that
}

// Inspector is implemented by a [Resolver] whose registry can say how it keeps entries.
type Inspector interface {
	// Inspect returns how the entries of the target's list are kept, sorted by ID. It may send a
	// request for each of them, so it is for consoles rather than for calls.
	Inspect(ctx context.Context, target Target) ([]Held, error)
}
