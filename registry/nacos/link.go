package nacos

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Nacos's gRPC.
const (
	grpcOffset   = 1000 // what Nacos adds to its port
	unaryMethod  = "/Request/request"
	streamMethod = "/BiRequestStream/requestBiStream"

	linkTimeout = 3 * time.Second // of a connection, and of each request
	healthEvery = 8 * time.Second // Nacos asks a connection that was silent for 20 s, and gives it up
	setupPause  = 20 * time.Millisecond

	unregistered = 301 // the error of a request from a connection that Nacos does not know
)

// link is one connection to Nacos's gRPC: net/http's HTTP/2 over one TCP connection, because what
// a client lists belongs to its connection, and goes with it. It is safe for concurrent use.
type link struct {
	base    string
	client  *http.Client
	token   func(ctx context.Context) (string, error)
	conn    net.Conn
	cancel  context.CancelFunc
	done    chan struct{} // closed when the connection is lost
	lost    sync.Once
	group   sync.WaitGroup
	known   atomic.Bool          // Nacos has answered a request
	news    chan json.RawMessage // has the last service that Nacos has sent
	mu      sync.Mutex           // guards writes to stream
	stream  *io.PipeWriter
	failure error // why it was lost; read after done
}

// openLink connects to the first server that answers.
func (s *servers) openLink(ctx context.Context, namespace string) (l *link, err error) {
	all := uint32(len(s.bases)) //nolint:gosec // a target has room for a million bytes
	first := s.current.Load()
	for i := range all {
		at := (first + i) % all
		if l, err = s.linkTo(ctx, s.bases[at], namespace); err == nil {
			s.current.Store(at)
			return l, nil
		}
		if ctx.Err() != nil {
			break
		}
	}
	return nil, err
}

// grpcAddress returns the address and the URL of the gRPC port that belongs to a base URL.
func grpcAddress(base string) (address, target string, err error) {
	u, err := url.Parse(base)
	if err != nil {
		return "", "", err
	}
	port, err := strconv.Atoi(u.Port())
	if err != nil || port+grpcOffset > 65535 {
		return "", "", fmt.Errorf("the port %q leaves no room for that of gRPC, %d above it", u.Port(), grpcOffset)
	}
	address = net.JoinHostPort(u.Hostname(), strconv.Itoa(port+grpcOffset))
	return address, u.Scheme + "://" + address, nil
}

func (s *servers) linkTo(ctx context.Context, base, namespace string) (*link, error) {
	address, target, err := grpcAddress(base)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, linkTimeout)
	defer cancel()
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	l := &link{base: target, conn: conn, done: make(chan struct{}), news: make(chan json.RawMessage, 1), token: func(context.Context) (string, error) { return "", nil }}
	if s.login != nil {
		l.token = func(ctx context.Context) (string, error) { return s.login.token(ctx, s, "") }
	}
	l.client = &http.Client{Transport: l.transport(s.tls)}
	if err := l.begin(ctx, namespace); err != nil {
		l.close()
		return nil, fmt.Errorf("%s: %w", address, err)
	}
	return l, nil
}

// transport returns the HTTP/2 of the connection, which makes no other one.
func (l *link) transport(config *tls.Config) *http.Transport {
	var once sync.Once
	dial := func(context.Context, string, string) (conn net.Conn, err error) {
		err = errors.New("the connection is lost")
		once.Do(func() { conn, err = l.conn, nil })
		return conn, err
	}
	protocols := new(http.Protocols)
	protocols.SetHTTP2(true)
	protocols.SetUnencryptedHTTP2(true)
	return &http.Transport{DialContext: dial, TLSClientConfig: config, Protocols: protocols, DisableCompression: true}
}

// begin sets the connection up. Nacos does not say when it knows the connection: see call.
func (l *link) begin(ctx context.Context, namespace string) error {
	r, w := io.Pipe()
	l.stream = w
	alive, cancel := context.WithCancel(context.Background())
	l.cancel = cancel
	l.group.Go(func() { l.end(l.listen(alive, r)) })
	setup := map[string]any{
		"module": "internal", "clientVersion": "Nacos-Go-Client:tandem", "tenant": namespace, "abilities": map[string]any{},
		"labels": map[string]string{"source": "sdk", "module": "naming"},
	}
	if err := l.send(ctx, "ConnectionSetupRequest", setup); err != nil {
		return err
	}
	l.group.Go(func() { l.keepAlive(alive) })
	return nil
}

func (l *link) health(ctx context.Context) error {
	return l.call(ctx, "HealthCheckRequest", map[string]any{"module": "internal"}, nil)
}

// keepAlive sends a sign of life at intervals, and ends the link when there is no answer.
func (l *link) keepAlive(ctx context.Context) {
	for rest(ctx, healthEvery) == nil {
		if err := l.health(ctx); err != nil {
			l.end(err)
			return
		}
	}
}

