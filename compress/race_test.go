//go:build race

package compress_test

// raceEnabled: the race detector makes sync.Pool forget at random.
const raceEnabled = true
