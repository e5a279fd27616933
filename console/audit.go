package console

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/tandem-rpc/tandem"
)

// Record is an entry of the console's own audit: a change that a user has made or was refused, or
// a login.
type Record struct {
	At     time.Time `json:"at"`
	Who    string    `json:"who"`            // name of the user; "" for one who is not logged in
	Role   string    `json:"role,omitempty"` // of the user
	From   string    `json:"from"`           // address of the peer: the browser, or a proxy
	Method string    `json:"method"`         // of the API, or "login"
	List   string    `json:"list,omitempty"`
	What   string    `json:"what"`
	Why    string    `json:"why,omitempty"`   // the user's reason
	Error  string    `json:"error,omitempty"` // why it was refused, or failed; "" if it was done
	Count  int       `json:"count"`           // how often the same was refused, within a minute after the one before

	Changes []ChangeRef `json:"changes,omitempty"` // where the change itself is kept
}

// ChangeRef names a change: a revision of a document, or a change in a process.
type ChangeRef struct {
	List     string `json:"list"`
	Kind     string `json:"kind"`               // overrides, policy or process
	Revision string `json:"revision,omitempty"` // of a document
	Instance string `json:"instance,omitempty"` // the process
	ID       string `json:"id,omitempty"`       // of the change in the process
}

// Bounds of the audit that is kept in memory. Refused logins have a ring of their own, as anyone
// can make them.
const (
	maxRecords = 2000
	maxRefused = 200
	maxWords   = 1000 // bytes of a text in a record
	sameWithin = time.Minute
)

// audit keeps the last records.
type audit struct {
	mu      sync.Mutex
	made    []Record // the oldest first
	refused []Record // logins
}

// add keeps a record, and reports whether it is a new one: a refusal that is the same as the last
// one of that address is only counted.
func (a *audit) add(r Record) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	ring, most := &a.made, maxRecords
	if r.Who == "" && r.Error != "" {
		ring, most = &a.refused, maxRefused
		same := slices.IndexFunc(*ring, func(o Record) bool {
			return o.From == r.From && o.Method == r.Method && o.Error == r.Error && r.At.Sub(o.At) < sameWithin
		})
		if same >= 0 {
			(*ring)[same].At = r.At
			(*ring)[same].Count++
			return false
		}
	}
	if len(*ring) == most {
		*ring = slices.Delete(*ring, 0, most/10) // several at a time, as each moves the rest
	}
	*ring = append(*ring, r)
	return true
}

// records returns what is kept.
func (a *audit) records() []Record {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Concat(a.made, a.refused)
}

// record keeps and logs a record, and passes it to Config.Audit.
func (c *Console) record(ctx context.Context, r Record) {
	r.At, r.Count = time.Now(), 1
	r.What, r.Why, r.Error = cut(r.What), cut(r.Why), cut(r.Error)
	if !c.audit.add(r) {
		return
	}
	level := slog.LevelInfo
	if r.Error != "" {
		level = slog.LevelWarn
	}
	c.cfg.Log.Log(ctx, level, "audit", "who", r.Who, "role", r.Role, "from", r.From, "method", r.Method, "list", r.List, "what", r.What, "why", r.Why, "error", r.Error)
	if c.cfg.Audit != nil {
		c.cfg.Audit(r)
	}
}

// cut bounds a text.
func cut(text string) string {
	if len(text) <= maxWords {
		return text
	}
	return strings.ToValidUTF8(text[:maxWords], "") + "…"
}

// peerOf returns the address of the peer without its port.
func peerOf(r *http.Request) string {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return r.RemoteAddr
	}
	return host
}

// auditLogin records that a token was exchanged, or refused.
func (c *Console) auditLogin(r *http.Request, err error) {
	rec := Record{From: peerOf(r), Method: "login", What: "the one-time token was used", Who: c.cfg.Writer}
	if err != nil {
		rec.Who, rec.What, rec.Error = "", "a token was refused", err.Error()
	}
	c.record(r.Context(), rec)
}

// auditRefused records a call of a caller who is not logged in.
func (c *Console) auditRefused(r *http.Request, err error) {
	c.record(r.Context(), Record{From: peerOf(r), Method: "login", What: "a call without a valid login", Error: err.Error()})
}

// auditCall records a call that changes something, done or not. Calls that only look are not
// recorded.
func (c *Console) auditCall(r *http.Request, u User, body []byte, answer any, err error) {
	name := r.PathValue("name")
	if req := new(CallRequest); name == "Call" && tandem.CodeOf(err) == tandem.PermissionDenied && json.Unmarshal(body, req) == nil {
		c.auditPlay(r, u, req, err)
	}
	rec := describe(name, body)
	if rec == nil {
		return
	}
	rec.Who, rec.Role, rec.From, rec.Method = u.Name, u.Role.String(), peerOf(r), name
	if err != nil {
		rec.Error = tandem.AsError(err).Message
	}
	rec.Changes = changesOf(rec, answer)
	if f, ok := answer.(*Force); ok && f != nil && len(f.Failures) > 0 {
		rec.Error = strings.Join(f.Failures, "; ")
	}
	if done, ok := answer.(*Undone); ok && done != nil && len(done.Failures) > 0 {
		rec.Error = strings.Join(done.Failures, "; ")
	}
	for _, ref := range rec.Changes {
		c.trails.drop(figureKey{ref.List, ref.Instance})
		c.reads.drop(figureKey{list: ref.List})
	}
	c.record(r.Context(), *rec)
}

