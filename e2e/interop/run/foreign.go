package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// The scripts of clients in other languages are in the working directory, which is the
// module's folder.

// copyTo copies a file to a folder below bin.
func (e *env) copyTo(folder, file string) error {
	b, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	return errors.Join(os.MkdirAll(e.path(folder), 0o755), os.WriteFile(e.path(folder, filepath.Base(file)), b, 0o600))
}

// installed calls install unless the folder has a file mark, which it creates if install
// succeeds.
func (e *env) installed(folder, mark string, install func() error) error {
	if _, err := os.Stat(e.path(folder, mark)); err == nil {
		return nil
	}
	if err := install(); err != nil {
		return err
	}
	return os.WriteFile(e.path(folder, mark), nil, 0o600)
}

func installJS(ctx context.Context, e *env) error {
	if err := errors.Join(e.copyTo("js", "js/package.json"), e.copyTo("js", "js/clients.mjs")); err != nil {
		return err
	}
	return e.installed("js", "installed-2", func() error {
		_, err := e.output(ctx, "npm", "install", "--prefix", e.path("js"), "--ignore-scripts", "--no-audit", "--no-fund")
		return err
	})
}

func runJS(ctx context.Context, e *env) (passed, total int, err error) {
	if _, err := e.output(ctx, e.path("testservice"), "-descriptors", e.path("service.binpb")); err != nil {
		return 0, 0, err
	}
	return counted(e.output(ctx, "node", e.path("js", "clients.mjs"), e.plain.host+":"+e.plain.port, e.path("service.binpb")))
}

func installPython(ctx context.Context, e *env) error {
	if err := e.copyTo("python", "python/clients.py"); err != nil {
		return err
	}
	return e.installed("python", "installed-1", func() error {
		if _, err := e.output(ctx, "python3", "-m", "venv", e.path("python")); err != nil {
			return err
		}
		_, err := e.output(ctx, e.path("python", "bin", "pip"), "install", "-q",
			"grpcio==1.85.1", "grpcio-reflection==1.85.1", "grpcio-health-checking==1.85.1")
		return err
	})
}

func runPython(ctx context.Context, e *env) (passed, total int, err error) {
	return counted(e.output(ctx, e.path("python", "bin", "python"), e.path("python", "clients.py"), e.plain.host+":"+e.plain.port))
}

func installGRPCJava(ctx context.Context, e *env) error {
	if err := e.packages(ctx, "mvn", "default-jdk-headless", "maven"); err != nil {
		return err
	}
	if err := e.copyTo("grpc-java", "java/pom.xml"); err != nil {
		return err
	}
	return e.installed("grpc-java", "installed-"+grpcJavaVersion, func() error {
		_, err := e.output(ctx, "mvn", "-q", "-B", "-f", e.path("grpc-java", "pom.xml"),
			"org.apache.maven.plugins:maven-dependency-plugin:2.8:copy-dependencies", "-DoutputDirectory="+e.path("grpc-java", "jars"))
		return err
	})
}

// compressedCases are the cases that grpc-java's client has in addition to grpc-go's.
const compressedCases = " client_compressed_unary_noprobe server_compressed_unary client_compressed_streaming_noprobe server_compressed_streaming"

func runGRPCJava(options ...string) func(context.Context, *env) (int, int, error) {
	return func(ctx context.Context, e *env) (passed, total int, err error) {
		s, trust := &e.plain, e.path("trust.p12")
		if slices.Contains(options, "--use_tls=true") {
			s = &e.secure
			_ = os.Remove(trust) // the file of another run
			if _, err := e.output(ctx, "keytool", "-importcert", "-noprompt", "-alias", "testservice", "-file", e.path("cert.pem"),
				"-keystore", trust, "-storetype", "PKCS12", "-storepass", "changeit"); err != nil {
				return 0, 0, err
			}
		}
		return each(grpcCases+compressedCases, func(name string) error {
			_, err := e.output(ctx, "java", append([]string{
				"-Xmx192m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1",
				"-Djavax.net.ssl.trustStore=" + trust, "-Djavax.net.ssl.trustStorePassword=changeit",
				"-cp", e.path("grpc-java", "jars", "*"), "io.grpc.testing.integration.TestServiceClient",
				"--server_host=" + s.host, "--server_port=" + s.port, "--test_case=" + name,
				// The default of a second is too short on a busy machine.
				"--soak_per_iteration_max_acceptable_latency_ms=30000", "--soak_overall_timeout_seconds=60",
			}, options...)...)
			return err
		})
	}
}

func installSchemathesis(ctx context.Context, e *env) error {
	err := errors.Join(e.copyTo("schemathesis", "schemathesis/requirements.txt"), e.copyTo("schemathesis", "schemathesis/hooks.py"))
	if err != nil {
		return err
	}
	return e.installed("schemathesis", "installed-"+schemathesisVersion, func() error {
		if _, err := e.output(ctx, "python3", "-m", "venv", e.path("schemathesis")); err != nil {
			return err
		}
		_, err := e.output(ctx, e.path("schemathesis", "bin", "pip"), "install", "-q", "-r", e.path("schemathesis", "requirements.txt"))
		return err
	})
}

// runSchemathesis runs every phase but examples, as the document has no examples. It leaves out
// streams, whose bodies it can't generate, and two methods that refuse some arguments of valid types. It counts the requests that
// schemathesis generates.
func runSchemathesis(ctx context.Context, e *env) (passed, total int, err error) {
	cmd := e.command(ctx, e.path("schemathesis", "bin", "st"), "run", "http://"+e.plain.host+":"+e.plain.port+"/openapi.json",
		"--phases=coverage,fuzzing,stateful", "--max-examples=50", "--seed=1", "--no-color",
		"--exclude-path=/Arith/Div", "--exclude-path=/grpc.testing.TestService/UnaryCall", `--exclude-by=/x-tandem-kind == "stream"`)
	cmd.Env = append(os.Environ(), "SCHEMATHESIS_HOOKS="+e.path("schemathesis", "hooks.py"))
	b, err := cmd.CombinedOutput()
	if err != nil {
		err = fmt.Errorf("%w\n%s", err, tail(b))
	}
	out := string(b)
	total = count(out, `(\d+) generated`)
	return total - count(out, `\d+ generated, (\d+) found`), total, err
}

// installTogether installs the clients of interop/together, and stores their folder in e.
func installTogether(ctx context.Context, e *env) error {
	c := exec.CommandContext(ctx, "together/install.sh")
	c.Stderr = os.Stderr
	out, err := c.Output()
	e.together = strings.TrimSpace(string(out))
	return err
}

func runTogether(ctx context.Context, e *env) (passed, total int, err error) {
	c := exec.CommandContext(ctx, "go", "test", "-tags", "integration", "-race", "-v", "-count=1", "./together")
	c.Env = append(os.Environ(), "TOGETHER_CLIENTS="+e.together)
	out, err := c.CombinedOutput()
	if err != nil {
		err = fmt.Errorf("%w\n%s", err, tail(out))
	}
	return count(string(out), `(\d+) of \d+ were inside`), count(string(out), `\d+ of (\d+) were inside`), err
}

// counted reads a last line such as "12 of 13 passed".
func counted(out string, err error) (passed, total int, _ error) {
	return count(out, `(\d+) of \d+ passed`), count(out, `\d+ of (\d+) passed`), err
}
