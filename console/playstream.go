package console

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/client"
	"github.com/tandem-rpc/tandem/console/rawjson"
)

// Bounds of a stream, in each direction.
const (
	maxMessages    = 10_000
	maxStreamBytes = 64 << 20
)

// played is a stream of the playground.
type played struct {
	user   string
	stream tandem.MessageStream

	sending sync.Mutex // held while a message is sent
	sent    int        // messages
	bytes   int        // of them
	closed  bool       // no more are sent
}

// send sends a message, and says after it that no more come if last is true.
func (p *played) send(message string, last bool) error {
	if !p.sending.TryLock() {
		return tandem.Errorf(tandem.ResourceExhausted, "an earlier message is still being sent: the server takes no more for now")
	}
	defer p.sending.Unlock()
	text := strings.TrimSpace(message)
	switch {
	case p.closed:
		return tandem.Errorf(tandem.FailedPrecondition, "the end of the messages has been sent already")
	case text == "" && !last:
		return tandem.Errorf(tandem.InvalidArgument, "the message is empty: JSON has null")
	case len(text) > maxArgument || text != "" && !json.Valid([]byte(text)):
		return tandem.Errorf(tandem.InvalidArgument, "a message is JSON of at most %d bytes", maxArgument)
	case text != "" && (p.sent >= maxMessages || p.bytes+len(text) > maxStreamBytes):
		return tandem.Errorf(tandem.ResourceExhausted, "a stream of the playground sends at most %d messages and %d bytes", maxMessages, maxStreamBytes)
	}
	if text != "" {
		if err := p.stream.SendMsg(json.RawMessage(text)); err != nil && !errors.Is(err, io.EOF) { // how it ended is what RecvMsg says
			return err
		}
		p.sent++
		p.bytes += len(text)
	}
	if last {
		p.closed = true
		return p.stream.CloseSend()
	}
	return nil
}

// serveStream opens a stream, and answers with a line for each message, until it ends or the page
// goes away.
func (c *Console) serveStream(w http.ResponseWriter, r *http.Request) {
	u, req, err := c.streamRequest(w, r)
	if err == nil {
		err = c.gate.enter(u.Name)
	}
	if err != nil {
		c.reply(w, nil, err)
		return
	}
	defer c.gate.leave(u.Name)
	on, err := c.dialListed(r.Context(), req)
	if err != nil {
		c.reply(w, nil, err)
		return
	}
	defer on.Close() //nolint:errcheck // the stream is over
	var e client.Explanation
	var trailer keptTrailer
	own := c.loginOf(r, u)
	ctx, cancel := context.WithCancel(withLogin(r.Context(), own))
	defer cancel()
	if own != nil { // a stream ends with the login that began it
		defer context.AfterFunc(own.ctx, cancel)()
	}
	began := time.Now()
	p := &played{user: u.Name}
	out := &lineWriter{w: http.NewResponseController(w), lines: json.NewEncoder(w)}
	p.stream, err = on.OpenStream(ctx, req.Method, req.options(&e, trailer.keep, cmp.Or(req.Timeout, maxStream))...)
	w.Header().Set("Content-Type", "application/x-ndjson")
	w.Header().Set("Cache-Control", "no-store")
	if err == nil {
		err = c.converse(p, req, out)
		_ = p.stream.Close() // it has ended, or is not wanted any more
	}
	end := answerOf(err, &e, trailer.get())
	end.Began, end.Took, end.Received = began, time.Since(began), out.bytes
	p.sending.Lock() // Close has ended what was being sent
	end.Sent = p.bytes
	p.sending.Unlock()
	if r.Context().Err() != nil {
		end.Code = tandem.Canceled.String() // by the page
	}
	c.recordCall(ctx, u, req, end)
	_ = out.write(StreamEvent{End: end}) // the page may be gone
}

// keptTrailer is the metadata that came with the end of a stream. A stream that is left before its end
// may end at any time after that.
type keptTrailer struct {
	mu    sync.Mutex
	value tandem.Metadata
}

// keep is the option of the call whose metadata is kept.
func (k *keptTrailer) keep(call *tandem.Call) {
	call.OnEnd(func(error) {
		k.mu.Lock()
		defer k.mu.Unlock()
		k.value = call.Trailer
	})
}

func (k *keptTrailer) get() tandem.Metadata {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.value
}

func (c *Console) streamRequest(w http.ResponseWriter, r *http.Request) (User, *CallRequest, error) {
	u, err := c.user(r)
	if err != nil {
		return u, nil, tandem.Errorf(tandem.Unauthenticated, "%v", err)
	}
	req := new(CallRequest)
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxRequest)).Decode(req); err != nil {
		return u, nil, tandem.Errorf(tandem.InvalidArgument, "%v", err)
	}
	if err := c.mayPlay(u); err != nil {
		c.auditPlay(r, u, req, err)
		return u, nil, err
	}
	return u, req, req.check(true)
}

// lineWriter writes lines of JSON that the page sees at once.
type lineWriter struct {
	w               *http.ResponseController
	lines           *json.Encoder
	messages, bytes int // received from the server
}

func (l *lineWriter) write(e StreamEvent) error {
	_ = l.w.SetWriteDeadline(time.Now().Add(apiTimeout)) // where it is not supported, TCP ends it
	return errors.Join(l.lines.Encode(e), l.w.Flush())
}

// converse makes the stream known to Send, sends what the request has, and passes the messages of
// the server on until the stream ends.
func (c *Console) converse(p *played, req *CallRequest, out *lineWriter) error {
	id := rand.Text()
	c.gate.mu.Lock()
	c.gate.stream[id] = p
	c.gate.mu.Unlock()
	defer func() {
		c.gate.mu.Lock()
		defer c.gate.mu.Unlock()
		delete(c.gate.stream, id)
	}()
	if err := out.write(StreamEvent{ID: id}); err != nil {
		return err
	}
	if strings.TrimSpace(req.Arguments) != "" || req.Last {
		if err := p.send(req.Arguments, req.Last); err != nil {
			return err
		}
	}
	for {
		var message []byte
		if err := p.stream.RecvMsg(&message); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		out.messages++
		out.bytes += len(message)
		if out.messages > maxMessages || out.bytes > maxStreamBytes {
			return tandem.Errorf(tandem.ResourceExhausted, "the playground shows at most %d messages and %d bytes of a stream, and has ended it", maxMessages, maxStreamBytes)
		}
		text, err := rawjson.Text(message)
		if err != nil {
			return err
		}
		if err := out.write(StreamEvent{Message: &text}); err != nil {
			return err // the page is gone
		}
	}
}

// send sends a message of a stream that its user has open.
func (c *Console) send(_ context.Context, u User, req *SendRequest) (*Sent, error) {
	if err := c.mayPlay(u); err != nil {
		return nil, err
	}
	c.gate.mu.Lock()
	p := c.gate.stream[req.ID]
	c.gate.mu.Unlock()
	if p == nil || p.user != u.Name {
		return nil, tandem.Errorf(tandem.NotFound, "the stream is over")
	}
	if err := p.send(req.Message, req.Last); err != nil {
		return nil, err
	}
	p.sending.Lock()
	defer p.sending.Unlock()
	return &Sent{Messages: p.sent, Closed: p.closed}, nil
}
