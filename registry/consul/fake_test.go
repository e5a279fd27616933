package consul

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/consul/api"
)

// standIn is a fake Consul agent: the part of the documented HTTP API that the registry
// uses, with its limits, times to live and blocking queries. One index counts the changes
// of all services, so a query also returns after a change of another service, as Consul's
// do.
type standIn struct {
	*httptest.Server

	mu       sync.Mutex
	index    uint64
	starts   int           // grows when it loses its state
	changed  chan struct{} // closed and replaced by every change
	services map[string]*standInService
	filtered bool   // responses say that ACLs have shortened the list
	policy   string // default policy of responses; allow when ""
	silent   bool   // health queries are not answered
	replays  bool   // the agent reads its log after a restart: queries that are not consistent get an empty list
	waiting  int    // blocking queries
	most     int    // the highest value of waiting
	asked    uint64 // the index of the last query
}

type standInService struct {
	api.AgentService
	check  string // its ID, "" for none
	ttl    time.Duration
	expiry *time.Timer
	status string
}

func newStandIn(t testing.TB) *standIn {
	s := &standIn{index: 1, changed: make(chan struct{}), services: map[string]*standInService{}}
	mux := http.NewServeMux()
	mux.HandleFunc("PUT /v1/agent/service/register", s.register)
	mux.HandleFunc("PUT /v1/agent/service/deregister/{id}", s.deregister)
	mux.HandleFunc("PUT /v1/agent/check/update/{id}", s.update)
	mux.HandleFunc("GET /v1/agent/service/{id}", s.service)
	mux.HandleFunc("GET /v1/health/service/{name}", s.health)
	s.Server = httptest.NewServer(mux)
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
		s.forget()
	})
	return s
}

// forget removes all services, as a restart without a data directory does.
func (s *standIn) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, service := range s.services {
		service.expiry.Stop()
	}
	clear(s.services)
	s.index = 1
	s.starts++
	s.wakeLocked()
}

// replay begins or ends the time after a restart in which the agent reads its log.
func (s *standIn) replay(begins bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.replays = begins
	s.starts++
	s.wakeLocked()
}

func (s *standIn) changedLocked() {
	s.index++
	s.wakeLocked()
}

func (s *standIn) wakeLocked() {
	close(s.changed)
	s.changed = make(chan struct{})
}

