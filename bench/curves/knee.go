package curves

import "slices"

// tolerance is what counts as the same throughput.
const tolerance = 0.1

// How knees are found, for the report.
const (
	settled  = "the least x from which on all points are within 10 % of the last"
	nearMost = "the least x with at least 90 % of the most calls a second"
)

// settles returns the x from which on a curve does not change any more.
func settles(points []Point) int {
	knee := 0
	for _, p := range slices.Backward(points) {
		last := points[len(points)-1].QPS
		if p.QPS < last*(1-tolerance) || p.QPS > last*(1+tolerance) {
			break
		}
		knee = p.X
	}
	return knee
}

// nearsMost returns the x beyond which nothing worth having is gained.
func nearsMost(points []Point) int {
	most := 0.0
	for _, p := range points {
		most = max(most, p.QPS)
	}
	for _, p := range points {
		if p.QPS >= most*(1-tolerance) {
			return p.X
		}
	}
	return 0
}
