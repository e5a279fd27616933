package console

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"runtime/debug"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/admin"
)

const (
	maxRequest = 2 << 20
	apiTimeout = 30 * time.Second
	// A profile takes up to a minute.
	profileTimeout = 70 * time.Second
)

// method is a method that the page calls.
type method struct {
	need    admin.Role
	preview bool // with dryRun it only says what would happen, which viewers may ask
	call    func(ctx context.Context, u User, body []byte) (any, error)
}

// typed returns a method that decodes its request.
func typed[Req, Resp any](need admin.Role, f func(context.Context, User, *Req) (*Resp, error)) method {
	return method{need: need, call: func(ctx context.Context, u User, body []byte) (any, error) {
		req := new(Req)
		if len(body) > 0 {
			if err := json.Unmarshal(body, req); err != nil {
				return nil, tandem.Errorf(tandem.InvalidArgument, "%v", err)
			}
		}
		return f(ctx, u, req)
	}}
}

// dryRunner is a request that may ask what a change would do, without making it.
type dryRunner interface{ isDryRun() bool }

// previewed returns a method that viewers may call for a dry run, and others only with a role.
func previewed[Req, Resp any](need admin.Role, f func(context.Context, User, *Req) (*Resp, error)) method {
	m := typed(need, func(ctx context.Context, u User, req *Req) (*Resp, error) {
		if d, ok := any(req).(dryRunner); !ok || !d.isDryRun() {
			if err := allow(u, need); err != nil {
				return nil, err
			}
		}
		return f(ctx, u, req)
	})
	m.preview = true
	return m
}

// methods returns the methods by name.
func (c *Console) methods() map[string]method {
	return map[string]method{
		"Session":   typed(admin.Viewer, c.session),
		"Overview":  typed(admin.Viewer, c.overview),
		"Services":  typed(admin.Viewer, c.services),
		"Service":   typed(admin.Viewer, c.service),
		"Instance":  typed(admin.Viewer, c.instance),
		"Changes":   typed(admin.Viewer, c.changes),
		"Edit":      previewed(admin.Operator, c.edit),
		"Restore":   typed(admin.Operator, c.restore),
		"Ask":       typed(admin.Viewer, c.passOn),
		"Profile":   typed(admin.Developer, c.profile),
		"Topology":  typed(admin.Viewer, c.topology),
		"Policy":    typed(admin.Viewer, c.policy),
		"PutPolicy": previewed(admin.Operator, c.putPolicy),

		"Resilience":   typed(admin.Viewer, c.resilience),
		"ForceBreaker": previewed(admin.Operator, c.force),
		"Registry":     typed(admin.Viewer, c.registry),
		"Audit":        typed(admin.Viewer, c.auditTrail),
		"Detail":       typed(admin.Viewer, c.detail),
		"Undo":         typed(admin.Operator, c.undo),

		"Playground": typed(admin.Viewer, c.playground),
		"Call":       typed(admin.Developer, c.call),
		"Send":       typed(admin.Developer, c.send),
		"Traces":     typed(admin.Developer, c.traces),
		"Trace":      typed(admin.Developer, c.trace),

		"Access":     typed(admin.Viewer, c.access),
		"Logout":     typed(admin.Viewer, c.logout),
		"RefuseUser": previewed(admin.Administrator, c.refuseUser),
		"AdmitUser":  typed(admin.Administrator, c.admitUser),
	}
}

func allow(u User, need admin.Role) error {
	if u.Role >= need {
		return nil
	}
	return tandem.Errorf(tandem.PermissionDenied, "this needs the role %v", need)
}

// SessionRequest is the request of Session.
type SessionRequest struct{}

func (c *Console) session(_ context.Context, u User, _ *SessionRequest) (*Session, error) {
	s := &Session{Name: u.Name, Role: u.Role.String(), ReadOnly: c.cfg.Authorizer == nil && c.cfg.Writer == "", Sources: c.states(), TraceURL: c.cfg.TraceURL}
	if b, ok := debug.ReadBuildInfo(); ok {
		s.Version = b.Main.Version
	}
	return s, nil
}

// serveAPI answers a call of the page.
func (c *Console) serveAPI(w http.ResponseWriter, r *http.Request) {
	answer, err := c.answer(w, r)
	c.reply(w, answer, err)
}

// reply sends an answer or an error.
func (c *Console) reply(w http.ResponseWriter, answer any, err error) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	if err != nil {
		e := tandem.AsError(err)
		w.WriteHeader(statusOf(e.Code))
		answer = map[string]string{"code": e.Code.String(), "message": e.Message}
	}
	if err := json.NewEncoder(w).Encode(answer); err != nil {
		c.cfg.Log.Debug("the page is gone", "error", err)
	}
}

func (c *Console) answer(w http.ResponseWriter, r *http.Request) (any, error) {
	m, ok := c.methods()[r.PathValue("name")]
	if !ok {
		return nil, tandem.Errorf(tandem.Unimplemented, "no method %q", r.PathValue("name"))
	}
	u, err := c.user(r)
	if err != nil {
		c.auditRefused(r, err)
		return nil, tandem.Errorf(tandem.Unauthenticated, "%v", err)
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxRequest))
	if err != nil {
		return nil, tandem.Errorf(tandem.InvalidArgument, "the request: %v", err)
	}
	answer, err := c.called(r, m, u, body)
	c.auditCall(r, u, body, answer, err)
	return answer, err
}

// called calls a method for a user.
func (c *Console) called(r *http.Request, m method, u User, body []byte) (any, error) {
	need := max(m.need, admin.Viewer)
	if m.preview {
		need = admin.Viewer
	}
	if err := allow(u, need); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(withLogin(r.Context(), c.loginOf(r, u)), timeoutOf(r.PathValue("name")))
	defer cancel()
	answer, err := m.call(ctx, u, body)
	if errors.Is(err, context.DeadlineExceeded) {
		return nil, tandem.Errorf(tandem.DeadlineExceeded, "no answer within %v", timeoutOf(r.PathValue("name")))
	}
	if err != nil && tandem.CodeOf(err) == tandem.Unknown {
		err = &tandem.Error{Code: tandem.FailedPrecondition, Message: fmt.Sprint(err)}
	}
	return answer, err
}

func timeoutOf(name string) time.Duration {
	if name == "Profile" || name == "Ask" || name == "Call" {
		return profileTimeout
	}
	return apiTimeout
}

// statusOf returns the HTTP status of an error.
func statusOf(code tandem.Code) int {
	switch code { //nolint:exhaustive // the rest is the server's
	case tandem.InvalidArgument, tandem.OutOfRange:
		return http.StatusBadRequest
	case tandem.Unauthenticated:
		return http.StatusUnauthorized
	case tandem.PermissionDenied:
		return http.StatusForbidden
	case tandem.NotFound, tandem.Unimplemented:
		return http.StatusNotFound
	case tandem.FailedPrecondition, tandem.Aborted, tandem.AlreadyExists:
		return http.StatusConflict
	case tandem.ResourceExhausted:
		return http.StatusTooManyRequests
	case tandem.DeadlineExceeded:
		return http.StatusGatewayTimeout
	case tandem.Unavailable:
		return http.StatusServiceUnavailable
	}
	return http.StatusInternalServerError
}
