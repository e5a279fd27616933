//go:build integration && linux

package kubernetes

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/tandem-rpc/tandem/registry"
)

// account is the service account of the guide's manifests.
const account = "checkout"

// manifests returns the objects of the guide docs/howto/kubernetes.md.
func manifests(t testing.TB) (list []map[string]any) {
	t.Helper()
	text, err := os.ReadFile("../../docs/howto/kubernetes.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, block := range strings.Split(string(text), "```yaml\n")[1:] {
		block, _, _ = strings.Cut(block, "```")
		for one := range strings.SplitSeq(block, "\n---\n") {
			var object map[string]any
			if err := yaml.Unmarshal([]byte(one), &object); err != nil {
				t.Fatalf("%v in\n%s", err, one)
			}
			list = append(list, object)
		}
	}
	return list
}

// apply creates the guide's objects of these kinds in the namespace shop.
func (c *cluster) apply(kinds ...string) {
	c.t.Helper()
	paths := map[string]string{
		"Service": "/api/v1/namespaces/shop/services", "ServiceAccount": "/api/v1/namespaces/shop/serviceaccounts",
		"Deployment":  "/apis/apps/v1/namespaces/shop/deployments",
		"Role":        "/apis/rbac.authorization.k8s.io/v1/namespaces/shop/roles",
		"RoleBinding": "/apis/rbac.authorization.k8s.io/v1/namespaces/shop/rolebindings",
	}
	for _, kind := range kinds {
		found := false
		for _, object := range manifests(c.t) {
			if object["kind"] == kind {
				found = true
				c.must(http.MethodPost, paths[kind]+"?fieldValidation=Strict", object)
			}
		}
		if !found {
			c.t.Errorf("the guide has no %s", kind)
		}
	}
}

// with changes the conditions of the endpoint i of a slice.
func with(s map[string]any, i int, ready, serving, terminating bool) map[string]any {
	s["endpoints"].([]any)[i].(map[string]any)["conditions"] = map[string]any{"ready": ready, "serving": serving, "terminating": terminating}
	return s
}

// field sets a field of the endpoint i of a slice.
func field(s map[string]any, i int, name string, value any) map[string]any {
	s["endpoints"].([]any)[i].(map[string]any)[name] = value
	return s
}

// TestRealManifests: the API server accepts all objects of the guide as they stand there.
func TestRealManifests(t *testing.T) {
	c := startCluster(t)
	c.apply("ServiceAccount", "Role", "RoleBinding", "Service", "Deployment")
}

// TestRealChurn: without permission there is an error that says what is missing; with the guide's
// Role the list follows endpoints that come, change and go.
func TestRealChurn(t *testing.T) {
	c := startCluster(t)
	c.apply("ServiceAccount")
	r, w := newRecorder(t, c, c.tokenOf(account), target)
	r.fails(w, `403: endpointslices.discovery.k8s.io is forbidden: User "system:serviceaccount:shop:checkout" cannot list resource`)
	c.apply("Role", "RoleBinding")
	r.lists(w, "none")
	c.put(field(pods("price-a", 1, 2), 0, "zone", "east"))
	r.lists(w, "price-1 10.0.0.1:8972 east, price-2 10.0.0.2:8972")
	c.put(pods("price-b", 3))
	r.lists(w, "price-1 10.0.0.1:8972 east, price-2 10.0.0.2:8972, price-3 10.0.0.3:8972")
	other := pods("stock-a", 9) // of another Service
	other["metadata"].(map[string]any)["labels"] = map[string]any{serviceLabel: "stock"}
	c.put(other)
	c.put(with(pods("price-a", 1, 2), 0, false, true, true))
	r.lists(w, "price-2 10.0.0.2:8972, price-3 10.0.0.3:8972")
	c.put(with(pods("price-a", 1, 2), 1, false, false, false))
	r.lists(w, "price-1 10.0.0.1:8972, price-3 10.0.0.3:8972")
	c.remove("price-b")
	r.lists(w, "price-1 10.0.0.1:8972")
	six := pods("price-6", 1, 4)
	six["addressType"] = familyIPv6
	field(field(six, 0, "addresses", []any{"2001:db8::1"}), 1, "addresses", []any{"2001:db8::4"})
	c.put(six)
	r.lists(w, "price-1 10.0.0.1:8972, price-4 [2001:db8::4]:8972")
	hints := map[string]any{"forZones": []any{map[string]any{"name": "west"}}}
	c.remove("price-6")
	r.lists(w, "price-1 10.0.0.1:8972")
	c.put(field(field(pods("price-a", 1), 0, "zone", "east"), 0, "hints", hints))
	r.lists(w, "price-1 10.0.0.1:8972 west")
	c.put(with(pods("price-a", 1), 0, false, true, true))
	r.lists(w, "price-1 10.0.0.1:8972") // nobody else is left
	c.remove("price-a")
	r.lists(w, "none")
	r.save("churn")
}

