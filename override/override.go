// Package override (experimental) takes instances of a service out of use, and changes their
// weight and tags. An operator sets an override for one instance, or for all that have certain
// labels: disabled, draining, another weight, or other tags. The overrides of a service are a document of the registry
// beside the list of instances, so they stay when a server starts again, and each says who set it,
// when and why. Clients follow the document; [Editor] changes it.
package override

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/policy"
)

// State is what operators want of an instance.
type State string

// The states of an instance. One that is not enabled stays listed and gets no new calls; those
// in flight go on.
const (
	Enabled  State = "enabled"
	Disabled State = "disabled" // it gets no calls
	Draining State = "draining" // the same, because it is about to be stopped
)

// Limits of a document.
const (
	MaxOverrides = 2000
	maxByLabels  = 200 // of these, how many may go by labels: each is compared with each instance
	maxLabels    = 16
	maxTagText   = 256 // bytes of a tag's name, and of its value
)

// Overrides is the document of one list of instances. The zero value overrides nothing.
type Overrides struct {
	Change policy.Change `json:"change,omitzero"` // the last change
	Set    []Override    `json:"set"`
}

// Override is a state, a weight or tags that are set for one instance, or for all that have certain
// labels. What is set for an instance by its ID counts more than what is set by labels; of two
// that are set by labels the later one counts.
type Override struct {
	Instance string            `json:"instance,omitempty"` // ID of the instance; "" for Labels
	Labels   map[string]string `json:"labels,omitempty"`   // "zone", "version", "group", or names of tags: an instance has all of them

	State  State `json:"state,omitempty"`  // "" if a weight or tags are set
	Weight int   `json:"weight,omitempty"` // 1 to 10000; 0 if a state or tags are set
	// Tags are merged over those with which an instance is registered; "" removes a tag. Labels
	// keep matching the registered tags. A client whose version of tandem knows no Tags
	// refuses the document, and keeps the one before.
	Tags map[string]string `json:"tags,omitempty"`
	// From is the weight at the time At, from which the weight changes evenly to Weight within
	// Ramp. 0 is the weight with which an instance is registered.
	From int             `json:"from,omitempty"`
	Ramp policy.Duration `json:"ramp,omitzero"`
	// FromEach is From for single instances, by ID, where those that the labels match had several
	// weights at the time At.
	FromEach map[string]int `json:"fromEach,omitempty"`

	By    string    `json:"by,omitempty"`
	Why   string    `json:"why,omitempty"`
	At    time.Time `json:"at,omitzero"`
	Until time.Time `json:"until,omitzero"` // when it ends by itself; zero for never
}

