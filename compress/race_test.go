//go:build race

package compress_test

// raceEnabled: the race detector makes sync.Pool drop values at random.
const raceEnabled = true
