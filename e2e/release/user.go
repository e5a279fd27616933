package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"strings"
)

// user is an environment without a checkout that gets the modules from a proxy. It has its own
// module cache, because a version that is not released yet must not stay in this machine's.
type user struct {
	temp    string
	version string
	env     []string
}

// newUser returns a user that gets our modules from the proxy, and others from this
// machine's module cache or its GOPROXY.
func newUser(ctx context.Context, temp, version, proxy string) (*user, error) {
	out, err := shell{}.run(ctx, "go", "env", "-json", "GOPROXY", "GOSUMDB", "GONOSUMDB", "GOTOOLCHAIN", "GOMODCACHE", "GOCACHE")
	if err != nil {
		return nil, err
	}
	var has map[string]string
	if err := json.Unmarshal([]byte(out), &has); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(temp, 0o755); err != nil {
		return nil, err
	}
	cache := filepath.Join(has["GOMODCACHE"], "cache", "download")
	return &user{temp, version, []string{
		"GOENV=off", "GOWORK=off", "GOPRIVATE=", "GONOPROXY=", "CGO_ENABLED=0",
		"GOPROXY=" + fileURL(proxy) + "," + fileURL(cache) + "," + has["GOPROXY"],
		"GONOSUMDB=" + strings.Trim(has["GONOSUMDB"]+","+root+","+root+"/*", ","),
		"GOSUMDB=" + has["GOSUMDB"], "GOTOOLCHAIN=" + has["GOTOOLCHAIN"], "GOCACHE=" + has["GOCACHE"],
		"GOPATH=" + filepath.Join(temp, "go"), "GOMODCACHE=" + filepath.Join(temp, "go", "mod"), "GOBIN=",
		// With -trimpath, the build cache also recognizes a package in another module cache.
		"GOFLAGS=-trimpath -buildvcs=false -modcacherw",
	}}, nil
}

func fileURL(name string) string { return "file://" + filepath.ToSlash(name) }

// in returns a shell in a folder of the user, which it creates if it does not exist.
func (u *user) in(name string, env ...string) (shell, error) {
	dir := filepath.Join(u.temp, name)
	return shell{dir, append(append([]string{}, u.env...), env...)}, os.MkdirAll(dir, 0o755)
}

// runHello runs the README's first program in a module outside the tree and compares its output
// with its comment "prints: ".
func (u *user) runHello(ctx context.Context, readme string) error {
	_, rest, _ := strings.Cut(readme, "\n```go\n")
	program, _, found := strings.Cut(rest, "\n```\n")
	_, comment, says := strings.Cut(program, "// prints: ")
	if !found || !says {
		return errors.New("README.md: no Go program that says what it prints")
	}
	want, _, _ := strings.Cut(comment, "\n")
	got, err := u.runProgram(ctx, "hello", program, root)
	if err == nil && got != strings.TrimSpace(want) {
		err = fmt.Errorf("README.md: the program prints %q and says %q", got, want)
	}
	return err
}

// useAll gets every released library in an empty module, and runs a program that imports
// one of them.
func (u *user) useAll(ctx context.Context, modules []*goModule) error {
	var paths []string
	for _, m := range modules {
		if m.released() {
			paths = append(paths, m.path())
		}
	}
	program := "package main\n\nimport _ \"" + root + "/registry/etcd\"\n\nfunc main() {}"
	if _, err := u.runProgram(ctx, "etcd", program, path.Join(root, "registry/etcd")); err != nil {
		return err
	}
	dir, err := u.newModule(ctx, "all", paths...)
	if err != nil {
		return err
	}
	_, err = dir.run(ctx, "go", "list", "-mod=mod", "-deps", "-f", "{{with .Error}}{{.}}{{end}}", root+"/...")
	return err
}

// newModule makes an empty module that requires others at the version.
func (u *user) newModule(ctx context.Context, name string, paths ...string) (shell, error) {
	dir, err := u.in(name)
	if err != nil {
		return dir, err
	}
	if _, err := dir.run(ctx, "go", "mod", "init", "example.com/"+name); err != nil {
		return dir, err
	}
	get := []string{"get"}
	for _, p := range paths {
		get = append(get, p+"@"+u.version)
	}
	_, err = dir.run(ctx, "go", get...)
	return dir, err
}

func (u *user) runProgram(ctx context.Context, name, program string, paths ...string) (string, error) {
	dir, err := u.newModule(ctx, name, paths...)
	if err != nil {
		return "", err
	}
	if err := os.WriteFile(filepath.Join(dir.dir, "main.go"), []byte(program), 0o644); err != nil {
		return "", err
	}
	return dir.run(ctx, "go", "run", ".")
}

// install installs the command for a system, "linux/amd64", and returns its path.
func (u *user) install(ctx context.Context, system string) (string, error) {
	goos, arch, _ := strings.Cut(system, "/")
	dir, err := u.in("install", "GOOS="+goos, "GOARCH="+arch)
	if err != nil {
		return "", err
	}
	if _, err := dir.run(ctx, "go", "install", root+"/cmd/tandem@"+u.version); err != nil {
		return "", err
	}
	name, bin := "tandem", filepath.Join(u.temp, "go", "bin")
	if goos == "windows" {
		name += ".exe"
	}
	if system != runtime.GOOS+"/"+runtime.GOARCH {
		bin = filepath.Join(bin, goos+"_"+arch)
	}
	return filepath.Join(bin, name), nil
}

// buildExamples builds the examples in the clone at tree without their replaces.
func (u *user) buildExamples(ctx context.Context, tree string, modules []*goModule) error {
	for _, m := range modules {
		if m.dir != "examples" && !strings.HasPrefix(m.dir, "examples/") {
			continue
		}
		if err := m.dropReplaces(); err != nil {
			return err
		}
		if err := m.write(tree, u.version, nil); err != nil {
			return err
		}
		dir := shell{filepath.Join(tree, m.dir), u.env}
		if _, err := dir.run(ctx, "go", "build", "-mod=mod", "-o", os.DevNull, "./..."); err != nil {
			return fmt.Errorf("%s with the released modules: %w", m.dir, err)
		}
	}
	return nil
}

// checkTidy checks with the go command that the go.mod and go.sum of each released module in the
// clone are complete.
func (u *user) checkTidy(ctx context.Context, tree string, modules []*goModule) error {
	for _, m := range modules {
		if !m.released() {
			continue
		}
		if _, err := (shell{filepath.Join(tree, m.dir), u.env}).run(ctx, "go", "mod", "tidy", "-diff"); err != nil {
			return fmt.Errorf("%s/go.mod of the release: %w", m.dir, err)
		}
	}
	return nil
}

// buildWorkspace checks that go.work still resolves every module to its folder in the clone,
// although the go.mod files require released versions.
func (u *user) buildWorkspace(ctx context.Context, tree string) error {
	dir := shell{tree, append(append([]string{}, u.env...), "GOWORK=", "GOFLAGS=-trimpath -buildvcs=false -modcacherw -mod=readonly")}
	out, err := dir.run(ctx, "go", "list", "-deps", "-f", "{{with .Module}}{{.Path}} {{.Version}}{{end}}", "work")
	if err != nil {
		return err
	}
	for _, line := range lines(out) {
		if name, version, _ := strings.Cut(line, " "); own(name) && version != "" {
			return fmt.Errorf("go.work: %s comes from the proxy at %s, want the folder in the tree: name it in go.work", name, version)
		}
	}
	return nil
}
