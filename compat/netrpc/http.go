package rpc

import (
	"bufio"
	"html/template"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/protocol/netrpc"
	"github.com/tandem-rpc/tandem/server"
)

// ServeHTTP takes over the connection of a CONNECT and serves it. The header of the CONNECT
// is the metadata of its calls, with names in lower case: an interceptor finds
// "authorization" there.
func (s *Server) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	s.ServeHTTPBy(w, req, func(md tandem.Metadata) server.Protocol {
		return netrpc.New(netrpc.WithMetadata(md), netrpc.CloseOnBadResult())
	})
}

// ServeHTTPBy is [Server.ServeHTTP] with another protocol on the connection: the one that
// protocol returns. Its argument is the header of the CONNECT as metadata.
func (s *Server) ServeHTTPBy(w http.ResponseWriter, req *http.Request, protocol func(md tandem.Metadata) server.Protocol) {
	hijacker, ok := w.(http.Hijacker)
	if req.Method != http.MethodConnect || !ok {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		w.WriteHeader(http.StatusMethodNotAllowed)
		_, _ = io.WriteString(w, "405 must CONNECT\n") // fails only if the client has gone
		return
	}
	conn, rw, err := hijacker.Hijack()
	if err != nil {
		return // the HTTP server still owns the connection, and closes it
	}
	if _, err := io.WriteString(conn, "HTTP/1.0 "+connected+"\n\n"); err != nil {
		_ = conn.Close()
		return
	}
	if rw.Reader.Buffered() > 0 {
		conn = &begunConn{conn, rw.Reader}
	}
	md := tandem.Metadata{}
	for name, values := range req.Header {
		md[strings.ToLower(name)] = values
	}
	s.serveProtocol(conn, protocol(md))
}

// begunConn is a connection of which some bytes are in a buffer already.
type begunConn struct {
	net.Conn

	r *bufio.Reader
}

func (c *begunConn) Read(p []byte) (int, error) { return c.r.Read(p) }

// HandleHTTP serves RPC and the debugging page on these paths of
// [http.DefaultServeMux]. For a mux of your own see [Server.HandleHTTPOn].
func (s *Server) HandleHTTP(rpcPath, debugPath string) {
	s.HandleHTTPOn(http.DefaultServeMux, rpcPath, debugPath)
}

// HandleHTTPOn serves RPC and the debugging page on these paths of a mux. For an empty path,
// it registers no handler.
func (s *Server) HandleHTTPOn(mux *http.ServeMux, rpcPath, debugPath string) {
	if rpcPath != "" {
		mux.Handle(rpcPath, s)
	}
	if debugPath != "" {
		mux.Handle(debugPath, s.DebugHandler())
	}
}

// DebugHandler returns the debugging page: the services, their methods, and how
// often each was called.
func (s *Server) DebugHandler() http.Handler { return debugPage{s} }

type debugPage struct{ server *Server }

// debugService is a service on the page.
type debugService struct {
	Name    string
	Methods []debugMethod
}

type debugMethod struct {
	Name  string
	Calls uint64
}

var debugTemplate = template.Must(template.New("services").Parse(`<!DOCTYPE html>
<html lang="en">
<head><meta charset="utf-8"><title>Services</title></head>
<body>
{{range .}}<h1>Service {{.Name}}</h1>
<table>
<thead><tr><th scope="col">Method</th><th scope="col">Calls</th></tr></thead>
<tbody>
{{range .Methods}}<tr><td>{{.Name}}</td><td>{{.Calls}}</td></tr>
{{end}}</tbody>
</table>
{{else}}<p>No services are registered.</p>
{{end}}</body>
</html>
`))

func (p debugPage) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_ = debugTemplate.Execute(w, p.services()) // fails only if the client has gone
}

// services lists the methods by their services, sorted.
func (p debugPage) services() []debugService {
	var list []debugService
	for _, full := range p.server.core.Methods() {
		service, method := "", full
		if dot := strings.LastIndexByte(full, '.'); dot >= 0 {
			service, method = full[:dot], full[dot+1:]
		}
		if len(list) == 0 || list[len(list)-1].Name != service {
			list = append(list, debugService{Name: service})
		}
		var calls uint64
		if n, ok := p.server.calls.Load(full); ok {
			calls = n.(*atomic.Uint64).Load() //nolint:forcetypeassert // nothing else is stored
		}
		last := &list[len(list)-1]
		last.Methods = append(last.Methods, debugMethod{method, calls})
	}
	return list
}
