package standin

import (
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf16"
)

// expire makes instances that have sent no beat unhealthy, and removes them later.
func (s *Server) expire(v *service) {
	now := time.Now()
	for at, in := range v.published {
		silent := now.Sub(in.beat)
		if silent > in.gone {
			delete(v.published, at)
			s.changed(v)
		} else if healthy := silent <= in.unhealthy; healthy != in.healthy {
			in.healthy = healthy
			s.changed(v)
		}
	}
	for id, e := range v.edits {
		_, there := v.published[id[:strings.LastIndexByte(id, ':')]]
		switch {
		case there:
			e.orphan = time.Time{}
		case e.orphan.IsZero():
			e.orphan = now
		case now.Sub(e.orphan) > editLives:
			delete(v.edits, id)
		}
	}
}

func (s *Server) changed(v *service) {
	if v.due.IsZero() {
		v.due = time.Now().Add(s.Lag)
	}
}

// show returns the instances that reads see.
func (v *service) show() []map[string]any {
	if v.due.IsZero() || time.Now().Before(v.due) {
		return v.view
	}
	v.due, v.view = time.Time{}, []map[string]any{}
	for _, at := range slices.Sorted(maps.Keys(v.published)) {
		in := v.published[at]
		weight, enabled, metadata := in.weight, true, maps.Clone(in.metadata)
		if e := v.edits[at+":"+in.cluster]; e != nil {
			weight, enabled = e.weight, e.enabled
			maps.Copy(metadata, e.metadata)
		}
		v.view = append(v.view, map[string]any{
			"instanceId": in.ip + "#" + strconv.Itoa(in.port) + "#" + in.cluster + "#" + v.name,
			"ip":         in.ip, "port": in.port, "weight": weight, "healthy": in.healthy, "enabled": enabled,
			"ephemeral": true, "clusterName": in.cluster, "serviceName": v.name, "metadata": metadata,
		})
	}
	return v.view
}

// find returns one instance as reads see it, or nil.
func (v *service) find(p params) map[string]any {
	for _, h := range v.show() {
		if h["ip"] == p.get("ip") && strconv.Itoa(h["port"].(int)) == p.get("port") && h["clusterName"] == p.cluster() {
			return h
		}
	}
	return nil
}

// parse returns the instance in the parameters of a POST or PUT. If it is nil, the answer
// says what is wrong.
func (s *Server) parse(p params) (*instance, answer) {
	in := &instance{ip: p.get("ip"), cluster: p.cluster(), beat: time.Now(), healthy: true, metadata: map[string]string{}}
	port, err := strconv.Atoi(p.get("port"))
	if err != nil || in.ip == "" {
		return nil, text(http.StatusBadRequest, "caused: Param 'ip' or 'port' is required.;")
	}
	in.port = port
	if in.weight, err = strconv.ParseFloat(p.or("weight", "1"), 64); err != nil || in.weight < 0 || in.weight > 10_000 {
		return nil, text(http.StatusBadRequest, "caused: instance format invalid: The weights range from 0.0 to 10000.0;")
	}
	if m := p.get("metadata"); m != "" {
		if err := json.Unmarshal([]byte(m), &in.metadata); err != nil {
			return nil, text(http.StatusBadRequest, "caused: metadata format incorrect:%s;", m)
		}
	}
	if s.MaxMetadata > 0 && size(in.metadata) > s.MaxMetadata {
		return nil, text(http.StatusBadRequest, "Param 'Metadata' is illegal, the param length should not exceed %d.", s.MaxMetadata)
	}
	interval := in.preserved("heart.beat.interval", 5*time.Second)
	in.unhealthy = in.preserved("heart.beat.timeout", 15*time.Second)
	in.gone = in.preserved("ip.delete.timeout", 30*time.Second)
	if in.unhealthy < interval || in.gone < interval {
		return nil, text(http.StatusBadRequest, "caused: Instance 'heart beat interval' must less than 'heart beat timeout' and 'ip delete timeout'.;")
	}
	return in, answer{}
}

// size returns the length of the metadata as Java counts it, in UTF-16 units.
func size(m map[string]string) (n int) {
	for k, v := range m {
		n += len(utf16.Encode([]rune(k + v)))
	}
	return n
}

func (in *instance) preserved(name string, otherwise time.Duration) time.Duration {
	ms, err := strconv.ParseInt(in.metadata["preserved."+name], 10, 64)
	if err != nil {
		return otherwise
	}
	return time.Duration(ms) * time.Millisecond
}

