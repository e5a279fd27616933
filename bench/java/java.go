// Package java builds the bench's peers in Java: Maven fetches their jars, the
// message's code is generated, and what comes out is a program for each peer
// that is used like those in Go.
package java

import (
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// peer is a main class in a folder, which is named for its framework.
type peer struct{ name, folder, main string }

var peers = []peer{
	{"dubbo", "dubbo", "Dubbo"},
	{"dubbo-triple", "dubbo", "Triple"},
	{"motan", "motan", "Motan"},
	{"thrift-java", "thrift", "Thrift"},
}

// pomFile is where a framework's folder says which jars Maven has to fetch.
const pomFile = "pom.xml"

// Systems returns the names of all peers in Java.
func Systems() []string {
	var names []string
	for _, p := range peers {
		names = append(names, p.name)
	}
	return names
}

// Is tells whether a system is a peer in Java, which gets faster while it runs.
func Is(system string) bool { return slices.Contains(Systems(), system) }

// Jars returns which jars a peer in Java asks for, "group:artifact version".
// Bench is the folder of the bench's source.
func Jars(bench, system string) ([]string, error) {
	var project struct {
		Dependencies []struct {
			Group    string `xml:"groupId"`
			Artifact string `xml:"artifactId"`
			Version  string `xml:"version"`
		} `xml:"dependencies>dependency"`
	}
	i := slices.Index(Systems(), system)
	if i < 0 {
		return nil, fmt.Errorf("java: no peer %q; there are %s", system, strings.Join(Systems(), ", "))
	}
	text, err := os.ReadFile(filepath.Join(bench, "java", peers[i].folder, pomFile))
	if err != nil {
		return nil, fmt.Errorf("java: %w", err)
	}
	if err := xml.Unmarshal(text, &project); err != nil {
		return nil, fmt.Errorf("java: the %s of %s: %w", pomFile, peers[i].folder, err)
	}
	var jars []string
	for _, d := range project.Dependencies {
		jars = append(jars, fmt.Sprintf("%s:%s %s", d.Group, d.Artifact, d.Version))
	}
	return jars, nil
}

// Version returns what the virtual machine in the PATH calls itself, empty if
// there is none.
func Version(ctx context.Context) string {
	out, _ := exec.CommandContext(ctx, "java", "--version").Output()
	line, _, _ := strings.Cut(string(out), "\n")
	return line
}

// Build builds those of the systems that are in Java, each as a program of its
// name in the folder dir. Bench is the folder of the bench's source. It returns
// why each system that could not be built could not.
func Build(ctx context.Context, bench, dir string, systems []string) (missing map[string]string) {
	missing = make(map[string]string)
	frameworks := make(map[string]error)
	for _, p := range peers {
		if !slices.Contains(systems, p.name) {
			continue
		}
		b := build{bench: bench, framework: p.folder, dir: filepath.Join(dir, "java-"+p.folder)}
		err, tried := frameworks[p.folder]
		if !tried {
			err = b.run(ctx)
			frameworks[p.folder] = err
		}
		if err == nil {
			err = b.writeProgram(p, filepath.Join(dir, p.name))
		}
		if err != nil {
			missing[p.name] = err.Error()
		}
	}
	return missing
}

// build builds what the peers of a framework have in common, in dir.
type build struct{ bench, framework, dir string }

func (b build) source() string    { return filepath.Join(b.bench, "java", b.framework) }
func (b build) jars() string      { return filepath.Join(b.dir, "lib") }
func (b build) generated() string { return filepath.Join(b.dir, "generated") }
func (b build) classes() string   { return filepath.Join(b.dir, "classes") }

func (b build) run(ctx context.Context) error {
	if err := os.MkdirAll(b.generated(), 0o755); err != nil {
		return fmt.Errorf("java: %w", err)
	}
	message := filepath.Join(b.bench, "message")
	steps := [][]string{
		{
			"mvn", "-q", "-B", "-f", filepath.Join(b.source(), pomFile),
			"org.apache.maven.plugins:maven-dependency-plugin:2.8:copy-dependencies", "-DoutputDirectory=" + b.jars(),
		},
		{"protoc", "--java_out=" + b.generated(), "-I" + message, "message.proto"},
	}
	if b.framework == "thrift" {
		idl := filepath.Join(b.bench, "peers", "thrift", "hello.thrift")
		steps = append(steps, []string{"thrift", "--gen", "java:generated_annotations=suppress", "-out", b.generated(), idl})
	}
	for _, step := range steps {
		if err := execute(ctx, step); err != nil {
			return err
		}
	}
	return errors.Join(b.compile(ctx), b.writeHosts())
}

func (b build) compile(ctx context.Context) error {
	javac := []string{"javac", "-nowarn", "-encoding", "UTF-8", "-d", b.classes(), "-cp", filepath.Join(b.jars(), "*")}
	for _, dir := range []string{filepath.Join(b.bench, "java", "load"), b.source(), b.generated()} {
		err := filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
			if strings.HasSuffix(path, ".java") {
				javac = append(javac, path)
			}
			return err
		})
		if err != nil {
			return fmt.Errorf("java: %w", err)
		}
	}
	return execute(ctx, javac)
}

// writeHosts writes the host names that a virtual machine may be told to know:
// the machine's own, and one for the loopback address that does not look like
// it.
func (b build) writeHosts() error {
	host, err := os.Hostname()
	if err != nil {
		return fmt.Errorf("java: %w", err)
	}
	hosts := fmt.Sprintf("127.0.0.1 loopback.bench localhost %s\n", host)
	if err := os.WriteFile(filepath.Join(b.dir, "hosts"), []byte(hosts), 0o600); err != nil {
		return fmt.Errorf("java: %w", err)
	}
	return nil
}

// flagsFile is where a framework keeps what its virtual machine needs besides;
// {dir} stands for the folder in which it is built.
const flagsFile = "java.flags"

// writeProgram writes a shell script that runs the peer. An interrupt from the
// terminal is not for the virtual machine: the harness ends it. The locale lets
// it read the µ of a duration.
func (b build) writeProgram(p peer, path string) error {
	flags, err := os.ReadFile(filepath.Join(b.source(), flagsFile))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("java: %w", err)
	}
	line := strings.ReplaceAll(strings.TrimSpace(string(flags)), "{dir}", quoted(b.dir))
	classes := b.classes() + string(filepath.ListSeparator) + filepath.Join(b.jars(), "*")
	script := fmt.Sprintf("#!/bin/sh\ntrap '' INT\nexport LC_ALL=C.UTF-8\nexec java %s -cp %s %s \"$@\"\n", line, quoted(classes), p.main)
	if err := os.WriteFile(path, []byte(script), 0o700); err != nil {
		return fmt.Errorf("java: %w", err)
	}
	return nil
}

// quoted is a word of a shell script.
func quoted(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

// execute runs a program; its error has the first line that the program said.
func execute(ctx context.Context, line []string) error {
	out, err := exec.CommandContext(ctx, line[0], line[1:]...).CombinedOutput()
	if errors.Is(err, exec.ErrNotFound) {
		return fmt.Errorf("java: the peers need a JDK, Maven, protoc and thrift's compiler, which bench/java/tools.sh installs: %w", err)
	}
	if err != nil {
		plain := strings.ReplaceAll(string(out), "\x1b[0m", "") // Maven resets colours that it was told not to use
		said, _, _ := strings.Cut(strings.TrimSpace(plain), "\n")
		return fmt.Errorf("java: %s: %w: %s", line[0], err, said)
	}
	return nil
}
