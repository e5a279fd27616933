package kubernetes

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Times of requests.
const (
	dialTimeout     = 10 * time.Second
	headerTimeout   = 30 * time.Second // until the response begins; a busy API server queues requests
	pingAfter       = 15 * time.Second // of silence on a connection of HTTP/2
	pingTimeout     = 10 * time.Second
	maxRetryAfter   = 2 * time.Minute
	unstatedRetry   = 5 * time.Second // after a 429 without Retry-After
	maxStatus       = 64 << 10        // bytes of the body of an error
	maxErrorMessage = 500             // bytes of its text that are shown
)

// apiServer is an API server. It is safe for concurrent use.
type apiServer struct {
	load func() (access, error)

	mu     sync.Mutex
	to     dialing // of client
	client *http.Client
}

// open returns the client, with new connections if what they depend on has changed.
func (s *apiServer) open() (*http.Client, access, error) {
	a, err := s.load()
	if err != nil {
		return nil, a, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.client != nil && s.to == a.dialing {
		return s.client, a, nil
	}
	config, err := a.tls()
	if err != nil {
		return nil, a, err
	}
	if s.client != nil {
		s.client.CloseIdleConnections()
	}
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetHTTP2(true)
	s.to, s.client = a.dialing, &http.Client{
		// A redirect would take the token elsewhere.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport: &http.Transport{
			Proxy:                 http.ProxyFromEnvironment,
			DialContext:           (&net.Dialer{Timeout: dialTimeout, KeepAlive: pingAfter}).DialContext,
			TLSClientConfig:       config,
			TLSHandshakeTimeout:   dialTimeout,
			ResponseHeaderTimeout: headerTimeout,
			IdleConnTimeout:       time.Minute,
			Protocols:             protocols,
			HTTP2:                 &http.HTTP2Config{SendPingTimeout: pingAfter, PingTimeout: pingTimeout},
		},
	}
	return s.client, a, nil
}

func (s *apiServer) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.client != nil {
		s.client.CloseIdleConnections()
	}
}

// get sends a request. The caller closes the body of the response, whose status is 200.
func (s *apiServer) get(ctx context.Context, path string, q url.Values) (io.ReadCloser, error) {
	client, a, err := s.open()
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, a.url+path+"?"+q.Encode(), nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept", "application/json")
	req.Header.Set("User-Agent", "tandem")
	if a.token != "" {
		req.Header.Set("Authorization", "Bearer "+a.token)
	}
	resp, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		defer func() { _ = resp.Body.Close() }()
		return nil, statusOf(resp)
	}
	return resp.Body, nil
}

// statusError is a response of the API server other than 200.
type statusError struct {
	code    int
	message string        // the server's
	retry   time.Duration // how long to wait before the next request; 0 if the server said nothing
}

// Error says what the server said, and what to do.
func (e *statusError) Error() string {
	text := fmt.Sprintf("the API server answered %d: %s", e.code, e.message)
	switch e.code {
	case http.StatusUnauthorized:
		return text + ": it does not accept the token or certificate"
	case http.StatusForbidden:
		return text + ": give the service account the Role of the guide (docs/howto/kubernetes.md)"
	}
	return text
}

// status is what is read of a Status, the body of an error.
type status struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
}

// asError returns the error of a status in a body, or in an event.
func (s *status) asError(code int) *statusError {
	message := s.Message
	if len(message) > maxErrorMessage {
		message = message[:maxErrorMessage] + "…"
	}
	return &statusError{code: code, message: strings.ToValidUTF8(message, "?")}
}

func statusOf(resp *http.Response) *statusError {
	body, _ := io.ReadAll(io.LimitReader(resp.Body, maxStatus)) // what has arrived will do
	var s status
	if json.Unmarshal(body, &s) != nil || s.Message == "" {
		s.Message = strings.TrimSpace(string(body))
	}
	if s.Message == "" {
		s.Message = http.StatusText(resp.StatusCode)
	}
	e := s.asError(resp.StatusCode)
	e.retry = retryAfter(resp, rand.Float64())
	return e
}

// retryAfter returns how long the server wants a client to wait, and up to a quarter more, so that
// many clients don't come back together. random is in [0,1).
func retryAfter(resp *http.Response, random float64) time.Duration {
	seconds, err := strconv.ParseUint(resp.Header.Get("Retry-After"), 10, 31)
	d := min(time.Duration(seconds)*time.Second, maxRetryAfter)
	switch {
	case err != nil && resp.StatusCode == http.StatusTooManyRequests:
		d = unstatedRetry
	case err != nil:
		return 0
	}
	return d + time.Duration(float64(d)*random/4)
}
