package nacos

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

const (
	requestTimeout = 3 * time.Second // timeout of a request, with all its attempts
	leastAttempt   = time.Second     // least timeout of one attempt
	perServer      = 8               // connections to a server, shared by all watches
	maxHeld        = 4               // connections to a server that listeners of documents may use
	maxAnswer      = 64 << 20        // bytes of a response
)

// servers sends requests to the servers of one Nacos cluster, to the same one as long as it
// responds. It is safe for concurrent use.
type servers struct {
	bases   []string // http://host:8848/nacos
	client  *http.Client
	current atomic.Uint32 // index of the base to try first: the one that responded last, or the one after those that failed
	most    int64         // bytes; limit of a response
	login   *login        // nil without WithAuth
	tls     *tls.Config   // nil without TLS
	held    chan struct{} // has a token for each request that Nacos may keep waiting
	swaps   atomic.Bool   // Nacos compares by casMd5 before it publishes; see checkSwaps
}

// dial returns the servers at the addresses, which are base URLs separated by
// commas. It connects to none yet.
func (o *options) dial(addresses string) *servers {
	s := &servers{bases: strings.Split(addresses, ","), most: maxAnswer, tls: o.tls, held: make(chan struct{}, maxHeld)}
	s.client = &http.Client{
		Transport: &http.Transport{
			DialContext:         (&net.Dialer{Timeout: requestTimeout}).DialContext,
			TLSClientConfig:     o.tls.Clone(),
			TLSHandshakeTimeout: requestTimeout,
			MaxConnsPerHost:     perServer,
			MaxIdleConnsPerHost: perServer,
			IdleConnTimeout:     90 * time.Second,
		},
		// A redirect would send the token to another server.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	if o.username != "" {
		s.login = newLogin(o.username, o.password)
	}
	return s
}

// close closes idle connections. A request after it opens a new one.
func (s *servers) close() { s.client.CloseIdleConnections() }

// refusal is a response with a status other than 200.
type refusal struct {
	request string
	status  int
	text    string
}

func (r *refusal) Error() string {
	return fmt.Sprintf("%s: status %d: %.200q", r.request, r.status, r.text)
}

// refusedWith reports whether err is a response with one of the statuses.
func refusedWith(err error, statuses ...int) bool {
	r, ok := errors.AsType[*refusal](err)
	return ok && slices.Contains(statuses, r.status)
}

// request is a request of Nacos's open API.
type request struct {
	method, path string
	query        url.Values
	hold         time.Duration // how long Nacos may wait before it responds; part of the request; 0 for a usual request
	token        string
	casMD5       string // the header casMd5; "" for none
	once         bool   // no other server is tried when this one may have executed the request
}

// call sends a request and returns the body of the response.
func (s *servers) call(ctx context.Context, method, path string, q url.Values) ([]byte, error) {
	return s.do(ctx, request{method: method, path: path, query: q})
}

// do sends a request and returns the body of the response. If the token is refused, it tries
// once more with a new one.
func (s *servers) do(ctx context.Context, r request) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout+r.hold)
	defer cancel()
	if s.login == nil {
		return s.ask(ctx, r)
	}
	var err error
	if r.token, err = s.login.token(ctx, s, ""); err != nil {
		return nil, err
	}
	body, err := s.ask(ctx, r)
	if !refusedWith(err, http.StatusUnauthorized, http.StatusForbidden) {
		return body, err
	}
	next, failed := s.login.token(ctx, s, r.token)
	if failed != nil {
		return nil, failed
	}
	if next == r.token {
		return nil, err
	}
	r.token = next
	return s.ask(ctx, r)
}

// ask tries the servers one after another, until one responds with a status below 500. The
// timeout may end before that, so the next request begins after the servers that have failed.
func (s *servers) ask(ctx context.Context, r request) (body []byte, err error) {
	all := uint32(len(s.bases)) //nolint:gosec // a target has room for a million bytes
	first := s.current.Load()
	for i := range all {
		at := (first + i) % all
		body, err = s.attempt(ctx, s.bases[at], r)
		if answer, ok := errors.AsType[*refusal](err); err == nil || ok && (answer.status < http.StatusInternalServerError || r.once) {
			s.current.Store(at)
			return body, err
		}
		if ctx.Err() != nil {
			break // does not count against this server, which may not have had the time to respond
		}
		s.current.CompareAndSwap(at, (at+1)%all)
		if r.once && !unsent(err) {
			break
		}
	}
	return nil, err
}

// unsent reports whether err means that the server could not be connected to.
func unsent(err error) bool {
	failed, ok := errors.AsType[*net.OpError](err)
	return ok && failed.Op == "dial"
}

// attempt sends the request to one server.
func (s *servers) attempt(ctx context.Context, base string, r request) ([]byte, error) {
	limit := max(leastAttempt, requestTimeout/time.Duration(len(s.bases)))
	ctx, cancel := context.WithTimeout(ctx, limit+r.hold)
	defer cancel()
	request, err := newRequest(ctx, r.method, base+r.path, r.query)
	if err != nil {
		return nil, err
	}
	if r.token != "" {
		request.Header.Set("Authorization", "Bearer "+r.token)
	}
	if r.casMD5 != "" {
		request.Header.Set("Casmd5", r.casMD5)
	}
	if r.hold > 0 {
		request.Header.Set("Long-Pulling-Timeout", strconv.FormatInt(r.hold.Milliseconds(), 10))
	}
	answer, err := s.client.Do(request)
	if err != nil {
		return nil, plain(err)
	}
	defer answer.Body.Close() //nolint:errcheck // it was only read
	body, err := io.ReadAll(io.LimitReader(answer.Body, s.most+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("%s %s: %w", r.method, request.URL.Path, err)
	case int64(len(body)) > s.most:
		return nil, fmt.Errorf("%s %s: a response of more than %d bytes", r.method, request.URL.Path, s.most)
	case answer.StatusCode != http.StatusOK:
		return nil, &refusal{r.method + " " + request.URL.Path, answer.StatusCode, strings.TrimSpace(string(body))}
	}
	return body, nil
}

// newRequest returns a request with the parameters in the URL, or in the body of a POST,
// which has room for large metadata.
func newRequest(ctx context.Context, method, target string, q url.Values) (*http.Request, error) {
	body := ""
	if method == http.MethodPost {
		body = q.Encode()
	} else {
		target += "?" + q.Encode()
	}
	request, err := http.NewRequestWithContext(ctx, method, target, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	if body != "" {
		request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	request.Header.Set("User-Agent", key)
	return request, nil
}

// plain removes the query of the URL from an error, as it is long and does not help.
func plain(err error) error {
	if u, ok := errors.AsType[*url.Error](err); ok {
		short, _, _ := strings.Cut(u.URL, "?")
		return &url.Error{Op: u.Op, URL: short, Err: u.Err}
	}
	return err
}
