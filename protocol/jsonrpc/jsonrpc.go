// Package jsonrpc (stable) serves clients of JSON-RPC over TCP and TLS, HTTP, and WebSocket: version
// 2.0 (see https://www.jsonrpc.org/specification), and version 1.0 as Go's net/rpc/jsonrpc
// implements it. The version is that of each message: messages of 2.0 name it.
//
//	srv := server.New(server.WithProtocols(
//		jsonrpc.New(), // TCP and TLS
//		web.New(web.WithHandler("/jsonrpc", jsonrpc.Handler(web.Conn, web.Metadata))),
//	))
//
// Over TCP, messages follow one another, separated by white space or nothing; each response
// is a line. Over HTTP the body of a POST is a message, and over WebSocket each WebSocket
// message is one. Responses are sent in the order in which calls end, those of a batch in
// the order of its requests.
//
// # Parameters
//
// Parameters by name are the fields of the method's one argument, as encoding/json
// names them. Parameters by position are, for a method of
//
//   - several arguments: those, in order;
//   - one argument, if there is one parameter: that argument, as version 1.0's
//     clients send it. In 2.0, if it is a slice the parameter must be an array, and
//     if it is a struct an object, else see below;
//   - a struct: its exported fields, in order and all of them;
//   - a slice: its elements;
//   - no argument: nothing. Version 1.0, whose clients always send one, may.
//
// A method with several results answers with an array of them, one with none with null. In
// version 1.0 null means an error, and Go's client treats it so: there a method without a
// result answers with {}, and a nil slice, map or pointer is sent as the empty value of its
// type.
//
// # Errors
//
// In version 1.0 errors are strings. In 2.0 the errors of the specification have its codes
// and messages, with the details in data. An error that a method returns has the code
// -32000 if it has no tandem.Code, and -32000 less the tandem.Code otherwise, except for
// codes that the specification has: InvalidArgument is -32602 and Internal is -32603.
package jsonrpc

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/codec"
	"github.com/tandem-rpc/tandem/server"
)

type protocol struct{ json tandem.Codec }

// New returns the protocol, for [server.WithProtocols].
func New() server.Protocol { return &protocol{json: codec.JSON()} }

const name = "jsonrpc"

func (*protocol) Name() string { return name }

// Match accepts connections that begin with an object or an array.
func (*protocol) Match(first []byte) server.Verdict {
	for _, c := range first {
		switch {
		case c == '{' || c == '[':
			return server.Yes
		case !isSpace(c):
			return server.No
		}
	}
	return server.NeedMore
}

// conn is the connection of a client, or one HTTP request.
type conn struct {
	*server.Conn

	json     tandem.Codec
	metadata tandem.Metadata // metadata of the calls; each gets a clone
	peer     *tandem.Peer    // nil for the connection's peer
	deadline time.Time       // deadline of each call; zero for none

	held *server.Reservation // memory reserved for one message
}

const readBuffer = 16 << 10

// Serve reads messages until the client closes the connection.
func (p *protocol) Serve(ctx context.Context, sc *server.Conn) error {
	c := &conn{Conn: sc, json: p.json}
	in := reader{r: bufio.NewReaderSize(sc, readBuffer), midway: sc.Midway}
	for {
		one := *c
		one.held = sc.Reserve(ctx)
		in.hold = func(n int64) error { return one.held.Await(n, time.Time{}) }
		message, err := in.next(c.MaxMessage())
		if err == nil {
			one.serve(ctx, message, func(answer []byte) {
				one.held.Release()
				c.send(answer)
			})
			continue
		}
		one.held.Release()
		switch {
		case tandem.CodeOf(err) == tandem.ResourceExhausted && !tandem.MayHaveExecuted(err):
			c.send(exhausted(err))
		case errors.As(err, new(*parseError)):
			c.send(failed(parseFailed, err))
		case errors.Is(err, errTooLarge):
			c.send(c.tooLarge())
		case errors.Is(err, errTooMany):
			c.send(exhausted(err))
		case errors.Is(err, io.EOF):
			return nil
		default:
			return err
		}
	}
}

// exhausted returns the response to a message that exceeds a limit, or for which there is
// no memory.
func exhausted(err error) []byte { return (&request{Version: version2}).failed(err) }

