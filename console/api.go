package console

import (
	"encoding/json"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/admin"
	"github.com/tandem-rpc/tandem/client"
	"github.com/tandem-rpc/tandem/override"
	"github.com/tandem-rpc/tandem/policy"
)

// The page calls these methods by POST /api/NAME with a JSON request, and gets a JSON answer, or
// {"code","message"} with an HTTP status for an error. Durations are nanoseconds, times RFC 3339.
// Streams (Tap) answer with lines of JSON.

// Session says who the caller is, and what the page may offer.
type Session struct {
	Name     string   `json:"name"`
	Role     string   `json:"role"`     // viewer, developer, operator, administrator
	ReadOnly bool     `json:"readOnly"` // nobody may write: no authorizer is set
	Sources  []Source `json:"sources"`
	Version  string   `json:"version"`            // of the console
	TraceURL string   `json:"traceURL,omitempty"` // Config.TraceURL
}

// Source is a registry that the console reads.
type Source struct {
	Name      string    `json:"name"` // the target, without secrets
	Lists     int       `json:"lists"`
	Error     string    `json:"error,omitempty"` // why it can't be read now
	At        time.Time `json:"at"`              // when it was last read
	Documents bool      `json:"documents"`       // it keeps policies and overrides
}

// OverviewRequest is the request of Overview.
type OverviewRequest struct{}

// Overview is the state of everything, in figures.
type Overview struct {
	Services  int            `json:"services"`
	Instances map[string]int `json:"instances"` // by State
	Rate      float64        `json:"rate"`      // calls a second, of the instances that say so
	ErrorRate float64        `json:"errorRate"`
	Answering int            `json:"answering"` // instances with an admin API that answers
	Silent    int            `json:"silent"`    // instances whose admin API does not answer, or that have none
	Versions  map[string]int `json:"versions"`  // of tandem, by number of instances
	Sources   []Source       `json:"sources"`
	Top       []ServiceRow   `json:"top"` // by impact: rate × mean time
	Rollouts  []Rollout      `json:"rollouts"`
	Changes   []ChangeRow    `json:"changes"` // the latest first
	PerSecond []admin.Second `json:"perSecond"`
}

// ServicesRequest is the request of Services.
type ServicesRequest struct {
	Filter string `json:"filter,omitempty"` // words that must all be in name, source, zone, version or protocol; "state:disabled" and the like
}

// Services is the list of services, sorted by name.
type Services struct {
	Services []ServiceRow `json:"services"`
	At       time.Time    `json:"at"`
}

// ServiceRow is a service in a list. Of a list of instances with several services each is a row.
type ServiceRow struct {
	Source    string         `json:"source"`
	List      string         `json:"list"` // the target of the list of instances, without secrets
	Service   string         `json:"service"`
	Instances map[string]int `json:"instances"` // by State
	Versions  []string       `json:"versions"`
	Zones     []string       `json:"zones"`
	Protocols []string       `json:"protocols"`
	Rate      float64        `json:"rate"`
	ErrorRate float64        `json:"errorRate"`
	P99       time.Duration  `json:"p99"` // of the slowest instance
	Policy    string         `json:"policy,omitempty"`
	Overrides int            `json:"overrides"`
	PerSecond []uint64       `json:"perSecond,omitempty"` // calls in each of the last 60 s

	impact float64 // how many callers wait for it on average: rate × mean time
}

// ServiceRequest is the request of Service.
type ServiceRequest struct {
	List    string `json:"list"`
	Service string `json:"service"`
}

// Service is one service in detail.
type Service struct {
	ServiceRow

	Methods   []admin.MethodFigure `json:"methods"` // of all instances together
	Rows      []InstanceRow        `json:"rows"`
	Consumers []Consumer           `json:"consumers"`
	Set       []override.Override  `json:"set"`
}

// State is the state of an instance: enabled, disabled, draining, or silent for one whose admin
// API ought to answer and does not.
type State string

const stateSilent State = "silent"

// InstanceRow is an instance in a list.
type InstanceRow struct {
	tandem.Instance

	List    string        `json:"list"`
	State   State         `json:"state"`
	Why     string        `json:"why,omitempty"` // who set the state, and why
	Until   time.Time     `json:"until,omitzero"`
	Set     int           `json:"set"`     // the weight in force
	Running uint64        `json:"running"` // calls
	Rate    float64       `json:"rate"`
	Errors  float64       `json:"errorRate"`
	P99     time.Duration `json:"p99"`
	Admin   bool          `json:"admin"` // its admin API answers
	Error   string        `json:"error,omitempty"`

	mean time.Duration // of its calls
}

// InstanceRequest is the request of Instance.
type InstanceRequest struct {
	List     string `json:"list"`
	Instance string `json:"instance"`
}

// Instance is one instance in detail. What its admin API did not answer is nil.
type Instance struct {
	InstanceRow

	Info        *admin.Info          `json:"info,omitempty"`
	Methods     []admin.MethodFigure `json:"methods,omitempty"`
	Connections *admin.Connections   `json:"connections,omitempty"`
	Calls       *admin.Running       `json:"runningCalls,omitempty"`
	Settings    []tandem.Setting     `json:"settings,omitempty"`
	Limits      *admin.Limits        `json:"limits,omitempty"`
	Clients     []Consumer           `json:"clients,omitempty"` // what it calls
}

// Consumer is a client of a service in some process, as its own admin API tells.
type Consumer struct {
	List        string               `json:"list"`     // where its process is listed
	Instance    string               `json:"instance"` // ID of its process
	Client      string               `json:"client"`   // its name in its process: the target
	Rate        float64              `json:"rate"`
	ErrorRate   float64              `json:"errorRate"`
	P99         time.Duration        `json:"p99"`
	Methods     []admin.MethodFigure `json:"methods,omitempty"`
	State       *client.State        `json:"state,omitempty"`
	Explanation *client.Explanation  `json:"explanation,omitempty"` // where a call would go now
}