// withPod returns a cluster with the guide's account and one pod, and a watch that has listed it.
func withPod(t testing.TB) (*cluster, *recorder, *watcher) {
	t.Helper()
	c := startCluster(t)
	c.apply("ServiceAccount", "Role", "RoleBinding")
	c.put(pods("price-a", 1))
	r, w := newRecorder(t, c, c.tokenOf(account), target)
	r.lists(w, "price-1 10.0.0.1:8972")
	r.awaitWatch()
	return c, r, w
}

// TestRealRestart: a killed API server is an error; once it is back, changes are seen again.
func TestRealRestart(t *testing.T) {
	c, r, w := withPod(t)
	stop(c.api)
	r.fails(w, "EOF")
	c.startAPI()
	r.lists(w, "price-1 10.0.0.1:8972")
	c.put(pods("price-a", 1, 2))
	r.lists(w, "price-1 10.0.0.1:8972, price-2 10.0.0.2:8972")
	t.Log(r.statuses())
	r.save("restart")
}

// TestRealGone: changes that etcd has compacted away lead to a new list.
func TestRealGone(t *testing.T) {
	c, r, w := withPod(t)
	r.cutOff()
	r.fails(w, "EOF")
	c.put(pods("price-b", 2))
	c.remove("price-a")
	stop(c.api)
	c.compact()
	c.startAPI()
	r.restore()
	r.lists(w, "price-2 10.0.0.2:8972")
	c.put(pods("price-b", 2, 3))
	r.lists(w, "price-2 10.0.0.2:8972, price-3 10.0.0.3:8972")
	if got := r.statuses(); !strings.HasSuffix(got, "410 watch, OK list, OK watch") {
		t.Errorf("the responses were %s", got)
	}
	r.save("gone")
}

// TestRealBusy: a request that priority and fairness rejects is not sent again before Retry-After.
func TestRealBusy(t *testing.T) {
	c := startCluster(t)
	c.apply("ServiceAccount", "Role", "RoleBinding")
	c.put(pods("price-a", 1))
	c.narrow()
	token := c.tokenOf(account)
	calm := c.crowd(token)
	for range 20 { // one of the crowd is served at a time, and it may be the resolver
		r, w := newRecorder(t, c, token, target)
		if r.awaitExchange() != http.StatusTooManyRequests {
			continue
		}
		r.fails(w, "429: ")
		calm()
		r.lists(w, "price-1 10.0.0.1:8972")
		r.awaitWatch()
		if got := r.statuses(); !strings.HasSuffix(got, "Too Many Requests list, OK list, OK watch") {
			t.Errorf("the responses were %s", got)
		}
		r.save("busy")
		return
	}
	t.Error("the API server never rejected a list")
}

// narrow makes the API server serve one request of the account at a time, and reject others.
func (c *cluster) narrow() {
	c.t.Helper()
	const group = "flowcontrol.apiserver.k8s.io/v1"
	c.must(http.MethodPost, "/apis/"+group+"/prioritylevelconfigurations", object("PriorityLevelConfiguration", group, "narrow", map[string]any{"spec": map[string]any{
		"type": "Limited", "limited": map[string]any{"nominalConcurrencyShares": 0, "lendablePercent": 0, "borrowingLimitPercent": 0, "limitResponse": map[string]any{"type": "Reject"}},
	}}))
	c.must(http.MethodPost, "/apis/"+group+"/flowschemas", object("FlowSchema", group, "narrow", map[string]any{"spec": map[string]any{
		"priorityLevelConfiguration": map[string]any{"name": "narrow"}, "matchingPrecedence": 2, "rules": []any{map[string]any{
			"subjects":      []any{map[string]any{"kind": "ServiceAccount", "serviceAccount": map[string]any{"namespace": "shop", "name": account}}},
			"resourceRules": []any{map[string]any{"verbs": []any{"*"}, "apiGroups": []any{"*"}, "resources": []any{"*"}, "namespaces": []any{"*"}}},
		}},
	}}))
}

