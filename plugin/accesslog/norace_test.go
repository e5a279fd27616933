//go:build !race

package accesslog_test

const raceEnabled = false