// Parse reads a document. It fails for unknown fields, for invalid values, and for anything
// after the document. An empty text is a document that overrides nothing.
func Parse(text []byte) (*Overrides, error) {
	o := new(Overrides)
	if len(bytes.TrimSpace(text)) == 0 {
		return o, nil
	}
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.DisallowUnknownFields()
	if err := dec.Decode(o); err != nil {
		return nil, fmt.Errorf("overrides: %w", err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("overrides: there is more after the document")
	}
	return o, o.Validate()
}

// Validate returns an error that names the first invalid override.
func (o *Overrides) Validate() error {
	if len(o.Set) > MaxOverrides {
		return fmt.Errorf("overrides: %d of them, limit %d", len(o.Set), MaxOverrides)
	}
	byLabels := 0
	for i := range o.Set {
		if err := o.Set[i].Validate(); err != nil {
			return fmt.Errorf("overrides: set[%d]: %w", i, err)
		}
		if o.Set[i].Instance == "" {
			byLabels++
		}
	}
	if byLabels > maxByLabels {
		return fmt.Errorf("overrides: %d of them go by labels, limit %d", byLabels, maxByLabels)
	}
	return nil
}

// Validate returns an error that names what is wrong with an override.
func (o *Override) Validate() error {
	switch {
	case (o.Instance == "") == (len(o.Labels) == 0):
		return errors.New("want either an instance or labels")
	case len(o.Instance) > tandem.MaxInstanceID:
		return fmt.Errorf("instance id of %d bytes, limit %d", len(o.Instance), tandem.MaxInstanceID)
	case len(o.Labels) > maxLabels:
		return fmt.Errorf("%d labels, limit %d", len(o.Labels), maxLabels)
	case hasEmpty(o.Labels):
		return errors.New("a label without a value would match every instance that does not have it")
	case o.kinds() != 1:
		return errors.New("want either a state or a weight, or tags")
	case o.State != "" && o.State != Enabled && o.State != Disabled && o.State != Draining:
		return fmt.Errorf("state %.40q: want enabled, disabled or draining", o.State)
	case len(o.By) > policy.MaxReason || len(o.Why) > policy.MaxReason:
		return fmt.Errorf("author or reason is longer than %d bytes", policy.MaxReason)
	}
	return cmp.Or(o.checkTags(), o.checkWeight())
}

// kinds returns how many of state, weight and tags are set.
func (o *Override) kinds() (n int) {
	for _, is := range []bool{o.State != "", o.Weight != 0, len(o.Tags) > 0} {
		if is {
			n++
		}
	}
	return n
}

func (o *Override) checkTags() error {
	if len(o.Tags) > maxLabels {
		return fmt.Errorf("%d tags, limit %d", len(o.Tags), maxLabels)
	}
	for name, value := range o.Tags {
		switch {
		case name == "" || len(name) > maxTagText || len(value) > maxTagText:
			return fmt.Errorf("tag %.40q: want a name of 1 to %d bytes, and a value of at most that", name, maxTagText)
		case name == "zone" || name == "version" || name == "group":
			return fmt.Errorf("tag %q: that is a field of the instance, which only its server sets", name)
		}
	}
	return nil
}

func (o *Override) checkWeight() error {
	switch most := tandem.MaxWeight; {
	case o.Weight < 0 || o.Weight > most || o.From < 0 || o.From > most:
		return fmt.Errorf("weight %d from %d: want 1 to %d; an instance that shall get no calls is disabled", o.Weight, o.From, most)
	case o.Ramp < 0 || time.Duration(o.Ramp) > 24*time.Hour:
		return errors.New("ramp: want 0s to 24h")
	case o.Ramp > 0 && o.Weight == 0:
		return errors.New("a ramp without a weight")
	case len(o.FromEach) > 0 && (o.Ramp == 0 || o.Instance != ""):
		return errors.New("fromEach: want it only for a ramp by labels")
	}
	for id, from := range o.FromEach {
		if from < 1 || from > tandem.MaxWeight {
			return fmt.Errorf("fromEach: weight %d of %.100q: want 1 to %d", from, id, tandem.MaxWeight)
		}
	}
	return nil
}

func hasEmpty(labels map[string]string) bool {
	for name, value := range labels {
		if name == "" || value == "" {
			return true
		}
	}
	return false
}

// replaces reports whether an override takes the place of another one: both set a state, both a
// weight, or both tags, for the same instance or labels.
func (o *Override) replaces(old *Override) bool {
	return o.sameMatch(old) && (o.State == "") == (old.State == "") && (o.Weight == 0) == (old.Weight == 0)
}

func (o *Override) sameMatch(other *Override) bool {
	return o.Instance == other.Instance && maps.Equal(o.Labels, other.Labels)
}

// Matches reports whether an override is for an instance.
func (o *Override) Matches(in *tandem.Instance) bool {
	if o.Instance != "" {
		return o.Instance == in.ID
	}
	for name, value := range o.Labels {
		if label(in, name) != value {
			return false
		}
	}
	return true
}

// withTags returns the tags of an instance as the overrides set them.
func withTags(in *tandem.Instance, set []*Override) map[string]string {
	tags := maps.Clone(in.Tags)
	if tags == nil {
		tags = map[string]string{}
	}
	for _, o := range slices.Backward(set) { // the first counts most
		for name, value := range o.Tags {
			if tags[name] = value; value == "" {
				delete(tags, name)
			}
		}
	}
	return tags
}

// label returns the value of an instance's label.
func label(in *tandem.Instance, name string) string {
	switch name {
	case "zone":
		return in.Zone
	case "version":
		return in.Version
	case "group":
		return in.Group
	}
	return in.Tags[name]
}

// over reports whether an override has ended.
func (o *Override) over(now time.Time) bool { return !o.Until.IsZero() && !now.Before(o.Until) }

// Effect is what overrides make of a list of instances.
type Effect struct {
	Enabled  []tandem.Instance   // those that get calls, in the order of the list, with their weights and tags
	Withheld map[string]Override // the others by ID, with what withholds them
	// Tags are the tags of those instances, enabled or not, whose tags are not the registered ones.
	Tags map[string]map[string]string
	Next time.Time // when the effect changes by itself; zero for never
}

// Apply returns what the overrides make of a list. It changes neither.
func (o *Overrides) Apply(list []tandem.Instance, now time.Time) Effect {
	live := o.live(now)
	e := Effect{Next: live.next}
	if len(live.byID)+len(live.byLabels) == 0 {
		e.Enabled = list
		return e
	}
	e.Enabled = make([]tandem.Instance, 0, len(list))
	for i := range list {
		in := list[i]
		if tags := live.tags(&in); len(tags) > 0 {
			if e.Tags == nil {
				e.Tags = make(map[string]map[string]string)
			}
			e.Tags[in.ID] = withTags(&in, tags)
		}
		state, weight := live.find(&in)
		if state != nil && state.State != Enabled {
			if e.Withheld == nil {
				e.Withheld = make(map[string]Override)
			}
			e.Withheld[in.ID] = *state
			continue
		}
		if weight != nil {
			var step time.Time
			in.Weight, step = weight.weight(&in, now)
			e.Next = sooner(e.Next, step)
		}
		if tags, set := e.Tags[in.ID]; set {
			in.Tags = tags
		}
		e.Enabled = append(e.Enabled, in)
	}
	return e
}

// live are the overrides that have not ended.
type live struct {
	byID     map[string][]*Override // the later ones first
	byLabels []*Override            // the later ones first
	next     time.Time              // when the next of them ends; zero for never
}

func (o *Overrides) live(now time.Time) live {
	l := live{byID: make(map[string][]*Override)}
	for i := range slices.Backward(o.Set) {
		s := &o.Set[i]
		switch {
		case s.over(now):
			continue
		case s.Instance != "":
			l.byID[s.Instance] = append(l.byID[s.Instance], s)
		default:
			l.byLabels = append(l.byLabels, s)
		}
		l.next = sooner(l.next, s.Until)
	}
	return l
}

// find returns the override that sets the state of an instance, and the one that sets its weight.
func (l *live) find(in *tandem.Instance) (state, weight *Override) {
	for _, list := range [][]*Override{l.byID[in.ID], l.byLabels} {
		for _, s := range list {
			switch {
			case s.State != "" && state == nil && s.Matches(in):
				state = s
			case s.Weight != 0 && weight == nil && s.Matches(in):
				weight = s
			}
		}
	}
	return state, weight
}

// tags returns the overrides that set tags of an instance, those that count most first.
func (l *live) tags(in *tandem.Instance) (set []*Override) {
	for _, list := range [][]*Override{l.byID[in.ID], l.byLabels} {
		for _, s := range list {
			if len(s.Tags) > 0 && s.Matches(in) {
				set = append(set, s)
			}
		}
	}
	return set
}

// steps is in how many steps a weight changes along a ramp, at most one a second.
const steps = 50

// weight returns the weight that is set at a time for an instance as it is registered, and when it
// changes next, zero for never.
func (o *Override) weight(in *tandem.Instance, now time.Time) (int, time.Time) {
	end := o.At.Add(time.Duration(o.Ramp))
	if o.Ramp == 0 || !now.Before(end) { // the clock of the writer may be ahead
		return o.Weight, time.Time{}
	}
	from := cmp.Or(o.FromEach[in.ID], o.From, max(0, in.Weight), tandem.DefaultWeight)
	step := max(time.Second, time.Duration(o.Ramp)/steps)
	passed := max(0, now.Sub(o.At)).Truncate(step)
	w := from + int(float64(o.Weight-from)*float64(passed)/float64(o.Ramp))
	next := o.At.Add(passed + step)
	if next.After(end) {
		next = end
	}
	return max(1, w), next
}

// sooner returns the earlier of two times; a zero time is never.
func sooner(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// VersionOf returns by what clients and [Editor.Rollout] tell one document from another: the
// beginning of its SHA-256. Its revision would not do, as it may be written by hand.
func VersionOf(text []byte) string {
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:6])
}

// String describes the override and its author: "disabled by ann: the disk is full".
func (o *Override) String() string {
	text := string(o.State)
	if o.Weight > 0 {
		text = fmt.Sprintf("weight %d", o.Weight)
	}
	if len(o.Tags) > 0 {
		var pairs []string
		for _, name := range slices.Sorted(maps.Keys(o.Tags)) {
			pairs = append(pairs, name+"="+o.Tags[name])
		}
		text = "tags " + strings.Join(pairs, ", ")
	}
	if o.Ramp > 0 {
		text += fmt.Sprintf(" within %v", time.Duration(o.Ramp))
	}
	if o.By != "" {
		text += " by " + o.By
	}
	if !o.Until.IsZero() {
		text += " until " + o.Until.UTC().Format(time.RFC3339)
	}
	if o.Why != "" {
		text += ": " + o.Why
	}
	return text
}
