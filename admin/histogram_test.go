package admin

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

func TestBuckets(t *testing.T) {
	last := -1
	for d := time.Duration(0); d < 100*time.Second; d += d/200 + 37 {
		b := bucketOf(d)
		if b < last || b >= buckets {
			t.Fatalf("%v is in bucket %d, after %d", d, b, last)
		}
		last = b
		if d > 64<<unitBits && d < 60*time.Second {
			if off := float64(middle(b)-d) / float64(d); off > 0.032 || off < -0.032 {
				t.Errorf("bucket %d of %v has the middle %v", b, d, middle(b))
			}
		}
	}
	if last != buckets-1 {
		t.Errorf("the last bucket is %d of %d", last, buckets)
	}
	if b := bucketOf(-time.Second); b != 0 {
		t.Errorf("a negative time is in bucket %d", b)
	}
}

func TestQuantiles(t *testing.T) {
	h, s := new(histogram), new(sums)
	if q := s.quantiles(0.5); q != nil {
		t.Errorf("quantiles of nothing: %v", q)
	}
	for ms := range 1000 {
		h.add(time.Duration(ms+1)*time.Millisecond, 3)
	}
	before := new([buckets]uint64)
	s.add(h.since(before))
	for i, q := range s.quantiles(0, 0.5, 0.9, 0.99, 0.999, 1) {
		want := time.Duration([]int{1, 500, 900, 990, 999, 1000}[i]) * time.Millisecond
		if off := float64(q-want) / float64(want); off > 0.04 || off < -0.04 {
			t.Errorf("quantile %d is %v, want %v", i, q, want)
		}
	}
	if m := s.mean(); m < 490*time.Millisecond || m > 510*time.Millisecond || new(sums).mean() != 0 {
		t.Errorf("the mean is %v", m)
	}
	if more := h.since(before); more != nil {
		t.Errorf("nothing was added, and there is %v", more)
	}
}

// A sample of the calls has the percentiles of all, also where the share that is timed changes.
func TestWeights(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	h, s := new(histogram), new(sums)
	for range 400_000 { // half of the calls are quick, and one in 64 of these is timed
		if r.Uint32()&63 == 0 {
			h.add(time.Millisecond, 64)
		}
	}
	for range 400_000 {
		h.add(100*time.Millisecond, 1)
	}
	s.add(h.since(new([buckets]uint64)))
	if q := s.quantiles(0.45, 0.55); q[0] > 2*time.Millisecond || q[1] < 90*time.Millisecond {
		t.Errorf("45 %% took %v, 55 %% %v", q[0], q[1])
	}
}

func TestSum(t *testing.T) {
	quick, slow := new(sums), new(sums)
	quick[bucketOf(time.Millisecond)] = 990
	slow[bucketOf(time.Second)] = 10
	a := MethodFigure{
		Method: "Shop.Buy", Calls: 990, Rate: 9, P99: time.Millisecond, Times: quick.counts(), Errors: map[string]uint64{"not found": 1},
		PerSecond: []Second{{1, 0}, {2, 1}}, Heat: [][]HeatCell{{{1, 1}, {2, 2}}},
	}
	b := MethodFigure{
		Method: "Shop.Buy", Calls: 10, Rate: 1, P99: time.Second, Times: append(slow.counts(), TimeCount{-1, 5}, TimeCount{buckets, 5}), Errors: map[string]uint64{"not found": 2},
		PerSecond: []Second{{3, 1}}, Heat: [][]HeatCell{{{4, 4}}, {{2, 3}}},
	}
	s := Sum(a, b)
	if s.Calls != 1000 || s.Rate != 10 || s.Errors["not found"] != 3 || s.P50 > 2*time.Millisecond || s.P99 > 2*time.Millisecond || s.P999 < 900*time.Millisecond {
		t.Errorf("%+v", s)
	}
	if !slices.Equal(s.PerSecond, []Second{{1, 0}, {5, 2}}) || len(s.Heat) != 2 || !slices.Equal(s.Heat[1], []HeatCell{{1, 1}, {2, 5}}) {
		t.Errorf("%+v, %+v", s.PerSecond, s.Heat)
	}
	if a.PerSecond[1].Calls != 2 || len(a.Heat) != 1 {
		t.Error("Sum changes what it is given")
	}
}
