package telemetry_test

import (
	"fmt"
	"io/fs"

	"github.com/tandem-rpc/tandem/telemetry"
)

// A program can write the files to where Grafana and Prometheus read them.
func ExampleFiles() {
	err := fs.WalkDir(telemetry.Files(), ".", func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			fmt.Println(path)
		}
		return err
	})
	fmt.Println(err)
	// Output:
	// alerts.yaml
	// dashboards/client.json
	// dashboards/registry.json
	// dashboards/server.json
	// dashboards/service.json
	// <nil>
}
