package balance

import (
	"maps"

	"github.com/tandem-rpc/tandem"
)

// Explanation says why a call would go to an instance: what each policy kept of the list, from
// the outermost policy to the one that chooses.
type Explanation struct {
	Steps []Step `json:"steps"`
}

// Step is what one policy kept and dropped of the instances that the one before has kept. A
// policy with several pickers, one for each zone for example, is followed by the steps of each,
// in the order in which they are asked.
type Step struct {
	Policy  string             `json:"policy"`
	Kept    []string           `json:"kept"`             // instance IDs, in the order of the list
	Dropped map[string]string  `json:"dropped"`          // reason, by instance ID
	Scores  map[string]float64 `json:"scores,omitempty"` // by instance ID; their meaning depends on the policy
}

// Explainer is implemented by a [Picker] that can say how it chooses. Explain changes no state
// that a pick would, and costs more than a pick.
type Explainer interface {
	// Explain adds steps for the call to e, as Pick would take them now.
	Explain(call *tandem.Call, usable func(*Node) bool, e *Explanation)
}

// Explain says how an instance for which usable is true would be chosen for the call. It
// changes nothing. A picker that is no [Explainer] has one step without scores.
func (t *Table) Explain(call *tandem.Call, usable func(*Node) bool) Explanation {
	var e Explanation
	v := t.current.Load()
	branch{v.nodes, v.picker, v.policy.Name()}.explain(call, usable, &e)
	return e
}

// branch is a part of the list with its own picker.
type branch struct {
	nodes  []*Node
	picker Picker
	policy string // name of the policy
}

func newBranch(p Policy, nodes []*Node) branch { return branch{nodes, p.Build(nodes), p.Name()} }

// explain adds the picker's steps, or one step in their place if the picker is no [Explainer].
func (b branch) explain(call *tandem.Call, usable func(*Node) bool, e *Explanation) {
	if x, ok := b.picker.(Explainer); ok {
		x.Explain(call, usable, e)
		return
	}
	e.choice(b.policy, b.nodes, usable, nil)
}

// choice adds the step of a policy that chooses among nodes: the usable ones are
// kept, with their score if there is one.
func (e *Explanation) choice(policy string, nodes []*Node, usable func(*Node) bool, score func(*Node) float64) {
	s := e.narrow(policy, nodes, func(n *Node) string {
		if usable(n) {
			return ""
		}
		return notUsable
	})
	if score == nil {
		return
	}
	s.Scores = make(map[string]float64, len(nodes))
	for _, n := range nodes {
		s.Scores[n.Instance.ID] = score(n)
	}
}

const notUsable = "not usable"

// narrow adds the step of a policy that drops the nodes for which why returns a reason.
func (e *Explanation) narrow(policy string, nodes []*Node, why func(*Node) string) *Step {
	s := Step{Policy: policy, Dropped: map[string]string{}}
	for _, n := range nodes {
		if reason := why(n); reason != "" {
			s.Dropped[n.Instance.ID] = reason
		} else {
			s.Kept = append(s.Kept, n.Instance.ID)
		}
	}
	e.Steps = append(e.Steps, s)
	return &e.Steps[len(e.Steps)-1]
}

// Dropped returns why instances were dropped, by ID, in all steps. An instance that a later
// step kept is not among them.
func (e *Explanation) Dropped() map[string]string {
	all := map[string]string{}
	for _, s := range e.Steps {
		maps.Copy(all, s.Dropped)
		for _, id := range s.Kept {
			delete(all, id)
		}
	}
	return all
}
