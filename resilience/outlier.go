package resilience

import (
	"fmt"
	"slices"
	"time"
)

// Outliers finds the instances that do worse than the others: whose calls fail much more often,
// or take much longer. It compares with the median, so that a problem of all instances ejects
// none (Envoy's and gRPC's outlier detection, gRFC A50, use the mean). It is pure and not safe
// for concurrent use.
type Outliers struct {
	config OutlierConfig
	rounds []map[string]Sample // samples of the last window, the oldest first
}

// OutlierConfig sets which instances are outliers. Zero fields have their defaults.
type OutlierConfig struct {
	// Every is the interval between outlier checks; 1 s.
	Every time.Duration `json:"every,omitzero"`
	// Window is the time in which failures are counted; 5 s.
	Window time.Duration `json:"window,omitzero"`
	// MinCalls is the number of calls in the window below which an instance is not judged; 10.
	MinCalls int `json:"minCalls,omitzero"`
	// FailureRate is how far an outlier's share of failed calls is above the median; 0.2.
	FailureRate float64 `json:"failureRate,omitzero"`
	// LatencyFactor is how many times the median latency an outlier's latency is, at two
	// checks in a row; 3.
	LatencyFactor float64 `json:"latencyFactor,omitzero"`
	// LatencyExcess is how much longer than the median an outlier's latency must be at least;
	// 100 ms.
	LatencyExcess time.Duration `json:"latencyExcess,omitzero"`
	// MaxShare is the largest share of the instances that may be ejected at a time; 0.5. If
	// more are ejected, calls go to all instances: the others could not bear the load (Envoy's
	// panic threshold).
	MaxShare float64 `json:"maxShare,omitzero"`
}

// Sample is how the calls to an instance have ended so far.
type Sample struct {
	ID       string
	Calls    uint64        // calls that have ended
	Failures uint64        // calls that have failed
	Latency  time.Duration // average; 0 if it is not known
}

// Outlier is an instance that is to be ejected.
type Outlier struct {
	ID     string
	Reason string
	// Limit is the latency from which on an instance is an outlier, if the latency is the
	// reason; else 0. Calls that take so long should not bring the instance back.
	Limit time.Duration
}

// NewOutliers returns an Outliers without samples.
func NewOutliers(config OutlierConfig) *Outliers { return &Outliers{config: config.complete()} }

// complete returns the configuration with the defaults.
func (config OutlierConfig) complete() OutlierConfig {
	set(&config.Every, time.Second)
	set(&config.Window, 5*time.Second)
	set(&config.MinCalls, 10)
	set(&config.FailureRate, 0.2)
	set(&config.LatencyFactor, 3)
	set(&config.LatencyExcess, 100*time.Millisecond)
	set(&config.MaxShare, 0.5)
	return config
}

// Configure replaces the configuration. Earlier samples count, as far as the new window
// reaches.
func (o *Outliers) Configure(config OutlierConfig) { o.config = config.complete() }

// Config returns the configuration, with the defaults.
func (o *Outliers) Config() OutlierConfig { return o.config }

// recent is how the calls to an instance ended in the window.
type recent struct {
	id      string
	rate    float64 // share of failed calls
	latency time.Duration
}

// Look takes samples of all instances, once every [OutlierConfig.Every], and returns the
// instances that have become outliers.
func (o *Outliers) Look(samples []Sample) []Outlier {
	round := make(map[string]Sample, len(samples))
	for _, s := range samples {
		round[s.ID] = s
	}
	var judged []recent
	for _, s := range samples {
		if r, ok := o.since(s); ok {
			judged = append(judged, r)
		}
	}
	o.rounds = append(o.rounds, round)
	keep := int(max(1, o.config.Window/o.config.Every))
	o.rounds = o.rounds[max(0, len(o.rounds)-keep):]
	if len(judged) < 2 {
		return nil
	}
	return o.worst(judged)
}

// since returns how the calls to an instance have ended since its first sample in the window,
// and whether there are enough of them.
func (o *Outliers) since(s Sample) (recent, bool) {
	var first Sample
	for _, round := range o.rounds {
		if old, ok := round[s.ID]; ok {
			first = old
			break
		}
	}
	calls := s.Calls - first.Calls
	if s.Calls < first.Calls || calls < uint64(o.config.MinCalls) { //nolint:gosec // not negative
		return recent{}, false
	}
	return recent{id: s.ID, rate: float64(s.Failures-first.Failures) / float64(calls), latency: o.lasting(s)}, true
}

// lasting returns the lower of the latencies of this check and the one before: an average of
// the last calls is high for a moment if a few of them were of a slow kind.
func (o *Outliers) lasting(s Sample) time.Duration {
	if len(o.rounds) == 0 {
		return s.Latency
	}
	return min(s.Latency, o.rounds[len(o.rounds)-1][s.ID].Latency)
}

// worst returns the instances that differ too much from the median.
func (o *Outliers) worst(judged []recent) []Outlier {
	rate := median(judged, func(r recent) float64 { return r.rate })
	latency := median(judged, func(r recent) float64 { return float64(r.latency) })
	limit := time.Duration(max(o.config.LatencyFactor*latency, latency+float64(o.config.LatencyExcess)))
	var out []Outlier
	for _, r := range judged {
		switch {
		case r.rate-rate >= o.config.FailureRate:
			out = append(out, Outlier{ID: r.id, Reason: fmt.Sprintf("%.0f %% of its calls fail, the median is %.0f %%", 100*r.rate, 100*rate)})
		case r.latency >= limit:
			out = append(out, Outlier{ID: r.id, Reason: fmt.Sprintf("its calls take %v, the median is %v", r.latency, time.Duration(latency)), Limit: limit})
		}
	}
	return out
}

// median returns the lower median: of two values, the smaller one.
func median(list []recent, value func(recent) float64) float64 {
	values := make([]float64, len(list))
	for i, r := range list {
		values[i] = value(r)
	}
	slices.Sort(values)
	return values[(len(values)-1)/2]
}
