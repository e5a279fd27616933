package kubernetes

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
)

// listed returns the list of a target from slices in JSON: "ID address zone", sorted.
func listed(t *testing.T, target string, texts ...string) (string, error) {
	t.Helper()
	at, err := parse(mustParse(t, target))
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]*endpointSlice{}
	for i, text := range texts {
		s := new(endpointSlice)
		if err := json.Unmarshal([]byte(text), s); err != nil {
			t.Fatal(err, text)
		}
		all[string(rune('a'+i))] = s
	}
	list, err := at.instances(all, func(key string, reason error) { t.Logf("%s: %v", key, reason) })
	var lines []string
	for id, in := range list {
		if id != in.ID {
			t.Errorf("%q is listed as %q", in.ID, id)
		}
		lines = append(lines, strings.TrimSpace(in.ID+" "+in.Endpoints[0].Address+" "+in.Zone))
	}
	slices.Sort(lines)
	return strings.Join(lines, ", "), err
}

// slice returns a slice of IPv4 addresses with the port tandem.
func slice(endpoints ...string) string {
	return `{"addressType":"IPv4","ports":[{"name":"tandem","port":8972}],"endpoints":[` + strings.Join(endpoints, ",") + `]}`
}

func sliceOf(family, endpoint string) string {
	return strings.Replace(slice(endpoint), familyIPv4, family, 1)
}

// pod returns an endpoint; conditions are fields of the conditions object, more are fields of the
// endpoint.
func pod(id, address, conditions string, more ...string) string {
	return `{"addresses":["` + address + `"],"conditions":{` + conditions + `},"targetRef":{"kind":"Pod","name":"` + id + `","uid":"` + id + `"}` + strings.Join(append([]string{""}, more...), ",") + `}`
}

const (
	ready    = `"ready":true,"serving":true,"terminating":false`
	unready  = `"ready":false,"serving":false,"terminating":false`
	draining = `"ready":false,"serving":true,"terminating":true`
	ended    = `"ready":false,"serving":false,"terminating":true`
)

// An endpoint is listed while it is ready; those that are terminating and still serve are listed
// only when no endpoint is ready.
func TestWhichEndpointsAreListed(t *testing.T) {
	for name, tc := range map[string]struct {
		conditions []string
		want       string
	}{
		"ready":                        {[]string{ready, ready}, "0 1"},
		"not ready yet":                {[]string{unready, ready}, "1"},
		"none ready yet":               {[]string{unready, unready}, ""},
		"no conditions":                {[]string{"", `"ready":null`}, "0 1"},
		"draining, another ready":      {[]string{draining, ready}, "1"},
		"all draining":                 {[]string{draining, draining}, "0 1"},
		"draining, another starts":     {[]string{draining, unready}, "0"},
		"ended":                        {[]string{ended, ended}, ""},
		"draining, the other ended":    {[]string{draining, ended}, "0"},
		"serving but not ready":        {[]string{`"ready":false,"serving":true,"terminating":false`}, ""},
		"serving unknown, terminating": {[]string{`"ready":false,"terminating":true`}, ""},
		"published though not ready":   {[]string{`"ready":true,"serving":false,"terminating":true`}, "0"},
	} {
		t.Run(name, func(t *testing.T) {
			var endpoints []string
			for i, c := range tc.conditions {
				endpoints = append(endpoints, pod(string(rune('0'+i)), "10.0.0."+string(rune('1'+i)), c))
			}
			got, err := listed(t, target, slice(endpoints...))
			var found []string
			for line := range strings.SplitSeq(got, ", ") {
				found = append(found, strings.Split(line, " ")[0])
			}
			if err != nil || strings.Join(found, " ") != tc.want {
				t.Errorf("listed %q, %v, want %q", found, err, tc.want)
			}
		})
	}
}

