// Package housecheck has tests of the repository itself: rules for every file, and claims of
// the documentation.
//
// A rule that never fails proves nothing, so each has a sample that it must reject.
//
// They read files and start no goroutines, so they are built without the race detector only.
package housecheck