func (s *standIn) register(w http.ResponseWriter, req *http.Request) {
	var reg api.AgentServiceRegistration
	if err := json.NewDecoder(req.Body).Decode(&reg); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	if why := badRegistration(&reg); why != "" {
		http.Error(w, why, http.StatusBadRequest)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	status := reg.Check.Status
	if old := s.services[reg.ID]; old != nil {
		old.expiry.Stop()
		status = old.status // an existing check keeps its state
	}
	s.addLocked(api.AgentService{
		ID: reg.ID, Service: reg.Name, Meta: reg.Meta, Tags: reg.Tags, Address: reg.Address, Port: reg.Port,
	}, reg.Check, status)
}

// badRegistration returns why Consul would refuse a registration, or "".
func badRegistration(reg *api.AgentServiceRegistration) string {
	ttl, err := time.ParseDuration(reg.Check.TTL)
	switch {
	case reg.Name == "":
		return "Missing service name"
	case err != nil || ttl <= 0:
		return "Invalid check: TTL must be positive"
	case len(reg.Meta) > 64:
		return "Invalid Service Meta: cannot contain more than 64 key/value pairs"
	}
	for key, value := range reg.Meta {
		if len(key) > 128 || len(value) > 512 || strings.Trim(strings.ToLower(key), "abcdefghijklmnopqrstuvwxyz0123456789-_") != "" {
			return "Invalid Service Meta: " + key
		}
	}
	return ""
}

// addLocked adds a service with the given status of its check; check may be nil.
func (s *standIn) addLocked(service api.AgentService, check *api.AgentServiceCheck, status string) {
	entry := &standInService{AgentService: service, status: status, expiry: time.NewTimer(time.Hour)}
	if check != nil {
		entry.check, entry.ttl = check.CheckID, must(time.ParseDuration(check.TTL))
		entry.expiry = time.AfterFunc(entry.ttl, func() { s.set(entry, api.HealthCritical) })
	}
	s.services[service.ID] = entry
	s.changedLocked()
	entry.ModifyIndex, entry.CreateIndex = s.index, s.index
}

func (s *standIn) set(entry *standInService, status string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if entry.status != status {
		entry.status = status
		s.changedLocked()
	}
}

func (s *standIn) deregister(w http.ResponseWriter, req *http.Request) {
	if !s.lose(req.PathValue("id")) {
		http.Error(w, "Unknown service ID. Ensure that the service ID is passed, not the service name.", http.StatusNotFound)
	}
}

// lose removes a service and reports whether there was one.
func (s *standIn) lose(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	entry := s.services[id]
	if entry == nil {
		return false
	}
	entry.expiry.Stop()
	delete(s.services, id)
	s.changedLocked()
	return true
}

func (s *standIn) update(w http.ResponseWriter, req *http.Request) {
	var update struct {
		Status string `json:"Status"`
	}
	_ = json.NewDecoder(req.Body).Decode(&update)
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, entry := range s.services {
		if entry.check == "" || entry.check != req.PathValue("id") {
			continue
		}
		entry.expiry.Reset(entry.ttl)
		if entry.status != update.Status {
			entry.status = update.Status
			s.changedLocked()
		}
		return
	}
	http.Error(w, "Unknown check ID. Ensure that the check ID is passed, not the check name.", http.StatusNotFound)
}

func (s *standIn) service(w http.ResponseWriter, req *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	entry := s.services[req.PathValue("id")]
	if entry == nil {
		http.Error(w, "unknown service ID: "+req.PathValue("id"), http.StatusNotFound)
		return
	}
	answer(w, entry.AgentService)
}

func (s *standIn) health(w http.ResponseWriter, req *http.Request) {
	asked, _ := strconv.ParseUint(req.FormValue("index"), 10, 64)
	wait, err := time.ParseDuration(req.FormValue("wait"))
	if err != nil {
		wait = 5 * time.Minute
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked = asked
	s.blockLocked(req, asked, time.After(wait))
	var list []api.ServiceEntry
	index, services := s.index, s.services
	if s.replays {
		if req.Form.Has("consistent") {
			http.Error(w, "Not ready to serve consistent reads", http.StatusInternalServerError)
			return
		}
		index, services = 1, nil
	}
	for _, id := range slices.Sorted(maps.Keys(services)) {
		entry := s.services[id]
		if entry.Service == req.PathValue("name") && (req.FormValue("passing") == "" || entry.status == api.HealthPassing) {
			list = append(list, api.ServiceEntry{Node: &api.Node{Node: "node"}, Service: new(entry.AgentService)})
		}
	}
	w.Header().Set("X-Consul-Index", fmt.Sprint(index))
	w.Header().Set("X-Consul-Knownleader", "true")
	w.Header().Set("X-Consul-Lastcontact", "0")
	w.Header().Set("X-Consul-Default-Acl-Policy", cmp.Or(s.policy, "allow"))
	if s.filtered {
		w.Header().Set("X-Consul-Results-Filtered-By-Acls", "true")
	}
	answer(w, list)
}

// blockLocked waits until the index is higher than asked, the time is over, or the agent
// was restarted: Consul answers waiting queries when it loads another state.
func (s *standIn) blockLocked(req *http.Request, asked uint64, over <-chan time.Time) {
	s.waiting++
	s.most = max(s.most, s.waiting)
	s.wakeLocked() // for await, which may wait for s.waiting
	defer func() { s.waiting-- }()
	starts := s.starts
	for s.silent || asked > 0 && asked >= s.index && starts == s.starts {
		changed := s.changed
		ended := false
		s.mu.Unlock()
		select {
		case <-changed:
		case <-over:
			ended = true
		case <-req.Context().Done():
			ended = true
		}
		s.mu.Lock()
		if ended && (!s.silent || req.Context().Err() != nil) {
			return
		}
	}
}

func answer(w http.ResponseWriter, v any) { _, _ = w.Write(must(json.Marshal(v))) }

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
