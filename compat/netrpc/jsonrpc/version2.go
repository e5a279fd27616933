package jsonrpc

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"

	rpc "github.com/tandem-rpc/tandem/compat/netrpc"
)

// ServeConn2 serves one connection with JSON-RPC 2.0 and the [rpc.DefaultServer]: batches,
// notifications, and parameters by name and by position. It returns when the client has
// closed the connection, and closes it. Requests of version 1.0 get responses of that
// version. See package protocol/jsonrpc.
func ServeConn2(conn io.ReadWriteCloser) { rpc.DefaultServer.ServeJSON(conn) }

// Dial2 connects to a server of JSON-RPC 2.0.
func Dial2(network, address string) (*rpc.Client, error) {
	conn, err := connect(network, address)
	if err != nil {
		return nil, err
	}
	return NewClient2(conn), nil
}

// NewClient2 returns a client that uses JSON-RPC 2.0 on a connection. Its Close closes the
// connection.
func NewClient2(conn io.ReadWriteCloser) *rpc.Client {
	return rpc.NewClientWithCodec(NewClientCodec2(conn))
}

// NewClientCodec2 returns a codec for [rpc.NewClientWithCodec] that uses JSON-RPC 2.0 on
// conn. The arguments of a call are sent as one parameter by position. The text of an error
// is the server's message, followed by its data if that is a string.
func NewClientCodec2(conn io.ReadWriteCloser) rpc.ClientCodec {
	return &clientCodec2{
		conn: conn, enc: json.NewEncoder(conn), dec: json.NewDecoder(conn),
		methods: map[uint64]string{},
	}
}

// clientCodec2 uses JSON-RPC 2.0. One goroutine writes while another reads.
type clientCodec2 struct {
	conn io.Closer
	enc  *json.Encoder
	dec  *json.Decoder

	result json.RawMessage // result of the last response

	mu      sync.Mutex
	methods map[uint64]string // methods of the requests that have no response yet, by ID
}

type request2 struct {
	Version string `json:"jsonrpc"`
	Method  string `json:"method"`
	Params  [1]any `json:"params"`
	ID      uint64 `json:"id"`
}

type response2 struct {
	Version string          `json:"jsonrpc"`
	ID      *uint64         `json:"id"`
	Result  json.RawMessage `json:"result"`
	Error   *error2         `json:"error"`
}

type error2 struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
	Data    any    `json:"data"`
}

// text returns the text of an error. It is never "", which would mean no error.
func (e *error2) text() string {
	text := e.Message
	if data, ok := e.Data.(string); ok && data != "" {
		text += ": " + data
	}
	if text == "" {
		return fmt.Sprintf("error %d", e.Code)
	}
	return text
}

func (c *clientCodec2) WriteRequest(r *rpc.Request, args any) error {
	c.mu.Lock()
	c.methods[r.Seq] = r.ServiceMethod
	c.mu.Unlock()
	err := c.enc.Encode(&request2{Version: "2.0", Method: r.ServiceMethod, Params: [1]any{args}, ID: r.Seq})
	if err != nil {
		c.take(r.Seq)
	}
	return err
}

// take removes a request and returns its method.
func (c *clientCodec2) take(id uint64) (method string, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	method, ok = c.methods[id]
	delete(c.methods, id)
	return method, ok
}

func (c *clientCodec2) ReadResponseHeader(r *rpc.Response) error {
	var in response2
	if err := c.dec.Decode(&in); err != nil {
		return err
	}
	if in.Version != "2.0" {
		return fmt.Errorf("jsonrpc: a response of version %q, want 2.0", in.Version)
	}
	if in.ID == nil { // the server could not read a request, or not its ID
		if in.Error == nil {
			return errors.New("jsonrpc: a response without id and error")
		}
		return errors.New("jsonrpc: " + in.Error.text())
	}
	method, ok := c.take(*in.ID)
	if !ok {
		return fmt.Errorf("jsonrpc: a response to request %d, which is not open", *in.ID)
	}
	r.ServiceMethod, r.Seq, r.Error = method, *in.ID, ""
	if in.Error != nil {
		r.Error = in.Error.text()
	}
	c.result = in.Result
	return nil
}

func (c *clientCodec2) ReadResponseBody(reply any) error {
	if reply == nil {
		return nil
	}
	if c.result == nil {
		return errors.New("jsonrpc: a response without result and error")
	}
	return json.Unmarshal(c.result, reply)
}

func (c *clientCodec2) Close() error { return c.conn.Close() }
