package kubernetes_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"

	"github.com/tandem-rpc/tandem/client"
	"github.com/tandem-rpc/tandem/registry"
	"github.com/tandem-rpc/tandem/registry/kubernetes"
	"github.com/tandem-rpc/tandem/server"
)

func greet(_ context.Context, name *string) (*string, error) { return new("Hello, " + *name), nil }

// apiServer stands in for the API server of a cluster: it has one pod, with this port.
func apiServer(port string) *httptest.Server {
	return httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Has("watch") {
			w.(http.Flusher).Flush()
			<-r.Context().Done()
			return
		}
		fmt.Fprintf(w, `{"metadata":{"resourceVersion":"1"},"items":[{
			"metadata":{"name":"greeter-x","labels":{"kubernetes.io/service-name":"greeter"}},"addressType":"IPv4",
			"ports":[{"name":"tandem","port":%s}],
			"endpoints":[{"addresses":["127.0.0.1"],"targetRef":{"kind":"Pod","name":"greeter-5d9c"}}]}]}`, port)
	}))
}

// A client outside of the cluster finds the pods of the Service greeter with a kubeconfig. In a pod
// it needs no option.
func Example() {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		fmt.Println(err)
		return
	}
	srv := server.New()
	if err := server.Handle(srv, "Greeter.Greet", greet); err != nil {
		fmt.Println(err)
		return
	}
	go srv.ServeListener(ln)
	defer srv.Close()
	_, port, _ := net.SplitHostPort(ln.Addr().String())
	api := apiServer(port)
	defer api.Close()
	config := filepath.Join(os.TempDir(), fmt.Sprintf("example-kubeconfig-%d", os.Getpid()))
	defer os.Remove(config)
	if err := os.WriteFile(config, []byte(kubeconfig(api.URL)), 0o600); err != nil {
		fmt.Println(err)
		return
	}

	resolver := kubernetes.Resolver(kubernetes.WithKubeconfig(config))
	c, err := client.Dial("kubernetes://shop/greeter:tandem", client.WithResolver("kubernetes", resolver))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer c.Close()
	reply, err := client.Invoke[string](context.Background(), c, "Greeter.Greet", "world")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(*reply)
	namespace, err := registry.ParseTarget("kubernetes://shop")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(resolver.(registry.Directory).Lists(context.Background(), namespace))
	// Output:
	// Hello, world
	// [kubernetes://shop/greeter:tandem] <nil>
}

func kubeconfig(url string) string {
	return strings.ReplaceAll(`
current-context: test
contexts:
- {name: test, context: {cluster: test}}
clusters:
- {name: test, cluster: {server: "URL"}}
`, "URL", url)
}
