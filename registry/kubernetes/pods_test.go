//go:build integration && linux

package kubernetes

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/tandem-rpc/tandem/client"
	"github.com/tandem-rpc/tandem/protocol/web"
	"github.com/tandem-rpc/tandem/server"
)

// Times of a pod in the tests; those of the guide are longer.
const (
	preStop  = time.Second
	lameDuck = time.Second
	grace    = 10 * time.Second
)

// podMain is the server of a pod, as the guide has it, until SIGTERM.
func podMain() {
	address := os.Getenv(asPod)
	srv := server.New(server.WithProtocols(web.New()), server.WithLameDuck(lameDuck))
	err := server.Handle(srv, "Price.Where", func(context.Context, *string) (*string, error) {
		time.Sleep(5 * time.Millisecond) // a call takes a while
		return &address, nil
	})
	if err == nil {
		_, err = web.RegisterHealth(srv)
	}
	stopped, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	if err == nil {
		go func() { _ = srv.Serve("tcp", address) }()
		<-stopped.Done()
		ctx, cancel := context.WithTimeout(context.Background(), grace)
		defer cancel()
		err = srv.Shutdown(ctx)
	}
	if err != nil {
		fmt.Println(err)
		os.Exit(1) //nolint:gocritic // a process that ends needs no cancel
	}
}

// podState is what Kubernetes would know of a pod.
type podState struct {
	process                     *exec.Cmd
	output                      bytes.Buffer
	ready, serving, terminating bool
}

// kubelet does what a kubelet and the controller of EndpointSlices do for the pods of the Service
// price: no such programs are there. Pod n is a process at podAddress.
type kubelet struct {
	c    *cluster
	mu   sync.Mutex
	pods map[int]*podState
}

// publish writes the slice. The mutex is held.
func (k *kubelet) publish() {
	k.c.t.Helper()
	var numbers []int
	for n := range k.pods {
		numbers = append(numbers, n)
	}
	s := pods("price-x", numbers...)
	for i, n := range numbers {
		field(s, i, "addresses", []any{fmt.Sprintf(podAddress, n)})
		with(s, i, k.pods[n].ready, k.pods[n].serving, k.pods[n].terminating)
	}
	k.c.put(s)
}

// change changes what is known of a pod, and publishes it.
func (k *kubelet) change(n int, change func(*podState)) {
	k.c.t.Helper()
	k.mu.Lock()
	defer k.mu.Unlock()
	change(k.pods[n])
	k.publish()
}

// run starts a pod and waits until its readiness probe succeeds.
func (k *kubelet) run(n int) {
	k.c.t.Helper()
	p := &podState{process: exec.Command(os.Args[0])}
	p.process.Env = append(os.Environ(), fmt.Sprintf("%s="+podAddress+":8972", asPod, n))
	p.process.Stdout, p.process.Stderr = &p.output, &p.output
	if err := p.process.Start(); err != nil {
		k.c.t.Fatal(err)
	}
	k.c.t.Cleanup(func() { _ = p.process.Process.Kill() })
	k.mu.Lock()
	k.pods[n] = p
	k.publish() // it is listed as not ready
	k.mu.Unlock()
	for start := time.Now(); !probe(n); time.Sleep(20 * time.Millisecond) { // until the process serves
		if time.Since(start) > 20*time.Second {
			k.c.t.Fatalf("pod %d is not ready", n)
		}
	}
	k.change(n, func(p *podState) { p.ready, p.serving = true, true })
}

// probe is a readiness probe: gRPC's health check, over HTTP.
func probe(n int) bool {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	url := fmt.Sprintf("http://"+podAddress+":8972/grpc.health.v1.Health/Check", n)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader("{}"))
	if err != nil {
		return false
	}
	req.Header.Set("Content-Type", "application/json")
	req.Close = true
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return false
	}
	defer func() { _ = resp.Body.Close() }()
	body, _ := io.ReadAll(resp.Body)
	return strings.Contains(string(body), `"SERVING"`)
}

// end stops a pod as Kubernetes does: its endpoint is terminating, preStop runs, SIGTERM, and its
// readiness goes on being probed until it has ended.
func (k *kubelet) end(n int) error {
	k.mu.Lock()
	p := k.pods[n]
	k.mu.Unlock()
	k.change(n, func(p *podState) { p.ready, p.terminating = false, true })
	time.Sleep(preStop) // preStop: sleep
	if err := p.process.Process.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- p.process.Wait() }()
	deadline := time.After(2 * grace)
	for {
		select {
		case err := <-ended:
			k.mu.Lock()
			defer k.mu.Unlock()
			delete(k.pods, n)
			k.publish()
			if err != nil {
				err = fmt.Errorf("pod %d: %w: %s", n, err, p.output.String())
			}
			return err
		case <-time.After(200 * time.Millisecond): // periodSeconds of the probe
			if serving := probe(n); serving != p.serving {
				k.change(n, func(p *podState) { p.serving = serving })
			}
		case <-deadline:
			return fmt.Errorf("pod %d does not end", n)
		}
	}
}

