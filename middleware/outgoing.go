package middleware

import (
	"bytes"
	"io"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"github.com/gofiber/fiber/v2"
	"github.com/valyala/fasthttp"

	"github.com/project-locks/gateway/configs"
)

// target is what is asked of the upstream: the request target as it was sent,
// behind the base path, and never another host.
func (f *Forward) target(c *fiber.Ctx) (string, error) {
	target := string(c.Request().Header.RequestURI())
	if target[0] != '/' || originalMethod(c.Context()) == fiber.MethodConnect {
		return "", invalid("The request target must be a path: this is no proxy to other hosts.")
	}
	path, _, _ := strings.Cut(target, "?")
	base := f.settings.Upstream.Path
	if mayBeLocks(path) || base != "" && mayClimb(path) {
		return "", fiber.ErrNotFound
	}
	return base + target, nil
}

// outgoing makes the request for the upstream.
//
// net/http repeats a request when a kept connection breaks, if it thinks that
// repeating does no harm, and it cannot be told not to. It spares requests with
// a body that it cannot rewind, and those that have neither a method it holds
// for harmless nor a header named Idempotency-Key. So GET and its like get an
// empty body, without any trace on the wire, and that header another spelling.
// What net/http repeats even then is a request of which it wrote no byte.
func (f *Forward) outgoing(c *fiber.Ctx, x *exchange, target string) (*http.Request, error) {
	client := c.Context()
	header, err := f.headers(client)
	if err != nil {
		return nil, err
	}
	host := string(c.Request().Header.Host())
	if !validHost(host) {
		return nil, invalid("The Host header is not a host name with an optional port.")
	}
	f.setForwarded(header, client, host)
	if f.settings.ProxyHost == configs.ProxyHostRewrite || host == "" {
		host = f.settings.Upstream.Host
	}
	request := &http.Request{
		Method: originalMethod(client), URL: f.url(target, host), Host: host, Header: header,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
	}
	if err := f.setBody(request, x); err != nil {
		return nil, err
	}
	if request.ContentLength == 0 && wantsWebSocket(client) {
		header.Set(fiber.HeaderConnection, "Upgrade")
		header.Set(fiber.HeaderUpgrade, webSocket)
	}
	return request, nil
}

// url makes net/http write the target as it is. It takes an opaque one that
// begins with two slashes for a host, so that one goes in as a path, and if
// net/http would write that in another way, in absolute form.
func (f *Forward) url(target, host string) *url.URL {
	u := &url.URL{Scheme: f.settings.Upstream.Scheme, Host: f.settings.Upstream.Host}
	if !strings.HasPrefix(target, "//") {
		u.Opaque = target
		return u
	}
	asPath := *u
	asPath.RawPath, asPath.RawQuery, asPath.ForceQuery = strings.Cut(target, "?")
	asPath.Path, _ = url.PathUnescape(asPath.RawPath)
	if asPath.RequestURI() == target {
		return &asPath
	}
	u.Opaque = "//" + host + target
	return u
}

// EarlyBody has the server hand over requests that are to be forwarded as soon
// as their headers are there. It would wait for the first 4 KiB of the body.
func EarlyBody(header *fasthttp.RequestHeader) fasthttp.RequestConfig {
	if bytes.HasPrefix(header.RequestURI(), []byte("/locks/")) {
		return fasthttp.RequestConfig{}
	}
	return fasthttp.RequestConfig{MaxRequestBodySize: 1}
}

// setBody gives the request its body: none, a copy of a small one, or the
// stream of a large one.
func (f *Forward) setBody(request *http.Request, x *exchange) error {
	length := x.client.Request.Header.ContentLength()
	stream := x.client.RequestBodyStream()
	if stream == nil || length == 0 {
		if harmless(request.Method) {
			request.Body, request.TransferEncoding = nothing{}, []string{"identity"}
		}
		return nil
	}
	x.upload = &upload{client: x.client, body: stream, left: int64(length), stall: f.stall, wait: x.wait}
	request.Body, request.ContentLength = x.upload, int64(length)
	switch {
	case length < 0:
		request.TransferEncoding = []string{"chunked"}
	case length <= smallBody:
		body := make([]byte, length)
		if _, err := io.ReadFull(x.upload, body); err != nil {
			return x.problem(err)
		}
		x.small = body
		x.rewind(request)
	}
	return nil
}

