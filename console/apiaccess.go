package console

import (
	"time"

	"github.com/tandem-rpc/tandem/admin"
)

// AccessRequest is the request of Access.
type AccessRequest struct{}

// Access says who the caller is, what the roles allow, and what instances allow the console.
type Access struct {
	By        string       `json:"by"`                  // how the caller got in: token or authorizer
	Own       *SessionRow  `json:"own,omitempty"`       // the caller's session
	LogoutURL string       `json:"logoutURL,omitempty"` // Config.LogoutURL
	Roles     []string     `json:"roles"`               // each includes those before it
	Actions   []Action     `json:"actions"`             // sorted by name
	Sessions  []SessionRow `json:"sessions,omitempty"`  // of all users, the one seen last first; for administrators
	Refused   []Refusal    `json:"refused,omitempty"`   // for administrators
	Lists     []ListRoles  `json:"lists"`               // sorted by name
}

// Action is something that a role allows.
type Action struct {
	Name     string `json:"name"` // of the method of this API
	Role     string `json:"role"`
	Preview  bool   `json:"preview"`  // viewers may see what it would do
	Instance bool   `json:"instance"` // an instance is asked, which decides for itself too
}

// SessionRow is a user who is logged in, at one address. It holds no secret.
type SessionRow struct {
	ID        string    `json:"id"`
	Name      string    `json:"name"`
	Role      string    `json:"role"`
	Since     time.Time `json:"since"`
	Seen      time.Time `json:"seen"`
	Until     time.Time `json:"until,omitzero"` // when the console ends it
	Address   string    `json:"address"`
	Forwarded string    `json:"forwarded,omitempty"` // client address from X-Forwarded-For; not verified
	Own       bool      `json:"own"`                 // the caller's
}

// Refusal is a user who is refused for a time, whatever the Authorizer says.
type Refusal struct {
	Name  string    `json:"name"`
	By    string    `json:"by"`
	Why   string    `json:"why"`
	At    time.Time `json:"at"`
	Until time.Time `json:"until"`
}

// ListRoles is how many instances of a list give the console which role.
type ListRoles struct {
	List    string         `json:"list"`
	Roles   map[string]int `json:"roles"`
	Refused int            `json:"refused"`         // they answer, and give it none
	Silent  int            `json:"silent"`          // they do not answer
	Unknown int            `json:"unknown"`         // they have not been asked
	Without int            `json:"without"`         // they have no admin API
	Error   string         `json:"error,omitempty"` // why one of them refuses it
}

// LogoutRequest is the request of Logout, which ends the caller's session.
type LogoutRequest struct{}

// LogoutAnswer is the answer of Logout.
type LogoutAnswer struct{}

// RefuseUserRequest is the request of RefuseUser, which ends all sessions of a user and refuses
// him for an hour.
type RefuseUserRequest struct {
	Name   string `json:"name"`
	Why    string `json:"why"`
	DryRun bool   `json:"dryRun,omitempty"`
}

func (r *RefuseUserRequest) isDryRun() bool { return r.DryRun }

// RefusedUser is what RefuseUser has done, or would do.
type RefusedUser struct {
	Refusal

	Ended int `json:"ended"` // sessions
}

// AdmitUserRequest is the request of AdmitUser, which lets a user in again who is refused.
type AdmitUserRequest struct {
	Name string `json:"name"`
}

// AdmittedUser is the answer of AdmitUser.
type AdmittedUser struct{}

// TracesRequest is the request of Traces. All that is set must match.
type TracesRequest struct {
	List    string        `json:"list,omitempty"`    // its instances, and the processes that call them; "" for all lists
	Service string        `json:"service,omitempty"` // name
	Method  string        `json:"method,omitempty"`  // pattern of path.Match, such as Cart.*; without a dot it is of Service
	Code    string        `json:"code,omitempty"`    // name of a code; "error" for all but ok
	AtLeast time.Duration `json:"atLeast,omitempty"`
	Trace   string        `json:"trace,omitempty"` // ID
}

// Gathered is what processes have said of traces, and what is missing of it.
type Gathered struct {
	Spans   []TracedSpan `json:"spans"`
	Asked   int          `json:"asked"`   // processes
	Left    int          `json:"left"`    // processes beyond those that are asked
	Without int          `json:"without"` // instances without the admin API
	Full    int          `json:"full"`    // processes that may have more calls than they were asked for
	Cut     int          `json:"cut"`     // calls beyond those that are returned
	Silent  int          `json:"silent"`  // processes that did not answer
	Missing []Missing    `json:"missing"` // some of these
}

// TracedSpan is a call, seen from one side of it by a process.
type TracedSpan struct {
	List     string `json:"list"`
	Instance string `json:"instance"` // ID of the process

	admin.Span
}

// Missing is a process that has not said what it knows.
type Missing struct {
	List     string `json:"list"`
	Instance string `json:"instance"`
	Error    string `json:"error"`
}

// TraceRequest is the request of Trace: the spans of one trace, of all processes.
type TraceRequest struct {
	Trace string `json:"trace"`          // ID
	List  string `json:"list,omitempty"` // is asked first
}
