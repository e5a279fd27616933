package rpcx

import (
	"bufio"
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	stdrpc "net/rpc"

	"github.com/tandem-rpc/tandem"
	rpc "github.com/tandem-rpc/tandem/compat/netrpc"
	"github.com/tandem-rpc/tandem/server"
	"github.com/tandem-rpc/tandem/transport"
)

// ServeHTTP takes over the connection of a CONNECT and serves it, with net/rpc's protocol or
// the codecs of ServerCodecFunc. It is for the program's own mux. The header of the CONNECT
// is the metadata of the calls, where [Server.Auth] finds "authorization".
func (s *Server) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	core, err := s.build()
	switch {
	case err != nil:
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
	case s.ServerCodecFunc == nil:
		core.ServeHTTP(w, req)
	default:
		core.ServeHTTPBy(w, req, s.ownProtocol)
	}
}

// ownProtocol returns the protocol of the codecs of ServerCodecFunc, for calls with this
// metadata.
func (s *Server) ownProtocol(md tandem.Metadata) server.Protocol {
	return rpc.CodecProtocol("codec", func(conn io.ReadWriteCloser) stdrpc.ServerCodec {
		return &verifiedCodec{ServerCodec: s.ServerCodecFunc(conn), header: md}
	})
}

// ServeByHTTP serves the connections of ln with HTTP until Close: clients send a CONNECT to
// the path, as [stdrpc.DialHTTPPath] does, and selectors with the network "http". An empty
// path means [stdrpc.DefaultRPCPath]; as in rpcx, a path may have no slash. TLSConfig makes
// it HTTPS, but must not require client certificates. Registries do not list this listener.
// The error is never nil.
func (s *Server) ServeByHTTP(ln net.Listener, rpcPath string) error {
	_, err := s.build()
	if err == nil {
		err = s.secure(&ln)
	}
	web := &http.Server{Handler: s.at(cmp.Or(rpcPath, stdrpc.DefaultRPCPath)), ReadHeaderTimeout: handshake}
	s.mu.Lock()
	if s.closed {
		err = server.ErrServerClosed
	}
	if err == nil {
		s.web = append(s.web, web)
		s.address = ln.Addr().String()
	}
	s.mu.Unlock()
	if err != nil {
		return errors.Join(err, ln.Close())
	}
	if err = web.Serve(ln); errors.Is(err, http.ErrServerClosed) {
		return server.ErrServerClosed
	}
	return err
}

// secure replaces a listener by one with TLS if there is a TLSConfig.
func (s *Server) secure(ln *net.Listener) error {
	if s.TLSConfig == nil {
		return nil
	}
	if s.TLSConfig.ClientAuth >= tls.RequireAnyClientCert {
		return errors.New("rpcx: ServeByHTTP: TLSConfig requires client certificates, which ServeByHTTP does not support: use Serve")
	}
	secured, err := transport.SecuredListener(*ln, s.TLSConfig)
	if err == nil {
		*ln = secured
	}
	return err
}

// at serves a path. net/http parses the path of a CONNECT without a slash as the host.
func (s *Server) at(path string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if cmp.Or(req.URL.Path, req.Host) != path {
			http.NotFound(w, req)
			return
		}
		s.ServeHTTP(w, req)
	})
}

// overHTTP is a transport that sends a CONNECT on each new connection.
type overHTTP struct {
	tandem.Transport

	path string
}

// Dial connects, and sends a CONNECT to the path.
func (t overHTTP) Dial(ctx context.Context, address string) (net.Conn, error) {
	conn, err := t.Transport.Dial(ctx, address)
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() }) // which interrupts reads and writes
	err = t.ask(conn)
	if !stop() {
		err = context.Cause(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return conn, nil
}

// connected is the status of a server that accepts a CONNECT. maxAnswer bounds its response,
// in bytes.
const (
	connected = "200 Connected to Go RPC"
	maxAnswer = 16 << 10
)

func (t overHTTP) ask(conn net.Conn) error {
	if _, err := io.WriteString(conn, "CONNECT "+cmp.Or(t.path, stdrpc.DefaultRPCPath)+" HTTP/1.0\r\n\r\n"); err != nil {
		return err
	}
	answer := bufio.NewReader(io.LimitReader(conn, maxAnswer))
	resp, err := http.ReadResponse(answer, &http.Request{Method: http.MethodConnect})
	if err != nil {
		return fmt.Errorf("rpcx: reading the response to CONNECT: %w", err)
	}
	_ = resp.Body.Close() // it has none: what follows is RPC
	switch {
	case resp.Status != connected:
		return errors.New("rpcx: unexpected response to CONNECT: " + resp.Status)
	case answer.Buffered() > 0:
		return errors.New("rpcx: the server sends data before a request")
	}
	return nil
}
