package deploy

import (
	"bufio"
	"debug/elf"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/project-locks/gateway/auth"
)

// image is a Dockerfile: its instructions, in their order.
type image []struct{ name, rest string }

func dockerfile(t *testing.T) (i image) {
	t.Helper()
	for line := range strings.SplitSeq(read(t, "Dockerfile"), "\n") {
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		name, rest, _ := strings.Cut(line, " ")
		if strings.ToUpper(name) != name || strings.HasSuffix(rest, `\`) {
			t.Fatalf("not an instruction on one line: %s", line)
		}
		i = append(i, struct{ name, rest string }{name, rest})
	}
	return i
}

func (i image) all(name string) (all []string) {
	for _, instruction := range i {
		if instruction.name == name {
			all = append(all, instruction.rest)
		}
	}
	return all
}

// last is what an instruction says of the image in the end.
func (i image) last(name string) string {
	all := i.all(name)
	if len(all) == 0 {
		return ""
	}
	return all[len(all)-1]
}

func (i image) environment() map[string]string {
	environ := map[string]string{}
	for _, line := range i.all("ENV") {
		for pair := range strings.FieldsSeq(line) {
			name, value, _ := strings.Cut(pair, "=")
			environ[name] = value
		}
	}
	return environ
}

func TestTheImageHoldsTheBinaryAndNothingElse(t *testing.T) {
	i := dockerfile(t)
	if i.last("FROM") != "scratch" || i.last("ENTRYPOINT") != `["/gateway"]` || i.last("CMD") != `["serve"]` || i.last("WORKDIR") != "/data" {
		t.Errorf("from %s: %s %s in %s", i.last("FROM"), i.last("ENTRYPOINT"), i.last("CMD"), i.last("WORKDIR"))
	}
	want := []string{
		"--from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/",
		"--from=build /out/gateway /gateway",
		"--from=build --chown=" + i.last("USER") + " /out/data /data",
	}
	copied := i.all("COPY")
	if got := copied[len(copied)-len(want):]; !slices.Equal(got, want) {
		t.Errorf("copied %q, want %q", got, want)
	}
}

// build runs the command of the Dockerfile that builds the binary.
func build(t *testing.T, to string) {
	t.Helper()
	for _, command := range dockerfile(t).all("RUN") {
		if !strings.Contains(command, "-o /out/gateway ") {
			continue
		}
		run := exec.CommandContext(t.Context(), "sh", "-c", strings.Replace(command, "/out/gateway", to, 1)) //nolint:gosec // our own
		run.Dir, run.Env = "..", append(os.Environ(), "VERSION=from-the-dockerfile")
		if out, err := run.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", command, err, out)
		}
	}
}

func TestTheBinaryIsStaticAndServesFromAnEmptyFolderAsNobodySpecial(t *testing.T) {
	t.Parallel()
	root := t.TempDir() // of the container
	binary := filepath.Join(root, "gateway")
	build(t, binary)
	wantStatic(t, binary)
	r := runContainer(t, root)
	r.serves(t)
	r.stops(t)
	if files, err := os.ReadDir(filepath.Join(root, "data", "gateway-data")); err != nil || len(files) != 1 {
		t.Errorf("the store left %v in the working directory, %v", files, err)
	}
}

func wantStatic(t *testing.T, binary string) {
	t.Helper()
	file, err := elf.Open(binary)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close() //nolint:errcheck // only read
	for _, part := range file.Progs {
		if part.Type == elf.PT_INTERP || part.Type == elf.PT_DYNAMIC {
			t.Errorf("the binary has %v: it needs other files", part.Type)
		}
	}
}

// running is a gateway that runs as in the image.
type running struct {
	process       *exec.Cmd
	public, admin string
	secret        string
}

// nobody has no rights on any machine.
const nobody = 65534

// runContainer starts the binary with what the image gives it: an empty folder, no other file on the
// whole system, and a user without rights. Only root can have it so; for others it is an empty folder.
func runContainer(t *testing.T, root string) *running {
	t.Helper()
	i := dockerfile(t)
	r := &running{secret: uuid.NewString()}
	data := filepath.Join(root, i.last("WORKDIR"))
	if err := os.Mkdir(data, 0o700); err != nil {
		t.Fatal(err)
	}
	r.process = exec.CommandContext(t.Context(), filepath.Join(root, "gateway"), "serve") //nolint:gosec // just built
	r.process.Dir = data
	if os.Getuid() == 0 {
		if err := os.Chown(data, nobody, nobody); err != nil {
			t.Fatal(err)
		}
		r.process.Path, r.process.Dir = "/gateway", i.last("WORKDIR")
		r.process.SysProcAttr = &syscall.SysProcAttr{Chroot: root, Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	}
	environ := i.environment()
	maps.Copy(environ, map[string]string{
		"GATEWAY_ADDR": "127.0.0.1:0", "GATEWAY_ADMIN_ADDR": "127.0.0.1:0", // other tests run beside this one
		"GATEWAY_JWT_SECRET": r.secret,
	})
	r.process.Env = []string{}
	for name, value := range environ {
		r.process.Env = append(r.process.Env, name+"="+value)
	}
	stderr, err := r.process.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := r.process.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.process.Process.Kill() }) // if it has not ended
	r.await(t, stderr)
	return r
}

// await waits until the gateway says that it serves, and keeps what it says after that.
func (r *running) await(t *testing.T, stderr io.Reader) {
	t.Helper()
	lines := bufio.NewScanner(stderr)
	for lines.Scan() {
		var line struct{ Msg, Public, Admin string }
		if err := json.Unmarshal(lines.Bytes(), &line); err != nil {
			t.Fatalf("the gateway says %s", lines.Text())
		}
		if line.Msg == "serving" {
			r.public, r.admin = line.Public, line.Admin
			go func() { _, _ = io.Copy(io.Discard, stderr) }()
			return
		}
	}
	t.Fatal("the gateway ended instead of serving")
}

func (r *running) serves(t *testing.T) {
	t.Helper()
	key, err := auth.Mint([]byte(r.secret), auth.Grant{Kind: auth.ServiceRole, Project: uuid.New(), IssuedAt: time.Now()})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		method, url string
		status      int
	}{
		{http.MethodGet, "http://" + r.admin + "/healthz", http.StatusOK},
		{http.MethodGet, "http://" + r.admin + "/readyz", http.StatusOK},
		{http.MethodPost, "http://" + r.public + "/locks/key/lease", http.StatusCreated},
		{http.MethodGet, "http://" + r.public + "/locks/key", http.StatusOK},
	} {
		request, err := http.NewRequestWithContext(t.Context(), c.method, c.url, strings.NewReader(`{"ttl_seconds":60}`))
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Authorization", "Bearer "+key)
		request.Header.Set("X-Volcano-Lock-Token", uuid.NewString())
		answer, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		_ = answer.Body.Close()
		if answer.StatusCode != c.status {
			t.Errorf("%s %s: %d, want %d", c.method, c.url, answer.StatusCode, c.status)
		}
	}
}

func (r *running) stops(t *testing.T) {
	t.Helper()
	if err := r.process.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	late := time.AfterFunc(30*time.Second, func() { _ = r.process.Process.Kill() })
	defer late.Stop()
	if err := r.process.Wait(); err != nil {
		t.Errorf("it stopped with %v", err)
	}
}