// TopologyRequest is the request of Topology.
type TopologyRequest struct {
	Center string `json:"center"` // service; the graph begins there
	Hops   int    `json:"hops"`   // 1 to 3
}

// Topology is who calls whom.
type Topology struct {
	Nodes []Node `json:"nodes"`
	Edges []Edge `json:"edges"`
	Cut   int    `json:"cut"` // nodes beyond the limit of 200
}

// Node is a service, or a process that serves none.
type Node struct {
	ID        string  `json:"id"`
	Name      string  `json:"name"`
	Rate      float64 `json:"rate"`
	ErrorRate float64 `json:"errorRate"`
	Instances int     `json:"instances"`
}

// Edge is the calls of one node to another.
type Edge struct {
	From      string        `json:"from"`
	To        string        `json:"to"`
	Rate      float64       `json:"rate"`
	ErrorRate float64       `json:"errorRate"`
	P99       time.Duration `json:"p99"`
	Protocols []string      `json:"protocols"`
}

// Rollout is how far clients have taken up a document.
type Rollout struct {
	List    string `json:"list"`
	Kind    string `json:"kind"` // policy or overrides
	Version string `json:"version"`
	Applied int    `json:"applied"`
	Pending int    `json:"pending"`
	Refused int    `json:"refused"`
	Text    string `json:"text"`
}

// ChangeRow is a change of a document or in a process.
type ChangeRow struct {
	List     string    `json:"list"`
	Kind     string    `json:"kind"` // policy, overrides, process
	Revision string    `json:"revision"`
	At       time.Time `json:"at"`
	By       string    `json:"by"`
	Why      string    `json:"why,omitempty"`
	What     string    `json:"what"`
	Undone   bool      `json:"undone,omitempty"`
}

// EditRequest is the request of Edit, which sets the state or the weight of instances.
type EditRequest struct {
	List    string              `json:"list"`
	Set     []override.Override `json:"set"`
	Clear   []string            `json:"clear,omitempty"` // IDs of instances whose overrides end
	Why     string              `json:"why"`
	Confirm string              `json:"confirm,omitempty"` // the name of the list, typed: allows to leave no instance that gets calls
	DryRun  bool                `json:"dryRun,omitempty"`  // only say what would happen
}

func (r *EditRequest) isDryRun() bool { return r.DryRun }

// Edit is what a change does, or would do.
type Edit struct {
	Revision string        `json:"revision,omitempty"`
	Rows     []InstanceRow `json:"rows"`    // instances whose state or weight changes, as they will be
	Share    float64       `json:"share"`   // of the present traffic that they get now, 0 to 1
	Left     int           `json:"left"`    // instances that get calls afterwards
	Empties  bool          `json:"empties"` // no instance would be left: Confirm is needed
}

// PolicyRequest is the request of Policy.
type PolicyRequest struct {
	List string `json:"list"`
	Key  string `json:"key"` // of the document
}

// PolicyView is a policy document.
type PolicyView struct {
	Key      string          `json:"key"`
	Text     string          `json:"text"` // JSON, or YAML if it was written so
	Policy   *policy.Policy  `json:"policy,omitempty"`
	Error    string          `json:"error,omitempty"` // why it is not valid
	Revision string          `json:"revision"`
	History  []ChangeRow     `json:"history"`
	Rollout  *Rollout        `json:"rollout,omitempty"`
	Schema   json.RawMessage `json:"schema"` // JSON Schema of policies
}

// PutPolicyRequest is the request of PutPolicy.
type PutPolicyRequest struct {
	List   string `json:"list"`
	Key    string `json:"key"`
	Text   string `json:"text"`
	Base   string `json:"base"` // the revision that the text was made from
	Why    string `json:"why"`
	DryRun bool   `json:"dryRun,omitempty"`
}

func (r *PutPolicyRequest) isDryRun() bool { return r.DryRun }

// RestoreRequest is the request of Restore, which brings back an earlier revision of a document.
type RestoreRequest struct {
	List     string `json:"list"`
	Kind     string `json:"kind"` // policy or overrides
	Key      string `json:"key,omitempty"`
	Revision string `json:"revision"`
	Why      string `json:"why"`
}

// ChangesRequest is the request of Changes: the history of a list's overrides.
type ChangesRequest struct {
	List string `json:"list"`
}

// Changes are changes, the latest first.
type Changes struct {
	Changes []ChangeRow `json:"changes"`
}

// AskRequest is the request of Ask, which passes a request on to the admin API of an instance that
// is listed: Spans, Explain, Profile, Changes, SetLogLevel or Undo. The answer is the instance's.
type AskRequest struct {
	List     string          `json:"list"`
	Instance string          `json:"instance"`
	Method   string          `json:"method"`
	Request  json.RawMessage `json:"request,omitempty"`
}

// TapRequest is the request of Tap, whose answer is a line of JSON, a TapEvent, for each call.
type TapRequest struct {
	List      string           `json:"list"`
	Instances []string         `json:"instances,omitempty"` // IDs; none for all of the list, at most 50
	Tap       admin.TapRequest `json:"tap"`
}

// TapEvent is a call at an instance.
type TapEvent struct {
	Instance string `json:"instance"`
	Failure  string `json:"failure,omitempty"` // why the instance shows no more calls

	*admin.TapEvent
}

// ProfileRequest is the request of Profile. The answer is an admin.Profile.
type ProfileRequest struct {
	List     string `json:"list"`
	Instance string `json:"instance"`

	admin.ProfileRequest
}
