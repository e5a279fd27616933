package nacos

import (
	"context"
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
	requestTimeout = 3 * time.Second // for all attempts of one request
	leastAttempt   = time.Second     // for one of them
	perServer      = 8               // connections, so that many watches are no burden
	maxHeld        = 4               // of them at most wait for news of documents
	maxAnswer      = 64 << 20        // bytes
)

// servers speaks to the servers of one Nacos cluster, to one as long as that
// answers. It is safe for concurrent use.
type servers struct {
	bases   []string // http://host:8848/nacos
	client  *http.Client
	current atomic.Uint32 // which base is asked first: that answered last, or stands behind those that failed
	most    int64         // bytes of an answer
	login   *login        // nil: nobody logs in
	held    chan struct{} // has a token for each request that Nacos may keep waiting
}

// dial returns the servers at the addresses, which are base URLs separated by
// commas. It connects to none yet.
func (o *options) dial(addresses string) *servers {
	s := &servers{bases: strings.Split(addresses, ","), most: maxAnswer, held: make(chan struct{}, maxHeld)}
	s.client = &http.Client{
		Transport: &http.Transport{
			DialContext:         (&net.Dialer{Timeout: requestTimeout}).DialContext,
			TLSClientConfig:     o.tls.Clone(),
			TLSHandshakeTimeout: requestTimeout,
			MaxConnsPerHost:     perServer,
			MaxIdleConnsPerHost: perServer,
			IdleConnTimeout:     90 * time.Second,
		},
		// A redirect would take the token to wherever it points.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	if o.username != "" {
		s.login = newLogin(o.username, o.password)
	}
	return s
}

// close lets go of the connections. It may be used afterwards, and makes new ones.
func (s *servers) close() { s.client.CloseIdleConnections() }

// refusal is an answer that is not 200.
type refusal struct {
	request string
	status  int
	text    string
}

func (r *refusal) Error() string {
	return fmt.Sprintf("%s: status %d: %.200q", r.request, r.status, r.text)
}

// refusedWith reports whether err is an answer of one of the statuses.
func refusedWith(err error, statuses ...int) bool {
	r, ok := errors.AsType[*refusal](err)
	return ok && slices.Contains(statuses, r.status)
}

// request is one of Nacos's open API.
type request struct {
	method, path string
	query        url.Values
	hold         time.Duration // how long Nacos may keep its answer back, and is told so; 0 for not at all
	token        string
}

// call makes a request and returns the body of the answer.
func (s *servers) call(ctx context.Context, method, path string, q url.Values) ([]byte, error) {
	return s.do(ctx, request{method: method, path: path, query: q})
}

// do makes a request and returns the body of the answer. A token that is refused is
// replaced once.
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

// ask tries the servers one after another, until one answers with anything but an
// error of its own. The time may end before it comes to that one, so the next request
// begins behind those that have failed.
func (s *servers) ask(ctx context.Context, r request) (body []byte, err error) {
	all := uint32(len(s.bases)) //nolint:gosec // a target has room for a million bytes
	first := s.current.Load()
	for i := range all {
		at := (first + i) % all
		body, err = s.attempt(ctx, s.bases[at], r)
		if r, ok := errors.AsType[*refusal](err); err == nil || ok && r.status < http.StatusInternalServerError {
			s.current.Store(at)
			return body, err
		}
		if ctx.Err() != nil {
			break // and this server may not have had the time to answer
		}
		s.current.CompareAndSwap(at, (at+1)%all)
	}
	return nil, err
}

// attempt asks one server.
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
		return nil, fmt.Errorf("%s %s: an answer of more than %d bytes", r.method, request.URL.Path, s.most)
	case answer.StatusCode != http.StatusOK:
		return nil, &refusal{r.method + " " + request.URL.Path, answer.StatusCode, strings.TrimSpace(string(body))}
	}
	return body, nil
}

// newRequest puts the parameters where Nacos looks for them: those of a POST in its
// body, which has room for large metadata.
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

// plain leaves the query out of an error: it is long, and says nothing.
func plain(err error) error {
	if u, ok := errors.AsType[*url.Error](err); ok {
		short, _, _ := strings.Cut(u.URL, "?")
		return &url.Error{Op: u.Op, URL: short, Err: u.Err}
	}
	return err
}
