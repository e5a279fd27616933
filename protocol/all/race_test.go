//go:build race

package all_test

// raceEnabled: the race detector needs much memory of its own.
const raceEnabled = true
