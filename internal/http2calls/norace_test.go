//go:build !race

package http2calls

const raceEnabled = false
