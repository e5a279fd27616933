package main

import (
	"io"
	"net"
	"net/http"
	"time"
)

// proxy is an HTTP proxy that lets everybody through. It serves until ln is closed.
func proxy(ln net.Listener) error {
	srv := &http.Server{Handler: http.HandlerFunc(connect), ReadHeaderTimeout: 10 * time.Second}
	return srv.Serve(ln)
}

func connect(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodConnect {
		http.Error(w, "only CONNECT", http.StatusMethodNotAllowed)
		return
	}
	var dialer net.Dialer
	far, err := dialer.DialContext(r.Context(), "tcp", r.Host)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	near, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		_ = far.Close() // nobody has it
		return
	}
	_, _ = io.WriteString(near, "HTTP/1.1 200 Connection established\r\n\r\n") // copying fails if this has
	go pass(far, near)
	pass(near, far)
}

// pass copies until either end has closed, and closes both.
func pass(to, from net.Conn) {
	_, _ = io.Copy(to, from) // the clients see what is lost
	_ = to.Close()
	_ = from.Close()
}