// callers make calls all the time.
type callers struct {
	calls  atomic.Int64
	mu     sync.Mutex
	last   map[string]time.Time // when the last call to an address began
	failed error
	end    func()
}

// startCallers starts callers that find the pods of a cluster with the guide's service account.
func startCallers(t *testing.T, c *cluster) *callers {
	t.Helper()
	config := write(t, c.dir, "kubeconfig", fmt.Sprintf("current-context: a\ncontexts: [{name: a, context: {cluster: b, user: c}}]\n"+
		"clusters: [{name: b, cluster: {server: 'https://%s', certificate-authority: server.crt}}]\nusers: [{name: c, user: {token: %s}}]\n", c.address, c.tokenOf(account)))
	cl, err := client.Dial(target, client.WithResolver("kubernetes", Resolver(WithKubeconfig(filepath.Clean(config)))))
	if err != nil {
		t.Fatal(err)
	}
	k := &callers{last: map[string]time.Time{}}
	ctx, cancel := context.WithCancel(context.Background())
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() {
			for ctx.Err() == nil {
				k.call(cl)
			}
		})
	}
	k.end = sync.OnceFunc(func() {
		cancel()
		group.Wait()
		cl.Close()
	})
	t.Cleanup(k.end)
	return k
}

func (k *callers) call(cl *client.Client) {
	begun := time.Now()
	address, err := client.Invoke[string](context.Background(), cl, "Price.Where", "")
	k.mu.Lock()
	defer k.mu.Unlock()
	if err != nil {
		if k.failed == nil {
			k.failed = err
		}
		return
	}
	k.calls.Add(1)
	if begun.After(k.last[*address]) {
		k.last[*address] = begun
	}
}

// lastTo returns when the last call to a pod began.
func (k *callers) lastTo(n int) time.Time {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.last[fmt.Sprintf(podAddress+":8972", n)]
}

func (k *callers) err() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.failed
}

// TestRealRollout: pods are replaced one after the other, and scaled to one, while clients call:
// no call fails, and a pod that is terminating gets no calls once clients know.
func TestRealRollout(t *testing.T) {
	c := startCluster(t)
	c.apply("ServiceAccount", "Role", "RoleBinding")
	k := &kubelet{c: c, pods: map[int]*podState{}}
	for n := 11; n <= 13; n++ {
		k.run(n)
	}
	calls := startCallers(t, c)
	for n := 11; n <= 13; n++ {
		k.run(n + 10)
		stopped := time.Now()
		if err := k.end(n); err != nil {
			t.Error(err)
		}
		if late := calls.lastTo(n).Sub(stopped); late > preStop || calls.lastTo(n).IsZero() {
			t.Errorf("pod %d got its last call %v after it was terminating", n, late)
		}
	}
	if calls.lastTo(23).IsZero() {
		t.Error("the last pod got no call")
	}
	for n := 21; n <= 22; n++ {
		if err := k.end(n); err != nil {
			t.Error(err)
		}
	}
	calls.end()
	if err := calls.err(); err != nil {
		t.Errorf("a call failed: %v", err)
	}
	if n := calls.calls.Load(); n < 500 {
		t.Errorf("only %d calls were made", n)
	}
	t.Logf("%d calls", calls.calls.Load())
}

// TestRealLastPod: the only pod still gets calls while it is terminating, until SIGTERM.
func TestRealLastPod(t *testing.T) {
	c := startCluster(t)
	c.apply("ServiceAccount", "Role", "RoleBinding")
	k := &kubelet{c: c, pods: map[int]*podState{}}
	k.run(11)
	calls := startCallers(t, c)
	for start := time.Now(); calls.calls.Load() == 0 && time.Since(start) < 20*time.Second; {
		time.Sleep(10 * time.Millisecond) // until the first call
	}
	k.change(11, func(p *podState) { p.ready, p.terminating = false, true })
	time.Sleep(2 * time.Second) // of a preStop, in which nothing should happen
	if since := time.Since(calls.lastTo(11)); since > time.Second || calls.err() != nil {
		t.Errorf("the last call was %v ago; %v", since, calls.err())
	}
	calls.end()
	if err := k.end(11); err != nil {
		t.Error(err)
	}
}
