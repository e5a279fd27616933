//go:build race

package thrift_test

// raceEnabled: the race detector needs much memory of its own.
const raceEnabled = true
