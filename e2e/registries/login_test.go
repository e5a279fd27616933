//go:build integration

package registries

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/tandem-rpc/tandem/registry/registrytest"
)

// TestLogin runs the command with registries that want a password: without a login it says so, with one
// each of its commands gets in, and after logging out none does.
func TestLogin(t *testing.T) {
	tandem := buildTandem(t)
	for name, start := range map[string]func(t *testing.T) (registry, user string){"redis": secretRedis, "etcd": secretEtcd} {
		t.Run(name, func(t *testing.T) {
			registry, user := start(t)
			home := t.TempDir()
			password := filepath.Join(home, "password")
			if err := os.WriteFile(password, []byte(watchword+"\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			command := func(args ...string) *exec.Cmd {
				ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
				t.Cleanup(cancel)
				cmd := exec.CommandContext(ctx, tandem, args...)
				cmd.Env = append(os.Environ(), "XDG_CONFIG_HOME="+home)
				return cmd
			}
			run := func(args ...string) string {
				t.Helper()
				out, err := command(args...).CombinedOutput()
				if err != nil {
					t.Fatalf("%q: %v\n%s", args, err, out)
				}
				return string(out)
			}
			list := registry + "/shop/Cart"
			local := strings.NewReplacer("127.0.0.1", "localhost")
			if out, err := command("ls", list).CombinedOutput(); err == nil || !strings.Contains(string(out), "tandem registry login") {
				t.Errorf("without a login tandem ls says\n%s", out)
			}
			run("registry", "login", "--user", user, "--password-file", password, registry)
			if text, err := os.ReadFile(filepath.Join(home, "tandem", "contexts.yaml")); err != nil || strings.Contains(string(text), watchword) {
				t.Errorf("the password is in the file: %s, %v", text, err)
			}

			serve := command("serve", "--listen", "tcp://127.0.0.1:0", "--registry", list, "--id", "cart-1")
			said, err := serve.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := serve.Start(); err != nil {
				t.Fatal(err)
			}
			defer func() {
				_ = serve.Process.Kill()
				_ = serve.Wait() // it was killed
			}()
			if line, err := bufio.NewReader(said).ReadString('\n'); err != nil || !strings.HasPrefix(line, "serving ") {
				t.Fatalf("serve says %q, %v", line, err)
			}
			for _, c := range []struct{ wants, args string }{
				{"cart-1", "ls " + list},
				{list, "ls --lists " + registry + "/shop"},
				{`{"C":56}`, `call ` + list + ` Arith.Mul {"A":7,"B":8}`},
				{"disabled", "instance disable --by ann --force " + list + " cart-1"},
				{"/tandem-overrides", "registry ls " + list},
				{"cart-1", "ls " + local.Replace(list)},
				{local.Replace(registry), "registry logins"},
			} {
				if out := run(strings.Fields(c.args)...); !strings.Contains(out, c.wants) {
					t.Errorf("tandem %s says no %q:\n%s", c.args, c.wants, out)
				}
			}
			run("registry", "logout", registry)
			if out, err := command("ls", list).CombinedOutput(); err == nil || !strings.Contains(string(out), "tandem registry login") {
				t.Errorf("after logging out tandem ls says\n%s", out)
			}
		})
	}
}

// watchword is the password of the registries.
const watchword = "open-sesame"

func buildTandem(t *testing.T) string {
	t.Helper()
	tandem := filepath.Join(t.TempDir(), "tandem")
	build := exec.Command("go", "build", "-o", tandem, ".")
	build.Dir = filepath.Join("..", "..", "cmd", "tandem")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return tandem
}

func secretRedis(t *testing.T) (registry, user string) {
	t.Helper()
	port := registrytest.FreePort(t)
	b := &backend{
		t: t, port: port, ask: "AUTH default " + watchword + "\r\nPING\r\nQUIT\r\n", answer: "PONG",
		argv: []string{
			program(t, "redis-server", "redis-server"), "--port", fmt.Sprint(port), "--bind", "127.0.0.1", "--dir", t.TempDir(), "--save", "",
			"--requirepass", watchword,
		},
	}
	b.start()
	return fmt.Sprintf("redis://127.0.0.1:%d", port), "default"
}

func secretEtcd(t *testing.T) (registry, user string) {
	t.Helper()
	b := startEtcd(t)
	c, err := clientv3.New(clientv3.Config{Endpoints: []string{fmt.Sprintf("127.0.0.1:%d", b.port)}, DialTimeout: 10 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	for _, step := range []func() error{
		func() error { _, err := c.UserAdd(ctx, "root", watchword); return err },
		func() error { _, err := c.UserGrantRole(ctx, "root", "root"); return err },
		func() error { _, err := c.AuthEnable(ctx); return err },
	} {
		if err := step(); err != nil {
			t.Fatal(err)
		}
	}
	return fmt.Sprintf("etcd://127.0.0.1:%d", b.port), "root"
}