// tooLarge returns the response to a message that is too large.
func (c *conn) tooLarge() []byte {
	return exhausted(tandem.Errorf(tandem.ResourceExhausted, "a message has at most %d bytes: see the server's WithMaxMessage", c.MaxMessage()))
}

// send sends a response, nil for none. Errors are ignored: when the connection is lost,
// reading reports it.
func (c *conn) send(answer []byte) {
	if answer == nil {
		return
	}
	_ = c.Send(func(dst []byte) ([]byte, error) {
		return append(append(dst, answer...), '\n'), nil
	})
}

// serve serves one message: a request, or a batch of them. It calls done once with the
// response, nil for none.
func (c *conn) serve(ctx context.Context, message []byte, done func(answer []byte)) {
	if message[0] == '[' {
		c.serveBatch(ctx, message, done)
		return
	}
	r, err := parse(message)
	if err != nil {
		done(r.failed(err))
		return
	}
	c.call(ctx, r, done)
}

// call makes the call of a request. It calls done once with the response, nil for a
// notification.
func (c *conn) call(ctx context.Context, r *request, done func(answer []byte)) {
	b := &body{codec: c.held.Codec(c.json, r.Params), req: r}
	finish := func(err error) {
		switch {
		case r.notification:
			done(nil)
		case err != nil:
			done(r.failed(err))
		default:
			done(r.succeeded(b.result))
		}
	}
	call := &tandem.Call{
		Method: r.name, Codec: c.json.Name(), Body: b,
		Metadata: c.metadata.Clone(), Peer: c.peer, Deadline: c.deadline,
	}
	if r.notification {
		call.Kind = tandem.OneWay
	}
	switch m := c.Method(r.name); {
	case m == nil:
		c.NoMethod(ctx, call, &fault{methodNotFound, c.Missing(r.name)}, finish)
	case len(r.Params) > m.MaxMessage:
		c.Refuse(ctx, call, tandem.Errorf(tandem.ResourceExhausted, "params of %d bytes, %s takes at most %d", len(r.Params), r.name, m.MaxMessage), finish)
	default:
		c.Go(ctx, call, finish)
	}
}

// request is one request of either version.
type request struct {
	Version json.RawMessage `json:"jsonrpc"` // nil in version 1.0
	Method  json.RawMessage `json:"method"`
	Params  json.RawMessage `json:"params"`
	ID      json.RawMessage `json:"id"`

	name         string // name of the method
	notification bool   // there is no response
}

// old reports whether a request is one of version 1.0.
func (r *request) old() bool { return r.Version == nil }

// parse parses a request. With an error, the request it returns is good enough for a
// response.
func parse(message []byte) (*request, error) {
	r := new(request)
	if err := json.Unmarshal(message, r); err != nil {
		if !json.Valid(message) {
			return &request{Version: version2}, &fault{parseFailed, err}
		}
		return &request{Version: version2}, &fault{invalidRequest, err}
	}
	if err := r.check(); err != nil {
		return r, &fault{invalidRequest, err}
	}
	return r, nil
}

// version2 is the version in requests and responses of version 2.0.
var version2 = json.RawMessage(`"2.0"`)

// check returns an error if the request is invalid.
func (r *request) check() error {
	id := r.ID
	if !isID(id) && !r.old() {
		r.ID = nil // the response can't repeat it
		return errors.New("its id is neither a string nor a number")
	}
	switch {
	case !r.old() && string(r.Version) != string(version2):
		return errors.New(`its version is not "2.0"`)
	case json.Unmarshal(r.Method, &r.name) != nil || r.name == "":
		return errors.New("it names no method")
	case r.old() && id == nil:
		return errors.New("it has no id")
	case !r.old() && r.Params != nil && r.Params[0] != '[' && r.Params[0] != '{':
		return errors.New("its params are neither an array nor an object")
	}
	r.notification = id == nil || r.old() && isNull(id)
	return nil
}

// isID reports whether id is a valid id of version 2.0, or missing.
func isID(id json.RawMessage) bool {
	return id == nil || isNull(id) || id[0] == '"' || id[0] == '-' || '0' <= id[0] && id[0] <= '9'
}

func isNull(v json.RawMessage) bool { return string(v) == "null" }
