package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
)

// systems returns the systems to build binaries for: all of them, or only this one.
func systems(all bool) []string {
	if !all {
		return []string{runtime.GOOS + "/" + runtime.GOARCH}
	}
	return []string{"linux/amd64", "linux/arm64", "darwin/amd64", "darwin/arm64", "windows/amd64", "windows/arm64"}
}

// buildBinaries installs the command for each system into dist, twice: as u, and as a user with
// other folders, who also has an empty build cache if all is set. Both must get the same bytes.
func buildBinaries(ctx context.Context, u, other *user, dist string, all bool) (names []string, err error) {
	if all {
		other.env = append(other.env, "GOCACHE="+filepath.Join(other.temp, "build"))
	}
	for _, system := range systems(all) {
		first, err := u.install(ctx, system)
		if err != nil {
			return nil, err
		}
		second, err := other.install(ctx, system)
		if err != nil {
			return nil, err
		}
		name := "tandem-" + u.version + "-" + strings.ReplaceAll(system, "/", "-") + filepath.Ext(first)
		if err := copySame(first, second, filepath.Join(dist, name)); err != nil {
			return nil, err
		}
		names = append(names, name)
	}
	return names, nil
}

// copySame copies a file if another one has the same bytes.
func copySame(first, second, to string) error {
	a, err := os.ReadFile(first)
	if err != nil {
		return err
	}
	b, err := os.ReadFile(second)
	if err != nil {
		return err
	}
	if !bytes.Equal(a, b) {
		return fmt.Errorf("%s: two builds of the same source differ: compare them with go version -m", filepath.Base(to))
	}
	return os.WriteFile(to, a, 0o755)
}

// checkVersion checks that the binary for this system prints the right version.
func checkVersion(ctx context.Context, u *user, dist string, names []string) error {
	for _, name := range names {
		if !strings.Contains(name, "-"+runtime.GOOS+"-"+runtime.GOARCH) {
			continue
		}
		said, err := shell{}.run(ctx, filepath.Join(dist, name), "version")
		if err == nil && !strings.HasPrefix(said, "tandem "+u.version+" ") {
			err = fmt.Errorf("%s says that it is %q, want version %s", name, said, u.version)
		}
		return err
	}
	return nil
}

// writeSBOMs writes an SBOM next to each binary, which lists its modules.
func writeSBOMs(ctx context.Context, tool, dist string, names []string) (sboms []string, err error) {
	for _, name := range names {
		sbom := name + ".cdx.json"
		_, err := shell{dir: dist}.run(ctx, tool, "bin", "-json", "-noserial", "-notimestamp", "-output", sbom, name)
		if err != nil {
			return nil, err
		}
		text, err := os.ReadFile(filepath.Join(dist, sbom))
		if err != nil {
			return nil, err
		}
		if !bytes.Contains(text, []byte("pkg:golang/"+root+"@")) {
			return nil, fmt.Errorf("%s does not name %s", sbom, root)
		}
		sboms = append(sboms, sbom)
	}
	return sboms, nil
}

// writeSums writes SHA256SUMS, which "sha256sum --check" reads.
func writeSums(dist string, names []string) error {
	var out strings.Builder
	for _, name := range names {
		text, err := os.ReadFile(filepath.Join(dist, name))
		if err != nil {
			return err
		}
		fmt.Fprintf(&out, "%x  %s\n", sha256.Sum256(text), name)
	}
	return os.WriteFile(filepath.Join(dist, "SHA256SUMS"), []byte(out.String()), 0o644)
}

// errNoBuilder is returned if there is no program to build an image.
var errNoBuilder = errors.New("buildah is not installed")

// buildImage builds the image of the binary from tree's Containerfile into an OCI archive in
// dist, and returns the archive's name. buildah keeps its files in temp.
func buildImage(ctx context.Context, tree, temp, dist, binary string) (string, error) {
	if _, err := exec.LookPath("buildah"); err != nil {
		return "", errNoBuilder
	}
	if err := imageContext(tree, temp, filepath.Join(dist, binary)); err != nil {
		return "", err
	}
	name := binary + ".oci.tar"
	storage := []string{"--storage-driver", "vfs", "--root", filepath.Join(temp, "storage"), "--runroot", filepath.Join(temp, "run")}
	for _, args := range [][]string{
		{"build", "--isolation", "chroot", "--signature-policy", "policy.json", "--os", "linux", "--arch", "amd64", "--timestamp", "0", "--tag", "tandem", "."},
		{"push", "--signature-policy", "policy.json", "localhost/tandem", "oci-archive:" + filepath.Join(dist, name)},
	} {
		if _, err := (shell{dir: temp}).run(ctx, "buildah", slices.Concat(storage, args)...); err != nil {
			return "", err
		}
	}
	return name, nil
}

// imageContext copies the files that the Containerfile needs into dir: the binary, and the root
// certificates of this machine.
func imageContext(tree, dir, binary string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for to, from := range map[string]string{
		"Containerfile":       filepath.Join(tree, "Containerfile"),
		"tandem":              binary,
		"ca-certificates.crt": "/etc/ssl/certs/ca-certificates.crt",
	} {
		text, err := os.ReadFile(from)
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, to), text, 0o755); err != nil {
			return err
		}
	}
	// No image is fetched, so there are no signatures to check.
	return os.WriteFile(filepath.Join(dir, "policy.json"), []byte(`{"default": [{"type": "insecureAcceptAnything"}]}`), 0o644)
}
