package console

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/admin"
	"github.com/tandem-rpc/tandem/client"
)

// passed are the methods of the admin API that the page may call at instances, with the role that
// each needs here; instances decide for themselves, too.
func passed() map[string]admin.Role {
	return map[string]admin.Role{
		"Spans": admin.Developer, "Explain": admin.Viewer, "Profile": admin.Developer, "Changes": admin.Viewer,
		"SetLogLevel": admin.Operator, "ForceBreaker": admin.Operator, "Undo": admin.Operator,
	}
}

// passOn passes a request on to an instance.
func (c *Console) passOn(ctx context.Context, u User, req *AskRequest) (*json.RawMessage, error) {
	need, ok := passed()[req.Method]
	if !ok {
		return nil, tandem.Errorf(tandem.Unimplemented, "the console passes no %q on", req.Method)
	}
	if err := allow(u, need); err != nil {
		return nil, err
	}
	_, row, err := c.instanceRow(req.List, req.Instance)
	if err != nil {
		return nil, err
	}
	if len(req.Request) == 0 {
		req.Request = json.RawMessage("{}")
	}
	if need >= admin.Operator {
		if req.Request, err = signed(u, req.Request); err != nil {
			return nil, err
		}
	}
	l, err := c.asker.take(&row.Instance)
	if err != nil {
		return nil, err
	}
	defer c.asker.give(l)
	return client.Invoke[json.RawMessage](ctx, l.c, admin.Service+"."+req.Method, req.Request, client.Timeout(profileTimeout))
}

// signed returns the request of a change with the name of the user before its reason: the instance
// knows only the console, and its list of changes is to say who made them.
func signed(u User, request json.RawMessage) (json.RawMessage, error) {
	fields := map[string]any{}
	if err := json.Unmarshal(request, &fields); err != nil {
		return nil, tandem.Errorf(tandem.InvalidArgument, "%v", err)
	}
	why, _ := fields["why"].(string)
	if strings.TrimSpace(why) == "" {
		return nil, tandem.Errorf(tandem.InvalidArgument, "a change needs a reason: why")
	}
	fields["why"] = u.Name + ": " + why
	return json.Marshal(fields)
}

// profile gets a profile of an instance.
func (c *Console) profile(ctx context.Context, u User, req *ProfileRequest) (*json.RawMessage, error) {
	text, err := json.Marshal(req.ProfileRequest)
	if err != nil {
		return nil, err
	}
	return c.passOn(ctx, u, &AskRequest{List: req.List, Instance: req.Instance, Method: "Profile", Request: text})
}

// maxTapped is how many instances are tapped at a time.
const maxTapped = 50

// serveTap answers with a line for each call that instances show, until the page goes away.
func (c *Console) serveTap(w http.ResponseWriter, r *http.Request) {
	req, rows, err := c.tapRequest(w, r)
	if err != nil {
		c.reply(w, nil, err)
		return
	}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	if u, err := c.user(r); err == nil {
		if l := c.loginOf(r, u); l != nil { // a tap ends with the login that began it
			defer context.AfterFunc(l.ctx, cancel)()
		}
	}
	events := make(chan TapEvent)
	var wg sync.WaitGroup
	for i := range rows {
		wg.Go(func() {
			if err := c.tap(ctx, &rows[i], req, events); err != nil && ctx.Err() == nil {
				send(ctx, events, TapEvent{Instance: rows[i].ID, Failure: short(err)})
			}
		})
	}
	go func() {
		wg.Wait()
		close(events)
	}()
	w.Header().Set("Content-Type", "application/x-ndjson")
	w.Header().Set("Cache-Control", "no-store")
	out, lines := http.NewResponseController(w), json.NewEncoder(w)
	_ = out.Flush() // the page learns that it is tapped
	for e := range events {
		_ = out.SetWriteDeadline(time.Now().Add(apiTimeout)) // where it is not supported, TCP ends it
		if errors.Join(lines.Encode(e), out.Flush()) != nil {
			cancel() // the page is gone; the rest is read so that the taps end
		}
	}
}

func (c *Console) tapRequest(w http.ResponseWriter, r *http.Request) (*TapRequest, []InstanceRow, error) {
	u, err := c.user(r)
	if err != nil {
		return nil, nil, tandem.Errorf(tandem.Unauthenticated, "%v", err)
	}
	req := new(TapRequest)
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxRequest)).Decode(req); err != nil {
		return nil, nil, tandem.Errorf(tandem.InvalidArgument, "%v", err)
	}
	if err := allow(u, tapRole(req.Tap.Payload)); err != nil {
		return nil, nil, err
	}
	l, err := c.list(req.List)
	if err != nil {
		return nil, nil, err
	}
	rows := slices.DeleteFunc(l.rows(), func(r InstanceRow) bool {
		return !answers(&r.Instance) || len(req.Instances) > 0 && !slices.Contains(req.Instances, r.ID)
	})
	if len(rows) == 0 {
		return nil, nil, tandem.Errorf(tandem.NotFound, "no instance there has the admin API")
	}
	return req, rows[:min(len(rows), maxTapped)], nil
}

// tapRole returns the role that Tap needs, with messages or without.
func tapRole(payload bool) admin.Role {
	if payload {
		return admin.Administrator
	}
	return admin.Developer
}

// tap sends the calls of one instance to events.
func (c *Console) tap(ctx context.Context, row *InstanceRow, req *TapRequest, events chan<- TapEvent) error {
	l, err := c.asker.take(&row.Instance)
	if err != nil {
		return err
	}
	defer c.asker.give(l)
	s, err := l.c.OpenStream(ctx, admin.Service+".Tap", client.Timeout(time.Hour))
	if err != nil {
		return err
	}
	defer s.Close() //nolint:errcheck // it is over, or not wanted any more
	if err := s.SendMsg(req.Tap); err != nil {
		return err
	}
	for {
		e := TapEvent{Instance: row.ID, TapEvent: new(admin.TapEvent)}
		switch err := s.RecvMsg(e.TapEvent); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
		send(ctx, events, e)
	}
}

func send(ctx context.Context, events chan<- TapEvent, e TapEvent) {
	select {
	case events <- e:
	case <-ctx.Done():
	}
}
