// Package telemetry (experimental) has Grafana dashboards and Prometheus alert rules for the metrics
// of package telemetry/prom, as files.
package telemetry

import (
	"embed"
	"io/fs"
)

//go:embed alerts.yaml dashboards/*.json
var files embed.FS

// Files returns the files: alerts.yaml, and the dashboards server.json, client.json, registry.json
// and service.json in the folder dashboards. It is safe for concurrent use.
func Files() fs.FS { return files }
