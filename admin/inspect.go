package admin

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/client"
	"github.com/tandem-rpc/tandem/server"
)

// Bounds of lists in an answer.
const (
	usualList = 100
	mostList  = 5000
)

// ConnectionsRequest is the request of Connections, which needs the role [Viewer].
type ConnectionsRequest struct {
	Max int `json:"max,omitempty"` // 0 for 100, at most 5000
}

// Connections are connections to the servers, the oldest first.
type Connections struct {
	Total       int          `json:"total"`
	Protocols   []Tally      `json:"protocols"` // how many there are of each protocol
	Connections []Connection `json:"connections"`
}

// Tally is how many there are of something.
type Tally struct {
	Name  string `json:"name"`
	Count int    `json:"count"`
}

// Connection is a connection to a server.
type Connection struct {
	ID       uint64        `json:"id"`
	Protocol string        `json:"protocol"`
	Peer     string        `json:"peer"`
	Subject  string        `json:"subject,omitempty"` // of the peer's verified certificate
	TLS      bool          `json:"tls,omitempty"`
	Since    time.Time     `json:"since"`
	Running  int           `json:"running"`
	Calls    uint64        `json:"calls"`
	Draining bool          `json:"draining,omitempty"`
	RTT      time.Duration `json:"rtt,omitempty"` // 0 if it is not known
}

// RunningRequest is the request of Running, which needs the role [Developer].
type RunningRequest struct {
	Max int `json:"max,omitempty"` // 0 for 100, at most 5000
}

// Running are calls that wait or run at the servers, the oldest first.
type Running struct {
	Calls []RunningCall `json:"calls"`
}

// RunningCall is a call that a server has not answered yet.
type RunningCall struct {
	Method     string    `json:"method"`
	Kind       string    `json:"kind"`
	Peer       string    `json:"peer"`
	Connection uint64    `json:"connection"`
	Since      time.Time `json:"since"`
	Deadline   time.Time `json:"deadline,omitzero"`
	Waits      string    `json:"waits,omitempty"` // for what; "" while its handler runs
}

// LimitsRequest is the request of Limits, which needs the role [Viewer].
type LimitsRequest struct{}

// Limits are the limiters of the servers, and the state of their overload control.
type Limits struct {
	Limits   []server.Limit         `json:"limits"`
	Overload []server.OverloadState `json:"overload"` // of each server
}

// SettingsRequest is the request of Settings, which needs the role [Viewer].
type SettingsRequest struct{}

// Settings are the options in force, with where each came from.
type Settings struct {
	Server  []tandem.Setting            `json:"server"`
	Clients map[string][]tandem.Setting `json:"clients"` // by name, for methods that the client's policy does not name
}

// ClientsRequest is the request of Clients, which needs the role [Viewer].
type ClientsRequest struct{}

// Clients are the clients of the process, sorted by name.
type Clients struct {
	Clients []Client `json:"clients"`
}

// Client is what a client knows of its target.
type Client struct {
	Name        string              `json:"name"`
	State       client.State        `json:"state"`
	Explanation *client.Explanation `json:"explanation"` // where a call of any method would go now
}

// subject returns the name in a peer's verified certificate.
func subject(p *tandem.Peer) string {
	if p == nil || p.TLS == nil || len(p.TLS.VerifiedChains) == 0 {
		return ""
	}
	return p.TLS.PeerCertificates[0].Subject.String()
}

func addrOf(p *tandem.Peer) string {
	if p == nil || p.Addr == nil {
		return ""
	}
	return p.Addr.String()
}

func checkMax(n int) (int, error) {
	if n < 0 {
		return 0, tandem.Errorf(tandem.InvalidArgument, "a list of %d entries", n)
	}
	return within(n, usualList, mostList), nil
}

func (a *Admin) connections(_ context.Context, req *ConnectionsRequest) (*Connections, error) {
	most, err := checkMax(req.Max)
	if err != nil {
		return nil, err
	}
	out := &Connections{Protocols: []Tally{}, Connections: []Connection{}}
	by := map[string]int{}
	for _, srv := range a.watched() {
		for _, c := range srv.Connections() {
			out.Total++
			by[c.Protocol]++
			if len(out.Connections) == most {
				continue
			}
			out.Connections = append(out.Connections, Connection{
				ID: c.ID, Protocol: c.Protocol, Peer: addrOf(c.Peer), Subject: subject(c.Peer), TLS: c.Peer != nil && c.Peer.TLS != nil,
				Since: c.Since, Running: c.Running, Calls: c.Calls, Draining: c.Draining, RTT: c.RTT,
			})
		}
	}
	for name, n := range by {
		out.Protocols = append(out.Protocols, Tally{name, n})
	}
	slices.SortFunc(out.Protocols, func(a, b Tally) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), strings.Compare(a.Name, b.Name))
	})
	return out, nil
}

func (a *Admin) running(_ context.Context, req *RunningRequest) (*Running, error) {
	most, err := checkMax(req.Max)
	if err != nil {
		return nil, err
	}
	out := &Running{Calls: []RunningCall{}}
	for _, srv := range a.watched() {
		for _, c := range srv.Running(most) {
			out.Calls = append(out.Calls, RunningCall{
				Method: c.Method, Kind: kindName(c.Kind), Peer: addrOf(c.Peer), Connection: c.Connection, Since: c.Since, Deadline: c.Deadline, Waits: string(c.Waits),
			})
		}
	}
	slices.SortStableFunc(out.Calls, func(a, b RunningCall) int { return a.Since.Compare(b.Since) })
	out.Calls = out.Calls[:min(len(out.Calls), most)]
	return out, nil
}

func (a *Admin) limits(context.Context, *LimitsRequest) (*Limits, error) {
	out := &Limits{Limits: []server.Limit{}, Overload: []server.OverloadState{}}
	for _, srv := range a.watched() {
		out.Limits = append(out.Limits, srv.Limits()...)
		out.Overload = append(out.Overload, srv.Overload())
	}
	return out, nil
}

func (a *Admin) clientStates(context.Context, *ClientsRequest) (*Clients, error) {
	out := &Clients{Clients: []Client{}}
	for name, c := range a.dialed() {
		out.Clients = append(out.Clients, Client{name, c.State(), c.Describe("")})
	}
	slices.SortFunc(out.Clients, func(a, b Client) int { return strings.Compare(a.Name, b.Name) })
	return out, nil
}

func (a *Admin) settings(context.Context, *SettingsRequest) (*Settings, error) {
	out := &Settings{Server: []tandem.Setting{}, Clients: map[string][]tandem.Setting{}}
	for _, srv := range a.watched() {
		out.Server = append(out.Server, srv.Settings()...)
	}
	for name, c := range a.dialed() {
		out.Clients[name] = c.Settings("")
	}
	return out, nil
}