// end says that the connection is lost.
func (l *link) end(err error) {
	l.lost.Do(func() {
		l.failure = err
		close(l.done)
		_ = l.conn.Close()
	})
}

// close closes the connection and waits until everything has ended.
func (l *link) close() {
	l.end(errors.New("it was closed"))
	if l.cancel != nil {
		l.cancel()
		_ = l.stream.Close()
	}
	l.group.Wait()
	l.client.CloseIdleConnections()
}

// post begins a call of gRPC.
func (l *link) post(ctx context.Context, method string, body io.Reader) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, l.base+method, body)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/grpc")
	req.Header.Set("TE", "trailers")
	req.Header.Set("User-Agent", key)
	resp, err := l.client.Do(req)
	if err != nil {
		return nil, plain(err)
	}
	if resp.StatusCode != http.StatusOK {
		_ = resp.Body.Close()
		return nil, fmt.Errorf("status %d; is this the gRPC port of a Nacos server?", resp.StatusCode)
	}
	return resp, nil
}

// frame returns a request as gRPC's bytes.
func (l *link) frame(ctx context.Context, kind string, fields any) ([]byte, error) {
	body, err := json.Marshal(fields)
	if err != nil {
		return nil, err
	}
	token, err := l.token(ctx)
	if err != nil {
		return nil, err
	}
	p := payload{kind: kind, body: body}
	if token != "" {
		p.headers = map[string]string{"accessToken": token}
	}
	return p.frame(), nil
}

// call sends a request and decodes the response. It repeats a request that comes before Nacos
// knows the connection.
func (l *link) call(ctx context.Context, kind string, fields, to any) error {
	ctx, cancel := context.WithTimeout(ctx, linkTimeout)
	defer cancel()
	for {
		err := l.once(ctx, kind, fields, to)
		refusal, refused := errors.AsType[*resultError](err)
		if !refused || refusal.result.Error != unregistered || l.known.Load() {
			l.known.CompareAndSwap(false, err == nil)
			return err
		}
		if rest(ctx, setupPause) != nil {
			return err
		}
	}
}

// once sends a request once.
func (l *link) once(ctx context.Context, kind string, fields, to any) error {
	frame, err := l.frame(ctx, kind, fields)
	if err != nil {
		return err
	}
	resp, err := l.post(ctx, unaryMethod, bytes.NewReader(frame))
	if err != nil {
		return fmt.Errorf("%s: %w", kind, err)
	}
	defer resp.Body.Close() //nolint:errcheck // it was only read
	p, err := readFrame(resp.Body)
	if err == nil {
		_, err = io.Copy(io.Discard, io.LimitReader(resp.Body, maxFrame)) // up to the trailer
	}
	if status := resp.Header.Get("Grpc-Status") + resp.Trailer.Get("Grpc-Status"); status != "" && status != "0" {
		return fmt.Errorf("%s: gRPC status %.10q: %.200q", kind, status, resp.Header.Get("Grpc-Message")+resp.Trailer.Get("Grpc-Message"))
	}
	if err != nil {
		return fmt.Errorf("%s: %w", kind, err)
	}
	return p.into(kind, to)
}

// send sends a message on the stream.
func (l *link) send(ctx context.Context, kind string, fields any) error {
	frame, err := l.frame(ctx, kind, fields)
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	_, err = l.stream.Write(frame) // listen closes the pipe when the connection is lost
	return err
}

// listen opens the stream and answers what the server sends, until the connection is lost.
func (l *link) listen(ctx context.Context, requests *io.PipeReader) error {
	defer func() { _ = requests.Close() }() // a send must not wait any longer
	resp, err := l.post(ctx, streamMethod, requests)
	if err != nil {
		return err
	}
	defer resp.Body.Close() //nolint:errcheck // it was only read
	for {
		p, err := readFrame(resp.Body)
		if errors.Is(err, io.EOF) {
			err = errors.New("the server has ended the stream")
		}
		if err != nil {
			return err
		}
		if err := l.handle(ctx, p); err != nil {
			return err
		}
	}
}

// handle answers a request of the server.
func (l *link) handle(ctx context.Context, p *payload) error {
	var request struct {
		ID      string          `json:"requestId"`
		Service json.RawMessage `json:"serviceInfo"`
	}
	if err := json.Unmarshal(p.body, &request); err != nil {
		return fmt.Errorf("a %.50s of the server: %w", p.kind, err)
	}
	answer, known := strings.CutSuffix(p.kind, "Request")
	switch {
	case p.kind == "ConnectResetRequest":
		return errors.New("the server asks for another connection")
	case !known || answer == "SetupAck": // a response, or a request that wants none
		return nil
	case answer == "NotifySubscriber":
		select {
		case <-l.news: // an older list
		default:
		}
		l.news <- request.Service
	}
	return l.send(ctx, answer+"Response", map[string]any{"resultCode": resultOK, "requestId": request.ID})
}
