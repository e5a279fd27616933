package chart

import (
	"math"
	"strconv"
)

// axis maps values to pixels.
type axis struct {
	low, high float64 // values at the ends
	from, to  float64 // pixels at the ends
	log       bool
}

func (a axis) at(v float64) float64 {
	low, high := a.low, a.high
	if a.log {
		low, high, v = math.Log(low), math.Log(high), math.Log(v)
	}
	return a.from + (v-low)/(high-low)*(a.to-a.from)
}

// axes returns the horizontal and the vertical axis of a chart.
func (c Chart) axes() (x, y axis) {
	x = axis{math.Inf(1), math.Inf(-1), left, right, c.LogX}
	y = axis{math.Inf(1), math.Inf(-1), bottom, top, c.LogY}
	for _, s := range c.Series {
		for _, p := range s.Points {
			x.low, x.high = min(x.low, p.X), max(x.high, p.X)
			y.low, y.high = min(y.low, p.Low, p.Y), max(y.high, p.High, p.Y)
		}
	}
	if !c.LogY {
		y.low = min(0, y.low)
	}
	y.high = y.beyond()
	if c.Bars {
		x.low, x.high = x.low-0.5, x.high+0.5
	}
	if x.low == x.high { // one value, in the middle
		x.low, x.high = x.low*0.9-1, x.high*1.1+1
		x.log = false
	}
	return x, y
}

// beyond returns the upper end with some room above it.
func (a axis) beyond() float64 {
	switch {
	case a.log:
		return a.high * 1.2
	case a.high <= a.low:
		return a.low + 1
	}
	return a.high + (a.high-a.low)/20
}

// ticks returns marks at round numbers.
func (a axis) ticks() []Tick {
	var values []float64
	if a.log {
		values = a.powers()
	} else {
		step := roundStep((a.high - a.low) / 8)
		for i := math.Ceil(a.low / step); i*step <= a.high; i++ {
			values = append(values, i*step)
		}
	}
	var all []Tick
	for _, v := range values {
		all = append(all, Tick{v, grouped(v)})
	}
	return all
}

// powers returns 1, 10, 100 …, and their halves and fifths if few of them are on the axis.
func (a axis) powers() (values []float64) {
	factors := []float64{1}
	if a.high/a.low < 1000 {
		factors = []float64{1, 2, 5}
	}
	for e := math.Floor(math.Log10(a.low)); e <= math.Log10(a.high); e++ {
		for _, f := range factors {
			if v := f * math.Pow(10, e); v >= a.low && v <= a.high {
				values = append(values, v)
			}
		}
	}
	return values
}

// roundStep returns the smallest of 1, 2, 5, 10, 20 … that is at least v.
func roundStep(v float64) float64 {
	power := math.Pow(10, math.Floor(math.Log10(v)))
	for _, f := range []float64{1, 2, 5} {
		if f*power >= v {
			return f * power
		}
	}
	return 10 * power
}

// grouped writes 1234567 as 1,234,567, and fractions with at most six digits.
func grouped(v float64) string {
	if v != math.Trunc(v) {
		return strconv.FormatFloat(v, 'g', 6, 64)
	}
	text := strconv.FormatFloat(v, 'f', -1, 64)
	for i := len(text) - 3; i > 0 && text[i-1] != '-'; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}