func (s *Server) register(v *service, p params) answer {
	in, bad := s.parse(p)
	if in == nil {
		return bad
	}
	v.published[p.address()] = in
	s.changed(v)
	return text(http.StatusOK, "ok")
}

// update handles the console's edits: an edit is stored separately from the published
// instance.
func (s *Server) update(v *service, p params) answer {
	in, bad := s.parse(p)
	if in == nil {
		return bad
	}
	v.edits[p.address()+":"+in.cluster] = &edit{weight: in.weight, enabled: p.or("enabled", "true") == "true", metadata: in.metadata}
	s.changed(v)
	return text(http.StatusOK, "ok")
}

func (s *Server) deregister(v *service, p params) answer {
	if v.published[p.address()] != nil {
		delete(v.published, p.address())
		s.changed(v)
	}
	return text(http.StatusOK, "ok")
}

func (s *Server) detail(v *service, p params) answer {
	if s.Three {
		return text(http.StatusGone, "Current API will be deprecated")
	}
	h := v.find(p)
	if h == nil {
		return text(http.StatusNotFound, "caused: no matched ip found!;")
	}
	return answer{http.StatusOK, map[string]any{
		"service": v.name, "ip": h["ip"], "port": h["port"], "clusterName": h["clusterName"], "weight": h["weight"],
		"healthy": h["healthy"], "instanceId": h["instanceId"], "metadata": h["metadata"],
	}}
}

func (s *Server) beat(v *service, p params) answer {
	in := v.published[p.address()]
	code, interval := 20404, 5*time.Second
	if in != nil {
		code, interval = 10200, in.preserved("heart.beat.interval", interval)
		in.beat = time.Now()
		s.expire(v)
	}
	return answer{http.StatusOK, map[string]any{"clientBeatInterval": interval.Milliseconds(), "code": code, "lightBeatEnabled": true}}
}

func (s *Server) list(v *service, p params) answer {
	clusters, hosts := p.get("clusters"), []map[string]any{}
	for _, h := range v.show() {
		wanted := clusters == "" || slices.Contains(strings.Split(clusters, ","), h["clusterName"].(string))
		if wanted && h["enabled"].(bool) && (h["healthy"].(bool) || p.get("healthyOnly") != "true") {
			hosts = append(hosts, h)
		}
	}
	group, _, _ := strings.Cut(v.name, "@@")
	return answer{http.StatusOK, map[string]any{
		"name": v.name, "groupName": group, "clusters": clusters, "cacheMillis": 10000, "hosts": hosts,
		"lastRefTime": time.Now().UnixMilli(), "checksum": "", "valid": true,
	}}
}

// serviceList returns a page of the names of a group's services.
func (s *Server) serviceList(p params) answer {
	within := p.or("namespaceId", "public") + "##" + p.or("groupName", "DEFAULT_GROUP") + "@@"
	names := []string{}
	for id := range s.services {
		if name, ok := strings.CutPrefix(id, within); ok {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	count := len(names)
	page, err := strconv.Atoi(p.get("pageNo"))
	size, err2 := strconv.Atoi(p.get("pageSize"))
	if err != nil || err2 != nil || page < 1 {
		return text(http.StatusBadRequest, "caused: Param 'pageNo' is required.;")
	}
	names = names[min(count, (page-1)*size):min(count, page*size)]
	return answer{http.StatusOK, map[string]any{"doms": names, "count": count}}
}

// deleteMetadata removes keys from edits. Like the real server, it creates an edit of weight
// 1 if there is none.
func (s *Server) deleteMetadata(v *service, p params) answer {
	var instances []struct {
		IP          string `json:"ip"`
		Port        int    `json:"port"`
		ClusterName string `json:"clusterName"`
	}
	var metadata map[string]string
	if json.Unmarshal([]byte(p.get("instances")), &instances) != nil || json.Unmarshal([]byte(p.get("metadata")), &metadata) != nil {
		return text(http.StatusBadRequest, "caused: metadata format incorrect;")
	}
	updated := []string{}
	for _, in := range instances {
		id := in.IP + ":" + strconv.Itoa(in.Port) + ":" + in.ClusterName
		e := v.edits[id]
		if e == nil {
			e = &edit{weight: 1, enabled: true, metadata: map[string]string{}}
			v.edits[id] = e
		}
		for name := range metadata {
			delete(e.metadata, name)
		}
		updated = append(updated, id)
	}
	s.changed(v)
	return answer{http.StatusOK, map[string]any{"updated": updated}}
}
