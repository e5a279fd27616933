//go:build !race

package thrift_test

const raceEnabled = false