// crowd sends lists from many clients until one was rejected, and until the function that it
// returns is called.
func (c *cluster) crowd(token string) (end func()) {
	c.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var group sync.WaitGroup
	var rejected sync.Once
	first := make(chan struct{})
	for range 30 {
		group.Go(func() {
			for ctx.Err() == nil {
				if c.statusFor(token) == http.StatusTooManyRequests {
					rejected.Do(func() { close(first) })
				}
			}
		})
	}
	end = sync.OnceFunc(func() {
		cancel()
		group.Wait()
	})
	c.t.Cleanup(end)
	select {
	case <-first:
	case <-time.After(time.Minute):
		c.t.Fatal("the API server rejects nothing")
	}
	return end
}

// TestRealPages: a list of more than one page is read whole.
func TestRealPages(t *testing.T) {
	c := startCluster(t)
	c.apply("ServiceAccount", "Role", "RoleBinding")
	for i := range pageSize + 3 {
		c.put(pods(fmt.Sprintf("price-%03d", i), 1+i%2))
	}
	r, w := newRecorder(t, c, c.tokenOf(account), target)
	r.lists(w, "price-1 10.0.0.1:8972, price-2 10.0.0.2:8972")
	c.put(pods("price-999", 3))
	r.lists(w, "price-1 10.0.0.1:8972, price-2 10.0.0.2:8972, price-3 10.0.0.3:8972")
	if got := r.statuses(); !strings.HasPrefix(got, "OK list, OK page, OK watch") {
		t.Errorf("the responses were %s", got)
	}
	r.save("pages")
}

// TestRealServiceAccount: the way of a pod, over TLS with the files of a service account, whose
// token is replaced while the resolver runs.
func TestRealServiceAccount(t *testing.T) {
	c := startCluster(t)
	c.apply("ServiceAccount", "Role", "RoleBinding")
	c.put(pods("price-a", 1))
	host, port, _ := net.SplitHostPort(c.address)
	t.Setenv("KUBERNETES_SERVICE_HOST", host)
	t.Setenv("KUBERNETES_SERVICE_PORT", port)
	dir := t.TempDir()
	write(t, dir, "ca.crt", c.ca)
	write(t, dir, "token", c.tokenOf(account))
	resolver := Resolver(func(o *options) { o.serviceAccount = dir })
	w := watchList(t, resolver, target)
	w.sees("price-1")
	lists, err := resolver.(registry.Directory).Lists(t.Context(), mustParse(t, "kubernetes://shop"))
	if err != nil || len(lists) != 1 || lists[0].Path != "/price:tandem" {
		t.Errorf("the lists are %v, %v", lists, err)
	}
	// The account is replaced by one of the same name, so the old token is not valid any more.
	c.must(http.MethodDelete, "/api/v1/namespaces/shop/serviceaccounts/"+account, nil)
	c.apply("ServiceAccount")
	stop(c.api)
	c.startAPI()
	w.fails("401: Unauthorized")
	write(t, dir, "token", c.tokenOf(account))
	c.put(pods("price-a", 1, 2))
	w.sees("price-1", "price-2")
}

// TestRealSliceRoundTrip: what the tests put is what the API server has, so that they test what
// they seem to.
func TestRealSliceRoundTrip(t *testing.T) {
	c := startCluster(t)
	c.put(with(pods("price-a", 1), 0, false, true, true))
	var s endpointSlice
	if err := json.Unmarshal(c.must(http.MethodGet, slicesOfShop+"/price-a", nil), &s); err != nil {
		t.Fatal(err)
	}
	e := s.Endpoints[0]
	if isTrue(e.Conditions.Ready) || !isTrue(e.Conditions.Serving) || !isTrue(e.Conditions.Terminating) || e.TargetRef.UID != "uid-1" || s.Metadata.ResourceVersion == "" {
		t.Errorf("%+v", s)
	}
}