// auditPlay records a call or a stream of the playground that was refused.
func (c *Console) auditPlay(r *http.Request, u User, req *CallRequest, err error) {
	rec := describeCall(req, "")
	rec.Who, rec.Role, rec.From, rec.Method, rec.Error = u.Name, u.Role.String(), peerOf(r), "Call", tandem.AsError(err).Message
	c.record(r.Context(), *rec)
}

// changesOf returns where the changes of a call are kept.
func changesOf(rec *Record, answer any) []ChangeRef {
	switch a := answer.(type) {
	case *Edit:
		if a != nil && a.Revision != "" {
			return []ChangeRef{{List: rec.List, Kind: kindOverrides, Revision: a.Revision}}
		}
	case *PolicyView:
		if a != nil {
			return []ChangeRef{{List: rec.List, Kind: kindPolicy, Revision: a.Revision}}
		}
	case *ChangeRow:
		if a != nil {
			return []ChangeRef{{List: rec.List, Kind: a.Kind, Revision: a.Revision}}
		}
	case *Force:
		if a != nil {
			return a.Changes
		}
	case *Undone:
		if a != nil {
			return a.Changes
		}
	}
	return nil
}

// describe says what a call changes; nil for one that only looks.
func describe(name string, body []byte) *Record {
	switch name {
	case "Edit":
		return describeAs(body, func(req *EditRequest) *Record {
			what := describeSet(req.Set)
			if len(req.Clear) > 0 {
				what = strings.TrimPrefix(what+"; cleared: "+strings.Join(req.Clear, ", "), "; ")
			}
			return unlessDry(req.DryRun, Record{List: req.List, What: what, Why: req.Why})
		})
	case "PutPolicy":
		return describeAs(body, func(req *PutPolicyRequest) *Record {
			return unlessDry(req.DryRun, Record{List: req.List, What: "policy " + req.Key + ", made from revision " + req.Base, Why: req.Why})
		})
	case "Restore":
		return describeAs(body, func(req *RestoreRequest) *Record {
			return &Record{List: req.List, What: "restore revision " + req.Revision + " of the " + req.Kind, Why: req.Why}
		})
	case "ForceBreaker":
		return describeAs(body, func(req *ForceRequest) *Record {
			return unlessDry(req.DryRun, Record{List: req.List, What: req.String(), Why: req.Why})
		})
	case "Undo":
		return describeAs(body, func(req *UndoRequest) *Record {
			return &Record{List: req.list(), What: "undo " + req.String(), Why: req.Why}
		})
	case "Ask":
		return describeAs(body, describeAsk)
	case "RefuseUser":
		return describeAs(body, func(req *RefuseUserRequest) *Record {
			return unlessDry(req.DryRun, Record{What: "end the sessions of " + req.Name, Why: req.Why})
		})
	case "AdmitUser":
		return describeAs(body, func(req *AdmitUserRequest) *Record { return &Record{What: "let " + req.Name + " in again"} })
	case "Logout":
		return &Record{What: "log out"}
	}
	return nil
}

// describeAs decodes a request; one that can't be decoded changes nothing.
func describeAs[Req any](body []byte, f func(*Req) *Record) *Record {
	req := new(Req)
	if json.Unmarshal(body, req) != nil {
		return nil
	}
	return f(req)
}

func unlessDry(dry bool, r Record) *Record {
	if dry {
		return nil
	}
	return &r
}

// describeAsk describes a request that is passed on to a process, if it changes something there.
func describeAsk(req *AskRequest) *Record {
	if req.Method != "SetLogLevel" && req.Method != "ForceBreaker" && req.Method != "Undo" {
		return nil
	}
	var reason struct {
		Why string `json:"why"`
	}
	_ = json.Unmarshal(req.Request, &reason) // the text is recorded in any case
	return &Record{List: req.List, What: fmt.Sprintf("%s at %s: %s", req.Method, req.Instance, req.Request), Why: reason.Why}
}

// String says what a request forces.
func (req *ForceRequest) String() string {
	text := fmt.Sprintf("breakers %s for %v:", req.State, req.For)
	if req.State == "auto" {
		text = "breakers not forced any more:"
	}
	for i, b := range req.Breakers {
		if i == 5 {
			return text + fmt.Sprintf(" and %d more", len(req.Breakers)-i)
		}
		text += fmt.Sprintf(" %s at %s", b.Instance, b.Process)
	}
	return text
}

// errAlready is the error for a change that is not the latest any more.
var errAlready = errors.New("the document has been changed since: restore an earlier revision instead")
