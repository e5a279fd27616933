package balance

import (
	"maps"

	"github.com/tandem-rpc/tandem"
)

// Explanation is why a call would go where it goes: what each policy kept of the
// list, from the outermost to the one that chooses.
type Explanation struct {
	Steps []Step `json:"steps"`
}

// Step is what one policy makes of the instances that the one before has left.
// Where that has several pickers, one for each zone for example, each adds its
// own steps, in the order in which they are asked.
type Step struct {
	Policy  string             `json:"policy"`
	Kept    []string           `json:"kept"`             // instance IDs, in the order of the list
	Dropped map[string]string  `json:"dropped"`          // why not, by instance ID
	Scores  map[string]float64 `json:"scores,omitempty"` // by instance ID; what they mean is the policy's business
}

// Explainer is implemented by a [Picker] that can say how it chooses. It asks for
// nothing that a pick would change, and costs more than one.
type Explainer interface {
	// Explain adds steps for the call to e, as Pick would take them now.
	Explain(call *tandem.Call, usable func(*Node) bool, e *Explanation)
}

// Explain says how the call would be given an instance for which usable is true.
// It changes nothing. A picker that is no [Explainer] has one step without scores.
func (t *Table) Explain(call *tandem.Call, usable func(*Node) bool) Explanation {
	var e Explanation
	v := t.current.Load()
	branch{v.nodes, v.picker, v.policy.Name()}.explain(call, usable, &e)
	return e
}

// branch is a part of the list with a picker of its own.
type branch struct {
	nodes  []*Node
	picker Picker
	policy string // its name
}

func newBranch(p Policy, nodes []*Node) branch { return branch{nodes, p.Build(nodes), p.Name()} }

// explain lets the picker add its steps, and adds one in its place if it can't.
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

// narrow adds the step of a policy that drops the nodes for which why has a reason.
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

// Dropped returns why instances were dropped, in all steps, by ID. One that was
// kept by a later step than the one that dropped it is not among them.
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