// rewind makes the request ready to be sent again, if that can be done.
func (x *exchange) rewind(request *http.Request) bool {
	if x.small != nil {
		request.Body = io.NopCloser(bytes.NewReader(x.small)) // known to net/http, which saves a packet
		return true
	}
	return x.upload == nil || !x.upload.begun.Load()
}

// harmless are the methods that net/http would repeat.
func harmless(method string) bool {
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace:
		return true
	}
	return false
}

// nothing is an empty body that net/http does not know to be one.
type nothing struct{}

func (nothing) Read([]byte) (int, error)         { return 0, io.EOF }
func (nothing) WriteTo(io.Writer) (int64, error) { return 0, nil } // saves net/http a buffer
func (nothing) Close() error                     { return nil }

// headers are those of the client that concern the upstream.
func (f *Forward) headers(client *fasthttp.RequestCtx) (http.Header, error) {
	trusted := f.settings.TrustedProxies.Contain(peer(client))
	header := http.Header{}
	for key, value := range client.Request.Header.AllInOrder() {
		if !validName(key) || !validValue(value) {
			return nil, invalid("A header has a name or a value that HTTP does not allow.")
		}
		name := string(key)
		bare := skeleton(name)
		if !owned[bare] && (trusted || !isHearsay(bare)) {
			header[name] = append(header[name], string(value))
		}
	}
	credential := header[fiber.HeaderAuthorization]
	removeHopByHop(header)
	if len(credential) > 0 {
		header[fiber.HeaderAuthorization] = credential // passed on whatever Connection names
	}
	if _, found := header[fiber.HeaderUserAgent]; !found {
		header[fiber.HeaderUserAgent] = nil // net/http would add its own
	}
	header.Del(fiber.HeaderHost)
	header.Del(fiber.HeaderExpect) // the server has answered it
	for _, name := range []string{"Idempotency-Key", "X-Idempotency-Key"} {
		if values, found := header[name]; found {
			delete(header, name)
			header[strings.ToLower(name)] = values
		}
	}
	return header, nil
}

// setForwarded tells the upstream where the request comes from.
func (f *Forward) setForwarded(header http.Header, client *fasthttp.RequestCtx, host string) {
	proto := "http"
	if client.IsTLS() {
		proto = "https"
	}
	way := hops(client, f.settings.TrustedProxies)
	if f.settings.TrustedProxies.Contain(way[len(way)-1]) {
		if named := strings.ToLower(joined(client, fiber.HeaderXForwardedProto)); slices.Contains([]string{"http", "https", "ws", "wss"}, named) {
			proto = named
		}
		if named := joined(client, fiber.HeaderXForwardedHost); named != "" && validHost(named) {
			host = named
		}
	}
	header.Set(fiber.HeaderXForwardedFor, join(way))
	header.Set(fiber.HeaderXForwardedProto, proto)
	if host != "" {
		header.Set(fiber.HeaderXForwardedHost, host)
	}
}

func join(addresses []netip.Addr) string {
	texts := make([]string, len(addresses))
	for i, a := range addresses {
		texts[i] = a.String()
	}
	return strings.Join(texts, ", ")
}

// hopByHop are the headers that concern one connection only.
var hopByHop = []string{
	"Connection", "Proxy-Connection", "Keep-Alive", "Proxy-Authenticate", "Proxy-Authorization",
	"Te", "Trailer", "Transfer-Encoding", "Upgrade", "Content-Length", "Http2-Settings",
}

// removeHopByHop removes them, and those that Connection names.
func removeHopByHop(header http.Header) {
	for _, line := range header[fiber.HeaderConnection] {
		for name := range strings.SplitSeq(line, ",") {
			header.Del(strings.TrimSpace(name))
		}
	}
	for _, name := range hopByHop {
		header.Del(name)
	}
}

type methodKey struct{}

// KeepMethod remembers the method of a request that is about to be routed
// under another one.
func KeepMethod(c *fasthttp.RequestCtx) { c.SetUserValue(methodKey{}, string(c.Method())) }

func originalMethod(c *fasthttp.RequestCtx) string {
	if method, ok := c.UserValue(methodKey{}).(string); ok {
		return method
	}
	return string(c.Method())
}
