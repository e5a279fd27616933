// Package standin is a stand-in for a Nacos server, version 2.2.4, that answers the requests
// of package nacos from memory, in tests and examples. The same tests also run with the real
// server.
package standin

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Server is an [http.Handler] for the paths below /nacos. The exported fields are
// set before use. It is safe for concurrent use.
type Server struct {
	// Lag is how long reads show the state before a change.
	Lag time.Duration
	// Password, if not empty, makes requests need a token, for which the user "nacos" logs in.
	Password string
	// TokenTTL is how long a token is valid; 0 means 5 h.
	TokenTTL time.Duration
	// DecodeTwice URL-decodes parameters once more, as some versions do.
	DecodeTwice bool
	// MaxMetadata is the limit of an instance's metadata in characters, as in versions from
	// 2.3 on; 0 means no limit.
	MaxMetadata int
	// Three makes the server as strict as version 3 is by default: clients can't read one
	// instance.
	Three bool
	// Swaps makes publishing a configuration heed the header casMd5, as by their source
	// versions from 2.3.2 on do: it creates, or replaces a content of this MD5. Versions
	// before 2.3.0 ignore the header.
	Swaps bool
	// SwapsItself makes publishing with casMd5 compare with the MD5 of the new content
	// instead, as by their source versions 2.3.0 and 2.3.1 do.
	SwapsItself bool
	// Deaf makes listeners for configurations miss every change.
	Deaf bool

	mu       sync.Mutex
	down     bool
	services map[string]*service
	texts    map[configKey]string // configurations
	news     *sync.Cond           // signals that one of texts has changed; nil before the first request
	tokens   map[string]time.Time // the end of each token's validity
	logins   int
	requests map[string]int
}

// service has the published instances of a service, and the view that reads show.
type service struct {
	name      string
	published map[string]*instance // by ip:port: Nacos has one instance for each
	edits     map[string]*edit     // edits by ip:port:cluster
	view      []map[string]any
	due       time.Time // when to rebuild the view; zero if nothing has changed
}

type instance struct {
	ip, cluster     string
	port            int
	weight          float64
	metadata        map[string]string
	beat            time.Time
	unhealthy, gone time.Duration // time without a beat after which the instance is unhealthy, or is removed
	healthy         bool
}

// edit is an operator's change of an instance. It takes precedence over the published one.
type edit struct {
	weight   float64
	enabled  bool
	metadata map[string]string
	orphan   time.Time // when its instance was removed; zero if it is published
}

// editLives is how long Nacos keeps an edit after its instance was removed.
const editLives = time.Minute

// SetDown makes the server drop every request without a response if down is true, or answer
// again.
func (s *Server) SetDown(down bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.down = down
	if s.news != nil {
		s.news.Broadcast()
	}
}

// Restart removes what a killed server loses: all instances and tokens.
func (s *Server) Restart() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tokens = nil
	for _, v := range s.services {
		v.published, v.view, v.due = map[string]*instance{}, nil, time.Time{}
	}
}

// Logins returns the number of logins, including those that failed.
func (s *Server) Logins() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.logins
}

// Requests returns how many requests of a method and path there have been, as in
// "GET /v1/ns/instance/list".
func (s *Server) Requests(what string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.requests[what]
}

// answer is the response to a request: JSON, or a line of text if body is a string.
type answer struct {
	status int
	body   any
}

func text(status int, format string, args ...any) answer {
	return answer{status, fmt.Sprintf(format, args...)}
}

// ServeHTTP answers a request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a := s.serve(r)
	if line, ok := a.body.(string); ok {
		w.Header().Set("Content-Type", "text/plain;charset=UTF-8")
		w.WriteHeader(a.status)
		fmt.Fprint(w, line)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(a.status)
	if err := json.NewEncoder(w).Encode(a.body); err != nil {
		panic(http.ErrAbortHandler) // the client has closed the connection
	}
}

func (s *Server) serve(r *http.Request) answer {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.news == nil {
		s.news = sync.NewCond(&s.mu)
	}
	if s.down {
		panic(http.ErrAbortHandler)
	}
	path, ok := strings.CutPrefix(r.URL.Path, "/nacos")
	if err := r.ParseForm(); !ok || err != nil {
		return text(http.StatusNotFound, "no such path")
	}
	what := r.Method + " " + path
	if s.requests == nil {
		s.requests = map[string]int{}
	}
	s.requests[what]++
	if what == "POST /v1/auth/login" {
		return s.login(r.Form)
	}
	if s.Password != "" && time.Now().After(s.tokens[strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")]) {
		return text(http.StatusForbidden, "token invalid!")
	}
	p := params{r.Form, s.DecodeTwice}
	if what == "POST /v1/cs/configs/listener" {
		return s.listen(r)
	}
	if a, known := s.configs(what, r.Header.Get("Casmd5"), p); known {
		return a
	}
	if what == "GET /v1/ns/service/list" {
		return s.serviceList(p)
	}
	handle, known := map[string]func(*service, params) answer{
		"POST /v1/ns/instance":                  s.register,
		"PUT /v1/ns/instance":                   s.update,
		"DELETE /v1/ns/instance":                s.deregister,
		"GET /v1/ns/instance":                   s.detail,
		"PUT /v1/ns/instance/beat":              s.beat,
		"GET /v1/ns/instance/list":              s.list,
		"DELETE /v1/ns/instance/metadata/batch": s.deleteMetadata,
	}[what]
	if !known {
		return text(http.StatusNotImplemented, "no such api:%s", what)
	}
	if p.get("serviceName") == "" {
		return text(http.StatusBadRequest, "caused: Param 'serviceName' is required.;")
	}
	v := s.service(p)
	s.expire(v)
	return handle(v, p)
}

func (s *Server) login(q url.Values) answer {
	s.logins++
	if s.Password == "" || q.Get("username") != "nacos" || q.Get("password") != s.Password {
		return text(http.StatusForbidden, "unknown user!")
	}
	ttl := s.TokenTTL
	if ttl == 0 {
		ttl = 5 * time.Hour
	}
	token := "token-" + strconv.Itoa(s.logins)
	if s.tokens == nil {
		s.tokens = map[string]time.Time{}
	}
	s.tokens[token] = time.Now().Add(ttl)
	return answer{http.StatusOK, map[string]any{"accessToken": token, "tokenTtl": int(ttl.Seconds()), "globalAdmin": true}}
}

// params are the parameters of a request.
type params struct {
	url.Values
	twice bool
}

func (p params) get(name string) string {
	value := p.Get(name)
	if p.twice {
		if again, err := url.QueryUnescape(value); err == nil {
			value = again
		}
	}
	return strings.TrimSpace(value)
}

func (p params) or(name, otherwise string) string {
	if value := p.get(name); value != "" {
		return value
	}
	return otherwise
}

func (p params) address() string { return p.get("ip") + ":" + p.get("port") }
func (p params) cluster() string { return p.or("clusterName", "DEFAULT") }

func (s *Server) service(p params) *service {
	grouped := p.or("groupName", "DEFAULT_GROUP") + "@@" + p.get("serviceName")
	id := p.or("namespaceId", "public") + "##" + grouped
	v := s.services[id]
	if v == nil {
		v = &service{name: grouped, published: map[string]*instance{}, edits: map[string]*edit{}}
		if s.services == nil {
			s.services = map[string]*service{}
		}
		s.services[id] = v
	}
	return v
}