// A pod is one instance, however many slices have it.
func TestSlicesAreMerged(t *testing.T) {
	other := strings.Replace(pod("a", "10.0.0.9", ready), `"uid":"a"`, `"uid":"b"`, 1)
	for name, tc := range map[string]struct {
		target string
		slices []string
		want   string
	}{
		"two slices":                {target, []string{slice(pod("a", "10.0.0.1", ready)), slice(pod("b", "10.0.0.2", ready))}, "a 10.0.0.1:8972, b 10.0.0.2:8972"},
		"twice":                     {target, []string{slice(pod("a", "10.0.0.1", ready)), slice(pod("a", "10.0.0.1", ready))}, "a 10.0.0.1:8972"},
		"moved and now ready":       {target, []string{slice(pod("a", "10.0.0.1", unready)), slice(pod("a", "10.0.0.1", ready))}, "a 10.0.0.1:8972"},
		"moved and now terminating": {target, []string{slice(pod("a", "10.0.0.1", ready), pod("b", "10.0.0.2", ready)), slice(pod("a", "10.0.0.1", draining))}, "b 10.0.0.2:8972"},
		"the same, the other way":   {target, []string{slice(pod("a", "10.0.0.1", draining)), slice(pod("a", "10.0.0.1", ready), pod("b", "10.0.0.2", ready))}, "b 10.0.0.2:8972"},
		"replaced under its name":   {target, []string{slice(pod("a", "10.0.0.1", draining)), slice(other)}, "a 10.0.0.9:8972"},
		"the same, later first":     {target, []string{slice(other), slice(pod("a", "10.0.0.1", draining))}, "a 10.0.0.9:8972"},
		"two families":              {target, []string{sliceOf("IPv6", pod("a", "fd00::1", ready)), slice(pod("a", "10.0.0.1", ready))}, "a 10.0.0.1:8972"},
		"two families, IPv4 first":  {target, []string{slice(pod("a", "10.0.0.1", ready)), sliceOf("IPv6", pod("a", "fd00::1", ready))}, "a 10.0.0.1:8972"},
		"two families, draining":    {target, []string{slice(pod("a", "10.0.0.1", ready)), sliceOf("IPv6", pod("a", "fd00::1", draining))}, "a 10.0.0.1:8972"},
		"IPv6 alone":                {target, []string{sliceOf("IPv6", pod("a", "fd00::1", ready))}, "a [fd00::1]:8972"},
		"only IPv6":                 {target + "?family=ipv6", []string{sliceOf("IPv6", pod("a", "fd00::1", ready)), slice(pod("a", "10.0.0.1", ready))}, "a [fd00::1]:8972"},
		"only IPv4":                 {target + "?family=ipv4", []string{sliceOf("IPv6", pod("a", "fd00::1", ready)), slice(pod("b", "10.0.0.1", ready))}, "b 10.0.0.1:8972"},
		"host names":                {target, []string{sliceOf("FQDN", pod("a", "price.example", ready))}, "a price.example:8972"},
		"no pod":                    {target + "?transport=tls", []string{slice(`{"addresses":["192.0.2.1"]}`)}, "tls://192.0.2.1:8972 192.0.2.1:8972"},
		"only the first address":    {target, []string{slice(`{"addresses":["192.0.2.1","192.0.2.2"]}`)}, "tcp://192.0.2.1:8972 192.0.2.1:8972"},
		"bad addresses":             {target, []string{slice(`{"addresses":[]}`, `{"addresses":["fe80::1%eth0"]}`, pod("x", "price", ready), pod("b", "10.0.0.2", ready))}, "b 10.0.0.2:8972"},
		"a bad host name":           {target, []string{sliceOf("FQDN", pod("a", strings.Repeat("x", 254), ready))}, ""},
		"a node":                    {target, []string{slice(`{"addresses":["192.0.2.1"],"targetRef":{"kind":"Node","name":"n"}}`)}, "tcp://192.0.2.1:8972 192.0.2.1:8972"},
		"no endpoints and no ports": {target, []string{`{"addressType":"IPv4","endpoints":null,"ports":null}`}, ""},
		"no slices":                 {target, nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			if got, err := listed(t, tc.target, tc.slices...); err != nil || got != tc.want {
				t.Errorf("listed %q, %v, want %q", got, err, tc.want)
			}
		})
	}
}

