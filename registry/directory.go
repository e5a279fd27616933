package registry

import "context"

// MaxLists is how many lists a [Directory] returns at most.
const MaxLists = 10000

// Directory is implemented by a [Resolver] whose registry can say which lists there are.
type Directory interface {
	// Lists returns targets of the lists of instances at the target's path and below it, with
	// its options, sorted by path. A list without an instance may be missing. Of more than
	// [MaxLists] it returns an error. It reads the whole directory, so it is for consoles and
	// command lines rather than for calls.
	Lists(ctx context.Context, target Target) ([]Target, error)
}