// A port is chosen by its name or its number, which may differ from slice to slice.
func TestPorts(t *testing.T) {
	with := func(address, ports string) string {
		return `{"addressType":"IPv4","ports":[` + ports + `],"endpoints":[{"addresses":["` + address + `"]}]}`
	}
	one, two := with("10.0.0.1", `{"name":"http","port":80},{"name":"tandem","port":8972}`), with("10.0.0.2", `{"name":"tandem","port":8973},{"name":"all"}`)
	for port, tc := range map[string]struct{ want, err string }{
		"tandem": {want: "tcp://10.0.0.1:8972 10.0.0.1:8972, tcp://10.0.0.2:8973 10.0.0.2:8973"},
		"8973":   {want: "tcp://10.0.0.2:8973 10.0.0.2:8973"},
		"http":   {want: "tcp://10.0.0.1:80 10.0.0.1:80"},
		"all":    {err: "have no port all; they have http (80), tandem (8972), tandem (8973)"},
		"1":      {err: "have no port 1;"},
	} {
		got, err := listed(t, "kubernetes://shop/price:"+port, one, two)
		if got != tc.want || (err == nil) != (tc.err == "") || err != nil && !strings.Contains(err.Error(), tc.err) {
			t.Errorf("port %s: %q, %v", port, got, err)
		}
	}
	if got, err := listed(t, "kubernetes://shop/price:80", with("10.0.0.1", `{"port":80}`)); err != nil || got != "tcp://10.0.0.1:80 10.0.0.1:80" {
		t.Errorf("a port without a name: %q, %v", got, err)
	}
	if _, err := listed(t, "kubernetes://shop/price:80", with("10.0.0.1", `{"port":70000},{"port":0}`)); err == nil || !strings.Contains(err.Error(), "they have (0), (70000)") {
		t.Errorf("ports out of range: %v", err)
	}
}

// Zones are those of the endpoints or, if every listed endpoint has one, those of the hints.
func TestZones(t *testing.T) {
	in := func(id, conditions, zone string, hints ...string) string {
		text := `"zone":"` + zone + `"`
		if len(hints) > 0 {
			text += `,"hints":{"forZones":[{"name":"` + strings.Join(hints, `"},{"name":"`) + `"}]}`
		}
		return pod(id, "10.0.0.1", conditions, text)
	}
	for name, tc := range map[string]struct {
		slice string
		want  string
	}{
		"no hints":              {slice(in("a", ready, "x"), in("b", ready, "y")), "x y"},
		"hints":                 {slice(in("a", ready, "x", "y"), in("b", ready, "y", "x")), "y x"},
		"a hint of its own":     {slice(in("a", ready, "x", "z", "x"), in("b", ready, "y", "z", "w")), "x z"},
		"one without":           {slice(in("a", ready, "x", "y"), in("b", ready, "y")), "x y"},
		"one that is not ready": {slice(in("a", ready, "x", "y"), in("b", unready, "y")), "y"},
		"empty hints":           {slice(in("a", ready, "x", ""), in("b", ready, "y", "x")), "x y"},
	} {
		got, err := listed(t, target, tc.slice)
		var zones []string
		for line := range strings.SplitSeq(got, ", ") {
			zones = append(zones, line[strings.LastIndexByte(line, ' ')+1:])
		}
		if err != nil || strings.Join(zones, " ") != tc.want {
			t.Errorf("%s: %q, %v, want %q", name, got, err, tc.want)
		}
	}
}

// The tag "node" says where a pod runs.
func TestNodeIsATag(t *testing.T) {
	at, err := parse(mustParse(t, target))
	if err != nil {
		t.Fatal(err)
	}
	s := new(endpointSlice)
	if err := json.Unmarshal([]byte(slice(pod("a", "10.0.0.1", ready, `"nodeName":"n1"`))), s); err != nil {
		t.Fatal(err)
	}
	list, err := at.instances(map[string]*endpointSlice{"s": s}, nil)
	if err != nil || list["a"].Tags["node"] != "n1" {
		t.Errorf("%v, %v", list, err)
	}
}

// Events and lists of any kind neither panic nor lead to instances that are not valid.
func FuzzEvents(f *testing.F) {
	for _, s := range []string{
		slice(pod("a", "10.0.0.1", ready)), slice(pod("a", "10.0.0.1", draining, `"zone":"x","hints":{"forZones":[{"name":"y"}]}`)),
		sliceOf("IPv6", pod("a", "fd00::1", unready)), sliceOf("FQDN", pod("", "x", "")), "{}",
	} {
		f.Add([]byte(`{"type":"ADDED","object":` + strings.Replace(s, "{", `{"metadata":{"name":"n","resourceVersion":"1"},`, 1) + `}`))
	}
	f.Add([]byte(`{"type":"DELETED","object":{"metadata":{"name":"n","resourceVersion":"2"}}}`))
	f.Add([]byte(`{"type":"ERROR","object":{"code":410}}`))
	at, err := parse(mustParse(f, target))
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		w := &watch{place: at, slices: map[string]*endpointSlice{}}
		if _, err := w.take(line); err != nil {
			return
		}
		list, err := at.instances(w.slices, func(string, error) {})
		for id, in := range list {
			if invalid := in.Validate(); err != nil || invalid != nil || id != in.ID {
				t.Fatalf("%s: %v, %v", line, err, invalid)
			}
		}
	})
}
